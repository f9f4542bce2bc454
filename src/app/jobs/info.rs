//! Descriptions of open backbones and probes as plain data, and whether a probe fits a backbone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::BackboneOptions;
use crate::app::format::counted;
use crate::model::backbone::Backbone;
use crate::model::backbone::token_spec::{Trained, describe_differences};
use crate::model::grid::Grid;
use crate::model::probe::head::{self, Config};
use crate::model::probe::router::Router;
use crate::model::probe::{Probe, replaced};

/// Description of an open backbone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackboneInfo {
    /// Its name: that of its folder or its id on the Hub.
    pub id: String,
    /// Its family.
    pub model_type: String,
    /// Hidden size, d.
    pub width: usize,
    /// Transformer layers.
    pub layers: usize,
    /// Height and width of a patch.
    pub patch: [usize; 2],
    /// The patch grid; absent if it depends on the image.
    pub grid: Option<Grid>,
    /// Whether it has a CLS token.
    pub cls: bool,
    /// SHA-256 of its weights.
    pub fingerprint: String,
    /// What its tokens depend on besides; absent if a worker of an earlier version has opened it.
    #[serde(default)]
    pub config: Option<String>,
    /// Name of the device it is on.
    pub device: String,
    /// The hardware's own name, and why it was chosen.
    pub adapter: String,
    /// How it reads images.
    pub options: BackboneOptions,
}

/// Description of an open probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeInfo {
    /// File name without extension.
    pub name: String,
    /// Head id.
    pub head: String,
    /// The head's name on the screen.
    pub head_name: String,
    /// The head's settings.
    pub config: Config,
    /// Hidden size it reads, d.
    pub width: usize,
    /// Number of tokens it requires, if its order is fixed.
    pub tokens: Option<usize>,
    /// Whether it reads the CLS token.
    pub needs_cls: bool,
    /// Whether it has a learned router.
    pub routed: bool,
    /// Whether that router's temperature changes how an image is read.
    pub soft: bool,
    /// Whether that router iterates.
    pub iterated: bool,
    /// Names of the classes; empty if only their number is known.
    pub classes: Arc<[String]>,
    /// Number of classes, C.
    pub class_count: usize,
    /// The backbone it was trained on.
    pub backbone: String,
    /// SHA-256 of that backbone's weights, if known.
    pub backbone_fingerprint: Option<String>,
    /// What that backbone's tokens depend on besides, if known.
    #[serde(default)]
    pub backbone_config: Option<String>,
    /// The tokens it was trained on, if its file says.
    pub trained: Option<Box<Trained>>,
    /// Test accuracy in percent when it was saved, if its file says.
    pub accuracy: Option<f64>,
    /// The same on the images that picked its epoch.
    #[serde(default)]
    pub selection: Option<f64>,
    /// SHA-256 of the probe file.
    pub fingerprint: String,
}

/// Whether a probe can read a backbone's tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compatibility {
    /// It can.
    Fits,
    /// It can, but its results may be meaningless: why.
    Doubtful(String),
    /// It cannot: why.
    DoesNot(String),
}

impl BackboneInfo {
    /// Describes a backbone on `device` (`adapter` is its description), for images that become `output` pixels
    /// (height, width).
    pub fn new(
        backbone: &Backbone,
        device: String,
        adapter: String,
        output: Option<(usize, usize)>,
        options: BackboneOptions,
    ) -> Self {
        Self {
            id: backbone.id().to_owned(),
            model_type: backbone.model_type().to_owned(),
            width: backbone.width(),
            layers: backbone.layers(),
            patch: backbone.config().patch,
            grid: output.and_then(|(height, width)| backbone.grid(height, width).ok()),
            cls: backbone.config().family.cls,
            fingerprint: backbone.fingerprint().to_owned(),
            config: Some(backbone.config().key()),
            device,
            adapter,
            options,
        }
    }

    /// A summary in one line: `vit_mae, 768 wide, 12 layers, 14 x 14 patches`.
    pub fn summary(&self) -> String {
        let Self { model_type, width, layers, grid, .. } = self;
        let grid = grid.map_or(String::new(), |g| format!(", {} × {} patches", g.rows, g.cols));
        let layers = counted(*layers, "layer", "layers");
        format!("{model_type}, {width} wide, {layers}{grid}, on {}", self.device)
    }
}

