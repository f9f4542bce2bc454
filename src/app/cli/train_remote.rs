//! `ssmprobe train --on`: starts a training as a process of its own, on another machine or this one, and prints its output.

use std::sync::Arc;

use super::on_flags::{JOB, POLL_INTERVAL};
use crate::app::cli::prelude::*;
use crate::app::jobs::detached::{LAST_OUTPUT, LOGS};
use crate::app::jobs::train_event::TrainEvent;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Event, Fetch, Request, TrainCommand};
use crate::app::remote::{AnyWorker as _, Link};
use crate::app::state::connection::{Connection, Host};
use crate::app::terminal::stdout::print_message;

/// What is known of the training.
struct RemoteTraining {
    host: Host,
    /// Its folder and process id, once it runs, and the machine of the process if it is another.
    process: Option<(PathBuf, u32, Option<String>)>,
    /// For each of its logs, the smallest byte offset of a line that is not printed yet.
    printed: [u64; LOGS.len()],
    /// Whether it ran to its end, and whether all its probes failed; once it has ended.
    ended: Option<(bool, bool)>,
    /// Number of its probes: heads times seeds.
    probes: usize,
}

/// Starts the training with the command line `words` at a host, or finds it there, and prints its output until it ends.
pub fn run(host: Host, words: Vec<String>, out: PathBuf) -> anyhow::Result<ExitCode> {
    interrupt::listen();
    let mut link = Link::start(host.clone(), Arc::new(|| {})).map_err(anyhow::Error::msg)?;
    link.send(Request::Fetch(JOB, Fetch::Detached(TrainCommand { words, out, again: false })));
    let display = Display::new();
    let mut training =
        RemoteTraining { host, process: None, printed: [0; LOGS.len()], ended: None, probes: 0 };
    let mut before = Connection::Connecting(training.host.clone());
    loop {
        if interrupt::flow().is_break() {
            training.print_how_to_follow(&display);
            return Ok(interrupt::code());
        }
        let now = link.connection();
        training.report_connection(&before, &now, &display)?;
        before = now;
        match link.recv_timeout(POLL_INTERVAL) {
            Some(Event::Training { event, .. }) => training.apply(event, &display),
            Some(Event::Failed(_, error)) => return training.fail(error, &display),
            Some(Event::Warning { text, .. }) => display.say(&text),
            Some(Event::Finished(_) | Event::Cancelled(_)) => return Ok(training.end(&display)),
            // Without a connection, `recv_timeout` returns at once.
            None if !matches!(before, Connection::Connected { .. }) => std::thread::sleep(POLL_INTERVAL),
            Some(_) | None => {}
        }
    }
}

/// An address as `ssh` takes it, for which the user's name ends at the first `@`, not at the last.
fn ssh_address(place: &str) -> String {
    let encoded = |(user, host): (&str, &str)| format!("{}@{host}", user.replace('@', "%40"));
    place.rsplit_once('@').map_or_else(|| place.to_owned(), encoded)
}

impl RemoteTraining {
    /// Prints a change of the connection; an error if none was ever made, or it is not made again.
    fn report_connection(
        &self,
        before: &Connection,
        now: &Connection,
        display: &Display,
    ) -> anyhow::Result<()> {
        match (before, now) {
            (Connection::Connecting(_), Connection::Connected { hello, .. }) => {
                display.say(&format!("{}: {hello}", self.host.place));
            }
            (Connection::Lost { .. }, Connection::Connected { .. }) => display.say("reconnected"),
            (_, Connection::Lost { why, was_connected: false, .. }) => bail!("{why}"),
            (_, Connection::Lost { why, retry: None, .. }) => {
                self.print_how_to_follow(display);
                bail!("{why}")
            }
            (Connection::Connected { .. }, Connection::Lost { .. }) => {
                display.say("connection lost; the training keeps running there; reconnecting automatically");
            }
            (Connection::Lost { why: old, .. }, Connection::Lost { why, .. }) if old != why => {
                let text = format!("{}: {why}", now.text().to_lowercase());
                text.lines().for_each(|line| display.say(line)); // of ssh, too
            }
            _ => {}
        }
        Ok(())
    }

    fn apply(&mut self, event: TrainEvent, display: &Display) {
        match event {
            TrainEvent::Detached { folder, pid, began, host } => {
                if self.process.is_none() {
                    let what = if began { "started" } else { "found" };
                    let (place, folder) = (host.as_ref().unwrap_or(&self.host.place), folder.display());
                    display.say(&format!(
                        "{what} as process {pid} on {place}, writing to {folder}; Ctrl-C leaves it running"
                    ));
                }
                self.process = Some((folder, pid, host));
            }
            TrainEvent::Printed(line) => {
                let Some(printed) = self.printed.get_mut(line.log).filter(|printed| line.at >= **printed)
                else {
                    return; // it was printed before the connection was lost
                };
                *printed = line.at + 1;
                match line.log {
                    0 => display.say(&line.line),
                    _ => display.print(&line.line),
                }
            }
            TrainEvent::Begun(snapshot) => {
                self.probes = snapshot.about.heads.len() * snapshot.about.seeds.len();
            }
            TrainEvent::Ended { finished, failures } => {
                self.ended = Some((finished, failures.len() == self.probes));
            }
            _ => {}
        }
    }

    /// Prints how to follow the training again, and how to stop it.
    fn print_how_to_follow(&self, display: &Display) {
        let Some((folder, pid, host)) = &self.process else {
            return display
                .say("it is not known yet whether the training started; run the same command with --resume to find out");
        };
        let Host { place, program } = &self.host;
        let program = program.as_ref().map(|path| format!(" --remote-program {}", shell_word(path)));
        let program = program.unwrap_or_default();
        let (on, folder) = (shell_word(place), shell_path(folder));
        let look = format!("ssmprobe train --on {on}{program} --resume --out {folder}");
        let stop = match (host, place.as_str()) {
            (Some(host), _) => format!("kill {pid}, on {host}"),
            (None, "local") => format!("kill {pid}"),
            (None, place) => format!("ssh {} kill {pid}", shell_word(&ssh_address(place))),
        };
        display.say(&format!("it keeps running there. Follow it again: {look}"));
        display.say(&format!("save and stop it: {stop}"));
    }

    /// The error of a training that failed, without what it has printed; a refusal has been printed as a whole.
    fn fail(&self, mut error: UserError, display: &Display) -> anyhow::Result<ExitCode> {
        display.clear();
        if self.process.is_some() && error.refused {
            return Ok(ExitCode::from(2));
        }
        error.lines.retain(|line| !line.starts_with(LAST_OUTPUT));
        Err(anyhow::Error::new(error).context(format!("on {}", self.host.place)))
    }

    fn end(&self, display: &Display) -> ExitCode {
        display.clear();
        match self.ended {
            Some((true, false)) => ExitCode::SUCCESS,
            Some((false, _)) => interrupt::code(),
            Some((true, true)) | None => {
                print_message("the training ended without a result");
                ExitCode::FAILURE
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_a_domain_is_one_for_ssh_too() {
        let places = ["ssh://gpu1", "ssh://me@gpu1:22", "ssh://me@lab.org@gpu1"];
        assert_eq!(places.map(ssh_address), ["ssh://gpu1", "ssh://me@gpu1:22", "ssh://me%40lab.org@gpu1"]);
    }
}
