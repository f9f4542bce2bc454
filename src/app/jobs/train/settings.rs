//! The settings of a training, in one piece: the flags of `ssmprobe train`, the window's form and its record in a workspace, a
//! request over the pipe, and the settings stored in a run.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::app::jobs::extract::TokenSettings;
use crate::app::value_parser::{number, whole_number};
use crate::model::backbone::preprocess::augment::Augmentation;
use crate::model::backbone::token_spec::Layer;
use crate::model::train::TrainConfig;
use crate::model::train::protocol::Protocol;

/// Epochs, and seeds by flag.
pub const COUNTS: RangeInclusive<usize> = 1..=1_000_000;
/// Images of a step: a GPU has at most 65,535 workgroups along one axis.
pub const BATCHES: RangeInclusive<usize> = 1..=65_535;
/// Most seeds of one run in the window: more would take longer than anybody waits.
pub const MAX_SEEDS: usize = 100;

/// Seeds of trainings: every JSON reader has them to the digit.
pub const SEEDS: RangeInclusive<u64> = 0..=1 << 40;

/// What is trained, on which data, how and where. The docs of its fields are the help of the flags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[serde(default)]
pub struct TrainSettings {
    /// Backbone: a folder, or an id on the Hugging Face Hub (`ORGANISATION/NAME[@REVISION]`).
    #[arg(long, value_name = "DIR|HUB_ID", required_unless_present = "resume")]
    pub backbone: String,
    /// Dataset: a folder, or a table of paths and labels; `ssmprobe dataset --help` lists the layouts.
    #[arg(long, value_name = "DIR|TABLE", required_unless_present = "resume")]
    pub data: Option<PathBuf>,
    /// Ids of the heads, as they are filled in.
    #[arg(skip)]
    pub heads: Vec<String>,
    /// Settings of heads as they are filled in, `KEY=VALUE` or `HEAD.KEY=VALUE`, with spaces between them.
    #[arg(skip)]
    #[serde(rename = "settings")]
    pub head_settings: String,
    /// Passes over the training images (paper: 5 on ImageNet, 100 on CUB and Cars) [default: 100].
    #[arg(long, value_name = "E", value_parser = whole_number(COUNTS))]
    pub epochs: usize,
    /// Number of seeds, each a training of all heads; when resuming, more seeds add to the run [default: 1].
    #[arg(long, value_name = "S", value_parser = whole_number(COUNTS))]
    pub seeds: usize,
    /// First seed [default: 0].
    #[arg(long, value_name = "SEED", value_parser = whole_number(SEEDS))]
    #[serde(skip_serializing_if = "is_first")]
    pub first_seed: u64,
    /// Images in one step [default: 256].
    #[arg(long, value_name = "B", value_parser = whole_number(BATCHES))]
    pub batch: usize,
    /// Learning rate at the start of the cosine schedule [default: 0.001].
    #[arg(long, value_name = "RATE", value_parser = number("above 0", is_rate))]
    pub rate: f64,
    /// Train every head at each of these comma-separated learning rates: 1e-4,3e-4,1e-3.
    #[arg(long, value_name = "RATE,RATE,...", value_delimiter = ',', value_parser = number("above 0", is_rate), conflicts_with = "rate")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<f64>,
    /// Train every head on the tokens after each of these comma-separated layers: 3,6,9,last. One pass of the
    /// backbone extracts them all.
    #[arg(long, value_name = "L,L,...", value_delimiter = ',', conflicts_with = "layer")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
    /// Optimiser, learning rates, warm-up and epochs of a project; --rate, --rates and --epochs override its own
    /// [default: paper].
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Protocol::is_paper")]
    pub protocol: Protocol,
    /// Also evaluate all heads within epochs, every K training steps. This selects nothing and changes nothing
    /// else [default: only after epochs].
    #[arg(long, value_name = "K", value_parser = whole_number(COUNTS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluate_every: Option<usize>,
    /// Augment every training image in every epoch: shift (moved by up to an eighth) or crop (a random part of it, as
    /// the protocol's project crops), mirrored half the time. No tokens are cached then, as with --recompute; images
    /// that heads are evaluated on stay as they are [default: none].
    #[arg(long, value_name = "HOW")]
    #[serde(skip_serializing_if = "Augmentation::is_none")]
    pub augment: Augmentation,
    /// Select the best epoch on this share of the training images, which are then not trained on [default: on the
    /// validation split if there is a test split too, else on the test images].
    #[arg(long = "select-split", value_name = "SHARE", value_parser = number("between 0 and 1", is_share))]
    pub selection: Option<f64>,
    /// Folder of the run; one is suggested where absent.
    #[arg(skip)]
    pub out: Option<PathBuf>,
    /// Cache no tokens: run the backbone again on every batch, for datasets whose tokens do not fit on the disk. The results
    /// are the same as with a cache, bit for bit on the CPU.
    #[arg(long)]
    pub recompute: bool,
    /// How tokens are extracted and cached.
    #[command(flatten)]
    #[serde(flatten)]
    pub tokens: TokenSettings,
    /// Where to compute: cpu, wgpu, cuda or auto [default: auto, or where the run was started].
    #[arg(long)]
    pub device: String,
}

