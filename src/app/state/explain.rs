//! Requests for the explanations that columns show: only those whose inputs have changed, and each once.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::jobs::{JobKind, Severity};
use super::library::{Library, Reader, Status};
use super::{Column, ColumnState, State};
use crate::app::jobs::evaluate::EvalProbe;
use crate::app::jobs::info::Compatibility;
use crate::app::jobs::regions::RegionSource;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{
    ClassChoice, ColumnId, Compute, Event, Explain, ExplainItem, ExplainSettings, ImageId, JobId, ProbeId,
    Request,
};
use crate::model::data::ImageSource;
use crate::model::explain::by_hand::HandOrderReader;
use crate::model::explain::intervention::Intervention;
use crate::model::trace::Trace;

/// The remedy for an explanation that did not arrive.
pub(super) const RETRY: &str = "Choose Retry in the View menu";

/// The inputs of a trace.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    /// The probe's file and the backbone that serves it; absent if no backbone fits.
    reader: Option<Reader>,
    probe: ProbeId,
    image: ImageId,
    image_seed: u64,
    change: Intervention,
    class: ClassChoice,
    settings: ExplainSettings,
    masks: Option<PathBuf>,
}

impl Key {
    pub(super) fn new(
        library: &Library,
        column: &Column,
        image: ImageId,
        class: ClassChoice,
        settings: ExplainSettings,
        masks: Option<PathBuf>,
    ) -> Self {
        let (probe, change) = (column.probe, column.change.clone());
        let (reader, image_seed) = (library.reader(probe), library.image_seed(image));
        Self { reader, probe, image, image_seed, change, class, settings, masks }
    }

    /// Whether its probe and backbone are those that are open now.
    pub(super) fn is_read_by(&self, library: &Library) -> bool {
        library.reader(self.probe) == self.reader
    }
}

/// Reads further hand-made orders of an image without the worker.
#[derive(Clone, Debug)]
pub(super) struct ByHand {
    /// The inputs of `trace`.
    key: Key,
    /// The trace of one such order.
    trace: Arc<Trace>,
    reading: Arc<HandOrderReader>,
}

impl ByHand {
    /// The trace for `key`, if it differs from this one's inputs in the order alone.
    fn read(&self, key: &Key) -> Option<Trace> {
        let Intervention::Order(order) = &key.change else { return None };
        let same = Key { change: key.change.clone(), ..self.key.clone() } == *key;
        self.reading.trace(&self.trace, order).filter(|_| same)
    }
}

impl State {
    /// The inputs of a trace of a column on an image for a class, without attributions and masks.
    pub(super) fn key_of(&self, column: ColumnId, image: ImageId, class: ClassChoice) -> Option<Key> {
        let column = self.columns.get(&column)?;
        Some(Key::new(&self.library, column, image, class, self.explain.without_attributions(), None))
    }

    /// The probe of a column with its intervention and the backbone that serves it, and where an image is; `None` if no open backbone
    /// fits.
    pub(super) fn reading_of(&self, column: ColumnId, image: ImageId) -> Option<(EvalProbe, ImageSource)> {
        let column = self.columns.get(&column)?;
        let subject = self.library.eval_probe(column.probe, column.change.clone())?;
        Some((subject, self.library.images.get(&image)?.source.clone()))
    }

    /// Notes what a column lacks to be read: its backbone was closed, or no open one fits.
    pub(super) fn refuse(&mut self, column: ColumnId) -> Vec<Request> {
        let fit = self.columns.get(&column).and_then(|column| self.library.fit(column.probe));
        let why = match fit {
            Some(Compatibility::DoesNot(why)) => why,
            _ => self.why_nothing(column),
        };
        self.note(Severity::Warning, why);
        Vec::new()
    }

