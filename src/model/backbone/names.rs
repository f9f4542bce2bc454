//! The names of weights on the Hub. Those of layer `i` begin with `{layers}.{i}.`.

/// The names of one family's weights.
#[derive(Debug, PartialEq)]
pub struct Names {
    /// The CLS token.
    pub cls: &'static str,
    /// The tokens between CLS and the patches.
    pub extra_prefix: &'static str,
    /// The projection of patches.
    pub patches: &'static str,
    /// The table of absolute positions.
    pub positions: &'static str,
    /// Whether CLS is stored as `[d]` and positions as `[N, d]`, without a batch axis of 1.
    pub bare: bool,
    /// Layer norm before the first layer.
    pub first: Option<&'static str>,
    /// The prefix of all layers.
    pub layers: &'static str,
    /// Layer norm before attention.
    pub norm1: &'static str,
    /// Query, key and value.
    pub qkv: [&'static str; 3],
    /// The projection after attention.
    pub out: &'static str,
    /// Layer norm before the feed-forward network.
    pub norm2: &'static str,
    /// First layer of the feed-forward network.
    pub up: &'static str,
    /// Second layer of the feed-forward network.
    pub down: &'static str,
    /// Gate and value of the gated network: one tensor for both, or one each.
    pub gate: &'static [&'static str],
    /// Second layer of the gated network.
    pub gated_down: &'static str,
    /// Layer norm within attention, before its projection.
    pub attention_norm: &'static str,
    /// Layer norm within the gated network, before its second layer.
    pub mlp_norm: &'static str,
    /// Layer scale of attention.
    pub scale1: &'static str,
    /// Layer scale of the feed-forward network.
    pub scale2: &'static str,
    /// Layer norm after the last layer, where tokens go through one.
    pub last: Option<&'static str>,
}

/// ViT's names.
pub const VIT: Names = Names {
    cls: "embeddings.cls_token",
    extra_prefix: "embeddings.register_tokens",
    patches: "embeddings.patch_embeddings.projection",
    positions: "embeddings.position_embeddings",
    bare: false,
    first: None,
    layers: "encoder.layer",
    norm1: "layernorm_before",
    qkv: ["attention.attention.query", "attention.attention.key", "attention.attention.value"],
    out: "attention.output.dense",
    norm2: "layernorm_after",
    up: "intermediate.dense",
    down: "output.dense",
    gate: &[],
    gated_down: "",
    attention_norm: "",
    mlp_norm: "",
    scale1: "lambda_1",
    scale2: "lambda_2",
    last: Some("layernorm"),
};

/// DINOv2's names.
pub const DINOV2: Names = Names {
    norm1: "norm1",
    norm2: "norm2",
    up: "mlp.fc1",
    down: "mlp.fc2",
    gate: &["mlp.weights_in"],
    gated_down: "mlp.weights_out",
    scale1: "layer_scale1.lambda1",
    scale2: "layer_scale2.lambda1",
    ..VIT
};

/// DINOv3's names.
pub const DINOV3: Names = Names {
    patches: "embeddings.patch_embeddings",
    layers: "layer",
    qkv: ["attention.q_proj", "attention.k_proj", "attention.v_proj"],
    out: "attention.o_proj",
    up: "mlp.up_proj",
    down: "mlp.down_proj",
    gate: &["mlp.gate_proj", "mlp.up_proj"],
    gated_down: "mlp.down_proj",
    last: Some("norm"),
    ..DINOV2
};

/// EVA-02's names, chosen here since the Hub has it under timm's names alone: DINOv3's, and the inner norms.
pub const EVA02: Names = Names { attention_norm: "attention.norm", mlp_norm: "mlp.norm", ..DINOV3 };

/// CLIP's names; the first layer norm is misspelt there.
pub const CLIP: Names = Names {
    cls: "embeddings.class_embedding",
    patches: "embeddings.patch_embedding",
    positions: "embeddings.position_embedding.weight",
    bare: true,
    first: Some("pre_layrnorm"),
    layers: "encoder.layers",
    norm1: "layer_norm1",
    qkv: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    out: "self_attn.out_proj",
    norm2: "layer_norm2",
    up: "mlp.fc1",
    down: "mlp.fc2",
    last: None,
    ..VIT
};

/// SigLIP's names.
pub const SIGLIP: Names = Names { first: None, last: Some("post_layernorm"), ..CLIP };

/// DeiT's names.
pub const DEIT: Names = Names { extra_prefix: "embeddings.distillation_token", ..VIT };
