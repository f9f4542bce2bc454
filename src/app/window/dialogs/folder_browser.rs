//! A file dialog for the machine of a remote worker, whose folders no dialog of this system can list.

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui;
use egui::{Button, Id, Key, Modifiers, RichText, Role, TextEdit, Ui, WidgetInfo};

use super::dialog::{self, Answer};
use super::file_request::{FileKind, FileRequest, Question};
use crate::app::format;
use crate::app::jobs::PathKind;
use crate::app::jobs::folder::{Folder, FolderEntry, MAX_ENTRIES};
use crate::app::state::State;
use crate::app::state::command::Command;
use crate::app::window::{MainWindow, style, widgets};
use crate::viz::figures::dataset::folded;

/// Height of the list.
const LIST_PX: f32 = 300.0;
/// The id of the filter.
const FILTER: &str = "folder filter";

/// The open dialog: its question, and what is listed and chosen.
pub struct FolderBrowser {
    question: Question,
    /// The path as typed; set to the folder's whenever one is listed.
    path: String,
    filter: String,
    /// Names of the chosen entries; the arrow keys move the last.
    chosen: Vec<String>,
    /// The row of the last chosen entry, which was scrolled to.
    last: Option<usize>,
    /// Whether the arrow keys chose it, and nothing was typed since.
    by_keys: bool,
    /// The listed folder.
    shown: Arc<Folder>,
}

/// What a person did in the dialog.
enum Step {
    /// List this folder, or the one of this file.
    List(PathBuf),
    Choose(Vec<PathBuf>),
}

impl MainWindow {
    /// Opens a file dialog: the system's, or the folder browser for files of a remote worker's machine.
    pub(in crate::app::window) fn pick_or_browse(
        &mut self,
        ctx: &egui::Context,
        what: FileRequest,
        state: &State,
    ) {
        if state.connection.host().is_none() || !what.is_on_worker() {
            return self.pick(ctx, what);
        }
        let browser = FolderBrowser::new(what.question());
        self.dialogs.browser = Some((what, browser));
        let last =
            self.dialogs.last_folder.as_ref().filter(|(host, _)| state.connection.host() == Some(host));
        let folder = last.map_or_else(PathBuf::new, |(_, folder)| folder.clone());
        self.send(Command::ListFolder(folder));
    }

    /// Draws the folder browser if it is open; what was chosen in it.
    pub(super) fn browse(&mut self, ui: &Ui, state: &State) -> Option<(FileRequest, Vec<PathBuf>)> {
        if state.connection.host().is_none() {
            self.dialogs.browser = None;
        }
        let (_, browser) = self.dialogs.browser.as_mut()?;
        match browser.ui(ui, state) {
            Answer::Open => None,
            Answer::Closed => {
                self.dialogs.browser = None;
                None
            }
            Answer::Given(Step::List(folder)) => {
                self.send(Command::ListFolder(folder));
                None
            }
            Answer::Given(Step::Choose(paths)) => {
                let (what, browser) = self.dialogs.browser.take()?;
                let host = state.connection.host()?.clone();
                self.dialogs.last_folder = Some((host, browser.shown.path.clone()));
                Some((what, paths))
            }
        }
    }
}

impl FolderBrowser {
    fn new(question: Question) -> Self {
        let (path, filter, chosen, shown) = (String::new(), String::new(), Vec::new(), Arc::default());
        Self { question, path, filter, chosen, last: None, by_keys: false, shown }
    }

    fn ui(&mut self, ui: &Ui, state: &State) -> Answer<Step> {
        let name = state.connection.host().map_or("", |host| host.name());
        let title = format!("{} on {name}", self.question.title);
        dialog::show(ui.ctx(), "folder", 640.0, &title, |ui| self.contents(ui, state))
    }

