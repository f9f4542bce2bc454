//! The dialog for missing files of a workspace: they are located one by one, and with a located one all
//! others that moved with it.

use std::path::{Path, PathBuf};

use eframe::egui;
use egui::style::ScrollAnimation;
use egui::{Label, RichText, ScrollArea, Ui, Vec2};
use indexmap::IndexSet;

use super::dialog::{self, Answer, Chosen};
use super::file_request::FileRequest;
use super::outside;
use crate::app::format::file_name;
use crate::app::session::fingerprint;
use crate::app::state::workspace::{Entry, Workspace, WorkspaceError};

/// Height of one missing file.
const ROW_PX: f32 = 42.0;

/// A workspace that was read, and whose missing files are being located if there are any.
pub struct LoadedWorkspace {
    /// The workspace's own file.
    pub path: PathBuf,
    /// Its content, with the files located so far.
    pub workspace: Workspace,
    /// Whether it is a session of this user, not a file that somebody else may have made.
    pub own: bool,
    /// The backbones that opening it downloads; none are looked for in a session of this user.
    pub downloads: IndexSet<String>,
    /// The files that are not where it expects them.
    pub missing: Vec<(Entry, PathBuf)>,
}

impl LoadedWorkspace {
    /// Reads the workspace in the file `path`, one of this user's sessions if it is `own`, and looks for what it names: this takes long
    /// where that is much.
    pub fn load(path: PathBuf, own: bool) -> Result<Self, WorkspaceError> {
        // Taken first: what another window saves meanwhile counts as a change.
        let found = if own { None } else { fingerprint(&path) };
        let mut workspace = Workspace::load(&path)?;
        workspace.saved_fingerprint = found.or(workspace.saved_fingerprint);
        let downloads = if own { IndexSet::new() } else { outside::downloads(&workspace) };
        Ok(Self { missing: workspace.missing(), path, workspace, own, downloads })
    }

    /// Sets the new place of an entry, and looks again for what is missing.
    pub fn located(mut self, entry: Entry, now: &Path) -> Self {
        self.workspace.relink(entry, now);
        Self { missing: self.workspace.missing(), ..self }
    }

    /// Draws the dialog; it is done when the workspace is to be opened without what is missing.
    pub fn ui(&mut self, ui: &Ui) -> Answer<Chosen<()>> {
        let title = match self.missing.len() {
            1 => "A file is missing".to_owned(),
            many => format!("{many} files are missing"),
        };
        dialog::show(ui.ctx(), "locate", 560.0, &title, |ui| {
            let (name, many) = (file_name(&self.path), self.missing.len() > 1);
            ui.weak(match many {
                true => format!(
                    "They are not where {name} expects them; locating one finds others that moved with it"
                ),
                false => format!("It is not where {name} expects it"),
            });
            ui.add_space(4.0);
            let mut answer = Answer::Open;
            let area = ScrollArea::vertical().max_height(6.0 * ROW_PX).auto_shrink([false, true]);
            area.show_rows(ui, ROW_PX, self.missing.len(), |ui, shown| {
                for (entry, path) in &self.missing[shown] {
                    if row(ui, *entry, path) {
                        answer = Answer::Given(Chosen::File(FileRequest::Relink(*entry)));
                    }
                }
            });
            let otherwise = if many { "Open without them" } else { "Open without it" };
            answer.or(dialog::buttons(ui, otherwise, true, Chosen::Done(())))
        })
    }
}

/// Draws a missing file; whether its button to locate it was clicked.
fn row(ui: &mut Ui, entry: Entry, path: &Path) -> bool {
    let kind = match entry {
        Entry::Backbone(_) => "Backbone",
        Entry::Probe(_) => "Probe",
        Entry::Image(_) => "Image",
        Entry::Dataset(_) => "Dataset",
        Entry::Masks => "Masks",
        Entry::Run(_) => "Run",
    };
    let name = file_name(path);
    let mut clicked = false;
    ui.horizontal(|ui| {
        ui.set_height(ROW_PX - 6.0);
        ui.vertical(|ui| {
            ui.spacing_mut().item_spacing.y = 1.0;
            ui.set_width(ui.available_width() - 84.0);
            ui.add(Label::new(format!("{kind} {name}")).truncate());
            let folder = path.parent().unwrap_or(Path::new("")).display().to_string();
            ui.add(Label::new(RichText::new(folder).small().weak()).truncate());
        });
        let locate = ui.button("Locate…").accessible_name(format!("Locate {name}"));
        // The next row is scrolled into view too, so that keyboard focus can move on to it.
        if locate.gained_focus() {
            let room = locate.rect.expand2(Vec2::new(0.0, ROW_PX));
            ui.scroll_to_rect_animation(room, None, ScrollAnimation::none());
        }
        clicked = locate.clicked();
    });
    clicked
}
