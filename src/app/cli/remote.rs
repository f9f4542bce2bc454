//! `ssmprobe remote`: installs this program on other machines.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, Subcommand};

use crate::app::jobs::{Progress, Unit};
use crate::app::remote::{INSTALLED, WorkerAddress, install};
use crate::app::terminal::progress::Display;
use crate::app::terminal::stdout;
use crate::app::user_error::Usage;

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
        let (mut display, begun) = (Display::new(), Instant::now());
        let installed = install(&place, &mut |done, total| {
            let (what, total, elapsed) = (format!("Copying to {place}"), Some(total), begun.elapsed());
            display.count(&Progress { what, done, total, unit: Unit::Bytes, elapsed, left: None });
        });
        display.clear();
        stdout::line(format_args!("{} is installed on {place} as {INSTALLED}", installed?))?;
        Ok(ExitCode::SUCCESS)
    }
}
