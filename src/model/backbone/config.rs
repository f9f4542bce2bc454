//! The configuration of a backbone, from its `config.json`: the sizes and options in which the families
//! of vision transformers differ, under transformers' field names and with transformers' defaults.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::family::{ConfigSchema, Family, Positions, PrefixKind, VIT_MAE};
use super::fields::Fields;
use super::order::MaeOrder;
use super::position::Kernel;
use super::rotary::Rotary;
use super::{BackboneError, FAMILIES, find};
use crate::model::grid::Grid;
use crate::model::io::atomic_file;

/// Most patches per image: the memory of attention grows with their square.
pub const PATCH_LIMIT: usize = 1 << 13;

/// Largest `config.json` read, in bytes.
const FILE_LIMIT: u64 = 16 << 20;

/// Why a `config.json` cannot be used.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "cannot read {path}: {source}; a backbone folder needs the config.json from the Hugging Face Hub"
    )]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "{dir} has no config.json yet, as its pre-training has not ended: `ssmprobe pretrain --resume --out {dir}` continues it"
    )]
    Pretraining { dir: PathBuf },
    #[error("{path} is not a JSON object ({why}); download it again")]
    Json { path: PathBuf, why: String },
    #[error(
        "{path} is timm's, not transformers': convert its folder, which needs the weights too (`ssmprobe import FOLDER --as \
         timm OUT`), and give OUT instead"
    )]
    Timm { path: PathBuf },
    #[error("{path}: `{field}` is {found}; supported: {supported}")]
    Field { path: PathBuf, field: String, found: String, supported: String },
}

/// The nonlinearity between the two layers of the feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

const ACTIVATIONS: &[(&str, Activation)] = &[
    ("gelu", Activation::Gelu),
    ("gelu_new", Activation::GeluTanh),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("quick_gelu", Activation::QuickGelu),
    ("relu", Activation::Relu),
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
];

/// Which linear maps of a layer have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Biases {
    /// Query, key and value.
    pub qkv: [bool; 3],
    /// The projection after attention.
    pub out: bool,
    /// The feed-forward network.
    pub mlp: bool,
}

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
    pub mlp_dim: usize,
    /// `down(f(gate(x)) * up(x))` instead of `down(f(up(x)))`.
    pub gated: bool,
    /// The nonlinearity f.
    pub activation: Activation,
    /// What layer norms add to the variance.
    pub epsilon: f64,
    /// Height and width of the images it was trained on.
    pub image: [usize; 2],
    /// Height and width of a patch.
    pub patch: [usize; 2],
    /// Number of tokens between CLS and the patches: registers, or the distillation token.
    pub registers: usize,
    /// Which linear maps have a bias.
    pub biases: Biases,
    /// The kernel that resamples the table of absolute positions, where there is one.
    pub absolute: Option<Kernel>,
    /// Whether every layer has its own table of relative position biases.
    pub relative: bool,
    /// Whether all layers share a table of relative position biases.
    pub shared_relative: bool,
    /// Rotary positions, where there are any.
    pub rotary: Option<Rotary>,
    /// Whether attention has a layer norm before its projection.
    pub attention_norm: bool,
    /// Whether the gated network has a layer norm before its second layer.
    pub mlp_norm: bool,
    /// Whether both branches of a layer have a layer scale, one factor per channel.
    pub layer_scale: bool,
    /// Whether a layer norm follows the last layer.
    pub final_norm: bool,
}

impl Config {
    /// Reads `dir/config.json`.
    pub fn open(dir: &Path) -> Result<Self, ConfigError> {
        let path = dir.join("config.json");
        let read = |source: std::io::Error| match source.kind() {
            // The file that a pre-training begins with.
            ErrorKind::NotFound if dir.join("pretraining.json").is_file() => {
                ConfigError::Pretraining { dir: dir.to_owned() }
            }
            _ => ConfigError::Read { path: path.clone(), source },
        };
        match serde_json::from_slice(&atomic_file::read(&path, FILE_LIMIT).map_err(read)?) {
            Ok(Value::Object(map)) => Self::from_object(&path, &map),
            Ok(_) => Err(ConfigError::Json { path, why: "it contains another type of value".into() }),
            Err(error) => Err(ConfigError::Json { path, why: error.to_string() }),
        }
    }

