//! The question before a workspace reaches beyond this machine: to the host of its files, or to the Hub for backbones. It is one
//! question for all of that, and none where the user has been before.

use eframe::egui::{Label, Ui};
use indexmap::IndexSet;

use super::dialog::{self, Answer};
use super::relink::LoadedWorkspace;
use crate::app::format::{counted, file_name};
use crate::app::state::State;
use crate::app::state::connection::Host;
use crate::app::state::workspace::Workspace;
use crate::app::window::{MainWindow, WindowOrder};
use crate::model::backbone::hub;

/// Most backbones that the question names.
const MAX_NAMED: usize = 8;

/// The backbones that are downloaded to this machine when a workspace is opened: of those that it opens, and that of its training form,
/// which is planned as soon as it is shown.
pub fn downloads(workspace: &Workspace) -> IndexSet<String> {
    let open = workspace.backbones.iter().filter(|backbone| backbone.open).map(|backbone| &backbone.source);
    let here = workspace.host.as_ref().is_none_or(Host::is_here);
    let named = open.chain([&workspace.training.backbone]).filter(|_| here);
    named.filter(|source| hub::downloads(source)).cloned().collect()
}

impl MainWindow {
    /// Orders to restore a workspace that was read; asks first if it reaches out to where the user has not been.
    pub(in crate::app::window) fn enter(&mut self, read: LoadedWorkspace, state: &State) {
        if read.needs_network(state) {
            self.dialogs.outside = Some(read);
        } else {
            self.dialogs.outside = None;
            self.orders.push(WindowOrder::Restore(read.path, Box::new(read.workspace)));
        }
    }

    /// Whether a workspace is being read, or waits for an answer before it opens.
    pub(in crate::app::window) fn asks(&self) -> bool {
        self.loading.is_some() || self.dialogs.outside.is_some() || self.dialogs.relink.is_some()
    }

    /// Draws the question while one is pending.
    pub(super) fn ask_outside(&mut self, ui: &Ui) {
        let answer = self.dialogs.outside.as_ref().map_or(Answer::Open, |read| read.ask(ui));
        if matches!(answer, Answer::Open) {
            return;
        }
        let read = self.dialogs.outside.take();
        if let (Answer::Given(downloads), Some(read)) = (answer, read) {
            let LoadedWorkspace { path, workspace, .. } =
                if downloads { read } else { read.without_downloads() };
            self.orders.push(WindowOrder::Restore(path, Box::new(workspace)));
        }
    }
}

impl LoadedWorkspace {
    fn needs_network(&self, state: &State) -> bool {
        let host = self.workspace.host.as_ref();
        !self.own && (!self.downloads.is_empty() || host.is_some_and(|host| !state.knows_host(host)))
    }

    /// Closes the backbones that would be downloaded; the library still lists them.
    fn without_downloads(mut self) -> Self {
        let Workspace { backbones, training, .. } = &mut self.workspace;
        backbones.iter_mut().for_each(|backbone| backbone.open &= !self.downloads.contains(&backbone.source));
        if self.downloads.contains(&training.backbone) {
            training.backbone.clear();
        }
        self
    }

