//! Evidence for a class, by position and by token (docs/definitions.md, section 6).
//!
//! Let `M[i, k]` be the contribution to the logit of class `c` if the whole of token `i` is read at position `k`:
//! `W_c . (gain[k] * t_i)`, with the skip `D` part of the gain of the last position. Then
//! `e[k] = sum_i P[i, k] M[i, k]` and `e[i] = sum_k P[i, k] M[i, k]`; each sums, with the bias, to the
//! logit. Several sweeps are averaged, by token and by position.
//!
//! The paper's proxy ("Logit-evidence scheduling under memory decay") assumes exponential decay
//! instead of the measured kernel: `W_c . routed[k] rho^(N-1-k)`.

use rayon::prelude::*;

use super::readout::{average, by_position, by_token, dot, scatter_sum};
use crate::model::probe::Classifier;
use crate::model::probe::head_output::{Direction, Form, Gain, HeadOutput, Order};
use crate::model::tokens::Tokens;

/// Exact evidence for one class.
#[derive(Clone, Debug, PartialEq)]
pub struct Exact {
    /// By position in the order, `[N]`; absent for heads without an order.
    pub position: Option<Vec<f64>>,
    /// By token, `[N]`.
    pub token: Vec<f64>,
    /// Part of the logit that no token contributes: the classifier's bias and that of a bias within the head.
    pub bias: f64,
}

/// The paper's proxy for one class, `[N]` each.
#[derive(Clone, Debug, PartialEq)]
pub struct Proxy {
    /// With the tokens in the order they were read in.
    pub routed: Vec<f64>,
    /// With the tokens in raster order.
    pub raster: Vec<f64>,
}

/// Exact evidence for a class of the classifier, or why there is none.
pub fn exact(
    output: &HeadOutput,
    tokens: &Tokens,
    classifier: &Classifier,
    class: usize,
) -> Result<Exact, &'static str> {
    let (n, d) = (tokens.grid.len(), tokens.width);
    let (row, bias) = (classifier.row(class), f64::from(classifier.bias[class]));
    match &output.form {
        Form::Opaque { why, .. } => Err(why),
        Form::Pool(weight) => {
            let token = projections(tokens, row).iter().zip(weight).map(|(u, w)| u * w).collect();
            Ok(Exact { position: None, token, bias })
        }
        Form::ChannelPool(weight) => {
            let token = (0..n).map(|i| {
                let scaled: Vec<f64> = scale_channels(row, &weight[i * d..][..d]);
                dot(tokens.patch(i), &scaled)
            });
            Ok(Exact { position: None, token: token.collect(), bias })
        }
        Form::Projected { weights, map, mix, bias: inner } => {
            let mut token = vec![0.0; n];
            let pool_width = map.len() / d * n / weights.len(); // features of one pool
            let mixed_row = match mix {
                None => row.iter().map(|&w| f64::from(w)).collect(),
                Some(mix) => row_times_map(row, mix), // [G]
            };
            for (m, pool) in weights.chunks_exact(n).enumerate() {
                let mut pool_row = vec![0.0; d]; // W_c times the pool's part of the map, [d]
                for g in m * pool_width..(m + 1) * pool_width {
                    let line = &map[g * d..][..d];
                    pool_row.iter_mut().zip(line).for_each(|(v, x)| *v += mixed_row[g] * x);
                }
                for (i, (e, w)) in token.iter_mut().zip(pool).enumerate() {
                    *e += w * dot(tokens.patch(i), &pool_row);
                }
            }
            Ok(Exact { position: None, token, bias: bias + dot(row, inner) })
        }
        Form::BesideCls { cls, weights, channels } => {
            let mut own = vec![0.0; d]; // W_c's part for the mean, at the channels of the tokens
            own[d - channels..].iter_mut().zip(&row[d..]).for_each(|(own, &w)| *own = f64::from(w));
            let token = weights.iter().enumerate().map(|(i, w)| w * dot(tokens.patch(i), &own)).collect();
            // As long as the row, so that it is summed as any other bias within a head.
            let inner: Vec<f64> = cls.iter().copied().chain(vec![0.0; *channels]).collect();
            Ok(Exact { position: None, token, bias: bias + dot(row, &inner) })
        }
        Form::Scan(directions) => {
            let (mut positions, mut token, mut constant) = (Vec::new(), Vec::new(), 0.0);
            for Direction { order, gain, .. } in directions {
                let table = contributions(gain, order, tokens, row);
                if let Contributions::Product { token: projection, gain } = &table {
                    positions.push(multiply(by_position(order, projection), gain));
                    token.push(multiply(by_token(order, gain), projection));
                } else {
                    positions.push(scatter_sum(order, |i, k, share| (k, share * table.at(i, k)), n));
                    token.push(scatter_sum(order, |i, k, share| (i, share * table.at(i, k)), n));
                }
                if let Gain::Mix { bias, .. } = gain {
                    constant += dot(row, bias) / directions.len() as f64;
                }
            }
            let position = Some(average(&positions));
            Ok(Exact { position, token: average(&token), bias: bias + constant })
        }
    }
}

