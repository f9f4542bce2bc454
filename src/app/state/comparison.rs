//! The focused column and the comparison. Showing a probe focuses a column, temporary if need be; adding a probe to the
//! comparison gives it a column that stays.

use super::entries::{Entries, removed};
use super::jobs::Severity;
use super::reveal::RevealTarget;
use super::{Column, Selection, State};
use crate::app::format::counted;
use crate::app::jobs::{ColumnId, ProbeId, Request};
use crate::model::explain::intervention::Intervention;

impl State {
    /// The columns of the comparison.
    pub fn compared(&self) -> impl Iterator<Item = (ColumnId, &Column)> + Clone {
        self.columns.iter().filter(|(_, column)| column.compared).map(|(id, column)| (*id, column))
    }

    /// The focused column: the chosen one, else the first whose probe learned an order, as it has most to show, else the first.
    pub fn focus(&self) -> Option<ColumnId> {
        let chosen = self.selection.focus.filter(|id| self.columns.contains_key(id));
        let routed = |column: &Column| self.library.probe_info(column.probe).is_some_and(|info| info.routed);
        let first =
            || self.columns.iter().find(|(_, column)| routed(column)).or_else(|| self.columns.first());
        chosen.or_else(|| first().map(|(id, _)| *id))
    }

    /// The column that shows a probe: preferably the focused one, else one without an intervention, else the first.
    pub fn column_of(&self, probe: ProbeId) -> Option<ColumnId> {
        let own = self.columns.iter().filter(|(_, column)| column.probe == probe);
        let rank = |(id, column): &(&ColumnId, &Column)| {
            (self.selection.focus != Some(**id), column.change != Intervention::None)
        };
        own.min_by_key(rank).map(|(id, _)| *id)
    }

    /// Whether a probe has a column of the comparison.
    pub fn is_compared(&self, probe: ProbeId) -> bool {
        self.compared().any(|(_, column)| column.probe == probe)
    }

    /// Appends a column of a probe to the comparison.
    pub(super) fn push_column(&mut self, probe: ProbeId) {
        let (id, place) = (ColumnId(self.fresh()), self.compared().count());
        self.columns.shift_insert(place, id, Column::new(probe, None, Intervention::None));
    }

    /// Focuses a column of a probe; if there is none, adds a temporary one in place of the last temporary one.
    pub(super) fn show_probe(&mut self, probe: ProbeId) -> Vec<Request> {
        if !self.library.probes.contains_key(&probe) {
            return Vec::new();
        }
        let id = self.column_of(probe).unwrap_or_else(|| {
            let id = ColumnId(self.fresh());
            self.columns.retain(|_, column| column.compared);
            let column = Column { compared: false, ..Column::new(probe, None, Intervention::None) };
            self.columns.insert(id, column);
            self.selection.retain(&self.columns);
            id
        });
        self.selection.focus = Some(id);
        self.reveal(RevealTarget::Probe);
        self.explain_columns()
    }

    /// Takes out the temporary column `id` where `wanted` brings another one, or brings into the comparison what it shows: undo may,
    /// and then a probe would be listed twice. The focus passes on, unless `selection` has one.
    pub(super) fn replace_temporary(
        &self,
        id: ColumnId,
        wanted: &mut Entries<ColumnId, Column>,
        selection: &mut Option<Selection>,
    ) {
        let Some(old) = self.columns.get(&id).filter(|_| !wanted.contains_key(&id)) else { return };
        let replaces = |id: &ColumnId, new: &Column| {
            let enters = self.columns.get(id).is_none_or(|now| !now.compared);
            let same = (new.probe, new.image, &new.change) == (old.probe, old.image, &old.change);
            !new.compared || enters && same
        };
        let mut brought = wanted.iter().filter_map(|(id, new)| Some((*id, &new.as_ref()?.1)));
        let Some((other, _)) = brought.find(|(id, new)| replaces(id, new)) else { return };
        wanted.insert(id, None);
        if self.selection.focus == Some(id) {
            let focus = &mut selection.get_or_insert_with(|| self.selection.clone()).focus;
            *focus = focus.filter(|own| *own != id).or(Some(other));
        }
    }

