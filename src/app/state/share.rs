//! Findings on their way into files: what their probes make of their images is asked for finding by finding, so that looks
//! are answered between them; the window writes the files once all of it is there.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::jobs::{JobKind, Severity};
use super::library::Probe;
use super::{Finding, FindingView, State};
use crate::app::anonymous::ShortNames;
use crate::app::jobs::regions::RegionSource;
use crate::app::jobs::{
    ClassChoice, ColumnId, Compute, Explain, ExplainItem, ExplainResult, JobId, Progress, Request, Unit,
};
use crate::app::user_error::UserError;
use crate::model::trace::Trace;
use crate::viz::export::MADE_BY;

/// What a person wants to share.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// What goes in, in this order.
    pub findings: Vec<Finding>,
    /// What the page is called.
    pub title: String,
    /// As what.
    pub kind: ShareKind,
    /// In which theme.
    pub theme: ShareTheme,
    /// Classes that evidence is for besides that of each finding: whoever reads a page chooses among them.
    pub classes: Vec<String>,
    /// The file or the folder to write.
    pub to: PathBuf,
}

/// As what findings are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareKind {
    /// One page that any browser shows.
    Page,
    /// A folder of figures.
    Figures,
}

/// In which theme they are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareTheme {
    /// A page in that of who reads it; figures for print.
    Own,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

/// A finding with all that is drawn of it.
#[derive(Clone, Debug)]
pub struct SharedFinding {
    /// It.
    pub finding: Finding,
    /// What its probes make of its images; no folder of this machine stands in them.
    pub traces: Vec<Arc<Trace>>,
}

/// Everything that is to be written.
#[derive(Debug)]
pub struct Shared {
    /// What was asked for.
    pub share: Share,
    /// What goes in.
    pub findings: Vec<SharedFinding>,
    /// The true classes of images, by the names that traces have.
    pub truth: Vec<(String, String)>,
    /// What is known of where it comes from: name and value.
    pub facts: Vec<(String, String)>,
}

/// Findings that are being shared.
pub(super) struct Sharing {
    /// What the window shows of it.
    pub job: JobId,
    /// The job that explains a finding for one class, and what it was asked.
    asking: Option<(JobId, Vec<ExplainItem>)>,
    /// What is still to be asked of that finding: one class after the other.
    waiting: VecDeque<Explain>,
    share: Share,
    /// The findings, the last of which may still be asked for.
    begun: Vec<SharedFinding>,
    truth: Vec<(String, String)>,
    /// What the images are called.
    names: ShortNames,
    /// All of it, once it is there.
    ready: Option<Arc<Shared>>,
}

impl Sharing {
    /// The job that explains a finding now.
    pub fn asking(&self) -> Option<JobId> {
        self.asking.as_ref().map(|(job, _)| *job)
    }
}

impl State {
    /// What is to be written, and the job that it is of.
    pub fn shared(&self) -> Option<(JobId, &Arc<Shared>)> {
        self.sharing.as_ref().and_then(|sharing| Some((sharing.job, sharing.ready.as_ref()?)))
    }

    /// Whether something is being shared.
    pub fn is_sharing(&self) -> bool {
        self.sharing.is_some()
    }

    pub(super) fn share(&mut self, share: Share) -> Vec<Request> {
        if self.is_sharing() {
            self.note(Severity::Warning, "Something is being shared already: wait for it, or cancel it");
            return Vec::new();
        }
        let job = self.begin(JobKind::Share, format!("Sharing {}", share.to.display()));
        let (begun, truth, waiting) = (Vec::new(), Vec::new(), VecDeque::new());
        let names = ShortNames::default();
        self.sharing = Some(Sharing { job, asking: None, waiting, share, begun, truth, names, ready: None });
        self.request_next_share()
    }

    /// Asks for the next class of a finding, or the next finding; where there is none, all of it is ready.
    fn request_next_share(&mut self) -> Vec<Request> {
        let Some(mut sharing) = self.sharing.take() else { return Vec::new() };
        while sharing.waiting.is_empty()
            && let Some(finding) = sharing.share.findings.get(sharing.begun.len()).cloned()
        {
            sharing.waiting = rounds(self.explain_of(&finding), &sharing.share.classes);
            sharing.begun.push(SharedFinding { finding, traces: Vec::new() });
        }
        let request = sharing.waiting.pop_front().map(|explain| {
            let asking = JobId(self.fresh());
            sharing.asking = Some((asking, explain.asked.clone()));
            Request::Compute(asking, Compute::ExplainMany(explain))
        });
        let done = sharing.begun.len() - usize::from(request.is_some());
        let (done, total) = (done as u64, sharing.share.findings.len() as u64);
        if let Some(job) = self.jobs.get_mut(&sharing.job) {
            let what = if request.is_some() { "Explaining findings" } else { "Writing" }.to_owned();
            let (total, unit, elapsed) = (Some(total), Unit::Files, Duration::ZERO);
            job.started = true;
            job.progress = Some(Progress { what, done, total, unit, elapsed });
        }
        let job = sharing.job;
        if request.is_none() {
            let findings: Vec<SharedFinding> = std::mem::take(&mut sharing.begun);
            let (share, truth) = (sharing.share.clone(), std::mem::take(&mut sharing.truth));
            let nothing = findings.iter().all(|one| one.traces.is_empty());
            sharing.ready = Some(Arc::new(Shared { share, findings, truth, facts: self.share_facts() }));
            if nothing {
                self.sharing = Some(sharing);
                let error = UserError::new("None of the findings could be explained")
                    .remedy("Show one of them: its pane says what is missing");
                self.end_share(job, Err(error));
                return Vec::new();
            }
        }
        self.sharing = Some(sharing);
        request.into_iter().collect()
    }

