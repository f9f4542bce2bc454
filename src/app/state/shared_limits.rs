//! The limits that a figure shares over the compared columns on one scale, computed once for the traces that these show.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::State;
use crate::model::trace::Trace;
use crate::viz::{Figure, SharedLimits};

/// By figure, the traces that were shown last and their limits by scale.
pub(super) type KnownLimits =
    RefCell<HashMap<&'static str, (Vec<Weak<Trace>>, HashMap<&'static str, SharedLimits>)>>;

impl State {
    /// The limits of a figure over all compared columns that it draws on the scale of `trace`, if they are shared.
    pub fn shared_limits(&self, figure: &dyn Figure, trace: &Trace) -> SharedLimits {
        if !self.views.shared {
            return SharedLimits::default();
        }
        let traces = self.compared().filter_map(|(_, column)| column.shown.trace());
        let mut known = self.known_limits.borrow_mut();
        let (of, limits) = known.entry(figure.id()).or_default();
        // A weak reference keeps the address from being that of another trace.
        if !of.iter().map(Weak::as_ptr).eq(traces.clone().map(Arc::as_ptr)) {
            (*of, *limits) = (traces.clone().map(Arc::downgrade).collect(), HashMap::new());
        }
        let scale = figure.scale(trace);
        let alike = traces.map(|trace| &**trace).filter(|trace| figure.scale(trace) == scale);
        *limits.entry(scale).or_insert_with(|| SharedLimits::new(figure, alike))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::{ColumnId, ProbeId};
    use crate::app::state::{Column, ColumnState};
    use crate::model::explain::intervention::Intervention;
    use crate::viz::find;

    #[test]
    fn weights_and_scores_share_no_limits() {
        let scores = |scores: [f32; 2]| Trace { scores: Some(scores.to_vec()), ..Trace::default() };
        let weights = Trace { token_weight: Some(vec![0.25, 0.75]), ..Trace::default() };
        let traces = [scores([-2.0, 1.0]), weights, scores([0.0, 3.0])];
        let mut state = State::default();
        for (id, trace) in (0..).map(ColumnId).zip(&traces) {
            let column = Column::new(ProbeId(0), None, Intervention::None);
            let shown = ColumnState::Ready(Arc::new(trace.clone()));
            state.columns.insert(id, Column { shown, ..column });
        }
        let figure = find("photo").expect("the figure");
        let limits = traces.each_ref().map(|trace| state.shared_limits(figure, trace).values);
        assert_eq!(limits, [Some((-2.0, 3.0)), Some((0.25, 0.75)), Some((-2.0, 3.0))]);
        // A column of the probe that is shown elsewhere, and not compared, does not widen the scale.
        state.columns[&ColumnId(2)].compared = false;
        assert_eq!(state.shared_limits(figure, &traces[0]).values, Some((-2.0, 1.0)));
    }
}
