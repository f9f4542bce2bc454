//! What an order was worth: one trained probe read again with its order disturbed (paper,
//! Observation 3). Nothing is trained anew, so a drop says what this probe leans on, not what a probe
//! trained without the order could do.
//!
//! With routed tokens `x[k] = sum_i P[i, k] t_i` and what position `k` counts, `gain[k]`:
//! * scrambled after routing: `sum_k gain[k] x[pi(k)]`, which is the same plan behind the gain
//!   permuted the other way, `gain'[pi(k)] = gain[k]`: no token is moved, nothing is approximated;
//! * no routing: the tokens in raster order; * random order: `sum_k gain[k] t_pi(k)`.
//!
//! `pi` is drawn for every image from (seed, image). Logits `[C]` are exact, in float64.

use serde::{Deserialize, Serialize};

use super::probe::{Probe, ProbeError};
use super::reading::{Form, Gain, Order, Reading};
use super::readout;
use super::router::scan;
use super::tokens::Tokens;

/// One way of reading a trained probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ablation {
    /// As it was trained.
    Normal,
    /// A random permutation of positions behind the router and before the S4.
    Scrambled,
    /// The S4 on the tokens as they lie, row by row.
    NoRouting,
    /// The S4 on the tokens in random order.
    RandomOrder,
}

impl Ablation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Scrambled, Self::NoRouting, Self::RandomOrder];

    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Scrambled => "Scrambled after routing",
            Self::NoRouting => "No routing (raster)",
            Self::RandomOrder => "Random order",
        }
    }

    /// What can be asked of a probe, [`Normal`](Self::Normal) first: heads with a learned order have
    /// all of it, those with a fixed one can be read in a random one, and those that read tokens as
    /// a set have nothing to disturb.
    pub fn of(probe: &Probe) -> &'static [Self] {
        match probe.meta.head.as_str() {
            _ if probe.head().router().is_some() => &Self::ALL,
            "raster" | "vmamba" | "snake" | "diagonal" | "hilbert" | "spiral" | "random-fixed" | "bi-gru" => {
                &[Self::Normal, Self::RandomOrder]
            }
            _ => &[Self::Normal],
        }
    }
}

/// The permutation of `image` under `seed`: `pi[k]` is what is read at step `k`.
pub fn permutation(seed: u64, image: u64, n: usize) -> Vec<usize> {
    scan::random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(image), n)
}

/// The logits of one image in every way of [`Ablation::of`], in that order. `reading`: how the probe
/// reads it undisturbed; `image` seeds the permutation, and the orders that the head itself draws.
pub fn logits(
    probe: &Probe,
    tokens: &Tokens,
    mut reading: Reading,
    seed: u64,
    image: u64,
) -> Result<Vec<(Ablation, Vec<f64>)>, ProbeError> {
    let pi = permutation(seed, image, tokens.grid.len());
    let classify = |reading: &Reading, tokens: &Tokens| {
        readout::logits(reading, tokens, &probe.classifier.weight, &probe.classifier.bias)
    };
    let mut found = Vec::new();
    for &ablation in Ablation::of(probe) {
        let values = match ablation {
            Ablation::Normal => classify(&reading, tokens),
            Ablation::Scrambled => {
                let mut back = vec![0; pi.len()];
                pi.iter().enumerate().for_each(|(k, &p)| back[p] = k);
                gains(&mut reading, &back);
                let values = classify(&reading, tokens);
                gains(&mut reading, &pi); // as it was
                values
            }
            Ablation::NoRouting => {
                reorder(&mut reading, |_| (0..pi.len()).collect());
                classify(&reading, tokens)
            }
            Ablation::RandomOrder if matches!(reading.form, Form::Opaque { .. }) => {
                let moved = moved(tokens, &pi);
                classify(&probe.reading(&moved, image)?, &moved)
            }
            Ablation::RandomOrder => {
                reorder(&mut reading, |order| match order {
                    // A sweep of its own over tokens that lie in random order.
                    Order::Permutation(order) => order.iter().map(|&i| pi[i]).collect(),
                    Order::Plan(_) => pi.clone(),
                });
                classify(&reading, tokens)
            }
        };
        found.push((ablation, values));
    }
    Ok(found)
}

/// Lets position `k` count what position `from[k]` counted.
fn gains(reading: &mut Reading, from: &[usize]) {
    let Form::Scan(directions) = &mut reading.form else { return };
    for direction in directions {
        match &mut direction.gain {
            Gain::Shared(gain) => *gain = from.iter().map(|&k| gain[k]).collect(),
            Gain::Channel(gain) => {
                let d = gain.len() / from.len().max(1);
                *gain = from.iter().flat_map(|&k| gain[k * d..][..d].iter().copied()).collect();
            }
            Gain::Mix { class_of, .. } => *class_of = from.iter().map(|&k| class_of[k]).collect(),
        }
    }
}

/// Replaces the order of every sweep by a permutation.
fn reorder(reading: &mut Reading, order: impl Fn(&Order) -> Vec<usize>) {
    let Form::Scan(directions) = &mut reading.form else { return };
    for direction in directions {
        direction.order = Order::Permutation(order(&direction.order));
    }
}

/// The tokens with `pi[k]` at place `k`.
fn moved(tokens: &Tokens, pi: &[usize]) -> Tokens {
    let patches = pi.iter().flat_map(|&i| tokens.patch(i).iter().copied()).collect();
    Tokens { patches, ..tokens.clone() }
}