impl Default for TrainSettings {
    /// What the window begins with; the paper's number of epochs is [`TrainConfig`]'s.
    fn default() -> Self {
        let TrainConfig { batch, rate, .. } = TrainConfig::default();
        Self {
            backbone: String::new(),
            data: None,
            heads: ["gap", "raster", "sinkhorn"].map(str::to_owned).into(),
            head_settings: String::new(),
            epochs: 20,
            seeds: 1,
            first_seed: 0,
            batch,
            rate,
            rates: Vec::new(),
            layers: Vec::new(),
            protocol: Protocol::Paper,
            evaluate_every: None,
            augment: Augmentation::None,
            selection: None,
            out: None,
            recompute: false,
            tokens: TokenSettings::default(),
            device: "auto".to_owned(),
        }
    }
}

impl TrainSettings {
    /// How the heads are trained.
    pub fn config(&self) -> TrainConfig {
        let Self { epochs, batch, rate, protocol, evaluate_every, augment, .. } = *self;
        TrainConfig { epochs, batch, rate, protocol, evaluate_every, augment }
    }

    /// Whether the backbone runs again for every batch, the cache being `complete` or not.
    pub fn recomputes(&self, complete: bool) -> bool {
        !self.augment.is_none() || (self.recompute && !complete)
    }

    /// What is still to be filled in, and how.
    pub fn missing(&self) -> Option<&'static str> {
        match self {
            Self { backbone, .. } if backbone.is_empty() => Some("Choose a backbone to read tokens from"),
            Self { data: None, .. } => {
                Some("Choose a dataset: a folder with a folder for each class, or a table")
            }
            Self { heads, .. } if heads.is_empty() => Some("Choose at least one head"),
            _ => None,
        }
    }

    /// The same with unusable values, which a file may hold, replaced by usable ones.
    pub fn bounded(mut self) -> Self {
        let usual = Self::default();
        for (count, range) in [(&mut self.epochs, COUNTS), (&mut self.batch, BATCHES)] {
            *count = (*count).clamp(*range.start(), *range.end());
        }
        self.seeds = self.seeds.clamp(1, MAX_SEEDS);
        self.first_seed = self.first_seed.min(*SEEDS.end());
        self.rate = if is_rate(self.rate) { self.rate } else { usual.rate };
        self.rates.retain(|rate| is_rate(*rate));
        self.evaluate_every = self.evaluate_every.map(|every| every.clamp(*COUNTS.start(), *COUNTS.end()));
        self.selection = self.selection.filter(|share| is_share(*share));
        self
    }

    /// The same with its protocol's epochs and rates in place of those that were not given.
    pub fn with_protocol(mut self, [epochs, rate]: [bool; 2]) -> Self {
        if !epochs {
            self.epochs = self.protocol.epochs();
        }
        if !rate {
            match &self.protocol.rates(self.batch)[..] {
                [one] => (self.rate, self.rates) = (*one, Vec::new()),
                several => self.rates = several.to_vec(),
            }
        }
        self
    }

    /// The settings of its plan, the same for any epochs, seeds and rate, which change none of it, and however often heads are
    /// evaluated.
    pub fn planned(&self) -> Self {
        let Self { epochs, seeds, first_seed, rate, evaluate_every, .. } = Self::default();
        Self { epochs, seeds, first_seed, rate, evaluate_every, ..self.clone() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_first(seed: &u64) -> bool {
    *seed == 0
}

/// Whether a learning rate is usable.
pub fn is_rate(rate: f64) -> bool {
    rate > 0.0 && rate.is_finite()
}

/// Whether it is a part, neither nothing nor all.
pub fn is_share(share: f64) -> bool {
    share > 0.0 && share < 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::backbone::token_spec::TokenSpec;

    #[test]
    fn a_plan_holds_for_other_epochs_seeds_and_rates_and_for_nothing_else() {
        let settings = TrainSettings::default();
        let alike = TrainSettings { epochs: 9, seeds: 2, rate: 0.5, ..settings.clone() };
        assert_eq!(settings.planned(), alike.planned());
        let token_spec = TokenSpec { layer: Some(1), ..settings.tokens.token_spec };
        for other in [
            TrainSettings {
                tokens: TokenSettings { token_spec, ..settings.tokens.clone() },
                ..settings.clone()
            },
            TrainSettings { batch: settings.batch + 1, ..settings.clone() },
            TrainSettings { backbone: "another".into(), ..settings.clone() },
            TrainSettings { augment: Augmentation::Crop, ..settings.clone() },
            TrainSettings { recompute: !settings.recompute, ..settings.clone() },
        ] {
            assert_ne!(settings.planned(), other.planned());
        }
    }

    #[test]
    fn settings_say_what_is_missing() {
        let mut settings = TrainSettings::default();
        assert!(settings.missing().is_some_and(|text| text.contains("backbone")));
        settings.backbone = "owner/name".into();
        assert!(settings.missing().is_some_and(|text| text.contains("dataset")));
        settings.data = Some("birds".into());
        assert_eq!(settings.missing(), None);
        settings.heads.clear();
        assert!(settings.missing().is_some_and(|text| text.contains("head")));
    }

    #[test]
    fn a_strange_file_gives_settings_to_work_with() {
        let text = r#"{"epochs": 0, "rate": -1, "selection": 7, "cache": "tokens", "taking": {"layer": 1}}"#;
        let read = serde_json::from_str::<TrainSettings>(text).unwrap().bounded();
        assert_eq!((read.epochs, read.batch, read.rate, read.selection), (1, 256, 1e-3, None));
        // What an earlier version wrote of tokens stands beside the rest.
        assert_eq!((read.tokens.cache, read.tokens.token_spec.layer), (Some("tokens".into()), Some(1)));
    }
}
