//! Training curves of one head: mean and spread over its seeds, smoothed if requested.

use super::{Line, TrainHistory};
use crate::model::stats;
use crate::model::train::Epoch;

/// The quantity a curve shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Training loss: of steps where known, else the mean of each epoch.
    #[default]
    Loss,
    /// Accuracy on the training images, in percent, over the epoch.
    Train,
    /// Accuracy on the selection images, which choose the best epoch, in percent.
    Select,
    /// Accuracy on the test images, in percent.
    Test,
}

/// A curve over seeds, in ascending order of epochs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Positions in epochs: a mean over an epoch is at its middle, an evaluation after it at its end.
    pub at: Vec<f64>,
    /// Mean over the seeds that have a value here.
    pub mean: Vec<f64>,
    /// Standard deviation over these seeds; NaN for a single seed.
    pub spread: Vec<f64>,
    /// Number of these seeds.
    pub seeds: Vec<usize>,
}

listed! {
    /// What the band around the mean over seeds shows.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Band {
        /// One standard deviation: how much single seeds differ.
        #[default]
        Deviation: "deviation", "one standard deviation";
        /// The 95 % confidence interval of the mean, by Student's t: how well the mean is known.
        Interval: "interval", "95 % interval of the mean";
    }
}

impl Band {
    /// Half width of the band around the mean of `seeds` seeds with the standard deviation `deviation`.
    pub fn half_width(self, deviation: f64, seeds: usize) -> f64 {
        match self {
            Self::Deviation => deviation,
            Self::Interval => stats::mean_interval(deviation, seeds),
        }
    }
}

impl Curve {
    /// Half widths of the band at every point.
    pub fn band(&self, band: Band) -> Vec<f64> {
        self.spread.iter().zip(&self.seeds).map(|(spread, seeds)| band.half_width(*spread, *seeds)).collect()
    }
}

impl TrainHistory {
    /// The curve of head `head` of the list, not smoothed.
    pub fn curve(&self, head: usize, measure: Measure) -> Curve {
        self.curve_of(head, measure, |points| points)
    }

