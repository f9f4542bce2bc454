//! The maths: from pixels to routing. No window, no threads of its own, no printing.
//!
//! Reading order: a backbone turns an image into [`tokens::Tokens`]; a [`head`] reads them, most
//! often through a [`router`] (who comes late) and an S4 (what is remembered), and leaves a
//! [`head_output::Reading`]; [`explain`] works out what it means, and [`trace`] carries it to whoever
//! draws.

pub mod backbone;
pub mod data;
pub mod device;
pub mod explain;
pub mod grid;
pub mod io;
pub mod ops;
pub mod pretrain;
pub mod probe;
pub mod stats;
pub mod tokens;
pub mod trace;
pub mod train;
