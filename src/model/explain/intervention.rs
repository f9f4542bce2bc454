//! Interventions: a trained probe reads with one thing changed, without being trained again.
//!
//! The paper's ablation scrambles the learned order between router and S4. The others answer related
//! questions: what the same S4 makes of raster order, of a random order, of a sharper or blunter plan.
//! The window and [`ablation`](super::ablation) call the same function.
//!
//! With routed tokens `x[k] = sum_i P[i, k] t_i` and `pi` the [`permutation`] of (seed, image):
//! * scrambled: position `k` reads `x[pi(k)]`, of the plan as it is (a mixture of tokens) or hardened (one token, as where
//!   the paper permutes indices);
//! * hardened: every token is read whole at one position, chosen by the largest shares ([`harden`](super::harden));
//! * random: the tokens are permuted to `t_pi(k)` and read without a router, by a fixed scan or a recurrent
//!   head as it reads any image;
//! * only the last `r` tokens: what is read before position `N - r` is dropped, as if the state were still empty there;
//! * an order made by hand: position `k` reads `t_order(k)` in every sweep, whatever its own order.
//!
//! All sweeps of an image share one permutation.

use std::borrow::Cow;

use super::harden::harden;
use crate::model::grid::Grid;
use crate::model::probe::head_output::{Direction, Form, Gain, HeadOutput, Order, Plan, PlanRows};
use crate::model::probe::router::{Router, scan};
use crate::model::probe::{Meta, Probe, ProbeError};
pub use crate::model::reading::Intervention;
use crate::model::tokens::Tokens;

/// Why an intervention does not apply to a probe.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum InterventionError {
    /// The probe does not fit the tokens.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error("{head} has no reading order to change")]
    NoOrder { head: String },
    #[error("{head} has no {setting}")]
    NoSetting { head: String, setting: &'static str },
    #[error(
        "the {order} has {found} steps, but the image has {expected} tokens; list every token from 0 to \
         {last} exactly once",
        last = expected.saturating_sub(1)
    )]
    OrderLength { order: String, expected: usize, found: usize },
    #[error("the last {kept} tokens cannot be kept: the image has {tokens} tokens; keep at most {tokens}")]
    TooFewTokens { kept: usize, tokens: usize },
    /// The router rejects the changed setting.
    #[error("{0}")]
    Value(String),
}

/// Most numbers in the tokens on which [`Intervention::refused_by`] tries a reading: 1 GiB.
const MAX_TRIED: usize = 1 << 28;

