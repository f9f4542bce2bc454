//! From a [`HeadOutput`] to features, logits and token weights, in float64 on the host.
//!
//! The gain weights the channels of a token by the position `k` it is read at; the plan (or the permutation) gives
//! the share of token `i` read there. Features `z` `[F]` are the sum over `i` and `k`, averaged over sweeps; logits
//! are `W z + b` `[C]`.

use rayon::prelude::*;

use crate::model::ops::{gemm, simd};
use crate::model::probe::Classifier;
use crate::model::probe::head_output::{Direction, Form, Gain, HeadOutput, Order, blocks};
use crate::model::stats::mean_row;
use crate::model::tokens::Tokens;

/// Features of the image, `[F]`.
pub fn features(output: &HeadOutput, tokens: &Tokens) -> Vec<f64> {
    match &output.form {
        Form::Pool(weight) => weighted_sum(tokens, |i, _| weight[i]),
        Form::ChannelPool(weight) => weighted_sum(tokens, |i, c| weight[i * tokens.width + c]),
        Form::Projected { weights, map, mix, bias } => {
            let (n, d) = (tokens.grid.len(), tokens.width);
            let pools: Vec<Vec<f64>> =
                weights.chunks_exact(n).map(|w| weighted_sum(tokens, |i, _| w[i])).collect(); // [M, d]
            let count = map.len() / d; // G
            let value = |g: usize| dot(&map[g * d..][..d], &pools[g * pools.len() / count]);
            let values: Vec<f64> = (0..count).map(value).collect();
            let Some(mix) = mix else { return values.iter().zip(bias).map(|(y, b)| y + b).collect() };
            mix.chunks_exact(values.len()).zip(bias).map(|(row, b)| dot(row, &values) + b).collect()
        }
        Form::BesideCls { cls, weights, channels } => {
            let mean = weighted_sum(tokens, |i, _| weights[i]); // [d]
            [&cls[..], &mean[tokens.width - channels..]].concat()
        }
        Form::Scan(directions) => {
            average(&directions.iter().map(|d| sweep_features(d, tokens)).collect::<Vec<_>>())
        }
        Form::Opaque { features, .. } => features.clone(),
    }
}

/// Logits of the classifier, `[C]`.
pub fn logits(output: &HeadOutput, tokens: &Tokens, classifier: &Classifier) -> Vec<f64> {
    let features = features(output, tokens);
    let rows = classifier.weight.chunks_exact(features.len().max(1));
    rows.zip(&classifier.bias).map(|(row, &b)| dot(row, &features) + f64::from(b)).collect()
}

/// The class other than `class` with the largest logit, the first of equals; `None` if there is no other.
pub(super) fn rival(logits: &[f64], class: usize) -> Option<usize> {
    let others = (0..logits.len()).filter(|other| *other != class);
    others.reduce(|best, next| if logits[next] > logits[best] { next } else { best })
}

/// Weight of every token in the features, `[N]`; `None` if it differs by channel or the head is not linear in the tokens.
pub fn token_weight(output: &HeadOutput) -> Option<Vec<f64>> {
    match &output.form {
        Form::Pool(weight) => Some(weight.clone()),
        Form::Scan(directions) => {
            let weights = directions.iter().map(|d| match &d.gain {
                Gain::Shared(gain) => Some(by_token(&d.order, gain)),
                _ => None,
            });
            Some(average(&weights.collect::<Option<Vec<_>>>()?))
        }
        Form::ChannelPool(_) | Form::Projected { .. } | Form::BesideCls { .. } | Form::Opaque { .. } => None,
    }
}