    /// What a finding asks of its probes; of one without probes those that are shown. Says which are left out.
    fn explain_of(&mut self, finding: &Finding) -> Explain {
        let now = || self.finding_now(serde_json::Value::Null, None)?.view;
        let view: FindingView = *finding.view.clone().or_else(now).unwrap_or_default();
        let (mut asked, mut missing) = (Vec::new(), Vec::new());
        for (at, column) in (0..).zip(&view.columns) {
            let probe = self.library.probes.iter().find(|(_, probe)| probe.path == column.probe);
            let open = probe.and_then(|(id, _)| Some((*id, self.library.backbone_of(*id)?.0)));
            let Some((probe, backbone)) = open else {
                missing.push(Probe::name_of(&column.probe));
                continue;
            };
            let image = column.image.clone().unwrap_or_else(|| finding.image.clone());
            let draw = self.library.images.at(&image).map_or(0, |id| self.library.draw(id));
            let (column, change) = (ColumnId(at), column.change.clone());
            asked.push(ExplainItem { column, image, backbone, probe, change, draw });
        }
        if !missing.is_empty() {
            let (name, missing) = (finding.name(), missing.join(", "));
            let text =
                format!("Left out of {name}: {missing}. Open the probes and their backbone, and share again");
            self.note(Severity::Warning, text);
        }
        let regions = RegionSource::new(self.masks.clone());
        Explain { asked, class: view.class, settings: view.explain.without_attributions(), regions }
    }

    /// A finding is explained.
    pub(super) fn shared_explained(&mut self, job: JobId, seen: &[ExplainResult]) {
        let Some(mut sharing) = self.sharing.take_if(|sharing| sharing.asking() == Some(job)) else { return };
        let (_, asked) = sharing.asking.take().unwrap_or((job, Vec::new()));
        let Some(SharedFinding { finding, traces }) = sharing.begun.last_mut() else { return };
        let earlier = traces.len();
        for (item, answer) in asked.iter().zip(seen) {
            let trace = match &answer.result {
                Ok(trace) => trace,
                Err(error) => {
                    self.note(Severity::Warning, format!("Left out of {}: {error}", finding.name()));
                    continue;
                }
            };
            // Files that are sent away say nothing of the folders of this machine.
            let probe = format!("{}.safetensors", self.library.probe_name(item.probe));
            let name = sharing.names.name(&item.image.to_string());
            let trace = Trace { image: name, probe, ..Trace::clone(trace) };
            let image = self.library.images.at(&item.image).and_then(|id| self.library.images.get(&id));
            let class = image.and_then(|image| self.library.true_class(image));
            sharing.truth.extend(class.map(|class| (trace.image.clone(), class.to_owned())));
            // The class that a probe predicts may be one of the others.
            if !traces[..earlier].iter().any(|known| is_of_one_class(known, &trace)) {
                traces.push(Arc::new(trace));
            }
        }
        sharing.asking = Some((job, Vec::new()));
        self.sharing = Some(sharing);
    }

    /// A job is over: the next finding follows that which it explained; where it failed, nothing is shared.
    pub(super) fn end_shared(&mut self, job: JobId, error: Option<&UserError>) -> Vec<Request> {
        let Some(sharing) = self.sharing.as_mut().filter(|sharing| sharing.asking() == Some(job)) else {
            return Vec::new();
        };
        let unanswered = sharing.asking.take().is_some_and(|(_, asked)| !asked.is_empty());
        let own = sharing.job;
        if error.is_some() || unanswered {
            let error = error.cloned().unwrap_or_else(|| UserError::new("The worker gave no answer"));
            self.end_share(own, Err(error));
            return Vec::new();
        }
        self.request_next_share()
    }

    /// What was shared is written, or could not be.
    pub fn end_share(&mut self, job: JobId, written: Result<PathBuf, UserError>) {
        if self.sharing.take_if(|sharing| sharing.job == job).is_none() {
            return; // it was called off
        }
        match written {
            Ok(path) => {
                self.jobs.shift_remove(&job);
                self.note(Severity::Info, format!("Wrote {}", path.display()));
                if let Some(toast) = self.toasts.last_mut() {
                    toast.file = Some(path);
                }
            }
            Err(error) => {
                let remedy = error.remedy.as_deref().map_or(String::new(), |remedy| format!("\n{remedy}"));
                self.note(
                    Severity::Error,
                    format!("Could not be shared: {}{remedy}", error.lines.join(": ")),
                );
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.error = Some(error);
                }
            }
        }
    }

    /// What open backbones and probes are, for whoever gets the files.
    fn share_facts(&self) -> Vec<(String, String)> {
        let backbones = self.library.open_backbones().flat_map(|(_, info)| {
            [("Backbone", info.id.clone()), ("Its weights (SHA-256)", info.fingerprint.clone())]
        });
        let facts = backbones.map(|(name, value)| (name.to_owned(), value));
        facts.chain([("Page".to_owned(), MADE_BY.to_owned())]).collect()
    }
}

/// What is asked of a finding: its own class first, then each of the others.
fn rounds(own: Explain, classes: &[String]) -> VecDeque<Explain> {
    if own.asked.is_empty() {
        return VecDeque::new();
    }
    let others = classes.iter().map(|name| ClassChoice::Named(name.clone()));
    let others = others.filter(|class| *class != own.class).map(|class| Explain { class, ..own.clone() });
    let others: Vec<Explain> = others.collect();
    std::iter::once(own).chain(others).collect()
}

/// Whether two traces are of the same image, probe and reading, for the same class.
fn is_of_one_class(one: &Trace, other: &Trace) -> bool {
    let what = |trace: &Trace| (trace.image.clone(), trace.probe.clone(), trace.evidence.class);
    what(one) == what(other) && one.reading == other.reading
}
