//! Ctrl-C: the first asks the work to finish its step and save, the second ends the program at once.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;

static ASKED: AtomicUsize = AtomicUsize::new(0);
static LISTENS: AtomicBool = AtomicBool::new(false);

/// What shells expect of a program that Ctrl-C ended.
const CODE: u8 = 130;

/// Listens to Ctrl-C and to the system's asking to end (SIGTERM, SIGHUP) from now on. A verb may run
/// others that listen too.
pub fn listen() -> anyhow::Result<()> {
    if LISTENS.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    ctrlc::set_handler(|| {
        if ASKED.fetch_add(1, Ordering::Relaxed) == 0 {
            eprintln!("stopping after this step, which is saved; once more quits at once");
        } else {
            #[expect(clippy::disallowed_methods, reason = "asked twice: at once, files are whole or absent")]
            std::process::exit(i32::from(CODE));
        }
    })
    .context("Ctrl-C cannot be listened to")
}

/// Whether the work should stop.
pub fn flow() -> ControlFlow<()> {
    match ASKED.load(Ordering::Relaxed) {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    }
}

/// The exit code of work that was stopped.
pub fn code() -> ExitCode {
    ExitCode::from(CODE)
}
