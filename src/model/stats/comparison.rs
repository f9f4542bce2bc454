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
    let (n, fewer) = (first_only + second_only, first_only.min(second_only));
    // Binomial coefficients from the middle down: whole numbers, or in units of the first one where that is too large. Tail and total
    // are sums of the same terms in the same order: p is exactly 1 where the tail is all of them.
    let largest = (0..n / 2).fold(1.0_f64, |ways, k| ways * (n - k) as f64 / (k + 1) as f64);
    let largest = if largest.is_finite() { largest } else { 1.0 };
    let (mut half, mut tail, mut ways) = (0.0, 0.0, largest);
    for k in (0..=n / 2).rev() {
        half += ways;
        tail += if k <= fewer { ways } else { 0.0 };
        ways *= k as f64;
        ways /= (n - k + 1) as f64;
    }
    let middle = if n.is_multiple_of(2) { largest } else { 0.0 }; // the only one without a twin
    (2.0 * tail / (2.0 * half - middle)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// p for heads that `a` and `b` images are answered correctly by alone.
    fn p(a: usize, b: usize) -> f64 {
        let first: Vec<bool> = (0..a + b).map(|image| image < a).collect();
        mcnemar(&first, &first.iter().map(|right| !right).collect::<Vec<_>>())
    }

    #[test]
    fn p_of_mcnemar_is_that_of_whole_numbers() {
        let mut row = vec![1u128]; // binomial coefficients
        for n in 0..=124 {
            for fewer in 0..=n / 2 {
                let tail: u128 = row[..=fewer].iter().sum();
                let exact = ((2 * tail) as f64 / (1u128 << n) as f64).min(1.0);
                let found = p(fewer, n - fewer);
                assert!(
                    (found / exact - 1.0).abs() < if n <= 40 { f64::EPSILON } else { 1e-13 },
                    "{fewer} of {n}"
                );
                assert!(found == p(n - fewer, fewer) && (found < 1.0) == (exact < 1.0), "{fewer} of {n}");
            }
            let inner = row.windows(2).map(|pair| pair[0] + pair[1]);
            row = std::iter::once(1).chain(inner).chain([1]).collect();
        }
        // With as many images as test sets have.
        for n in [999, 1000, 50_000, 50_001] {
            assert_eq!(p(n / 2, n - n / 2), 1.0, "{n}");
        }
        assert!((p(0, 1000) / (2.0 * 0.5f64.powi(1000)) - 1.0).abs() < 1e-12);
        assert!((p(0, 1050) / (2.0 * 0.5f64.powi(1050)) - 1.0).abs() < 1e-6, "almost too small for a number");
    }
}
