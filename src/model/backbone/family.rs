//! The differences between the families of vision transformers, as plain data: the tokens before the
//! patches, position encodings, defaults of their `config.json`. The names of their weights are in
//! [`super::names`]; the list of families is [`super::FAMILIES`].

use super::config::Activation;
use super::names::{self, Names};
use super::position::Kernel;

/// A family of backbones.
#[derive(Debug)]
pub struct Family {
    /// `model_type` of its `config.json`.
    pub model_type: &'static str,
    /// Its name for display.
    pub name: &'static str,
    /// Prefix of its weights' names in files that hold more than the encoder.
    pub prefix: &'static str,
    /// Prefixes of other tensors in such files, besides the heads listed in [`super::keys`].
    pub beside: &'static [&'static str],
    /// Objects of `config.json` that may hold its fields; the first one present does. Empty: the whole file.
    pub within: &'static [&'static str],
    /// The fields by which its `config.json` describes layers.
    pub schema: ConfigSchema,
    /// The names of its weights.
    pub names: &'static Names,
    /// Whether a CLS token comes before all others.
    pub cls: bool,
    /// The tokens between CLS and the patches.
    pub prefix_kind: PrefixKind,
    /// The position encoding.
    pub positions: Positions,
    /// Whether the projection of patches has a bias.
    pub patch_bias: bool,
    /// Values of fields that `config.json` leaves out.
    pub defaults: Defaults,
}

impl PartialEq for Family {
    fn eq(&self, other: &Self) -> bool {
        self.model_type == other.model_type
    }
}

/// The fields by which `config.json` describes layers; [`super::config`] interprets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSchema {
    /// `qkv_bias`.
    Vit,
    /// `use_relative_position_bias`, `layer_scale_init_value`, `use_mean_pooling`; keys have no bias.
    Beit,
    /// `mlp_ratio`, `use_swiglu_ffn`, `qkv_bias`; layer scale always.
    Dinov2,
    /// A flag for every bias, `use_gated_mlp`, `rope_theta`; layer scale always.
    Dinov3,
    /// `qkv_bias`, `use_attention_norm`, `use_mlp_norm`, `rope_theta`, `rope_reference_size`, `use_mean_pooling`; keys have no
    /// bias, and the feed-forward network is gated.
    Eva02,
    /// No fields: all layers have one form.
    Clip,
}

/// The tokens between CLS and the patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixKind {
    /// Nothing.
    None,
    /// Register tokens, without positions; the number is the default of `num_register_tokens`.
    Registers(usize),
    /// One distillation token, trained against a teacher, with its own position.
    Distillation,
}

/// The position encoding of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// A table added to the embeddings, resampled with this kernel.
    Absolute(Kernel),
    /// Tables of relative biases, if `config.json` says so; and an absolute one, resampled with this kernel, if it says so.
    Relative(Kernel),
    /// Rotary positions of queries and keys.
    Rotary,
    /// Rotary positions, and a table added to the embeddings, resampled with this kernel.
    RotaryAndAbsolute(Kernel),
}

/// Values of fields that `config.json` leaves out.
#[derive(Debug, PartialEq)]
pub struct Defaults {
    /// `hidden_size`.
    pub width: usize,
    /// `num_attention_heads`.
    pub heads: usize,
    /// `intermediate_size`.
    pub mlp_dim: usize,
    /// `patch_size`.
    pub patch: usize,
    /// `hidden_act`.
    pub activation: Activation,
    /// `layer_norm_eps`.
    pub epsilon: f64,
}

const BASE: Defaults = Defaults {
    width: 768,
    heads: 12,
    mlp_dim: 3072,
    patch: 16,
    activation: Activation::Gelu,
    epsilon: 1e-12,
};

/// Dosovitskiy et al., 2021; also DINO (Caron et al., 2021), MoCo v3 (Chen et al., 2021) and others
/// converted to it.
pub const VIT: Family = Family {
    model_type: "vit",
    name: "ViT",
    prefix: "vit.",
    beside: &[],
    within: &[],
    schema: ConfigSchema::Vit,
    names: &names::VIT,
    cls: true,
    prefix_kind: PrefixKind::None,
    positions: Positions::Absolute(Kernel::Bicubic),
    patch_bias: true,
    defaults: BASE,
};

/// He et al., 2022.
pub const VIT_MAE: Family = Family { model_type: "vit_mae", name: "ViT-MAE", ..VIT };

/// Bao et al., 2022.
pub const BEIT: Family = Family {
    model_type: "beit",
    name: "BEiT",
    prefix: "beit.",
    schema: ConfigSchema::Beit,
    positions: Positions::Relative(Kernel::Bicubic),
    ..VIT
};

