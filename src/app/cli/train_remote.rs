//! `ssmprobe train --on`: a training that runs elsewhere as a process of its own, and is only followed from here.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;

use crate::app::jobs::detached::{Detached, LOGS};
use crate::app::jobs::training::TrainEvent;
use crate::app::jobs::{Event, Fetch, JobId, Request};
use crate::app::remote::Link;
use crate::app::state::connection::{Connection, Host};
use crate::app::terminal::interrupt;
use crate::app::terminal::progress::Display;
use crate::app::terminal::stdout::said;

/// A verb is one job.
const JOB: JobId = JobId(1);
/// How often Ctrl-C and the connection are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What is known of the training.
struct Followed {
    host: Host,
    program: Option<String>,
    /// Its folder and process, once it runs.
    runs: Option<(PathBuf, u32)>,
    /// How far what it says was printed.
    printed: [u64; LOGS.len()],
    /// Whether it ran to its end, and whether all its heads stopped before.
    ended: Option<(bool, bool)>,
    heads: usize,
}

/// Begins the training `words` at a host, or finds it there, and prints what it prints.
pub fn run(host: Host, words: Vec<String>, out: PathBuf) -> anyhow::Result<ExitCode> {
    interrupt::listen();
    let mut link = Link::start(host.clone(), Arc::new(|| {})).map_err(anyhow::Error::msg)?;
    link.send(Request::Fetch(JOB, Fetch::Detached(Detached { words, out, again: false })));
    let display = Display::new();
    let program = host.program.clone();
    let mut followed =
        Followed { host, program, runs: None, printed: [0; LOGS.len()], ended: None, heads: 0 };
    let mut before = Connection::Connecting(followed.host.clone());
    loop {
        if interrupt::flow().is_break() {
            followed.leave(&display);
            return Ok(interrupt::code());
        }
        let now = link.connection();
        followed.hear_of(&now, &before, &display)?;
        before = now;
        match link.soon(LOOK) {
            Some(Event::Training { news, .. }) => followed.hear(news, &display),
            Some(Event::Failed(_, error)) => {
                return Err(anyhow::Error::new(error).context(format!("on {}", followed.host.place)));
            }
            Some(Event::Finished(_) | Event::Cancelled(_)) => return Ok(followed.end(&display)),
            // Nobody is there: the link returns at once.
            None if !matches!(before, Connection::Connected { .. }) => std::thread::sleep(LOOK),
            Some(_) | None => {}
        }
    }
}

impl Followed {
    fn hear_of(&self, now: &Connection, before: &Connection, display: &Display) -> anyhow::Result<()> {
        match (before, now) {
            (Connection::Connecting(_), Connection::Connected { hello, .. }) => {
                display.say(&format!("{}: {hello}", self.host.place));
            }
            (Connection::Lost { .. }, Connection::Connected { .. }) => display.say("connected again"),
            (_, Connection::Lost { why, stood: false, .. }) => bail!("{why}"),
            (Connection::Connected { .. }, Connection::Lost { .. }) => {
                display.say(
                    "the connection is lost; the training goes on there, and it is connected again by itself",
                );
            }
            (Connection::Lost { why: old, .. }, Connection::Lost { why, .. }) if old != why => {
                display.say(&format!("{}: {why}", now.text().to_lowercase()));
            }
            _ => {}
        }
        Ok(())
    }

    fn hear(&mut self, news: TrainEvent, display: &Display) {
        match news {
            TrainEvent::Detached { folder, pid, began } => {
                if self.runs.is_none() {
                    let what = if began { "started" } else { "found" };
                    let (place, folder) = (&self.host.place, folder.display());
                    display.say(&format!(
                        "{what} as process {pid} of {place}, into {folder}; Ctrl-C leaves it running"
                    ));
                }
                self.runs = Some((folder, pid));
            }
            TrainEvent::Said(told) => {
                let Some(printed) = self.printed.get_mut(told.log).filter(|printed| told.at >= **printed)
                else {
                    return; // it was told before the connection was lost
                };
                *printed = told.at + 1;
                match told.log {
                    0 => display.say(&told.line),
                    _ => display.print(&told.line),
                }
            }
            TrainEvent::Begun(snapshot) => {
                self.heads = snapshot.about.heads.len() * snapshot.about.seeds.len();
            }
            TrainEvent::Ended { finished, failures } => {
                self.ended = Some((finished, failures.len() == self.heads));
            }
            _ => {}
        }
    }

    /// It is followed no longer.
    fn leave(&self, display: &Display) {
        let Some((folder, pid)) = &self.runs else {
            return display
                .say("nothing is known of a training yet; the same command with --resume says more");
        };
        let look = self.look(folder);
        let stop = match self.host.place.as_str() {
            "local" => format!("kill {pid}"),
            place => format!("ssh {place} kill {pid}"),
        };
        display.say(&format!("it goes on there. Look again: {look}"));
        display.say(&format!("stop it, saved: {stop}"));
    }

    /// The command that follows it again.
    fn look(&self, folder: &Path) -> String {
        let program = self.program.as_ref().map_or(String::new(), |path| format!(" --remote-program {path}"));
        format!("ssmprobe train --on {}{program} --resume --out {}", self.host.place, folder.display())
    }

    fn end(&self, display: &Display) -> ExitCode {
        display.clear();
        match self.ended {
            Some((true, false)) => ExitCode::SUCCESS,
            Some((false, _)) => interrupt::code(),
            Some((true, true)) | None => {
                said("the training has come to no result");
                ExitCode::FAILURE
            }
        }
    }
}
