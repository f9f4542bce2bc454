//! The `config.json` of a timm model, as its repositories on the Hub and `timm.models.save_for_hf` have it: how images are
//! preprocessed, and the arguments by which the model differs from its architecture.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::OriginalError;
use super::preprocessing::PretrainedCfg;
use crate::model::io::atomic_file;

/// Largest `config.json` read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Arguments that names and shapes of the weights tell, or that do not change the tokens of a frozen model.
const IGNORED_ARGUMENTS: &str = "\
    attn_drop_rate class_token depth drop_path_rate drop_rate dynamic_img_pad dynamic_img_size embed_dim fc_norm \
    final_norm fix_init global_pool head_init_scale img_size in_chans init_values mlp_ratio no_embed_class num_classes \
    num_reg_tokens patch_drop_rate patch_size pool_include_prefix pos_drop_rate pos_embed pre_norm proj_bias \
    proj_drop_rate qk_norm qkv_bias qkv_fused reg_tokens scale_attn_inner scale_attn_norm scale_mlp scale_mlp_norm \
    strict_img_size swiglu_mlp use_abs_pos_emb use_fc_norm use_rel_pos_bias use_shared_rel_pos_bias weight_init";

/// timm's names of activations, and those of `config.json` in transformers.
const ACTIVATIONS: &[(&str, &str)] = &[
    ("gelu", "gelu"),
    ("gelu_tanh", "gelu_pytorch_tanh"),
    ("quick_gelu", "quick_gelu"),
    ("relu", "relu"),
    ("silu", "silu"),
    ("swish", "silu"),
];

/// What the `config.json` of a timm model says.
pub(super) struct TimmConfig {
    path: PathBuf,
    /// The preprocessing of its images, if it is valid.
    preprocessing: Option<PretrainedCfg>,
    model_args: Map<String, Value>,
}

impl TimmConfig {
    /// That of the checkpoint at `path`, a file or a folder; `None` if none is beside it.
    pub fn beside(path: &Path) -> Option<Self> {
        let folder = if path.is_dir() { path } else { path.parent()? };
        let path = folder.join("config.json");
        let Value::Object(mut file) =
            serde_json::from_slice(&atomic_file::read(&path, MAX_BYTES).ok()?).ok()?
        else {
            return None;
        };
        let model_args = match file.remove("model_args") {
            Some(Value::Object(args)) => args.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        };
        // Old files are the preprocessing themselves.
        let preprocessing = file.remove("pretrained_cfg").unwrap_or(Value::Object(file));
        let preprocessing = serde_json::from_value(preprocessing).ok();
        Some(Self { path, preprocessing: preprocessing.filter(PretrainedCfg::is_valid), model_args })
    }

    /// Whether it may be that of a model of images of this height and width: one of another model may lie beside a file.
    pub fn is_of(&self, image: [usize; 2]) -> bool {
        let read = |size: &Value| serde_json::from_value::<[usize; 2]>(size.clone()).ok();
        let given = |size: &Value| size.as_u64().map(|edge| [edge as usize; 2]).or_else(|| read(size));
        let said = self.model_args.get("img_size").and_then(given);
        let said = said.or_else(|| self.preprocessing.as_ref().map(PretrainedCfg::image));
        said.is_none_or(|said| said == image)
    }

    /// The preprocessing of its images, if it is valid.
    ///
    /// # Errors
    /// If its crop mode pads images, or is unknown, or images are not resized by a known filter.
    pub fn preprocessing(&self) -> Result<Option<&PretrainedCfg>, OriginalError> {
        let Some(own) = &self.preprocessing else { return Ok(None) };
        let path = || self.path.clone();
        match (own.unknown_crop_mode(), own.unknown_filter()) {
            (None, None) => Ok(Some(own)),
            (Some(mode), _) => Err(OriginalError::CropMode { path: path(), found: mode.to_owned() }),
            (_, Some(name)) => Err(OriginalError::Filter { path: path(), found: name.to_owned() }),
        }
    }

    /// The number of attention heads of a model of such images, if it is not the architecture's.
    pub fn heads(&self, image: [usize; 2]) -> Option<usize> {
        let heads = self.model_args.get("num_heads")?.as_u64()?.try_into().ok();
        heads.filter(|_| self.is_of(image))
    }

    /// The `hidden_act` of the model in transformers, if it is not the architecture's. `gated`: whether its feed-forward networks are.
    ///
    /// # Errors
    /// If the model has arguments that may change its tokens and are not known here.
    pub fn activation(&self, gated: bool) -> Result<Option<&'static str>, OriginalError> {
        let known = |value: &Value| ACTIVATIONS.iter().find(|(name, _)| value == name).map(|(_, own)| *own);
        let activation = self.model_args.get("act_layer").and_then(known);
        let activation = activation.filter(|act| !gated || *act == "silu");
        let is_known = |(name, value): &(&String, &Value)| match name.as_str() {
            "act_layer" => activation.is_some(),
            "num_heads" => value.is_u64(),
            name => IGNORED_ARGUMENTS.split(' ').any(|known| known == name),
        };
        match self.model_args.iter().find(|argument| !is_known(argument)) {
            None => Ok(activation),
            Some((name, value)) => {
                let value = value.to_string().chars().take(80).collect();
                Err(OriginalError::ModelArg { path: self.path.clone(), name: name.clone(), value })
            }
        }
    }
}
