//! Removal curves: requests, and the latest results.

use super::answers::Answers;
use super::explain::Key;
use super::jobs::JobKind;
use super::{Requested, State};
use crate::app::jobs::removal::RemovalRequest;
use crate::app::jobs::{ColumnId, Compute, ImageId, Request};
use crate::model::explain::removal::{Mode, Removal, RemovalSpec};

/// The known removal curves, and the job under way.
pub(super) type Removals = Answers<Key, Removal, 64>;

impl State {
    /// The image of a column, and the inputs of its curves.
    fn removal_key(&self, column: ColumnId) -> Option<(ImageId, Key)> {
        let image = self.columns.get(&column)?.image.or(self.selection.image)?;
        Some((image, self.key_of(column, image, self.class_of(self.selection.image))?))
    }

    /// The removal curves of a column, if they were computed with the current inputs, and the job that computes them.
    pub fn removal_of(&self, column: ColumnId) -> Requested<'_, Removal> {
        self.removal_key(column).map(|(_, key)| self.removals.requested(&key)).unwrap_or_default()
    }

    /// Requests the removal curves of a column; cancels an earlier request.
    pub(super) fn remove_tokens(&mut self, column: ColumnId, modes: Vec<Mode>) -> Vec<Request> {
        let Some((image, key)) = self.removal_key(column) else { return Vec::new() };
        let Some((subject, source)) = self.reading_of(column, image) else { return self.refuse(column) };
        let job = self.begin(JobKind::Removal, format!("Removing tokens of {}", source.short()));
        let older = self.removals.begin(job, key);
        let spec = RemovalSpec { modes, seed: self.explain.seed, ..RemovalSpec::default() };
        let (class, image_seed) = (self.class_of(self.selection.image), self.library.image_seed(image));
        let request = RemovalRequest { subject, source, class, spec, image_seed };
        self.send_instead(older, Request::Compute(job, Compute::Removal(request)))
    }
}