    fn contents(&mut self, ui: &mut Ui, state: &State) -> Answer<Step> {
        let browser = &state.browser;
        if let Some(folder) = browser.folder.as_ref().filter(|folder| !Arc::ptr_eq(folder, &self.shown)) {
            self.set_listing(folder.clone());
        }
        let folder = self.shown.clone();
        let rows = self.rows(&folder);
        let pressed = self.keys(ui, &folder, &rows);
        let up = self.fields(ui, &folder);
        // With a typed path, Enter means that path.
        let opens = self.typed_path(&folder).is_none() && dialog::entered(ui);
        // It opens a folder; files are the default button's, which gives all that are chosen.
        let entered = self.last_chosen(&rows).map(|at| rows[at]).filter(|entry| opens && entry.is_folder);
        let opened = entered.map(|entry| enter(&folder, entry));
        ui.add_space(2.0);
        let clicked = self.list(ui, &folder, &rows);
        let answer = clicked.or(up).or(opened).or(pressed).map_or(Answer::Open, Answer::Given);
        notes(ui, &folder, rows.len());
        match (&browser.error, browser.asked) {
            (Some(error), _) => {
                drop(ui.label(style::failure(ui, error.one_line())));
            }
            (None, Some(_)) => drop(ui.weak("Listing…")),
            (None, None) => drop(ui.weak(" ")),
        }
        let given = match (self.typed_path(&folder), &self.question.kind) {
            (Some(new), FileKind::NewFolder) => Step::Choose(vec![new]),
            // A typed path is listed first: only the worker knows what lies there.
            (Some(typed), _) => Step::List(typed),
            (None, _) => Step::Choose(self.answer(&folder)),
        };
        let verb = if self.question.kind == FileKind::NewFolder { "Choose" } else { "Open" };
        let ready = !matches!(&given, Step::Choose(paths) if paths.is_empty());
        answer.or(dialog::buttons(ui, verb, ready, given))
    }

    /// The typed path, if it differs from that of the listed folder.
    fn typed_path(&self, folder: &Folder) -> Option<PathBuf> {
        let typed = self.path.trim();
        (!typed.is_empty() && typed != folder.path.display().to_string()).then(|| PathBuf::from(typed))
    }

    /// Shows a new listing: sets the path, clears the filter, chooses the file it was asked for.
    fn set_listing(&mut self, folder: Arc<Folder>) {
        self.path = folder.path.display().to_string();
        self.filter.clear();
        self.chosen = folder.file.iter().cloned().collect();
        (self.shown, self.last) = (folder, None);
    }

    /// Draws the filter, which comes first so that it has the focus, the Up button and the path.
    fn fields(&mut self, ui: &mut Ui, folder: &Folder) -> Option<Step> {
        let edit = TextEdit::singleline(&mut self.filter).id(Id::unique(FILTER)).hint_text("Filter");
        let edit = widgets::field(ui, "Filter", edit.desired_width(f32::INFINITY));
        self.by_keys &= !edit.changed();
        // A click beside it does not end typing, but Enter opens what is chosen.
        if ui.memory(|memory| memory.focused().is_none()) && !ui.input(|i| i.key_pressed(Key::Enter)) {
            edit.request_focus();
        }
        let row = ui.horizontal(|ui| {
            let above = folder.path.parent();
            let up = ui.add_enabled(above.is_some(), Button::new("Up")).on_hover_text("Alt+Up").clicked();
            let edit = TextEdit::singleline(&mut self.path).desired_width(f32::INFINITY);
            widgets::field(ui, "Path", edit);
            above.filter(|_| up).map(|above| Step::List(above.to_owned()))
        });
        row.inner
    }