    /// Parses the object of a `config.json`; `path` is the file's name in errors.
    pub fn from_object(path: &Path, map: &Map<String, Value>) -> Result<Self, ConfigError> {
        let file = Fields { path, map, within: "" };
        let model_type = map.get("model_type").and_then(Value::as_str);
        if model_type.is_none() && map.contains_key("pretrained_cfg") {
            return Err(ConfigError::Timm { path: path.to_owned() });
        }
        let family = model_type.and_then(find).ok_or_else(|| {
            let known: Vec<&str> = FAMILIES.iter().map(|family| family.model_type).collect();
            file.error("model_type", known.join(", "))
        })?;
        let there = |name: &&&str| map.get(**name).is_some_and(|value| !value.is_null());
        let Some(&within) = family.within.iter().find(there) else {
            let none = Map::new();
            let map = if family.within.is_empty() { map } else { &none };
            return Self::parse(family, &Fields { map, ..file });
        };
        match &map[within] {
            Value::Object(map) => Self::parse(family, &Fields { map, within, ..file }),
            _ => Err(file.error(within, "an object with the fields of the vision model")),
        }
    }

    fn parse(family: &'static Family, fields: &Fields) -> Result<Self, ConfigError> {
        let (schema, defaults) = (family.schema, &family.defaults);
        let width = fields.count("hidden_size", defaults.width, 1..=16_384)?;
        let heads = fields.count("num_attention_heads", defaults.heads, 1..=1024)?;
        if !width.is_multiple_of(heads) {
            return Err(fields.error("num_attention_heads", format!("a divisor of hidden_size = {width}")));
        }
        if fields.count("num_channels", 3, 1..=1024)? != 3 {
            return Err(fields.error("num_channels", "3 (red, green, blue)"));
        }
        let gated = match schema {
            ConfigSchema::Dinov2 => fields.flag("use_swiglu_ffn", false)?,
            ConfigSchema::Dinov3 => fields.flag("use_gated_mlp", false)?,
            ConfigSchema::Eva02 => true,
            ConfigSchema::Vit | ConfigSchema::Beit | ConfigSchema::Clip => false,
        };
        let mlp_dim = match schema {
            ConfigSchema::Dinov2 => {
                let wide = (width as f64 * fields.number("mlp_ratio", 4.0, 0.0..=64.0)?) as usize;
                // SwiGLU keeps two thirds, rounded up to a multiple of 8.
                if gated { ((wide * 2) / 3).next_multiple_of(8) } else { wide }
            }
            _ => fields.count("intermediate_size", defaults.mlp_dim, 1..=262_144)?,
        };
        if mlp_dim == 0 {
            return Err(fields.error("mlp_ratio", format!("at least one unit for hidden_size = {width}")));
        }
        let patch = fields.size("patch_size", defaults.patch, 1..=1024)?;
        let image = fields.size("image_size", 224, 1..=16_384)?;
        if (0..2).any(|axis| image[axis] < patch[axis]) {
            return Err(fields.error("image_size", format!("at least one patch of {patch:?}")));
        }
        let beit = schema == ConfigSchema::Beit;
        let eva02 = schema == ConfigSchema::Eva02;
        let rotary = rotary(fields, family.positions)?;
        if rotary.is_some() && !(width / heads).is_multiple_of(4) {
            let supported = format!("a divisor of hidden_size / 4 = {width} / 4, for rotary positions");
            return Err(fields.error("num_attention_heads", supported));
        }
        Ok(Self {
            family,
            width,
            layers: fields.count("num_hidden_layers", 12, 1..=512)?,
            heads,
            mlp_dim,
            gated,
            activation: match schema {
                // Whatever `hidden_act` says.
                ConfigSchema::Dinov2 if gated => Activation::Silu,
                _ => activation(fields, defaults.activation)?,
            },
            epsilon: fields.number("layer_norm_eps", defaults.epsilon, 0.0..=1.0)?,
            image,
            patch,
            registers: match family.prefix_kind {
                PrefixKind::None => 0,
                PrefixKind::Registers(count) => fields.count("num_register_tokens", count, 0..=1024)?,
                PrefixKind::Distillation => 1,
            },
            biases: biases(fields, schema)?,
            absolute: match family.positions {
                Positions::Absolute(kernel) | Positions::RotaryAndAbsolute(kernel) => Some(kernel),
                Positions::Relative(kernel) => {
                    fields.flag("use_absolute_position_embeddings", false)?.then_some(kernel)
                }
                Positions::Rotary => None,
            },
            relative: beit && fields.flag("use_relative_position_bias", false)?,
            shared_relative: beit && fields.flag("use_shared_relative_position_bias", false)?,
            rotary,
            attention_norm: eva02 && fields.flag("use_attention_norm", false)?,
            mlp_norm: eva02 && fields.flag("use_mlp_norm", false)?,
            layer_scale: match schema {
                ConfigSchema::Dinov2 | ConfigSchema::Dinov3 => true,
                ConfigSchema::Beit => fields.number("layer_scale_init_value", 0.1, -1e9..=1e9)? > 0.0,
                ConfigSchema::Vit | ConfigSchema::Clip | ConfigSchema::Eva02 => false,
            },
            final_norm: family.names.last.is_some()
                && !((beit || eva02) && fields.flag("use_mean_pooling", beit)?),
        })
    }

