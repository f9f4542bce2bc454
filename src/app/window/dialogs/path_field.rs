//! The dialog in which the path of a file or folder is typed, where the system has no file dialog: it lists
//! the folder, and Tab completes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui;
use egui::text::{CCursor, CCursorRange};
use egui::{Id, Key, Modifiers, TextEdit, Ui};

use super::dialog::{self, Answer};
use super::file_request::{FileKind, Question};
use crate::app::paths::expanded;
use crate::app::window::on_disk::{Found, OnDisk};
use crate::app::window::{style, widgets};

/// Most entries of a folder that are listed.
const MAX_ENTRIES: usize = 20_000;
/// Height of the list.
const LIST_PX: f32 = 220.0;
/// The id of the field.
const FIELD: &str = "path field";

pub struct PathField {
    question: Question,
    text: String,
    /// The entries of folders; names of folders end with a separator.
    folders: OnDisk<Arc<Vec<String>>>,
    disk: OnDisk,
    /// Whether it has had the focus: then the name in it was selected, without its ending. Without the focus nothing stays selected.
    begun: bool,
}

impl PathField {
    /// A field for `question` that starts in the current folder.
    pub fn new(question: Question) -> Self {
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let name = if let FileKind::Save(name) = &question.kind { name.as_str() } else { "" };
        let text = here.join(name).display().to_string(); // with a separator at its end where there is no name
        Self { question, text, folders: OnDisk::default(), disk: OnDisk::default(), begun: false }
    }

    /// Draws the dialog; `recent` are earlier answers to offer.
    pub fn ui(&mut self, ui: &Ui, recent: &[PathBuf]) -> Answer<PathBuf> {
        let title = self.question.title;
        dialog::show(ui.ctx(), "path", 560.0, title, |ui| self.contents(ui, recent))
    }

    fn contents(&mut self, ui: &mut Ui, recent: &[PathBuf]) -> Answer<PathBuf> {
        ui.weak(
            "This system has no file dialog (xdg-desktop-portal or zenity). Type the path; Tab completes it",
        );
        self.field(ui);
        let found = self.found(ui);
        ui.add_space(2.0);
        let (list, high) = (widgets::scrolled(ui, LIST_PX), ui.spacing().interact_size.y);
        list.show_rows(ui, high, found.len(), |ui, rows| {
            for name in &found[rows] {
                if ui.add(egui::Button::new(name).frame_when_inactive(false)).clicked() {
                    let (folder, _) = split(&self.text);
                    self.text = format!("{folder}{name}");
                    select(ui, self.text.chars().count(), 0);
                }
            }
            widgets::follow_focus(ui);
        });
        if !recent.is_empty() {
            ui.separator();
            ui.weak("Open recent");
            for path in recent.iter().take(4) {
                let text = path.display().to_string();
                if ui.add(egui::Button::new(&text).frame_when_inactive(false).truncate()).clicked() {
                    self.text = text;
                }
            }
        }
        self.buttons(ui)
    }

    fn field(&mut self, ui: &mut Ui) {
        let id = Id::unique(FIELD);
        let (found, (folder, typed)) = (self.found(ui), split(&self.text));
        let focused = ui.memory(|memory| memory.has_focus(id));
        if focused && !std::mem::replace(&mut self.begun, true) {
            let stem = Path::new(typed).file_stem().unwrap_or_default().to_string_lossy();
            select(ui, folder.chars().count(), stem.chars().count());
        }
        let text = format!("{folder}{}", completed(typed, &found));
        // Where there is nothing to complete, Tab moves on as in any field.
        let completes = text != self.text && focused;
        if completes && ui.input_mut(|i| i.consume_key(Modifiers::NONE, Key::Tab)) {
            self.text = text;
            select(ui, self.text.chars().count(), 0);
        }
        let edit = TextEdit::singleline(&mut self.text).id(id).lock_focus(completes);
        widgets::field(ui, "Path", edit.desired_width(f32::INFINITY));
    }

