//! The headless verbs, as a person types them: one file a verb, one line each in [`Verb`].
//!
//! A verb is a `clap::Args` struct whose `run` does it. Results go to standard output, everything
//! said about the work (progress, warnings, errors) to standard error.

mod demo;
mod devices;
mod fault;
mod fetch;
mod figures;
mod inspect;
mod scenes;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Interactive diagnostics for order-sensitive probes on frozen vision backbones.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// What the program can be asked to do.
#[derive(Subcommand)]
enum Verb {
    Demo(demo::Demo),
    Devices(devices::Devices),
    Figures(figures::Figures),
    Inspect(inspect::Inspect),
    Scenes(scenes::Scenes),
}

impl Verb {
    /// Does it. The exit code is the verb's own where it ran to its end; an error means failed.
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Demo(verb) => verb.run(),
            Self::Devices(verb) => verb.run(),
            Self::Figures(verb) => verb.run(),
            Self::Inspect(verb) => verb.run(),
            Self::Scenes(verb) => verb.run(),
        }
    }
}

/// Runs the program and returns its exit code: 0 done, 1 failed, 2 wrong usage.
pub fn main() -> ExitCode {
    match Cli::parse().verb.run() {
        Ok(code) => code,
        Err(error) => fault::report(&error),
    }
}
