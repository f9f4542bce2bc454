//! Sharing findings as files: they are explained one by one, so that other explanations are answered in between; the window
//! writes the files once all traces have arrived.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::jobs::{JobKind, Severity};
use super::library::Probe;
use super::{Finding, FindingView, State};
use crate::app::anonymous::{ShortNames, anonymous};
use crate::app::jobs::regions::RegionSource;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{
    ClassChoice, ColumnId, Compute, Explain, ExplainItem, ExplainResult, JobId, Progress, Request, Unit,
};
use crate::model::trace::{Attribution, Trace};
use crate::viz::Figure as _;
use crate::viz::draw::theme::FileTheme;
use crate::viz::export::{ExportFormat, MADE_BY};
use crate::viz::figures::token_map::TokenMap;

/// A request to share findings.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The findings, in order. A folder has the figures of the rows of a finding's comparison, as differences where it shows these.
    pub findings: Vec<Finding>,
    /// The title of the page.
    pub title: String,
    /// The kind of output.
    pub kind: ShareKind,
    /// The theme of the figures; in place of that for print, a page follows its reader's.
    pub theme: FileTheme,
    /// The format of a folder's figures, that of a picture.
    pub format: ExportFormat,
    /// Classes to explain besides that of each finding: the reader of a page chooses among them.
    pub classes: Vec<String>,
    /// The file or folder to write.
    pub to: PathBuf,
}

/// The kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareKind {
    /// One HTML page for any browser.
    Page,
    /// A folder of figures.
    Figures,
}

/// A finding with the traces that are drawn for it.
#[derive(Clone, Debug)]
pub struct SharedFinding {
    /// The finding.
    pub finding: Finding,
    /// The traces of its columns; they name no folder of this machine.
    pub traces: Vec<Arc<Trace>>,
    /// Those of them that are of its pinned column, one for each class.
    pub pinned: Vec<Arc<Trace>>,
}

/// The true class of an image, as a probe knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrueClass {
    /// The image, as its traces name it.
    pub image: String,
    /// The file of the probe, as its traces name it.
    pub probe: String,
    /// The class.
    pub name: String,
    /// The classes of the probe that may be it, none if all are others; `None` if its classes are not known.
    pub own: Option<Vec<usize>>,
}

/// Everything that is to be written.
#[derive(Debug)]
pub struct Shared {
    /// The request.
    pub share: Share,
    /// The findings that are included.
    pub findings: Vec<SharedFinding>,
    /// The true classes of images.
    pub truth: Vec<TrueClass>,
    /// The provenance, as pairs of name and value.
    pub facts: Vec<(String, String)>,
}

/// Findings that are being shared.
pub(super) struct Sharing {
    /// The job that the window shows.
    pub job: JobId,
    /// The job that explains a finding for one class, and the items it was asked for.
    explaining: Option<(JobId, Vec<ExplainItem>)>,
    /// The explanations of that finding that follow, one for each further class.
    queue: VecDeque<Explain>,
    share: Share,
    /// The findings so far, the last of which may lack traces.
    findings: Vec<SharedFinding>,
    truth: Vec<TrueClass>,
    /// The names of the images.
    names: ShortNames,
    /// What is to be written, once all traces have arrived.
    ready: Option<Arc<Shared>>,
}

impl Sharing {
    /// The job that explains a finding now, if one runs.
    pub fn explaining(&self) -> Option<JobId> {
        self.explaining.as_ref().map(|(job, _)| *job)
    }
}

impl State {
    /// What is to be written, once it is complete, and its job.
    pub fn shared(&self) -> Option<(JobId, &Arc<Shared>)> {
        self.sharing.as_ref().and_then(|sharing| Some((sharing.job, sharing.ready.as_ref()?)))
    }

    /// Whether something is being shared.
    pub fn is_sharing(&self) -> bool {
        self.sharing.is_some()
    }

    pub(super) fn share(&mut self, share: Share) -> Vec<Request> {
        if self.is_sharing() {
            self.note(Severity::Warning, "Something is already being shared: wait for it, or cancel it");
            return Vec::new();
        }
        let job = self.begin(JobKind::Share, format!("Sharing {}", share.to.display()));
        let (findings, truth, queue) = (Vec::new(), Vec::new(), VecDeque::new());
        let names = ShortNames::default();
        self.sharing =
            Some(Sharing { job, explaining: None, queue, share, findings, truth, names, ready: None });
        self.request_next_share()
    }

