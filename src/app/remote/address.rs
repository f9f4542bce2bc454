//! Where a worker is: here as a process of its own, or on a machine behind ssh.

use std::fmt::{Display, Formatter};
use std::io;
use std::process::{Command, Stdio};
use std::str::FromStr;

/// The program where nobody names another.
const PROGRAM: &str = "ssmprobe";

/// Where a worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerAddress {
    /// On this machine.
    Local,
    /// On one that ssh reaches.
    Ssh {
        /// Who logs in; whoever ssh's configuration says where absent.
        user: Option<String>,
        /// The machine, as ssh knows it.
        host: String,
        /// Its port; what ssh's configuration says where absent.
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
        // An address of IPv6 stands in brackets.
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(expected)?)),
            None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map(|port| port.parse().ok().filter(|port| *port > 0));
        let port = port.map(|port: Option<u16>| port.ok_or("expected a port from 1 to 65535")).transpose()?;
        for name in [Some(host), user].into_iter().flatten() {
            // ssh would read it as a flag, and a shell as more than a name.
            let plain = |c: char| c.is_alphanumeric() || "-_.:%+\\".contains(c);
            if name.is_empty() || name.starts_with('-') || !name.chars().all(plain) {
                return Err(format!("`{name}` is no name of a host or a user; {}", expected()));
            }
        }
        Ok(Self::Ssh { user: user.map(str::to_owned), host: host.to_owned(), port })
    }
}

impl WorkerAddress {
    /// A place and a path on it: `ssh://gpu1/data/run`, or `ssh://gpu1/~/run` below the home there; no path where none
    /// is named.
    ///
    /// # Errors
    /// If it names no place.
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

    /// What `--on` takes for it.
    pub fn word(&self) -> String {
        if *self == Self::Local { "local".to_owned() } else { self.to_string() }
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
    /// What starts the worker there, with pipes. It does not get this program's Ctrl-C: it is asked to end.
    ///
    /// # Errors
    /// If this program does not know where it lies.
    pub(super) fn command(&self, program: Option<&str>) -> io::Result<Command> {
        let mut command = match self {
            Self::Local => {
                let own = || std::env::current_exe().map(Command::new);
                let mut command = program.map_or_else(own, |program| Ok(Command::new(program)))?;
                command.args(["serve", "--stdio"]);
                command
            }
            Self::Ssh { .. } => {
                self.shell(&format!("exec {} serve --stdio", quoted(program.unwrap_or(PROGRAM))))?
            }
        };
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// What runs a script of the shell there, with pipes.
    ///
    /// # Errors
    /// If no ssh leads there.
    pub(super) fn shell(&self, script: &str) -> io::Result<Command> {
        let Self::Ssh { user, host, port } = self else { return Err(io::Error::other("no ssh leads there")) };
        let mut command = Command::new("ssh");
        // Nobody is asked for a password: keys, agents and jumps are those of the user's own configuration. A network that
        // is gone is noticed within a minute.
        command.args([
            "-T",
            "-o",
            "BatchMode=yes",
            "-o",
            "ClearAllForwardings=yes",
            "-o",
            "ServerAliveInterval=15",
        ]);
        if let Some(port) = port {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = user {
            command.args(["-l", user]);
        }
        command.arg("--").arg(host).arg(script).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Whether messages to it are packed.
    pub(super) fn packs(&self) -> bool {
        *self != Self::Local
    }

    /// What is started first.
    pub(super) fn starter(&self, program: Option<&str>) -> String {
        match self {
            Self::Local => program.unwrap_or(PROGRAM).to_owned(),
            Self::Ssh { .. } => "ssh".to_owned(),
        }
    }

    /// The program that is to be there.
    pub(super) fn program(program: Option<&str>) -> &str {
        program.unwrap_or(PROGRAM)
    }
}

/// One word of a shell, whatever is in it; a `~/` before it still means the home there.
fn quoted(word: &str) -> String {
    let (home, rest) = word.strip_prefix("~/").map_or(("", word), |rest| ("~/", rest));
    format!("{home}'{}'", rest.replace('\'', r"'\''"))
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
        assert_eq!(
            words[7..],
            ["-p", "22", "-l", "me", "--", "gpu1", r"exec ~/'my '\''bin'\''/$x' serve --stdio"]
        );
    }
}
