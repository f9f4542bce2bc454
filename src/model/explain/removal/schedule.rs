//! The sets of tokens left at every step, and the curves computed from the logits of each set.

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};

use super::ranking::{Orders, RANDOM};
use crate::model::ops::pooling::weight_rule::softmax;
use crate::model::stats::quantiles;

/// Distinct sets of tokens that are left, each in raster order.
pub type Sets = IndexSet<Vec<usize>>;

/// Number of the `n` tokens that deletion leaves and that insertion has put back at step `i` of `steps`: `n - m` and `m` with
/// `m = i n / steps` rounded half up in integers, each at least 1.
pub fn counts(n: usize, steps: usize, i: usize) -> (usize, usize) {
    let moved = (2 * i * n + steps) / (2 * steps);
    (n - moved.min(n - 1), moved.max(1))
}

/// Values of a class by step, `[F]` each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Logit of the class.
    pub logit: Vec<f64>,
    /// Logit of the class less that of the rival; absent if there is no other class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<Vec<f64>>,
    /// Probability of the class.
    pub probability: Vec<f64>,
}

impl Curve {
    /// Mean height of a curve: the mean over its steps.
    pub fn height(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// The curve from the logits `[C]` of every step.
    fn from_logits<'a>(logits: impl Iterator<Item = &'a [f64]>, class: usize, rival: Option<usize>) -> Self {
        let mut curve = Self { margin: rival.map(|_| Vec::new()), ..Self::default() };
        for logits in logits {
            curve.logit.push(logits[class]);
            curve.probability.push(softmax(logits)[class]);
            if let Some((margin, rival)) = curve.margin.as_mut().zip(rival) {
                margin.push(logits[class] - logits[rival]);
            }
        }
        curve
    }

    /// Reduces several curves to one, step by step.
    fn reduced(curves: &[Self], reduce: impl Fn(&[f64]) -> f64) -> Self {
        let of = |part: &dyn Fn(&Self) -> &[f64]| -> Vec<f64> {
            let at = |step: usize| curves.iter().map(|curve| part(curve)[step]).collect::<Vec<f64>>();
            (0..part(&curves[0]).len()).map(|step| reduce(&at(step))).collect()
        };
        Self {
            logit: of(&|curve| &curve.logit),
            margin: curves[0].margin.as_ref().map(|_| of(&|curve| curve.margin.as_deref().unwrap_or(&[]))),
            probability: of(&|curve| &curve.probability),
        }
    }
}

/// Deletion and insertion curves by the ids of rankings.
pub type Curves = IndexMap<String, [Curve; 2]>;

/// The sets that the curves of some rankings pass through.
pub struct Schedule {
    /// For every ranking and each of its orders, the index of the set of every step, for deletion and insertion.
    rankings: Vec<(String, Vec<[Vec<usize>; 2]>)>,
}

impl Schedule {
    /// The schedule of `rankings` in `steps` steps; its sets are added to `sets`.
    ///
    /// # Panics
    /// If there is no step, or a ranking does not hold every token once: a bug in the caller.
    pub fn new(rankings: &[Orders], steps: usize, sets: &mut Sets) -> Self {
        let mut index_of = |left: &[usize]| {
            let mut left = left.to_vec();
            left.sort_unstable();
            sets.insert_full(left).0
        };
        let mut both = |order: &Vec<usize>| {
            let n = order.len();
            let step = |i: usize| counts(n, steps, i);
            let deletion = (0..=steps).map(|i| index_of(&order[n - step(i).0..])).collect();
            let insertion = (0..=steps).map(|i| index_of(&order[..step(i).1])).collect();
            [deletion, insertion]
        };
        let steps_of = |ranking: &Orders| {
            (ranking.id.to_owned(), ranking.orders.iter().map(&mut both).collect::<Vec<_>>())
        };
        Self { rankings: rankings.iter().map(steps_of).collect() }
    }

