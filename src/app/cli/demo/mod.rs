//! `ssmprobe demo`: the bundled demo, made by the program itself, and what it shows.

mod results;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::app::devtools::demo::Build;

/// Build the bundled demo, or write its results to a folder
#[derive(Args)]
pub struct Demo {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Build(Build),
    Results(results::Results),
}

impl Demo {
    /// Builds the demo, or writes its results.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            What::Build(build) => build.run(),
            What::Results(results) => results.run(),
        }
    }
}