impl ProbeInfo {
    /// Describes a probe in the file called `name` with this SHA-256.
    pub fn new(probe: &Probe, name: String, fingerprint: String) -> Self {
        let kind = head::find(&probe.meta.head);
        let router = probe.head().router();
        let percent = |of: &str| probe.meta.training.as_ref()?.pointer(of)?.as_f64();
        Self {
            name,
            head: probe.meta.head.clone(),
            head_name: kind.map_or_else(|| probe.meta.head.clone(), |kind| kind.name.to_owned()),
            config: probe.meta.config.clone(),
            width: probe.meta.backbone.hidden_size,
            tokens: probe.arrays.get("order").map(|order| order.data.len()),
            needs_cls: probe.head().needs_cls(),
            routed: router.is_some(),
            soft: router.is_some_and(Router::is_soft),
            iterated: router.is_some_and(|router| router.settings().iterations.is_some()),
            classes: probe.meta.classes.clone().into(),
            class_count: probe.classes(),
            backbone: probe.meta.backbone.id.clone(),
            backbone_fingerprint: probe.meta.backbone.fingerprint.clone(),
            backbone_config: probe.meta.backbone.config.clone(),
            trained: Trained::from_training(probe.meta.training.as_ref()).map(Box::new),
            accuracy: percent("/epoch/test"),
            selection: percent("/epoch/select"),
            fingerprint,
        }
    }

    /// A summary in one line: `Sinkhorn, 200 classes, trained on facebook/vit-mae-base`.
    pub fn summary(&self) -> String {
        let backbone = match self.backbone.as_str() {
            "" => format!("{}-wide tokens", self.width),
            id => id.to_owned(),
        };
        let accuracy = self.accuracy.map_or(String::new(), |right| format!(", {right:.1} %"));
        let classes = counted(self.class_count, "class", "classes");
        format!("{}{accuracy}, {classes}, trained on {backbone}", self.head_name)
    }

    /// Whether it can read the tokens of `backbone`.
    pub fn fits(&self, backbone: &BackboneInfo) -> Compatibility {
        if self.width != backbone.width {
            if let Some(why) = self.token_mismatch(backbone).filter(|_| self.suits(backbone)) {
                return Compatibility::DoesNot(format!("{why}. Read images as it was trained"));
            }
            return Compatibility::DoesNot(format!(
                "Reads tokens of {} channels; {} gives {}. Open the backbone it was trained on{}",
                self.width,
                backbone.id,
                backbone.width,
                if self.backbone.is_empty() { String::new() } else { format!(" ({})", self.backbone) }
            ));
        }
        if self.needs_cls && !backbone.cls {
            let Self { head_name, .. } = self;
            return Compatibility::DoesNot(format!(
                "{head_name} reads the CLS token, and {} has none. Open another probe or backbone",
                backbone.id
            ));
        }
        if let (Some(tokens), Some(grid)) = (self.tokens, backbone.grid)
            && tokens != grid.len()
        {
            return Compatibility::DoesNot(format!(
                "Has an order of {tokens} tokens; {} gives {} ({} × {}). Use the image size it was trained at",
                backbone.id,
                grid.len(),
                grid.rows,
                grid.cols
            ));
        }
        let own = [&self.backbone_fingerprint, &self.backbone_config].map(Option::as_deref);
        if let Some(what) = replaced(own, [Some(&backbone.fingerprint), backbone.config.as_deref()]) {
            return Compatibility::Doubtful(format!(
                "Trained on {what} ({}) than {} has",
                self.backbone, backbone.id
            ));
        }
        self.token_mismatch(backbone).map_or(Compatibility::Fits, Compatibility::Doubtful)
    }

    /// Whether tokens of `backbone` have the right width, and a CLS token if it reads one, whatever options
    /// images are read with.
    pub fn suits(&self, backbone: &BackboneInfo) -> bool {
        let [own, other] = [self.options(), backbone.options].map(|options| options.token_spec().joined());
        self.width * other == backbone.width * own && (backbone.cls || !self.needs_cls)
    }

    /// The options that images have to be read with, from its file. If the file does not say: the last layer and
    /// the backbone's own size, as in most PyTorch code.
    pub fn options(&self) -> BackboneOptions {
        self.trained
            .as_ref()
            .map_or_else(BackboneOptions::default, |trained| BackboneOptions::from_spec(trained.token_spec))
    }

    /// How the tokens it was trained on differ from those of `backbone` with its current options, in words.
    pub fn token_mismatch(&self, backbone: &BackboneInfo) -> Option<String> {
        let token_spec =
            |options: BackboneOptions| options.token_spec().canonical(backbone.layers, &backbone.model_type);
        let differences = token_spec(self.options()).differences(&token_spec(backbone.options));
        let known = match self.trained {
            Some(_) => "Trained on",
            None => "Its file does not say which tokens it was trained on; it is read as if trained on",
        };
        (!differences.is_empty()).then(|| format!("{known} {}", describe_differences(&differences)))
    }

    /// Its settings in one line: `temperature 0.1, iterations 20`.
    pub fn settings(&self) -> String {
        let fields = self.config.fields();
        fields.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_accuracy_is_that_of_its_own_images() {
        let probe =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/inspect/probes/gap.safetensors");
        let mut probe = Probe::load(probe).unwrap();
        probe.meta.training = Some(serde_json::json!({ "epoch": { "select": 50.0, "test": 75.0 } }));
        let info = ProbeInfo::new(&probe, String::new(), String::new());
        assert_eq!((info.selection, info.accuracy), (Some(50.0), Some(75.0)));
    }
}
