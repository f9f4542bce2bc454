//! The requests that a worker has not answered, and what is open in it: sent again to the worker that follows it.
//!
//! Ids of jobs and entries are assigned by the window, so they stay valid when the worker is replaced.

use std::path::PathBuf;

use indexmap::IndexMap;

use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Compute, Event, Fetch, ImageId, JobId, Request};
use crate::model::data::ImageSource;

/// A job that was running at this many losses of the connection may be their cause, and fails.
const MAX_LOSSES: u32 = 3;

/// A job that has not ended.
struct Job {
    request: Request,
    /// Whether it was sent to a worker.
    delivered: bool,
    started: bool,
    /// How often the connection was lost while it was running.
    losses: u32,
    /// Whether its cancellation was requested, or what it opens was closed meanwhile.
    cancelled: bool,
    /// Whether what it opens was closed meanwhile: if it is opened even so, it counts as closed.
    closed: bool,
}

/// Everything that the next worker must be sent.
#[derive(Default)]
pub(super) struct PendingRequests {
    jobs: IndexMap<JobId, Job>,
    /// The jobs that opened what is open.
    open: IndexMap<JobId, Request>,
    thumbnails: Option<(Vec<(ImageId, ImageSource)>, u32)>,
    runs: Vec<PathBuf>,
    /// Jobs that open again what was open: the window got their end from an earlier worker.
    reopening: IndexMap<JobId, Request>,
    /// How often each of them has begun in a row without an end.
    attempts: IndexMap<JobId, u32>,
    /// Whether all other requests are held back until the backbones are open again.
    pub(super) deferring: bool,
    /// Requests to close entries that came while `deferring`.
    closed: Vec<Request>,
}

impl Job {
    /// Whether it is a process of its own, which the worker only follows.
    fn is_detached(&self) -> bool {
        matches!(self.request, Request::Fetch(_, Fetch::Detached(_)))
    }
}

/// The request that closes what a request opens.
fn closing(request: &Request) -> Option<Request> {
    match request {
        Request::Fetch(_, Fetch::OpenBackbone { entry, .. }) => Some(Request::CloseBackbone(*entry)),
        Request::Compute(_, Compute::OpenProbe { entry, .. }) => Some(Request::CloseProbe(*entry)),
        _ => None,
    }
}

impl PendingRequests {
    /// Records a request; `delivered` says whether it is sent to a worker now.
    pub(super) fn record(&mut self, request: &Request, delivered: bool) {
        match request {
            Request::Compute(job, _) | Request::Fetch(job, _) | Request::Files(job, _) => {
                let request = request.clone();
                let (started, losses, cancelled, closed) = Default::default();
                self.jobs.insert(*job, Job { request, delivered, started, losses, cancelled, closed });
            }
            Request::Cancel(job) => self.jobs.get_mut(job).into_iter().for_each(|job| job.cancelled = true),
            Request::CloseBackbone(_) | Request::CloseProbe(_) => {
                let closes = |open: &Request| closing(open).as_ref() == Some(request);
                self.open.retain(|_, open| !closes(open));
                let jobs = self.jobs.values_mut().filter(|job| closes(&job.request));
                jobs.for_each(|job| (job.closed, job.cancelled) = (true, true));
                self.closed.extend(self.deferring.then(|| request.clone()));
            }
            Request::Thumbnails { wanted, side } => self.thumbnails = Some((wanted.clone(), *side)),
            Request::Follow(runs) => self.runs.clone_from(runs),
            Request::Pause(..) => {}
        }
    }

    /// Records an event; returns what of it the window gets: of jobs that open again, failures and warnings alone.
    pub(super) fn receive(&mut self, event: Event) -> Option<Event> {
        if let Some(job) = event.job().filter(|job| self.reopening.contains_key(job)) {
            return match event {
                Event::Started(_) => {
                    *self.attempts.entry(job).or_default() += 1;
                    None
                }
                Event::Failed(_, error) => {
                    self.reopening.shift_remove(&job);
                    let text = format!("Could not be reopened: {}", error.one_line());
                    Some(Event::Warning { job, text })
                }
                Event::Finished(_) | Event::Cancelled(_) => {
                    self.reopening.shift_remove(&job);
                    None
                }
                Event::Warning { .. } => Some(event),
                _ => None,
            };
        }
        match &event {
            Event::Started(job) => self.jobs.get_mut(job).into_iter().for_each(|job| job.started = true),
            Event::BackboneOpened { job: id, .. } | Event::ProbeOpened { job: id, .. } => {
                if let Some(job) = self.jobs.get(id).filter(|job| !job.closed) {
                    self.open.retain(|_, open| closing(open) != closing(&job.request));
                    self.open.insert(*id, job.request.clone());
                }
            }
            Event::ThumbnailReady { image, .. } | Event::ThumbnailFailed { image, .. } => {
                if let Some((wanted, _)) = &mut self.thumbnails {
                    wanted.retain(|(wanted, _)| wanted != image);
                }
            }
            Event::Finished(job) | Event::Failed(job, _) | Event::Cancelled(job) => {
                self.jobs.shift_remove(job);
            }
            _ => {}
        }
        Some(event)
    }