/// Oquab et al., 2024.
pub const DINOV2: Family = Family {
    model_type: "dinov2",
    name: "DINOv2",
    prefix: "dinov2.",
    schema: ConfigSchema::Dinov2,
    names: &names::DINOV2,
    defaults: Defaults { patch: 14, epsilon: 1e-6, ..BASE },
    ..VIT
};

/// Darcet et al., 2024.
pub const DINOV2_REGISTERS: Family = Family {
    model_type: "dinov2_with_registers",
    name: "DINOv2 with registers",
    prefix: "dinov2_with_registers.",
    prefix_kind: PrefixKind::Registers(4),
    positions: Positions::Absolute(Kernel::BicubicAntialiased),
    defaults: Defaults { epsilon: 1e-6, ..BASE },
    ..DINOV2
};

/// Siméoni et al., 2025.
pub const DINOV3: Family = Family {
    model_type: "dinov3_vit",
    name: "DINOv3",
    prefix: "",
    schema: ConfigSchema::Dinov3,
    names: &names::DINOV3,
    prefix_kind: PrefixKind::Registers(0),
    positions: Positions::Rotary,
    defaults: Defaults { width: 384, heads: 6, mlp_dim: 1536, epsilon: 1e-5, ..BASE },
    ..VIT
};

/// Fang et al., 2023, as `ssmprobe import` writes it: transformers does not implement it.
pub const EVA02: Family = Family {
    model_type: "eva02",
    name: "EVA-02",
    prefix: "",
    schema: ConfigSchema::Eva02,
    names: &names::EVA02,
    positions: Positions::RotaryAndAbsolute(Kernel::BicubicAntialiased),
    defaults: Defaults { mlp_dim: 2048, patch: 14, activation: Activation::Silu, epsilon: 1e-6, ..BASE },
    ..VIT
};

/// Radford et al., 2021, with its text encoder. Tokens do not go through `post_layernorm`: transformers
/// applies it to the CLS token alone, when it is pooled.
pub const CLIP: Family = Family {
    model_type: "clip",
    name: "CLIP",
    prefix: "vision_model.",
    beside: &["text_model.", "text_projection.", "visual_projection.", "logit_scale", "post_layernorm."],
    within: &["vision_config_dict", "vision_config"],
    schema: ConfigSchema::Clip,
    names: &names::CLIP,
    patch_bias: false,
    defaults: Defaults { patch: 32, activation: Activation::QuickGelu, epsilon: 1e-5, ..BASE },
    ..VIT
};

/// CLIP's vision encoder only.
pub const CLIP_VISION: Family =
    Family { model_type: "clip_vision_model", name: "CLIP, vision alone", within: &[], ..CLIP };

/// Zhai et al., 2023, with its text encoder; SigLIP 2 (Tschannen et al., 2025) at a fixed resolution, too.
/// Tokens go through `post_layernorm`. It pools by attention and has no CLS token.
pub const SIGLIP: Family = Family {
    model_type: "siglip",
    name: "SigLIP",
    beside: &["text_model.", "logit_scale", "logit_bias", "head."],
    within: &["vision_config"],
    names: &names::SIGLIP,
    cls: false,
    patch_bias: true,
    defaults: Defaults { activation: Activation::GeluTanh, epsilon: 1e-6, ..BASE },
    ..CLIP
};

/// SigLIP's vision encoder only.
pub const SIGLIP_VISION: Family =
    Family { model_type: "siglip_vision_model", name: "SigLIP, vision alone", within: &[], ..SIGLIP };

/// Assran et al., 2023. It has no CLS token.
pub const IJEPA: Family = Family { model_type: "ijepa", name: "I-JEPA", prefix: "ijepa.", cls: false, ..VIT };

/// Baevski et al., 2022; built as BEiT.
pub const DATA2VEC: Family =
    Family { model_type: "data2vec-vision", name: "data2vec", prefix: "data2vec_vision.", ..BEIT };

/// Touvron et al., 2021, with distillation; without, it is stored as ViT.
pub const DEIT: Family = Family {
    model_type: "deit",
    name: "DeiT",
    prefix: "deit.",
    beside: &["cls_classifier.", "distillation_classifier."],
    names: &names::DEIT,
    prefix_kind: PrefixKind::Distillation,
    ..VIT
};

/// Assran et al., 2022.
pub const VIT_MSN: Family =
    Family { model_type: "vit_msn", name: "MSN", defaults: Defaults { epsilon: 1e-6, ..BASE }, ..VIT };
