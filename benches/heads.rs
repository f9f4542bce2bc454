//! One training step of every head (forward pass, loss, backward pass, AdamW): B 256, N 196, d 768, 1000 classes,
//! tokens in memory. `-channel` after an id stands for channel-wise parameters, `joint` for all the paper's heads in
//! one step.
//!
//! `cargo bench --bench heads [-- HEAD]`. `ssmprobe bench` times the same steps in turn with GAP's, and prints their
//! memory too.

use std::time::Duration;

use burn::tensor::{Device, Distribution, Tensor};
use criterion::{Criterion, criterion_group, criterion_main};
use ssmprobe::app::process_memory;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::head::{Batch, Config, Dims, HEADS, Sharing, find, of_paper};
use ssmprobe::model::train::classifier::Model;
use ssmprobe::model::train::{HeadTrainer, Labels, step_all};

const IMAGES: usize = 256;
const DIMS: Dims = Dims { width: 768, grid: Grid::new(14, 14), classes: 1000 };

fn batch(device: &Device) -> Batch {
    let (n, d) = (DIMS.grid.len(), DIMS.width);
    Batch {
        patches: Tensor::random([IMAGES, n, d], Distribution::Normal(0.0, 1.0), device),
        cls: Some(Tensor::random([IMAGES, d], Distribution::Normal(0.0, 1.0), device)),
        grid: DIMS.grid,
        image_seeds: (0..IMAGES as u64).collect(),
        training: true,
    }
}

fn trainer(name: &str) -> HeadTrainer {
    let (id, sharing) = match name.strip_suffix("-channel") {
        Some(id) => (id, Sharing::Channel),
        None => (name, Sharing::Shared),
    };
    let kind = find(id).unwrap_or_else(|| panic!("no head is called `{id}`"));
    let config = Config { sharing: Some(sharing), ..Config::default() };
    HeadTrainer::new(name, Model::start(kind, &config, DIMS, 0, &Device::flex()).expect("default settings"))
}

fn steps(c: &mut Criterion) {
    process_memory::keep_freed(); // as the program does
    let device = Device::flex().autodiff();
    let classes: Vec<usize> = (0..IMAGES).map(|i| i * 7 % DIMS.classes).collect();
    let (batch, labels) = (batch(&device), Labels::new(&classes, &device));
    let mut group = c.benchmark_group("step");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    let channel = ["raster-channel", "vmamba-channel", "sinkhorn-channel"];
    for name in HEADS.iter().map(|kind| kind.id).chain(channel).chain(["joint"]) {
        let heads = if name == "joint" { of_paper().map(|kind| kind.id).collect() } else { vec![name] };
        let mut trainers: Vec<HeadTrainer> = heads.iter().map(|name| trainer(name)).collect();
        group.bench_function(name, |b| b.iter(|| step_all(&mut trainers, &batch, &labels, |_| 1e-3)));
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
