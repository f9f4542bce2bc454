//! Requests of the state that the window reveals something, by turning to its pane.

use super::State;
use crate::app::jobs::ColumnId;

/// What to reveal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevealTarget {
    /// The figures of the focused column.
    Probe,
    /// A column of the comparison.
    Compare(ColumnId),
    /// The accuracies of all probes.
    Accuracies,
    /// The reading order of the focused column.
    Order,
    /// A token, which is pinned; without one, the pin is removed.
    Token(Option<usize>),
}

/// The latest request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reveal {
    /// The number of requests so far.
    pub count: u64,
    /// What to reveal; `None` at first.
    pub place: Option<RevealTarget>,
}

impl Reveal {
    /// What to reveal, once per request; `seen` is the number of requests that were handled.
    pub fn take_new(self, seen: &mut u64) -> Option<RevealTarget> {
        let is_new = std::mem::replace(seen, self.count) != self.count;
        self.place.filter(|_| is_new)
    }
}

impl State {
    /// Requests that the window reveals something.
    pub(super) fn reveal(&mut self, place: RevealTarget) {
        self.reveal = Reveal { count: self.reveal.count + 1, place: Some(place) };
    }
}