    /// Records that the worker is lost; returns the ends of the jobs that are not sent again, and warnings of what is not opened again.
    pub(super) fn lost(&mut self) -> Vec<Event> {
        for job in self.jobs.values_mut().filter(|job| !job.is_detached()) {
            job.losses += u32::from(std::mem::take(&mut job.started));
        }
        let mut ended = self.take_ended();
        self.attempts.retain(|job, attempts| {
            let opens = self.reopening.contains_key(job);
            if opens && *attempts >= MAX_LOSSES {
                self.open.shift_remove(job);
                let why = format!("the connection was lost {MAX_LOSSES} times while it was opening");
                let text =
                    format!("Could not be reopened: {why}. It may be the cause; open it again to retry");
                ended.push(Event::Warning { job: *job, text });
            }
            opens && *attempts < MAX_LOSSES
        });
        self.reopening.clear();
        self.closed.clear();
        self.deferring = false;
        ended
    }

    /// Removes the jobs that were cancelled or failed too often, while no worker runs them; returns their last events.
    pub(super) fn take_ended(&mut self) -> Vec<Event> {
        let mut ended = Vec::new();
        self.jobs.retain(|id, job| {
            if job.cancelled && !job.is_detached() {
                ended.push(Event::Cancelled(*id));
            } else if job.losses >= MAX_LOSSES {
                let line = format!("The connection was lost {MAX_LOSSES} times while this was running");
                let remedy = "This may be the cause: check Jobs and log before trying again";
                ended.push(Event::Failed(*id, UserError::new(line).remedy(remedy)));
            } else {
                return true;
            }
            false
        });
        ended
    }

    /// Removes the trainings that the worker itself runs, which end with it; returns their jobs.
    pub(super) fn take_trainings(&mut self) -> Vec<JobId> {
        let trains =
            |job: &Job| matches!(job.request, Request::Fetch(_, Fetch::Begin(_) | Fetch::Resume { .. }));
        self.jobs.extract_if(.., |_, job| trains(job)).map(|(id, _)| id).collect()
    }

    /// The first requests to a new worker: they open the backbones again, which every computation needs. The others follow
    /// once they are open ([`deferred_requests`](Self::deferred_requests)).
    pub(super) fn reopen_requests(&mut self) -> Vec<Request> {
        // An entry that a pending job opens is not opened as it was before.
        let anew: Vec<_> = self.jobs.values().map(|job| closing(&job.request)).collect();
        self.reopening.clone_from(&self.open);
        self.reopening.retain(|_, old| !anew.contains(&closing(old)));
        self.deferring = true;
        self.reopening.values().filter(|request| matches!(request, Request::Fetch(..))).cloned().collect()
    }

