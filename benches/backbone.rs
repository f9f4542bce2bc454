//! How long ViT-B/16 takes for one image of 224 x 224 pixels and for eight, on the processor.
//! Weights are seeded: their values do not change the time, and no file is needed.
//!
//! `cargo bench --bench backbone`

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};
use ssmprobe::model::backbone::{Backbone, config::Config, keys};
use ssmprobe::model::device;
use ssmprobe::model::preprocess::Pixels;

/// Sides of the image, in pixels.
const SIDE: usize = 224;

/// Writes a ViT-B/16 into `folder`, as the Hub lays it out.
fn write_backbone(folder: &Path) {
    let config = serde_json::json!({
        "model_type": "vit", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": true,
        "image_size": SIDE, "patch_size": 16, "num_channels": 3,
    });
    fs::write(folder.join("config.json"), config.to_string()).expect("a temporary folder can be written");
    let config = Config::open(folder).expect("a valid configuration");
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut draw = |count: usize| -> Vec<u8> {
        (0..count).flat_map(|_| rng.random_range(-0.03_f32..0.03).to_le_bytes()).collect()
    };
    let tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = keys::expected(&config, "")
        .into_iter()
        .map(|(name, shape)| {
            let bytes = draw(shape.iter().product());
            (name, (shape, bytes))
        })
        .collect();
    let views = tensors.iter().map(|(name, (shape, bytes))| {
        (name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("bytes that fill the shape"))
    });
    serialize_to_file(views, None, &folder.join("model.safetensors"))
        .expect("a temporary folder can be written");
}

/// Images of seeded noise.
fn images(count: usize) -> Vec<Pixels> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut image = || (0..3 * SIDE * SIDE).map(|_| rng.random_range(-1.0..1.0)).collect();
    (0..count).map(|_| Pixels { height: SIDE, width: SIDE, values: image() }).collect()
}

fn forward(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_backbone(folder.path());
    let device = device::open("cpu").expect("the processor");
    let backbone = Backbone::open(folder.path(), &device).expect("the backbone just written");
    let mut group = criterion.benchmark_group("vit-b16-forward");
    group.sample_size(10);
    for count in [1, 8] {
        group.throughput(Throughput::Elements(count as u64)); // images
        group.bench_function(format!("batch-{count}"), |bencher| {
            let run = |images: Vec<Pixels>| backbone.forward(&images).expect("tokens");
            bencher.iter_batched(|| images(count), run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, forward);
criterion_main!(benches);
