//! The projects whose checkpoints are read, and their differences: prefixes of the weights, tensors besides the encoder,
//! values that a checkpoint does not contain. Their encoders share the names of timm's vision transformer.

use clap::ValueEnum;

use crate::model::backbone::preprocess::config::{CLIP_MEAN, CLIP_STD, HALF, IMAGENET_MEAN, IMAGENET_STD};

/// A project that publishes checkpoints with its own tensor names.
#[derive(Debug)]
pub struct Project {
    /// Its name in flags.
    pub id: &'static str,
    /// Its name for display.
    pub name: &'static str,
    /// Each `model_type` that its encoders are imported as; the first where the weights look like none of them.
    pub model_types: &'static [&'static str],
    /// Prefixes of the encoder to import, the most likely first, for files with several encoders.
    pub encoders: &'static [&'static str],
    /// Prefixes of names that are left out: heads, decoders, the other of two encoders. An entry that begins with a dot
    /// matches anywhere in a name.
    pub left_out: &'static [&'static str],
    /// (width, attention heads) of the published models: shapes do not determine the heads.
    pub heads: &'static [(usize, usize)],
    /// The normalisation of its images; `None`: it differs from model to model, and the `config.json` beside the weights may say it.
    pub scale: Option<Scale>,
    /// The filter of its evaluation's resizing, as Pillow's number: 2 (bilinear) or 3 (bicubic).
    pub resample: usize,
    /// Edge in pixels of the images it is evaluated on, if it differs from that of its trained positions.
    pub edge: Option<usize>,
}

/// The normalisation of pixels in 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// ImageNet's mean and standard deviation.
    Imagenet,
    /// To the range -1 to 1.
    Half,
    /// CLIP's mean and standard deviation.
    Clip,
}

impl Scale {
    /// Mean and standard deviation of red, green and blue.
    pub fn statistics(self) -> ([f64; 3], [f64; 3]) {
        match self {
            Self::Imagenet => (IMAGENET_MEAN, IMAGENET_STD),
            Self::Half => (HALF, HALF),
            Self::Clip => (CLIP_MEAN, CLIP_STD),
        }
    }
}

/// Every project, in the order menus show them.
pub const PROJECTS: &[&Project] = &[&MAE, &TIMM, &DINO, &DINOV2, &MOCO_V3, &BEIT, &EVA02];

/// The project with an id, if it is known.
pub fn find(id: &str) -> Option<&'static Project> {
    PROJECTS.iter().copied().find(|project| project.id == id)
}

const SIZES: &[(usize, usize)] = &[(192, 3), (384, 6), (768, 12), (1024, 16), (1280, 16)];

/// `facebookresearch/mae` (He et al., 2022), pre-trained, fine-tuned with its CLS token, or linearly probed.
pub const MAE: Project = Project {
    id: "mae",
    name: "MAE",
    model_types: &["vit_mae"],
    encoders: &[""],
    left_out: &["decoder_", "mask_token", "head."],
    heads: &[(768, 12), (1024, 16), (1280, 16)],
    scale: Some(Scale::Imagenet),
    resample: 3,
    edge: None,
};

/// timm's `vision_transformer`, `beit` and EVA-02 of its `eva`: ViT, DeiT, with layer scale or registers, and models of
/// others in this format.
pub const TIMM: Project = Project {
    id: "timm",
    name: "timm",
    model_types: &["vit", "deit", "beit", "eva02", "dinov2", "dinov2_with_registers"],
    left_out: &["head.", "head_dist.", "pre_logits.", "fc_norm."],
    heads: SIZES,
    scale: None,
    ..MAE
};

/// `facebookresearch/dino` (Caron et al., 2021): the backbone alone, or the teacher of a whole training.
pub const DINO: Project = Project {
    id: "dino",
    name: "DINO",
    model_types: &["vit"],
    encoders: &["teacher.backbone.", "backbone.", "module.backbone."],
    left_out: &["student.", "head."],
    heads: &[(192, 3), (384, 6), (768, 12)],
    ..MAE
};

/// `facebookresearch/dinov2` (Oquab et al., 2024), with registers (Darcet et al., 2024) or without: the backbone, or
/// the teacher of a training.
pub const DINOV2: Project = Project {
    id: "dinov2",
    name: "DINOv2",
    model_types: &["dinov2", "dinov2_with_registers"],
    left_out: &["student.", "dino_head.", "ibot_head.", "head."],
    heads: &[(384, 6), (768, 12), (1024, 16), (1536, 24)],
    edge: Some(224),
    ..DINO
};

/// `facebookresearch/moco-v3` (Chen et al., 2021): the base encoder, or what is linearly probed.
pub const MOCO_V3: Project = Project {
    id: "mocov3",
    name: "MoCo v3",
    encoders: &["module.base_encoder.", "base_encoder."],
    left_out: &["momentum_encoder.", "predictor.", "head."],
    heads: &[(384, 12), (768, 12), (1024, 16)],
    resample: 2,
    ..DINO
};

/// `microsoft/unilm/beit` (Bao et al., 2022) and BEiT v2 (Peng et al., 2022), pre-trained or fine-tuned. Most have the same names and
/// shapes, but the images of the latter are normalised by ImageNet's statistics, those of the former to -1 to 1.
pub const BEIT: Project = Project {
    id: "beit",
    name: "BEiT",
    model_types: &["beit"],
    left_out: &["head.", "lm_head.", "fc_norm.", "cls_pt_layers."],
    heads: &[(768, 12), (1024, 16)],
    scale: None,
    ..MAE
};

/// `baaivision/EVA`: EVA-02 (Fang et al., 2023), pre-trained or fine-tuned, or the images' encoder of EVA-02-CLIP.
pub const EVA02: Project = Project {
    id: "eva02",
    name: "EVA-02",
    model_types: &["eva02"],
    left_out: &[
        "head.",
        "lm_head.",
        "fc_norm.",
        "mask_token",
        "text.",
        "logit_scale",
        "rope.",
        ".attn.rope.",
    ],
    heads: &[(192, 3), (384, 6), (768, 12), (1024, 16)],
    scale: Some(Scale::Clip),
    ..MAE
};
