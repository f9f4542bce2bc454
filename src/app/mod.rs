//! The wiring: command line, threads and window. The only folder that knows `model` and `viz`.
//!
//! Front ends send [`jobs::Request`]s to the [`worker`] and receive [`jobs::Event`]s. The window keeps its [`state`] as plain
//! data: events and commands ([`state::command`]) change it and may result in further requests.

mod anonymous;
mod child_process;
pub mod cli;
pub mod crash;
pub mod demo;
mod devtools;
pub mod format;
mod image_files;
pub mod jobs;
pub mod log;
mod paths;
pub mod process_memory;
pub mod processor_time;
mod rate;
pub mod remote;
pub mod report;
mod session;
pub mod state;
pub mod submit;
mod terminal;
mod value_parser;
pub mod window;
pub mod worker;

pub use window::App;
