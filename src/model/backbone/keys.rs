//! The names and shapes of a backbone's weights on the Hub, so that a file can be checked key by key before it is used.

use super::FAMILIES;
use super::config::Config;
use super::family::PrefixKind;
use super::position::relative_len;

/// Prefixes of names outside the encoder: heads, decoders and necks of models that contain it.
const NON_ENCODER_PREFIXES: &[&str] = &[
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

/// Name of the table of relative biases, after `encoder.` (shared) or the prefix of a layer's attention.
pub const RELATIVE: &str = "relative_position_bias.relative_position_bias_table";

/// The prefix of the encoder's names in a file; `contains` says whether the file has a name. It is empty
/// or that of any family, or the family's own if the file has no encoder.
pub fn prefix(config: &Config, contains: impl Fn(&str) -> bool) -> &'static str {
    let known = FAMILIES.iter().map(|family| family.prefix);
    let patches = config.family.names.patches;
    let mut found = std::iter::once("").chain(known);
    found.find(|prefix| contains(&format!("{prefix}{patches}.weight"))).unwrap_or(config.family.prefix)
}

/// The prefix of the names of layer `i` within the encoder.
pub fn layer(config: &Config, i: usize) -> String {
    format!("{}.{i}.", config.family.names.layers)
}

/// The name, beginning with `prefix`, and shape of every tensor that the encoder reads.
pub fn expected(config: &Config, prefix: &str) -> Vec<(String, Vec<usize>)> {
    let Config { width, heads, mlp_dim, biases, .. } = *config;
    let names = config.family.names;
    let mut keys = Vec::new();
    let mut key = |name: String, shape: Vec<usize>| keys.push((format!("{prefix}{name}"), shape));
    if config.family.cls {
        key(names.cls.into(), if names.bare { vec![width] } else { vec![1, 1, width] });
    }
    // DINOv2 and DINOv3 store the key even with 0 registers.
    if config.family.prefix_kind != PrefixKind::None {
        key(names.extra_prefix.into(), vec![1, config.registers, width]);
    }
    if config.absolute.is_some() {
        let tokens = config.placed() + config.grid().len();
        key(names.positions.into(), if names.bare { vec![tokens, width] } else { vec![1, tokens, width] });
    }
    key(format!("{}.weight", names.patches), vec![width, 3, config.patch[0], config.patch[1]]);
    if config.family.patch_bias {
        key(format!("{}.bias", names.patches), vec![width]);
    }
    let table = vec![relative_len(config.grid()), heads];
    if config.shared_relative {
        key(format!("encoder.{RELATIVE}"), table.clone());
    }
    for i in 0..config.layers {
        let layer = layer(config, i);
        let mut linear = |name: &str, rows: usize, columns: usize, bias: bool| {
            key(format!("{layer}{name}.weight"), vec![rows, columns]);
            if bias {
                key(format!("{layer}{name}.bias"), vec![rows]);
            }
        };
        for (name, bias) in names.qkv.iter().zip(biases.qkv) {
            linear(name, width, width, bias);
        }
        linear(names.out, width, width, biases.out);
        if config.gated {
            for name in names.gate {
                linear(name, 2 * mlp_dim / names.gate.len(), width, biases.mlp);
            }
            linear(names.gated_down, width, mlp_dim, biases.mlp);
        } else {
            linear(names.up, mlp_dim, width, biases.mlp);
            linear(names.down, width, mlp_dim, biases.mlp);
        }
        let norms = [
            (true, names.norm1, width),
            (true, names.norm2, width),
            (config.attention_norm, names.attention_norm, width),
            (config.mlp_norm, names.mlp_norm, mlp_dim),
        ];
        for (_, norm, len) in norms.into_iter().filter(|norm| norm.0) {
            key(format!("{layer}{norm}.weight"), vec![len]);
            key(format!("{layer}{norm}.bias"), vec![len]);
        }
        if config.layer_scale {
            key(format!("{layer}{}", names.scale1), vec![width]);
            key(format!("{layer}{}", names.scale2), vec![width]);
        }
        if config.relative {
            key(format!("{layer}attention.attention.{RELATIVE}"), table.clone());
        }
    }
    for norm in [names.first, config.last_norm()].into_iter().flatten() {
        key(format!("{norm}.weight"), vec![width]);
        key(format!("{norm}.bias"), vec![width]);
    }
    keys
}

/// Whether a file may hold `name` although the encoder does not read it: heads it was trained with,
/// other networks, the mask token, indices that are computed from the grid.
pub fn ignored(config: &Config, prefix: &str, name: &str) -> bool {
    let outside = NON_ENCODER_PREFIXES.iter().chain(config.family.beside);
    let outside = |name: &str| outside.clone().any(|start| name.starts_with(start));
    // BEiT's masked-image head has a layer norm of its own, beside the encoder.
    let head_norm = !prefix.is_empty() && name.starts_with("layernorm.");
    let Some(inner) = name.strip_prefix(prefix) else { return outside(name) || head_norm };
    outside(name)
        || outside(inner)
        || inner == "embeddings.mask_token"
        || inner.ends_with("relative_position_index")
        || inner.ends_with("position_ids")
        || !config.final_norm && inner.starts_with("layernorm.")
}
