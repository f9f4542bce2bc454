//! The results of one head over its seeds, in numbers: what a row of a list of heads shows, and layers and rates are chosen by.

use super::{Line, TrainHistory};
use crate::model::stats::mean_and_deviation;
use crate::model::train::Epoch;

impl Line {
    /// The best epoch on the selection images; of equals the first, as for the saved probe.
    fn best(&self) -> Option<&Epoch> {
        self.epochs.iter().reduce(|a, b| if b.select > a.select { b } else { a })
    }
}

/// Results of one head over the seeds that have done the most epochs and those that failed: with fewer epochs, others are not
/// comparable yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Mean training loss of the last epoch.
    pub loss: f64,
    /// Training accuracy of the last epoch, in percent.
    pub train: f64,
    /// Test accuracy after the last epoch, in percent, and its standard deviation over seeds.
    pub last: (f64, f64),
    /// Test accuracy at each seed's best epoch on the selection split, and its standard deviation.
    pub best: (f64, f64),
    /// Accuracy on the selection split at the same epochs.
    pub select: f64,
    /// Number of seeds these numbers are over.
    pub seeds: usize,
    /// Number of seeds that failed before their first epoch.
    pub broken: usize,
}

impl TrainHistory {
    /// The results of a head; `None` before its first epoch.
    pub fn score(&self, head: usize) -> Option<Score> {
        let furthest =
            self.lines(head).iter().map(|line| line.epochs.len()).max().filter(|epochs| *epochs > 0)?;
        let (failed, going): (Vec<&Line>, Vec<&Line>) =
            self.lines(head).iter().partition(|line| line.failure.is_some());
        let (broken, ended): (Vec<&Line>, _) = failed.into_iter().partition(|line| line.epochs.is_empty());
        let furthest = going.into_iter().filter(|line| line.epochs.len() == furthest);
        let lines: Vec<&Line> = furthest.chain(ended).collect();
        let at_last = |value: fn(&Epoch) -> f64| -> Vec<f64> {
            lines.iter().filter_map(|line| line.epochs.last()).map(value).collect()
        };
        let best: Vec<&Epoch> = lines.iter().filter_map(|line| line.best()).collect();
        let at_best = |value: fn(&Epoch) -> f64| best.iter().map(|epoch| value(epoch)).collect::<Vec<f64>>();
        let mean_and_spread = |values: &[f64]| {
            let (mean, deviation) = mean_and_deviation(values);
            (mean, deviation.unwrap_or(0.0))
        };
        Some(Score {
            loss: mean_and_deviation(&at_last(|epoch| epoch.loss)).0,
            train: mean_and_deviation(&at_last(|epoch| epoch.train)).0,
            last: mean_and_spread(&at_last(|epoch| epoch.test)),
            best: mean_and_spread(&at_best(|epoch| epoch.test)),
            select: mean_and_deviation(&at_best(|epoch| epoch.select)).0,
            seeds: lines.len(),
            broken: broken.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Failure;
    use super::super::tests::{history, metric};
    use super::*;
    use crate::model::train::run::Metric;

    #[test]
    fn a_score_is_over_the_furthest_seeds_and_best_is_picked_by_selection() {
        let mut history = history(2, 2);
        assert_eq!(history.score(0), None);
        let metrics = [(0, 1, 1.0, 60.0), (0, 2, 0.5, 50.0), (1, 1, 1.0, 40.0), (1, 2, 1.0, 40.0)]
            .map(|(seed, epoch, loss, test)| metric("gap", seed, epoch, loss, test));
        history.epochs(&metrics[..3]);
        history.epochs(&metrics[1..2]); // reported again
        let score = history.score(0).unwrap();
        assert_eq!((score.seeds, score.last, score.best), (1, (50.0, 0.0), (60.0, 0.0)));
        history.epochs(&metrics[3..]);
        let score = history.score(0).unwrap();
        assert_eq!((score.loss, score.seeds, score.last.0, score.best.0), (0.75, 2, 45.0, 50.0));
        assert!((score.last.1 - 50f64.sqrt()).abs() < 1e-12);
        assert_eq!(history.done(), (4, 8));
        history.failures(&[Failure { head: "sinkhorn".into(), seed: 0, why: "broke".into() }]);
        assert_eq!(history.done(), (6, 8));
        assert_eq!(history.score(1), None);
    }

    #[test]
    fn a_seed_that_failed_counts_as_far_as_it_came() {
        let mut history = history(2, 4);
        let metrics = [(0, 1, 60.0), (0, 2, 50.0), (1, 1, 40.0), (3, 1, 90.0)];
        history.epochs(&metrics.map(|(seed, epoch, test)| metric("gap", seed, epoch, 1.0, test)));
        let failure = |seed| Failure { head: "gap".into(), seed, why: "the loss became NaN".into() };
        history.failures(&[failure(1), failure(2)]);
        let score = history.score(0).unwrap();
        assert_eq!((score.seeds, score.broken), (2, 1), "the fourth seed is not as far yet");
        assert_eq!((score.best.0, score.last.0, score.select), (50.0, 45.0, 50.0));
    }

    #[test]
    fn of_equally_good_epochs_the_first_is_best_as_the_kept_probe_is() {
        let mut history = history(3, 1);
        let after = |epoch: usize, test: f64| {
            let select = if epoch == 1 { 10.0 } else { 50.0 };
            let epoch = Epoch { epoch, step: None, loss: 1.0, train: test, select, test };
            Metric { head: "gap".to_owned(), seed: 0, epoch }
        };
        history.epochs(&[after(1, 30.0), after(2, 40.0), after(3, 20.0)]);
        assert_eq!(history.score(0).unwrap().best.0, 40.0);
    }
}
