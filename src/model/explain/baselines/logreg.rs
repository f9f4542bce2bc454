//! Multinomial logistic regression, to convergence: channels are standardised by the training images,
//! then `C sum_n -log softmax(W x_n + b)[y_n] + |W|^2 / 2` is minimised by L-BFGS (no penalty on the bias).
//! `W` is `[classes, d]`. Convex, so the result depends on no initialisation, learning rate or data order.

use ndarray::{Array2, ArrayView2, s};
use rayon::prelude::*;

use super::Vectors;
use super::lbfgs::minimise;
use crate::model::stats::{argmax, mean_row};

/// Partial sums of the gradient: a fixed number, so that the result does not depend on the number of cores.
const PARTS: usize = 16;
/// Images in one matrix product.
const BLOCK: usize = 256;
/// Most images times channels times classes (minutes on a few cores), and most images times channels.
const MAX_WORK: u128 = 1 << 36;
const MAX_VALUES: u128 = 1 << 27;

/// Why it was not fitted.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LogRegError {
    #[error("{images} images of {width} channels in {classes} classes are too many to fit")]
    TooLarge { images: usize, width: usize, classes: usize },
    #[error("the vectors contain no finite training image")]
    Nothing,
}

/// Settings of the fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogReg {
    /// Weight C of the loss against the penalty.
    pub c: f64,
    /// Largest absolute entry of the gradient of the mean objective at convergence.
    pub tolerance: f64,
    /// Most iterations.
    pub iterations: usize,
}

impl Default for LogReg {
    fn default() -> Self {
        Self { c: 1.0, tolerance: 1e-5, iterations: 1000 }
    }
}

/// A fitted classifier.
pub struct Fitted {
    mean: Vec<f64>,
    deviation: Vec<f64>,
    weight: Array2<f64>, // [C, d]
    bias: Vec<f64>,      // [C]
    /// Iterations taken.
    pub iterations: usize,
    /// Whether the tolerance was reached.
    pub converged: bool,
}

impl LogReg {
    /// Fits the vectors `train` with these `labels`. `watch` is called before every evaluation of the loss, of which each takes up
    /// to seconds; its error ends the fit.
    pub fn fit<E>(
        &self,
        train: &Vectors,
        labels: &[usize],
        classes: usize,
        watch: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Result<Fitted, LogRegError>, E> {
        let (images, width) = (train.count(), train.width);
        let values = images as u128 * width as u128;
        if values > MAX_VALUES || values * classes as u128 > MAX_WORK {
            return Ok(Err(LogRegError::TooLarge { images, width, classes }));
        }
        if images == 0 || train.values.iter().any(|value| !value.is_finite()) {
            return Ok(Err(LogRegError::Nothing));
        }
        let (mean, deviation) = moments(train);
        let x = standardised(train, &mean, &deviation); // [n, d]
        let mut loss = |theta: &[f64]| watch().map(|()| self.loss(theta, &x, labels, classes));
        let start = vec![0.0; classes * (width + 1)];
        let minimum = minimise(start, &mut loss, self.tolerance, self.iterations)?;
        let (weight, bias) = minimum.at.split_at(classes * width);
        Ok(Ok(Fitted {
            mean,
            deviation,
            weight: Array2::from_shape_vec((classes, width), weight.to_vec()).expect("C rows of d"),
            bias: bias.to_vec(),
            iterations: minimum.iterations,
            converged: minimum.converged,
        }))
    }

    /// The objective divided by `C n`, and its gradient. `theta`: `W [C, d]`, then `b [C]`.
    fn loss(&self, theta: &[f64], x: &Array2<f64>, labels: &[usize], classes: usize) -> (f64, Vec<f64>) {
        let (n, width) = x.dim();
        let (weight, bias) = theta.split_at(classes * width);
        let weight = ArrayView2::from_shape((classes, width), weight).expect("C rows of d");
        let rows = n.div_ceil(PARTS);
        let part = |part: usize| {
            let (from, to) = ((part * rows).min(n), ((part + 1) * rows).min(n));
            let (mut loss, mut weight_gradient, mut bias_gradient) =
                (0.0, Array2::zeros((classes, width)), vec![0.0; classes]);
            for from in (from..to).step_by(BLOCK) {
                let block = x.slice(s![from..(from + BLOCK).min(to), ..]);
                let mut residual = block.dot(&weight.t()); // logits, then probabilities less targets, [rows, C]
                for (mut row, &label) in residual.rows_mut().into_iter().zip(&labels[from..]) {
                    row.iter_mut().zip(bias).for_each(|(z, b)| *z += b);
                    loss -= row[label];
                    loss += softmax(row.as_slice_mut().expect("a row of its own"));
                    row[label] -= 1.0;
                    bias_gradient.iter_mut().zip(&row).for_each(|(g, residual)| *g += residual);
                }
                weight_gradient = weight_gradient + residual.t().dot(&block);
            }
            (loss, weight_gradient, bias_gradient)
        };
        let parts: Vec<_> = (0..PARTS).into_par_iter().map(part).collect();
        let scale = 1.0 / n as f64;
        let penalty = scale / self.c;
        let mut loss = weight.iter().map(|w| w * w).sum::<f64>() * penalty / 2.0;
        let mut gradient: Vec<f64> = weight.iter().map(|w| w * penalty).chain(vec![0.0; classes]).collect();
        for (part_loss, weight_gradient, bias_gradient) in parts {
            loss += part_loss * scale;
            gradient
                .iter_mut()
                .zip(weight_gradient.iter().chain(&bias_gradient))
                .for_each(|(g, s)| *g += s * scale);
        }
        (loss, gradient)
    }
}

impl Fitted {
    /// That it did not converge, for the table that shows its accuracy.
    pub fn note(&self) -> Option<String> {
        (!self.converged).then(|| format!("not converged after {} iterations", self.iterations))
    }