    /// The same after applying `smooth` to the points of every seed: smoothing before averaging makes the spread that
    /// of the seeds and not that of the batches.
    pub fn curve_of(
        &self,
        head: usize,
        measure: Measure,
        smooth: impl Fn(Vec<(f64, f64)>) -> Vec<(f64, f64)>,
    ) -> Curve {
        let lines = self.lines(head);
        let points = lines.iter().flat_map(|line| smooth(self.points(lines, line, measure)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut curve = Curve::default();
        // The positions of different seeds are equal to the bit.
        for same in points.chunk_by(|a, b| a.0 == b.0) {
            let values: Vec<f64> = same.iter().map(|point| point.1).collect();
            let (mean, spread) = stats::mean_and_deviation(&values);
            curve.at.push(same[0].0);
            curve.mean.push(mean);
            curve.spread.push(spread.unwrap_or(f64::NAN));
            curve.seeds.push(values.len());
        }
        curve
    }

    /// The evaluations of `line` after epochs and within epochs, in order.
    fn evaluations(&self, line: &Line, value: fn(&Epoch) -> f64) -> Vec<(f64, f64)> {
        let steps = self.about.steps_per_epoch();
        let at = |epoch: &Epoch| epoch.step.map_or(epoch.epoch as f64, |step| step as f64 / steps);
        let all = line.epochs.iter().chain(&line.between);
        let mut points: Vec<(f64, f64)> = all.map(|epoch| (at(epoch), value(epoch))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// The points of `line`, one seed's; `lines` are those of all seeds.
    fn points(&self, lines: &[Line], line: &Line, measure: Measure) -> Vec<(f64, f64)> {
        let middles = |value: fn(&Epoch) -> f64| {
            line.epochs.iter().map(move |epoch| (epoch.epoch as f64 - 0.5, value(epoch)))
        };
        match measure {
            Measure::Train => middles(|epoch| epoch.train).collect(),
            Measure::Select => self.evaluations(line, |epoch| epoch.select),
            Measure::Test => self.evaluations(line, |epoch| epoch.test),
            Measure::Loss => {
                // The position is that of the first seed that has the bin, so that all seeds have the same.
                let filled =
                    |line: &Line, bin: usize| line.steps.get(bin).copied().filter(|bin| bin.count > 0);
                let point = |bin: usize| {
                    let (own, first) = (filled(line, bin)?, lines.iter().find_map(|line| filled(line, bin))?);
                    Some((first.at / f64::from(first.count), own.sum / f64::from(own.count)))
                };
                let steps: Vec<(f64, f64)> = (0..line.steps.len()).filter_map(point).collect();
                // Where no losses of steps were recorded yet, the means of epochs take their place.
                let first_step = steps.first().map_or(f64::INFINITY, |step| step.0);
                let before = middles(|epoch| epoch.loss).filter(|point| point.0 + 0.5 < first_step);
                before.chain(steps).collect()
            }
        }
    }
}

/// Exponential moving average, corrected for the bias of its start. `strength`, from 0 (none) to below 1, is the
/// decay from one point to the next.
pub fn smooth(values: &[f64], strength: f64) -> Vec<f64> {
    let (mut sum, mut weight) = (0.0, 0.0);
    values
        .iter()
        .map(|value| {
            sum = strength * sum + (1.0 - strength) * value;
            weight = strength * weight + (1.0 - strength);
            sum / weight
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Steps;
    use super::super::tests::{history, metric};
    use super::*;

    #[test]
    fn what_was_asked_within_epochs_stands_between_their_ends() {
        let mut history = history(2, 1);
        // 8 images in batches of 4: an epoch has two steps.
        let within = |step: usize, test: f64| {
            let mut metric = metric("gap", 0, step / 2 + 1, 1.0, test);
            metric.epoch.step = Some(step);
            metric
        };
        history.epochs(&[within(1, 10.0), metric("gap", 0, 1, 1.0, 20.0), within(3, 40.0)]);
        let curve = history.curve(0, Measure::Test);
        assert_eq!((curve.at, curve.mean), (vec![0.5, 1.0, 1.5], vec![10.0, 20.0, 40.0]));
        assert_eq!(
            history.curve(0, Measure::Train).at,
            [0.5],
            "the training accuracy is that of whole epochs"
        );
        assert_eq!(
            (history.done().0, history.score(0).unwrap().last.0),
            (1, 20.0),
            "nothing is picked by it"
        );
        // Resumed from the end of the first epoch.
        history.epochs(&[metric("gap", 0, 1, 1.0, 20.0), within(3, 50.0)]);
        assert_eq!(history.curve(0, Measure::Test).mean, [10.0, 20.0, 50.0]);
    }

    #[test]
    fn seeds_become_mean_and_spread() {
        let mut history = history(4, 2);
        history.epochs(&[metric("gap", 0, 1, 2.0, 40.0), metric("gap", 1, 1, 4.0, 60.0)]);
        history.epochs(&[metric("gap", 0, 2, 1.0, 50.0)]);
        let test = history.curve(0, Measure::Test);
        assert_eq!((test.at, test.mean), (vec![1.0, 2.0], vec![50.0, 50.0]));
        assert!((test.spread[0] - 200f64.sqrt()).abs() < 1e-12 && test.spread[1].is_nan());
        let loss = history.curve(0, Measure::Loss);
        assert_eq!((loss.at, loss.mean), (vec![0.5, 1.5], vec![3.0, 1.0]));
        assert!(history.curve(1, Measure::Loss).at.is_empty());
    }

    #[test]
    fn steps_go_on_where_epochs_end() {
        let mut history = history(4, 1);
        history.epochs(&[metric("gap", 0, 1, 2.0, 40.0)]);
        for (at, loss) in [(1.25, 1.5), (1.75, 0.5)] {
            history.step(&Steps { seed: 0, at, losses: vec![Some(loss), None] });
        }
        history.epochs(&[metric("gap", 0, 2, 1.0, 50.0)]);
        let loss = history.curve(0, Measure::Loss);
        assert_eq!(loss.mean, [2.0, 1.5, 0.5], "the second epoch is there step by step");
        assert_eq!(loss.at, [0.5, 1.25, 1.75]);
        assert!(history.curve(1, Measure::Loss).at.is_empty());
    }

    #[test]
    fn losses_of_seeds_that_were_told_at_other_moments_are_one_point() {
        let mut history = history(4, 2);
        for (seed, at, loss) in [(0, 1.2505, 1.0), (1, 1.251, 2.0)] {
            history.step(&Steps { seed, at, losses: vec![Some(loss), None] });
        }
        let loss = history.curve(0, Measure::Loss);
        assert_eq!((loss.at, loss.mean, loss.seeds), (vec![1.2505], vec![1.5], vec![2]));
    }

    #[test]
    fn smoothing_keeps_a_constant_and_starts_at_the_first_value() {
        assert!(smooth(&[3.0; 5], 0.9).iter().all(|value| (value - 3.0).abs() < 1e-12));
        assert_eq!(smooth(&[1.0, 2.0], 0.0), [1.0, 2.0]);
        let smoothed = smooth(&[4.0, 0.0, 0.0], 0.5);
        assert!(smoothed[0] == 4.0 && smoothed[1] < 2.0 && smoothed[2] < smoothed[1]);
    }
}
