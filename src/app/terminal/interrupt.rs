//! Ctrl-C, and the system's asking to end (SIGTERM, SIGHUP). The first one asks the work to stop: it
//! finishes its step and saves. Work that does not come back, because it is held up by what it reads (a
//! pipe, a silent server), is not waited for longer than [`PATIENCE`], a step not longer than
//! [`LONGEST`]; a second signal ends the program at once, and so does the first where no work asks.
//! Whatever ends it removes the program's temporary files: what has its own name is whole, and goes on.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::stdout::say;
use crate::app::jobs::{Cancel, Working};
use crate::model::io::atomic_file;

/// Signals so far.
static ASKED: AtomicUsize = AtomicUsize::new(0);
/// Whether the work asks [`flow`].
static LISTENS: AtomicBool = AtomicBool::new(false);
/// What the first signal ends.
static CANCEL: LazyLock<Cancel> = LazyLock::new(Cancel::default);

/// How long work that is in no step may take to come back.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a step may.
const LONGEST: Duration = Duration::from_mins(1);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What shells expect of a program that Ctrl-C ended.
const CODE: u8 = 130;

/// Takes signals from now on; once, before anything is done.
pub fn install() -> anyhow::Result<()> {
    // A file that grows beyond what is allowed (`ulimit -f`) is an error of who writes it, not the end.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: no handler is installed, the signal is only ignored.
    #[expect(unsafe_code, reason = "a call of C that sets how a signal is taken")]
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    ctrlc::set_handler(signalled).context("Ctrl-C cannot be listened to")
}

/// From now on the work asks [`flow`] now and then. A verb may run others that listen, too.
pub fn listen() {
    LISTENS.store(true, SeqCst);
}

/// The flag of every job of this process.
pub fn cancel() -> &'static Cancel {
    &CANCEL
}

/// Begins a step that is worth waiting for.
pub fn working() -> Working {
    CANCEL.working()
}

/// On the thread that takes signals.
fn signalled() {
    if ASKED.fetch_add(1, SeqCst) > 0 || !LISTENS.load(SeqCst) {
        end();
    }
    CANCEL.cancel();
    match CANCEL.is_working() {
        false => say!("stopping; once more quits at once"),
        true => say!("stopping after this step, which is saved; once more quits at once"),
    }
    if Builder::new().name("stop".into()).spawn(wait).is_err() {
        end();
    }
}

/// Gives the work its time; it ends the program itself where it comes back.
fn wait() {
    let begun = Instant::now();
    let mut idle = Duration::ZERO;
    while idle < PATIENCE && begun.elapsed() < LONGEST {
        sleep(LOOK);
        idle = if CANCEL.is_working() { Duration::ZERO } else { idle + LOOK };
    }
    say!("stopped in the middle; what was done is kept, and the same command goes on from there");
    end()
}

fn end() -> ! {
    // Held to the end: no other file is begun.
    let _held = atomic_file::abandon();
    #[expect(clippy::disallowed_methods, reason = "no thread is waited for, and temporary files are gone")]
    std::process::exit(i32::from(CODE));
}

/// Whether the work should stop.
pub fn flow() -> ControlFlow<()> {
    if CANCEL.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// The exit code of work that was stopped.
pub fn code() -> ExitCode {
    ExitCode::from(CODE)
}
