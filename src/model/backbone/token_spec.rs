//! How tokens are taken from a backbone: the layer, the image size, the order and the precision. Caches, runs and probe
//! files store it, so that a probe is not applied to other tokens than those it was trained on.

use std::fmt;
use std::str::FromStr;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arithmetic::Arithmetic;
use super::family;
use super::order::MaeOrder;

/// A layer of a backbone as the user writes it: its number (0: embeddings), or `last` (`None`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Layer(pub Option<usize>);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(layer) => layer.fmt(f),
            None => f.write_str("last"),
        }
    }
}

impl FromStr for Layer {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "last" => Ok(Self(None)),
            number => number
                .parse()
                .map(|layer| Self(Some(layer)))
                .map_err(|_| "expected the number of a layer, from 0, or last"),
        }
    }
}

impl TryFrom<String> for Layer {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Layer> for String {
    fn from(layer: Layer) -> Self {
        layer.to_string()
    }
}

/// The values separated by commas, as in flags and names.
pub fn comma_separated(all: &[impl fmt::Display]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// How tokens are taken. What its fields say is the help of the flags that every verb with a backbone has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Args)]
#[serde(default)]
pub struct TokenSpec {
    /// Use the tokens after this layer (0: embeddings; or last), final norm included [default: last].
    #[arg(long, value_name = "L", value_parser = layer)]
    pub layer: std::option::Option<usize>, // spelt out, so that clap keeps `last`, which is none, as a value
    /// Concatenate the tokens of N layers along the channels, up to the layer of --layer: N times as wide. DINOv2's
    /// linear evaluation reads its last 4 like this [default: 1].
    #[arg(long, value_name = "N", value_parser = blocks)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<usize>,
    /// Side of the images in pixels [default: the backbone's own].
    #[arg(long, value_name = "PIXELS", value_parser = size)]
    pub size: Option<usize>,
    /// Order of ViT-MAE's patch tokens: kept; `shuffled[:SEED]`, one order per image; or redrawn in every training
    /// pass, as transformers does in every forward pass (token `i` is then not patch `i` of the image) [default:
    /// kept].
    #[arg(long, value_name = "ORDER")]
    pub mae_order: MaeOrder,
    /// Precision of the backbone's matrix products; half precision on GPUs that support it, with float32 between
    /// layers [default: float32].
    #[arg(long, value_name = "float32|float16|bfloat16")]
    pub arithmetic: Arithmetic,
}

fn layer(text: &str) -> Result<Option<usize>, &'static str> {
    text.parse::<Layer>().map(|Layer(layer)| layer)
}

fn size(text: &str) -> Result<usize, &'static str> {
    let pixels = text.parse().ok().filter(|pixels| (1..=8192).contains(pixels));
    pixels.ok_or("expected a number of pixels from 1 to 8192")
}

fn blocks(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|&number| number > 0).ok_or("expected a number of layers, from 1")
}

impl TokenSpec {
    /// Number of layers concatenated in a token, 1 or more.
    pub fn joined(&self) -> usize {
        self.blocks.unwrap_or(1).max(1)
    }

    /// The layers in words: `last layer`, `layer 6`, `last 4 layers`, `layers 3 to 6`.
    pub fn layers(&self) -> String {
        match (self.layer, self.joined()) {
            (None, 1) => "last layer".to_owned(),
            (None, many) => format!("last {many} layers"),
            (Some(layer), 1) => format!("layer {layer}"),
            (Some(layer), many) => format!("layers {} to {layer}", (layer + 1).saturating_sub(many)),
        }
    }

    /// The canonical form for a backbone of `layers` layers and this `model_type`: the last layer has
    /// no number, one block is `None`, and only ViT-MAE has another order than raster order.
    pub fn canonical(self, layers: usize, model_type: &str) -> Self {
        let mae = model_type == family::VIT_MAE.model_type;
        let mae_order = if mae { self.mae_order } else { MaeOrder::Kept };
        let blocks = self.blocks.filter(|&blocks| blocks > 1);
        Self { layer: self.layer.filter(|&layer| layer != layers), blocks, mae_order, ..self }
    }

