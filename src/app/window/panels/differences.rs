//! What every column has more or less than the pinned one, each kept until one of its traces changes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::app::jobs::ColumnId;
use crate::model::trace::Trace;
use crate::viz::{Empty, difference};

/// A difference and the traces it is of.
type Kept = (Arc<Trace>, Arc<Trace>, Result<Arc<Trace>, Empty>);

/// The differences of all columns.
#[derive(Default)]
pub struct Differences(HashMap<ColumnId, Kept>);

impl Differences {
    /// `trace` of column `id` minus `reference`, or why there is no such thing.
    pub fn between(
        &mut self,
        id: ColumnId,
        trace: &Arc<Trace>,
        reference: &Arc<Trace>,
    ) -> Result<Arc<Trace>, Empty> {
        let known = |(a, b, _): &&Kept| Arc::ptr_eq(a, trace) && Arc::ptr_eq(b, reference);
        if let Some((_, _, kept)) = self.0.get(&id).filter(known) {
            return kept.clone();
        }
        let made = difference::subtract(trace, reference).map(Arc::new);
        self.0.insert(id, (trace.clone(), reference.clone(), made.clone()));
        made
    }

    /// Forgets columns that are gone.
    pub fn retain(&mut self, there: impl Fn(ColumnId) -> bool) {
        self.0.retain(|id, _| there(*id));
    }
}
