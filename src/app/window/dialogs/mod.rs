//! The dialogs: one file each, and what they have in common (dialog).

pub mod close_confirm;
pub mod connect;
pub mod dialog;
pub mod export;
pub mod file_picker;
pub mod file_request;
pub mod finding;
pub mod folder_browser;
pub mod help;
mod hub;
pub mod leaving;
mod outside;
pub mod palette;
mod path_field;
pub mod relink;
pub mod share;
pub mod tour;

use std::path::PathBuf;

use eframe::egui::Ui;

use self::close_confirm::CloseConfirm;
use self::connect::ConnectDialog;
use self::dialog::{Answer, Chosen, ask};
use self::export::Export;
use self::file_picker::FilePicker;
use self::file_request::FileRequest;
use self::finding::FindingDialog;
use self::folder_browser::FolderBrowser;
use self::help::Help;
use self::leaving::Leaving;
use self::palette::Palette;
use self::relink::LoadedWorkspace;
use self::share::ShareDialog;
use self::tour::Tour;
use super::panels::UiAction;
use super::{MainWindow, WindowOrder};
use crate::app::state::State;
use crate::app::state::command::Command;
use crate::app::state::connection::Host;

/// The dialogs that are open, and what they remember from the last time.
#[derive(Default)]
pub struct Dialogs {
    pub palette: Option<Palette>,
    /// The id of a backbone on the Hub, as typed so far.
    pub hub: Option<String>,
    /// Which machine to compute on.
    pub connect: Option<ConnectDialog>,
    /// The system's file dialog, or the field for a typed path.
    pub picker: FilePicker,
    /// The file dialog for a remote machine, and what it is for.
    pub browser: Option<(FileRequest, FolderBrowser)>,
    /// The folder in which it was last confirmed, and its machine.
    pub last_folder: Option<(Host, PathBuf)>,
    pub finding: Option<FindingDialog>,
    /// Findings as a page or a folder of figures.
    pub share: Option<ShareDialog>,
    /// A figure as a file.
    pub export: Option<Export>,
    /// The file beside which the next figure is exported, in its format.
    pub exported: Option<PathBuf>,
    /// Files of a workspace that were not found.
    pub relink: Option<LoadedWorkspace>,
    /// The workspace that waits for an answer, as it reaches beyond this machine.
    pub outside: Option<LoadedWorkspace>,
    /// What becomes of a training when the window closes.
    pub close: CloseConfirm,
    /// What follows once the user has decided whether to save the workspace.
    pub leaving: Option<Leaving>,
    pub help: Option<Help>,
    /// The tour of the demo, which leaves the window usable.
    pub tour: Option<Tour>,
}

impl MainWindow {
    /// Draws every open dialog but the tour, which leaves the window usable, and carries out what is chosen in them.
    pub(super) fn draw_dialogs(&mut self, ui: &Ui, state: &State, actions: &mut Vec<UiAction>) {
        let panels = &self.panels.0;
        actions.extend(ask(&mut self.dialogs.palette, |palette| palette.ui(ui, state, panels)));
        let action = ask(&mut self.dialogs.help, |help| help.ui(ui));
        actions.extend(action.map(UiAction::Action));
        let source = ask(&mut self.dialogs.hub, |text| hub::ui(ui, text));
        actions.extend(source.map(|source| UiAction::Command(Command::OpenBackbone(source))));
        let host = ask(&mut self.dialogs.connect, |dialog| dialog.ui(ui, state));
        actions.extend(host.map(|host| UiAction::Leave(Leaving::Host(host))));
        let command = ask(&mut self.dialogs.finding, |dialog| dialog.ui(ui));
        actions.extend(command.map(UiAction::Command));
        self.share_dialog(ui, state);
        match self.dialogs.relink.as_mut().map_or(Answer::Open, |dialog| dialog.ui(ui)) {
            Answer::Open => {}
            Answer::Closed => self.dialogs.relink = None,
            Answer::Given(Chosen::File(request)) => self.pick(ui.ctx(), request),
            Answer::Given(Chosen::Done(())) => {
                self.dialogs.relink.take().into_iter().for_each(|read| self.enter(read, state));
            }
        }
        self.ask_outside(ui);
        let chosen = self.dialogs.picker.ui(ui, &state.settings.recent);
        for (what, paths) in chosen.into_iter().chain(self.browse(ui, state)) {
            self.handle_files(ui.ctx(), what, paths, state);
        }
        self.dialogs.close.ui(ui, state, actions);
        self.ask_to_save(ui, state);
        self.export_dialog(ui);
        if !self.asks() {
            self.orders.extend(self.afterwards.drain(..).map(WindowOrder::Command));
        }
    }
}
