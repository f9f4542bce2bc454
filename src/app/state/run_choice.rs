//! Which probes of a run are shown first: the best of every head, those with a learned router before others. They are
//! chosen once all probes of the run have been opened.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::PathBuf;

use indexmap::IndexSet;

use super::State;
use super::jobs::Severity;
use super::reveal::RevealTarget;
use crate::app::format::counted;
use crate::app::jobs::info::{Compatibility, ProbeInfo};
use crate::app::jobs::{ProbeId, Request};

/// Most columns of the comparison that opening probes fills; more are added by hand.
pub(super) const MAX_AUTO_COLUMNS: usize = 4;

/// The probes of a run that are being opened.
#[derive(Default)]
pub(super) struct RunChoice {
    probes: IndexSet<ProbeId>,
    /// Whether the user opened them, rather than a training that wrote them.
    by_user: bool,
}

impl State {
    /// Opens the probes of a run; once all of them are open, the best are shown.
    pub(super) fn open_run_probes(&mut self, paths: Vec<PathBuf>, by_user: bool) -> Vec<Request> {
        let mut requests = self.open_probes(paths.clone(), false);
        let paths: HashSet<PathBuf> = paths.into_iter().collect(); // a sweep has hundreds
        let own = self.library.probes.iter().filter(|(_, probe)| paths.contains(&probe.path));
        self.run_choice.probes.extend(own.map(|(id, _)| *id));
        self.run_choice.by_user |= by_user;
        requests.extend(self.show_best_of_run());
        requests
    }

    /// Shows the best probes of a run, once none of them is being opened any more.
    pub(super) fn show_best_of_run(&mut self) -> Vec<Request> {
        let probes = &self.library.probes;
        let opening = |id: &ProbeId| probes.get(id).is_some_and(|probe| probe.status.is_opening());
        if self.run_choice.probes.is_empty() || self.run_choice.probes.iter().any(opening) {
            return Vec::new();
        }
        let RunChoice { probes: own, by_user } = std::mem::take(&mut self.run_choice);
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
        if !by_user {
            return self.explain_columns();
        }
        let requests = self.show_probe(first);
        let name = self.library.probe_name(first);
        let probes = counted(opened, "probe", "probes");
        self.note(Severity::Info, format!("{probes} opened; {name} is shown"));
        self.reveal(RevealTarget::Accuracies);
        requests
    }
}

/// The probe with the highest accuracy of every head, the first of equal ones; sorted by learned routers first, then by
/// accuracy. Probes without an accuracy in their file come last.
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
