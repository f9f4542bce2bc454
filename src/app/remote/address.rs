//! The address of a worker: a child process on this machine, or a machine reached over ssh.

use std::fmt::{Display, Formatter};
use std::io;
use std::process::{Command, Stdio};
use std::str::FromStr;

use crate::app::child_process::own_group;
use crate::app::format::shell_word;
use crate::app::paths;

/// The program to start if none is named.
pub(super) const DEFAULT_PROGRAM: &str = "ssmprobe";

/// The address of a worker. Parsed from, and displayed as, `local` or `ssh://[USER@]HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerAddress {
    /// A child process on this machine.
    Local,
    /// A process on a machine reached over ssh.
    Ssh {
        /// The user to log in as; if absent, ssh's configuration decides.
        user: Option<String>,
        /// A host name, an address or an alias of ssh's configuration.
        host: String,
        /// The port of the ssh server; if absent, ssh's configuration decides.
        port: Option<u16>,
    },
}

impl FromStr for WorkerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "local" {
            return Ok(Self::Local);
        }
        let expected = || "expected ssh://[USER@]HOST[:PORT], or local".to_owned();
        let rest = text.strip_prefix("ssh://").ok_or_else(expected)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
        // IPv6 addresses are in brackets.
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(expected)?)),
            None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map(|port| port.parse().ok().filter(|port| *port > 0));
        let port = port.map(|port: Option<u16>| port.ok_or("expected a port from 1 to 65535")).transpose()?;
        for name in [Some(host), user].into_iter().flatten() {
            // Other characters could make ssh read a flag, or a shell more than one word.
            // A directory's user names may have a domain: me@lab.org.
            let plain = |c: char| c.is_alphanumeric() || "-_.:%+\\@".contains(c);
            if name.is_empty() || name.starts_with('-') || !name.chars().all(plain) {
                return Err(format!("`{name}` is not a host or user name; {}", expected()));
            }
        }
        Ok(Self::Ssh { user: user.map(str::to_owned), host: host.to_owned(), port })
    }
}

impl Display for WorkerAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self::Ssh { user, host, port } = self else { return f.write_str("the worker on this machine") };
        f.write_str("ssh://")?;
        user.iter().try_for_each(|user| write!(f, "{user}@"))?;
        if host.contains(':') { write!(f, "[{host}]") } else { f.write_str(host) }?;
        port.iter().try_for_each(|port| write!(f, ":{port}"))
    }
}

impl WorkerAddress {
    /// Splits an address and an optional path: `ssh://gpu1/data/run`, or `ssh://gpu1/~/run` below the remote home.
    ///
    /// # Errors
    /// If the text does not begin with a valid ssh address.
    pub fn with_path(text: &str) -> Result<(Self, Option<String>), String> {
        let rest = text.strip_prefix("ssh://").ok_or("expected ssh://[USER@]HOST[:PORT]/PATH")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = match path {
            "" => None,
            path if path == "~" || path.starts_with("~/") => Some(path.to_owned()),
            path => Some(format!("/{path}")),
        };
        Ok((format!("ssh://{host}").parse()?, path))
    }

    /// The address as the flag `--on` takes it.
    pub fn word(&self) -> String {
        if *self == Self::Local { "local".to_owned() } else { self.to_string() }
    }