    /// In one line, all that tokens depend on besides the weights and what their names and shapes tell: equal lines and equal
    /// weights mean equal tokens. Files hold this line, so the `Debug` names in it must stay as they are.
    pub fn key(&self) -> String {
        let Self { heads, activation, epsilon, final_norm, .. } = *self;
        let Grid { rows, cols } = self.grid();
        let norm = if final_norm { "a final norm" } else { "no final norm" };
        let rotary = self.rotary.map_or_else(String::new, |rotary| format!(", {rotary:?}"));
        format!(
            "{heads} heads, {activation:?}, epsilon {epsilon:?}, positions of {rows} x {cols}, {norm}{rotary}"
        )
    }

    /// Number of tokens before the patches: CLS, if there is one, and registers.
    pub fn prefix_tokens(&self) -> usize {
        usize::from(self.family.cls) + self.registers
    }

    /// Number of tokens before the patches that have a row in the table of absolute positions.
    pub fn placed(&self) -> usize {
        match self.family.prefix_kind {
            PrefixKind::Distillation => self.prefix_tokens(),
            PrefixKind::None | PrefixKind::Registers(_) => usize::from(self.family.cls),
        }
    }

    /// The name of the layer norm after the last layer, if tokens go through one.
    pub fn last_norm(&self) -> Option<&'static str> {
        self.family.names.last.filter(|_| self.final_norm)
    }

    /// The patch grid of the images it was trained on.
    pub fn grid(&self) -> Grid {
        Grid::new(self.image[0] / self.patch[0], self.image[1] / self.patch[1])
    }

    /// Checks that `layer` exists, and that `joined` layers end at it, the embeddings counted as layer 0.
    pub fn check_layer(&self, layer: usize, joined: usize) -> Result<(), BackboneError> {
        match layer {
            _ if layer > self.layers => Err(BackboneError::Layer { layer, layers: self.layers }),
            _ if joined > layer + 1 => Err(BackboneError::Blocks { joined, layer }),
            _ => Ok(()),
        }
    }

    /// Checks that this family has its patch tokens in `order`: only ViT-MAE has others than raster order.
    pub fn check_order(&self, order: MaeOrder) -> Result<(), BackboneError> {
        match !order.is_shuffled() || *self.family == VIT_MAE {
            true => Ok(()),
            false => Err(BackboneError::Order { order, family: self.family.name }),
        }
    }

    /// The patch grid of an image of this size in pixels; an error if it cannot be cut into patches.
    pub fn grid_of(&self, height: usize, width: usize) -> Result<Grid, BackboneError> {
        let [down, right] = self.patch;
        if height == 0 || width == 0 || !height.is_multiple_of(down) || !width.is_multiple_of(right) {
            return Err(BackboneError::Size { height, width, down, right });
        }
        let grid = Grid::new(height / down, width / right);
        let patches = grid.rows.saturating_mul(grid.cols);
        if patches > PATCH_LIMIT {
            return Err(BackboneError::Patches { height, width, patches });
        }
        Ok(grid)
    }
}

