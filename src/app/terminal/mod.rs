//! What verbs say on a terminal, and what a terminal says to them: results, errors, progress, Ctrl-C.

pub(super) mod error;
pub(super) mod interrupt;
pub(super) mod progress;
pub(super) mod reporter;
pub(super) mod stdout;