/// Dot product, in eight partial sums that the compiler can keep in one vector register.
pub(super) fn dot<A: Copy + Into<f64>, B: Copy + Into<f64>>(row: &[A], values: &[B]) -> f64 {
    let mut sums = [0.0; 8];
    let (rows, values_) = (row.chunks_exact(8), values.chunks_exact(8));
    let tail = rows.remainder().iter().zip(values_.remainder());
    let tail: f64 = tail.map(|(&a, &b)| a.into() * b.into()).sum();
    for (a, b) in rows.zip(values_) {
        for (sum, (&a, &b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a.into() * b.into();
        }
    }
    sums.iter().sum::<f64>() + tail
}

/// Mean of equally long vectors.
pub(super) fn average(parts: &[impl AsRef<[f64]>]) -> Vec<f64> {
    mean_row(parts.iter().map(AsRef::as_ref), parts.first().map_or(0, |part| part.as_ref().len()))
}

/// `P gain`, `[N]`: weight of every token, given the weight `gain[k]` of every position.
pub(super) fn by_token(order: &Order, gain: &[f64]) -> Vec<f64> {
    match order {
        Order::Permutation(order) => {
            let mut weight = vec![0.0; gain.len()];
            order.iter().zip(gain).for_each(|(&i, &gain)| weight[i] += gain);
            weight
        }
        Order::Plan(plan) => {
            let parts = blocks(plan.n)
                .into_par_iter()
                .flat_map_iter(|tokens| tokens.map(|i| simd::dot(plan.row(i), gain)));
            parts.collect()
        }
    }
}

/// `P^T values`, `[N]`: value read at every position, given the value of every token.
pub(super) fn by_position(order: &Order, values: &[f64]) -> Vec<f64> {
    match order {
        Order::Permutation(order) => order.iter().map(|&i| values[i]).collect(),
        Order::Plan(plan) => {
            let parts = blocks(plan.n).into_par_iter().map(|tokens| {
                let mut sums = vec![0.0; plan.n];
                tokens.for_each(|i| simd::add_rounded(values[i], plan.row(i), &mut sums));
                sums
            });
            sum(parts.collect(), plan.n)
        }
    }
}

/// Sums over all tokens `i` and positions `k` with their share of the order: `f(i, k, share)` returns the index of the
/// output and the value to add there. Returns `[len]`.
pub(super) fn scatter_sum(
    order: &Order,
    f: impl Fn(usize, usize, f64) -> (usize, f64) + Sync,
    len: usize,
) -> Vec<f64> {
    let add = |sums: &mut [f64], i, k, share| {
        let (at, value) = f(i, k, share);
        sums[at] += value;
    };
    match order {
        Order::Permutation(order) => {
            let mut sums = vec![0.0; len];
            order.iter().enumerate().for_each(|(k, &i)| add(&mut sums, i, k, 1.0));
            sums
        }
        Order::Plan(plan) => {
            let parts = blocks(plan.n).into_par_iter().map(|tokens| {
                let mut sums = vec![0.0; len];
                for i in tokens {
                    plan.row(i).iter().enumerate().for_each(|(k, &share)| add(&mut sums, i, k, share));
                }
                sums
            });
            sum(parts.collect(), len)
        }
    }
}

/// The sum of vectors of `len` values, first to last.
fn sum(parts: Vec<Vec<f64>>, len: usize) -> Vec<f64> {
    parts.into_iter().fold(vec![0.0; len], |mut sum, part| {
        sum.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
        sum
    })
}

/// `sum_i weight(i, c) t_i[c]`, `[d]`.
fn weighted_sum(tokens: &Tokens, weight: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let mut sum = vec![0.0; tokens.width];
    for i in 0..tokens.grid.len() {
        for (c, (s, &t)) in sum.iter_mut().zip(tokens.patch(i)).enumerate() {
            *s += weight(i, c) * f64::from(t);
        }
    }
    sum
}

/// Features of one sweep, `[F]`.
fn sweep_features(direction: &Direction, tokens: &Tokens) -> Vec<f64> {
    let (n, d) = (tokens.grid.len(), tokens.width);
    match &direction.gain {
        Gain::Shared(gain) => {
            let weight = by_token(&direction.order, gain);
            weighted_sum(tokens, |i, _| weight[i])
        }
        Gain::Channel(gain) => {
            let weight = channels_by_token(&direction.order, gain, d);
            weighted_sum(tokens, |i, c| weight[i * d + c])
        }
        Gain::Mix { maps, class_of, bias } => {
            // Tokens that share a position class share a map: sum them before mapping.
            let classes = maps.len() / (bias.len() * d).max(1);
            let share =
                scatter_sum(&direction.order, |i, k, share| (i * classes + class_of[k], share), n * classes);
            let mut features = bias.clone(); // [F]
            for p in 0..classes {
                let sum = weighted_sum(tokens, |i, _| share[i * classes + p]); // [d]
                for (f, feature) in features.iter_mut().enumerate() {
                    *feature += dot(&maps[(p * bias.len() + f) * d..][..d], &sum);
                }
            }
            features
        }
    }
}

/// `P G`, `[N, d]`: weight of every token by channel, given the gain `[N, d]` of every position.
pub(super) fn channels_by_token(order: &Order, gain: &[f64], d: usize) -> Vec<f64> {
    let mut weight = vec![0.0; gain.len()];
    match order {
        Order::Permutation(order) => {
            for (gain, &i) in gain.chunks_exact(d).zip(order) {
                weight[i * d..][..d].copy_from_slice(gain);
            }
        }
        Order::Plan(plan) => {
            gemm::Matrix::new(&plan.share, plan.n).times(gemm::Matrix::new(gain, d), &mut weight);
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::close::assert_close;
    use crate::model::probe::head_output::Plan;

    #[test]
    fn of_equal_rivals_the_first_is_compared_with() {
        let found = [rival(&[1.0, 3.0, 3.0, 3.0], 1), rival(&[2.0, 2.0], 0), rival(&[1.0], 0)];
        assert_eq!(found, [Some(2), Some(1), None]);
    }

    /// With a plan large enough to be summed in several blocks.
    #[test]
    fn a_plan_is_read_by_its_rows_and_by_its_columns() {
        let n = 700;
        assert!(blocks(n).len() > 1);
        let values = |step: usize, count: usize| -> Vec<f64> {
            (0..count).map(|at| (at * step % 1013) as f64 / 1013.0 - 0.5).collect()
        };
        let (gain, token) = (values(17, n), values(29, n));
        let plan = Order::Plan(Plan { n, share: values(7919, n * n) });
        let order = Order::Permutation((0..n).map(|k| k * 3 % n).collect());
        for order in [plan, order] {
            let pairs = [
                (by_token(&order, &gain), scatter_sum(&order, |i, k, share| (i, share * gain[k]), n)),
                (by_position(&order, &token), scatter_sum(&order, |i, k, share| (k, share * token[i]), n)),
            ];
            for (found, expected) in pairs {
                assert_eq!(found.len(), n);
                assert_close("read in blocks", found, expected, 1e-11);
            }
        }
    }
}
