//! Where jobs are computed, in this process or by a worker in another one, and the state of the connection to it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::jobs::Severity;
use super::{State, settings};

/// The address of a worker in another process, as settings and workspaces store it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The address as `--on` takes it: `ssh://gpu1`, or `local` for a child process on this machine.
    pub place: String,
    /// The path of the program there, if it is not found by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl Host {
    /// Whether it is a child process on this machine.
    pub fn is_here(&self) -> bool {
        self.place == "local"
    }

    /// Its name for the user.
    pub fn name(&self) -> &str {
        match self.is_here() {
            true => "a separate process",
            false => self.place.strip_prefix("ssh://").unwrap_or(&self.place),
        }
    }
}

/// The state of the connection to the worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Connection {
    /// No connection: this process computes.
    #[default]
    Here,
    /// The first attempt to connect is under way.
    Connecting(Host),
    /// Connected.
    Connected {
        /// The worker.
        host: Host,
        /// How it introduced itself: version and devices.
        hello: String,
    },
    /// Not connected, after a failed attempt or a lost connection.
    Lost {
        /// The worker.
        host: Host,
        /// The error; empty while it is being determined.
        why: String,
        /// Whether there was a connection before.
        was_connected: bool,
        /// Time until the next attempt, zero during one; absent if only the user starts one.
        retry: Option<Duration>,
    },
}

impl Connection {
    /// The worker, if this process does not compute itself.
    pub fn host(&self) -> Option<&Host> {
        match self {
            Self::Here => None,
            Self::Connecting(host) | Self::Connected { host, .. } | Self::Lost { host, .. } => Some(host),
        }
    }

    /// Whether it is to a host that has not been reached yet.
    pub fn is_unreached(&self) -> bool {
        matches!(self, Self::Connecting(_) | Self::Lost { was_connected: false, .. })
    }

    /// The state as a text for the user.
    pub fn text(&self) -> String {
        let Some(name) = self.host().map(Host::name) else { return "This program".to_owned() };
        match self {
            Self::Here | Self::Connected { .. } => format!("Connected to {name}"),
            Self::Connecting(_) => format!("Connecting to {name}…"),
            Self::Lost { was_connected, retry, .. } => {
                let what = match was_connected {
                    true => "Connection lost".to_owned(),
                    false => format!("Not connected to {name}"),
                };
                match retry {
                    Some(Duration::ZERO) => format!("{what}: retrying…"),
                    Some(left) => format!("{what}: retrying in {} s", left.as_secs()),
                    None => what,
                }
            }
        }
    }
}

impl State {
    /// Sets the state of the connection. Notes a host that was reached, and remembers it; the band over the panes tells a loss, which
    /// the log keeps.
    pub fn set_connection(&mut self, now: Connection) {
        let before = std::mem::replace(&mut self.connection, now.clone());
        if before.host() != now.host() {
            self.training.slurm = None;
        }
        if !matches!(now, Connection::Connected { .. }) {
            self.remote_memory = None;
        }
        match (&before, &now) {
            (Connection::Connected { host: before, .. }, Connection::Connected { host, .. })
                if before == host => {}
            (_, Connection::Connected { host, hello }) => {
                let again = matches!(before, Connection::Lost { was_connected: true, .. });
                let more = if again { " again: everything open or pending is requested again" } else { "" };
                self.note(Severity::Info, format!("Connected to {}{more}", host.name()));
                self.record(Severity::Info, format!("{}: {hello}", host.name()));
                let hosts = &mut self.settings.recent.hosts;
                settings::remember(hosts, host.clone());
            }
            (_, Connection::Lost { why, .. }) if why.is_empty() => {}
            (Connection::Lost { why: before, .. }, Connection::Lost { why, .. }) if before == why => {}
            (_, Connection::Lost { why, was_connected, .. }) => {
                let text = match was_connected {
                    true => format!("Connection lost: {why}\nEverything on screen is kept"),
                    false => why.clone(),
                };
                self.record(Severity::Error, text);
            }
            _ => {}
        }
    }

    /// The hosts that the user has connected to, or connects to now.
    fn known_hosts(&self) -> impl Iterator<Item = &Host> {
        self.settings.recent.hosts.iter().chain(self.connection.host())
    }

    /// Whether a host is this machine or one that the user has connected to, whatever program was started there.
    pub fn knows_host(&self, host: &Host) -> bool {
        host.is_here() || self.known_hosts().any(|known| known.place == host.place)
    }

