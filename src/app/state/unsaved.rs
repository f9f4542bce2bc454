//! Whether closing a workspace without saving it would lose something.

use std::path::Path;

use serde_json::Value;

use super::workspace::Workspace;
use super::{Library, Selection, State};
use crate::app::jobs::BackboneOptions;
use crate::app::jobs::train::TrainSettings;
use crate::viz::draw::hover::Hover;

impl State {
    /// Whether the library is empty, no run is open, and there is neither finding nor star.
    pub fn is_empty(&self) -> bool {
        self.library == Library::default() && self.has_no_results()
    }

    /// Whether the library lies in `folder`, as the demo does, and there is no undo step, run, finding or star.
    pub fn is_untouched(&self, folder: &Path) -> bool {
        let is_within = self.paths().all(|path| path.starts_with(folder));
        is_within && self.undo_text().is_none() && self.has_no_results()
    }

    /// Whether all of the library but its backbones is removed with the window, and there is no run, finding or star.
    pub fn is_temporary(&self) -> bool {
        let is_removed = |path: &Path| self.is_removed(path);
        self.files().any(is_removed) && self.files().all(is_removed) && self.has_no_results()
    }

    /// `workspace` without what is removed with the window, which could not be opened again.
    pub fn without_removed(&self, mut workspace: Workspace) -> Workspace {
        workspace.backbones.retain(|backbone| !self.is_removed(Path::new(&backbone.source)));
        workspace.probes.retain(|probe| !self.is_removed(&probe.path));
        workspace.images.retain(|image| !self.is_removed(&image.source.path));
        workspace.datasets.retain(|dataset| !self.is_removed(&dataset.path));
        workspace
    }

    /// Whether a file is removed with the window.
    fn is_removed(&self, path: &Path) -> bool {
        self.temporary.as_ref().is_some_and(|folder| path.starts_with(folder))
    }

    /// The paths in the library.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.library.backbones.values().map(|backbone| Path::new(&backbone.source)).chain(self.files())
    }

    /// The paths in the library but those of backbones.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let Library { probes, images, datasets, .. } = &self.library;
        let paths = probes.values().map(|probe| &*probe.path);
        let paths = paths.chain(images.values().map(|image| &*image.source.path));
        paths.chain(datasets.values().map(|dataset| &*dataset.path))
    }

    /// Whether no run is open, and there is neither finding nor star.
    fn has_no_results(&self) -> bool {
        let has_runs = !(self.training.runs.is_empty() && self.training.unread.is_empty());
        !has_runs && self.findings.iter().len() + self.findings.stars().count() == 0
    }

    /// The workspace without what changes automatically or with every view: the current image, the selected tabs, fingerprints
    /// of files. Two of them are equal if there is nothing worth saving.
    pub fn comparable(&self) -> Workspace {
        let mut all = self.workspace(Value::from(self.arranged));
        all.backbones.iter_mut().for_each(|backbone| (backbone.fingerprint, backbone.open) = (None, true));
        all.probes.iter_mut().for_each(|probe| probe.fingerprint = None);
        all.images.retain(|image| self.library.images.get(&image.id).is_some_and(|own| own.label.is_none()));
        all.columns.retain(|column| column.compared);
        let Selection { image, focus, hover, .. } = &mut all.selection;
        (*image, *focus, *hover) = (None, None, Hover::default());
        // The fields of the form that are filled in automatically when entries are opened.
        let TrainSettings { backbone, data, device, tokens, .. } = TrainSettings::default();
        all.training.tokens.token_spec = tokens.token_spec;
        all.training = TrainSettings { backbone, data, device, ..all.training };
        Workspace { dataset: None, backbone_options: BackboneOptions::default(), runs: Vec::new(), ..all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::Event;
    use crate::app::jobs::info::ProbeInfo;
    use crate::app::state::Status;
    use crate::app::state::command::Command;

    #[test]
    fn what_opens_hides_and_is_removed_by_itself_is_not_worth_saving() {
        let folder = Path::new("/demo");
        let mut state = State { temporary: Some(folder.to_owned()), ..State::default() };
        state.open_probes(vec!["/demo/gap.safetensors".into()], false);
        let before = state.comparable();
        let (&entry, probe) = state.library.probes.iter().next().expect("a probe");
        let Status::Opening(job) = probe.status else { panic!("it is not opened") };
        let info = ProbeInfo { fingerprint: "b5bb".into(), ..ProbeInfo::default() };
        state.apply(Event::ProbeOpened { job, entry, info });
        assert!(state.library.probes[&entry].status.ready().is_some() && state.comparable() == before);
        state.show_probe(entry);
        assert!(state.columns.len() == 1 && state.comparable() == before, "a column of one probe alone");
        assert!(state.is_untouched(folder));
        state.follow_true_class();
        assert!(!state.is_untouched(folder), "it can be undone");
        for path in ["/demo/scenes", "/data/birds"] {
            state.dispatch(Command::OpenDataset(path.into(), None));
        }
        let kept = state.without_removed(state.workspace(Value::Null));
        let datasets: Vec<&Path> = kept.datasets.iter().map(|dataset| &*dataset.path).collect();
        assert_eq!(datasets, [Path::new("/data/birds")]);
    }
}
