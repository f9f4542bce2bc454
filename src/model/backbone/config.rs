//! What a backbone is, as its `config.json` says: the sizes and choices in which the families of
//! vision transformers differ, under transformers' field names and with transformers' defaults.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::family::{BEIT, Family};
use super::{FAMILIES, find};
use crate::model::grid::Grid;

/// No `config.json` is larger than this.
const FILE_LIMIT: u64 = 16 << 20;

/// Why a `config.json` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not there or not readable.
    #[error("cannot read {}: {source}; a backbone folder needs the config.json of the Hugging Face Hub", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Not a JSON object.
    #[error("{} is not a JSON object ({why}); download it again", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A field with a value the program does not know.
    #[error("{}: `{field}` is {found}; supported: {supported}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field at fault.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What it may hold.
        supported: String,
    },
}

/// The nonlinearity between the two layers of the feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x Phi(x)`, with the error function.
    Gelu,
    /// GELU by its tanh approximation.
    GeluTanh,
    /// `x sigmoid(1.702 x)`.
    QuickGelu,
    /// `max(x, 0)`.
    Relu,
    /// `x sigmoid(x)`.
    Silu,
}

/// transformers' names of the activations.
const ACTIVATIONS: &[(&str, Activation)] = &[
    ("gelu", Activation::Gelu),
    ("gelu_new", Activation::GeluTanh),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("quick_gelu", Activation::QuickGelu),
    ("relu", Activation::Relu),
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
];

/// A vision transformer, up to its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The family it belongs to.
    pub family: &'static Family,
    /// Hidden size, d.
    pub width: usize,
    /// Number of transformer layers.
    pub layers: usize,
    /// Attention heads per layer.
    pub heads: usize,
    /// Width between the two layers of the feed-forward network.
    pub feed: usize,
    /// SwiGLU instead of a two-layer perceptron.
    pub gated: bool,
    /// The nonlinearity of the perceptron.
    pub activation: Activation,
    /// What layer norms add to the variance.
    pub epsilon: f64,
    /// Height and width of the images it was trained on.
    pub image: [usize; 2],
    /// Height and width of a patch.
    pub patch: [usize; 2],
    /// Number of register tokens.
    pub registers: usize,
    /// Whether queries and values have a bias; keys have one too, except in BEiT.
    pub qkv_bias: bool,
    /// Whether there is a table of absolute positions.
    pub absolute: bool,
    /// Whether every layer has a table of relative biases.
    pub relative: bool,
    /// Whether there is one table of relative biases for all layers.
    pub shared_relative: bool,
    /// Whether both branches of a layer are scaled channel by channel.
    pub layer_scale: bool,
    /// Whether a layer norm follows the last layer.
    pub final_norm: bool,
}

