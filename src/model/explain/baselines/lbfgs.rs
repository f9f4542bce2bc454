//! L-BFGS (Nocedal 1980; Liu and Nocedal 1989) for smooth convex functions: the last ten steps and
//! gradient changes stand for the curvature; steps are halved until the function falls enough
//! (Armijo). Deterministic.

/// Steps that are remembered.
const HISTORY: usize = 10;
/// Share of the fall that the gradient promises which a step must bring.
const SUFFICIENT_DECREASE: f64 = 1e-4;

/// A function's value and gradient at a point.
pub type Slope<'a> = &'a dyn Fn(&[f64]) -> (f64, Vec<f64>);

/// Where a minimisation ended.
pub struct Minimum {
    /// The point.
    pub at: Vec<f64>,
    /// Iterations taken.
    pub iterations: usize,
    /// Whether the largest entry of the gradient fell to the tolerance.
    pub converged: bool,
}

/// Minimises `f` from `start` until the largest entry of the gradient is at most
/// `tolerance`, or for `most` iterations.
pub fn minimise(start: Vec<f64>, f: Slope, tolerance: f64, most: usize) -> Minimum {
    let mut at = start;
    let (mut value, mut gradient) = f(&at);
    let mut past: Vec<(Vec<f64>, Vec<f64>, f64)> = Vec::new(); // step, change of gradient, 1 / their product
    for iterations in 0..most {
        if largest(&gradient) <= tolerance {
            return Minimum { at, iterations, converged: true };
        }
        let mut direction = newton(&past, &gradient);
        let mut slope = dot(&direction, &gradient);
        if slope >= 0.0 || !slope.is_finite() {
            past.clear();
            direction = gradient.iter().map(|g| -g).collect();
            slope = -dot(&gradient, &gradient);
        }
        let mut length = if past.is_empty() { (1.0 / slope.abs().sqrt()).min(1.0) } else { 1.0 };
        let (next, next_value, next_gradient) = loop {
            let next: Vec<f64> = at.iter().zip(&direction).map(|(x, d)| x + length * d).collect();
            let (next_value, next_gradient) = f(&next);
            if next_value <= value + SUFFICIENT_DECREASE * length * slope {
                break (next, next_value, next_gradient);
            }
            length /= 2.0;
            if length < 1e-16 {
                // Rounding hides any further fall.
                return Minimum { at, iterations, converged: false };
            }
        };
        let step: Vec<f64> = next.iter().zip(&at).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        let product = dot(&step, &change);
        if product > 1e-12 * dot(&change, &change).sqrt() * dot(&step, &step).sqrt() {
            if past.len() == HISTORY {
                past.remove(0);
            }
            past.push((step, change, 1.0 / product));
        }
        (at, value, gradient) = (next, next_value, next_gradient);
    }
    let converged = largest(&gradient) <= tolerance;
    Minimum { at, iterations: most, converged }
}

/// The step that the remembered curvature suggests: the two-loop recursion.
fn newton(past: &[(Vec<f64>, Vec<f64>, f64)], gradient: &[f64]) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut shares = Vec::with_capacity(past.len());
    for (step, change, inverse) in past.iter().rev() {
        let share = inverse * dot(step, &q);
        q.iter_mut().zip(change).for_each(|(q, y)| *q -= share * y);
        shares.push(share);
    }
    if let Some((_, change, inverse)) = past.last() {
        let scale = 1.0 / (inverse * dot(change, change));
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((step, change, inverse), share) in past.iter().zip(shares.into_iter().rev()) {
        let rest = share - inverse * dot(change, &q);
        q.iter_mut().zip(step).for_each(|(q, s)| *q += rest * s);
    }
    q
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| value.abs().max(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_valley_is_walked_to_its_end() {
        // sum_i c_i (x_i - i)^2 + log-sum-exp keeps it smooth, convex and badly scaled.
        let f = |x: &[f64]| {
            let scale = |i: usize| 10_f64.powi(i as i32);
            let value = x.iter().enumerate().map(|(i, x)| scale(i) * (x - i as f64).powi(2)).sum();
            let gradient = x.iter().enumerate().map(|(i, x)| 2.0 * scale(i) * (x - i as f64)).collect();
            (value, gradient)
        };
        let found = minimise(vec![5.0; 5], &f, 1e-8, 500);
        assert!(found.converged, "{} iterations", found.iterations);
        let expected: Vec<f64> = (0..found.at.len()).map(|i| i as f64).collect();
        crate::close::assert_close("at", &found.at, expected, 1e-7);
    }
}
