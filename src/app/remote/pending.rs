//! What a worker was asked and has not answered, and what is open there: asked again of the one that comes after it.
//!
//! Whoever asks keeps its own numbers of jobs and entries, so nothing but the answers tells it that the worker is another.

use std::path::PathBuf;

use indexmap::IndexMap;

use crate::app::jobs::detached::Detached;
use crate::app::jobs::tasks::TaskRequest;
use crate::app::jobs::{BackboneId, Compute, Event, Fetch, ImageId, JobId, ProbeId, Request};
use crate::app::user_error::UserError;
use crate::model::data::ImageSource;

/// A job under way as often as this when the connection was lost may be why it was.
const MOST_LOSSES: u32 = 3;

/// A job without its end.
struct Job {
    request: Request,
    /// Whether somebody heard it.
    heard: bool,
    started: bool,
    /// How often the connection was lost while it was under way.
    losses: u32,
    /// Whether it is to end early.
    ends: bool,
}

/// What would have to be asked again.
#[derive(Default)]
pub(super) struct PendingRequests {
    jobs: IndexMap<JobId, Job>,
    backbones: IndexMap<BackboneId, Request>,
    probes: IndexMap<ProbeId, Request>,
    thumbnails: Option<(Vec<(ImageId, ImageSource)>, u32)>,
    runs: Vec<PathBuf>,
    /// Jobs that open again what was open: whoever asked has heard their end long ago.
    reopening: IndexMap<JobId, Request>,
    /// Whether all else waits until the backbones are open again.
    waits: bool,
    /// What is closed meanwhile.
    closed: Vec<Request>,
}

impl Job {
    /// Whether it runs apart from the worker, which only tells of it.
    fn is_apart(&self) -> bool {
        matches!(self.request, Request::Fetch(_, Fetch::Detached(_)))
    }
}

impl PendingRequests {
    /// This is asked; whether who is there `hears` it.
    pub(super) fn sent(&mut self, request: &Request, hears: bool) {
        if self.waits && matches!(request, Request::CloseBackbone(_) | Request::CloseProbe(_)) {
            self.closed.push(request.clone());
        }
        match request {
            Request::Compute(job, _) | Request::Fetch(job, _) | Request::Files(job, _) => {
                let (request, heard) = (request.clone(), hears);
                let asked = Job { request, heard, started: false, losses: 0, ends: false };
                self.jobs.insert(*job, asked);
            }
            Request::Cancel(job) => {
                self.jobs.get_mut(job).into_iter().for_each(|job| job.ends = true);
            }
            Request::CloseBackbone(id) => drop(self.backbones.shift_remove(id)),
            Request::CloseProbe(id) => drop(self.probes.shift_remove(id)),
            Request::Thumbnails { wanted, side } => self.thumbnails = Some((wanted.clone(), *side)),
            Request::Follow(runs) => self.runs.clone_from(runs),
            Request::Pause(..) => {}
        }
    }

