//! Which probes of a run are shown first: the best of every head, those with a learned router before others. They are
//! chosen once all probes of the run have been opened.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::PathBuf;

use indexmap::{IndexMap, IndexSet};

use super::State;
use super::jobs::Severity;
use super::reveal::RevealTarget;
use crate::app::format::counted;
use crate::app::jobs::info::{BackboneInfo, Compatibility, ProbeInfo};
use crate::app::jobs::{BackboneOptions, ProbeId, Request};

/// Most columns of the comparison that opening probes fills; more are added by hand.
pub(super) const MAX_AUTO_COLUMNS: usize = 4;

/// The probes of a run that are being opened.
#[derive(Default)]
pub(super) struct RunChoice {
    probes: IndexSet<ProbeId>,
    /// Whether the user opened them, rather than a training that wrote them.
    by_user: bool,
    /// Those that are shown, until a backbone that may read them is open.
    shown: Vec<ProbeId>,
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
        let RunChoice { probes: own, by_user, mut shown } = std::mem::take(&mut self.run_choice);
        let ready = |id: &ProbeId| Some((*id, self.library.probe_info(*id)?));
        let opened = own.iter().filter_map(ready).count();
        // One that does not fit for the layers that are read now alone fits once they are read as it was trained.
        let fits = |id: &ProbeId| {
            !matches!(self.library.fit(*id), Some(Compatibility::DoesNot(_)))
                || self.library.token_mismatch(*id).is_some()
        };
        let best = best_of_each_head(own.iter().filter(|id| fits(id)).filter_map(ready));
        let Some(&first) = best.first() else {
            let why = own.iter().find_map(|id| match self.library.fit(*id)? {
                Compatibility::DoesNot(why) => Some(format!("{}: {why}", self.library.probe_name(*id))),
                _ => None,
            });
            let unfit = best_of_each_head(own.iter().filter_map(ready)).first().copied();
            let Some((why, unfit)) = why.zip(unfit).filter(|_| by_user) else { return Vec::new() };
            let requests = self.show_probe(unfit); // its panes offer to open its backbone
            let probes = counted(opened, "probe", "probes");
            self.note(Severity::Warning, format!("{probes} opened; none fits. {why}"));
            return requests;
        };
        let left = MAX_AUTO_COLUMNS.saturating_sub(self.compared().count());
        for &probe in best.iter().take(left) {
            if !self.is_compared(probe) {
                self.push_column(probe);
            }
        }
        shown.extend(best.into_iter().take(left.max(1)));
        self.run_choice.shown = shown;
        let mut requests = self.open_layers_of_run();
        if !by_user {
            requests.extend(self.explain_columns());
            return requests;
        }
        requests.extend(self.show_probe(first));
        let name = self.library.probe_name(first);
        let probes = counted(opened, "probe", "probes");
        self.note(Severity::Info, format!("{probes} opened; {name} is shown"));
        self.reveal(RevealTarget::Accuracies);
        requests
    }

    /// Where the shown probes of a run were trained on tokens after several layers, opens their backbone once more for each layer that
    /// no open one reads, once it is open; if all were trained on the same tokens, the backbone's own options follow them.
    pub(super) fn open_layers_of_run(&mut self) -> Vec<Request> {
        let info = |probe: &ProbeId| self.library.probe_info(*probe);
        let shown = self.run_choice.shown.iter().filter(|probe| self.column_of(**probe).is_some());
        let shown: Vec<&ProbeInfo> = shown.filter_map(info).collect();
        let is_read_by = |info: &ProbeInfo, backbone: &BackboneInfo| {
            let weights = info.backbone_fingerprint.as_ref();
            info.suits(backbone) && weights.is_none_or(|weights| *weights == backbone.fingerprint)
        };
        // Others may be open before it.
        let own = self.library.backbones.iter().find_map(|(id, known)| {
            let backbone = known.status.ready().filter(|_| known.own.is_none())?;
            let own: Vec<&ProbeInfo> =
                shown.iter().copied().filter(|info| is_read_by(info, backbone)).collect();
            (!own.is_empty()).then_some((*id, backbone, own))
        });
        let Some((id, backbone, own)) = own else { return Vec::new() };
        let source = &self.library.backbones[&id].source;
        let is_open = |options: &BackboneOptions| {
            let mut all = self.library.backbones.values().filter(|known| known.source == *source);
            all.any(|known| known.own.as_ref() == Some(options) && known.status.is_open())
        };
        let mut wanted: IndexMap<BackboneOptions, bool> =
            own.iter().map(|info| (info.options(), info.token_mismatch(backbone).is_some())).collect();
        let several = wanted.len() > 1;
        wanted.retain(|options, differs| several && *differs && !is_open(options));
        self.run_choice.shown.clear();
        wanted.into_keys().flat_map(|options| self.open_beside(id, options)).collect()
    }
}

/// The probe of every head with the highest accuracy on the images that pick epochs, as layers and rates are chosen by, or else on
/// the test images; the first of equal ones. Sorted by learned routers first, then by accuracy on the test images. Probes without an
/// accuracy in their file come last.
fn best_of_each_head<'a>(probes: impl Iterator<Item = (ProbeId, &'a ProbeInfo)>) -> Vec<ProbeId> {
    let accuracy = |info: &ProbeInfo| info.accuracy.unwrap_or(f64::NEG_INFINITY);
    let selection = |info: &ProbeInfo| info.selection.unwrap_or_else(|| accuracy(info));
    let mut best: Vec<(ProbeId, &ProbeInfo)> = Vec::new();
    for (id, info) in probes {
        match best.iter_mut().find(|(_, other)| other.head == info.head) {
            Some(known) if selection(info) > selection(known.1) => *known = (id, info),
            Some(_) => {}
            None => best.push((id, info)),
        }
    }
    best.sort_by(|(_, a), (_, b)| {
        Reverse(a.routed).cmp(&Reverse(b.routed)).then(accuracy(b).total_cmp(&accuracy(a)))
    });
    best.into_iter().map(|(id, _)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_images_do_not_choose_between_probes_of_a_head() {
        let probe = |head: &str, selection, accuracy| ProbeInfo {
            head: head.into(),
            selection,
            accuracy: Some(accuracy),
            ..ProbeInfo::default()
        };
        let [picked, lucky] = [probe("gap", Some(80.0), 60.0), probe("gap", Some(70.0), 90.0)];
        let [older, newer] = [probe("cls", None, 75.0), probe("cls", None, 76.0)];
        let all = [(ProbeId(1), &lucky), (ProbeId(2), &picked), (ProbeId(3), &older), (ProbeId(4), &newer)];
        assert_eq!(best_of_each_head(all.into_iter()), [ProbeId(4), ProbeId(2)]);
    }
}
