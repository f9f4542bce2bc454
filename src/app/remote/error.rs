//! Failures of a connection to a worker: its address, the kind of failure with a remedy, and the last lines of its stderr.

use std::fmt::{Display, Formatter};
use std::io;
use std::process::ExitStatus;

use super::hello::PROTOCOL;
use super::{HELLO_TIMEOUT, WorkerAddress};

/// The exit code of ssh for failures of its own.
const SSH_FAILED: i32 = 255;
/// The exit code of a shell whose program was ended by a signal is this and the signal's number.
const SIGNALLED: i32 = 128;
/// The exit code of this program where it was asked to stop, or ended by itself as no heartbeat came.
const STOPPED: i32 = 130;

/// Why a worker could not be started, or the connection to it failed.
#[derive(Debug)]
pub struct RemoteError {
    /// The worker's address, as displayed.
    pub place: String,
    /// The kind of failure.
    pub kind: RemoteErrorKind,
    /// The last lines on the standard error of the worker or of ssh.
    pub stderr: Vec<String>,
}

/// The kind of failure; each message says what to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
pub enum RemoteErrorKind {
    #[error(
        "`{program}` cannot be started: {why}. Install it, or put it on the PATH (ssh: the OpenSSH client)"
    )]
    NotStarted { program: String, why: String },
    #[error("it cannot be reached. Try `ssh` there by hand: it has to connect without asking anything")]
    Unreachable,
    #[error(
        "its host key is not the known one. If the machine was reinstalled, remove the old one with \
         `ssh-keygen -R HOST`, then log in once by hand; if not, someone may be intercepting the connection"
    )]
    ChangedHostKey,
    #[error("its host key is not known yet. Log in once by hand with `ssh HOST` and accept the key")]
    NewHostKey,
    #[error(
        "it does not accept a login without a password, and none can be entered here. Install a key there with \
         `ssh-copy-id`, unlock the key in an agent, or let ssh share a connection that you open by hand (ControlMaster)"
    )]
    Denied,
    #[error(
        "it has no program `{program}` that can be executed. Install it there (`ssmprobe remote install HOST`), or give \
         its path with --remote-program PATH"
    )]
    NoProgram { program: String },
    #[error("its `{program}` has no `serve`: that version is too old. Update the program there")]
    TooOld { program: String },
    #[error(
        "its `{program}` exits immediately ({status}). Its last output says why; where there is none, run `{program} devices` \
         there by hand"
    )]
    Ended { program: String, status: String },
    #[error(
        "the answer is not from this program: `{found}`. If a start-up file there (.bashrc) prints that, silence \
         it when there is no terminal"
    )]
    Foreign { found: String },
    #[error(
        "its `{program}` has not answered within {} s. Log in there and run `{program} devices`: if that hangs too, a \
         start-up file, the disk, a GPU driver or a dead connection that ssh shares does (`ssh -O exit HOST` ends that)",
        HELLO_TIMEOUT.as_secs()
    )]
    Silent { program: String },
    #[error(
        "it speaks protocol {found} (version {version}), this program {PROTOCOL} (version {}). Update the program \
         {}", env!("CARGO_PKG_VERSION"), if *found < PROTOCOL { "there" } else { "here" }
    )]
    Protocol { found: u32, version: String },
    #[error("the connection was lost ({status})")]
    Lost { status: String },
    #[error(
        "its program was killed ({status}); 137 or SIGKILL usually means that memory ran out there: free some"
    )]
    Killed { status: String },
    #[error("{found}. The connection is closed")]
    Damaged { found: String },
}

/// Why ssh failed, by its messages; `None` if the exit code is that of the remote command.
pub(super) fn refused_by_ssh(code: Option<i32>, stderr: &[String]) -> Option<RemoteErrorKind> {
    let says = |text: &str| stderr.iter().any(|line| line.contains(text));
    (code == Some(SSH_FAILED)).then(|| match () {
        () if says("Host key for") && says("has changed") => RemoteErrorKind::ChangedHostKey,
        () if says("Host key verification failed") => RemoteErrorKind::NewHostKey,
        () if says("Permission denied") || says("Too many authentication failures") => {
            RemoteErrorKind::Denied
        }
        () => RemoteErrorKind::Unreachable,
    })
}

/// How the worker, or ssh, ended, if the system told it.
pub(super) fn described(ended: Option<ExitStatus>) -> String {
    ended.map_or_else(|| "exit status unknown".into(), |status| status.to_string())
}

impl RemoteErrorKind {
    /// Why a connection ended that stood, by how the worker, or `ssh`, did.
    pub(super) fn lost(ended: Option<ExitStatus>, is_ssh: bool) -> Self {
        let by_signal = |code: i32| code > SIGNALLED && ![SSH_FAILED, STOPPED].contains(&code);
        let status = described(ended);
        match ended.is_some_and(|ended| ended.code().map_or(!is_ssh, by_signal)) {
            true => Self::Killed { status },
            false => Self::Lost { status },
        }
    }

    /// Why a program ended before its greeting, by the lines on its standard error.
    pub(super) fn ended(program: String, ended: Option<ExitStatus>, stderr: &[String]) -> Self {
        match stderr.iter().any(|line| line.contains("unrecognized subcommand")) {
            true => Self::TooOld { program },
            false => Self::Ended { program, status: described(ended) },
        }
    }

    /// Whether a later attempt may succeed without anybody's help: a machine that reboots, a network that returns.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable | Self::Lost { .. } | Self::Killed { .. } | Self::Damaged { .. })
    }
}

impl RemoteError {
    /// The error of a worker of which the process here, or a thread that speaks with it, cannot be started.
    pub(super) fn not_started(place: &WorkerAddress, program: Option<&str>, error: &io::Error) -> Self {
        let (program, why) = (place.executable(program), error.to_string());
        let kind = RemoteErrorKind::NotStarted { program, why };
        Self { place: place.to_string(), kind, stderr: Vec::new() }
    }
}

impl Display for RemoteError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.kind)?;
        if !self.stderr.is_empty() {
            f.write_str("\nits last output:")?;
        }
        self.stderr.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for RemoteError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_that_is_refused_is_told_from_a_machine_that_is_not_there() {
        let kind = |line: &str| refused_by_ssh(Some(SSH_FAILED), &[line.to_owned()]);
        let refused = [
            "me@gpu1: Permission denied (publickey).",
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
        ];
        assert!(refused.iter().all(|line| kind(line) == Some(RemoteErrorKind::Denied)));
        let absent = kind("ssh: connect to host gpu1 port 22: Connection timed out");
        assert_eq!(absent, Some(RemoteErrorKind::Unreachable));
        assert_eq!(refused_by_ssh(Some(1), &[]), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_is_killed_is_told_from_a_lost_connection() {
        use std::os::unix::process::ExitStatusExt;
        let is_killed = |raw: i32, is_ssh: bool| {
            let kind = RemoteErrorKind::lost(Some(ExitStatus::from_raw(raw)), is_ssh);
            matches!(kind, RemoteErrorKind::Killed { .. })
        };
        let exit = |code: i32| code << 8;
        assert!(is_killed(exit(137), true) && is_killed(9, false));
        // The client's own ssh is killed, or says that the connection is lost; a program that ends by itself.
        assert!(!is_killed(9, true) && !is_killed(exit(SSH_FAILED), true) && !is_killed(exit(0), true));
        assert!(!is_killed(exit(1), false) && !is_killed(exit(STOPPED), true));
    }
}
