//! The wiring: command line, threads and window. The only folder that knows `model` and `viz`.
//!
//! Front ends send [`job::Request`]s to the [`worker`] and hear [`job::Event`]s. The window keeps a
//! [`state`], plain data: events and [`command`]s change it and may ask for more.

pub mod assets;
pub mod bench;
pub mod cli;
pub mod command;
pub mod course;
pub mod desk;
pub mod extract;
pub mod facts;
pub mod fault;
pub mod job;
mod listing;
mod look;
pub mod memory;
pub mod pace;
pub mod panel;
pub mod places;
pub mod report;
pub mod settings;
mod shell;
pub mod state;
pub mod text;
pub mod training;
mod window;
pub mod worker;
pub mod workspace;

pub use shell::{App, Engine};
