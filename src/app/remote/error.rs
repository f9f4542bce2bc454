//! Failures of a connection to a worker: its address, the kind of failure with a remedy, and the last lines of its stderr.

use std::fmt::{Display, Formatter};
use std::io;

use super::hello::PROTOCOL;
use super::{HELLO_PATIENCE, WorkerAddress};

/// Why a worker could not be started, or the connection to it failed.
#[derive(Debug)]
pub struct RemoteError {
    /// The worker's address, as displayed.
    pub place: String,
    /// The kind of failure.
    pub fault: RemoteErrorKind,
    /// The last lines on the standard error of the worker or of ssh.
    pub said: Vec<String>,
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
         `ssh-copy-id`, or unlock the key in an agent"
    )]
    Denied,
    #[error(
        "it has no program `{program}`. Install it there (`ssmprobe remote install HOST`), or give its path with \
         --remote-program PATH"
    )]
    NoProgram { program: String },
    #[error(
        "its `{program}` exits immediately ({status}). A version without `serve` is too old: update the program there"
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
        HELLO_PATIENCE.as_secs()
    )]
    Silent { program: String },
    #[error(
        "it speaks protocol {found} (version {version}), this program {PROTOCOL} (version {}). Update the program \
         {}", env!("CARGO_PKG_VERSION"), if *found < PROTOCOL { "there" } else { "here" }
    )]
    Protocol { found: u32, version: String },
    #[error("the connection was lost ({status})")]
    Lost { status: String },
    #[error("{found}. The connection is closed")]
    Damaged { found: String },
}

impl RemoteErrorKind {
    /// Whether a later attempt may succeed without anybody's help: a machine that reboots, a network that returns.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable | Self::Lost { .. } | Self::Damaged { .. })
    }
}

impl RemoteError {
    /// The error of a worker of which the process here, or a thread that speaks with it, cannot be started.
    pub(super) fn not_started(place: &WorkerAddress, program: Option<&str>, error: &io::Error) -> Self {
        let (program, why) = (place.executable(program), error.to_string());
        let fault = RemoteErrorKind::NotStarted { program, why };
        Self { place: place.to_string(), fault, said: Vec::new() }
    }
}

impl Display for RemoteError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)?;
        if !self.said.is_empty() {
            f.write_str("\nits last output:")?;
        }
        self.said.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for RemoteError {}
