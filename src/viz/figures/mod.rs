//! One figure a file.

pub(crate) mod assignment;
pub mod curves;
pub mod dataset;
pub(crate) mod diagnostics;
pub(crate) mod evidence;
pub(crate) mod kernel;
pub(crate) mod photo;
pub mod plot;
pub(crate) mod predictions;
pub(crate) mod ranks;
pub(crate) mod scan_path;
pub(crate) mod scores;
pub mod stability;
pub(crate) mod sweep;
pub(crate) mod token_map;
