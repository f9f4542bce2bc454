//! The wiring: command line, threads and window. The only folder that knows `model` and `viz`.

pub mod assets;
pub mod cli;
pub mod extract;
pub mod pace;
pub mod training;