    fn buttons(&mut self, ui: &mut Ui) -> Answer<PathBuf> {
        let path = expanded(self.text.trim());
        let found = self.disk.at(ui, &path);
        let (there, folder) = (found != Found::Nothing, found.is_folder());
        let no_folder = |found| matches!(found, Found::Nothing | Found::File);
        let has_folder = path.parent().is_some_and(|parent| !no_folder(self.disk.at(ui, parent)));
        let (error, verb) = match &self.question.kind {
            FileKind::Folder if !there => ("No such folder", "Open"),
            FileKind::NewFolder if found == Found::File => ("That is a file", "Choose"),
            FileKind::NewFolder if path.as_os_str().is_empty() => ("No folder is named", "Choose"),
            FileKind::NewFolder => ("", "Choose"),
            FileKind::Folder | FileKind::Files | FileKind::File if there => ("", "Open"),
            FileKind::Folder | FileKind::Files | FileKind::File => ("No such file", "Open"),
            FileKind::Save(_) if folder => ("A name is missing", "Save"),
            FileKind::Save(_) if !has_folder => ("No such folder", "Save"),
            FileKind::Save(_) if found == Found::Unknown => ("Waiting for the disk", dialog::REPLACE),
            FileKind::Save(_) if there => ("It already exists", dialog::REPLACE),
            FileKind::Save(_) => ("", "Save"),
        };
        ui.label(style::failure(ui, error));
        dialog::buttons(ui, verb, error.is_empty() || verb == dialog::REPLACE, path)
    }

    /// The entries of the typed folder that begin with the typed name.
    fn found(&mut self, ui: &Ui) -> Vec<String> {
        let (folder, typed) = split(&self.text);
        let names = self.folders.ask(ui, &expanded(folder), |folder| Arc::new(names(folder)));
        let is_listed = |name: &&String| {
            let is_folder = name.ends_with(std::path::MAIN_SEPARATOR);
            name.starts_with(typed) && self.question.lists(name, is_folder, typed)
        };
        names.iter().filter(is_listed).cloned().collect()
    }
}

/// The entries of a folder, first the folders, whose names end with a separator.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let mut names: Vec<(bool, String)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // The listing knows what an entry is; only what a link leads to is looked up.
            let kind = entry.file_type().ok()?;
            let is_folder = kind.is_dir() || kind.is_symlink() && entry.path().is_dir();
            let name = if is_folder { format!("{name}{}", std::path::MAIN_SEPARATOR) } else { name };
            Some((!is_folder, name))
        })
        .collect();
    names.sort();
    names.into_iter().map(|(_, name)| name).collect()
}

/// Gives the field the focus, with `count` characters selected.
fn select(ui: &Ui, from: usize, count: usize) {
    let id = Id::unique(FIELD);
    let mut state = TextEdit::load_state(ui.ctx(), id).unwrap_or_default();
    let range = CCursorRange::two(CCursor::new(from), CCursor::new(from + count));
    state.cursor.set_char_range(Some(range));
    state.store(ui.ctx(), id);
    ui.memory_mut(|memory| memory.request_focus(id));
}

/// Splits a typed path behind its last separator: folder and name.
fn split(text: &str) -> (&str, &str) {
    let end = text.rfind(std::path::is_separator).map_or(0, |at| at + 1);
    text.split_at(end)
}

/// Extends `typed` to the longest common prefix of `names`; returns it as it is if there are none.
fn completed(typed: &str, names: &[String]) -> String {
    let common = |prefix: String, name: String| -> String {
        prefix.chars().zip(name.chars()).take_while(|(a, b)| a == b).map(|(letter, _)| letter).collect()
    };
    names.iter().cloned().reduce(common).unwrap_or_else(|| typed.to_owned())
}

#[cfg(test)]
mod tests {
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn a_path_is_completed_as_far_as_it_is_plain() {
        let names = ["probes/", "probe.txt", "other"].map(str::to_owned);
        assert_eq!(completed("pr", &names[..2]), "probe");
        assert_eq!(completed("o", &names[2..]), "other");
        assert_eq!(completed("x", &[]), "x");
        assert_eq!(split("a/b/pr"), ("a/b/", "pr"));
        assert_eq!(split("pr"), ("", "pr"));
    }