impl Intervention {
    /// The probe with the changed setting, or `probe` itself if the intervention changes no setting.
    pub fn probe<'a>(&self, probe: &'a Probe) -> Result<Cow<'a, Probe>, InterventionError> {
        let (router, mut config) = (probe.head().router(), probe.meta.config.clone());
        match *self {
            Self::None
            | Self::Scrambled(_)
            | Self::ScrambledHard(_)
            | Self::Hardened
            | Self::NoRouting
            | Self::Random(_)
            | Self::Order(_)
            | Self::Last(_) => return Ok(Cow::Borrowed(probe)),
            Self::Temperature(_) if !router.is_some_and(Router::is_soft) => {
                return Err(lacks(probe, "temperature"));
            }
            Self::Temperature(temperature) => config.temperature = Some(temperature),
            Self::Iterations(_) if router.is_none_or(|router| router.settings().iterations.is_none()) => {
                return Err(lacks(probe, "iterations"));
            }
            Self::Iterations(iterations) => config.iterations = Some(iterations),
        }
        let kind = crate::model::probe::head::find(&probe.meta.head).expect("a probe has a head of the list");
        if let Err(error) = kind.build(&config) {
            return Err(InterventionError::Value(error.to_string()));
        }
        let meta = Meta { config, ..probe.meta.clone() };
        Ok(Cow::Owned(Probe::new(meta, probe.arrays.clone(), probe.classifier.clone())))
    }

    /// Refuses an order of another length than images of `n` tokens, and more last tokens than they have.
    pub fn fits(&self, n: usize) -> Result<(), InterventionError> {
        match self {
            Self::Order(order) if order.tokens().len() != n => {
                let (order, found) = (order.words(), order.tokens().len());
                Err(InterventionError::OrderLength { order, expected: n, found })
            }
            Self::Last(kept) if *kept > n => Err(InterventionError::TooFewTokens { kept: *kept, tokens: n }),
            _ => Ok(()),
        }
    }

    /// Why it cannot change how `probe` reads, whatever the image; `None` if it can.
    pub fn refused_by(&self, probe: &Probe) -> Option<InterventionError> {
        // What a head offers shows in its output on any tokens: here on a few equal ones, as many as an order needs.
        let n = match self {
            Self::Order(order) => order.tokens().len(),
            _ => probe.arrays.get("order").map_or(2, |order| order.data.len()),
        };
        let width = probe.meta.backbone.hidden_size;
        if n.saturating_mul(width) > MAX_TRIED {
            return None; // a file may claim any order: no image has these tokens, and reading one says so
        }
        let (cls, patches) = (Some(vec![0.0; width]), vec![0.0; n * width]);
        let tokens = Tokens { grid: Grid::new(1, n), width, cls, registers: Vec::new(), patches };
        let changed = self.probe(probe).and_then(|probe| {
            let output = probe.output(&tokens, 0)?;
            self.apply(&probe, &tokens, output, 0)
        });
        // Whether it fits the tokens depends on the image.
        changed.err().filter(|error| !matches!(error, InterventionError::Probe(_)))
    }

    /// Output of `probe` on a whole image under this intervention; `probe` must come from [`probe`](Self::probe). `image`,
    /// the image's index in its dataset, seeds the random orders of the head and of the intervention.
    pub fn read(&self, probe: &Probe, tokens: &Tokens, image: u64) -> Result<HeadOutput, InterventionError> {
        self.fits(tokens.grid.len())?;
        self.apply(probe, tokens, probe.output(tokens, image)?, image)
    }

    /// Changes the order in an undisturbed `output`; returns it as it is if the intervention does not change the order. An
    /// order must [fit](Self::fits) the tokens; if fewer are left than the last ones to be kept, all of them are kept.
    pub fn apply(
        &self,
        probe: &Probe,
        tokens: &Tokens,
        mut output: HeadOutput,
        image: u64,
    ) -> Result<HeadOutput, InterventionError> {
        let n = tokens.grid.len();
        let pi = match self {
            Self::None | Self::Temperature(_) | Self::Iterations(_) => return Ok(output),
            Self::Hardened | Self::NoRouting | Self::Last(_) => Vec::new(),
            Self::Scrambled(seed) | Self::ScrambledHard(seed) | Self::Random(seed) => {
                permutation(*seed, image, n)
            }
            Self::Order(order) => order.indices(),
        };
        match &mut output.form {
            Form::Scan(directions) => {
                let soft = |direction: &Direction| matches!(direction.order, Order::Plan(_));
                if matches!(self, Self::Hardened | Self::ScrambledHard(_)) && !directions.iter().any(soft) {
                    return Err(lacks(probe, "plan to harden"));
                }
                if let Self::Last(kept) = self {
                    let dropped = |direction: &mut Direction| drop_early(direction, n, *kept);
                    let what = "memory by position, of which early tokens could be dropped";
                    directions.iter_mut().try_for_each(dropped).ok_or_else(|| lacks(probe, what))?;
                }
                directions.iter_mut().for_each(|direction| self.reorder(direction, &pi));
            }
            Form::Opaque { .. }
                if matches!(self, Self::Random(_) | Self::Order(_)) && probe.head().is_recurrent() =>
            {
                return Ok(probe.output(&tokens.picked(&pi), image)?);
            }
            _ => return Err(InterventionError::NoOrder { head: probe.meta.head.clone() }),
        }
        Ok(output)
    }

    fn reorder(&self, direction: &mut Direction, pi: &[usize]) {
        let order = match (self, &direction.order) {
            (Self::NoRouting, Order::Plan(Plan { n, .. })) => (0..*n).collect(),
            (Self::NoRouting, Order::Permutation(order)) => (0..order.len()).collect(),
            (Self::Random(_), Order::Plan(_)) | (Self::Order(_), _) => pi.to_vec(),
            // The fixed scan, over permuted tokens.
            (Self::Random(_), Order::Permutation(order)) => order.iter().map(|&i| pi[i]).collect(),
            (Self::Scrambled(_) | Self::ScrambledHard(_), Order::Permutation(order)) => {
                pi.iter().map(|&k| order[k]).collect()
            }
            (Self::Scrambled(_) | Self::ScrambledHard(_) | Self::Hardened, Order::Plan(plan)) => {
                direction.order = Order::Plan(self.modified_plan(plan, pi));
                return;
            }
            (Self::None | Self::Hardened | Self::Last(_) | Self::Temperature(_) | Self::Iterations(_), _) => {
                return;
            }
        };
        direction.order = Order::Permutation(order);
    }

    /// The plan that is read in place of the router's own.
    fn modified_plan(&self, plan: &Plan, pi: &[usize]) -> Plan {
        match self {
            Self::Hardened => harden(plan),
            Self::ScrambledHard(_) => permute_positions(&harden(plan), pi),
            _ => permute_positions(plan, pi),
        }
    }

    /// The plan that is read if `router` is given these scores `[N]` of an image, by rows.
    pub(super) fn rows(&self, router: &dyn Router, scores: &[f64], image: u64) -> Box<dyn PlanRows> {
        if !self.modifies_plan() {
            return router.rows(scores);
        }
        let pi = match *self {
            Self::Scrambled(seed) | Self::ScrambledHard(seed) => permutation(seed, image, scores.len()),
            _ => Vec::new(),
        };
        Box::new(self.modified_plan(&router.plan(scores), &pi))
    }

    /// Whether the router's plan is read in a modified form.
    pub(super) fn modifies_plan(&self) -> bool {
        matches!(self, Self::Scrambled(_) | Self::ScrambledHard(_) | Self::Hardened)
    }

    /// The router of `probe`, if its plan is used at all.
    pub(super) fn router<'a>(&self, probe: &'a Probe) -> Option<&'a dyn Router> {
        let bypassed = matches!(self, Self::NoRouting | Self::Random(_) | Self::Order(_));
        probe.head().router().filter(|_| !bypassed)
    }
}

