//! # SSMProbe: which patch tokens does a probe read last?
//!
//! A probe with a memory (an S4 state space model) reads the frozen patch tokens of a vision
//! backbone in some order and classifies from its last state. This crate computes, explains and
//! draws that order. Its three modules:
//!
//! * [`model`] is the maths: backbones, routers, S4, heads, diagnostics, evidence. It has no window and
//!   prints nothing. Its result is a [`model::trace::Trace`]: plain host data.
//! * [`viz`] draws a trace. It uses no tensors; only [`viz::export`] writes files.
//! * [`app`] is the wiring: command line, threads, window. It alone depends on the other two.
//!
//! ARCHITECTURE.md gives the reasons. The plan that a router computes from four scores:
//!
//! ```
//! use ssmprobe::model::explain::diagnostics::{MEASURES, PlanStats};
//! use ssmprobe::model::grid::Grid;
//! use ssmprobe::model::probe::router::{Router, sinkhorn::Sinkhorn, standardise};
//! use ssmprobe::model::stats::argsort;
//!
//! let scores = standardise(&[0.2, 3.0, 1.1, 2.4]);
//! let plan = Sinkhorn::default().plan(&scores); // temperature 0.1, 20 iterations
//! let stats = PlanStats::from_plan(&plan, Grid::new(2, 2)); // for tokens on a 2 x 2 grid
//! assert_eq!(argsort(stats.expected()), [0, 2, 3, 1], "a high score goes late, where the memory keeps it");
//!
//! // Its diagnostics: every rank is the best of some token.
//! let coverage = MEASURES.iter().position(|measure| measure.name == "rank_coverage").unwrap();
//! assert_eq!(stats.measures()[coverage], 1.0);
//! ```

#![warn(clippy::print_stdout)] // results go through `app::terminal::stdout`, which survives `| head`

#[macro_use]
mod listed;

pub mod app;
pub mod model;
pub mod viz;

// Helpers that unit tests share with tests/suite.
#[cfg(test)]
#[path = "../tests/suite/close.rs"]
mod close;
#[cfg(test)]
#[path = "../tests/suite/gpus.rs"]
mod gpus;
#[cfg(test)]
#[path = "../tests/suite/skip.rs"]
mod skip;
#[cfg(test)]
extern crate self as ssmprobe;
