//! Crash reports of panics in a child process: this program again with one of the tests `child`, `child_in_need`, `child_without_gpu` and
//! `another_child`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use ssmprobe::app::jobs::user_error::UserError;
use ssmprobe::app::state::connection::Host;
use ssmprobe::app::{crash, log, remote};
use ssmprobe::model::io::catch_panic::{catch_foreign, catch_own};

use crate::run::{entries, files};

/// Environment variable with the folder for reports; the child tests do nothing where it is not set.
const FOLDER: &str = "SSMPROBE_TEST_CRASHES";

/// Body of the child process of `crashed`.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    crash::install(Some(folder.clone()));
    let thread = std::thread::Builder::new().name("worker".into());
    thread.spawn(move || faults(&folder)).unwrap().join().unwrap();
    let thread = std::thread::Builder::new().name("window".into());
    thread.spawn(|| panic!("the window")).unwrap().join().unwrap_err();
}

fn faults(folder: &Path) {
    log::note("opening /home/alice/probes with hf_abcdefgh");
    // A panic over a damaged file becomes an error of that file, without a report.
    assert!(catch_foreign(|| panic!("a decoder")).is_err());
    // Of a device's thread, one of those that wait for it.
    let device = std::thread::Builder::new().name("DSD-0-0".into());
    device.spawn(|| panic!("a full GPU")).unwrap().join().unwrap_err();
    assert!(!folder.exists());
    // A panic of a job stops that job alone; its error names the report once.
    let said = catch_own(|| panic!("a job in /home/alice/x")).unwrap_err();
    let error = UserError::from_panic(said.clone());
    assert!(error.lines[2].starts_with("a report is in ") && error.lines[1].contains("a job"), "{error}");
    assert_eq!(UserError::from_panic(said).lines.len(), 2);
    for _ in 0..10 {
        assert!(catch_own(|| panic!("again and again")).is_err());
    }
}

/// Body of the child process that is short of memory: one panic.
#[test]
fn child_in_need() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    crash::install(Some(folder));
    assert!(catch_own(|| panic!("in need")).is_err());
}

/// Body of the child process whose GPU is lost: the panic of the thread of burn's that waits for it, which has no name.
#[test]
fn child_without_gpu() {
    if std::env::var_os(FOLDER).is_none() {
        return;
    }
    crash::install(None);
    let said = "Error in Device::poll: Validation Error\n\nCaused by:\n  Parent device is lost\n";
    let _ = std::thread::Builder::new().spawn(move || panic!("{said}")).unwrap().join();
    panic!("it waits for the GPU for ever");
}

/// Body of the child process with a window whose GPU is lost to it, here through CUDA: its worker is another process from then on.
#[test]
fn child_with_window() {
    if std::env::var_os(FOLDER).is_none() {
        return;
    }
    crash::install(None);
    let (woken, wakes) = sync_channel(1);
    crash::keep_window(move || woken.send(()).unwrap());
    let mut worker = remote::start(None, Arc::new(|| {})).unwrap();
    assert!(worker.event().is_none() && worker.connection().host().is_none());
    let said = "The device was poisoned during launch\nCaused by:\n  cuLaunchKernel failed with status 700";
    let compute = std::thread::Builder::new().name("compute".into());
    let _ = compute.spawn(move || panic!("{said}")).unwrap().join();
    wakes.try_recv().unwrap();
    assert!(worker.event().is_none() && worker.connection().host().is_some_and(Host::is_here));
}

/// How this program ends as one of the child processes without a GPU, and what it says.
fn without_gpu(child: &str) -> (Option<i32>, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([child, "--exact", "--nocapture", "--test-threads", "1"]);
    let output = command.env(FOLDER, "none").output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_lost_gpu_ends_the_program_for_which_all_would_wait_for_ever() {
    let (code, said) = without_gpu("crash::child_without_gpu");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("error: the GPU was lost") && !said.contains("panicked"), "{said}");
}

