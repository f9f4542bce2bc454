//! The configuration of a checkpoint's encoder, derived from the names and shapes of its tensors.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::layout::{self, MLPS, Mlp, Written};
use super::project::Project;
use super::rotary::BASE;
use super::timm::TimmConfig;
use super::{ImportOptions, OriginalError};
use crate::model::backbone::position::relative_len;
use crate::model::backbone::weights::Weights;
use crate::model::grid::Grid;

/// Most layers of a backbone.
const MAX_LAYERS: usize = 512;
/// Width and layers of EVA-02-CLIP-E (Sun et al. 2023): named as BEiT's are, but normalised after attention, which no shape says.
const EVA02_CLIP_E: [usize; 2] = [1792, 64];
/// The epsilon of the layer norms of all these projects.
const EPSILON: f64 = 1e-6;

/// The encoder within a checkpoint.
pub(super) struct Encoder<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its tensors.
    pub weights: &'a Weights,
    /// The project that published it.
    pub project: &'static Project,
    /// Prefix of the encoder's names.
    pub prefix: &'a str,
    /// Prefixes of the other encoders that the user chose it from, which are left out.
    pub others: &'a [String],
    /// What a `config.json` beside it says.
    pub published: Option<&'a TimmConfig>,
}

impl Encoder<'_> {
    /// The shape of the encoder's tensor `name`.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.weights.shape(&format!("{}{name}", self.prefix))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.weights.names().filter_map(|(name, _)| name.strip_prefix(self.prefix))
    }

    /// Whether any block has a tensor whose name ends with `end`.
    fn has(&self, end: &str) -> bool {
        self.names().any(|name| name.starts_with("blocks.") && name.ends_with(end))
    }

    /// The shape of a tensor, which must have `N` axes of lengths from 1 to 2^20; zeros if there is no such tensor.
    pub(super) fn axes<const N: usize>(
        &self,
        name: &str,
        expected: &str,
    ) -> Result<[usize; N], OriginalError> {
        let Some(found) = self.shape(name) else { return Ok([0; N]) };
        let whole = found.iter().all(|&n| (1..=1 << 20).contains(&n));
        let axes = <[usize; N]>::try_from(found).ok().filter(|_| whole);
        axes.ok_or_else(|| self.misshapen(name, found, expected.to_owned()))
    }

    /// The error that the encoder's tensor `name` has another shape than `expected`.
    pub(super) fn misshapen(&self, name: &str, found: &[usize], expected: String) -> OriginalError {
        let (path, name) = (self.path.to_owned(), format!("{}{name}", self.prefix));
        OriginalError::Shape { path, name, found: found.to_owned(), expected }
    }

    /// The contents of `config.json`, the file's naming scheme, and lines for the user.
    pub fn describe(&self, options: &ImportOptions) -> Result<(Value, Written, Vec<String>), OriginalError> {
        let [width, _, down, right] =
            self.axes("patch_embed.proj.weight", "[width, 3, height, width] of a patch")?;
        let blocks = layout::blocks(self.names());
        let layers = self.layers(&blocks, width)?;
        let types = self.project.model_types;
        let scales = self.layer_scales();
        let first = blocks.values().next().cloned().unwrap_or_default();
        let (mlp, units, gated) = self.mlp(&first, width)?;
        let extra = ["register_tokens", "reg_token", "dist_token"]
            .into_iter()
            .find(|name| self.shape(name).is_some());
        let [_, registers, _] = match extra {
            Some(name) => self.axes(name, "[1, tokens, width]")?,
            None => [1, 0, width],
        };
        let relative = self.has(".attn.relative_position_bias_table");
        let shared = self.shape("rel_pos_bias.relative_position_bias_table").is_some();
        let split_qkv = self.has(".attn.q_proj.weight");
        let own = if self.has(".attn.q_proj.bias") { "_proj.bias" } else { "_bias" };
        let eva02 = gated && (split_qkv || self.has(".attn.q_bias"));
        let beit = relative || shared || self.has(".attn.q_bias");
        let seen = match extra {
            _ if eva02 => "eva02",
            Some("dist_token") => "deit",
            Some(_) => "dinov2_with_registers",
            None if beit => "beit",
            None if scales.is_some() => "dinov2",
            None => "vit",
        };
        if seen.starts_with("dinov2") && scales == Some(["gamma_1", "gamma_2"]) {
            return Err(self.rotary(&first));
        }
        // Weights that look like another project's are held against its first: the error lists what does not fit.
        let model_type = if types.contains(&seen) { seen } else { types[0] };
        let table = match relative {
            true => format!("{first}attn.relative_position_bias_table"),
            false => "rel_pos_bias.relative_position_bias_table".to_owned(),
        };
        let [offsets, columns] = self.axes::<2>(&table, "[offsets, heads]")?;
        let placed = 1 + usize::from(extra == Some("dist_token"));
        let (image, bare_positions) = self.image(options, [down, right], placed, offsets)?;
        let (heads, known) = self.heads(options, width, columns, image)?;
        let is_eva02 = model_type == "eva02";
        let own_biases = (is_eva02 || model_type == "beit").then_some(own);
        let qkv_bias = self.has(".attn.qkv.bias") || (is_eva02 && self.has(&format!(".attn.q{own}")));
        let within = ["attn.norm", "attn.inner_attn_ln"];
        let attention_norm = within.into_iter().find(|name| self.has(&format!(".{name}.weight")));
        let side = |[high, wide]: [usize; 2]| if high == wide { json!(high) } else { json!([high, wide]) };
        let mut config = json!({
            "model_type": model_type,
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "hidden_act": "gelu",
            "layer_norm_eps": EPSILON,
            "image_size": side(image),
            "patch_size": side([down, right]),
            "num_channels": 3,
        });
        let mut known = known.to_owned();
        let mask = self.shape("mask_token").map(<[usize]>::to_vec);
        let mask = mask.filter(|_| model_type == "beit" || model_type.starts_with("dinov2"));
        let more = match model_type {
            "beit" => json!({
                "architectures": ["BeitModel"],
                "intermediate_size": units,
                "use_relative_position_bias": relative,
                "use_shared_relative_position_bias": shared,
                "use_absolute_position_embeddings": self.shape("pos_embed").is_some(),
                "layer_scale_init_value": if scales.is_some() { 0.1 } else { 0.0 },
                "use_mean_pooling": self.shape("norm.weight").is_none(),
                "use_mask_token": mask.is_some(),
            }),
            "eva02" => {
                let grid = Grid::new(image[0] / down, image[1] / right);
                let (reference, of) = self.reference(grid, width / heads.max(1))?;
                known += &format!("), rotary positions relative to {reference} x {reference} patches ({of}");
                json!({
                    "hidden_act": "silu",
                    "intermediate_size": units,
                    "qkv_bias": qkv_bias,
                    "use_attention_norm": attention_norm.is_some(),
                    "use_mlp_norm": self.has(&format!(".{}.weight", mlp.norm)),
                    "use_mean_pooling": self.shape("norm.weight").is_none(),
                    "rope_theta": BASE,
                    "rope_reference_size": reference,
                })
            }
            "dinov2" | "dinov2_with_registers" => json!({
                "architectures": [if registers > 0 { "Dinov2WithRegistersModel" } else { "Dinov2Model" }],
                "mlp_ratio": ratio(width, units, gated),
                "use_swiglu_ffn": gated,
                "qkv_bias": qkv_bias,
                "num_register_tokens": registers,
                "use_mask_token": mask.is_some(),
            }),
            other => json!({
                "architectures": [plain_architecture(other)],
                "intermediate_size": units,
                "qkv_bias": qkv_bias,
            }),
        };
        if let (Value::Object(config), Value::Object(more)) = (&mut config, more) {
            config.extend(more);
        }
        let under = self.under();
        let notes = vec![
            format!(
                "{}{under}: {layers} layers of width {width}, patches of {down} x {right}, trained on images of {} x {}",
                self.project.name, image[0], image[1]
            ),
            format!("{heads} attention heads ({known})"),
        ];
        let extra = extra.unwrap_or("register_tokens");
        let written = Written {
            blocks,
            bare_positions,
            extra,
            scales,
            split_qkv,
            own_biases,
            mlp,
            attention_norm: attention_norm.unwrap_or_default(),
            mask,
        };
        Ok((config, written, notes))
    }

    /// The number of layers, if it is supported; `blocks` has the prefix of each by its number.
    fn layers(&self, blocks: &BTreeMap<usize, String>, width: usize) -> Result<usize, OriginalError> {
        let layers = blocks.keys().last().map_or(0, |last| last.saturating_add(1));
        let post_norm = [width, layers] == EVA02_CLIP_E;
        if (1..=MAX_LAYERS).contains(&layers) && !post_norm {
            return Ok(layers);
        }
        let expected = match post_norm {
            true => {
                "pre-norm blocks: EVA-02-CLIP-E normalises after attention, which is not supported".into()
            }
            false => format!("1 to {MAX_LAYERS} blocks"),
        };
        Err(self.misshapen("blocks.", &[layers], expected))
    }

    /// The error of layer scales with BEiT's names but without its biases, which timm's models with rotary positions alone have:
    /// nothing else in their weights tells these positions. `block` is the prefix of a block.
    fn rotary(&self, block: &str) -> OriginalError {
        let name = format!("{block}gamma_1");
        let found = self.shape(&name).unwrap_or_default();
        let expected = "ls1.gamma: timm's models with rotary positions (RoPE), which are not supported, have this name; for DeiT III, import timm's weights";
        self.misshapen(&name, found, expected.into())
    }

    /// The names of a block's layer scales, if there are any.
    fn layer_scales(&self) -> Option<[&'static str; 2]> {
        match (self.has(".ls1.gamma"), self.has(".gamma_1")) {
            (true, _) => Some(["ls1.gamma", "ls2.gamma"]),
            (false, true) => Some(["gamma_1", "gamma_2"]),
            (false, false) if self.project.model_types[0] == "dinov2" => Some(["ls1.gamma", "ls2.gamma"]), // missing, then
            (false, false) => None,
        }
    }

    /// The number of attention heads, and how it is known. `columns`: columns of the table of relative biases, or 0.
    fn heads(
        &self,
        options: &ImportOptions,
        width: usize,
        columns: usize,
        image: [usize; 2],
    ) -> Result<(usize, &'static str), OriginalError> {
        let usual = self.project.heads.iter().find(|(published, _)| *published == width);
        let known = [
            ((columns > 0).then_some(columns), "one column each in the relative biases"),
            (options.heads, "as given"),
            (self.published.and_then(|own| own.heads(image)), "as the config.json beside the weights says"),
            (usual.map(|usual| usual.1), "as published at this width, override with --heads"),
        ];
        let error = || OriginalError::Heads { path: self.path.to_owned(), project: self.project.name, width };
        known.into_iter().find_map(|(heads, how)| Some((heads?, how))).ok_or_else(error)
    }

    /// The names of the feed-forward networks, their number of hidden units, and whether they are gated. `first` is the prefix
    /// of the first block.
    fn mlp(&self, first: &str, width: usize) -> Result<(&'static Mlp, usize, bool), OriginalError> {
        let (plain, gates) = MLPS.split_last().expect("four of them");
        let gate = gates.iter().find(|mlp| self.has(&format!(".{}.weight", mlp.up[0])));
        let mlp = gate.unwrap_or(plain);
        let [rows, _] = self.axes::<2>(&format!("{first}{}.weight", mlp.up[0]), "[units, width]")?;
        let [_, units] = self.axes::<2>(&format!("{first}{}.weight", mlp.down), "[width, units]")?;
        let rows = rows * mlp.up.len();
        let gated = gate.is_some() || (units > 0 && rows == 2 * units);
        // If one of them is missing, the other still determines the expected shapes.
        let units = match (gated, rows, units) {
            (_, 0, 0) => 4 * width,
            (_, 0, units) => units,
            (true, ..) => rows / 2,
            (false, rows, _) => rows,
        };
        Ok((mlp, units, gated))
    }

    /// The key and prefix at which the encoder was found, for the lines for the user.
    fn under(&self) -> String {
        match (self.weights.under.as_str(), self.prefix) {
            ("", "") => String::new(),
            (key, "") => format!(", under {key:?}"),
            ("", prefix) => format!(", under prefix {prefix:?}"),
            (key, prefix) => format!(", under {key:?} and prefix {prefix:?}"),
        }
    }

    /// Height and width of the images it was trained on, and whether its position table has no row for CLS. `placed`:
    /// number of tokens before the patches that have a row there; `offsets`: rows of the table of relative biases, or 0.
    fn image(
        &self,
        options: &ImportOptions,
        [down, right]: [usize; 2],
        placed: usize,
        offsets: usize,
    ) -> Result<([usize; 2], bool), OriginalError> {
        let wrong = |what: String| OriginalError::Image { path: self.path.to_owned(), what };
        let [_, rows, _] = self.axes("pos_embed", "[1, tokens, width]")?;
        let of = |n: usize| Some(n.isqrt()).filter(|side| n > 0 && side * side == n);
        if let Some(image) = options.image {
            let cut = image[0].is_multiple_of(down) && image[1].is_multiple_of(right);
            let patches = (image[0] / down).saturating_mul(image[1] / right);
            let fits = [placed + patches, patches].contains(&rows) || rows == 0;
            let grid = Grid::new(image[0] / down, image[1] / right);
            return match cut && patches > 0 && fits && (offsets == 0 || relative_len(grid) == offsets) {
                true => Ok((image, rows == patches)),
                false => Err(wrong(format!(
                    "images of {} x {} do not fit patches of {down} x {right} and {rows} positions, {offsets} relative ones",
                    image[0], image[1]
                ))),
            };
        }
        let squares = (rows.checked_sub(placed).and_then(of), of(rows));
        let (side, bare) = match squares {
            (Some(side), None) => (side, false),
            (None, Some(side)) => (side, true),
            (None, None) if rows == 0 && offsets > 3 => match of(offsets - 3) {
                Some(side) => (side / 2 + 1, false), // 2 side - 1 offsets along each axis
                None => {
                    return Err(wrong(format!("its {offsets} relative positions fit no square image")));
                }
            },
            (None, None) if rows == 0 => {
                return Err(wrong("it has no positions to tell its grid from".into()));
            }
            _ => return Err(wrong(format!("its {rows} positions fit no square image"))),
        };
        Ok(([side * down, side * right], bare))
    }
}

/// The class in transformers of a `model_type` whose `config.json` has no other fields than ViT's.
fn plain_architecture(model_type: &str) -> &'static str {
    match model_type {
        "vit" => "ViTModel",
        "vit_mae" => "ViTMAEModel",
        "deit" => "DeiTModel",
        _ => unreachable!("a project is imported as {model_type}, whose config.json is not described"),
    }
}

/// The `mlp_ratio` that gives `units` hidden units: transformers multiplies it by the width and truncates; in a gated
/// network it then takes two thirds, rounded up to a multiple of 8.
fn ratio(width: usize, units: usize, gated: bool) -> Value {
    let wide = if gated { units + units / 2 } else { units };
    match wide.is_multiple_of(width.max(1)) {
        true => json!(wide / width.max(1)),
        false => json!((wide as f64 + 0.5) / width as f64),
    }
}
