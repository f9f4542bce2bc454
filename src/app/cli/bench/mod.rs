//! `ssmprobe bench`: how fast this program is on this machine.

mod machine;
mod table;

use std::process::ExitCode;

use clap::Args;

/// Measures how fast the program is on this machine.
#[derive(Args)]
pub struct Bench {
    #[command(flatten)]
    machine: machine::Machine,
}

impl Bench {
    /// Measures and prints what came out.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.machine.run()
    }
}
