//! `ssmprobe bench`: how fast this program is on this machine.

pub(super) mod demo;
mod machine;
pub mod microbench;
mod soak;
mod table;
mod window;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Measure how fast this machine is: heads, look-ups, backbones, the window.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    machine: machine::Machine,
}

/// What else is measured than the maths.
#[derive(Subcommand)]
enum What {
    Window(window::Window),
    Soak(soak::Soak),
}

impl Bench {
    /// Measures and prints what came out.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            Some(What::Window(verb)) => verb.run(),
            Some(What::Soak(verb)) => verb.run(),
            None => self.machine.run(),
        }
    }
}
