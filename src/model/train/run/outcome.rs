//! The outcome of one training of one head, `answers/<head>-s<seed>.json`, and the test images it was measured on.

use std::io::ErrorKind;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Manifest, Run, RunError, read_json, write_json};
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

    /// Whether the predicted class of every test image was correct, at the best epoch or after the last.
    pub fn correct(&self, truth: &Truth, which: ProbeCheckpoint) -> Vec<bool> {
        let predictions = match which {
            ProbeCheckpoint::Best => &self.best,
            ProbeCheckpoint::Last => &self.last,
        };
        let pairs = predictions.iter().zip(&truth.classes);
        pairs.map(|(&prediction, &class)| prediction as usize == class).collect()
    }
}

impl Run {
    /// The outcomes of trainings that have finished or were stopped, by seed, then by head, in the manifest's order.
    pub fn outcomes(&self) -> Result<Vec<Outcome>, RunError> {
        let Manifest { seeds, heads, .. } = &self.manifest;
        let pairs = seeds.iter().flat_map(|seed| heads.iter().map(move |head| (seed, head)));
        let outcomes = pairs.map(|(seed, head)| self.outcome(&head.name, *seed));
        let is_missing = |error: &RunError| match error {
            RunError::Io { source, .. } => source.kind() == ErrorKind::NotFound,
            _ => false,
        };
        outcomes.filter(|outcome| !outcome.as_ref().is_err_and(is_missing)).collect()
    }

    /// The outcome of a variant with a seed.
    pub fn outcome(&self, head: &str, seed: u64) -> Result<Outcome, RunError> {
        let path = self.outcome_path(head, seed);
        let outcome: Outcome = read_json(&path)?;
        // What it names leads to a probe, which `push` uploads.
        if (outcome.head.as_str(), outcome.seed) != (head, seed) {
            let found = format!("it is of `{}` with seed {}", outcome.head, outcome.seed);
            return Err(RunError::Damaged { path, found });
        }
        Ok(outcome)
    }

    /// Writes an outcome's file in `answers/`.
    pub fn write_outcome(&self, outcome: &Outcome) -> Result<(), RunError> {
        write_json(&self.outcome_path(&outcome.head, outcome.seed), outcome)
    }

    /// The path of an outcome's file.
    pub(super) fn outcome_path(&self, head: &str, seed: u64) -> PathBuf {
        self.folder.join(format!("answers/{head}-s{seed}.json"))
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
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum ProbeCheckpoint {
        /// After the best epoch on the selection split.
        Best: "best";
        /// After the last epoch.
        Last: "last";
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::model::io::atomic_file;

    /// Reads a copy of `run.json` and one outcome of a frozen run, the field `at` (a JSON pointer) of `file` changed: the name of the
    /// outcome's head, or the error.
    fn changed(file: &str, at: &str, to: Value) -> String {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/run");
        let folder = tempfile::tempdir().unwrap();
        atomic_file::make_folder(&folder.path().join("answers")).unwrap();
        for name in ["run.json", "answers/gap-s0.json"] {
            let mut content: Value =
                serde_json::from_slice(&std::fs::read(from.join(name)).unwrap()).unwrap();
            if name == file {
                *content.pointer_mut(at).unwrap() = to.clone();
            }
            atomic_file::write(&folder.path().join(name), content.to_string().as_bytes()).unwrap();
        }
        let read = Run::open(folder.path()).and_then(|run| run.outcomes());
        read.map_or_else(|error| error.to_string(), |outcomes| outcomes[0].head.clone())
    }

    #[test]
    fn no_name_in_a_run_leads_to_a_file_of_another() {
        assert_eq!(changed("run.json", "/device", json!("cpu")), "gap");
        for name in ["../gap", "/gap", "a\\gap", "cls"] {
            let refused = changed("run.json", "/heads/0/name", json!(name));
            assert!(refused.contains("run.json: `") && refused.contains("cannot name a head"), "{refused}");
        }
        let outcome = "answers/gap-s0.json";
        for (at, to) in [("/head", json!("../../secret/gap")), ("/head", json!("cls")), ("/seed", json!(1))] {
            let refused = changed(outcome, at, to);
            assert!(refused.contains("gap-s0.json: it is of `"), "{refused}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_a_disk_does_not_give_is_not_missing() {
        let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/run");
        let manifest = Run::open(&frozen).unwrap().manifest;
        let folder = tempfile::tempdir().unwrap();
        let create = || Run::create(folder.path(), manifest.clone(), &Truth::default());
        let run = create().unwrap();
        assert!(run.outcomes().unwrap().is_empty());
        for path in [run.outcome_path("gap", 0), folder.path().join("run.json")] {
            let _ = std::fs::remove_file(&path);
            std::os::unix::fs::symlink(&path, &path).unwrap(); // a link to itself cannot be followed
        }
        assert!(run.outcomes().is_err() && matches!(create(), Err(RunError::Io { .. })));
    }

    #[test]
    fn a_run_of_a_later_version_is_refused() {
        let refused = changed("run.json", "/format", json!(2));
        assert!(refused.contains("`format` is 2; this program reads 1"), "{refused}");
    }

    #[test]
    fn metrics_have_nine_decimals() {
        let [loss, test] = [1.0 / 3.0, 200.0 / 3.0];
        let epoch = rounded(&Epoch { epoch: 1, step: None, loss, train: 0.0, select: 0.0, test });
        assert_eq!((epoch.loss, epoch.test), (0.333333333, 66.666666667));
    }

    #[test]
    fn more_trainings_than_can_be_looked_for_are_refused() {
        let seeds: Vec<u64> = (0..1_000_000).collect();
        let refused = changed("run.json", "/seeds", json!(seeds));
        assert!(refused.contains("trainings, expected at most 1000000"), "{refused}");
    }
}