    /// The command that starts the worker, with all three standard streams piped. The child is in a process group of its
    /// own: Ctrl-C does not reach it, it ends when its standard input is closed.
    ///
    /// # Errors
    /// If the path of this executable is unknown.
    pub(super) fn command(&self, program: Option<&str>) -> io::Result<Command> {
        let mut command = match self {
            Self::Local => {
                let own = || paths::program().map(Command::new).map_err(io::Error::other);
                let mut command = program.map_or_else(own, |program| Ok(Command::new(program)))?;
                command.args(["serve", "--stdio"]);
                command
            }
            Self::Ssh { .. } => {
                let program = quoted(program.unwrap_or(DEFAULT_PROGRAM));
                // Where `remote install` puts it, few shells without a login have on their PATH. The shell stays: its exit code
                // tells a program that was killed from a lost connection. Messages are compressed already. Relative paths begin in the
                // home folder, which a start-up file may have left.
                let script = format!("cd; PATH=~/.local/bin:$PATH; {program} serve --stdio; exit $?");
                self.shell(&script, "Compression=no")?
            }
        };
        own_group(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// The command that runs a script on the remote machine by its POSIX shell, whatever the user's own shell is, as that
    /// one's exit code tells whether there is a program; with an option of ssh, and standard output and error piped.
    ///
    /// # Errors
    /// If the address is [`Local`](Self::Local).
    pub(super) fn shell(&self, script: &str, option: &str) -> io::Result<Command> {
        let Self::Ssh { user, host, port } = self else { return Err(io::Error::other("not an ssh address")) };
        let mut command = Command::new("ssh");
        // No password prompt: keys, agents and jump hosts are those of the user's configuration. A machine that does not answer
        // is given up within a minute, and a lost network is noticed within 40 s, whatever that configuration says. Neither the
        // agent (-a) nor the screen (-x) is forwarded: a workspace may name the machine. A command that it has for logins by hand would
        // be refused beside this one (RemoteCommand, as a tmux), or print between the messages (LocalCommand).
        command.args(["-T", "-a", "-x"]);
        for option in [
            "BatchMode=yes",
            "ClearAllForwardings=yes",
            "RemoteCommand=none",
            "PermitLocalCommand=no",
            "ServerAliveInterval=10",
            "ServerAliveCountMax=3",
            "ConnectTimeout=60",
            option,
        ] {
            command.args(["-o", option]);
        }
        if let Some(port) = port {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = user {
            command.args(["-l", user]);
        }
        command.arg("--").arg(host).arg(format!("exec sh -c {}", shell_word(script)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// The executable that this machine runs: the worker itself, or `ssh`.
    pub(super) fn executable(&self, program: Option<&str>) -> String {
        match self {
            Self::Local => program.unwrap_or(DEFAULT_PROGRAM).to_owned(),
            Self::Ssh { .. } => "ssh".to_owned(),
        }
    }
}

/// Quotes text as one word for a POSIX shell; a leading `~/` stays outside the quotes, so that it is expanded there.
fn quoted(word: &str) -> String {
    let (home, rest) = word.strip_prefix("~/").map_or(("", word), |rest| ("~/", rest));
    format!("{home}{}", shell_word(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssh(user: Option<&str>, host: &str, port: Option<u16>) -> WorkerAddress {
        WorkerAddress::Ssh { user: user.map(str::to_owned), host: host.to_owned(), port }
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        for (text, place) in [
            ("ssh://gpu1", ssh(None, "gpu1", None)),
            ("ssh://me@gpu1.lab.org:2222", ssh(Some("me"), "gpu1.lab.org", Some(2222))),
            ("ssh://me@lab.org@gpu1", ssh(Some("me@lab.org"), "gpu1", None)),
            ("ssh://[fe80::1%eth0]:22", ssh(None, "fe80::1%eth0", Some(22))),
            ("ssh://[::1]", ssh(None, "::1", None)),
        ] {
            assert_eq!(text.parse::<WorkerAddress>().as_ref(), Ok(&place));
            assert_eq!(place.to_string(), text);
        }
        assert_eq!("local".parse(), Ok(WorkerAddress::Local));
        assert_eq!("ssh://gpu1/".parse(), Ok(ssh(None, "gpu1", None)));
    }

    #[test]
    fn a_path_stands_behind_its_place() {
        let read = |text: &str| WorkerAddress::with_path(text).map(|(place, path)| (place.word(), path));
        for (text, place, path) in [
            ("ssh://gpu1", "ssh://gpu1", None),
            ("ssh://gpu1/", "ssh://gpu1", None),
            ("ssh://me@gpu1:22/data/a b", "ssh://me@gpu1:22", Some("/data/a b")),
            ("ssh://gpu1/~/run", "ssh://gpu1", Some("~/run")),
            ("ssh://[::1]/~", "ssh://[::1]", Some("~")),
            ("ssh://gpu1//data", "ssh://gpu1", Some("//data")),
        ] {
            assert_eq!(read(text), Ok((place.to_owned(), path.map(str::to_owned))));
        }
        assert!(["gpu1/data", "ssh:///data", "ssh://-x/data"].into_iter().all(|text| read(text).is_err()));
    }

    #[test]
    fn what_ssh_would_take_for_something_else_is_refused() {
        for text in [
            "",
            "gpu1",
            "ssh://",
            "ssh://-oProxyCommand=touch",
            "ssh://-l@gpu1",
            "ssh://@gpu1",
            "ssh://gpu1:0",
            "ssh://gpu1:70000",
            "ssh://gpu1:",
            "ssh://a b",
            "ssh://a;b",
            "ssh://$(a)",
            "ssh://a\nb",
            "ssh://[::1]22",
            "ssh://gpu1/home",
        ] {
            let error = text.parse::<WorkerAddress>().unwrap_err();
            assert!(error.contains("expected"), "{text}: {error}");
        }
    }

    #[test]
    fn the_far_program_is_one_word_of_the_far_shell() {
        let command = ssh(Some("me"), "gpu1", Some(22)).command(Some("~/my 'bin'/$x")).unwrap();
        let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words[words.len() - 7..words.len() - 1], ["-p", "22", "-l", "me", "--", "gpu1"]);
        let inner = shell_word(r"cd; PATH=~/.local/bin:$PATH; ~/'my '\''bin'\''/$x' serve --stdio; exit $?");
        assert_eq!(words.last(), Some(&&*format!("exec sh -c {inner}")));
    }
}
