//! What is to be brought into sight: the state says it, the window turns to the pane.

use super::State;
use crate::app::jobs::ColumnId;

/// What a person asked to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevealTarget {
    /// The figures of the probe that is looked through.
    Probe,
    /// A column of the comparison.
    Compare(ColumnId),
    /// The accuracies of all probes.
    Accuracies,
    /// The order in which the chosen probe reads.
    Order,
    /// This token, pinned; none where there is none.
    Token(Option<usize>),
}

/// What was asked for last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reveal {
    /// Counts what was asked for.
    pub count: u64,
    /// What; nothing at first.
    pub place: Option<RevealTarget>,
}

impl State {
    /// Wants this in sight.
    pub(super) fn reveal(&mut self, place: RevealTarget) {
        self.reveal = Reveal { count: self.reveal.count + 1, place: Some(place) };
    }
}