    /// This is answered; what of it is news to who asked.
    pub(super) fn heard(&mut self, event: Event) -> Option<Event> {
        if let Some(job) = event.job().filter(|job| self.reopening.contains_key(job)) {
            return match event {
                Event::Failed(_, error) => {
                    self.reopening.shift_remove(&job);
                    let text = format!("Could not be opened again: {}", error.lines.join(": "));
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
            Event::Started(job) => {
                self.jobs.get_mut(job).into_iter().for_each(|job| job.started = true);
            }
            Event::BackboneOpened { job, entry, .. } => {
                if let Some(job) = self.jobs.get(job) {
                    self.backbones.insert(*entry, job.request.clone());
                }
            }
            Event::ProbeOpened { job, entry, .. } => {
                if let Some(job) = self.jobs.get(job) {
                    self.probes.insert(*entry, job.request.clone());
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

    /// Who was asked is gone: what has come to its end by that.
    pub(super) fn lost(&mut self) -> Vec<Event> {
        self.reopening.clear();
        self.closed.clear();
        self.waits = false;
        for job in self.jobs.values_mut().filter(|job| !job.is_apart()) {
            job.losses += u32::from(std::mem::take(&mut job.started));
        }
        self.ended()
    }

    /// Nobody is there to end what is to end: it has.
    pub(super) fn ended(&mut self) -> Vec<Event> {
        let mut ended = Vec::new();
        self.jobs.retain(|id, job| {
            if job.ends && !job.is_apart() {
                ended.push(Event::Cancelled(*id));
            } else if job.losses >= MOST_LOSSES {
                let line = format!("The connection was lost {MOST_LOSSES} times while this was done");
                let remedy = "It may be why: see what Jobs and log says, and ask for it once more";
                ended.push(Event::Failed(*id, UserError::new(line).remedy(remedy)));
            } else {
                return true;
            }
            false
        });
        ended
    }

    /// Whether all else waits until the backbones are open again.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// What is asked first of who is there from now on: the backbones that were open, as nothing is computed without
    /// them; the rest follows once they are ([`rest`](Self::rest)).
    pub(super) fn again(&mut self) -> Vec<Request> {
        let open = self.backbones.values().chain(self.probes.values());
        self.reopening = open.filter_map(|request| Some((request.job()?, request.clone()))).collect();
        // What is being opened anew is not opened as it was first.
        let opens = |request: &Request| match request {
            Request::Fetch(_, Fetch::OpenBackbone { entry, .. }) => Some((0, entry.0)),
            Request::Compute(_, Compute::OpenProbe { entry, .. }) => Some((1, entry.0)),
            _ => None,
        };
        let anew: Vec<_> = self.jobs.values().filter_map(|job| opens(&job.request)).collect();
        self.reopening.retain(|_, old| opens(old).is_some_and(|old| !anew.contains(&old)));
        self.waits = true;
        self.reopening.values().filter(|request| matches!(request, Request::Fetch(..))).cloned().collect()
    }

    /// All that has waited, once the backbones are open again, or cannot be.
    pub(super) fn rest(&mut self) -> Vec<Request> {
        let opens = self.reopening.values().any(|request| matches!(request, Request::Fetch(..)));
        if opens || !std::mem::take(&mut self.waits) {
            return Vec::new();
        }
        let mut requests: Vec<Request> = self.reopening.values().cloned().collect();
        requests.append(&mut self.closed);
        for (id, job) in &mut self.jobs {
            let heard = std::mem::replace(&mut job.heard, true);
            requests.push(match &job.request {
                Request::Fetch(_, Fetch::Detached(asked)) => {
                    let again = asked.again || heard;
                    Request::Fetch(*id, Fetch::Detached(Detached { again, ..asked.clone() }))
                }
                Request::Fetch(_, Fetch::HandIn(asked)) => {
                    let again = asked.again || heard;
                    Request::Fetch(*id, Fetch::HandIn(TaskRequest { again, ..asked.clone() }))
                }
                other => other.clone(),
            });
            if job.ends {
                requests.push(Request::Cancel(*id));
            }
        }
        if let Some((wanted, side)) = &self.thumbnails {
            requests.push(Request::Thumbnails { wanted: wanted.clone(), side: *side });
        }
        requests.push(Request::Follow(self.runs.clone()));
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::info::{BackboneInfo, ProbeInfo};
    use crate::app::jobs::{BackboneOptions, Files};

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

    fn asked(requests: &[Request]) -> PendingRequests {
        let mut asked = PendingRequests::default();
        requests.iter().for_each(|request| asked.sent(request, true));
        asked
    }

    /// All that is asked again, where the backbones open.
    fn again(asked: &mut PendingRequests) -> Vec<Request> {
        let first = asked.again();
        for job in first.iter().filter_map(Request::job) {
            assert!(asked.rest().is_empty());
            assert!(asked.heard(Event::Finished(job)).is_none());
        }
        first.into_iter().chain(asked.rest()).collect()
    }

    fn opened(asked: &mut PendingRequests, job: u64, event: Event) {
        for event in [Event::Started(JobId(job)), event, Event::Finished(JobId(job))] {
            assert!(asked.heard(event).is_some());
        }
    }

    fn open_both() -> PendingRequests {
        let mut asked = asked(&[backbone(1, 10, "one"), probe(2, 10), images(3)]);
        let (info, of_probe) = (BackboneInfo::default(), ProbeInfo::default());
        opened(&mut asked, 1, Event::BackboneOpened { job: JobId(1), entry: BackboneId(10), info });
        opened(&mut asked, 2, Event::ProbeOpened { job: JobId(2), entry: ProbeId(10), info: of_probe });
        asked
    }

    #[test]
    fn what_was_open_and_what_was_asked_is_asked_again_in_this_order() {
        let mut asked = open_both();
        let wanted = |ids: &[u64]| Request::Thumbnails {
            wanted: ids.iter().map(|id| (ImageId(*id), std::path::PathBuf::from("x.png").into())).collect(),
            side: 112,
        };
        asked.sent(&wanted(&[5, 6]), true);
        asked.sent(&Request::Follow(vec!["run".into()]), true);
        let picture = std::sync::Arc::default();
        asked.heard(Event::ThumbnailReady { image: ImageId(5), picture });
        assert!(asked.lost().is_empty());
        let follow = Request::Follow(vec!["run".into()]);
        let all = [backbone(1, 10, "one"), probe(2, 10), images(3), wanted(&[6]), follow];
        assert_eq!(asked.again(), all[..1]);
        // Of what is opened again, nothing is news but that it failed; and only then anything else is asked.
        let info = BackboneInfo::default();
        assert!(asked.heard(Event::BackboneOpened { job: JobId(1), entry: BackboneId(10), info }).is_none());
        assert!(asked.waits() && asked.rest().is_empty());
        assert!(asked.heard(Event::Finished(JobId(1))).is_none());
        assert_eq!(asked.rest(), all[1..]);
        assert!(!asked.waits() && asked.rest().is_empty());
        let failed = asked.heard(Event::Failed(JobId(2), UserError::new("no such file")));
        let Some(Event::Warning { text, .. }) = failed else { panic!("{failed:?}") };
        assert_eq!(text, "Could not be opened again: no such file");
        assert!(asked.heard(Event::Finished(JobId(3))).is_some());
        assert_eq!(again(&mut asked).len(), 4);
    }

    #[test]
    fn what_is_asked_and_closed_while_backbones_open_again_waits_for_them() {
        let mut asked = open_both();
        asked.lost();
        assert_eq!(asked.again(), [backbone(1, 10, "one")]);
        asked.sent(&images(8), false);
        asked.sent(&Request::CloseProbe(ProbeId(10)), false);
        asked.heard(Event::Failed(JobId(1), UserError::new("gone")));
        let follow = Request::Follow(Vec::new());
        let close = Request::CloseProbe(ProbeId(10));
        assert_eq!(asked.rest(), [probe(2, 10), close, images(3), images(8), follow]);
    }

    #[test]
    fn what_was_closed_or_is_opened_anew_is_not_opened_as_it_was() {
        let mut asked = open_both();
        asked.sent(&Request::CloseProbe(ProbeId(10)), true);
        asked.sent(&backbone(7, 10, "two"), true);
        asked.lost();
        assert_eq!(again(&mut asked)[..2], [images(3), backbone(7, 10, "two")]);
    }

    #[test]
    fn what_is_called_off_while_nobody_is_there_has_ended() {
        let mut asked = open_both();
        asked.sent(&Request::Cancel(JobId(3)), true);
        let ended = asked.lost();
        assert!(matches!(ended[..], [Event::Cancelled(JobId(3))]), "{ended:?}");
        assert_eq!(again(&mut asked).len(), 3);
    }

    #[test]
    fn a_training_apart_is_asked_for_as_often_as_it_takes_and_stopped_by_whoever_comes_next() {
        let (words, out) = (vec!["--resume".to_owned()], "run".into());
        let training = |again| {
            let (words, out) = (words.clone(), PathBuf::clone(&out));
            Request::Fetch(JobId(1), Fetch::Detached(Detached { words, out, again }))
        };
        // One that nobody has heard yet is begun, whoever trains there.
        let mut asked = PendingRequests::default();
        asked.sent(&training(false), false);
        assert_eq!(again(&mut asked)[0], training(false));
        for _ in 0..2 * MOST_LOSSES {
            asked.heard(Event::Started(JobId(1)));
            assert!(asked.lost().is_empty());
            assert_eq!(again(&mut asked)[0], training(true));
        }
        asked.sent(&Request::Cancel(JobId(1)), true);
        assert!(asked.ended().is_empty());
        asked.lost();
        assert_eq!(again(&mut asked)[..2], [training(true), Request::Cancel(JobId(1))]);
    }

    #[test]
    fn tasks_that_somebody_has_heard_of_are_not_handed_in_twice() {
        let hand_in = |again| {
            let (words, out) = (vec!["--submit=slurm".to_owned()], "run".into());
            Request::Fetch(JobId(1), Fetch::HandIn(TaskRequest { words, out, again }))
        };
        let mut asked = PendingRequests::default();
        asked.sent(&hand_in(false), false);
        assert_eq!(again(&mut asked)[0], hand_in(false));
        asked.lost();
        assert_eq!(again(&mut asked)[0], hand_in(true));
    }

    #[test]
    fn a_job_that_takes_every_worker_with_it_is_not_asked_for_forever() {
        let mut asked = asked(&[images(3), images(4)]);
        for loss in 1..=MOST_LOSSES {
            asked.heard(Event::Started(JobId(3)));
            let ended = asked.lost();
            match loss {
                MOST_LOSSES => assert!(matches!(&ended[..], [Event::Failed(JobId(3), _)]), "{ended:?}"),
                _ => assert!(ended.is_empty()),
            }
        }
        // The other only waited.
        assert_eq!(again(&mut asked)[0], images(4));
    }
}
