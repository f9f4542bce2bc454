//! Child processes: which signals reach them, and how they are asked to stop.

use std::io;
use std::process::{Command, ExitStatus};

/// Starts the command in a process group of its own, which Ctrl-C in this terminal does not reach.
pub fn own_group(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(command, 0x200); // CREATE_NEW_PROCESS_GROUP
}

/// Starts the command in a session of its own, which signals to this process do not reach; in a group where there are no sessions.
pub fn own_session(command: &mut Command) {
    #[cfg(target_os = "linux")]
    before_exec(command, || {
        // SAFETY: it changes the calling process alone, which is a child that has started no thread.
        #[expect(unsafe_code, reason = "a call of C that makes a session")]
        unsafe {
            libc::setsid()
        }
    });
    #[cfg(not(target_os = "linux"))]
    own_group(command);
}

/// Lets Linux send the process SIGTERM if this one is killed, as nothing else could stop it then. Linux sends it when the thread that
/// started the process ends: start it from one that outlives it.
pub fn stops_with_this_process(command: &mut Command) {
    #[cfg(target_os = "linux")]
    before_exec(command, || {
        // SAFETY: it changes a setting of the calling process alone, and takes a number.
        #[expect(unsafe_code, reason = "a call of C that asks for a signal")]
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong)
        }
    });
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Lets the child make a call of C, negative where it fails, before it becomes the program.
#[cfg(target_os = "linux")]
fn before_exec(command: &mut Command, call: fn() -> libc::c_int) {
    use std::os::unix::process::CommandExt;
    let checked = move || if call() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: between fork and exec, neither of the calls above takes a lock or allocates.
    #[expect(unsafe_code, reason = "what a child does before it becomes the program")]
    unsafe {
        command.pre_exec(checked);
    }
}

/// Asks a process to save and stop (SIGTERM); how the command ended that sends the signal.
pub fn ask_to_stop(pid: u32) -> io::Result<ExitStatus> {
    Command::new("kill").args(["-TERM", &pid.to_string()]).status()
}
