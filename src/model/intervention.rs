//! What if: a trained probe reads with one thing changed, without being trained again.
//!
//! The paper's ablation scrambles the learned order between router and S4; the others answer the
//! questions beside it: what the same memory makes of raster order, of a random order, of a sharper
//! or blunter plan.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::probe::Probe;
use super::reading::{Direction, Form, Order, Plan, Reading};
use super::router::scan;

/// What is changed in how a probe reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intervention {
    /// Nothing.
    #[default]
    None,
    /// The positions of the learned order are permuted before the S4, by this seed: the paper's
    /// "scramble after routing".
    Scrambled(u64),
    /// The tokens are read row by row.
    NoRouting,
    /// The tokens are read in a random order, by this seed.
    Random(u64),
    /// The router has another temperature.
    Temperature(f64),
    /// The router makes another number of iterations.
    Iterations(usize),
}

/// Why a probe cannot be read so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterventionError {
    /// There is no order to change.
    #[error("{head} reads no order that could be changed")]
    NoOrder {
        /// The head's id.
        head: String,
    },
    /// There is no such setting.
    #[error("{head} has no {setting}")]
    NoSetting {
        /// The head's id.
        head: String,
        /// The setting.
        setting: &'static str,
    },
    /// The router refuses the value.
    #[error("{0}")]
    Value(String),
}

/// Most iterations asked of a router: more take seconds and change nothing.
const MOST_ITERATIONS: usize = 10_000;

impl Intervention {
    /// It in a few words, as it stands over a column; empty for none.
    pub fn text(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Scrambled(_) => "scrambled".into(),
            Self::NoRouting => "no routing".into(),
            Self::Random(_) => "random order".into(),
            Self::Temperature(temperature) => format!("temperature {temperature}"),
            Self::Iterations(iterations) => format!("{iterations} iterations"),
        }
    }

    /// The probe with changed settings, where settings are what is changed.
    pub fn probe(self, probe: &Probe) -> Result<Cow<'_, Probe>, InterventionError> {
        let head = probe.meta.head.clone();
        let mut meta = probe.meta.clone();
        match self {
            Self::None | Self::Scrambled(_) | Self::NoRouting | Self::Random(_) => {
                return Ok(Cow::Borrowed(probe));
            }
            Self::Temperature(temperature) => {
                if !["sinkhorn", "neuralsort", "softsort", "gumbel-sinkhorn", "sinkhorn-conv", "sinkhorn-gap"]
                    .contains(&head.as_str())
                {
                    return Err(InterventionError::NoSetting { head, setting: "temperature" });
                }
                if !(temperature.is_finite() && temperature > 0.0) {
                    let found = format!("temperature {temperature}: expected a number above 0");
                    return Err(InterventionError::Value(found));
                }
                meta.config.temperature = Some(temperature);
            }
            Self::Iterations(iterations) => {
                if !head.contains("sinkhorn") {
                    return Err(InterventionError::NoSetting { head, setting: "iterations" });
                }
                if iterations > MOST_ITERATIONS {
                    let found = format!("{iterations} iterations: expected at most {MOST_ITERATIONS}");
                    return Err(InterventionError::Value(found));
                }
                meta.config.iterations = Some(iterations);
            }
        }
        let kind = super::head::find(&head).expect("a probe has a head of the list");
        if let Err(error) = (kind.build)(&meta.config) {
            return Err(InterventionError::Value(error.to_string()));
        }
        Ok(Cow::Owned(Probe::new(meta, probe.arrays.clone(), probe.classifier.clone())))
    }

    /// A reading with its order changed, where the order is what is changed.
    pub fn reading(self, head: &str, mut reading: Reading) -> Result<Reading, InterventionError> {
        if matches!(self, Self::None | Self::Temperature(_) | Self::Iterations(_)) {
            return Ok(reading);
        }
        let Form::Scan(directions) = &mut reading.form else {
            return Err(InterventionError::NoOrder { head: head.to_owned() });
        };
        for (seed, direction) in (0..).zip(directions) {
            self.reorder(direction, seed);
        }
        Ok(reading)
    }

    fn reorder(self, direction: &mut Direction, sweep: u64) {
        let n = match &direction.order {
            Order::Plan(plan) => plan.n,
            Order::Permutation(order) => order.len(),
        };
        direction.order = match (self, &direction.order) {
            (Self::NoRouting, _) => Order::Permutation((0..n).collect()),
            (Self::Random(seed), _) => Order::Permutation(scan::random(seed.wrapping_add(sweep), n)),
            (Self::Scrambled(seed), order) => {
                // What stood at position `from[k]` comes at step k.
                let from = scan::random(seed.wrapping_add(sweep), n);
                match order {
                    Order::Permutation(order) => Order::Permutation(from.iter().map(|&k| order[k]).collect()),
                    Order::Plan(plan) => {
                        let moved = (0..n).flat_map(|i| from.iter().map(move |&k| plan.row(i)[k]));
                        Order::Plan(Plan { n, share: moved.collect() })
                    }
                }
            }
            (_, order) => order.clone(),
        };
    }

    /// Whether the router's own plan is no longer what is read.
    pub fn unroutes(self) -> bool {
        matches!(self, Self::NoRouting | Self::Random(_))
    }
}