#[test]
fn a_window_whose_gpu_is_lost_goes_on_with_a_worker_in_another_process() {
    let (code, said) = without_gpu("crash::child_with_window");
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn where_memory_is_short_a_fault_ends_as_ever_and_its_report_has_no_names() {
    let room = tempfile::tempdir().unwrap();
    let (mut nameless, mut named) = (0, false);
    for megabytes in (100..4000).step_by(10) {
        let folder = room.path().join(megabytes.to_string());
        let mut command = Command::new("timeout");
        command.args(["300", "sh", "-c", "ulimit -v $0; exec \"$@\"", &(megabytes * 1024).to_string()]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["crash::child_in_need", "--exact", "--test-threads", "1"]);
        command.env(FOLDER, &folder).env("RUST_BACKTRACE", "0"); // the standard library's own lines need as much
        let output = command.output().unwrap();
        assert_ne!(output.status.code(), Some(124), "with {megabytes} MB it waits for ever");
        if output.status.success() {
            named = !fs::read_to_string(&entries(&folder)[0]).unwrap().contains("too little memory");
            nameless += usize::from(!named);
        }
        if named {
            break;
        }
    }
    assert!(named && nameless > 0, "{nameless} reports without names, and then one with them: {named}");
}

/// Runs `child`; the reports that it left in `folder`, oldest first, and its standard error.
fn crashed(folder: &Path) -> (Vec<String>, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["crash::child", "--exact", "--nocapture", "--test-threads", "1"]);
    command.env(FOLDER, folder).env("HOME", "/home/alice").env("USER", "alice").env("HF_TOKEN", "a-password");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    (entries(folder).iter().map(|file| fs::read_to_string(file).unwrap()).collect(), said)
}

#[test]
#[cfg(unix)]
fn a_fault_leaves_a_report_that_names_nobody() {
    let room = tempfile::tempdir().unwrap();
    let folder = room.path().join("state/crashes");
    let (reports, said) = crashed(&folder);
    assert_eq!(reports.len(), 5, "a fault that comes again and again fills no disk");
    let line = |what: &str| {
        reports[0].lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{}", reports[0]))
    };
    assert!(reports[0].starts_with(concat!("ssmprobe ", env!("CARGO_PKG_VERSION"))), "{}", reports[0]);
    assert!(line("fault").ends_with("a job in ~/x"), "{}", line("fault"));
    assert!(line("at ").contains("crash.rs:"), "{}", line("at "));
    assert!(line("thread").ends_with("worker"), "{}", line("thread"));
    assert!(reports[0].contains("\nopening ~/probes with TOKEN\n"), "{}", reports[0]);
    assert!(reports[0].contains("crash::child") && reports[0].contains("\nBacktrace:\n"), "{}", reports[0]);
    assert!(reports[1].contains("a crash report"), "the log before the panic: {}", reports[1]);
    for report in &reports {
        assert!(
            !report.contains("alice") && !report.contains("hf_abc") && !report.contains("a-password"),
            "{report}"
        );
    }
    assert!(said.contains("is in ") && said.contains("state/crashes/crash-"), "{said}");
    assert!(!said.contains("the crash report cannot be written"), "{said}");
    assert!(!said.contains("a decoder"), "an error of a file is reported by its reader: {said}");
    assert!(reports[0].contains("\na decoder\na full GPU\n"), "{}", reports[0]);
    assert!(!said.contains("a full GPU"), "{said}");
}

#[test]
#[cfg(unix)]
fn old_reports_go_and_a_folder_that_cannot_be_written_is_said() {
    let room = tempfile::tempdir().unwrap();
    for number in 0..30 {
        fs::write(room.path().join(format!("crash-{number:012}-1-0.txt")), "old").unwrap();
    }
    fs::write(room.path().join("notes.txt"), "mine").unwrap();
    let command = |folder: &Path| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["crash::another_child", "--exact", "--nocapture"]).env(FOLDER, folder);
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    command(room.path());
    let names = files(room.path());
    assert_eq!(names.len(), 21, "{:?}", names.keys());
    assert!(names.contains_key("notes.txt") && !names.contains_key("crash-000000000010-1-0.txt"));
    let said = command(&room.path().join("notes.txt/below"));
    assert!(said.contains("the crash report cannot be written to ") && said.contains("one fault"), "{said}");
}

#[test]
fn another_child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    crash::install(Some(folder));
    catch_own(|| panic!("one fault")).unwrap_err();
}
