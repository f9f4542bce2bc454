//! # SSMProbe: which patch tokens does a probe read last?
//!
//! A probe with a memory (an S4 state space model) reads the frozen patch tokens of a vision
//! backbone in some order and classifies from its last state. This crate computes, explains and
//! draws that order. The map of the house:
//!
//! * [`model`] is the maths: backbones, routers, S4, heads, diagnostics, evidence. It knows no
//!   window and prints nothing. Its result is a [`model::trace::Trace`]: plain host data.
//! * [`viz`] draws a trace. It knows neither tensors nor files.
//! * [`app`] is the wiring: command line, threads, window. The only folder that knows the others.
//!
//! ARCHITECTURE.md says why.

#![warn(clippy::print_stdout)] // results go through `app::cli::out`, which survives `| head`

pub mod app;
pub mod model;
pub mod viz;
