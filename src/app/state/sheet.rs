//! The maps of a contact sheet, what a probe made of each image: requested as images become visible, a few at a time so that
//! the explanation of the current image never waits long; the least recently used are dropped.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::explain::{Key, RETRY};
use super::jobs::JobKind;
use super::{Known, State};
use crate::app::format::counted;
use crate::app::jobs::evaluate::EvalProbe;
use crate::app::jobs::regions::RegionSource;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{
    ClassChoice, ColumnId, Compute, Explain, ExplainItem, ExplainResult, ImageId, JobId, Request,
};
use crate::model::grid::Grid;
use crate::model::trace::{Picture, Prediction, Trace};

/// Most images of one request: one forward pass.
const MAX_REQUESTED: usize = 16;
/// Most maps that are kept, unless more are visible: 75 MB at 224 pixels each.
const MAX_KNOWN: usize = 512;

/// How a contact sheet shows its images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SheetView {
    /// Side of a picture, in points.
    pub side: u16,
    /// What is laid over each picture.
    pub overlay: Overlay,
}

impl Default for SheetView {
    fn default() -> Self {
        Self { side: 132, overlay: Overlay::None }
    }
}

listed! {
    /// What is laid over a picture.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Overlay {
        /// Nothing: the middle of the photograph.
        #[default]
        None: "No overlay";
        /// The weight of every token.
        Weight: "Token weights";
        /// What every token adds to the logit of the class.
        Evidence: "Evidence";
    }
}

/// What a probe made of an image, as a contact sheet shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageMap {
    /// The picture as the backbone saw it.
    pub seen: Picture,
    /// The grid of the tokens.
    pub grid: Grid,
    /// The weight of every token, if the probe gives each a single one.
    pub weight: Option<Vec<f32>>,
    /// The contribution of every token to the logit, if that is exact.
    pub evidence: Option<Vec<f32>>,
    /// The predicted class.
    pub best: Option<Prediction>,
}

impl From<&Trace> for ImageMap {
    fn from(trace: &Trace) -> Self {
        Self {
            seen: trace.seen.clone(),
            grid: trace.grid,
            weight: trace.token_weight.clone(),
            evidence: trace.evidence.token.clone(),
            best: trace.top.first().cloned(),
        }
    }
}

/// The column and the image of a map.
type MapKey = (ColumnId, ImageId);

/// The maps of contact sheets, and the request under way.
#[derive(Default)]
pub struct Sheet {
    /// The maps with their inputs, the latest used last.
    known: IndexMap<MapKey, (Key, Result<Arc<ImageMap>, UserError>)>,
    /// The job under way, and the maps it has not returned yet.
    requested: Option<(JobId, Vec<(MapKey, Key)>)>,
    /// The maps that were visible last.
    visible: Vec<MapKey>,
}

impl Sheet {
    /// Whether any map failed, or was cancelled.
    pub(super) fn has_failed(&self) -> bool {
        self.known.values().any(|(_, map)| map.is_err())
    }

    /// Forgets these, so that the visible ones are requested again.
    pub(super) fn forget_failures(&mut self) {
        self.known.retain(|_, (_, map)| map.is_ok());
    }
}

