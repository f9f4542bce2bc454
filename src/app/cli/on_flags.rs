//! Where a verb computes: in this process, or in a worker on this or another machine. This process prints the results.

use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;

use crate::app::jobs::engine::{Engine, WorkerEnv};
use crate::app::jobs::{Compute, Event, JobError, JobId, Reporter, Request, Sink};
use crate::app::remote::{Remote, RemoteError, RemoteErrorKind, WorkerAddress};
use crate::app::state::connection::Host;
use crate::app::terminal::reporter::TerminalReporter;

/// A verb is one job.
pub(super) const JOB: JobId = JobId(1);
/// Time between two checks for Ctrl-C, and of a connection.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Where to compute.
#[derive(Args, Default)]
pub struct OnFlags {
    /// Compute on another machine that `ssh` reaches without asking for a password and that has this program. Paths
    /// are on that machine: relative ones, and '~/...' in quotes, begin in the home folder there. Results of `inspect`
    /// and `eval` are written here; tokens (`extract`) and runs (`train`, `sweep`) stay there. local: in a separate
    /// process on this machine.
    // Required as a group: clap drops the requirement of a flag where that flag conflicts with another one.
    #[arg(long, value_name = "ssh://[USER@]HOST[:PORT]|local", group = "place")]
    on: Option<WorkerAddress>,
    /// Path of the program on that machine, if it is neither in ~/.local/bin nor on the PATH there.
    #[arg(long, value_name = "PATH", requires = "place")]
    remote_program: Option<String>,
}

/// Receives a job's events, from several threads; the bar is to be suspended while something is printed.
pub type OnEvent<'a> = dyn Fn(Event, &ProgressBar) -> anyhow::Result<()> + Sync + 'a;

impl OnFlags {
    /// The worker that computes, if not this process.
    pub fn host(&self) -> Option<Host> {
        Some(Host { place: self.on.as_ref()?.word(), program: self.program() })
    }

    /// The path of the program on the other machine, if given.
    pub fn program(&self) -> Option<String> {
        self.remote_program.clone()
    }

    /// Runs a job; returns whether it ran to its end, `false` if Ctrl-C stopped it.
    pub fn perform(&self, job: Compute, on_event: &OnEvent<'_>) -> anyhow::Result<bool> {
        let mut reporter = TerminalReporter::new();
        let bar = reporter.display.bar();
        let tell = |event| on_event(event, &bar);
        let ended = match &self.on {
            None => job.run(JOB, &mut Engine::new(WorkerEnv::default()), &mut reporter, &tell),
            Some(place) => self.perform_remotely(place, job, &mut reporter, &tell),
        };
        let is_disconnected = |error: &anyhow::Error| {
            let kind = error.downcast_ref::<RemoteError>().map(|error| &error.kind);
            use RemoteErrorKind::{Damaged, Killed, Lost};
            matches!(kind, Some(Lost { .. } | Killed { .. } | Damaged { .. }))
        };
        if matches!(&ended, Err(JobError::Failed(error)) if is_disconnected(error)) {
            reporter.display.say("results so far are kept; run the same command again");
        }
        Ok(reporter.end(ended)?.is_some())
    }

    fn perform_remotely(
        &self,
        place: &WorkerAddress,
        job: Compute,
        reporter: &mut TerminalReporter,
        tell: &Sink<'_, Event>,
    ) -> Result<(), JobError> {
        let mut remote = Remote::start(place, self.remote_program.as_deref())?;
        if let Some(hello) = &remote.hello {
            reporter.display.say(&format!("{place}: {hello}"));
        }
        // After a cancellation the worker is waited for: it still sends what it finished.
        let cancel = reporter.cancel().clone();
        let _working = cancel.working();
        remote.send(Request::Compute(JOB, job));
        let (mut cancel_sent, mut failure) = (false, None);
        loop {
            if (cancel.is_cancelled() || failure.is_some()) && !cancel_sent {
                cancel_sent = true;
                remote.send(Request::Cancel(JOB));
            }
            let end = match remote.recv_timeout(POLL_INTERVAL)? {
                Some(Event::Progress(_, progress)) => {
                    reporter.display.count(&progress);
                    continue;
                }
                Some(Event::Warning { text, .. }) => {
                    reporter.warn(text);
                    continue;
                }
                Some(Event::Failed(_, error)) if cancel_sent && failure.is_none() => {
                    reporter.warn(error.one_line()); // a download that was ended, say
                    Err(JobError::Cancelled)
                }
                Some(Event::Failed(_, error)) => {
                    Err(anyhow::Error::new(error).context(format!("on {place}")).into())
                }
                Some(Event::Cancelled(_)) => Err(JobError::Cancelled),
                Some(Event::Finished(_)) => Ok(()),
                Some(Event::Memory(_)) | None => continue,
                Some(event) if failure.is_none() => {
                    failure = tell(event).err();
                    continue;
                }
                Some(_) => continue,
            };
            return failure.map_or(end, |error| Err(error.into()));
        }
    }
}
