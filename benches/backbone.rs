//! Forward pass of ViT-B/16 on one image of 224 x 224 pixels and on eight, on the processor. Weights are drawn from a
//! seed: their values do not change the time, and no file is needed.
//!
//! `cargo bench --bench backbone`

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ssmprobe::app::devtools::microbench::backbone::{Vit, images, write_vit};
use ssmprobe::app::process_memory;
use ssmprobe::model::backbone::Backbone;
use ssmprobe::model::backbone::preprocess::Pixels;
use ssmprobe::model::device;

fn forward(criterion: &mut Criterion) {
    process_memory::keep_freed(); // as the program does
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_vit(folder.path(), Vit::Base).expect("a temporary folder can be written");
    let device = device::open("cpu").expect("the processor");
    let backbone = Backbone::open(folder.path(), &device).expect("the backbone just written");
    let mut group = criterion.benchmark_group("vit-b16-forward");
    group.sample_size(10);
    for count in [1, 8] {
        group.throughput(Throughput::Elements(count as u64)); // images
        group.bench_function(format!("batch-{count}"), |bencher| {
            let run = |images: Vec<Pixels>| backbone.forward(&images).expect("tokens");
            bencher.iter_batched(|| images(count, 224), run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, forward);
criterion_main!(benches);
