//! Maps timm's names, which all these projects share, to those of the Hub: a joint matrix of queries, keys and values is
//! split in three, one of gate and value in two, and a position table without a row for CLS gets one.

use std::collections::BTreeMap;

use crate::model::backbone::config::Config;
use crate::model::backbone::family::PrefixKind;
use crate::model::backbone::keys::{self, RELATIVE};

/// The source of a tensor of the Hub's layout. Names are without the prefix of the encoder.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A tensor, unchanged.
    Whole(String),
    /// The rows of one part of a tensor: its name, the index of the part, the number of equal parts.
    Part(String, usize, usize),
    /// A position table of the patches only, `[1, N, d]`, and the number of zero rows to prepend.
    Positions(String, usize),
    /// Ones, for a layer scale that the checkpoint does not have.
    Ones,
}

/// A tensor of the Hub's layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its name in the Hub's layout.
    pub name: String,
    /// Its shape in the Hub's layout.
    pub shape: Vec<usize>,
    /// Its source in the checkpoint.
    pub source: Source,
}

impl Target {
    /// The tensor of the checkpoint that it needs, and that tensor's required shape.
    pub fn needs(&self) -> Option<(&str, Vec<usize>)> {
        let mut shape = self.shape.clone();
        match &self.source {
            Source::Whole(name) => Some((name, shape)),
            Source::Part(name, _, parts) => {
                shape[0] *= parts;
                Some((name, shape))
            }
            Source::Positions(name, zeros) => {
                shape[1] -= zeros;
                Some((name, shape))
            }
            Source::Ones => None,
        }
    }
}

/// The prefix of each block's names, by its number: `blocks.3.`, or `blocks.0.3.` if blocks are stored in chunks (as by
/// DINOv2's training code), with the number last.
pub fn blocks<'n>(names: impl Iterator<Item = &'n str>) -> BTreeMap<usize, String> {
    let mut found = BTreeMap::new();
    for name in names {
        let Some(rest) = name.strip_prefix("blocks.") else { continue };
        let mut parts = rest.split('.');
        let Some(first) = parts.next().and_then(|part| part.parse().ok()) else { continue };
        match parts.next().and_then(|part| part.parse().ok()) {
            Some(second) => found.insert(second, format!("blocks.{first}.{second}.")),
            None => found.insert(first, format!("blocks.{first}.")),
        };
    }
    found
}

/// The names of the parts of a feed-forward network.
#[derive(Debug)]
pub struct Mlp {
    /// The first layer; gate and value, if they are separate.
    pub up: &'static [&'static str],
    /// The second layer.
    pub down: &'static str,
    /// The norm before the second layer.
    pub norm: &'static str,
}

/// The feed-forward networks of these projects: DINOv2's and EVA-02's with gate and value in one matrix; EVA-02's; that of
/// timm's larger EVA-02; all others, which is the default.
pub const MLPS: &[Mlp] = &[
    Mlp { up: &["mlp.w12"], down: "mlp.w3", norm: "mlp.ffn_ln" },
    Mlp { up: &["mlp.w1", "mlp.w2"], down: "mlp.w3", norm: "mlp.ffn_ln" },
    Mlp { up: &["mlp.fc1_g", "mlp.fc1_x"], down: "mlp.fc2", norm: "mlp.norm" },
    Mlp { up: &["mlp.fc1"], down: "mlp.fc2", norm: "mlp.norm" },
];

