//! Measurements of the stability of orders: requests, and the latest results.

use super::answers::Answers;
use super::explain::Key;
use super::jobs::JobKind;
use super::{Requested, State};
use crate::app::jobs::stability::StabilityRequest;
use crate::app::jobs::{ClassChoice, ColumnId, Compute, ExplainSettings, ImageId, Request};
use crate::model::explain::stability::Stability;

/// The known measurements, and the job under way.
pub(super) type Stabilities = Answers<Key, Stability, 64>;

impl State {
    /// The image of a column, and the inputs of the measurement, which depends on no class and on no setting but the seed.
    fn stability_key(&self, column: ColumnId) -> Option<(ImageId, Key)> {
        let column = self.columns.get(&column)?;
        let image = column.image.or(self.selection.image)?;
        let settings = ExplainSettings { seed: self.explain.seed, ..ExplainSettings::default() };
        Some((image, Key::new(&self.library, column, image, ClassChoice::default(), settings, None)))
    }

    /// The stability of a column's order, if it was measured with the current inputs, and the job that measures it.
    pub fn stability_of(&self, column: ColumnId) -> Requested<'_, Stability> {
        self.stability_key(column).map(|(_, key)| self.stabilities.requested(&key)).unwrap_or_default()
    }

    /// Requests the measurement of a column's order; cancels an earlier request.
    pub(super) fn measure_stability(&mut self, column: ColumnId) -> Vec<Request> {
        let Some((image, key)) = self.stability_key(column) else { return Vec::new() };
        let Some((subject, source)) = self.reading_of(column, image) else { return self.refuse(column) };
        let job = self.begin(JobKind::Stability, format!("Changing {} slightly", source.short()));
        self.stabilities.forget_failures();
        let older = self.stabilities.begin(job, key);
        let (seed, image_seed) = (self.explain.seed, self.library.image_seed(image));
        let request = StabilityRequest { subject, image, source, seed, image_seed };
        self.send_instead(older, Request::Compute(job, Compute::Stability(request)))
    }
}
