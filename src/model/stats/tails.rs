//! Tails of the normal distribution and of Student's t.

/// The logarithm of a density, relative to its peak, below which it adds nothing to an integral.
const NEGLIGIBLE: f64 = -25.0;

/// The probability that a standard normal draw is at least `z`, to 1e-14: Marsaglia's series near 0, a continued
/// fraction in the tail.
pub fn normal_tail(z: f64) -> f64 {
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    if z.abs() < 3.0 {
        let (mut sum, mut term, mut k) = (0.0, z, 1.0);
        while sum + term != sum {
            sum += term;
            k += 2.0;
            term *= z * z / k;
        }
        return 0.5 - density * sum;
    }
    let fraction = (1..=120).rev().fold(z.abs(), |below, k| z.abs() + f64::from(k) / below);
    if z > 0.0 { density / fraction } else { 1.0 - density / fraction }
}

/// The probability that a draw from Student's t distribution with `df` degrees of freedom is at least `t`, to four digits:
/// with `t = sqrt(df) tan(angle)` it is the share of the integral of `cos(angle)^(df - 1)` beyond that angle.
pub fn student_tail(t: f64, df: f64) -> f64 {
    const STEPS: usize = 1024;
    if df > 1e5 {
        return normal_tail(t);
    }
    // Simpson's rule from an angle to pi / 2.
    let beyond = |from: f64| {
        // Beyond 40 standard deviations the integrand is negligible.
        let step = (std::f64::consts::FRAC_PI_2 - from).min(40.0 / df.sqrt()) / STEPS as f64;
        let at = |i: usize| (from + i as f64 * step).cos().max(0.0).powf(df - 1.0);
        let inner: f64 = (1..STEPS).map(|i| if i % 2 == 1 { 4.0 * at(i) } else { 2.0 * at(i) }).sum();
        (at(0) + inner + at(STEPS)) * step / 3.0
    };
    let tail = 0.5 * beyond((t.abs() / df.sqrt()).atan()) / beyond(0.0);
    if t < 0.0 { 1.0 - tail } else { tail }
}

/// The number that a share `tail` (below a half) of draws from Student's t distribution with `df` degrees of freedom exceeds.
pub fn student_quantile(tail: f64, df: f64) -> f64 {
    solve_decreasing(tail, |t| student_tail(t, df))
}

/// Solves `function(x) = value` for `x` from 0 to a million by bisection, for a decreasing function.
pub(super) fn solve_decreasing(value: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while function(high) > value && high < 1e6 {
        high *= 2.0;
    }
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if function(middle) > value { low = middle } else { high = middle }
    }
    high
}

/// The distribution of `sqrt(chi squared / df)`, by which a normal variable is divided to give Student's t: values and their
/// probabilities, by the trapezoidal rule over `steps` steps of their logarithm, as small values make the far tails.
pub(super) fn t_scales(df: f64, steps: usize) -> impl Iterator<Item = (f64, f64)> {
    // The log density of the value's logarithm, up to a constant that makes it 0 at its peak, 0.
    let log_density = move |log: f64| df * (log + 0.5 * (1.0 - (2.0 * log).exp()));
    let [from, to] =
        [-1.0, 1.0].map(|side| side * solve_decreasing(NEGLIGIBLE, |distance| log_density(side * distance)));
    let step = (to - from) / steps as f64;
    let at = move |i: usize| {
        let log = from + i as f64 * step;
        (log.exp(), log_density(log).exp())
    };
    let total: f64 = (0..=steps).map(|i| at(i).1).sum();
    (0..=steps).map(move |i| (at(i).0, at(i).1 / total))
}
