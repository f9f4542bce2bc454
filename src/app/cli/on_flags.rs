//! Where a verb computes: in this process, or in a worker elsewhere. What it finds is told here either way.

use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;

use crate::app::jobs::engine::{Engine, WorkerEnv};
use crate::app::jobs::{Compute, Event, EventSink, JobError, JobId, Reporter, Request};
use crate::app::remote::{Remote, RemoteError, RemoteErrorKind, WorkerAddress};
use crate::app::state::connection::Host;
use crate::app::terminal::reporter::TerminalReporter;

/// A verb is one job.
const JOB: JobId = JobId(1);
/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Where to compute.
#[derive(Args, Default)]
pub struct OnFlags {
    /// Compute on another machine, which `ssh` reaches without asking for a password and which has this program. Paths are of
    /// that machine. What `inspect` and `eval` find is written here; tokens (`extract`) and runs (`train`, `sweep`) stay
    /// there. local: in a process of its own on this one.
    #[arg(long, value_name = "ssh://[USER@]HOST[:PORT]|local")]
    on: Option<WorkerAddress>,
    /// The program on that machine, where it is not on the PATH there.
    #[arg(long, value_name = "PATH", requires = "on")]
    remote_program: Option<String>,
}

/// Who hears what a job finds, from several threads, with the bar to be lifted while something is printed.
pub type OnEvent<'a> = dyn Fn(Event, &ProgressBar) -> anyhow::Result<()> + Sync + 'a;

impl OnFlags {
    /// Who computes, if it is not this program.
    pub fn host(&self) -> Option<Host> {
        Some(Host { place: self.on.as_ref()?.word(), program: self.remote_program.clone() })
    }

    /// Does a job; whether it came to its end, and was not stopped by Ctrl-C.
    pub fn perform(&self, job: Compute, hear: &OnEvent<'_>) -> anyhow::Result<bool> {
        let mut reporter = TerminalReporter::new();
        let bar = reporter.display.bar();
        let tell = |event| hear(event, &bar);
        let ended = match &self.on {
            None => job.run(JOB, &mut Engine::new(WorkerEnv::default()), &mut reporter, &tell),
            Some(place) => self.far(place, job, &mut reporter, &tell),
        };
        let may_be_asked_again = |error: &anyhow::Error| {
            let fault = error.downcast_ref::<RemoteError>().map(|error| &error.fault);
            matches!(fault, Some(RemoteErrorKind::Lost { .. } | RemoteErrorKind::Damaged { .. }))
        };
        if matches!(&ended, Err(JobError::Failed(error)) if may_be_asked_again(error)) {
            reporter.display.say("what came until then is kept; give the same command again");
        }
        Ok(reporter.end(ended)?.is_some())
    }

    fn far(
        &self,
        place: &WorkerAddress,
        job: Compute,
        reporter: &mut TerminalReporter,
        tell: &EventSink<'_>,
    ) -> Result<(), JobError> {
        let lost = |error: RemoteError| JobError::failed(error);
        let mut remote = Remote::start(place, self.remote_program.as_deref()).map_err(lost)?;
        if let Some(hello) = &remote.hello {
            reporter.display.say(&format!("{place}: {hello}"));
        }
        // Once it is asked to stop, it is waited for: it tells what was done until then.
        let cancel = reporter.cancel().clone();
        let _working = cancel.working();
        remote.send(&Request::Compute(JOB, job)).map_err(lost)?;
        let (mut told_to_stop, mut failed) = (false, None);
        loop {
            if (cancel.is_cancelled() || failed.is_some()) && !told_to_stop {
                told_to_stop = true;
                remote.send(&Request::Cancel(JOB)).map_err(lost)?;
            }
            let end = match remote.soon(LOOK).map_err(lost)? {
                Some(Event::Progress(_, progress)) => {
                    reporter.display.count(&progress);
                    continue;
                }
                Some(Event::Warning { text, .. }) => {
                    reporter.warn(text);
                    continue;
                }
                Some(Event::Failed(_, error)) if told_to_stop && failed.is_none() => {
                    reporter.warn(error.to_string()); // a download that was ended, say
                    Err(JobError::Cancelled)
                }
                Some(Event::Failed(_, error)) => {
                    Err(JobError::Failed(anyhow::Error::new(error).context(format!("on {place}"))))
                }
                Some(Event::Cancelled(_)) => Err(JobError::Cancelled),
                Some(Event::Finished(_)) => Ok(()),
                Some(Event::Memory(_)) | None => continue,
                Some(event) if failed.is_none() => {
                    failed = tell(event).err();
                    continue;
                }
                Some(_) => continue,
            };
            return failed.map_or(end, |error| Err(JobError::Failed(error)));
        }
    }
}