impl Config {
    /// Reads `dir/config.json`.
    pub fn open(dir: &Path) -> Result<Self, ConfigError> {
        let path = dir.join("config.json");
        let read = |source| ConfigError::Read { path: path.clone(), source };
        let mut text = String::new();
        let file = std::fs::File::open(&path).map_err(read)?;
        file.take(FILE_LIMIT).read_to_string(&mut text).map_err(read)?;
        match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => Self::parse(&Fields { path: &path, map: &map }),
            Ok(_) => Err(ConfigError::Json { path, why: "it holds another kind of value".into() }),
            Err(error) => Err(ConfigError::Json { path, why: error.to_string() }),
        }
    }

    fn parse(fields: &Fields) -> Result<Self, ConfigError> {
        let model_type = fields.map.get("model_type").and_then(Value::as_str);
        let family = model_type.and_then(find).ok_or_else(|| {
            let known: Vec<&str> = FAMILIES.iter().map(|family| family.model_type).collect();
            fields.error("model_type", known.join(", "))
        })?;
        let width = fields.count("hidden_size", 768, 1..=16_384)?;
        let heads = fields.count("num_attention_heads", 12, 1..=1024)?;
        if !width.is_multiple_of(heads) {
            return Err(fields.error("num_attention_heads", format!("a divisor of hidden_size = {width}")));
        }
        if fields.count("num_channels", 3, 1..=1024)? != 3 {
            return Err(fields.error("num_channels", "3 (red, green, blue)"));
        }
        let gated = family.is_dino() && fields.flag("use_swiglu_ffn", false)?;
        let feed = match family.is_dino() {
            false => fields.count("intermediate_size", 3072, 1..=262_144)?,
            true => {
                let wide = (width as f64 * fields.number("mlp_ratio", 4.0, 0.01..=64.0)?) as usize;
                // SwiGLU keeps two thirds, rounded up to a multiple of 8.
                if gated { ((wide * 2) / 3).next_multiple_of(8) } else { wide }
            }
        };
        let name = fields.map.get("hidden_act").map_or(Some("gelu"), Value::as_str);
        let activation = ACTIVATIONS.iter().find(|(known, _)| Some(*known) == name).ok_or_else(|| {
            let known: Vec<&str> = ACTIVATIONS.iter().map(|(known, _)| *known).collect();
            fields.error("hidden_act", known.join(", "))
        })?;
        let patch = fields.size("patch_size", family.patch, 1..=1024)?;
        let image = fields.size("image_size", 224, 1..=16_384)?;
        if (0..2).any(|axis| image[axis] < patch[axis]) {
            return Err(fields.error("image_size", format!("at least one patch of {patch:?}")));
        }
        let beit = *family == BEIT;
        let registers = match family.registers {
            true => fields.count("num_register_tokens", 4, 0..=1024)?,
            false => 0,
        };
        Ok(Self {
            family,
            width,
            layers: fields.count("num_hidden_layers", 12, 1..=512)?,
            heads,
            feed,
            gated,
            activation: activation.1,
            epsilon: fields.number("layer_norm_eps", family.epsilon, 0.0..=1.0)?,
            image,
            patch,
            registers,
            qkv_bias: beit || fields.flag("qkv_bias", true)?,
            absolute: !beit || fields.flag("use_absolute_position_embeddings", false)?,
            relative: beit && fields.flag("use_relative_position_bias", false)?,
            shared_relative: beit && fields.flag("use_shared_relative_position_bias", false)?,
            layer_scale: family.is_dino()
                || beit && fields.number("layer_scale_init_value", 0.1, -1e9..=1e9)? > 0.0,
            final_norm: !(beit && fields.flag("use_mean_pooling", true)?),
        })
    }

    /// Whether keys have a bias, too.
    pub fn key_bias(&self) -> bool {
        self.qkv_bias && *self.family != BEIT
    }

    /// The patch grid of the images it was trained on.
    pub fn grid(&self) -> Grid {
        Grid::new(self.image[0] / self.patch[0], self.image[1] / self.patch[1])
    }
}

/// The fields of one file, with errors that name them.
struct Fields<'a> {
    path: &'a Path,
    map: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn error(&self, field: &'static str, supported: impl Into<String>) -> ConfigError {
        let found = match self.map.get(field) {
            None => "absent".to_owned(),
            Some(value) => value.to_string().chars().take(80).collect(),
        };
        ConfigError::Field { path: self.path.to_owned(), field, found, supported: supported.into() }
    }

    fn within(value: &Value, range: &std::ops::RangeInclusive<usize>) -> Option<usize> {
        value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| range.contains(n))
    }

    fn count(
        &self,
        field: &'static str,
        default: usize,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<usize, ConfigError> {
        let Some(value) = self.map.get(field) else { return Ok(default) };
        let supported = || self.error(field, format!("{} to {}", range.start(), range.end()));
        Self::within(value, &range).ok_or_else(supported)
    }

    /// One number for a square, or `[height, width]`.
    fn size(
        &self,
        field: &'static str,
        default: usize,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<[usize; 2], ConfigError> {
        let Some(value) = self.map.get(field) else { return Ok([default; 2]) };
        let sides: Option<Vec<usize>> = match value {
            Value::Array(sides) => sides.iter().map(|side| Self::within(side, &range)).collect(),
            side => Self::within(side, &range).map(|side| vec![side; 2]),
        };
        sides.and_then(|sides| sides.try_into().ok()).ok_or_else(|| {
            self.error(field, format!("{} to {}, or [height, width]", range.start(), range.end()))
        })
    }

    fn number(
        &self,
        field: &'static str,
        default: f64,
        range: std::ops::RangeInclusive<f64>,
    ) -> Result<f64, ConfigError> {
        let Some(value) = self.map.get(field) else { return Ok(default) };
        let supported = || self.error(field, format!("{} to {}", range.start(), range.end()));
        value.as_f64().filter(|x| range.contains(x)).ok_or_else(supported)
    }

    fn flag(&self, field: &'static str, default: bool) -> Result<bool, ConfigError> {
        let Some(value) = self.map.get(field) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.error(field, "true, false"))
    }
}