    /// Takes the program from the host of a workspace, which somebody else may have written, unless the user has started it there
    /// before: opening a file must not run another one.
    pub fn drop_unknown_program(&mut self, host: &mut Host) {
        if self.known_hosts().any(|known| known == host) {
            return;
        }
        if let Some(program) = host.program.take() {
            self.note(
                Severity::Warning,
                format!(
                    "The workspace would start {program} ({}), which you have not started there before. If you trust it, choose \
                     File > Connect…, name it there, and open the workspace again",
                    host.name()
                ),
            );
        }
    }

    /// Adds a line of the remote worker's standard error to the log.
    pub fn record_remote(&mut self, line: &str) {
        let name = self.connection.host().map_or("", Host::name);
        self.record(Severity::Info, format!("{name}: {line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host { place: "ssh://me@gpu1".into(), program: None }
    }

    fn lost(why: &str, was_connected: bool, retry: Option<u64>) -> Connection {
        let retry = retry.map(Duration::from_secs);
        Connection::Lost { host: host(), why: why.into(), was_connected, retry }
    }

    #[test]
    fn how_it_stands_is_said_in_words() {
        let connected = Connection::Connected { host: host(), hello: "ssmprobe 1".into() };
        for (connection, text) in [
            (Connection::Connecting(host()), "Connecting to me@gpu1…"),
            (connected, "Connected to me@gpu1"),
            (lost("", true, Some(4)), "Connection lost: retrying in 4 s"),
            (lost("", true, Some(0)), "Connection lost: retrying…"),
            (lost("", false, None), "Not connected to me@gpu1"),
        ] {
            assert_eq!(connection.text(), text);
        }
        assert_eq!(Host { place: "local".into(), program: None }.name(), "a separate process");
    }

    #[test]
    fn what_is_news_is_noted_once_and_who_was_reached_is_remembered() {
        let mut state = State::default();
        let connected = || Connection::Connected { host: host(), hello: "ssmprobe 1, on cpu".into() };
        state.set_connection(Connection::Connecting(host()));
        assert!(state.toasts.is_empty() && state.settings.recent.hosts.is_empty());
        state.set_connection(connected());
        state.set_connection(connected());
        state.set_connection(lost("", true, Some(0)));
        for left in [1, 0, 2, 1, 0] {
            state.set_connection(lost("the wire is cut", true, Some(left)));
        }
        let texts = |state: &State| state.toasts.iter().map(|toast| toast.text.clone()).collect::<Vec<_>>();
        let first = "Connected to me@gpu1";
        assert_eq!(texts(&state), [first], "the band tells a loss");
        state.set_connection(connected());
        let again = "Connected to me@gpu1 again: everything open or pending is requested again";
        assert_eq!(texts(&state), [first, again]);
        assert_eq!(state.log_text().matches("Connection lost: the wire is cut").count(), 1);
        assert!(state.log_text().contains("me@gpu1: ssmprobe 1, on cpu"));
        assert_eq!(state.settings.recent.hosts, [host()]);
        // The same address with another program is another host: either may be started again.
        let other = Host { program: Some("~/bin/ssmprobe".into()), ..host() };
        state.set_connection(Connection::Connected { host: other.clone(), hello: String::new() });
        assert_eq!(state.settings.recent.hosts, [other, host()]);
    }

    #[test]
    fn a_workspace_starts_no_program_that_the_user_has_not_started() {
        let theirs = || Host { program: Some("./theirs".into()), ..host() };
        let mut state = State::default();
        let left = |state: &mut State| {
            let mut host = theirs();
            state.drop_unknown_program(&mut host);
            host
        };
        assert_eq!(left(&mut state), host());
        assert!(state.toasts.last().expect("a note").text.contains("./theirs (me@gpu1)"));
        let mut state = State::default();
        state.settings.recent.hosts = [host()].into();
        assert_eq!(left(&mut state), host());
        state.settings.recent.hosts = [theirs()].into();
        assert_eq!(left(&mut state), theirs());
        state.settings.recent.hosts.clear();
        state.set_connection(Connection::Connecting(theirs()));
        assert_eq!(left(&mut state), theirs());
        // One without a program starts the usual one, wherever it is.
        let mut state = State::default();
        state.drop_unknown_program(&mut host());
        assert!(state.toasts.is_empty());
    }
}