    /// All other requests, once every backbone is open again or has failed to open; empty before, and after the first time.
    pub(super) fn deferred_requests(&mut self) -> Vec<Request> {
        let opens = self.reopening.values().any(|request| matches!(request, Request::Fetch(..)));
        if opens || !std::mem::take(&mut self.deferring) {
            return Vec::new();
        }
        let mut requests: Vec<Request> = self.reopening.values().cloned().collect();
        requests.append(&mut self.closed);
        for (id, job) in &mut self.jobs {
            requests.push(match &job.request {
                Request::Fetch(_, fetch) if job.delivered => Request::Fetch(*id, fetch.repeated()),
                other => other.clone(),
            });
            job.delivered = true;
            requests.extend(job.cancelled.then_some(Request::Cancel(*id)));
        }
        let thumbnails = self.thumbnails.clone();
        requests.extend(thumbnails.map(|(wanted, side)| Request::Thumbnails { wanted, side }));
        requests.push(Request::Follow(self.runs.clone()));
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::info::{BackboneInfo, ProbeInfo};
    use crate::app::jobs::{BackboneId, BackboneOptions, Files, ProbeId, TrainCommand};

    fn backbone(job: u64, entry: u64, source: &str) -> Request {
        let (entry, options) = (BackboneId(entry), BackboneOptions::default());
        let (source, device) = (source.to_owned(), "cpu".to_owned());
        Request::Fetch(JobId(job), Fetch::OpenBackbone { entry, source, device, options })
    }

    fn probe(job: u64, entry: u64) -> Request {
        let (entry, path) = (ProbeId(entry), "gap.safetensors".into());
        Request::Compute(JobId(job), Compute::OpenProbe { entry, path })
    }

    fn images(job: u64) -> Request {
        Request::Files(JobId(job), Files::OpenImages { paths: vec!["x.png".into()] })
    }

    fn recorded(requests: &[Request]) -> PendingRequests {
        let mut pending = PendingRequests::default();
        requests.iter().for_each(|request| pending.record(request, true));
        pending
    }

    /// All requests to a new worker, if the backbones open.
    fn all_requests(pending: &mut PendingRequests) -> Vec<Request> {
        let first = pending.reopen_requests();
        for job in first.iter().filter_map(Request::job) {
            assert!(pending.deferred_requests().is_empty());
            assert!(pending.receive(Event::Finished(job)).is_none());
        }
        first.into_iter().chain(pending.deferred_requests()).collect()
    }

    fn opened(pending: &mut PendingRequests, job: u64, event: Event) {
        for event in [Event::Started(JobId(job)), event, Event::Finished(JobId(job))] {
            assert!(pending.receive(event).is_some());
        }
    }

    fn open_both() -> PendingRequests {
        let mut pending = recorded(&[backbone(1, 10, "one"), probe(2, 10), images(3)]);
        let (info, of_probe) = (BackboneInfo::default(), ProbeInfo::default());
        opened(&mut pending, 1, Event::BackboneOpened { job: JobId(1), entry: BackboneId(10), info });
        opened(&mut pending, 2, Event::ProbeOpened { job: JobId(2), entry: ProbeId(10), info: of_probe });
        pending
    }

    #[test]
    fn what_was_open_and_what_was_asked_is_asked_again_in_this_order() {
        let mut pending = open_both();
        let wanted = |ids: &[u64]| Request::Thumbnails {
            wanted: ids.iter().map(|id| (ImageId(*id), std::path::PathBuf::from("x.png").into())).collect(),
            side: 112,
        };
        pending.record(&wanted(&[5, 6]), true);
        pending.record(&Request::Follow(vec!["run".into()]), true);
        let picture = std::sync::Arc::default();
        pending.receive(Event::ThumbnailReady { image: ImageId(5), picture });
        assert!(pending.lost().is_empty());
        let follow = Request::Follow(vec!["run".into()]);
        let all = [backbone(1, 10, "one"), probe(2, 10), images(3), wanted(&[6]), follow];
        assert_eq!(pending.reopen_requests(), all[..1]);
        // Of jobs that reopen something, only failures are passed on; the other requests follow once the backbones are open.
        let info = BackboneInfo::default();
        assert!(
            pending.receive(Event::BackboneOpened { job: JobId(1), entry: BackboneId(10), info }).is_none()
        );
        assert!(pending.deferring && pending.deferred_requests().is_empty());
        assert!(pending.receive(Event::Finished(JobId(1))).is_none());
        assert_eq!(pending.deferred_requests(), all[1..]);
        assert!(!pending.deferring && pending.deferred_requests().is_empty());
        let failed = pending.receive(Event::Failed(JobId(2), UserError::new("no such file")));
        let Some(Event::Warning { text, .. }) = failed else { panic!("{failed:?}") };
        assert_eq!(text, "Could not be reopened: no such file");
        assert!(pending.receive(Event::Finished(JobId(3))).is_some());
        assert_eq!(all_requests(&mut pending).len(), 4);
    }

    #[test]
    fn what_is_asked_and_closed_while_backbones_open_again_waits_for_them() {
        let mut pending = open_both();
        pending.lost();
        assert_eq!(pending.reopen_requests(), [backbone(1, 10, "one")]);
        pending.record(&images(8), false);
        pending.record(&Request::CloseProbe(ProbeId(10)), false);
        pending.receive(Event::Failed(JobId(1), UserError::new("gone")));
        let follow = Request::Follow(Vec::new());
        let close = Request::CloseProbe(ProbeId(10));
        assert_eq!(pending.deferred_requests(), [probe(2, 10), close, images(3), images(8), follow]);
    }

    #[test]
    fn what_was_closed_or_is_opened_anew_is_not_opened_as_it_was() {
        let mut pending = open_both();
        pending.record(&Request::CloseProbe(ProbeId(10)), true);
        pending.record(&backbone(7, 10, "two"), true);
        // Two that are closed before they are open: one opens all the same.
        for (job, entry) in [(8, 11), (9, 12)] {
            pending.record(&probe(job, entry), true);
            pending.record(&Request::CloseProbe(ProbeId(entry)), true);
        }
        let info = ProbeInfo::default();
        opened(&mut pending, 8, Event::ProbeOpened { job: JobId(8), entry: ProbeId(11), info });
        assert!(matches!(pending.lost()[..], [Event::Cancelled(JobId(9))]));
        assert_eq!(all_requests(&mut pending)[..2], [images(3), backbone(7, 10, "two")]);
    }

    #[test]
    fn what_is_called_off_while_nobody_is_there_has_ended() {
        let mut pending = open_both();
        pending.record(&Request::Cancel(JobId(3)), true);
        let ended = pending.lost();
        assert!(matches!(ended[..], [Event::Cancelled(JobId(3))]), "{ended:?}");
        assert_eq!(all_requests(&mut pending).len(), 3);
    }

    #[test]
    fn a_training_apart_is_asked_for_as_often_as_it_takes_and_stopped_by_whoever_comes_next() {
        let (words, out) = (vec!["--resume".to_owned()], "run".into());
        let training = |again| {
            let (words, out) = (words.clone(), PathBuf::clone(&out));
            Request::Fetch(JobId(1), Fetch::Detached(TrainCommand { words, out, again }))
        };
        // One that was never delivered is begun, whoever trains there.
        let mut pending = PendingRequests::default();
        pending.record(&training(false), false);
        assert_eq!(all_requests(&mut pending)[0], training(false));
        for _ in 0..2 * MAX_LOSSES {
            pending.receive(Event::Started(JobId(1)));
            assert!(pending.lost().is_empty());
            assert_eq!(all_requests(&mut pending)[0], training(true));
        }
        pending.record(&Request::Cancel(JobId(1)), true);
        assert!(pending.take_ended().is_empty());
        pending.lost();
        assert_eq!(all_requests(&mut pending)[..2], [training(true), Request::Cancel(JobId(1))]);
    }

    #[test]
    fn tasks_that_somebody_has_heard_of_are_not_submitted_twice() {
        let submit = |again| {
            let (words, out) = (vec!["--submit=slurm".to_owned()], "run".into());
            Request::Fetch(JobId(1), Fetch::SubmitTasks(TrainCommand { words, out, again }))
        };
        let mut pending = PendingRequests::default();
        pending.record(&submit(false), false);
        assert_eq!(all_requests(&mut pending)[0], submit(false));
        pending.lost();
        assert_eq!(all_requests(&mut pending)[0], submit(true));
    }

    #[test]
    fn a_job_that_takes_every_worker_with_it_is_not_asked_for_forever() {
        let mut pending = recorded(&[images(3), images(4)]);
        for loss in 1..=MAX_LOSSES {
            pending.receive(Event::Started(JobId(3)));
            let ended = pending.lost();
            match loss {
                MAX_LOSSES => assert!(matches!(&ended[..], [Event::Failed(JobId(3), _)]), "{ended:?}"),
                _ => assert!(ended.is_empty()),
            }
        }
        // The other job never started.
        assert_eq!(all_requests(&mut pending)[0], images(4));
    }

    #[test]
    fn what_takes_every_worker_with_it_as_it_opens_again_is_not_opened_for_ever() {
        let mut pending = open_both();
        assert!(pending.lost().is_empty());
        for loss in 1..=MAX_LOSSES {
            assert_eq!(pending.reopen_requests(), [backbone(1, 10, "one")]);
            assert!(pending.receive(Event::Started(JobId(1))).is_none());
            let ended = pending.lost();
            match loss {
                MAX_LOSSES => {
                    assert!(matches!(&ended[..], [Event::Warning { job: JobId(1), .. }]), "{ended:?}");
                }
                _ => assert!(ended.is_empty()),
            }
        }
        // The probe has done nothing.
        assert_eq!(all_requests(&mut pending)[0], probe(2, 10));
    }
}