    /// Probabilities of the classes for every vector, `[n, C]` row-major.
    pub fn probabilities(&self, vectors: &Vectors) -> Vec<f64> {
        let mut logits = standardised(vectors, &self.mean, &self.deviation).dot(&self.weight.t());
        for mut row in logits.rows_mut() {
            row.iter_mut().zip(&self.bias).for_each(|(z, b)| *z += b);
            softmax(row.as_slice_mut().expect("a row of its own"));
        }
        logits.into_iter().collect()
    }

    /// The most probable class of every vector.
    pub fn predict(&self, vectors: &Vectors) -> Vec<u32> {
        let (width, classes) = (vectors.width.max(1), self.bias.len().max(1));
        let of_block = |block: &[f32]| {
            let probabilities = self.probabilities(&Vectors { width, values: block.to_vec() });
            probabilities.chunks_exact(classes).map(|row| argmax(row) as u32).collect::<Vec<_>>()
        };
        vectors.values.par_chunks(BLOCK * width).flat_map_iter(of_block).collect()
    }
}

/// Softmax in place; returns the log of the sum of exponentials.
fn softmax(row: &mut [f64]) -> f64 {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|z| (z - max).exp()).sum();
    let log_sum = max + sum.ln();
    row.iter_mut().for_each(|z| *z = (*z - log_sum).exp());
    log_sum
}

/// Mean and population standard deviation of every channel; the deviation of a channel that is constant up to
/// rounding is set to 1.
fn moments(vectors: &Vectors) -> (Vec<f64>, Vec<f64>) {
    let n = vectors.count() as f64;
    let mean = mean_row(vectors.values.chunks_exact(vectors.width), vectors.width);
    let mut square = vec![0.0; vectors.width];
    for row in vectors.values.chunks_exact(vectors.width) {
        let each = square.iter_mut().zip(&mean).zip(row);
        each.for_each(|((s, m), &x)| *s += (f64::from(x) - m).powi(2) / n);
    }
    let rounding = |mean: f64| 10.0 * f64::EPSILON * mean.abs();
    let deviation =
        |(square, mean): (&f64, &f64)| if square.sqrt() > rounding(*mean) { square.sqrt() } else { 1.0 };
    let deviation = square.iter().zip(&mean).map(deviation).collect();
    (mean, deviation)
}

fn standardised(vectors: &Vectors, mean: &[f64], deviation: &[f64]) -> Array2<f64> {
    let width = vectors.width.max(1);
    let value = |(i, &x): (usize, &f32)| (f64::from(x) - mean[i % width]) / deviation[i % width];
    let values = vectors.values.iter().enumerate().map(value).collect();
    Array2::from_shape_vec((vectors.count(), width), values).expect("whole vectors")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_channel_is_not_blown_up() {
        // The mean of seven 0.1s is not exactly 0.1, so their variance is not exactly 0.
        let values = (0..7).flat_map(|i| [0.1, i as f32]).collect();
        let (mean, deviation) = moments(&Vectors { width: 2, values });
        assert!((mean[0] - f64::from(0.1_f32)).abs() < 1e-15);
        assert_eq!((deviation[0], deviation[1]), (1.0, 2.0));
    }
}
