//! Undo: a step stores the previous values of those parts of the state that it changed, and nothing else. Undoing it swaps
//! them with the current values, which are stored for redo.

use std::collections::VecDeque;

use super::parts::{Parts, Preferences};
use super::{ColumnState, State};
use crate::app::jobs::Request;

/// Most steps that can be undone.
const MAX_STEPS: usize = 64;

/// A step: its text in the menu, and the values that undoing or redoing it swaps in.
struct Step {
    text: String,
    /// Whether consecutive steps with this text are merged into one.
    merges: bool,
    parts: Parts,
}

/// The steps that can be undone and redone, the latest last.
#[derive(Default)]
pub(super) struct Undo {
    done: VecDeque<Step>,
    undone: VecDeque<Step>,
}

impl Undo {
    /// Appends a step. Only the latest step keeps the traces of its columns.
    fn push(steps: &mut VecDeque<Step>, step: Step) {
        for (_, column) in
            steps.back_mut().iter_mut().flat_map(|last| last.parts.columns.values_mut()).flatten()
        {
            (column.shown, column.key, column.by_hand) = (ColumnState::Nothing, None, None);
        }
        if steps.len() >= MAX_STEPS {
            steps.pop_front();
        }
        steps.push_back(step);
    }
}

impl State {
    /// The text of the step that Undo would revert.
    pub fn undo_text(&self) -> Option<&str> {
        self.undo.done.back().map(|step| step.text.as_str())
    }

    /// The text of the step that Redo would repeat. `None` for a step that concerns the active run, which cannot be closed.
    pub fn redo_text(&self) -> Option<&str> {
        let active = self.training.active.as_ref().and_then(|active| active.folder.as_ref());
        let step = self.undo.undone.back()?;
        (!active.is_some_and(|active| step.parts.runs.contains_key(active))).then_some(step.text.as_str())
    }

    /// Changes the parts of the state that `fill` sets, as an undoable step.
    pub(super) fn change(&mut self, text: impl Into<String>, fill: impl FnOnce(&mut Parts)) -> Vec<Request> {
        self.take_step(text.into(), false, fill)
    }

    /// [`change`](Self::change), merged into the latest step if that has the same text, as of a slider that is dragged.
    pub(super) fn slide(&mut self, text: impl Into<String>, fill: impl FnOnce(&mut Parts)) -> Vec<Request> {
        self.take_step(text.into(), true, fill)
    }

    /// Edits the preferences as an undoable step; does nothing if they stay the same.
    pub(super) fn prefer(&mut self, text: &str, edit: impl FnOnce(&mut Preferences)) -> Vec<Request> {
        let wanted = self.edited(edit);
        wanted.map_or_else(Vec::new, |wanted| self.change(text, |p| p.preferences = Some(wanted)))
    }

    /// [`prefer`](Self::prefer), merged as in [`slide`](Self::slide): for what is dragged or typed.
    pub(super) fn adjust(
        &mut self,
        text: impl Into<String>,
        edit: impl FnOnce(&mut Preferences),
    ) -> Vec<Request> {
        let wanted = self.edited(edit);
        wanted.map_or_else(Vec::new, |wanted| self.slide(text, |p| p.preferences = Some(wanted)))
    }

    /// The edited preferences; `None` if they stay the same.
    fn edited(&self, edit: impl FnOnce(&mut Preferences)) -> Option<Preferences> {
        let now = self.preferences();
        let mut wanted = now.clone();
        edit(&mut wanted);
        (wanted != now).then_some(wanted)
    }

    fn take_step(&mut self, text: String, merges: bool, fill: impl FnOnce(&mut Parts)) -> Vec<Request> {
        let mut wanted = Parts::default();
        fill(&mut wanted);
        let (parts, requests) = self.swap(wanted);
        self.undo.undone.clear();
        let last = self.undo.done.back();
        if !last.is_some_and(|last| merges && last.merges && last.text == text) {
            Undo::push(&mut self.undo.done, Step { text, merges, parts });
        }
        requests
    }

    pub(super) fn undo_step(&mut self) -> Vec<Request> {
        let Some(step) = self.undo.done.pop_back() else { return Vec::new() };
        let (parts, requests) = self.swap(step.parts);
        Undo::push(&mut self.undo.undone, Step { parts, ..step });
        requests
    }

    pub(super) fn redo_step(&mut self) -> Vec<Request> {
        if self.redo_text().is_none() {
            return Vec::new();
        }
        let Some(step) = self.undo.undone.pop_back() else { return Vec::new() };
        let (parts, requests) = self.swap(step.parts);
        Undo::push(&mut self.undo.done, Step { parts, ..step });
        requests
    }
}
