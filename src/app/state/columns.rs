//! The columns, each a probe on an image, and the commands that edit them as undoable steps.

use std::sync::Arc;

use super::entries::removed;
use super::explain::{self, ByHand};
use super::library::Probe;
use super::reveal::RevealTarget;
use super::{Selection, State};
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{ClassChoice, ColumnId, ImageId, ProbeId, Request};
use crate::model::explain::intervention::Intervention;
use crate::model::trace::{Routing, Trace};
use crate::viz::draw::playhead;
use crate::viz::{Options, find};

/// One image through one probe.
#[derive(Clone, Debug)]
pub struct Column {
    /// The probe.
    pub probe: ProbeId,
    /// The image; the current one if absent.
    pub image: Option<ImageId>,
    /// The intervention on the probe's reading.
    pub change: Intervention,
    /// Whether it is part of the comparison; else it is a temporary column, which the next shown probe replaces.
    pub compared: bool,
    /// What it shows.
    pub shown: ColumnState,
    /// The inputs of the trace that is shown or awaited.
    pub(super) key: Option<explain::Key>,
    /// A reader of further hand-made orders of the same image, once the worker has read it in one.
    pub(super) by_hand: Option<ByHand>,
}

/// What a column shows.
#[derive(Clone, Debug, Default)]
pub enum ColumnState {
    /// Nothing; [`State::why_nothing`] says what is missing.
    #[default]
    Nothing,
    /// An explanation is under way; the earlier trace is shown meanwhile.
    Waiting(Option<Arc<Trace>>),
    /// A current trace.
    Ready(Arc<Trace>),
    /// The explanation failed.
    Failed(UserError),
}

impl ColumnState {
    /// The trace to draw: an earlier one while an explanation is under way.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        match self {
            Self::Ready(trace) | Self::Waiting(Some(trace)) => Some(trace),
            Self::Nothing | Self::Waiting(None) | Self::Failed(_) => None,
        }
    }
}

impl Column {
    /// A column of the comparison with nothing to show yet.
    pub fn new(probe: ProbeId, image: Option<ImageId>, change: Intervention) -> Self {
        Self { probe, image, change, compared: true, shown: ColumnState::Nothing, key: None, by_hand: None }
    }
}

impl State {
    /// The text of an undo step on a column: `Remove the column gap`.
    pub(super) fn naming(&self, what: &str, column: ColumnId) -> String {
        format!("{what} the column {}", self.column_title(column))
    }

    /// Whether a column still shows another image than its own, which is being explained.
    pub fn is_outdated(&self, id: ColumnId) -> bool {
        let Some(column) = self.columns.get(&id) else { return false };
        let ColumnState::Waiting(Some(trace)) = &column.shown else { return false };
        let own = column.image.or(self.selection.image).and_then(|image| self.library.images.get(&image));
        own.is_some_and(|own| own.source.to_string() != trace.image)
    }

    pub(super) fn close_images(&mut self, mut ids: Vec<ImageId>) -> Vec<Request> {
        ids.retain(|id| self.library.images.contains_key(id));
        let text = match ids[..] {
            [] => return Vec::new(),
            [only] => format!("Close the image {}", self.library.images[&only].name()),
            _ => format!("Close {} images", ids.len()),
        };
        self.change(text, |p| p.images = removed(ids))
    }

    pub(super) fn select_image(&mut self, id: ImageId) -> Vec<Request> {
        if self.library.images.contains_key(&id) {
            self.selection.image = Some(id);
            self.widen_gallery_to(id);
            // Images that are still being listed no longer become the current one.
            self.jobs.values_mut().for_each(|job| job.selects = false);
        }
        self.explain_columns()
    }

    pub(super) fn pin(&mut self, reference: Option<ColumnId>) -> Vec<Request> {
        let text = reference.map_or_else(|| "Unpin".to_owned(), |id| self.naming("Pin", id));
        self.select(text, |selection| selection.reference = reference)
    }

    pub(super) fn set_class(&mut self, class: ClassChoice) -> Vec<Request> {
        let class = match class {
            ClassChoice::Named(name) if name.trim().is_empty() => ClassChoice::Predicted,
            class => class,
        };
        self.select("Choose class", |selection| (selection.class, selection.follows_true) = (class, false))
    }

    pub(super) fn follow_true_class(&mut self) -> Vec<Request> {
        self.select("Choose the true class", |selection| {
            (selection.class, selection.follows_true) = (ClassChoice::Predicted, true);
        })
    }

