//! The maths: from pixels to routing. No window, no threads of its own, no printing.
//!
//! Reading order: a backbone turns an image into [`tokens::Tokens`]; a [`head`] reads them, most
//! often through a [`router`] (who comes late) and an S4 (what is remembered), and leaves a
//! [`reading::Reading`]; [`explain`] works out what it means, and [`trace`] carries it to whoever
//! draws.

pub mod ablation;
pub mod anchors;
pub mod array;
pub mod backbone;
pub mod cells;
pub mod classifier;
pub mod data;
pub mod device;
pub mod diagnostics;
pub mod digest;
pub mod evaluation;
pub mod evidence;
pub mod explain;
pub mod features;
pub mod grid;
pub mod guard;
pub mod head;
pub mod image;
#[doc(hidden)]
pub mod inject;
pub mod intervention;
pub mod npz;
pub mod null;
pub mod optim;
pub mod params;
pub mod pooling;
pub mod preprocess;
pub mod pretrain;
pub mod probe;
mod product;
pub mod reading;
pub mod readout;
pub mod router;
pub mod run;
pub mod s4;
pub mod scenes;
pub mod settings;
pub mod shown;
pub mod stability;
pub mod stats;
pub mod survey;
pub mod tokens;
pub mod trace;
pub mod train;
pub mod truth;
pub mod vectorise;
pub mod whole;
