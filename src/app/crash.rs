//! Crash reports: a panic leaves a file with its message, location and backtrace and the last lines of the [`log`], without
//! the user's name, folders and tokens. Panics of other crates that [`catch_panic::catch_foreign`] turns
//! into the error of a file or a device leave none.

use std::backtrace::Backtrace;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use super::anonymous::anonymous;
use super::jobs::user_error;
use super::terminal::interrupt;
use super::terminal::stdout::say;
use super::{log, paths};
use crate::model::io::{atomic_file, catch_panic};

/// Most reports of one process: a panic may come again with every frame.
const MAX_PER_PROCESS: usize = 5;
/// Most reports in the folder; the oldest are deleted.
const MAX_REPORTS: usize = 20;
const PREFIX: &str = "crash-";

/// What messages contain if this process can no longer use a GPU: wgpu's own words, which burn passes on, and burn's, also after a
/// fault of a kernel or of memory through CUDA, after which every call fails.
const GPU_LOST: [&str; 3] = ["evice is lost", "evice is poisoned", "evice was poisoned"];

static GPU_IS_LOST: AtomicBool = AtomicBool::new(false);

/// Wakes the window, which continues without its lost GPU.
static WAKE_WINDOW: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// Installs the panic hook that writes a report into `folder`, if one is given.
pub fn install(folder: Option<PathBuf>) {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |fault| {
        let message = catch_panic::panic_message(fault.payload());
        let is_lost = GPU_LOST.iter().any(|words| message.contains(words));
        if is_lost {
            GPU_IS_LOST.store(true, Ordering::SeqCst);
        }
        // The catcher, or whoever waits for the device, reports it if it is an error there: a measurement may fill a GPU on purpose.
        if catch_panic::is_in_foreign_code() || is_device_thread() {
            log::note(&message);
            return;
        }
        // burn's unnamed thread reports when the GPU is done; without it others wait for ever, and a worker has no other GPU.
        if is_lost && std::thread::current().name().is_none_or(|name| name == "compute") {
            if let Some(wake) = WAKE_WINDOW.get() {
                log::note(&message);
                return wake();
            }
            end_without_gpu("Run the command again (for a training, with --resume), or with --device cpu");
        }
        default_hook(fault);
        let number = WRITTEN.load(Ordering::SeqCst);
        let Some(folder) = folder.as_deref().filter(|_| number < MAX_PER_PROCESS) else { return };
        WRITTEN.fetch_add(1, Ordering::SeqCst);
        let place = fault.location().map_or("nowhere".to_owned(), ToString::to_string);
        let backtrace = match has_memory_for_backtrace() {
            true => Backtrace::force_capture().to_string(),
            false => "none: too little memory to resolve its function names".to_owned(),
        };
        match write(folder, number, &page(&message, &place, &backtrace)) {
            Ok(path) => {
                say!(
                    "a crash report, which contains no user name and no access token, is in {}",
                    path.display()
                );
                user_error::keep_report(path);
            }
            Err(error) => say!("the crash report cannot be written to {}: {error}", folder.display()),
        }
    }));
}

/// Whether there is enough memory to symbolise a backtrace. If memory runs out while it is symbolised, the standard library
/// deadlocks on a lock that it holds itself.
fn has_memory_for_backtrace() -> bool {
    let program = std::env::current_exe().and_then(std::fs::metadata).map_or(0, |file| file.len());
    let needed = usize::try_from(3 * program).unwrap_or(usize::MAX); // the mapped file, and tables built from it
    Vec::<u8>::new().try_reserve_exact(needed).is_ok()
}

/// Whether this is a thread of burn's devices (`DSU-0-0`), whose panics are errors of the threads that wait for them.
fn is_device_thread() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with("DSU-") || name.starts_with("DSD-"))
}

/// Whether a GPU that this process computed with is lost: nothing opens it again in the same process.
pub fn is_gpu_lost() -> bool {
    GPU_IS_LOST.load(Ordering::SeqCst)
}

/// Ends the program, which cannot continue without the lost GPU; `remedy` says what to do.
pub fn end_without_gpu(remedy: &str) -> ! {
    say!("error: the GPU was lost: it failed, its driver was reset, or it is gone. {remedy}");
    interrupt::end_with(1)
}

/// Lets the program continue without a lost GPU, since its window may have unsaved work; `wake` is called then.
pub fn keep_window(wake: impl Fn() + Send + Sync + 'static) {
    let _ = WAKE_WINDOW.set(Box::new(wake)); // a process has one window
}

/// The folder of the reports; `None` if the user has no home folder.
pub fn folder() -> Option<PathBuf> {
    Some(paths::state()?.join("crashes"))
}

/// The text of a report, anonymised.
fn page(message: &str, place: &str, backtrace: &str) -> String {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    let lines = log::tail().join("\n");
    anonymous(&format!(
        "ssmprobe {} crashed. Please attach this page to an issue.\n\n\
         system   {os} {arch}\ncommand  ssmprobe {}\nthread   {name}\nfault    {message}\nat       {place}\n\n\
         Messages and actions before it:\n{lines}\n\nBacktrace:\n{backtrace}",
        env!("CARGO_PKG_VERSION"),
        words.join(" "),
    ))
}

/// Writes a report, and deletes the oldest beyond [`MAX_REPORTS`].
fn write(folder: &Path, number: usize, page: &str) -> std::io::Result<PathBuf> {
    atomic_file::make_folder(folder)?;
    let seconds = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
    let path = folder.join(format!("{PREFIX}{seconds:012}-{}-{number}.txt", std::process::id()));
    atomic_file::write(&path, page.as_bytes())?;
    let entries = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let is_report =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let mut reports: Vec<PathBuf> = entries.filter(is_report).collect();
    reports.sort();
    for old in &reports[..reports.len().saturating_sub(MAX_REPORTS)] {
        let _ = std::fs::remove_file(old); // fails if another process has deleted it
    }
    Ok(path)
}
