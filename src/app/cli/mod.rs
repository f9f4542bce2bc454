//! The headless verbs, as a person types them: one file a verb, one line each in [`Verb`].
//!
//! A verb is a `clap::Args` struct whose `run` does it. Results go to standard output, everything
//! said about the work (progress, warnings, errors) to standard error.

mod devices;
mod figures;

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
    Devices(devices::Devices),
    Figures(figures::Figures),
}

impl Verb {
    /// Does it. The exit code is the verb's own where it ran to its end; an error means failed.
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Devices(verb) => verb.run(),
            Self::Figures(verb) => verb.run(),
        }
    }
}

/// Runs the program and returns its exit code: 0 done, 1 failed, 2 wrong usage.
pub fn main() -> ExitCode {
    match Cli::parse().verb.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ssmprobe: {error:#}");
            ExitCode::FAILURE
        }
    }
}
