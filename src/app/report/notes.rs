//! What stands below the tables of a run: how its accuracies came about, and what of it is not finished.

use indexmap::IndexSet;

use super::Source;
use super::choice::{with_fewer_seeds, without_choice};
use crate::app::format::{counted, noun};
use crate::model::train;
use crate::model::train::run::{Outcome, ProbeCheckpoint, Run, Selection};

impl Source {
    /// Notes on how the accuracies came about: data, training, how the best epoch was picked, settings that are not the
    /// default, and trainings that failed, are unfinished or were evaluated before they changed.
    pub fn notes(&self) -> Vec<String> {
        let manifest = &self.run.manifest;
        let (train::TrainConfig { epochs, batch, rate, protocol, augment, .. }, dataset) =
            (&manifest.config, &manifest.dataset);
        let seeds = manifest.seeds.len();
        let rates = manifest.heads.iter().map(|variant| variant.rate.unwrap_or(*rate).to_string());
        let rates = Vec::from_iter(rates.collect::<IndexSet<_>>());
        let what = if rates.len() > 1 { "rates" } else { "rate" };
        let training = protocol.describe(&format!("{what} {}", rates.join(", ")));
        let augmentation = if augment.is_none() { String::new() } else { format!(", augment {augment}") };
        let spread = if seeds > 1 { ", mean ± sample standard deviation" } else { "" };
        // Accuracies are to be compared with always predicting that class.
        let largest = |share: f64| format!(" ({:.1} % of the test images are of the largest)", 100.0 * share);
        let mut notes = vec![
            format!(
                "{}, {} training and {} test {}, {} {}{}; {} of {training}, \
                 batch {batch}{augmentation}); {}{spread}",
                self.setting(),
                dataset.train,
                dataset.test,
                noun(dataset.test, "image", "images"),
                dataset.classes.len(),
                noun(dataset.classes.len(), "class", "classes"),
                self.majority.map(largest).unwrap_or_default(),
                counted(*epochs, "epoch", "epochs"),
                counted(seeds, "seed", "seeds"),
            ),
            match manifest.selection {
                Selection::Test => {
                    "Best: the epoch with the highest accuracy on the test images themselves, as in the paper, which is \
                     optimistic; last: after the last epoch, which is not"
                        .to_owned()
                }
                Selection::Val => {
                    format!(
                        "Best: the epoch picked on {} validation {}; last: after the last epoch",
                        dataset.select,
                        noun(dataset.select, "image", "images")
                    )
                }
                // Not the share asked for: of every class it is rounded to whole images, and is one image at least.
                Selection::PartOfTrain(_) => format!(
                    "Best: the epoch picked on {} % of the training images ({}), which were not trained on; \
                     last: after the last epoch",
                    (1e4 * dataset.select as f64 / (dataset.train + dataset.select) as f64).round() / 100.0,
                    dataset.select
                ),
            },
        ];
        notes.extend(self.joined_note());
        notes.extend(self.non_default_note());
        for (outcome, why) in self.outcomes.iter().filter_map(|one| Some((one, one.failure.as_ref()?))) {
            notes.push(format!("{}, seed {}, stopped early: {why}", outcome.head, outcome.seed));
        }
        notes.extend(self.stale_note());
        let fewer = with_fewer_seeds(manifest.heads.iter().map(|variant| {
            (variant.name.clone(), self.accuracies(&variant.name, ProbeCheckpoint::Best).len(), seeds)
        }));
        notes.extend(fewer.map(|fewer| format!("Means over fewer seeds than those of the run: {fewer}")));
        let expected = manifest.heads.len() * seeds;
        let is_stopped = |outcome: &&Outcome| outcome.failure.is_none() && outcome.epochs.len() < *epochs;
        let stopped = self.outcomes.iter().filter(is_stopped).count();
        let unfinished = expected - self.outcomes.len().min(expected) + stopped;
        if unfinished > 0 {
            let heads = manifest.heads.iter().map(|variant| variant.name.as_str());
            let lacks = |head: &&str| self.outcomes_of(head).filter(|o| !is_stopped(o)).count() < seeds;
            notes.push(format!(
                "Not finished: {unfinished} of {expected} trainings are missing or were stopped ({})",
                heads.filter(lacks).collect::<Vec<_>>().join(", ")
            ));
        }
        notes
    }

    /// Which evaluations are left out because their probes were trained further since.
    pub fn stale_note(&self) -> Option<String> {
        (!self.stale.is_empty()).then(|| {
            format!(
                "Left out of the results of `ssmprobe eval` because they were trained further since: {}; \
                 evaluate again",
                self.stale.join("; ")
            )
        })
    }

    /// Which heads are of which run, where several are joined.
    fn joined_note(&self) -> Option<String> {
        let heads = |run: &Run| {
            run.manifest.heads.iter().map(|variant| &*variant.name).collect::<Vec<_>>().join(", ")
        };
        let others = self.joined.iter().map(|(name, run)| format!("{} from {name}", heads(run)));
        let others = others.collect::<Vec<_>>().join("; ");
        (!others.is_empty()).then(|| {
            format!(
                "Heads are from several runs, which agree in everything else: {others}; the others from {}",
                self.name
            )
        })
    }

    fn non_default_note(&self) -> Option<String> {
        let manifest = &self.run.manifest;
        let mut parts = Vec::new();
        if manifest.tokens.layer != "last" && manifest.layers().len() == 1 {
            parts.push(format!("tokens of layer: {}", manifest.tokens.layer));
        }
        parts.extend(manifest.size.map(|size| format!("images of {size} px")));
        for variant in self.reported() {
            let settings = variant.config.fields();
            let pairs =
                settings.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ");
            if !pairs.is_empty() {
                parts.push(format!("{}: {pairs}", without_choice(variant).name));
            }
        }
        (!parts.is_empty()).then(|| format!("Non-default settings: {}", parts.join("; ")))
    }
}
