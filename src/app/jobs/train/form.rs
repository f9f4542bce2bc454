//! A training as a person fills it in, part by part: plain data that a workspace keeps.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::plan::variants;
use super::{TrainPlan, TrainingError};
use crate::app::jobs::extract::ExtractOptions;
use crate::app::paths;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::token_cache::Precision;
use crate::model::train::TrainConfig;
use crate::model::train::run::Variant;

/// Most seeds of one run: beyond it nobody waits.
pub const MOST_SEEDS: usize = 100;

/// What has been filled in so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainForm {
    /// The backbone: a folder, or an id of the Hub; empty until one is chosen.
    pub backbone: String,
    /// The dataset's folder or table.
    pub data: Option<PathBuf>,
    /// Ids of the heads.
    pub heads: Vec<String>,
    /// Settings of heads, `KEY=VALUE` or `HEAD.KEY=VALUE`, with spaces between them.
    pub settings: String,
    /// Passes over the training images.
    pub epochs: usize,
    /// Images in one step.
    pub batch: usize,
    /// Learning rate at the start of its cosine.
    pub rate: f64,
    /// Number of seeds.
    pub seeds: usize,
    /// The share of train that picks the best epoch, if any.
    pub selection: Option<f64>,
    /// Where to compute.
    pub device: String,
    /// Folder of the run; one is suggested where absent.
    pub out: Option<PathBuf>,
    /// Folder of token caches; the usual one where absent.
    pub cache: Option<PathBuf>,
    /// Whether no tokens are kept and the backbone runs again for every batch.
    pub recompute: bool,
    /// How tokens are taken: as the open backbones read images.
    pub taking: TokenSpec,
}

impl Default for TrainForm {
    fn default() -> Self {
        let TrainConfig { batch, rate, .. } = TrainConfig::default();
        Self {
            backbone: String::new(),
            data: None,
            heads: ["gap", "raster", "sinkhorn"].map(str::to_owned).into(),
            settings: String::new(),
            epochs: 20,
            batch,
            rate,
            seeds: 1,
            selection: None,
            device: "auto".to_owned(),
            out: None,
            cache: None,
            recompute: false,
            taking: TokenSpec::default(),
        }
    }
}

impl TrainForm {
    /// What is still to be filled in, and how.
    pub fn missing(&self) -> Option<&'static str> {
        match self {
            Self { backbone, .. } if backbone.is_empty() => Some("Choose a backbone, whose tokens are read"),
            Self { data: None, .. } => {
                Some("Choose a dataset: a folder with a folder for each class, or a table")
            }
            Self { heads, .. } if heads.is_empty() => Some("Choose at least one head"),
            _ => None,
        }
    }

    /// The same with what cannot be worked with put right, whatever a file says.
    pub fn bounded(mut self) -> Self {
        let usual = Self::default();
        self.epochs = self.epochs.clamp(1, 1_000_000);
        self.batch = self.batch.clamp(1, 1_000_000);
        self.seeds = self.seeds.clamp(1, MOST_SEEDS);
        self.rate = if self.rate > 0.0 && self.rate.is_finite() { self.rate } else { usual.rate };
        self.selection = self.selection.filter(|share| *share > 0.0 && *share < 1.0);
        self
    }

    /// The heads with their settings.
    pub fn variants(&self) -> Result<Vec<Variant>, TrainingError> {
        let settings: Vec<String> = self.settings.split_whitespace().map(str::to_owned).collect();
        variants(&self.heads, &settings)
    }

    /// What is to be trained, the backbone lying in the folder `backbone`.
    pub fn order(&self, backbone: PathBuf) -> Result<TrainPlan, TrainingError> {
        let root = self.cache.clone().or_else(paths::tokens).ok_or(TrainingError::NoCache)?;
        Ok(TrainPlan {
            backbone_source: self.backbone.clone(),
            tokens: ExtractOptions {
                backbone,
                taking: self.taking,
                precision: Precision::Float16,
                root,
                limit: paths::TOKENS_LIMIT,
                verify: false,
            },
            data: self.data.clone().unwrap_or_default(),
            heads: self.variants()?,
            protocol: TrainConfig { epochs: self.epochs, batch: self.batch, rate: self.rate },
            seeds: (0..self.seeds as u64).collect(),
            selection: self.selection,
            recompute: self.recompute,
            device: self.device.clone(),
        })
    }

    /// Whether a plan for `other` holds for this one too: epochs, seeds and rate change none of it.
    pub fn same_plan(&self, other: &Self) -> bool {
        let Self { epochs, rate, seeds, .. } = *other;
        Self { epochs, rate, seeds, ..self.clone() } == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_holds_for_other_epochs_seeds_and_rates_and_for_nothing_else() {
        let form = TrainForm::default();
        let alike = TrainForm { epochs: 9, seeds: 2, rate: 0.5, ..form.clone() };
        assert!(form.same_plan(&alike));
        let other_tokens = TokenSpec { layer: Some(1), ..form.taking };
        for other in [
            TrainForm { taking: other_tokens, ..form.clone() },
            TrainForm { batch: form.batch + 1, ..form.clone() },
            TrainForm { backbone: "another".into(), ..form.clone() },
            TrainForm { recompute: !form.recompute, ..form.clone() },
        ] {
            assert!(!form.same_plan(&other), "{other:?}");
        }
    }

    #[test]
    fn a_draft_says_what_is_missing_and_becomes_an_order() {
        let mut draft = TrainForm { cache: Some("tokens".into()), ..TrainForm::default() };
        assert!(draft.missing().is_some_and(|text| text.contains("backbone")));
        draft.backbone = "owner/name".into();
        assert!(draft.missing().is_some_and(|text| text.contains("dataset")));
        draft.data = Some("birds".into());
        assert_eq!(draft.missing(), None);
        draft.settings = "state_dim=8 sinkhorn.iterations=5".into();
        let order = draft.order("here".into()).unwrap();
        assert_eq!(order.heads[2].config.iterations, Some(5));
        assert_eq!((order.tokens.backbone, order.seeds), (PathBuf::from("here"), vec![0]));
        draft.settings = "colour=red".into();
        assert!(draft.order("here".into()).unwrap_err().to_string().contains("colour"));
    }

    #[test]
    fn a_strange_file_gives_a_draft_to_work_with() {
        let read: TrainForm = serde_json::from_str(r#"{"epochs": 0, "rate": -1, "selection": 7}"#).unwrap();
        let draft = read.bounded();
        assert_eq!((draft.epochs, draft.rate, draft.selection), (1, 1e-3, None));
    }
}
