//! Which probes of a run are looked at first: the best of every head, those with a learned router before
//! others. They are known once all of them were opened.

use std::cmp::Reverse;
use std::path::PathBuf;

use super::State;
use super::jobs::Severity;
use super::reveal::RevealTarget;
use crate::app::jobs::info::{Compatibility, ProbeInfo};
use crate::app::jobs::{ProbeId, Request};

/// Probes that become columns by themselves; more are added by hand.
pub(super) const MAX_AUTO_COLUMNS: usize = 4;

/// Probes that were opened together, of which some are to be shown.
#[derive(Default)]
pub(super) struct RunChoice {
    probes: Vec<ProbeId>,
    /// Whether a person opened them, and wants to see them.
    asked: bool,
}

impl State {
    /// Opens the probes of a run; once all of them are open, its best are shown.
    pub(super) fn open_run_probes(&mut self, paths: Vec<PathBuf>, asked: bool) -> Vec<Request> {
        let requests = self.open_probes(paths.clone(), false);
        let own = self.library.probes.iter().filter(|(_, probe)| paths.contains(&probe.path));
        let own: Vec<ProbeId> = own.map(|(id, _)| *id).collect();
        let known = &mut self.run_choice.probes;
        known.extend(own.into_iter().filter(|id| !known.contains(id)).collect::<Vec<_>>());
        self.run_choice.asked |= asked;
        let mut all = requests;
        all.extend(self.show_best_of_run());
        all
    }

    /// Shows the best probes of a run, where all of it were opened by now.
    pub(super) fn show_best_of_run(&mut self) -> Vec<Request> {
        let probes = &self.library.probes;
        let opening = |id: &ProbeId| probes.get(id).is_some_and(|probe| probe.status.is_opening());
        if self.run_choice.probes.is_empty() || self.run_choice.probes.iter().any(opening) {
            return Vec::new();
        }
        let RunChoice { probes: own, asked } = std::mem::take(&mut self.run_choice);
        let ready = |id: &ProbeId| Some((*id, &**self.library.probes.get(id)?.status.ready()?));
        let opened = own.iter().filter_map(ready).count();
        let fits = |id: &ProbeId| !matches!(self.library.fit(*id), Some(Compatibility::DoesNot(_)));
        let best = best_of_each_head(own.iter().filter(|id| fits(id)).filter_map(ready));
        let Some(&first) = best.first() else { return Vec::new() };
        let left = MAX_AUTO_COLUMNS.saturating_sub(self.compared().count());
        for probe in best.into_iter().take(left) {
            if !self.is_compared(probe) {
                self.push_column(probe);
            }
        }
        if !asked {
            return self.explain_columns();
        }
        let requests = self.show_probe(first);
        let name = self.library.probe_name(first);
        let s = if opened == 1 { "" } else { "s" };
        self.note(Severity::Info, format!("{opened} probe{s} opened; {name} is looked through"));
        self.reveal(RevealTarget::Accuracies);
        requests
    }
}

/// Of every head the probe with the highest accuracy, the first of equal ones; those with a learned router
/// first, then by accuracy. One whose file says none comes last.
fn best_of_each_head<'a>(probes: impl Iterator<Item = (ProbeId, &'a ProbeInfo)>) -> Vec<ProbeId> {
    let accuracy = |info: &ProbeInfo| info.accuracy.unwrap_or(f64::NEG_INFINITY);
    let mut best: Vec<(ProbeId, &ProbeInfo)> = Vec::new();
    for (id, info) in probes {
        match best.iter_mut().find(|(_, other)| other.head == info.head) {
            Some(known) if accuracy(info) > accuracy(known.1) => *known = (id, info),
            Some(_) => {}
            None => best.push((id, info)),
        }
    }
    best.sort_by(|(_, a), (_, b)| {
        Reverse(a.routed).cmp(&Reverse(b.routed)).then(accuracy(b).total_cmp(&accuracy(a)))
    });
    best.into_iter().map(|(id, _)| id).collect()
}
