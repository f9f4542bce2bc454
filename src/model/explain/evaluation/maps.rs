//! Position in the order and weight of every token of an image, and their means by class.

use super::ClassMaps;
use crate::model::explain::diagnostics::PlanStats;
use crate::model::explain::readout;
use crate::model::grid::Grid;
use crate::model::probe::head_output::{Direction, HeadOutput, Order};

/// Position of every token, `[N]`, from 0 (first) to 1 (last), expected under a plan; `None` if there is no single order.
pub fn positions(output: &HeadOutput, stats: Option<&PlanStats>) -> Option<Vec<f64>> {
    let expected = match (stats, output.directions()) {
        (Some(stats), _) => stats.expected().to_vec(),
        (None, [Direction { order: Order::Permutation(order), .. }]) => {
            let mut positions = vec![0.0; order.len()];
            order.iter().enumerate().for_each(|(k, &i)| positions[i] = k as f64);
            positions
        }
        (None, _) => return None,
    };
    let last = (expected.len().max(2) - 1) as f64;
    Some(expected.into_iter().map(|k| k / last).collect())
}

/// Weight of every token times N, `[N]`; `None` if the head has no single weight for a token.
pub(super) fn weights(output: &HeadOutput, grid: Grid) -> Option<Vec<f64>> {
    let n = grid.len() as f64;
    readout::token_weight(output).map(|weight| weight.into_iter().map(|w| w * n).collect())
}

/// Sums of maps by class, and their number.
pub(super) struct ClassSums {
    /// `[C, N]`.
    sums: Vec<f64>,
    counts: Vec<u32>,
}

impl ClassSums {
    pub(super) fn new(classes: usize, n: usize) -> Self {
        Self { sums: vec![0.0; classes * n], counts: vec![0; classes] }
    }

    pub(super) fn add(&mut self, class: usize, map: Option<&[f64]>) {
        let Some(map) = map else { return };
        self.counts[class] += 1;
        self.sums[class * map.len()..].iter_mut().zip(map).for_each(|(sum, v)| *sum += v);
    }

    /// The mean map of every class; `None` if there was no map at all.
    pub(super) fn mean(self) -> Option<ClassMaps> {
        let n = self.sums.len() / self.counts.len().max(1);
        let count = |at: usize| f64::from(self.counts[at / n.max(1)]);
        // 0 / 0 is NaN for a class without images.
        let values = self.sums.iter().enumerate().map(|(at, sum)| (sum / count(at)) as f32).collect();
        self.counts.iter().any(|count| *count > 0).then_some(ClassMaps { values, counts: self.counts })
    }
}