    /// Layer, order and precision as caches and runs name them: `last`, or `last, 4 blocks, shuffled by seed 7, in
    /// float16`.
    pub fn name(&self) -> String {
        let mut layer = Layer(self.layer).to_string();
        if self.joined() > 1 {
            layer += &format!(", {} blocks", self.joined());
        }
        let order = self.mae_order.words().map_or_else(String::new, |words| format!(", {words}"));
        match self.arithmetic {
            Arithmetic::Float32 => format!("{layer}{order}"),
            halves => format!("{layer}{order}, in {}", halves.name()),
        }
    }

    /// Parses what [`name`](Self::name) writes; `size` is the image size, which the name does not contain.
    pub fn read(name: &str, size: Option<usize>) -> Option<Self> {
        let (text, arithmetic) = match name.split_once(", in ") {
            Some((text, name)) => (text, name.parse().ok()?),
            None => (name, Arithmetic::Float32),
        };
        let (layer, mae_order) = match (text.split_once(", shuffled by seed "), text.split_once(", redrawn"))
        {
            (Some((layer, seed)), _) => (layer, MaeOrder::Shuffled(seed.parse().ok()?)),
            (None, Some((layer, _))) => (layer, MaeOrder::Redrawn),
            (None, None) => (text, MaeOrder::Kept),
        };
        let (layer, blocks) = match layer.split_once(", ") {
            Some((layer, text)) => (layer, Some(blocks(text.strip_suffix(" blocks")?).ok()?)),
            None => (layer, None),
        };
        let Layer(layer) = layer.parse().ok()?;
        Some(Self { layer, blocks, size, mae_order, arithmetic })
    }

    /// Whether tokens of this [`name`](Self::name) lie in another order than the patches of their image.
    pub fn is_shuffled(name: &str) -> bool {
        Self::read(name, None).is_some_and(|token_spec| token_spec.mae_order.is_shuffled())
    }

    /// Descriptions of every difference to `other`: (this, other). Precision does not count: it changes
    /// only a token's last digits.
    pub fn differences(&self, other: &Self) -> Vec<(String, String)> {
        let layer = |spec: &Self| {
            let the = if spec.layer.is_none() { "the " } else { "" };
            format!("tokens after {the}{}", spec.layers())
        };
        let size = |spec: &Self| match spec.size {
            Some(size) => format!("images of {size} pixels"),
            None => "images of the backbone's own size".to_owned(),
        };
        let order = |spec: &Self| {
            format!("patch tokens {}", spec.mae_order.words().unwrap_or_else(|| "in their order".to_owned()))
        };
        let pairs = [layer(self), size(self), order(self)].into_iter();
        pairs.zip([layer(other), size(other), order(other)]).filter(|(own, other)| own != other).collect()
    }
}

/// What a probe file records of the tokens it was trained on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trained {
    /// How they were taken.
    pub token_spec: TokenSpec,
    /// The preprocessor's [key](super::preprocess::Preprocessor::key), if recorded.
    pub preprocessing: Option<String>,
}

impl Trained {
    /// Parses the `training` metadata of a probe file; `None` if it does not record the tokens.
    pub fn from_training(training: Option<&Value>) -> Option<Self> {
        let training = training?;
        let tokens = training.get("tokens")?;
        let size = training.get("size").and_then(Value::as_u64).map(|size| size as usize);
        let token_spec = TokenSpec::read(tokens.get("layer")?.as_str()?, size)?;
        let preprocessing = tokens.get("preprocessing").and_then(Value::as_str).map(str::to_owned);
        Some(Self { token_spec, preprocessing })
    }

    /// Descriptions of every difference to other tokens: (those it was trained on, the others).
    pub fn differences(&self, token_spec: &TokenSpec, preprocessing: &str) -> Vec<(String, String)> {
        let mut differences = self.token_spec.differences(token_spec);
        if let Some(own) = &self.preprocessing {
            let pixels = |text: &String| text.starts_with("images ");
            if own == preprocessing {
                // The pixels are the same even if the sizes are written differently.
                differences.retain(|(text, _)| !pixels(text));
            } else if !differences.iter().any(|(text, _)| pixels(text)) {
                differences.push((format!("images prepared by {own}"), format!("by {preprocessing}")));
            }
        }
        differences
    }