    /// The entries that are listed, those with the filter in their name.
    fn rows<'a>(&self, folder: &'a Folder) -> Vec<&'a FolderEntry> {
        let filter = folded(self.filter.trim());
        let is_listed = |entry: &&FolderEntry| {
            let FolderEntry { name, is_folder, .. } = entry;
            self.question.lists(name, *is_folder, &filter) && folded(name).contains(&filter)
        };
        folder.entries.iter().filter(is_listed).collect()
    }

    fn list(&mut self, ui: &mut Ui, folder: &Folder, rows: &[&FolderEntry]) -> Option<Step> {
        let mut step = None;
        let several = self.question.kind == FileKind::Files;
        let high = ui.spacing().interact_size.y;
        let last = self.last_chosen(rows);
        let moved = if std::mem::replace(&mut self.last, last) == last { None } else { last };
        widgets::scrolled(ui, LIST_PX).show_rows(ui, high, rows.len(), |ui, shown| {
            moved.into_iter().for_each(|at| widgets::scroll_to_row(ui, high, at, shown.start));
            for entry in &rows[shown] {
                let chosen = self.chosen.contains(&entry.name);
                let row = ui.selectable_label(chosen, entry_text(entry));
                row.widget_info(|| WidgetInfo::selected(Role::Button, true, chosen, &entry.name));
                if self.by_keys && self.chosen.last() == Some(&entry.name) {
                    widgets::tell_row(Id::unique(FILTER), &row);
                }
                if row.double_clicked() {
                    step = Some(enter(folder, entry));
                } else if row.clicked() {
                    if !(several && ui.input(|i| i.modifiers.command)) {
                        self.chosen.clear();
                    }
                    match chosen && several {
                        true => self.chosen.retain(|name| *name != entry.name),
                        false => self.chosen.push(entry.name.clone()),
                    }
                }
            }
        });
        step
    }

    fn last_chosen(&self, rows: &[&FolderEntry]) -> Option<usize> {
        let name = self.chosen.last()?;
        rows.iter().position(|entry| entry.name == *name)
    }

    /// Handles keys: arrows move through the list, Alt+Up opens the parent folder.
    fn keys(&mut self, ui: &Ui, folder: &Folder, rows: &[&FolderEntry]) -> Option<Step> {
        let pressed = |modifiers, key| ui.input_mut(|i| i.consume_key(modifiers, key));
        if pressed(Modifiers::ALT, Key::ArrowUp) {
            return folder.path.parent().map(|above| Step::List(above.to_owned()));
        }
        let at = self.last_chosen(rows);
        let moved = match (pressed(Modifiers::NONE, Key::ArrowDown), pressed(Modifiers::NONE, Key::ArrowUp)) {
            (true, _) => Some(at.map_or(0, |at| at + 1)),
            (_, true) => Some(at.unwrap_or(1).saturating_sub(1)),
            _ => None,
        };
        if let Some(entry) = moved.and_then(|to| rows.get(to)) {
            (self.chosen, self.by_keys) = (vec![entry.name.clone()], true);
        }
        None
    }

    /// The paths that confirming gives: the chosen entries that the list shows, or the folder itself where a folder is asked for.
    fn answer(&self, folder: &Folder) -> Vec<PathBuf> {
        let rows = self.rows(folder);
        let is = |name: &String, is_folder: bool| {
            rows.iter().any(|entry| entry.name == *name && entry.is_folder == is_folder)
        };
        let chosen = |is_folder| {
            let names = self.chosen.iter().filter(move |name| is(name, is_folder));
            names.map(|name| folder.at(name)).collect::<Vec<_>>()
        };
        match (&self.question.kind, chosen(true)) {
            (FileKind::File | FileKind::Files, _) => chosen(false),
            (FileKind::Save(_), _) => Vec::new(),
            // Nothing is listed yet, or the path was emptied.
            (_, folders) if folders.is_empty() && self.path.trim().is_empty() => Vec::new(),
            (FileKind::Folder | FileKind::NewFolder, folders) if folders.is_empty() => {
                vec![folder.path.clone()]
            }
            (FileKind::Folder | FileKind::NewFolder, folders) => folders,
        }
    }
}

/// Opening an entry lists a folder and chooses a file.
fn enter(folder: &Folder, entry: &FolderEntry) -> Step {
    let path = folder.at(&entry.name);
    if entry.is_folder { Step::List(path) } else { Step::Choose(vec![path]) }
}

