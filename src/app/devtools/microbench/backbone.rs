//! The backbone's forward pass, from pixels on the host to tokens on the host.
//!
//! `backbone/vit-base/forward` in seconds for all images of a pass, `backbone/vit-base/rate` in images a
//! second. Another backbone stands under the name of its folder.

use std::path::Path;

use anyhow::Context as _;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};

use super::timing::{Work, in_turn};
use super::{Bench, Group, Measured, Sizes, Tell, at_folder, noise};
use crate::model::backbone::preprocess::Pixels;
use crate::model::backbone::{self, Backbone, config::Config, keys};

pub(super) const GROUP: Group = Group { names, measure };

const SIDE: usize = 224;

fn names(sizes: &Sizes) -> Vec<String> {
    let name = sizes.backbone.as_deref().map_or("vit-base".into(), backbone::id);
    ["forward", "rate"].map(|what| format!("backbone/{name}/{what}")).into()
}

fn measure(bench: &Bench, tell: Tell) -> anyhow::Result<Measured> {
    let photos = bench.sizes.photos;
    let model = match &bench.sizes.backbone {
        Some(folder) => Backbone::open(folder, bench.device)?,
        None => {
            let folder = tempfile::tempdir().with_context(|| at_folder(&std::env::temp_dir()))?;
            write_vit_base(folder.path())?;
            Backbone::open(folder.path(), bench.device)?
        }
    };
    let images = images(photos, SIDE);
    let [forward, rate] = names(bench.sizes).try_into().expect("two names");
    let run = || {
        std::hint::black_box(model.forward(&images)?);
        Ok(())
    };
    let seconds = in_turn(&mut [Work::new(forward.clone(), run)], bench.sizes.rounds, tell)?[0];
    Ok(vec![(forward, seconds, "s"), (rate, photos as f64 / seconds, "images/s")])
}

/// Images of seeded noise, `side` x `side` pixels.
pub fn images(count: usize, side: usize) -> Vec<Pixels> {
    let image = |seed| Pixels { height: side, width: side, values: noise(seed, 3 * side * side) };
    (0..count as u64).map(image).collect()
}

/// Writes a ViT-B/16 with seeded weights into `folder`, as the Hub lays it out.
pub fn write_vit_base(folder: &Path) -> anyhow::Result<()> {
    let failed = || at_folder(folder);
    let config = serde_json::json!({
        "model_type": "vit", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": true,
        "image_size": SIDE, "patch_size": 16, "num_channels": 3,
    });
    crate::model::io::atomic_file::write(&folder.join("config.json"), config.to_string().as_bytes())
        .with_context(failed)?;
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = keys::expected(&Config::open(folder)?, "")
        .into_iter()
        .map(|(name, shape)| {
            let count = shape.iter().product();
            let bytes = (0..count).flat_map(|_| rng.random_range(-0.03_f32..0.03).to_le_bytes()).collect();
            (name, shape, bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("bytes that fill the shape"))
    });
    serialize_to_file(views, None, &folder.join("model.safetensors")).with_context(failed)
}