    /// Descriptions of what differs in other tokens from those it was trained on; only the others are described.
    pub fn changes(&self, token_spec: &TokenSpec, preprocessing: &str) -> Vec<String> {
        let differences = self.differences(token_spec, preprocessing).into_iter();
        let words = |(own, now): (String, String)| match own.starts_with("images prepared by") {
            true => "images prepared otherwise".to_owned(),
            false => now,
        };
        differences.map(words).collect()
    }
}

/// Joins differences for the end of a sentence: `tokens after layer 6, not tokens after the last layer`.
pub fn describe_differences(differences: &[(String, String)]) -> String {
    let one = |(own, other): &(String, String)| format!("{own}, not {other}");
    differences.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let plain = TokenSpec { size: Some(160), ..TokenSpec::default() };
        let all = TokenSpec {
            layer: Some(3),
            mae_order: MaeOrder::Shuffled(7),
            arithmetic: Arithmetic::Float16,
            ..plain
        };
        let redrawn = TokenSpec { mae_order: MaeOrder::Redrawn, ..all };
        let names = [
            (plain, "last"),
            (all, "3, shuffled by seed 7, in float16"),
            (redrawn, "3, redrawn in every pass, in float16"),
            (TokenSpec { blocks: Some(4), ..plain }, "last, 4 blocks"),
            (TokenSpec { blocks: Some(2), ..all }, "3, 2 blocks, shuffled by seed 7, in float16"),
        ];
        for (token_spec, name) in names {
            assert_eq!(token_spec.name(), name);
            assert_eq!(TokenSpec::read(name, Some(160)), Some(token_spec));
            assert_eq!(TokenSpec::is_shuffled(name), token_spec.mae_order != MaeOrder::Kept);
        }
        for other in ["first", "last, 0 blocks", "last, 4", "last, 4 blocks, 2 blocks"] {
            assert_eq!(TokenSpec::read(other, None), None, "{other}");
        }
    }

    #[test]
    fn settings_that_change_nothing_for_a_backbone_are_dropped() {
        let asked = TokenSpec { layer: Some(12), mae_order: MaeOrder::Shuffled(1), ..TokenSpec::default() };
        assert_eq!(asked.canonical(12, "vit"), TokenSpec::default());
        assert_eq!(asked.canonical(24, "vit_mae"), asked);
        assert_eq!(TokenSpec { blocks: Some(1), ..asked }.canonical(12, "vit"), TokenSpec::default());
    }

    #[test]
    fn joined_layers_are_told_from_one() {
        let last = TokenSpec { blocks: Some(4), ..TokenSpec::default() };
        let deep = TokenSpec { layer: Some(6), ..last };
        assert_eq!((last.layers(), deep.layers()), ("last 4 layers".to_owned(), "layers 3 to 6".to_owned()));
        assert_eq!(
            describe_differences(&last.differences(&TokenSpec::default())),
            "tokens after the last 4 layers, not tokens after the last layer"
        );
    }

    #[test]
    fn a_probe_says_what_it_was_trained_on() {
        let training = serde_json::json!({"tokens": {"layer": "6", "preprocessing": "p"}, "size": 160});
        let trained = Trained::from_training(Some(&training)).unwrap();
        let used = TokenSpec { layer: Some(6), size: Some(160), ..TokenSpec::default() };
        assert_eq!(trained.differences(&used, "p"), []);
        let differences = trained.differences(&TokenSpec::default(), "q");
        assert_eq!(differences.len(), 2);
        assert!(
            describe_differences(&differences)
                .starts_with("tokens after layer 6, not tokens after the last layer; ")
        );
        let own_size = TokenSpec { size: None, ..used };
        assert_eq!(trained.differences(&own_size, "p"), []); // the same pixels by another name
        assert_eq!(trained.differences(&used, "q").len(), 1);
        let shuffled = TokenSpec { mae_order: MaeOrder::Shuffled(7), ..used };
        let text = describe_differences(&trained.differences(&shuffled, "p"));
        assert_eq!(text, "patch tokens in their order, not patch tokens shuffled by seed 7");
        assert_eq!(Trained::from_training(Some(&serde_json::json!({"seed": 0}))), None);
    }
}