    /// Adds those probes to the comparison that are not in it; with `only`, removes all others.
    pub(super) fn compare_probes(&mut self, probes: &[ProbeId], only: bool) -> Vec<Request> {
        let known = probes.iter().filter(|probe| self.library.probes.contains_key(*probe)).count();
        if known == 0 {
            return Vec::new();
        }
        let is_removed = |column: &Column| only && column.compared && !probes.contains(&column.probe);
        let mut columns =
            removed(self.columns.iter().filter(|(_, column)| is_removed(column)).map(|(id, _)| *id));
        let mut place = self.compared().count() - columns.len();
        let mut added = Vec::new();
        for probe in probes {
            if self.is_compared(*probe) || !self.library.probes.contains_key(probe) {
                continue;
            }
            // A temporary column keeps its trace.
            let shown = self.columns.iter().find(|(_, column)| column.probe == *probe);
            let shown = shown.map(|(id, column)| (*id, column.clone()));
            let (id, column) = shown
                .unwrap_or_else(|| (ColumnId(self.fresh()), Column::new(*probe, None, Intervention::None)));
            columns.insert(id, Some((place, Column { compared: true, ..column })));
            place += 1;
            added.push((id, self.library.probe_name(*probe)));
        }
        if columns.is_empty() {
            // Nothing to add: the existing column is revealed.
            let existing =
                self.compared().find(|(_, column)| probes.contains(&column.probe)).map(|(id, _)| id);
            existing.into_iter().for_each(|id| self.reveal(RevealTarget::Compare(id)));
            return Vec::new();
        }
        let step = match (only, &added[..]) {
            (true, _) => format!("Compare only {}", counted(known, "probe", "probes")),
            (false, [(_, name)]) => format!("Add {name} to Compare"),
            (false, many) => format!("Add {} probes to Compare", many.len()),
        };
        let mut requests = self.change(step, |p| p.columns = columns);
        requests.extend(self.evaluate_interventions());
        let all = self.compared().count();
        let text = match &added[..] {
            _ if only => format!("Compare shows {}", counted(all, "column", "columns")),
            [(_, name)] => format!("{name} was added to Compare, as column {all} of {all}"),
            many => format!("{} probes were added to Compare, which now has {all} columns", many.len()),
        };
        self.note(Severity::Info, text);
        let last = added.last().map(|(id, _)| *id).or_else(|| self.compared().next().map(|(id, _)| id));
        last.into_iter().for_each(|id| self.reveal(RevealTarget::Compare(id)));
        requests
    }

    /// Removes all columns of the comparison but this one.
    pub(super) fn keep_column(&mut self, id: ColumnId) -> Vec<Request> {
        let others: Vec<ColumnId> = self.compared().map(|(id, _)| id).filter(|other| *other != id).collect();
        if others.is_empty() || !self.columns.get(&id).is_some_and(|column| column.compared) {
            return Vec::new();
        }
        self.change("Remove the other columns", |p| p.columns = removed(others))
    }

    /// Removes the columns of these probes from the comparison.
    pub(super) fn remove_from_comparison(&mut self, probes: &[ProbeId]) -> Vec<Request> {
        let own = self.compared().filter(|(_, column)| probes.contains(&column.probe));
        let own: Vec<ColumnId> = own.map(|(id, _)| id).collect();
        if own.is_empty() {
            return Vec::new();
        }
        let text = format!("Remove {} from Compare", counted(own.len(), "column", "columns"));
        self.change(text, |p| p.columns = removed(own))
    }

    pub(super) fn close_probes(&mut self, mut ids: Vec<ProbeId>) -> Vec<Request> {
        ids.retain(|id| self.library.probes.contains_key(id));
        let text = match ids[..] {
            [] => return Vec::new(),
            [only] => format!("Close the probe {}", self.library.probes[&only].name()),
            _ => format!("Close {} probes", ids.len()),
        };
        self.change(text, |p| p.probes = removed(ids))
    }
}