    /// Requests the next class of a finding, or the next finding; after the last one, completes what is to be written.
    fn request_next_share(&mut self) -> Vec<Request> {
        let Some(mut sharing) = self.sharing.take() else { return Vec::new() };
        while sharing.queue.is_empty()
            && let Some(finding) = sharing.share.findings.get(sharing.findings.len()).cloned()
        {
            let mut explain = self.explain_of(&finding);
            let drawn = |method: &Attribution| draws(sharing.share.kind, &finding, *method);
            let attributions: Vec<Attribution> = explain.settings.attributions.iter().filter(drawn).collect();
            explain.settings.attributions = attributions.into();
            sharing.queue = requests_by_class(explain, &sharing.share.classes);
            sharing.findings.push(SharedFinding { finding, traces: Vec::new(), pinned: Vec::new() });
        }
        let request = sharing.queue.pop_front().map(|explain| {
            let job = JobId(self.fresh());
            sharing.explaining = Some((job, explain.items.clone()));
            Request::Compute(job, Compute::ExplainMany(explain))
        });
        let done = sharing.findings.len() - usize::from(request.is_some());
        let (done, total) = (done as u64, sharing.share.findings.len() as u64);
        if let Some(job) = self.jobs.get_mut(&sharing.job) {
            let what = if request.is_some() { "Explaining findings" } else { "Writing" }.to_owned();
            let (total, unit, elapsed) = (Some(total), Unit::Items, Duration::ZERO);
            job.started = true;
            job.progress = Some(Progress { what, done, total, unit, elapsed, left: None });
        }
        let job = sharing.job;
        if request.is_none() {
            let findings: Vec<SharedFinding> = std::mem::take(&mut sharing.findings);
            let (share, truth) = (sharing.share.clone(), std::mem::take(&mut sharing.truth));
            let is_empty = findings.iter().all(|one| one.traces.is_empty());
            sharing.ready = Some(Arc::new(Shared { share, findings, truth, facts: self.share_facts() }));
            if is_empty {
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

    /// The explanation of a finding's columns; of the shown columns if it has none. Notes probes that are not open.
    fn explain_of(&mut self, finding: &Finding) -> Explain {
        let now = || self.finding_now(serde_json::Value::Null, None)?.view;
        let view: FindingView = *finding.view.clone().or_else(now).unwrap_or_default();
        let (mut items, mut missing) = (Vec::new(), Vec::new());
        for (at, column) in (0..).zip(&view.columns) {
            let probe = self.library.probe_at(&column.probe);
            let open = probe.and_then(|id| Some((id, self.library.backbone_of(id)?.0)));
            let Some((probe, backbone)) = open else {
                missing
                    .push(Probe::name_among(&column.probe, view.columns.iter().map(|column| &column.probe)));
                continue;
            };
            let image = column.image.clone().unwrap_or_else(|| finding.image.clone());
            let image_seed = self.library.images.at(&image).map_or(0, |id| self.library.image_seed(id));
            let (column, change) = (ColumnId(at), column.change.clone());
            items.push(ExplainItem { column, image, backbone, probe, change, image_seed });
        }
        if !missing.is_empty() {
            let (name, missing) = (finding.name(), missing.join(", "));
            let text =
                format!("Left out of {name}: {missing}. Open the probes and their backbone, and share again");
            self.note(Severity::Warning, text);
        }
        let regions = RegionSource::new(self.masks.clone());
        Explain { items, class: view.class, settings: view.explain, regions }
    }

    /// Stores the traces of a finding for one class.
    pub(super) fn shared_explained(&mut self, job: JobId, results: &[ExplainResult]) {
        let Some(mut sharing) = self.sharing.take_if(|sharing| sharing.explaining() == Some(job)) else {
            return;
        };
        let items = sharing.explaining.as_mut().map(|(_, items)| std::mem::take(items)).unwrap_or_default();
        let Some(SharedFinding { finding, traces, pinned }) = sharing.findings.last_mut() else { return };
        let earlier = traces.len();
        let reference = finding.view.as_ref().and_then(|view| view.reference);
        for (item, answer) in items.iter().zip(results) {
            let trace = match &answer.result {
                Ok(trace) => trace,
                Err(error) => {
                    self.note(Severity::Warning, format!("Left out of {}: {error}", finding.name()));
                    continue;
                }
            };
            // Shared files must not reveal folders of this machine. What tells probes apart is part of the file's name here.
            let probe = anonymous(&self.library.probe_name(item.probe)).replace('/', "-") + ".safetensors";
            let name = sharing.names.name(&item.image.to_string());
            let trace = Trace { image: name, probe, ..Trace::clone(trace) };
            let image = self.library.images.at(&item.image).and_then(|id| self.library.images.get(&id));
            sharing.truth.extend(image.and_then(|image| {
                let name = self.library.true_class(image)?.to_owned();
                let own = self.library.true_classes(image, item.probe);
                Some(TrueClass { image: trace.image.clone(), probe: trace.probe.clone(), name, own })
            }));
            // The predicted class may be one of the further classes too: each is included once.
            if !traces[..earlier].iter().any(|known| is_same_trace(known, &trace)) {
                let trace = Arc::new(trace);
                let is_pinned = reference.is_some_and(|at| item.column == ColumnId(at as u64));
                pinned.extend(is_pinned.then(|| trace.clone()));
                traces.push(trace);
            }
        }
        self.sharing = Some(sharing);
    }

    /// An explanation job has ended: continues with the next one, or fails the sharing if it failed or gave no result.
    pub(super) fn end_shared(&mut self, job: JobId, error: Option<&UserError>) -> Vec<Request> {
        let Some(sharing) = self.sharing.as_mut().filter(|sharing| sharing.explaining() == Some(job)) else {
            return Vec::new();
        };
        let unanswered = sharing.explaining.take().is_some_and(|(_, items)| !items.is_empty());
        let own = sharing.job;
        if error.is_some() || unanswered {
            let error = error.cloned().unwrap_or_else(|| UserError::new("The worker did not answer"));
            self.end_share(own, Err(error));
            return Vec::new();
        }
        self.request_next_share()
    }

    /// Ends the sharing: the files were written to a path, or it failed.
    pub fn end_share(&mut self, job: JobId, written: Result<PathBuf, UserError>) {
        if self.sharing.take_if(|sharing| sharing.job == job).is_none() {
            return; // it was cancelled
        }
        match written {
            Ok(path) => {
                self.jobs.shift_remove(&job);
                self.note_written(path);
            }
            Err(error) => {
                let remedy = error.remedy.as_deref().map_or(String::new(), |remedy| format!("\n{remedy}"));
                self.note(Severity::Error, format!("Could not be shared: {}{remedy}", error.one_line()));
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.error = Some(error);
                }
            }
        }
    }

    /// The provenance for readers of the files: the open backbones and this program.
    fn share_facts(&self) -> Vec<(String, String)> {
        let backbones = self.library.open_backbones().flat_map(|(_, info)| {
            [("Backbone", info.id.clone()), ("Its weights (SHA-256)", info.fingerprint.clone())]
        });
        let facts = backbones.map(|(name, value)| (name.to_owned(), value));
        facts.chain([("Page".to_owned(), MADE_BY.to_owned())]).collect()
    }
}

/// The explanations of a finding: for its own class first, then for each of the others.
fn requests_by_class(own: Explain, classes: &[String]) -> VecDeque<Explain> {
    if own.items.is_empty() {
        return VecDeque::new();
    }
    let others = classes.iter().map(|name| ClassChoice::Named(name.clone()));
    let others = others.filter(|class| *class != own.class).map(|class| Explain { class, ..own.clone() });
    let others: Vec<Explain> = others.collect();
    std::iter::once(own).chain(others).collect()
}

/// Whether the figures of a finding need an attribution method. A page has none that do; the map of evidence shows another method
/// where a head has none.
fn draws(kind: ShareKind, finding: &Finding, method: Attribution) -> bool {
    let rows = finding.view.as_ref().map(|view| &view.views.rows).filter(|rows| !rows.is_empty());
    let has = |id: &str| rows.is_none_or(|rows| rows.contains(id));
    kind == ShareKind::Figures && (has(TokenMap(None).id()) || has(method.id()))
}

/// Whether two traces are of the same image, probe and reading, for the same class.
fn is_same_trace(one: &Trace, other: &Trace) -> bool {
    let what = |trace: &Trace| (trace.image.clone(), trace.probe.clone(), trace.evidence.class);
    what(one) == what(other) && one.reading == other.reading
}