fn lacks(probe: &Probe, setting: &'static str) -> InterventionError {
    InterventionError::NoSetting { head: probe.meta.head.clone(), setting }
}

/// The permutation of an image under `seed`: token `pi[k]` is read at step `k`. All random orders at evaluation come from
/// here; `image` is the image's index in its dataset.
pub fn permutation(seed: u64, image: u64, n: usize) -> Vec<usize> {
    scan::random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(image), n)
}

/// The plan whose position `k` reads what position `pi[k]` of `plan` reads.
fn permute_positions(plan: &Plan, pi: &[usize]) -> Plan {
    let moved = (0..plan.n).flat_map(|i| pi.iter().map(move |&k| plan.row(i)[k]));
    Plan { n: plan.n, share: moved.collect() }
}

/// Sets the gain of all but the last `kept` of `n` positions to 0; `None` if the sweep has no kernel by position.
fn drop_early(direction: &mut Direction, n: usize, kept: usize) -> Option<()> {
    let Direction { gain: Gain::Shared(gain) | Gain::Channel(gain), kernel, radius: Some(_), .. } = direction
    else {
        return None;
    };
    let dropped = gain.len() / n * n.saturating_sub(kept);
    gain[..dropped].fill(0.0);
    // The kernel is indexed by steps before the end.
    let left = kernel.len().saturating_sub(dropped);
    kernel[left..].fill(0.0);
    Some(())
}
