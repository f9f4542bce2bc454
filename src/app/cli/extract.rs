//! `ssmprobe extract`: takes the tokens of a dataset into the cache, so that trainings start at once.

use std::process::ExitCode;

use clap::Args;

use super::on::On;
use crate::app::jobs::extract::verb::{ExtractFlags, Told};
use crate::app::jobs::{Compute, Event};
use crate::app::terminal::interrupt;
use crate::app::terminal::stdout;
use crate::app::terminal::stdout::say;
use crate::model::backbone;

/// Run a frozen backbone once over a dataset and keep its tokens on disk, with --on on that of the other machine.
#[derive(Args)]
#[command(after_long_help = backbone::listed())]
pub struct Extract {
    #[command(flatten)]
    asked: ExtractFlags,
    #[command(flatten)]
    on: On,
    /// Print one JSON document to standard output.
    #[arg(long)]
    json: bool,
}

impl Extract {
    /// Takes what is missing.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        let json = self.json;
        let ended = self.on.perform(Compute::Extract(Box::new(self.asked)), &|event, bar| {
            bar.suspend(|| match event {
                Event::ExtractTold { told: Told::Note(text), .. } => {
                    say!("{text}");
                    Ok(())
                }
                Event::ExtractTold { told: Told::Done(document), .. } if json => stdout::line(document),
                _ => Ok(()),
            })
        })?;
        Ok(if ended { ExitCode::SUCCESS } else { interrupt::code() })
    }
}
