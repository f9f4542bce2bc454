//! L-BFGS (Nocedal 1980; Liu and Nocedal 1989) for smooth convex functions: the curvature is estimated from
//! the last ten steps and changes of the gradient; the step is halved until the function decreases enough
//! (Armijo condition). Deterministic.

/// Steps in the curvature estimate.
const HISTORY: usize = 10;
/// Armijo constant: least decrease of a step, as a share of that predicted by the gradient.
const SUFFICIENT_DECREASE: f64 = 1e-4;

/// A function that returns its value and gradient at a point, or the error that ends the minimisation.
pub type Objective<'a, E> = &'a mut dyn FnMut(&[f64]) -> Result<(f64, Vec<f64>), E>;

/// Result of a minimisation.
pub struct Minimum {
    /// The last point.
    pub at: Vec<f64>,
    /// Iterations taken.
    pub iterations: usize,
    /// Whether the largest absolute entry of the gradient reached the tolerance.
    pub converged: bool,
}

/// Minimises `f` from `start` until the largest absolute entry of the gradient is at most `tolerance`,
/// for at most `max_iterations`.
pub fn minimise<E>(
    start: Vec<f64>,
    f: Objective<E>,
    tolerance: f64,
    max_iterations: usize,
) -> Result<Minimum, E> {
    let mut at = start;
    let (mut value, mut gradient) = f(&at)?;
    let mut history: Vec<(Vec<f64>, Vec<f64>, f64)> = Vec::new(); // step s, gradient change y, 1 / (s . y)
    for iterations in 0..max_iterations {
        if max_abs(&gradient) <= tolerance {
            return Ok(Minimum { at, iterations, converged: true });
        }
        let mut direction = quasi_newton_step(&history, &gradient);
        let mut slope = dot(&direction, &gradient);
        if slope >= 0.0 || !slope.is_finite() {
            history.clear();
            direction = gradient.iter().map(|g| -g).collect();
            slope = -dot(&gradient, &gradient);
        }
        let mut length = if history.is_empty() { (1.0 / slope.abs().sqrt()).min(1.0) } else { 1.0 };
        let (next, next_value, next_gradient) = loop {
            let next: Vec<f64> = at.iter().zip(&direction).map(|(x, d)| x + length * d).collect();
            let (next_value, next_gradient) = f(&next)?;
            if next_value <= value + SUFFICIENT_DECREASE * length * slope {
                break (next, next_value, next_gradient);
            }
            length /= 2.0;
            if length < 1e-16 {
                // Any further decrease is below rounding.
                return Ok(Minimum { at, iterations, converged: false });
            }
        };
        let step: Vec<f64> = next.iter().zip(&at).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        let product = dot(&step, &change);
        if product > 1e-12 * dot(&change, &change).sqrt() * dot(&step, &step).sqrt() {
            if history.len() == HISTORY {
                history.remove(0);
            }
            history.push((step, change, 1.0 / product));
        }
        (at, value, gradient) = (next, next_value, next_gradient);
    }
    let converged = max_abs(&gradient) <= tolerance;
    Ok(Minimum { at, iterations: max_iterations, converged })
}

/// Minus the gradient times the estimated inverse Hessian, by the two-loop recursion.
fn quasi_newton_step(history: &[(Vec<f64>, Vec<f64>, f64)], gradient: &[f64]) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut alphas = Vec::with_capacity(history.len());
    for (step, change, inverse) in history.iter().rev() {
        let alpha = inverse * dot(step, &q);
        q.iter_mut().zip(change).for_each(|(q, y)| *q -= alpha * y);
        alphas.push(alpha);
    }
    if let Some((_, change, inverse)) = history.last() {
        let scale = 1.0 / (inverse * dot(change, change));
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((step, change, inverse), alpha) in history.iter().zip(alphas.into_iter().rev()) {
        let rest = alpha - inverse * dot(change, &q);
        q.iter_mut().zip(step).for_each(|(q, s)| *q += rest * s);
    }
    q
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |max, value| value.abs().max(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_valley_is_walked_to_its_end() {
        // sum_i 10^i (x_i - i)^2: smooth, convex and badly scaled.
        let mut f = |x: &[f64]| {
            let scale = |i: usize| 10_f64.powi(i as i32);
            let value = x.iter().enumerate().map(|(i, x)| scale(i) * (x - i as f64).powi(2)).sum();
            let gradient = x.iter().enumerate().map(|(i, x)| 2.0 * scale(i) * (x - i as f64)).collect();
            Ok::<_, ()>((value, gradient))
        };
        let found = minimise(vec![5.0; 5], &mut f, 1e-8, 500).unwrap();
        // 37 with the latest ten steps.
        assert!(found.converged && found.iterations < 60, "{} iterations", found.iterations);
        let expected: Vec<f64> = (0..found.at.len()).map(|i| i as f64).collect();
        crate::close::assert_close("at", &found.at, expected, 1e-7);
    }

    #[test]
    fn across_the_known_steps_the_curvature_is_that_of_the_latest() {
        // A step of length 1 changed the gradient by 4.
        let history = [(vec![1.0, 0.0], vec![4.0, 0.0], 0.25)];
        assert_eq!(quasi_newton_step(&history, &[0.0, 1.0]), [0.0, -0.25]);
    }

    #[test]
    fn where_no_step_decreases_the_value_it_ends_and_says_so() {
        let mut calls = 0.0;
        let mut rising = |_: &[f64]| {
            calls += 1.0;
            Ok::<_, ()>((calls, vec![1.0]))
        };
        let found = minimise(vec![0.0], &mut rising, 1e-8, 500).unwrap();
        assert_eq!((found.converged, found.iterations, found.at), (false, 0, vec![0.0]));
    }
}
