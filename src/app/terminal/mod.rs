//! The terminal of the command line: results, errors, progress and Ctrl-C.

pub(super) mod error;
pub(super) mod interrupt;
pub(super) mod progress;
pub(super) mod reporter;
pub(super) mod stdout;
