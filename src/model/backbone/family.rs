//! What tells the families of vision transformers apart beyond their `config.json`, above all the
//! names of their weights on the Hub. The list of them is [`super::FAMILIES`].

use super::position::Kernel;

/// A family of backbones; one encoder serves them all.
#[derive(Debug, PartialEq)]
pub struct Family {
    /// `model_type` of its `config.json`.
    pub model_type: &'static str,
    /// What it is called on the screen.
    pub name: &'static str,
    /// What its weights' names begin with where a head was trained beside it.
    pub prefix: &'static str,
    /// How its position table is resampled to another grid.
    pub kernel: Kernel,
    /// Whether register tokens stand between CLS and the patches.
    pub registers: bool,
    /// How the parts of a layer are called.
    pub names: &'static Names,
    /// `patch_size` where `config.json` leaves it out.
    pub patch: usize,
    /// `layer_norm_eps` where `config.json` leaves it out.
    pub epsilon: f64,
}

/// How the parts of layer `i`, below `encoder.layer.{i}.`, are called.
#[derive(Debug, PartialEq)]
pub struct Names {
    /// Layer norm before attention.
    pub norm1: &'static str,
    /// Layer norm before the feed-forward network.
    pub norm2: &'static str,
    /// First layer of the feed-forward network.
    pub up: &'static str,
    /// Second layer of the feed-forward network.
    pub down: &'static str,
    /// Layer scale of attention.
    pub scale1: &'static str,
    /// Layer scale of the feed-forward network.
    pub scale2: &'static str,
}

const VIT_NAMES: Names = Names {
    norm1: "layernorm_before",
    norm2: "layernorm_after",
    up: "intermediate.dense",
    down: "output.dense",
    scale1: "lambda_1",
    scale2: "lambda_2",
};

const DINO_NAMES: Names = Names {
    norm1: "norm1",
    norm2: "norm2",
    up: "mlp.fc1",
    down: "mlp.fc2",
    scale1: "layer_scale1.lambda1",
    scale2: "layer_scale2.lambda1",
};

/// He et al., 2022.
pub const VIT_MAE: Family = Family {
    model_type: "vit_mae",
    name: "ViT-MAE",
    prefix: "vit.",
    kernel: Kernel::Bicubic,
    registers: false,
    names: &VIT_NAMES,
    patch: 16,
    epsilon: 1e-12,
};

/// Bao et al., 2022.
pub const BEIT: Family = Family { model_type: "beit", name: "BEiT", prefix: "beit.", ..VIT_MAE };

/// Oquab et al., 2024.
pub const DINOV2: Family = Family {
    model_type: "dinov2",
    name: "DINOv2",
    prefix: "dinov2.",
    kernel: Kernel::Bicubic,
    registers: false,
    names: &DINO_NAMES,
    patch: 14,
    epsilon: 1e-6,
};

/// Darcet et al., 2024.
pub const DINOV2_REGISTERS: Family = Family {
    model_type: "dinov2_with_registers",
    name: "DINOv2 with registers",
    prefix: "dinov2_with_registers.",
    kernel: Kernel::BicubicAntialiased,
    registers: true,
    patch: 16,
    ..DINOV2
};

/// Dosovitskiy et al., 2021; also DINO (Caron et al., 2021) and others converted to it.
pub const VIT: Family = Family { model_type: "vit", name: "ViT", ..VIT_MAE };

impl Family {
    /// Whether its layers are built as DINOv2's: layer scale always, width by `mlp_ratio`, SwiGLU
    /// as an option.
    pub fn is_dino(&self) -> bool {
        *self.names == DINO_NAMES
    }
}