/// Exact evidence by position, `[N]`, if the same S4 read the tokens in raster order, without its router:
/// `e[k] = W_c . (K[N-1-k] * t_k)`, plus the skip at the last position. `None` for several sweeps, and for heads without
/// an S4.
pub fn raster(output: &HeadOutput, tokens: &Tokens, row: &[f32]) -> Option<Vec<f64>> {
    let [Direction { gain, radius: Some(_), .. }] = output.directions() else { return None };
    let n = tokens.grid.len();
    let table = contributions(gain, &Order::Permutation((0..n).collect()), tokens, row);
    Some((0..n).map(|k| table.at(k, k)).collect())
}

/// The paper's proxy for the class with classifier row `row`; `rho` replaces the spectral radius
/// of the state space model. `None` for heads with no order, or with no radius to decay by: a convolution's features are not
/// the channels of the tokens, even where there are as many.
pub fn proxy(output: &HeadOutput, tokens: &Tokens, row: &[f32], rho: Option<f64>) -> Option<Proxy> {
    let Form::Scan(directions) = &output.form else { return None };
    let n = tokens.grid.len();
    let projected = projections(tokens, row); // [N]
    let (mut routed, mut raster) = (Vec::new(), Vec::new());
    for direction in directions {
        let radius = direction.radius?;
        let rho = rho.unwrap_or(radius);
        let decay: Vec<f64> = (0..n).map(|k| rho.powi((n - 1 - k) as i32)).collect();
        routed.push(multiply(by_position(&direction.order, &projected), &decay));
        raster.push(projected.iter().zip(&decay).map(|(w, d)| w * d).collect::<Vec<_>>());
    }
    Some(Proxy { routed: average(&routed), raster: average(&raster) })
}

/// `M[i, k]`, stored as compactly as the gain allows.
enum Contributions<'a> {
    /// `gain[k] * (W_c . t_i)`.
    Product { token: Vec<f64>, gain: &'a [f64] },
    /// Table `[N, P]` with a column for each class of positions that share a gain.
    Classes { table: Vec<f64>, classes: usize, class_of: &'a [usize] },
    /// `[N, N]`.
    Table { table: Vec<f64>, n: usize },
    /// Only the entries of a permutation, `M[order(k), k]` by position, `[N]`.
    AtOrder(Vec<f64>),
}

impl Contributions<'_> {
    fn at(&self, i: usize, k: usize) -> f64 {
        match self {
            Self::Product { token, gain } => token[i] * gain[k],
            Self::Classes { table, classes, class_of } => table[i * classes + class_of[k]],
            Self::Table { table, n } => table[i * n + k],
            Self::AtOrder(values) => values[k],
        }
    }
}

/// `M` of one sweep for the class with classifier row `row` `[F]`.
fn contributions<'a>(gain: &'a Gain, order: &Order, tokens: &Tokens, row: &[f32]) -> Contributions<'a> {
    let (n, d) = (tokens.grid.len(), tokens.width);
    match gain {
        Gain::Shared(gain) => Contributions::Product { token: projections(tokens, row), gain },
        Gain::Channel(gain) => {
            let weight: Vec<f64> = gain.chunks_exact(d).flat_map(|q| scale_channels(row, q)).collect(); // [N, d]
            let entry = |i: usize, k: usize| dot(tokens.patch(i), &weight[k * d..][..d]);
            match order {
                Order::Permutation(order) => {
                    Contributions::AtOrder(order.iter().enumerate().map(|(k, &i)| entry(i, k)).collect())
                }
                Order::Plan(_) => {
                    let pairs = (0..n).into_par_iter().flat_map_iter(|i| (0..n).map(move |k| (i, k)));
                    Contributions::Table { table: pairs.map(|(i, k)| entry(i, k)).collect(), n }
                }
            }
        }
        Gain::Mix { maps, class_of, .. } => {
            let rows: Vec<Vec<f64>> = maps
                .chunks_exact(row.len() * d)
                .map(|map| row_times_map(row, map)) // [d]
                .collect();
            let table = (0..n).flat_map(|i| rows.iter().map(move |v| dot(tokens.patch(i), v))).collect();
            Contributions::Classes { table, classes: rows.len(), class_of }
        }
    }
}

/// Elementwise product.
fn multiply(mut values: Vec<f64>, factors: &[f64]) -> Vec<f64> {
    values.iter_mut().zip(factors).for_each(|(x, factor)| *x *= factor);
    values
}

/// `W_c . t_i` of every token, `[N]`.
pub(super) fn projections(tokens: &Tokens, row: &[f32]) -> Vec<f64> {
    (0..tokens.grid.len()).map(|i| dot(tokens.patch(i), row)).collect()
}

/// `W_c` times a map `[F, G]`, `[G]`.
fn row_times_map(row: &[f32], map: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; map.len() / row.len()];
    for (&w, line) in row.iter().zip(map.chunks_exact(product.len())) {
        product.iter_mut().zip(line).for_each(|(v, m)| *v += f64::from(w) * m);
    }
    product
}

/// `W_c * gain`, channel by channel, `[d]`.
fn scale_channels(row: &[f32], gain: &[f64]) -> Vec<f64> {
    row.iter().zip(gain).map(|(&w, q)| f64::from(w) * q).collect()
}
