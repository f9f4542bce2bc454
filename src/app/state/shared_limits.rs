//! The limits that a figure shares over all columns, computed once for the traces that these show.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::State;
use crate::model::trace::Trace;
use crate::viz::{Shared, find, shared};

/// By figure, the traces that were shown last and their limits.
pub(super) type KnownLimits = RefCell<HashMap<&'static str, (Vec<Weak<Trace>>, Shared)>>;

impl State {
    /// The limits of a figure over all columns, if they are shared.
    pub fn shared_limits(&self, figure: &str) -> Shared {
        let Some(figure) = find(figure).filter(|_| self.views.shared) else { return [None; 2] };
        let traces = self.columns.values().filter_map(|column| column.shown.trace());
        let mut known = self.known_limits.borrow_mut();
        // A weak reference keeps the address from being that of another trace.
        if let Some((of, limits)) = known.get(figure.id())
            && of.iter().map(Weak::as_ptr).eq(traces.clone().map(Arc::as_ptr))
        {
            return *limits;
        }
        let limits = shared(figure, traces.clone().map(|trace| &**trace));
        known.insert(figure.id(), (traces.map(Arc::downgrade).collect(), limits));
        limits
    }
}
