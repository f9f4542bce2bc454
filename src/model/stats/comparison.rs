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

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(text: &str) -> Vec<bool> {
        text.chars().map(|c| c == '1').collect()
    }

    #[test]
    fn holm_steps_down() {
        let corrected = holm(&[0.04, 0.01, 0.03, 0.5]);
        let expected = [0.09, 0.04, 0.09, 0.5];
        assert!(corrected.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{corrected:?}");
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    #[test]
    fn mcnemar_is_the_binomial_tail() {
        // 1 against 5 discordant images: 2 * (1 + 6) / 64.
        let p = mcnemar(&answers("1000001111"), &answers("0111111111"));
        assert!((p - 14.0 / 64.0).abs() < 1e-12, "{p}");
        assert_eq!(mcnemar(&answers("1010"), &answers("1010")), 1.0);
    }
}
