//! Training losses within epochs, for the paper's figure of training loss, thinned to a bounded number of
//! points: every epoch is divided into equal parts, and a point is the mean loss of the images of one
//! part. The division depends on the protocol alone, so a resumed run writes the same points.

use super::Running;

/// Maximum number of points of one head and seed, unless there are more epochs.
pub const POINTS: usize = 4096;

/// Losses of one head so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Losses {
    /// One per part, epoch by epoch; NaN where unknown.
    pub points: Vec<f32>,
    /// The sums of the epoch at the start of the current part.
    pub since: Running,
}

/// Number of parts of an epoch of `steps` steps, in a run of `epochs`.
pub fn parts(epochs: usize, steps: usize) -> usize {
    (POINTS / epochs.max(1)).clamp(1, steps.max(1))
}

impl Losses {
    /// Adds a point if a part ends with `step` (from 1) of the `steps` of epoch `epoch` (from 0); `running` are the
    /// sums of the epoch up to that step.
    pub fn take(&mut self, running: Running, [epoch, step]: [usize; 2], steps: usize, parts: usize) {
        let ended = |step: usize| step * parts / steps;
        if ended(step) == ended(step - 1) {
            return;
        }
        // Points before a checkpoint of a version without losses are unknown.
        self.points.resize(epoch * parts + ended(step - 1), f32::NAN);
        self.points.push(running.loss_since(&self.since).map_or(f32::NAN, |loss| loss as f32));
        self.since = if step == steps { Running::default() } else { running };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums after `step` images whose losses are 1, 2, 3 and so on.
    fn sums(step: usize) -> Running {
        Running::from_values([(step * (step + 1)) as f64 / 2.0, 0.0, step as f64])
    }

    #[test]
    fn a_point_is_the_mean_of_its_part_whatever_the_cuts() {
        let mut losses = Losses::default();
        for epoch in 0..2 {
            for step in 1..=7 {
                losses.take(sums(step), [epoch, step], 7, 3);
            }
        }
        // Parts end after steps 3, 5 and 7.
        assert_eq!(losses.points, [2.0, 4.5, 6.5, 2.0, 4.5, 6.5]);
        let mut late = Losses::default();
        (5..=7).for_each(|step| late.take(sums(step), [1, step], 7, 3));
        assert!(late.points[..4].iter().all(|loss| loss.is_nan()) && late.points.len() == 6);
    }

    #[test]
    fn an_epoch_of_one_part_has_the_mean_of_its_own_images() {
        let mut losses = Losses::default();
        for epoch in 0..2 {
            (1..=7).for_each(|step| losses.take(sums(step), [epoch, step], 7, 1));
        }
        assert_eq!(losses.points, [4.0, 4.0]);
    }

    #[test]
    fn points_are_bounded_and_never_finer_than_steps() {
        assert_eq!(parts(100, 24), 24);
        assert_eq!(parts(100, 1000), 40);
        assert_eq!(parts(10_000, 9), 1);
        assert_eq!(parts(0, 0), 1);
    }
}