impl State {
    /// The map of a column and an image, if it was computed with the current inputs.
    pub fn image_map(&self, column: ColumnId, image: ImageId) -> Known<'_, ImageMap> {
        let (key, map) = self.sheet.known.get(&(column, image))?;
        (self.sheet_key(column, image).as_ref() == Some(key)).then_some(map.as_ref())
    }

    /// Whether the maps of these visible columns and images must be requested: they are not those that were visible last, or
    /// some are missing and none is under way.
    pub fn lacks_maps(&self, visible: &[(ColumnId, ImageId)]) -> bool {
        let lacks =
            |place: &MapKey| self.image_map(place.0, place.1).is_none() && self.sheet_item(*place).is_some();
        self.sheet.visible != visible || self.sheet.requested.is_none() && visible.iter().any(lacks)
    }

    /// Sets the visible maps, and requests those that are missing.
    pub(super) fn show_sheet(&mut self, visible: Vec<MapKey>) -> Vec<Request> {
        for place in &visible {
            if let Some(at) = self.sheet.known.get_index_of(place) {
                // Marked as the latest used.
                self.sheet.known.move_index(at, self.sheet.known.len() - 1);
            }
        }
        self.sheet.visible = visible;
        self.request_maps().into_iter().collect()
    }

    /// Requests up to [`MAX_REQUESTED`] visible maps of one class that are missing, unless a request is under way.
    fn request_maps(&mut self) -> Option<Request> {
        if self.sheet.requested.is_some() {
            return None;
        }
        let unknown = |place: &&MapKey| self.image_map(place.0, place.1).is_none();
        let items = self.sheet.visible.iter().filter(unknown).filter_map(|place| self.sheet_item(*place));
        let class_of = |item: &(ExplainItem, (MapKey, Key))| self.class_of(Some(item.1.0.1));
        let mut items = items.peekable();
        let class = class_of(items.peek()?);
        let same = items.filter(|item| class_of(item) == class);
        let (items, keys): (Vec<_>, Vec<_>) = same.take(MAX_REQUESTED).unzip();
        let settings = self.explain.without_attributions();
        let images = counted(items.len(), "image", "images");
        let job = self.begin(JobKind::Sheet, format!("Reading {images} for the gallery"));
        self.sheet.requested = Some((job, keys));
        Some(Request::Compute(
            job,
            Compute::ExplainMany(Explain { items, class, settings, regions: RegionSource::Nowhere }),
        ))
    }

    /// The inputs of a map. Of a true class, its name is enough beside the image, even where several have it: it is looked up in every frame.
    fn sheet_key(&self, column: ColumnId, image: ImageId) -> Option<Key> {
        let own = || self.library.true_class(self.library.images.get(&image)?).map(str::to_owned);
        let own = self.selection.follows_true.then(own).flatten();
        self.key_of(column, image, own.map_or_else(|| self.selection.class.clone(), ClassChoice::Named))
    }

    /// The request for a map with its inputs; `None` if the column's probe fits no open backbone.
    fn sheet_item(&self, (id, image): MapKey) -> Option<(ExplainItem, (MapKey, Key))> {
        let (EvalProbe { probe, backbone, change }, source) = self.reading_of(id, image)?;
        let (key, image_seed) = (self.sheet_key(id, image)?, self.library.image_seed(image));
        Some((
            ExplainItem { column: id, image: source, backbone, probe, change, image_seed },
            ((id, image), key),
        ))
    }

    /// Stores results, which come in the order of the request.
    pub(super) fn sheet_explained(&mut self, job: JobId, results: &[ExplainResult]) {
        let Some((_, keys)) = self.sheet.requested.as_mut().filter(|(own, _)| *own == job) else { return };
        for ((place, key), answer) in std::mem::take(keys).into_iter().zip(results) {
            let map = answer.result.as_ref().map(|trace| Arc::new(ImageMap::from(&**trace)));
            self.keep_map(place, key, map.map_err(Clone::clone));
        }
    }

    /// Stores a map as the latest used.
    fn keep_map(&mut self, place: MapKey, key: Key, map: Result<Arc<ImageMap>, UserError>) {
        self.sheet.known.insert(place, (key, map));
        // If those in sight were dropped, they would be requested for ever.
        while self.sheet.known.len() > MAX_KNOWN.max(self.sheet.visible.len()) {
            self.sheet.known.shift_remove_index(0);
        }
    }

    /// The job has ended: maps without a result have failed, and are not requested again with the same inputs. Requests the
    /// next visible maps.
    pub(super) fn end_sheet(&mut self, job: JobId, error: Option<&UserError>) -> Vec<Request> {
        if self.sheet.requested.as_ref().is_none_or(|(own, _)| *own != job) {
            return Vec::new();
        }
        let unanswered = self.sheet.requested.take().map(|(_, keys)| keys).unwrap_or_default();
        for (place, key) in unanswered {
            let error = error.cloned().unwrap_or_else(|| UserError::new("Cancelled").remedy(RETRY));
            self.keep_map(place, key, Err(error));
        }
        self.request_maps().into_iter().collect()
    }
}
