//! `ssmprobe remote`: installs this program on other machines.

use clap::Subcommand;

use crate::app::cli::prelude::*;
use crate::app::jobs::{Clock, Unit};
use crate::app::remote::{INSTALLED, WorkerAddress, install};

/// Install this program on another machine over ssh.
#[derive(Args)]
pub struct RemoteVerb {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Copy this executable to ~/.local/bin on a machine of the same kind.
    Install {
        /// Machine to install on: HOST, or `ssh://[USER@]HOST[:PORT]`.
        host: String,
    },
}

impl RemoteVerb {
    /// Installs the program, and prints its version and path.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Action::Install { host } = self.action;
        let text = if host.starts_with("ssh://") { host } else { format!("ssh://{host}") };
        let place: WorkerAddress = text.parse().map_err(|why| Usage(format!("{text}: {why}")))?;
        let (mut display, clock) = (Display::new(), Clock::start(0));
        let installed = install(&place, &mut |done, total| {
            display.count(&clock.progress(&format!("Copying to {place}"), done, Some(total), Unit::Bytes));
        });
        display.clear();
        stdout::line(format_args!("{} is installed on {place} as {INSTALLED}", installed?))?;
        Ok(ExitCode::SUCCESS)
    }
}
