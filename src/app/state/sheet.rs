//! What probes made of the images of a contact sheet: asked for image by image as they come into sight, a few at a
//! time, so that the look at the current image never waits for long; the oldest are forgotten.

use std::sync::Arc;

use indexmap::IndexMap;

use super::State;
use super::explain::Key;
use super::jobs::JobKind;
use crate::app::jobs::regions::RegionSource;
use crate::app::jobs::{ColumnId, Compute, Explain, ExplainItem, ExplainResult, ImageId, JobId, Request};
use crate::app::user_error::UserError;
use crate::model::grid::Grid;
use crate::model::trace::{Picture, Prediction, Trace};

/// Images asked for at once: one forward pass.
const MAX_REQUESTED: usize = 16;
/// Images kept: of 224 pixels each, 75 MB.
const MAX_KNOWN: usize = 512;

/// What a probe made of an image, as a contact sheet shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageMap {
    /// The picture as the model saw it.
    pub seen: Picture,
    /// How the tokens lie over it.
    pub grid: Grid,
    /// What every token counts, where the probe gives it one weight.
    pub weight: Option<Vec<f32>>,
    /// What every token adds to the logit, where that is exact.
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

/// Where a map is shown: which column's, of which image.
type MapKey = (ColumnId, ImageId);

/// What is known for a contact sheet.
#[derive(Default)]
pub struct Sheet {
    /// The latest used last, each with what it depends on.
    known: IndexMap<MapKey, (Key, Result<Arc<ImageMap>, UserError>)>,
    /// Who is being asked, and about what.
    asking: Option<(JobId, Vec<(MapKey, Key)>)>,
    /// In sight, as last said.
    wanted: Vec<MapKey>,
}

impl State {
    /// What a column made of an image, once it is known.
    pub fn image_map(&self, column: ColumnId, image: ImageId) -> Option<Result<&Arc<ImageMap>, &UserError>> {
        let (key, map) = self.sheet.known.get(&(column, image))?;
        (self.key_of(column, image).as_ref() == Some(key)).then_some(map.as_ref())
    }

    /// Everything beside the image that what these columns make of one depends on, in words: another is asked for anew.
    pub fn sheet_stamp(&self, columns: &[ColumnId]) -> String {
        let read = |id: &ColumnId| {
            let column = self.columns.get(id)?;
            Some((self.library.reader(column.probe), column.change.clone()))
        };
        let read: Vec<_> = columns.iter().map(read).collect();
        format!("{read:?} {:?} {:?}", self.selection.class, self.explain.without_attributions())
    }

    /// These are in sight: asks for what is not known of them.
    pub(super) fn show_sheet(&mut self, wanted: Vec<MapKey>) -> Vec<Request> {
        for place in &wanted {
            if let Some(at) = self.sheet.known.get_index_of(place) {
                // Kept longest from now on.
                self.sheet.known.move_index(at, self.sheet.known.len() - 1);
            }
        }
        self.sheet.wanted = wanted;
        self.request_maps().into_iter().collect()
    }

    fn request_maps(&mut self) -> Option<Request> {
        if self.sheet.asking.is_some() {
            return None;
        }
        let unknown = |place: &&MapKey| self.image_map(place.0, place.1).is_none();
        let mut asked = Vec::new();
        let mut keys = Vec::new();
        for place in self.sheet.wanted.iter().filter(unknown) {
            let Some((item, key)) = self.sheet_item(*place) else { continue };
            asked.push(item);
            keys.push((*place, key));
            if asked.len() == MAX_REQUESTED {
                break;
            }
        }
        if asked.is_empty() {
            return None;
        }
        let (class, settings) = (self.selection.class.clone(), self.explain.without_attributions());
        let s = if asked.len() == 1 { "" } else { "s" };
        let job = self.begin(JobKind::Sheet, format!("Reading {} image{s} for the gallery", asked.len()));
        self.sheet.asking = Some((job, keys));
        Some(Request::Compute(
            job,
            Compute::ExplainMany(Explain { asked, class, settings, regions: RegionSource::Nowhere }),
        ))
    }

    /// What is asked of a column about an image; nothing where its probe fits no open backbone.
    fn sheet_item(&self, (id, image): MapKey) -> Option<(ExplainItem, Key)> {
        let column = self.columns.get(&id)?;
        let (backbone, _) = self.library.backbone_of(column.probe)?;
        let place = self.library.images.get(&image)?.place.clone();
        let key = self.key_of(id, image)?;
        let (probe, change) = (column.probe, column.change.clone());
        let draw = self.library.draw(image);
        Some((ExplainItem { column: id, image: place, backbone, probe, change, draw }, key))
    }

    /// Answers came, in the order asked.
    pub(super) fn sheet_explained(&mut self, job: JobId, seen: &[ExplainResult]) {
        let Some((_, keys)) = self.sheet.asking.as_mut().filter(|(own, _)| *own == job) else { return };
        for ((place, key), answer) in std::mem::take(keys).into_iter().zip(seen) {
            let map = answer.result.as_ref().map(|trace| Arc::new(ImageMap::from(&**trace)));
            self.keep_map(place, key, map.map_err(Clone::clone));
        }
    }

    fn keep_map(&mut self, place: MapKey, key: Key, map: Result<Arc<ImageMap>, UserError>) {
        if self.sheet.known.len() >= MAX_KNOWN {
            self.sheet.known.shift_remove_index(0);
        }
        self.sheet.known.insert(place, (key, map));
    }

    /// The job is over: what it was asked and has not answered failed, and is not asked for again before it is asked
    /// otherwise. Asks for what else is in sight.
    pub(super) fn end_sheet(&mut self, job: JobId, error: Option<&UserError>) -> Vec<Request> {
        if self.sheet.asking.as_ref().is_none_or(|(own, _)| *own != job) {
            return Vec::new();
        }
        let unanswered = self.sheet.asking.take().map(|(_, keys)| keys).unwrap_or_default();
        for (place, key) in unanswered {
            let error = error.cloned().unwrap_or_else(|| UserError::new("Cancelled"));
            self.keep_map(place, key, Err(error));
        }
        self.request_maps().into_iter().collect()
    }
}
