//! The maths: from pixels to routing. It has no window, spawns no threads of its own and prints nothing.
//!
//! Where to begin: a backbone turns an image into [`tokens::Tokens`]; a [`probe::head`] reads them, usually
//! through a [`probe::router`], which orders them, and an S4, which remembers them, and returns a
//! [`probe::head_output::HeadOutput`]; [`explain`] derives evidence and diagnostics from it, and [`trace`] holds
//! the results for the figures.

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
pub mod picture;
pub mod pretrain;
pub mod probe;
pub mod reading;
pub mod regions;
pub mod stats;
pub mod tokens;
pub mod trace;
pub mod train;
