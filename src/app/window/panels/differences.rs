//! The difference of every column from the pinned one, cached until one of its two traces changes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::app::jobs::ColumnId;
use crate::model::trace::Trace;
use crate::viz::{Empty, Figure, difference};

/// A difference of two traces.
struct Cached {
    of: [Arc<Trace>; 2],
    difference: Result<Arc<Trace>, Empty>,
    /// By figure, the smallest and the largest value it shows of the difference.
    limits: HashMap<&'static str, Option<(f64, f64)>>,
}

/// The differences of all columns.
#[derive(Default)]
pub struct Differences(HashMap<ColumnId, Cached>);

impl Differences {
    fn entry(&mut self, id: ColumnId, trace: &Arc<Trace>, reference: &Arc<Trace>) -> &mut Cached {
        let of = [trace, reference];
        let is_current = |cached: &Cached| cached.of.iter().zip(of).all(|(a, b)| Arc::ptr_eq(a, b));
        self.0.retain(|own, cached| *own != id || is_current(cached));
        self.0.entry(id).or_insert_with(|| Cached {
            of: of.map(Arc::clone),
            difference: difference::subtract(trace, reference).map(Arc::new),
            limits: HashMap::new(),
        })
    }

    /// `trace` of column `id` minus `reference`, or why they cannot be subtracted.
    pub fn between(
        &mut self,
        id: ColumnId,
        trace: &Arc<Trace>,
        reference: &Arc<Trace>,
    ) -> Result<Arc<Trace>, Empty> {
        self.entry(id, trace, reference).difference.clone()
    }

    /// The limits of what `figure` shows of the difference of these two, if on this scale.
    pub fn limits(
        &mut self,
        id: ColumnId,
        [trace, reference]: [&Arc<Trace>; 2],
        figure: &dyn Figure,
        scale: &str,
    ) -> Option<(f64, f64)> {
        let cached = self.entry(id, trace, reference);
        let difference = cached.difference.as_ref().ok().filter(|one| figure.scale(one) == scale)?;
        *cached.limits.entry(figure.id()).or_insert_with(|| figure.limits(difference))
    }

    /// Forgets columns for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(ColumnId) -> bool) {
        self.0.retain(|id, _| keep(*id));
    }
}