/// How the tensors of a checkpoint's encoder are named, beyond what its configuration says.
pub struct Written {
    /// The prefix of each block's names, by number.
    pub blocks: BTreeMap<usize, String>,
    /// Whether the position table has no row for CLS.
    pub bare_positions: bool,
    /// The name of the registers or the distillation token.
    pub extra: &'static str,
    /// Names of both layer scales, if there are any.
    pub scales: Option<[&'static str; 2]>,
    /// Whether query, key and value have separate matrices (`q_proj`, `k_proj`, `v_proj`).
    pub split_qkv: bool,
    /// The suffix after `q`, `k` and `v` in the names of separate biases; `None`: one joint bias.
    pub own_biases: Option<&'static str>,
    /// The names of the feed-forward network.
    pub mlp: &'static Mlp,
    /// The name of the norm within attention.
    pub attention_norm: &'static str,
    /// The shape of the mask token, if there is one.
    pub mask: Option<Vec<usize>>,
}

/// Every tensor of the Hub's layout for `config`, with its source in a file named as in `written`.
pub fn targets(config: &Config, written: &Written) -> Vec<Target> {
    let names = config.family.names;
    let mut sources: BTreeMap<String, Source> = BTreeMap::new();
    let whole = |name: &str| Source::Whole(name.to_owned());
    let both = |name: &str, from: &str| {
        ["weight", "bias"].map(|part| (format!("{name}.{part}"), Source::Whole(format!("{from}.{part}"))))
    };
    sources.insert(names.cls.into(), whole("cls_token"));
    if config.family.prefix_kind != PrefixKind::None {
        sources.insert(names.extra_prefix.into(), whole(written.extra));
    }
    let zeros = usize::from(config.family.cls);
    sources.insert(
        names.positions.into(),
        match written.bare_positions {
            true => Source::Positions("pos_embed".into(), zeros),
            false => whole("pos_embed"),
        },
    );
    sources.extend(both(names.patches, "patch_embed.proj"));
    sources.extend(config.last_norm().into_iter().flat_map(|last| both(last, "norm")));
    sources.insert(format!("encoder.{RELATIVE}"), whole("rel_pos_bias.relative_position_bias_table"));
    for i in 0..config.layers {
        let layer = keys::layer(config, i);
        let block = written.blocks.get(&i).cloned().unwrap_or_else(|| format!("blocks.{i}."));
        for (part, name) in names.qkv.iter().enumerate() {
            let letter = ["q", "k", "v"][part];
            let weight = match written.split_qkv {
                true => whole(&format!("{block}attn.{letter}_proj.weight")),
                false => Source::Part(format!("{block}attn.qkv.weight"), part, 3),
            };
            let bias = match written.own_biases {
                Some(end) => whole(&format!("{block}attn.{letter}{end}")),
                None => Source::Part(format!("{block}attn.qkv.bias"), part, 3),
            };
            sources.insert(format!("{layer}{name}.weight"), weight);
            sources.insert(format!("{layer}{name}.bias"), bias);
        }
        let (ups, down) = match config.gated {
            true => (names.gate, names.gated_down),
            false => (std::slice::from_ref(&names.up), names.down),
        };
        let Mlp { up, down: from, norm } = *written.mlp;
        for (at, name) in ups.iter().enumerate() {
            for part in ["weight", "bias"] {
                let source = match up.get(at).filter(|_| up.len() == ups.len()) {
                    Some(from) => whole(&format!("{block}{from}.{part}")),
                    None => Source::Part(format!("{block}{}.{part}", up[0]), at, ups.len()),
                };
                sources.insert(format!("{layer}{name}.{part}"), source);
            }
        }
        let linear = [
            (names.out, "attn.proj"),
            (names.norm1, "norm1"),
            (names.norm2, "norm2"),
            (names.attention_norm, written.attention_norm),
            (names.mlp_norm, norm),
            (down, from),
        ];
        for (name, from) in linear {
            sources.extend(both(&format!("{layer}{name}"), &format!("{block}{from}")));
        }
        for (at, name) in [names.scale1, names.scale2].into_iter().enumerate() {
            let source =
                written.scales.map_or(Source::Ones, |scales| whole(&format!("{block}{}", scales[at])));
            sources.insert(format!("{layer}{name}"), source);
        }
        sources.insert(
            format!("{layer}attention.attention.{RELATIVE}"),
            whole(&format!("{block}attn.relative_position_bias_table")),
        );
    }
    let mut expected = keys::expected(config, "");
    if let Some(shape) = &written.mask {
        sources.insert("embeddings.mask_token".into(), whole("mask_token"));
        expected.push(("embeddings.mask_token".into(), shape.clone()));
    }
    // Sources of tensors that this configuration does not have are not used.
    let target = |(name, shape): (String, Vec<usize>)| {
        let source = sources.remove(&name).expect("a source for every key of these families");
        Target { name, shape, source }
    };
    expected.into_iter().map(target).collect()
}
