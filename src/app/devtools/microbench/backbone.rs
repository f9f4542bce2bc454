//! The backbone's forward pass, from pixels on the host to tokens on the host.
//!
//! `backbone/vit-base/forward` in seconds for all images of a pass, `backbone/vit-base/rate` in images a
//! second; in half precision `backbone/vit-base-bfloat16/…`. A given backbone is named after its folder.

use clap::ValueEnum;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};

use super::timing::{Work, median_seconds};
use super::{Group, Measured, OnRun, Setup, Sizes, check_memory, noise, unwritable};
use crate::app::devtools::prelude::*;
use crate::model::backbone::arithmetic::Arithmetic;
use crate::model::backbone::preprocess::Pixels;
use crate::model::backbone::{self, Backbone, config::Config, keys};

pub(super) const GROUP: Group = Group { names, check, measure };

const SIDE: usize = 224;

/// A ViT of seeded weights with patches of 16 pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Vit {
    /// 12 layers of width 768.
    #[default]
    Base,
    /// 24 layers of width 1024.
    Large,
}

fn names(sizes: &Sizes) -> Vec<String> {
    let name = match (&sizes.backbone, sizes.vit) {
        (Some(folder), _) => backbone::id(folder),
        (None, Vit::Base) => "vit-base".into(),
        (None, Vit::Large) => "vit-large".into(),
    };
    let precision = match sizes.arithmetic {
        Arithmetic::Float32 => String::new(),
        half => format!("-{}", half.name()),
    };
    ["forward", "rate"].map(|what| format!("backbone/{name}{precision}/{what}")).into()
}

fn check(setup: &Setup) -> anyhow::Result<()> {
    let Sizes { photos, arithmetic, .. } = *setup.sizes;
    match &setup.sizes.backbone {
        Some(folder) if !folder.is_dir() => {
            refuse!("--backbone {}: no such folder; check the path", folder.display());
        }
        Some(folder) => _ = Backbone::open_in(folder, setup.device, arithmetic)?.grid(SIDE, SIDE)?,
        None => arithmetic.check(setup.device)?,
    }
    check_memory(4 * (photos * 3 * SIDE * SIDE) as u64, "--photos")
}

fn measure(setup: &Setup, on_run: OnRun) -> anyhow::Result<Measured> {
    let Sizes { photos, arithmetic, vit, .. } = *setup.sizes;
    let model = match &setup.sizes.backbone {
        Some(folder) => Backbone::open_in(folder, setup.device, arithmetic)?,
        None => {
            let folder = temporary::folder().with_context(unwritable)?;
            write_vit(folder.path(), vit).with_context(unwritable)?;
            Backbone::open_in(folder.path(), setup.device, arithmetic)?
        }
    };
    let images: Vec<Pixels> = (0..photos as u64).map(image).collect();
    let [forward, rate] = names(setup.sizes).try_into().expect("two names");
    let run = || {
        std::hint::black_box(model.forward(&images)?);
        Ok(())
    };
    let seconds = median_seconds(&mut [Work::new(forward.clone(), run)], setup.sizes.rounds, on_run)?[0];
    Ok(vec![(forward, seconds, "s"), (rate, photos as f64 / seconds, "images/s")])
}

/// An image of seeded noise, `[3, SIDE, SIDE]`.
fn image(seed: u64) -> Pixels {
    Pixels { height: SIDE, width: SIDE, values: noise(seed, 3 * SIDE * SIDE) }
}

/// Writes a ViT with seeded weights into `folder`, in the layout of the Hugging Face Hub.
fn write_vit(folder: &Path, vit: Vit) -> anyhow::Result<()> {
    let (width, layers) = match vit {
        Vit::Base => (768, 12),
        Vit::Large => (1024, 24),
    };
    let config = serde_json::json!({
        "model_type": "vit", "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": width / 64,
        "intermediate_size": 4 * width, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": true,
        "image_size": SIDE, "patch_size": 16, "num_channels": 3,
    });
    atomic_file::write(&folder.join("config.json"), config.to_string().as_bytes())?;
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
    serialize_to_file(views, None, &folder.join("model.safetensors"))?;
    Ok(())
}
