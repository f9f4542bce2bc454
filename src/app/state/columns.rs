//! The comparison: what is shown beside what, edited so that it can be taken back.

use std::sync::Arc;

use super::entries::gone;
use super::explain::{self, ByHand};
use super::library::Probe;
use super::reveal::RevealTarget;
use super::{Selection, State};
use crate::app::jobs::{ClassChoice, ColumnId, ImageId, ProbeId, Request};
use crate::app::user_error::UserError;
use crate::model::explain::intervention::Intervention;
use crate::model::trace::{Routing, Trace};
use crate::viz::{FIGURES, Options};

/// One image through one probe.
#[derive(Clone, Debug)]
pub struct Column {
    /// The probe.
    pub probe: ProbeId,
    /// The image; the current one where absent.
    pub image: Option<ImageId>,
    /// What is changed in the probe's reading.
    pub change: Intervention,
    /// Whether it stands in the comparison; else it is only looked through, until another one is.
    pub compared: bool,
    /// What there is to see.
    pub shown: ColumnState,
    /// What the trace, or the waiting, is for.
    pub(super) key: Option<explain::Key>,
    /// What other orders of the same image are read by, once it was read in one that a person made.
    pub(super) by_hand: Option<ByHand>,
}

/// What a column has to show.
#[derive(Clone, Debug, Default)]
pub enum ColumnState {
    /// Nothing yet; [`State::why_nothing`] says what is missing.
    #[default]
    Nothing,
    /// A look is under way; the trace shown before stays.
    Waiting(Option<Arc<Trace>>),
    /// This.
    Ready(Arc<Trace>),
    /// No trace; why.
    Failed(UserError),
}

impl ColumnState {
    /// The trace to draw: an earlier one while a look is under way.
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
    /// `Remove the column gap`.
    pub(super) fn naming(&self, what: &str, column: ColumnId) -> String {
        format!("{what} the column {}", self.column_title(column))
    }

    pub(super) fn close_images(&mut self, mut ids: Vec<ImageId>) -> Vec<Request> {
        ids.retain(|id| self.library.images.contains_key(id));
        let text = match ids[..] {
            [] => return Vec::new(),
            [only] => format!("Close the image {}", self.library.images[&only].name()),
            _ => format!("Close {} images", ids.len()),
        };
        self.change(text, |p| p.images = gone(ids))
    }

    pub(super) fn select_image(&mut self, id: ImageId) -> Vec<Request> {
        if self.library.images.contains_key(&id) {
            self.selection.image = Some(id);
            self.bring_into_gallery(id);
            // Images that are being listed are not looked at by themselves any more.
            self.jobs.values_mut().for_each(|job| job.selects = false);
        }
        self.explain_columns()
    }

    pub(super) fn pin(&mut self, id: Option<ColumnId>) -> Vec<Request> {
        let text = id.map_or_else(|| "Unpin".to_owned(), |id| self.naming("Pin", id));
        let reference = id.filter(|id| self.columns.contains_key(id));
        self.point(text, Selection { reference, ..self.selection.clone() })
    }

    pub(super) fn set_class(&mut self, class: ClassChoice) -> Vec<Request> {
        let class = match class {
            ClassChoice::Named(name) if name.trim().is_empty() => ClassChoice::Predicted,
            class => class,
        };
        self.point("Choose class", Selection { class, ..self.selection.clone() })
    }

    /// Points at something else so that it can be taken back; nothing if it is the same.
    fn point(&mut self, text: impl Into<String>, selection: Selection) -> Vec<Request> {
        if selection == self.selection {
            return Vec::new();
        }
        self.change(text, |p| p.selection = Some(selection))
    }

    pub(super) fn set_options(&mut self, figure: String, options: Options) -> Vec<Request> {
        let known = FIGURES.iter().find(|known| known.id() == figure);
        let title = known.map_or(figure.clone(), |known| known.title().to_lowercase());
        self.prefer(format!("Set options of {title}"), |p| _ = p.views.options.insert(figure, options))
    }

    /// Most tokens that a shown probe reads one after the other.
    pub fn steps(&self) -> usize {
        let traces = self.columns.values().filter_map(|column| column.shown.trace());
        let read = traces.filter(|trace| !matches!(trace.routing, Routing::None));
        read.map(|trace| trace.grid.len()).max().unwrap_or(0)
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
        requests.extend(self.evaluate_changes());
        self.reveal(RevealTarget::Compare(id));
        requests
    }

    pub(super) fn set_change(&mut self, id: ColumnId, change: Intervention) -> Vec<Request> {
        let text = self.naming("Change how", id) + " reads";
        // A dataset is not read anew for every order on the way to one; it is when that is asked for.
        let made = matches!(change, Intervention::Order(_));
        if let Intervention::Order(order) = &change
            && self.made_order(id).is_none_or(|now| now == order)
        {
            self.reveal(RevealTarget::Order);
        }
        let mut requests = self.edit_column(text, id, |_, column| column.change = change.clone());
        if !made {
            requests.extend(self.evaluate_changes());
        }
        requests
    }

    /// Changes how a column reads, on the way to how it is to read.
    pub(super) fn slide_change(&mut self, id: ColumnId, change: Intervention) -> Vec<Request> {
        let Some((place, _, column)) =
            self.columns.get_full(&id).filter(|(.., column)| column.change != change)
        else {
            return Vec::new();
        };
        // Without what is changed, which differs from one to the next.
        let name = self.library.probe_name(column.probe);
        let text = format!("Adjust how {name} reads, column {}", place + 1);
        let columns = [(id, Some((place, Column { change, ..column.clone() })))].into_iter().collect();
        self.slide(text, |p| p.columns = columns)
    }

    /// Edits a column and its place so that it can be taken back; nothing if nothing comes of it.
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
