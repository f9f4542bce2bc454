//! Curves of a course: one head over its seeds, as mean and spread, smoothed if wanted.

use super::{Line, TrainHistory};
use crate::model::stats;
use crate::model::train::Epoch;

/// The quantity a curve shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Training loss: of steps where they are known, else means over epochs.
    #[default]
    Loss,
    /// Accuracy on the training images, over the epoch.
    Train,
    /// Accuracy on the images that pick the best epoch.
    Select,
    /// Accuracy on the test images.
    Test,
}

/// A curve over seeds; epochs rise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Where, in epochs: what is a mean over an epoch stands in its middle, what is measured after
    /// it at its end.
    pub at: Vec<f64>,
    /// Mean over the seeds that have come this far.
    pub mean: Vec<f64>,
    /// Standard deviation over them; NaN for a single seed.
    pub spread: Vec<f64>,
    /// How many these are.
    pub seeds: Vec<usize>,
}

/// What the band around a mean over seeds spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Band {
    /// One standard deviation: how far seeds lie apart.
    #[default]
    Deviation,
    /// The 95 % interval of the mean by Student's t: where the mean of more seeds would lie.
    Interval,
}

impl Band {
    /// What a person chooses by.
    pub fn text(self) -> &'static str {
        match self {
            Self::Deviation => "one standard deviation",
            Self::Interval => "95 % interval of the mean",
        }
    }

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
    /// The curve of head `head` of the list.
    pub fn curve(&self, head: usize, measure: Measure) -> Curve {
        self.curve_of(head, measure, |points| points)
    }

    /// The same of what `each` makes of every seed's points: a seed is smoothed before seeds are
    /// compared, so that the spread is theirs and not that of the batches.
    pub fn curve_of(
        &self,
        head: usize,
        measure: Measure,
        each: impl Fn(Vec<(f64, f64)>) -> Vec<(f64, f64)>,
    ) -> Curve {
        let lines = self.lines(head);
        let points = lines.iter().flat_map(|line| each(self.points(lines, line, measure)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut curve = Curve::default();
        // Points of different seeds stand at the same places, to the bit.
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

    /// Points after epochs with those between, in order.
    fn with_between(
        &self,
        line: &Line,
        value: fn(&Epoch) -> f64,
        mut points: Vec<(f64, f64)>,
    ) -> Vec<(f64, f64)> {
        let steps = self.about.train.div_ceil(self.about.batch.max(1)).max(1) as f64;
        let at = |epoch: &Epoch| Some((epoch.step? as f64 / steps, value(epoch)));
        points.extend(line.between.iter().filter_map(at));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// The points of one seed's line, of the lines of all seeds.
    fn points(&self, lines: &[Line], line: &Line, measure: Measure) -> Vec<(f64, f64)> {
        let epoch = |value: fn(&Epoch) -> f64, shift: f64| {
            line.epochs.iter().map(move |epoch| (epoch.epoch as f64 - shift, value(epoch))).collect()
        };
        match measure {
            Measure::Train => epoch(|epoch| epoch.train, 0.5),
            Measure::Select => {
                self.with_between(line, |epoch| epoch.select, epoch(|epoch| epoch.select, 0.0))
            }
            Measure::Test => self.with_between(line, |epoch| epoch.test, epoch(|epoch| epoch.test, 0.0)),
            Measure::Loss => {
                // Where the first seed has them, so that those of all stand at one place.
                let filled =
                    |line: &Line, bin: usize| line.steps.get(bin).copied().filter(|bin| bin.count > 0);
                let point = |bin: usize| {
                    let (own, first) = (filled(line, bin)?, lines.iter().find_map(|line| filled(line, bin))?);
                    Some((first.at / f64::from(first.count), own.sum / f64::from(own.count)))
                };
                let steps: Vec<(f64, f64)> = (0..line.steps.len()).filter_map(point).collect();
                // Before the window followed the steps, epochs are all there is.
                let first = steps.first().map_or(f64::INFINITY, |step| step.0);
                let before: Vec<(f64, f64)> = epoch(|epoch| epoch.loss, 0.5);
                before.into_iter().filter(|point| point.0 + 0.5 < first).chain(steps).collect()
            }
        }
    }
}

/// An exponential moving average, without the bias of its beginning: `strength` from 0 (none) to
/// below 1 is the share that stays from one point to the next.
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
    #[test]
    fn what_was_asked_within_epochs_stands_between_their_ends() {
        let mut course = course(2, 1);
        // 8 images in batches of 4: an epoch has two steps.
        let within = |step: usize, test: f64| {
            let mut metric = metric("gap", 0, step / 2 + 1, 1.0, test);
            metric.epoch.step = Some(step);
            metric
        };
        course.epochs(&[within(1, 10.0), metric("gap", 0, 1, 1.0, 20.0), within(3, 40.0)]);
        let curve = course.curve(0, Measure::Test);
        assert_eq!((curve.at, curve.mean), (vec![0.5, 1.0, 1.5], vec![10.0, 20.0, 40.0]));
        assert_eq!(
            course.curve(0, Measure::Train).at,
            [0.5],
            "the training accuracy is that of whole epochs"
        );
        assert_eq!((course.done().0, course.score(0).unwrap().last.0), (1, 20.0), "nothing is picked by it");
        // Gone on with from the end of the first epoch.
        course.epochs(&[metric("gap", 0, 1, 1.0, 20.0), within(3, 50.0)]);
        assert_eq!(course.curve(0, Measure::Test).mean, [10.0, 20.0, 50.0]);
    }

    use super::super::Steps;
    use super::super::tests::{course, metric};
    use super::*;

    #[test]
    fn seeds_become_mean_and_spread() {
        let mut course = course(4, 2);
        course.epochs(&[metric("gap", 0, 1, 2.0, 40.0), metric("gap", 1, 1, 4.0, 60.0)]);
        course.epochs(&[metric("gap", 0, 2, 1.0, 50.0)]);
        let test = course.curve(0, Measure::Test);
        assert_eq!((test.at, test.mean), (vec![1.0, 2.0], vec![50.0, 50.0]));
        assert!((test.spread[0] - 200f64.sqrt()).abs() < 1e-12 && test.spread[1].is_nan());
        let loss = course.curve(0, Measure::Loss);
        assert_eq!((loss.at, loss.mean), (vec![0.5, 1.5], vec![3.0, 1.0]));
        assert!(course.curve(1, Measure::Loss).at.is_empty());
    }

    #[test]
    fn steps_go_on_where_epochs_end() {
        let mut course = course(4, 1);
        course.epochs(&[metric("gap", 0, 1, 2.0, 40.0)]);
        for (at, loss) in [(1.25, 1.5), (1.75, 0.5)] {
            course.step(&Steps { seed: 0, at, losses: vec![Some(loss), None] });
        }
        course.epochs(&[metric("gap", 0, 2, 1.0, 50.0)]);
        let loss = course.curve(0, Measure::Loss);
        assert_eq!(loss.mean, [2.0, 1.5, 0.5], "the second epoch is there step by step");
        assert_eq!(loss.at, [0.5, 1.25, 1.75]);
        assert!(course.curve(1, Measure::Loss).at.is_empty());
    }

    #[test]
    fn losses_of_seeds_that_were_told_at_other_moments_are_one_point() {
        let mut course = course(4, 2);
        for (seed, at, loss) in [(0, 1.2505, 1.0), (1, 1.251, 2.0)] {
            course.step(&Steps { seed, at, losses: vec![Some(loss), None] });
        }
        let loss = course.curve(0, Measure::Loss);
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
