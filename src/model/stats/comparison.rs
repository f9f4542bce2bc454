//! A test of two probes on the same images; correction of several p values.

use super::argsort;

/// p values corrected for multiple testing by Holm's step-down method, in the order of `p`.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let (mut corrected, mut largest) = (vec![0.0; p.len()], 0.0f64);
    for (rank, at) in argsort(p).into_iter().enumerate() {
        largest = largest.max(((p.len() - rank) as f64 * p[at]).min(1.0));
        corrected[at] = largest;
    }
    corrected
}

/// Exact two-sided McNemar test on paired right/wrong answers: the probability that heads of equal
/// accuracy disagree at least this unevenly. `first[i]` and `second[i]`: whether each is right on image `i`.
pub fn mcnemar(first: &[bool], second: &[bool]) -> f64 {
    let only = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|&(&x, &y)| x && !y).count();
    let (first_only, second_only) = (only(first, second), only(second, first));
    let n = first_only + second_only;
    let log_factorials: Vec<f64> = std::iter::once(0.0)
        .chain((1..=n).scan(0.0, |sum, k| {
            *sum += (k as f64).ln();
            Some(*sum)
        }))
        .collect();
    let probability = |k: usize| {
        let choose = log_factorials[n] - log_factorials[k] - log_factorials[n - k];
        (choose - n as f64 * std::f64::consts::LN_2).exp()
    };
    let tail: f64 = (0..=first_only.min(second_only)).map(probability).sum();
    (2.0 * tail).min(1.0)
}