/// The text of an entry in the list.
fn entry_text(entry: &FolderEntry) -> RichText {
    let kind = match entry.kind {
        Some(PathKind::Backbone) => " · backbone",
        Some(PathKind::Run) => " · run or probes",
        Some(PathKind::Dataset) => " · dataset",
        Some(PathKind::Missing) => " · broken link",
        Some(PathKind::Probe | PathKind::Images | PathKind::Workspace | PathKind::Unknown) | None => "",
    };
    RichText::new(match entry.is_folder {
        true => format!("{}/{kind}", entry.name),
        false => format!("{}{kind} · {}", entry.name, format::bytes(entry.bytes)),
    })
}

/// Draws notes on entries that are not listed, and why.
fn notes(ui: &mut Ui, folder: &Folder, rows: usize) {
    if folder.cut {
        ui.weak(format!("Only {MAX_ENTRIES} of its entries are listed: type the full path to reach others"));
    }
    if folder.unnamed > 0 {
        ui.weak(format!("{} whose names are not valid text are left out", folder.unnamed));
    }
    if rows == 0 && !folder.path.as_os_str().is_empty() {
        ui.weak("No matching entries");
    }
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    /// A browser for `kind` that lists 40 files and the folder `runs`, and the paths that it gave.
    fn harness(kind: FileKind) -> Harness<'static, (FolderBrowser, Vec<PathBuf>)> {
        let entry = |name: String, is_folder| FolderEntry { name, is_folder, kind: None, bytes: 1 };
        let files = (10..50).map(|number| entry(format!("{number}.npz"), false));
        let entries = std::iter::once(entry("runs".to_owned(), true)).chain(files).collect();
        let mut state = State::default();
        state.browser.folder = Some(Arc::new(Folder { path: "/data".into(), entries, ..Folder::default() }));
        let browser = FolderBrowser::new(Question { title: "Files", kind, endings: &[] });
        let ui = move |ui: &mut Ui, (browser, given): &mut (FolderBrowser, Vec<PathBuf>)| {
            if let Answer::Given(Step::Choose(paths)) = browser.ui(ui, &state) {
                *given = paths;
            }
        };
        let mut harness = Harness::new_ui_state(ui, (browser, Vec::new()));
        harness.run();
        harness
    }

    #[test]
    fn enter_gives_all_files_that_are_chosen_and_a_new_folder_as_it_is_typed() {
        let mut files = harness(FileKind::Files);
        files.state_mut().0.chosen = ["12.npz", "11.npz"].map(str::to_owned).into();
        files.key_press(Key::Enter);
        files.run();
        assert_eq!(files.state().1, ["/data/12.npz", "/data/11.npz"].map(PathBuf::from));
        let mut folder = harness(FileKind::NewFolder);
        folder.state_mut().0.chosen = vec!["runs".to_owned()];
        folder.state_mut().0.path = "/data/new".to_owned();
        folder.key_press(Key::Enter);
        folder.run();
        assert_eq!(folder.state().1, [PathBuf::from("/data/new")]);
        for kind in [FileKind::NewFolder, FileKind::Folder] {
            let mut emptied = harness(kind);
            emptied.state_mut().0.path.clear();
            emptied.key_press(Key::Enter);
            emptied.run();
            assert!(emptied.state().1.is_empty(), "an emptied path means no folder");
        }
    }

    #[test]
    fn what_the_arrow_keys_choose_comes_into_sight() {
        let mut harness = harness(FileKind::Files);
        assert!(harness.query_by_label("39.npz").is_none(), "below the list");
        for _ in 0..31 {
            harness.key_press(Key::ArrowDown);
            harness.run_steps(2);
        }
        assert_eq!(harness.state().0.chosen, ["39.npz"]);
        assert!(harness.get_by_label("39.npz").is_focused(), "for screen readers");
        harness.event(egui::Event::Text("39".to_owned()));
        harness.run_steps(2);
        assert!(harness.get_by_label("Filter").is_focused(), "typing goes on in the field");
    }
}
