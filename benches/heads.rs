//! Every head, forward and forward with backward, at the paper's size: d 768, N 196, C 1000; 32 images.

use std::hint::black_box;

use burn::tensor::{Device, Distribution, Tensor};
use criterion::{Criterion, criterion_group, criterion_main};
use ssmprobe::model::classifier::Model;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::head::{Batch, Config, Dims, HEADS, Sharing};
use ssmprobe::model::params::Constraint;

const IMAGES: usize = 32;
const DIMS: Dims = Dims { width: 768, grid: Grid::new(14, 14), classes: 1000 };

fn batch(device: &Device) -> Batch {
    let (n, d) = (DIMS.grid.len(), DIMS.width);
    Batch {
        patches: Tensor::random([IMAGES, n, d], Distribution::Default, device),
        cls: Some(Tensor::random([IMAGES, d], Distribution::Default, device)),
        grid: DIMS.grid,
        draws: (0..IMAGES as u64).collect(),
        training: true,
    }
}

fn heads(criterion: &mut Criterion) {
    let (plain, tracked) = (Device::flex(), Device::flex().autodiff());
    let (plain_batch, tracked_batch) = (batch(&plain), batch(&tracked));
    for kind in HEADS {
        let scans = kind.summary.starts_with("S4");
        for sharing in if scans { &[Sharing::Shared, Sharing::Channel][..] } else { &[Sharing::Shared] } {
            let config = Config { sharing: Some(*sharing), ..Config::default() };
            let name =
                if *sharing == Sharing::Channel { format!("{}-channel", kind.id) } else { kind.id.into() };
            let mut group = criterion.benchmark_group(name);
            group.sample_size(10);
            let model = Model::start(kind, &config, DIMS, 0, &plain).expect("default settings");
            group.bench_function("forward", |bench| {
                bench.iter(|| black_box(model.logits(&plain_batch).into_data()));
            });
            let model = Model::start(kind, &config, DIMS, 0, &tracked).expect("default settings");
            let params = model.params().clone().map(|spec, value| match spec.constraint {
                Constraint::Fixed => value,
                _ => value.require_grad(),
            });
            let model = model.with_params(params);
            group.bench_function("forward and backward", |bench| {
                bench.iter(|| {
                    let gradients = model.logits(&tracked_batch).powi_scalar(2).mean().backward();
                    let (_, bias) = model.params().iter().last().expect("a classifier");
                    black_box(bias.grad(&gradients).expect("a gradient").into_data());
                });
            });
            group.finish();
        }
    }
}

criterion_group!(benches, heads);
criterion_main!(benches);
