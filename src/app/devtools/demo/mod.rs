//! `ssmprobe demo`: the bundled demo, made by the program itself, and what it shows.

mod backbones;
mod build;
mod heads;
mod results;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Build the bundled demo, or write its results to a folder
#[derive(Args)]
pub struct Demo {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Build(build::Build),
    Results(results::Results),
}

impl Demo {
    /// Runs the verb; `program` executes the command lines that make results.
    pub fn run(self, program: results::Program) -> anyhow::Result<ExitCode> {
        match self.what {
            What::Build(build) => build.run(),
            What::Results(results) => results.run(program),
        }
    }
}
