//! A pre-trained backbone as a folder in the format of the Hugging Face Hub: `config.json`,
//! `preprocessor_config.json` and `model.safetensors`, which transformers opens too.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use half::f16;
use safetensors::SafeTensorError;
use serde_json::{Value, json};

use super::{Objective, Plan};
use crate::model::data::token_cache::Precision;
use crate::model::io::array::{Array, Arrays, Tensor, to_safetensors};
use crate::model::io::{atomic_file, block};

/// Why a folder could not be written.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{path} cannot be written; check that the folder is writable and the disk has free space")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("the weights do not fit into a safetensors file")]
    Weights(#[from] SafeTensorError),
}

/// Writes the weights of a backbone of this plan to `folder`, which is created if absent.
pub fn save(folder: &Path, plan: &Plan, weights: &Arrays, precision: Precision) -> Result<(), FolderError> {
    atomic_file::make_folder(folder)
        .map_err(|source| FolderError::Write { path: folder.to_owned(), source })?;
    let tensors: Vec<Tensor> = weights.iter().map(|(name, array)| tensor(name, array, precision)).collect();
    let weights = to_safetensors(&tensors, HashMap::from([("format".to_owned(), "pt".to_owned())]))?;
    write_atomically(&folder.join("config.json"), &text(&config(plan)))?;
    write_atomically(&folder.join("preprocessor_config.json"), &text(&preprocessor(plan.recipe.side)))?;
    write_atomically(&folder.join("model.safetensors"), &weights)
}

fn tensor(name: &str, Array { shape, data }: &Array, precision: Precision) -> Tensor {
    let bytes = match precision {
        Precision::Float16 => data.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        Precision::Float32 => block::bytes(data),
    };
    (name.to_owned(), shape.clone(), precision.dtype(), bytes)
}

fn config(plan: &Plan) -> Value {
    let (model_type, architecture) = match plan.objective {
        Objective::Masked => ("vit_mae", "ViTMAEModel"),
        Objective::Supervised => ("vit", "ViTModel"),
    };
    json!({
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_size": plan.width,
        "num_hidden_layers": plan.layers,
        "num_attention_heads": plan.heads(),
        "intermediate_size": 4 * plan.width,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "qkv_bias": true,
        "image_size": plan.recipe.side,
        "patch_size": plan.recipe.patch,
        "num_channels": 3,
        "mask_ratio": plan.recipe.mask_ratio,
    })
}

fn preprocessor(side: usize) -> Value {
    json!({
        "image_processor_type": "ViTImageProcessor",
        "do_resize": true,
        "size": {"height": side, "width": side},
        "resample": 2,
        "do_rescale": true,
        "rescale_factor": 1.0 / 255.0,
        "do_normalize": true,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    })
}

fn text(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    atomic_file::write(path, bytes).map_err(|source| FolderError::Write { path: path.to_owned(), source })
}