    /// Draws the question; the answer is whether to open the workspace with what it downloads.
    fn ask(&self, ui: &Ui) -> Answer<bool> {
        let host = self.workspace.host.as_ref().filter(|host| !host.is_here()).map(Host::name);
        let name = file_name(&self.path);
        let (title, about, yes) = match host {
            Some(host) => (
                format!("Connect to {host}?"),
                format!(
                    "The files of {name} are on {host}, to which you have not connected before. Opening it logs in there \
                     with your own ssh, and downloads to that machine any backbones that it takes from the Hub"
                ),
                "Connect",
            ),
            None => (
                format!("Download {}?", counted(self.downloads.len(), "backbone", "backbones")),
                format!("{name} needs files from the Hugging Face Hub that are not on this machine"),
                "Download",
            ),
        };
        dialog::show(ui.ctx(), "outside", 460.0, &title, |ui| {
            ui.add(Label::new(about).wrap());
            for source in self.downloads.iter().take(MAX_NAMED) {
                ui.add(Label::new(source).truncate());
            }
            if let Some(more @ 1..) = self.downloads.len().checked_sub(MAX_NAMED) {
                ui.weak(format!("and {} more", counted(more, "backbone", "backbones")));
            }
            dialog::buttons_with(ui, yes, true, true, |ui| {
                match host.is_none() && ui.button("Open without them").clicked() {
                    true => Answer::Given(false),
                    false => Answer::Open,
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::app::jobs::BackboneId;
    use crate::app::state::workspace::SavedBackbone;

    /// A workspace with open backbones of these sources, the last of which its training form names, as it is when the first is on this
    /// machine alone.
    fn read(sources: [&str; 2], host: Option<&str>) -> LoadedWorkspace {
        let backbone = |(id, source): (u64, &str)| {
            let (id, source) = (BackboneId(id), source.to_owned());
            SavedBackbone { id, source, fingerprint: None, options: None, open: true }
        };
        let mut workspace =
            Workspace { backbones: (1..).zip(sources).map(backbone).collect(), ..Workspace::default() };
        workspace.training.backbone = sources[1].to_owned();
        workspace.host = host.map(|place| Host { place: place.to_owned(), program: None });
        let downloads =
            if host.is_none() { IndexSet::from([sources[1].to_owned()]) } else { IndexSet::new() };
        let (path, own) = (PathBuf::from("theirs.ssmprobe"), false);
        LoadedWorkspace { path, workspace, own, downloads, missing: Vec::new() }
    }

    #[test]
    fn a_workspace_is_asked_about_once_unless_it_is_the_users_own_or_goes_where_they_have_been() {
        let mut state = State::default();
        let sources = ["./here", "org/name"];
        let asks = |read: LoadedWorkspace, state: &State| {
            let mut window = MainWindow::default();
            window.enter(read, state);
            assert_eq!(window.orders.is_empty(), window.dialogs.outside.is_some());
            window.orders.is_empty()
        };
        assert!(asks(read(sources, None), &state) && asks(read(sources, Some("ssh://gpu1")), &state));
        assert!(!asks(LoadedWorkspace { own: true, ..read(sources, Some("ssh://gpu1")) }, &state));
        assert!(!asks(LoadedWorkspace { own: true, ..read(sources, None) }, &state));
        assert!(!asks(LoadedWorkspace { downloads: IndexSet::new(), ..read(sources, None) }, &state));
        assert!(!asks(read(sources, Some("local")), &state), "a process of this machine");
        // Whatever program was started there.
        let host = Host { place: "ssh://gpu1".into(), program: Some("~/ssmprobe".into()) };
        state.settings.recent.hosts.push_front(host);
        assert!(
            !asks(read(sources, Some("ssh://gpu1")), &state)
                && asks(read(sources, Some("ssh://gpu2")), &state)
        );
    }

    #[test]
    fn what_is_not_downloaded_stays_in_the_library_closed() {
        let Workspace { backbones, training, .. } =
            read(["./here", "org/name"], None).without_downloads().workspace;
        assert_eq!(backbones.iter().map(|backbone| backbone.open).collect::<Vec<_>>(), [true, false]);
        assert_eq!((training.backbone.as_str(), backbones[1].source.as_str()), ("", "org/name"));
    }

    #[test]
    fn only_what_is_opened_from_the_hub_is_downloaded() {
        let mut workspace = read(["./here", "/nowhere/at-all"], None).workspace;
        assert!(downloads(&workspace).is_empty(), "paths are not");
        workspace.host = Some(Host { place: "ssh://gpu1".into(), program: None });
        workspace.training.backbone = "org/name-that-nobody-has".into();
        assert!(downloads(&workspace).is_empty(), "not to this machine");
        workspace.host = Some(Host { place: "local".into(), program: None });
        assert_eq!(downloads(&workspace), IndexSet::from(["org/name-that-nobody-has".to_owned()]));
    }
}
