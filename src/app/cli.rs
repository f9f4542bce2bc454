//! The headless verbs, as a person types them.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Interactive diagnostics for order-sensitive probes on frozen vision backbones.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {}

/// Runs the program and returns its exit code: 0 done, 1 failed, 2 wrong usage.
pub fn main() -> ExitCode {
    let Cli { verb } = Cli::parse();
    match verb {}
}