    /// Whether anything could not be opened, or any column failed, or any thumbnail or map of a contact sheet, or an evaluation.
    pub fn has_failed(&self) -> bool {
        self.library.has_failed()
            || self.columns.values().any(|column| matches!(column.shown, ColumnState::Failed(_)))
            || self.sheet.has_failed()
            || self.thumbnails.has_failed()
            || self.failed_evaluation().is_some()
    }

    /// Whether an explanation is under way.
    pub fn is_explaining(&self) -> bool {
        self.explaining.is_some()
    }

    /// The number of explanations that have arrived so far.
    pub fn explained_count(&self) -> u64 {
        self.answered
    }

    /// Why a column shows nothing, and what to do about it.
    pub fn why_nothing(&self, id: ColumnId) -> String {
        let Some(column) = self.columns.get(&id) else { return "Add a column to compare probes".into() };
        match self.library.probes.get(&column.probe).map(|probe| &probe.status) {
            Some(Status::Ready(_)) => {}
            Some(Status::Opening(_)) => return "The probe is being opened".into(),
            Some(Status::Failed(..)) => {
                return "The probe could not be opened: open it again or close it".into();
            }
            Some(Status::Closed) | None => return "The probe is not open: open it again".into(),
        }
        if self.library.backbone().is_none() {
            let mut all = self.library.backbones.values();
            return match all.any(|backbone| backbone.status.is_opening()) {
                true => "The backbone is being opened".into(),
                false => "Open the backbone whose tokens the probe reads".into(),
            };
        }
        match column.image.or(self.selection.image) {
            None => "Choose an image".into(),
            Some(_) => "Nothing explained yet".into(),
        }
    }

    /// Adopts the options that the shown probes agree on, then requests what the columns lack.
    pub(super) fn explain_columns(&mut self) -> Vec<Request> {
        let mut requests = self.adopt_probe_options();
        requests.extend(self.request_columns());
        requests
    }

    /// Requests the traces that are not current, and starts a deferred evaluation.
    pub(super) fn request_columns(&mut self) -> Vec<Request> {
        let mut requests = self.request_explanations();
        requests.extend(self.evaluate_waiting());
        requests
    }

    fn request_explanations(&mut self) -> Vec<Request> {
        if self.library.backbone().is_none() {
            // No worker request is possible; traces of an image that is no longer the column's, or of a probe that was replaced, are dropped.
            let current = self.selection.image;
            let is_outdated = |column: &&mut Column| {
                column.key.as_ref().is_none_or(|key| Some(key.image) != column.image.or(current))
            };
            for column in self.columns.values_mut().filter(is_outdated) {
                (column.shown, column.key) = (ColumnState::Nothing, None);
            }
            return Vec::new();
        }
        // One class for all columns, as only then can they be compared.
        let class = self.class_of(self.selection.image);
        let (settings, masks) = (self.explain, &self.masks);
        let mut items = Vec::new();
        let mut any_new = false;
        let library = &self.library;
        for (&id, column) in &mut self.columns {
            let image = column.image.or(self.selection.image);
            let image = image.and_then(|id| Some((id, library.images.get(&id)?)));
            let fit = library.fit(column.probe);
            let (Some((image, file)), Some(fit)) = (image, fit) else {
                (column.shown, column.key) = (ColumnState::Nothing, None);
                continue;
            };
            let key = Key::new(library, column, image, class.clone(), settings, masks.clone());
            let known = column.key.as_ref() == Some(&key);
            if known && matches!(column.shown, ColumnState::Ready(_) | ColumnState::Failed(_)) {
                continue;
            }
            let Some((backbone, _)) = library.backbone_of(column.probe) else {
                if let Compatibility::DoesNot(why) = fit {
                    (column.shown, column.key) = (ColumnState::Failed(UserError::new(why)), Some(key));
                }
                continue;
            };
            // Computed here within a frame, without the worker.
            if let Some(trace) = column.by_hand.as_ref().and_then(|by_hand| by_hand.read(&key)) {
                (column.shown, column.key) = (ColumnState::Ready(Arc::new(trace)), Some(key));
                self.answered += 1;
                continue;
            }
            any_new |= !known;
            column.shown = ColumnState::Waiting(column.shown.trace().cloned());
            let image_seed = key.image_seed;
            column.key = Some(key);
            let (probe, change) = (column.probe, column.change.clone());
            items.push(ExplainItem {
                column: id,
                image: file.source.clone(),
                backbone,
                probe,
                change,
                image_seed,
            });
        }
        if items.is_empty() || (!any_new && self.explaining.is_some()) {
            return Vec::new();
        }
        let images: HashSet<_> = items.iter().map(|item: &ExplainItem| &item.image).collect();
        let title = match images.len() {
            1 => format!("Explaining {}", items[0].image.short()),
            several => format!("Explaining {several} images"),
        };
        let regions = RegionSource::new(self.masks.clone());
        let job = self.begin(JobKind::Explain, title);
        let older = self.explaining.replace(job);
        let explain = Compute::Explain(Explain { items, class, settings, regions });
        self.send_instead(older, Request::Compute(job, explain))
    }

