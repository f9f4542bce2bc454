//! The maths: from pixels to routing. No window, no threads of its own, no printing.
//!
//! Reading order: a backbone turns an image into [`tokens::Tokens`]; a [`probe::head`] reads them, most
//! often through a [`probe::router`] (in which order) and an S4 (what of them is remembered), and leaves a
//! [`probe::head_output::HeadOutput`]; [`explain`] works out what it means, and [`trace`] carries it to whoever
//! draws.

pub mod annotations;
pub mod attribution;
pub mod backbone;
pub mod data;
pub mod device;
pub mod explain;
pub mod grid;
pub mod hand_order;
pub mod io;
mod memo;
pub mod ops;
pub mod order_file;
pub mod pretrain;
pub mod probe;
pub mod reading;
pub mod regions;
pub mod stats;
pub mod tokens;
pub mod trace;
pub mod train;
