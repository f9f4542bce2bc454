//! Ctrl-C and the signals that ask a process to end (SIGTERM, SIGHUP). The first one asks the work to stop: it finishes
//! its step and saves. Work that does not return because it is blocked (by a pipe, a silent server) is waited for no
//! longer than [`TIMEOUT`], a step no longer than [`MAX_STEP`]. A second signal ends the program at once, and so does the
//! first one if the verb never checks [`flow`]. Every such end removes the program's temporary files: files with their
//! final names are complete, and work resumes from them. Started by `nohup`, the program ignores SIGHUP.

use std::io;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::stdout::say;
use crate::app::jobs::{Cancel, Working};
use crate::model::io::temporary;

static SIGNALS: AtomicUsize = AtomicUsize::new(0);
/// Whether the work checks [`flow`].
static LISTENING: AtomicBool = AtomicBool::new(false);
/// The flag of every job of this process, which the first signal sets.
static CANCEL: LazyLock<Cancel> = LazyLock::new(Cancel::default);

/// How long work that is in no step may take to return.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a step may take.
const MAX_STEP: Duration = Duration::from_mins(1);
/// Time between two checks of whether a step is under way.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long the program waits for a message to be written: perhaps nobody reads standard error.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);
/// Time between two checks for a signal while [`pause`] waits.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The exit code after Ctrl-C by the convention of shells: 128 + SIGINT.
const CODE: u8 = 130;

/// Installs the signal handlers; an error if that fails. To be called once, before anything else.
pub fn install() -> anyhow::Result<()> {
    // A write beyond the file size limit (`ulimit -f`) is then an error of that write, and does not end the process.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    ignore(libc::SIGXFSZ);
    #[cfg(unix)]
    let by_nohup = ignore(libc::SIGHUP) == libc::SIG_IGN;
    ctrlc::set_handler(signalled).context("cannot listen for Ctrl-C")?;
    #[cfg(unix)]
    if by_nohup {
        ignore(libc::SIGHUP);
    }
    Ok(())
}

/// Takes the end of standard input for a signal; an error if it cannot be waited for.
pub fn at_end_of_input() -> anyhow::Result<()> {
    let wait = || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink()); // an input that fails has ended, too
        signalled();
    };
    Builder::new().name("input".into()).spawn(wait).context("cannot wait for the end of the input")?;
    Ok(())
}

/// Ignores a signal; returns how it was taken before.
#[cfg(unix)]
fn ignore(signal: libc::c_int) -> libc::sighandler_t {
    // SAFETY: no handler is installed, the signal is only ignored.
    #[expect(unsafe_code, reason = "a call of C that sets how a signal is taken")]
    unsafe {
        libc::signal(signal, libc::SIG_IGN)
    }
}

/// Declares that the work checks [`flow`] regularly. May be called several times, as one verb may run another.
pub fn listen() {
    LISTENING.store(true, SeqCst);
}

/// The flag of every job of this process.
pub fn cancel() -> &'static Cancel {
    &CANCEL
}

/// Begins a step that is waited for up to [`MAX_STEP`]; dropping the guard ends it.
pub fn working() -> Working {
    CANCEL.working()
}

/// Handles a signal, on the thread of the signal handler; or the end of the input.
fn signalled() {
    if SIGNALS.fetch_add(1, SeqCst) > 0 || !LISTENING.load(SeqCst) {
        end();
    }
    CANCEL.cancel();
    tell(match CANCEL.is_working() {
        false => "stopping; interrupt again to quit at once",
        true => "stopping after this step, to save what can be saved; interrupt again to quit at once",
    });
    if Builder::new().name("stop".into()).spawn(wait).is_err() {
        end();
    }
}

/// Ends the program after the work had its time. Work that returns earlier ends the program itself.
fn wait() {
    let begun = Instant::now();
    let mut idle = Duration::ZERO;
    while idle < TIMEOUT && begun.elapsed() < MAX_STEP {
        sleep(POLL_INTERVAL);
        idle = if CANCEL.is_working() { Duration::ZERO } else { idle + POLL_INTERVAL };
    }
    tell("stopped midway; what was saved before is kept, and commands that can resume continue from there");
    end()
}

/// Prints a message, without waiting long for somebody to read it.
fn tell(text: &'static str) {
    in_time(WRITE_TIMEOUT, move || say!("{text}"));
}

/// Does something on another thread, and waits for it no longer than this.
fn in_time(timeout: Duration, work: impl FnOnce() + Send + 'static) {
    let thread = Builder::new().name("ending".into()).spawn(work);
    let begun = Instant::now();
    while thread.as_ref().is_ok_and(|thread| !thread.is_finished()) && begun.elapsed() < timeout {
        sleep(Duration::from_millis(1));
    }
}

/// Removes temporary files and ends the process, whatever its threads do.
pub fn end() -> ! {
    end_with(CODE)
}

/// [`end`] with another exit code.
pub fn end_with(code: u8) -> ! {
    #[expect(clippy::disallowed_methods, reason = "no thread is waited for, and temporary files are gone")]
    fn exit(code: u8) -> ! {
        std::process::exit(i32::from(code))
    }
    // The lock is held until the process ends, at once, so that no other temporary file is begun. The wait is bounded: a network
    // disk may not answer.
    in_time(TIMEOUT, move || {
        let _held = temporary::abandon();
        exit(code);
    });
    exit(code)
}

/// Whether the work should continue or stop.
pub fn flow() -> ControlFlow<()> {
    CANCEL.flow()
}

/// Waits for `time`; breaks as soon as the work should stop.
pub fn pause(time: Duration) -> ControlFlow<()> {
    let begun = Instant::now();
    while begun.elapsed() < time {
        flow()?;
        sleep(SIGNAL_INTERVAL);
    }
    ControlFlow::Continue(())
}

/// The exit code of work that was stopped.
pub fn code() -> ExitCode {
    ExitCode::from(CODE)
}