    #[test]
    fn a_path_is_typed_completed_and_given() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.safetensors");
        std::fs::write(&file, "").expect("written");
        let mut field =
            PathField::new(Question { title: "Probes", kind: FileKind::Files, endings: &["safetensors"] });
        field.text = folder.path().join("").display().to_string();
        let ui = |ui: &mut Ui, (field, given): &mut (PathField, Option<PathBuf>)| {
            if let Answer::Given(path) = field.ui(ui, &[]) {
                *given = Some(path);
            }
        };
        let mut harness = egui_kittest::Harness::new_ui_state(ui, (field, None));
        harness.run();
        harness.event(egui::Event::Text("a.".to_owned()));
        harness.run();
        assert!(harness.query_by_label("No such file").is_some());
        harness.key_press(Key::Tab);
        harness.run();
        assert_eq!(Path::new(&harness.state().0.text), file);
        assert!(harness.query_by_label("No such file").is_none());
        harness.key_press(Key::Enter);
        harness.run();
        assert_eq!(harness.state().1.as_ref(), Some(&file));
    }

    #[test]
    fn an_emptied_path_is_no_new_folder() {
        let mut field = PathField::new(Question { title: "Folder", kind: FileKind::NewFolder, endings: &[] });
        field.text.clear();
        let ui = |ui: &mut Ui, (field, is_given): &mut (PathField, bool)| {
            *is_given |= matches!(field.ui(ui, &[]), Answer::Given(_));
        };
        let mut harness = egui_kittest::Harness::new_ui_state(ui, (field, false));
        harness.run();
        harness.key_press(Key::Enter);
        harness.run();
        assert!(harness.query_by_label("No folder is named").is_some() && !harness.state().1);
    }

    #[test]
    fn a_suggested_name_is_typed_over_and_a_clicked_folder_is_typed_on() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("run")).expect("made");
        let run = format!("run{}", std::path::MAIN_SEPARATOR);
        for (kind, name, clicked, expected) in [
            (FileKind::Save("order.npz".to_owned()), "order.npz", None, "mine.npz"),
            (FileKind::Folder, "", Some(&run), "run/mine"),
        ] {
            let mut field = PathField::new(Question { title: "Path", kind, endings: &[] });
            field.text = folder.path().join(name).display().to_string();
            let ui = |ui: &mut Ui, field: &mut PathField| drop(field.ui(ui, &[]));
            let mut harness = egui_kittest::Harness::new_ui_state(ui, field);
            harness.run();
            if let Some(entry) = clicked {
                harness.get_by_label(entry).click();
                harness.run();
            }
            harness.event(egui::Event::Text("mine".to_owned()));
            harness.run();
            assert_eq!(Path::new(&harness.state().text), folder.path().join(expected));
        }
    }

    #[test]
    fn only_what_leads_to_an_answer_is_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("run")).expect("made");
        for name in ["a.safetensors", "b.TXT", ".hidden.safetensors"] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        let question = |kind| Question { title: "Probes", kind, endings: &["safetensors"] };
        let mut field = PathField::new(question(FileKind::Files));
        field.text = folder.path().join("").display().to_string();
        let run = format!("run{}", std::path::MAIN_SEPARATOR);
        let found = |ui: &mut Ui, (field, found): &mut (PathField, Vec<String>)| *found = field.found(ui);
        let mut harness = egui_kittest::Harness::new_ui_state(found, (field, Vec::new()));
        harness.run_steps(1);
        assert_eq!(harness.state().1, [run.clone(), "a.safetensors".to_owned()]);
        harness.state_mut().0.text.push('.');
        harness.run_steps(1);
        assert_eq!(harness.state().1, [".hidden.safetensors"]);
        let field = &mut harness.state_mut().0;
        (field.question, _) = (question(FileKind::Folder), field.text.pop());
        harness.run_steps(1);
        assert_eq!(harness.state().1, [run]);
    }
}
