//! The names and shapes of a backbone's weights on the Hub, so that a file can be checked key by
//! key before anything is computed with it.

use super::config::Config;
use super::position::relative_len;

/// What may stand before the names of the encoder, depending on the head it was trained with.
const PREFIXES: &[&str] = &["", "vit.", "beit.", "dinov2.", "dinov2_with_registers."];

/// Names outside the encoder: heads, decoders and necks of the models that contain it.
const OUTSIDE: &[&str] = &[
    "classifier.",
    "decoder.",
    "lm_head.",
    "pooler.",
    "decode_head.",
    "auxiliary_head.",
    "fpn1.",
    "fpn2.",
    "fpn3.",
    "fpn4.",
];

/// The table of relative biases, below `encoder.` (shared) or a layer's attention.
pub const RELATIVE: &str = "relative_position_bias.relative_position_bias_table";

/// The prefix of a file whose names `contains` tells; the family's own if there is no encoder.
pub fn prefix(config: &Config, contains: impl Fn(&str) -> bool) -> &'static str {
    let found = PREFIXES.iter().find(|prefix| contains(&format!("{prefix}embeddings.cls_token")));
    found.copied().unwrap_or(config.family.prefix)
}

/// Layer `i` of the encoder.
pub fn layer(i: usize) -> String {
    format!("encoder.layer.{i}.")
}

/// Every key the encoder reads, with its shape.
pub fn expected(config: &Config, prefix: &str) -> Vec<(String, Vec<usize>)> {
    let Config { width, heads, feed, .. } = *config;
    let names = config.family.names;
    let mut keys = Vec::new();
    let mut key = |name: String, shape: Vec<usize>| keys.push((format!("{prefix}{name}"), shape));
    key("embeddings.cls_token".into(), vec![1, 1, width]);
    if config.absolute {
        key("embeddings.position_embeddings".into(), vec![1, config.grid().len() + 1, width]);
    }
    if config.family.registers {
        key("embeddings.register_tokens".into(), vec![1, config.registers, width]);
    }
    let projection = "embeddings.patch_embeddings.projection";
    key(format!("{projection}.weight"), vec![width, 3, config.patch[0], config.patch[1]]);
    key(format!("{projection}.bias"), vec![width]);
    let table = vec![relative_len(config.grid()), heads];
    if config.shared_relative {
        key(format!("encoder.{RELATIVE}"), table.clone());
    }
    for i in 0..config.layers {
        let layer = layer(i);
        let mut linear = |name: &str, rows: usize, columns: usize, bias: bool| {
            key(format!("{layer}{name}.weight"), vec![rows, columns]);
            if bias {
                key(format!("{layer}{name}.bias"), vec![rows]);
            }
        };
        linear("attention.attention.query", width, width, config.qkv_bias);
        linear("attention.attention.key", width, width, config.key_bias());
        linear("attention.attention.value", width, width, config.qkv_bias);
        linear("attention.output.dense", width, width, true);
        if config.gated {
            linear("mlp.weights_in", 2 * feed, width, true);
            linear("mlp.weights_out", width, feed, true);
        } else {
            linear(names.up, feed, width, true);
            linear(names.down, width, feed, true);
        }
        for norm in [names.norm1, names.norm2] {
            key(format!("{layer}{norm}.weight"), vec![width]);
            key(format!("{layer}{norm}.bias"), vec![width]);
        }
        if config.layer_scale {
            key(format!("{layer}{}", names.scale1), vec![width]);
            key(format!("{layer}{}", names.scale2), vec![width]);
        }
        if config.relative {
            key(format!("{layer}attention.attention.{RELATIVE}"), table.clone());
        }
    }
    if config.final_norm {
        key("layernorm.weight".into(), vec![width]);
        key("layernorm.bias".into(), vec![width]);
    }
    keys
}

/// Whether a file may hold `name` though the encoder does not read it: the heads it was trained
/// with, the mask token, indices that follow from the grid.
pub fn ignored(config: &Config, prefix: &str, name: &str) -> bool {
    let outside = |name: &str| OUTSIDE.iter().any(|start| name.starts_with(start));
    // BEiT's masked-image head has a layer norm of its own, beside the encoder.
    let head_norm = !prefix.is_empty() && name.starts_with("layernorm.");
    let Some(inner) = name.strip_prefix(prefix) else { return outside(name) || head_norm };
    outside(name)
        || outside(inner)
        || inner == "embeddings.mask_token"
        || inner.ends_with("relative_position_index")
        || !config.final_norm && inner.starts_with("layernorm.")
}