    /// Requests again what could not be opened, the failed columns and a failed evaluation, and thumbnails and maps of a contact sheet
    /// once they are visible.
    pub(super) fn retry(&mut self) -> Vec<Request> {
        self.sheet.forget_failures();
        self.thumbnails.forget_failures();
        for column in
            self.columns.values_mut().filter(|column| matches!(column.shown, ColumnState::Failed(_)))
        {
            (column.shown, column.key) = (ColumnState::Nothing, None);
        }
        let mut requests = self.reopen_failed();
        requests.extend(self.explain_columns());
        requests.extend(self.evaluate_again());
        requests
    }

    /// Applies an event of the explanation job under way; results of older jobs are ignored.
    pub(super) fn explain_event(&mut self, event: &Event) {
        match event {
            Event::Explained { job, results } if self.explaining == Some(*job) => {
                self.answered += 1;
                for answer in results {
                    if let Err(error) = &answer.result {
                        let text = format!("{}: {error}", self.column_title(answer.column));
                        self.record(Severity::Error, text);
                    }
                    // A column that waits no longer has been given something else to show.
                    let column = self.columns.get_mut(&answer.column);
                    if let Some(column) = column.filter(|c| matches!(c.shown, ColumnState::Waiting(_))) {
                        let read = answer.result.as_ref().ok().zip(answer.by_hand.clone());
                        if let Some(((trace, reading), key)) = read.zip(column.key.clone()) {
                            column.by_hand = Some(ByHand { key, trace: trace.clone(), reading });
                        }
                        column.shown = match &answer.result {
                            Ok(trace) => ColumnState::Ready(trace.clone()),
                            Err(error) => ColumnState::Failed(error.clone()),
                        };
                    }
                }
            }
            Event::Failed(job, error) => {
                if let Some(failed) = self.jobs.get(job).filter(|_| self.explaining == Some(*job)) {
                    let text = format!("{}: {error}", failed.title);
                    self.record(Severity::Error, text);
                }
                self.end_explaining(*job, error);
            }
            Event::Cancelled(job) => {
                self.end_explaining(*job, &UserError::new("Cancelled").remedy(RETRY));
            }
            Event::Finished(job) => {
                let error = UserError::new("The worker did not answer").remedy(RETRY);
                self.end_explaining(*job, &error);
            }
            _ => {}
        }
    }

    /// The explanation job has ended: columns that still wait for it have failed.
    fn end_explaining(&mut self, job: JobId, error: &UserError) {
        if self.explaining != Some(job) {
            return;
        }
        self.explaining = None;
        self.jobs.shift_remove(&job);
        for column in self.columns.values_mut() {
            if matches!(column.shown, ColumnState::Waiting(_)) {
                column.shown = ColumnState::Failed(error.clone());
            }
        }
    }
}
