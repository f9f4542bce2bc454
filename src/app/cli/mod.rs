//! The verbs, as a person types them: one file a verb, one line each in [`Verb`].
//!
//! A verb is a `clap::Args` struct whose `run` does it. Results go to standard output, everything
//! said about the work (progress, warnings, errors) to standard error.

mod cache;
mod dataset;
mod devices;
mod doctor;
mod eval;
mod extract;
mod fetch;
mod figures;
mod import;
mod inspect;
mod jobs;
mod on_flags;
mod open;
mod pretrain;
mod push;
mod remote;
mod report;
mod scenes;
mod serve;
mod similar;
mod sweep;
mod train;
mod train_remote;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::app::crash;
use crate::app::devtools::{self, demo};
use crate::app::paths;
use crate::app::process_memory;
use crate::app::terminal::stdout::say;
use crate::app::terminal::{error, interrupt};
use crate::app::window::native;
use crate::model::device;

/// Interactive diagnostics for order-sensitive probes on frozen vision backbones.
///
/// Without a command, opens the window: on the bundled demo at first, then where it was left. Where there is no display,
/// writes what the demo shows to `demo-results`.
#[derive(Parser)]
#[command(version, about, after_help = "`ssmprobe help COMMAND` says more.")]
pub(super) struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// What the program can be asked to do, in the order of a day's work.
#[derive(Subcommand)]
enum Verb {
    Open(open::Open),
    Inspect(Box<inspect::Inspect>),
    Figures(Box<figures::Figures>),
    Dataset(dataset::DatasetVerb),
    Import(import::Import),
    Pretrain(Box<pretrain::Pretrain>),
    Extract(Box<extract::Extract>),
    Train(Box<train::Train>),
    Eval(Box<eval::Eval>),
    Sweep(Box<sweep::Sweep>),
    Jobs(jobs::Jobs),
    Report(report::Report),
    Push(push::Push),
    Similar(similar::Similar),
    Scenes(scenes::Scenes),
    Demo(demo::Demo),
    Cache(cache::Cache),
    Devices(devices::Devices),
    Doctor(doctor::Doctor),
    Serve(serve::Serve),
    Remote(remote::RemoteVerb),
    Bench(Box<devtools::Bench>),
}

impl Cli {
    /// Does what was asked; with no verb, opens the window, or writes the demo's results where there is no display.
    pub(in crate::app) fn run(self) -> anyhow::Result<ExitCode> {
        match self.verb {
            Some(verb) => verb.run(),
            None if native::has_display() => open::Open::default().run(),
            None => {
                say!("there is no display: writing what the bundled demo shows to demo-results");
                run(["ssmprobe", "demo", "results", "--out", "demo-results"])
            }
        }
    }
}

impl Verb {
    /// Does it. The exit code is the verb's own where it ran to its end; an error means failed.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Open(verb) => verb.run(),
            Self::Inspect(verb) => verb.run(),
            Self::Figures(verb) => verb.run(),
            Self::Dataset(verb) => verb.run(),
            Self::Import(verb) => verb.run(),
            Self::Pretrain(verb) => verb.run(),
            Self::Extract(verb) => verb.run(),
            Self::Train(verb) => verb.run(),
            Self::Eval(verb) => verb.run(),
            Self::Sweep(verb) => verb.run(),
            Self::Jobs(verb) => verb.run(),
            Self::Report(verb) => verb.run(),
            Self::Push(verb) => verb.run(),
            Self::Similar(verb) => verb.run(),
            Self::Scenes(verb) => verb.run(),
            Self::Demo(verb) => verb.run(run::<String>),
            Self::Cache(verb) => verb.run(),
            Self::Devices(verb) => verb.run(),
            Self::Doctor(verb) => verb.run(),
            Self::Serve(verb) => verb.run(),
            Self::Remote(verb) => verb.run(),
            Self::Bench(verb) => verb.run(),
        }
    }
}

/// The command line as clap has it, for man pages and completions (`examples/manual.rs`).
pub fn command() -> clap::Command {
    Cli::command()
}

/// Does in this process what the command line `arguments` asks, the program's own name first.
///
/// # Errors
/// If it is wrongly used, or failed.
pub fn run<T: Into<OsString> + Clone>(arguments: impl IntoIterator<Item = T>) -> anyhow::Result<ExitCode> {
    Cli::try_parse_from(arguments)?.run()
}

/// Runs the program and returns its exit code: 0 done, 1 failed, 2 wrong usage.
pub fn main() -> ExitCode {
    // SAFETY: nothing has started a thread yet.
    #[expect(unsafe_code, reason = "the first thing the program does")]
    unsafe {
        device::quiet_drivers();
    }
    process_memory::keep_freed();
    device::keep_kernels(paths::kernels().as_deref());
    crash::install(crash::folder());
    let parsed = Cli::parse();
    match interrupt::install().and_then(|()| parsed.run()) {
        Ok(code) => code,
        Err(error) => error::report(&error),
    }
}