    /// Edits the selection as an undoable step; does nothing if it stays the same.
    pub(super) fn select(
        &mut self,
        text: impl Into<String>,
        edit: impl FnOnce(&mut Selection),
    ) -> Vec<Request> {
        let mut wanted = self.selection.clone();
        edit(&mut wanted);
        wanted.retain(&self.columns);
        if wanted == self.selection {
            return Vec::new();
        }
        self.change(text, |p| p.selection = Some(wanted))
    }

    pub(super) fn set_options(&mut self, figure: String, options: Options) -> Vec<Request> {
        let title = find(&figure).map_or(figure.clone(), |known| known.title().to_lowercase());
        self.adjust(format!("Set options of {title}"), |p| _ = p.views.options.insert(figure, options))
    }

    /// The number of steps of the longest reading among the shown probes that read tokens in an order.
    pub fn steps(&self) -> usize {
        let traces = self.columns.values().filter_map(|column| column.shown.trace());
        let ordered = traces.filter(|trace| !matches!(trace.routing, Routing::None));
        ordered.map(|trace| trace.grid.len()).max().unwrap_or(0)
    }

    /// The trace of the focused column.
    pub fn focused_trace(&self) -> Option<&Arc<Trace>> {
        self.columns.get(&self.focus()?)?.shown.trace()
    }

    /// The token that the focused column reads at the shown step, if it reads in one order.
    pub fn token_of_step(&self) -> Option<usize> {
        playhead::at(self.focused_trace()?, self.views.step()?)?.token
    }

    pub(super) fn add_column(
        &mut self,
        probe: ProbeId,
        image: Option<ImageId>,
        change: Intervention,
    ) -> Vec<Request> {
        let Some(name) = self.library.probes.get(&probe).map(Probe::name) else { return Vec::new() };
        if image.is_some_and(|image| !self.library.images.contains_key(&image)) {
            return Vec::new();
        }
        let id = ColumnId(self.fresh());
        let column = (self.compared().count(), Column::new(probe, image, change));
        let columns = [(id, Some(column))].into_iter().collect();
        let mut requests = self.change(format!("Add a column of {name}"), |p| p.columns = columns);
        requests.extend(self.evaluate_interventions());
        self.reveal(RevealTarget::Compare(id));
        requests
    }

    pub(super) fn set_intervention(&mut self, id: ColumnId, change: Intervention) -> Vec<Request> {
        let text = self.naming("Change how", id) + " reads";
        if let Intervention::Order(order) = &change
            && self.made_order(id).is_none_or(|now| now == order)
        {
            self.reveal(RevealTarget::Order);
        }
        let mut requests = self.edit_column(text, id, |_, column| column.change = change);
        self.evaluations.sliding = None;
        requests.extend(self.evaluate_interventions());
        requests
    }

    /// Changes how a column reads while a control is dragged: consecutive changes become one undo step.
    pub(super) fn slide_intervention(&mut self, id: ColumnId, change: Intervention) -> Vec<Request> {
        let Some((place, _, column)) =
            self.columns.get_full(&id).filter(|(.., column)| column.change != change)
        else {
            return Vec::new();
        };
        // Without the intervention, which differs between the changes: steps are merged by their text.
        let name = self.library.probe_name(column.probe);
        let text = format!("Adjust how {name} reads, column {}", place + 1);
        self.evaluations.sliding = Some((column.probe, change.clone()));
        let columns = [(id, Some((place, Column { change, ..column.clone() })))].into_iter().collect();
        self.slide(text, |p| p.columns = columns)
    }

    /// Edits a column and its index as an undoable step; does nothing if they stay the same.
    pub(super) fn edit_column(
        &mut self,
        text: String,
        id: ColumnId,
        edit: impl FnOnce(&mut usize, &mut Column),
    ) -> Vec<Request> {
        let Some((place, _, column)) = self.columns.get_full(&id) else { return Vec::new() };
        let (mut to, mut edited) = (place, column.clone());
        edit(&mut to, &mut edited);
        let now = (place, column.image, &column.change, column.compared);
        if (to, edited.image, &edited.change, edited.compared) == now {
            return Vec::new();
        }
        let columns = [(id, Some((to, edited)))].into_iter().collect();
        self.change(text, |p| p.columns = columns)
    }
}
