//! From timm's names, which all these projects share, to those of the Hub: queries, keys and values in one matrix
//! become three, and a position table without a place for CLS gets one.

use std::collections::BTreeMap;

use crate::model::backbone::config::Config;
use crate::model::backbone::encoder::Keys;
use crate::model::backbone::family::PrefixKind;
use crate::model::backbone::keys::{self, RELATIVE};

/// Where a tensor of the Hub's layout comes from. Names stand behind the prefix of the encoder.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A tensor as it is.
    Whole(String),
    /// One third of the rows of a tensor: 0 queries, 1 keys, 2 values.
    Third(String, usize),
    /// A table of positions of the patches alone, `[1, N, d]`, behind so many rows of zeros.
    Positions(String, usize),
    /// Ones: layer scale where there is none.
    Ones,
}

/// A tensor of the Hub's layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its name there.
    pub name: String,
    /// Its shape there.
    pub shape: Vec<usize>,
    /// Where it comes from.
    pub source: Source,
}

impl Target {
    /// The tensor it needs, and the shape that one has to have.
    pub fn needs(&self) -> Option<(&str, Vec<usize>)> {
        let mut shape = self.shape.clone();
        match &self.source {
            Source::Whole(name) => Some((name, shape)),
            Source::Third(name, _) => {
                shape[0] *= 3;
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

/// What the names of each block begin with, by its number: `blocks.0.`, or `blocks.0.3.` where blocks stand in chunks
/// (as DINOv2's trainings save them), with the number in the last place.
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

/// How the encoder of a file is written down, beyond what its configuration says.
pub struct Written {
    /// What the names of each block begin with.
    pub blocks: BTreeMap<usize, String>,
    /// Whether the position table has no row for CLS.
    pub bare_positions: bool,
    /// What the registers, or the token of distillation, are called.
    pub extra: &'static str,
    /// Names of both layer scales; none where there are none.
    pub scales: Option<[&'static str; 2]>,
    /// Whether query and value have biases of their own (`q_bias`, `v_bias`).
    pub split_biases: bool,
    /// First and second layer of the feed-forward network.
    pub mlp: [&'static str; 2],
    /// Whether there is a mask token, and its shape.
    pub mask: Option<Vec<usize>>,
}

/// Every tensor of the Hub's layout for `config`, the file written as `written`.
pub fn targets(config: &Config, written: &Written) -> Vec<Target> {
    let names = config.family.names;
    let mut sources: BTreeMap<String, Source> = BTreeMap::new();
    let mut put = |name: String, source: Source| drop(sources.insert(name, source));
    let whole = |name: &str| Source::Whole(name.to_owned());
    put(names.cls.into(), whole("cls_token"));
    if config.family.prefix_kind != PrefixKind::None {
        put(names.extra_prefix.into(), whole(written.extra));
    }
    let zeros = usize::from(config.family.cls);
    put(
        names.positions.into(),
        match written.bare_positions {
            true => Source::Positions("pos_embed".into(), zeros),
            false => whole("pos_embed"),
        },
    );
    for part in ["weight", "bias"] {
        put(format!("{}.{part}", names.patches), whole(&format!("patch_embed.proj.{part}")));
        if let Some(last) = config.last_norm() {
            put(format!("{last}.{part}"), whole(&format!("norm.{part}")));
        }
    }
    put(format!("encoder.{RELATIVE}"), whole("rel_pos_bias.relative_position_bias_table"));
    for i in 0..config.layers {
        let layer = keys::layer(config, i);
        let block = written.blocks.get(&i).cloned().unwrap_or_else(|| format!("blocks.{i}."));
        for (part, name) in names.qkv.iter().enumerate() {
            put(format!("{layer}{name}.weight"), Source::Third(format!("{block}attn.qkv.weight"), part));
            let bias = match written.split_biases {
                true => whole(&format!("{block}attn.{}_bias", ["q", "k", "v"][part])),
                false => Source::Third(format!("{block}attn.qkv.bias"), part),
            };
            put(format!("{layer}{name}.bias"), bias);
        }
        let [up, down] = match config.gated {
            true => [names.gate.first().copied().unwrap_or_default(), names.gated_down],
            false => [names.up, names.down],
        };
        let linear = [
            (names.out, "attn.proj"),
            (names.norm1, "norm1"),
            (names.norm2, "norm2"),
            (up, written.mlp[0]),
            (down, written.mlp[1]),
        ];
        for (name, from) in linear {
            for part in ["weight", "bias"] {
                put(format!("{layer}{name}.{part}"), whole(&format!("{block}{from}.{part}")));
            }
        }
        for (at, name) in [names.scale1, names.scale2].into_iter().enumerate() {
            let source =
                written.scales.map_or(Source::Ones, |scales| whole(&format!("{block}{}", scales[at])));
            put(format!("{layer}{name}"), source);
        }
        put(
            format!("{layer}attention.attention.{RELATIVE}"),
            whole(&format!("{block}attn.relative_position_bias_table")),
        );
    }
    let mut expected: Keys = (config.family.architecture.keys)(config, "");
    if let Some(shape) = &written.mask {
        put("embeddings.mask_token".into(), whole("mask_token"));
        expected.push(("embeddings.mask_token".into(), shape.clone()));
    }
    // What this configuration has none of is not among the keys, and its source is not asked for.
    let target = |(name, shape): (String, Vec<usize>)| {
        let source = sources.remove(&name).expect("a source for every key of these families");
        Target { name, shape, source }
    };
    expected.into_iter().map(target).collect()
}