    /// Whether its curves pass through the set of this index.
    pub fn passes_through(&self, index: usize) -> bool {
        let orders = self.rankings.iter().flat_map(|(_, orders)| orders);
        orders.flatten().flatten().any(|own| *own == index)
    }

    /// The curves, from the logits `[C]` of every set by its index.
    pub fn curves(&self, logits: &[Vec<f64>], class: usize, rival: Option<usize>) -> Curves {
        let read = |steps: &Vec<usize>| {
            Curve::from_logits(steps.iter().map(|&index| logits[index].as_slice()), class, rival)
        };
        let mut curves = Curves::new();
        for (id, orders) in &self.rankings {
            let each: [Vec<Curve>; 2] =
                [0, 1].map(|way| orders.iter().map(|steps| read(&steps[way])).collect());
            if id != RANDOM {
                curves.insert(id.clone(), each.map(|mut curves| curves.swap_remove(0)));
                continue;
            }
            curves.insert(id.clone(), each.each_ref().map(|curves| Curve::reduced(curves, Curve::height)));
            for (end, at) in [("low", 0.05), ("high", 0.95)] {
                let quantile = |values: &[f64]| quantiles(values, [at])[0];
                curves.insert(
                    format!("{id}_{end}"),
                    each.each_ref().map(|curves| Curve::reduced(curves, quantile)),
                );
            }
        }
        curves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_made_in_whole_numbers() {
        // 0.05 x 10 is half a token, and 0.15 x 10 one and a half: half up, whatever float64 makes of them.
        let moved: Vec<usize> = (0..=20).map(|i| counts(10, 20, i).1).collect();
        assert_eq!(moved, [1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10]);
        let left: Vec<usize> = (0..=20).map(|i| counts(10, 20, i).0).collect();
        assert_eq!(left, [10, 9, 9, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1]);
        for n in 1..300 {
            assert_eq!((counts(n, 20, 0), counts(n, 20, 20)), ((n, 1), (1, n)));
        }
    }

    #[test]
    fn rankings_that_agree_share_their_sets() {
        let n = 196;
        let ranking = |id, order: Vec<usize>| Orders { id, orders: vec![order] };
        let up: Vec<usize> = (0..n).collect();
        let mut sets = Sets::new();
        Schedule::new(&[ranking("one", up.clone())], 20, &mut sets);
        // 21 + 21 steps, all tokens in both.
        assert_eq!(sets.len(), 41);
        Schedule::new(
            &[ranking("again", up.clone()), ranking("back", up.into_iter().rev().collect())],
            20,
            &mut sets,
        );
        assert_eq!(sets.len(), 41, "what one ranking takes away, its reverse puts back");
    }

    #[test]
    fn random_orders_become_their_mean_and_a_band() {
        let order = |at: usize| (0..4).map(|i| (i + at) % 4).collect::<Vec<usize>>();
        let random = Orders { id: RANDOM, orders: (0..3).map(order).collect() };
        let mut sets = Sets::new();
        let schedule = Schedule::new(&[random], 2, &mut sets);
        let logits: Vec<Vec<f64>> =
            sets.iter().map(|left| vec![left[0] as f64, 2.0 * left[0] as f64]).collect();
        let curves = schedule.curves(&logits, 0, Some(1));
        assert_eq!(curves.keys().collect::<Vec<_>>(), ["random", "random_low", "random_high"]);
        // Half is left: {2, 3}, {0, 3}, {0, 1}.
        assert_eq!(curves["random"][0].logit[1], 2.0 / 3.0);
        let margin = |id: &str| curves[id][0].margin.as_ref().expect("a rival")[1];
        assert_eq!(margin("random"), -2.0 / 3.0);
        assert!((margin("random_low") + 1.8).abs() < 1e-12 && margin("random_high").abs() < 1e-12);
        assert!((curves["random_low"][0].logit[1]).abs() < 1e-12);
        assert!((curves["random_high"][0].logit[1] - 1.8).abs() < 1e-12);
    }
}
