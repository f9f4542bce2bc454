//! The outcome of one training of one head, `answers/<head>-s<seed>.json`, and the test images it was measured on.

use serde::{Deserialize, Serialize};

use crate::model::train::{Epoch, HeadProgress, HeadTrainer};

/// The test images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// Paths of the images, relative to the dataset's folder if they are in it.
    pub images: Vec<String>,
    /// Their indices in the token cache.
    pub indices: Vec<usize>,
    /// The class of each.
    pub classes: Vec<usize>,
}

/// The outcome of one head with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the variant.
    pub head: String,
    /// Its seed.
    pub seed: u64,
    /// Index into `epochs` of the best one on the selection split; absent if no epoch was finished.
    pub best_epoch: Option<usize>,
    /// Number of trained values.
    pub parameters: usize,
    /// Time of its own training steps, in seconds.
    pub seconds: f64,
    /// Why it stopped early, if it did.
    pub failure: Option<String>,
    /// Metrics of all finished epochs.
    pub epochs: Vec<Epoch>,
    /// Metrics of evaluations within epochs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<Epoch>,
    /// Predicted class of every test image at the best epoch.
    pub best: Vec<u32>,
    /// The same after the last one.
    pub last: Vec<u32>,
}

impl Outcome {
    /// The outcome of a trainer in its current state; floats rounded to nine decimals.
    pub fn from_trainer(trainer: &HeadTrainer, seed: u64) -> Self {
        let HeadProgress { history, between, best, predictions, failure, seconds, .. } = &trainer.progress;
        Self {
            head: trainer.name.clone(),
            seed,
            best_epoch: best.as_ref().map(|best| best.epoch),
            parameters: trainer.model.parameters(),
            seconds: *seconds,
            failure: failure.clone(),
            epochs: history.iter().map(rounded).collect(),
            between: between.iter().map(rounded).collect(),
            best: best.as_ref().map(|best| best.predictions.clone()).unwrap_or_default(),
            last: predictions.clone(),
        }
    }

    /// Test accuracy at the best epoch, in percent.
    pub fn best_accuracy(&self) -> Option<f64> {
        self.best_epoch.and_then(|epoch| Some(self.epochs.get(epoch)?.test))
    }

    /// Test accuracy after the last epoch, in percent.
    pub fn last_accuracy(&self) -> Option<f64> {
        self.epochs.last().map(|epoch| epoch.test)
    }

    /// Of every test image, whether its predicted class was correct, at the best epoch or after the last.
    pub fn right(&self, truth: &Truth, which: ProbeCheckpoint) -> Vec<bool> {
        let predictions = match which {
            ProbeCheckpoint::Best => &self.best,
            ProbeCheckpoint::Last => &self.last,
        };
        let pairs = predictions.iter().zip(&truth.classes);
        pairs.map(|(&prediction, &class)| prediction as usize == class).collect()
    }
}

/// Rounds an epoch's metrics to nine decimals: a JSON reader may lose the last bit of a number of seventeen
/// digits, and a file that is read and written again should stay the same.
fn rounded(epoch: &Epoch) -> Epoch {
    let round = |x: f64| (x * 1e9).round() / 1e9;
    let Epoch { epoch, step, loss, train, select, test } = *epoch;
    Epoch { epoch, step, loss: round(loss), train: round(train), select: round(select), test: round(test) }
}

listed! {
    /// Which of a head's two probes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum ProbeCheckpoint {
        /// After the best epoch on the selection split.
        Best: "best";
        /// After the last epoch.
        Last: "last";
    }
}