fn activation(fields: &Fields, default: Activation) -> Result<Activation, ConfigError> {
    let Some(name) = fields.map.get("hidden_act") else { return Ok(default) };
    let found = ACTIVATIONS.iter().find(|(known, _)| Some(*known) == name.as_str());
    found.map(|found| found.1).ok_or_else(|| {
        let known: Vec<&str> = ACTIVATIONS.iter().map(|(known, _)| *known).collect();
        fields.error("hidden_act", known.join(", "))
    })
}

fn rotary(fields: &Fields, positions: Positions) -> Result<Option<Rotary>, ConfigError> {
    let base = |default| fields.number("rope_theta", default, 1e-3..=1e12);
    Ok(match positions {
        Positions::Rotary => Some(Rotary::Centred { base: base(100.0)? }),
        Positions::RotaryAndAbsolute(_) => {
            let reference = fields.count("rope_reference_size", 16, 1..=16_384)?;
            Some(Rotary::Counted { base: base(10_000.0)?, reference })
        }
        Positions::Absolute(_) | Positions::Relative(_) => None,
    })
}

fn biases(fields: &Fields, schema: ConfigSchema) -> Result<Biases, ConfigError> {
    let all = Biases { qkv: [true; 3], out: true, mlp: true };
    Ok(match schema {
        ConfigSchema::Vit | ConfigSchema::Dinov2 => {
            Biases { qkv: [fields.flag("qkv_bias", true)?; 3], ..all }
        }
        ConfigSchema::Beit => Biases { qkv: [true, false, true], ..all },
        ConfigSchema::Eva02 => {
            let bias = fields.flag("qkv_bias", true)?;
            Biases { qkv: [bias, false, bias], ..all }
        }
        ConfigSchema::Dinov3 => Biases {
            qkv: [
                fields.flag("query_bias", true)?,
                fields.flag("key_bias", false)?,
                fields.flag("value_bias", true)?,
            ],
            out: fields.flag("proj_bias", true)?,
            mlp: fields.flag("mlp_bias", true)?,
        },
        ConfigSchema::Clip => all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gated_mlp_of_dinov2_keeps_two_thirds_of_its_units_in_eights() {
        let fields = serde_json::json!({
            "model_type": "dinov2", "hidden_size": 16, "num_attention_heads": 2, "use_swiglu_ffn": true
        });
        let config = Config::from_object(Path::new("config.json"), fields.as_object().unwrap()).unwrap();
        assert_eq!(config.mlp_dim, 48, "42 of 64, rounded up");
    }

    #[test]
    fn an_unfinished_pretraining_is_not_a_missing_download() {
        let dir = tempfile::tempdir().unwrap();
        let error = || Config::open(dir.path()).err().unwrap().to_string();
        assert!(error().contains("needs the config.json from the Hugging Face Hub"), "{}", error());
        std::fs::write(dir.path().join("pretraining.json"), "{}").unwrap();
        let resume = format!("`ssmprobe pretrain --resume --out {}` continues it", dir.path().display());
        assert!(error().contains(&resume), "{}", error());
    }
}
