//! What every column has more or less than the pinned one, each kept until one of its traces changes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::app::jobs::ColumnId;
use crate::model::trace::Trace;
use crate::viz::{Empty, Figure, difference};

/// A difference and the traces it is of.
struct Cached {
    of: [Arc<Trace>; 2],
    made: Result<Arc<Trace>, Empty>,
    /// What figures show of it, from the smallest to the largest.
    limits: HashMap<&'static str, Option<(f64, f64)>>,
}

/// The differences of all columns.
#[derive(Default)]
pub struct Differences(HashMap<ColumnId, Cached>);

impl Differences {
    fn kept(&mut self, id: ColumnId, trace: &Arc<Trace>, reference: &Arc<Trace>) -> &mut Cached {
        let of = [trace, reference];
        let known = |kept: &Cached| kept.of.iter().zip(of).all(|(a, b)| Arc::ptr_eq(a, b));
        self.0.retain(|own, kept| *own != id || known(kept));
        self.0.entry(id).or_insert_with(|| Cached {
            of: of.map(Arc::clone),
            made: difference::subtract(trace, reference).map(Arc::new),
            limits: HashMap::new(),
        })
    }

    /// `trace` of column `id` minus `reference`, or why there is no such thing.
    pub fn between(
        &mut self,
        id: ColumnId,
        trace: &Arc<Trace>,
        reference: &Arc<Trace>,
    ) -> Result<Arc<Trace>, Empty> {
        self.kept(id, trace, reference).made.clone()
    }

    /// The limits of what `figure` shows of that.
    pub fn limits(
        &mut self,
        id: ColumnId,
        trace: &Arc<Trace>,
        reference: &Arc<Trace>,
        figure: &dyn Figure,
    ) -> Option<(f64, f64)> {
        let kept = self.kept(id, trace, reference);
        let made = kept.made.as_ref().ok()?;
        *kept.limits.entry(figure.id()).or_insert_with(|| figure.limits(made))
    }

    /// Forgets columns that are gone.
    pub fn retain(&mut self, there: impl Fn(ColumnId) -> bool) {
        self.0.retain(|id, _| there(*id));
    }
}
