//! Failures of a connection to a worker: its address, the kind of failure with a remedy, and the last lines of its stderr.

use std::fmt::{Display, Formatter};

use super::hello::PROTOCOL;

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
        "`{program}` cannot be started: {why}. Install it, or put it on the PATH (ssh: the client of OpenSSH)"
    )]
    NotStarted { program: String, why: String },
    #[error("it is not reached. Try `ssh` there by hand: it has to come through without a question")]
    Unreachable,
    #[error(
        "its host key is not the one that is known. If the machine was set up anew, remove the old one with \
         `ssh-keygen -R HOST`, then log in once by hand; if not, somebody may stand in between"
    )]
    HostKey,
    #[error(
        "it lets nobody in without a question, and no password is asked for here. Put a key there with `ssh-copy-id`, \
         or unlock the key in an agent"
    )]
    Denied,
    #[error("it has no program `{program}`. Install it there, or say where it is with --remote-program PATH")]
    NoProgram { program: String },
    #[error(
        "its `{program}` ends at once ({status}). One without `serve` is too old: update the program there"
    )]
    Ended { program: String, status: String },
    #[error(
        "what answers is not this program: `{found}`. If a start-up file there (.bashrc) prints that, let it be silent \
         where there is no terminal"
    )]
    Foreign { found: String },
    #[error(
        "it speaks protocol {found} (version {version}), this program {PROTOCOL} (version {}). Update the program \
         {}", env!("CARGO_PKG_VERSION"), if *found < PROTOCOL { "there" } else { "here" }
    )]
    Protocol { found: u32, version: String },
    #[error("the connection is lost ({status})")]
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

impl Display for RemoteError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)?;
        if !self.said.is_empty() {
            f.write_str("\nthe last it said:")?;
        }
        self.said.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for RemoteError {}
