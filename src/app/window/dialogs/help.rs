//! The pages of the Help menu: about the program, definitions of its numbers, keyboard shortcuts.

use eframe::egui;
use egui::{Grid, RichText, TextEdit, Ui};

use super::dialog::{self, Answer};
use crate::app::state::command::{Action, Menu};
use crate::app::window::widgets;

/// Space between the columns of a table.
const COLUMN_GAP_PX: f32 = 14.0;
/// The definitions, in Markdown.
const DEFINITIONS: &str = include_str!("../../../../docs/definitions.md");
/// What the program is, in two sentences.
pub const ABOUT: [&str; 2] = [
    "SSMProbe shows what order-sensitive probes read from the patch tokens of a frozen vision backbone: the \
     order a router learned, what the memory of an S4 keeps of it, and which tokens the prediction rests on.",
    "Open a backbone, probes that were trained on it and images, or train probes on a dataset of your own; \
     every figure can be pointed at, compared and exported as it is.",
];

/// A page of the Help menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    About,
    Definitions,
    Shortcuts,
}

/// Keys of no action, which work anywhere, and what they do.
const ANYWHERE: [(&str, &str); 5] = [
    ("Tab, Shift+Tab", "Move to the next or previous control"),
    ("Enter, Space", "Choose the focused one"),
    ("Shift+F10", "Open the right-click menu"),
    ("Escape", "Close a dialog or menu, or unpin the token"),
    ("PageUp, PageDown", "Scroll a long page"),
];

/// The page that is open.
pub struct Help {
    page: Page,
    /// The words searched for in it.
    text: String,
}

impl Help {
    pub fn new(page: Page) -> Self {
        Self { page, text: String::new() }
    }

    /// Draws the page; the action that was chosen in it.
    pub fn ui(&mut self, ui: &Ui) -> Answer<Action> {
        match self.page {
            Page::About => about(ui),
            Page::Definitions => self.definitions(ui),
            Page::Shortcuts => shortcuts(ui),
        }
    }

    fn definitions(&mut self, ui: &Ui) -> Answer<Action> {
        dialog::show(ui.ctx(), "definitions", 680.0, "Definitions", |ui| {
            let edit =
                TextEdit::singleline(&mut self.text).hint_text("Find a word").desired_width(f32::INFINITY);
            widgets::field(ui, "Find in definitions", edit);
            ui.add_space(4.0);
            let mut found = paragraphs(DEFINITIONS, &self.text);
            found.retain(|text| !text.starts_with("# ")); // the dialog has this heading already
            if found.is_empty() {
                ui.weak("No paragraph contains these words");
            }
            widgets::scrolled(ui, 430.0).show(ui, |ui| {
                widgets::page_keys(ui);
                found.into_iter().for_each(|text| paragraph(ui, text));
            });
            close(ui)
        })
    }
}

fn about(ui: &Ui) -> Answer<Action> {
    dialog::show(ui.ctx(), "about", 520.0, "SSMProbe", |ui| {
        for sentence in ABOUT {
            ui.add(egui::Label::new(sentence).wrap());
            ui.add_space(4.0);
        }
        ui.weak(format!("Version {}", env!("CARGO_PKG_VERSION")));
        dialog::row(ui, |ui| {
            let given = dialog::confirmed(ui, Action::Tour.text(), true);
            let answer = if given { Answer::Given(Action::Tour) } else { Answer::Open };
            if ui.button("Close").clicked() { Answer::Closed } else { answer }
        })
    })
}

/// All keyboard shortcuts, menu by menu.
fn shortcuts(ui: &Ui) -> Answer<Action> {
    dialog::show(ui.ctx(), "shortcuts", 560.0, "Keyboard shortcuts", |ui| {
        widgets::scrolled(ui, 470.0).show(ui, |ui| {
            widgets::page_keys(ui);
            keys(ui, "Anywhere", ANYWHERE.iter().map(|(key, text)| ((*key).to_owned(), *text, None)));
            for menu in Menu::ALL {
                let own = Action::ALL.iter().filter(|action| action.menu() == menu);
                let mut own = own
                    .filter_map(|own| Some((own.shortcut()?.text(), own.text(), Some(own.tooltip()))))
                    .peekable();
                if own.peek().is_some() {
                    keys(ui, menu.name(), own);
                }
            }
        });
        close(ui)
    })
}

/// Keys below their heading, each with what it does and perhaps a tooltip.
fn keys<'a>(ui: &mut Ui, heading: &str, keys: impl Iterator<Item = (String, &'a str, Option<&'a str>)>) {
    ui.add_space(6.0);
    ui.label(RichText::new(heading).size(14.5).strong());
    let grid = Grid::new(heading).num_columns(2).spacing([18.0, 4.0]).min_col_width(120.0);
    grid.show(ui, |ui| {
        for (key, text, tooltip) in keys {
            ui.weak(key);
            let label = ui.label(text);
            if let Some(tooltip) = tooltip {
                label.on_hover_text(tooltip);
            }
            ui.end_row();
        }
    });
}

fn close(ui: &mut Ui) -> Answer<Action> {
    let close = dialog::row(ui, |ui| dialog::main_button(ui, "Close", true));
    if close.clicked() { Answer::Closed } else { Answer::Open }
}

/// The paragraphs of a page that hold every word of `text`, under their headings; all if `text` is empty.
fn paragraphs<'a>(page: &'a str, text: &str) -> Vec<&'a str> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let mut found: Vec<&str> = Vec::new();
    let mut heading = None;
    for part in page.split("\n\n").map(str::trim).filter(|part| !part.is_empty()) {
        if part.starts_with('#') && !part.contains('\n') {
            heading = Some(part);
            continue;
        }
        let known = part.to_lowercase();
        if words.iter().all(|word| known.contains(word.as_str())) {
            found.extend(heading.take());
            found.push(part);
        }
    }
    found
}

/// Draws a paragraph of Markdown: a heading, a table, a block of JSON, or wrapped plain text.
fn paragraph(ui: &mut Ui, text: &str) {
    ui.add_space(4.0);
    if let Some(title) = text.strip_prefix('#') {
        ui.label(RichText::new(title.trim_start_matches('#').trim()).heading());
    } else if text.starts_with('|') {
        table(ui, text);
    } else if let Some(code) = text.strip_prefix("```json") {
        let code = RichText::new(code.trim_matches(['\n', '`'])).monospace();
        ui.add(egui::Label::new(code).wrap().selectable(true));
    } else {
        for item in items(text) {
            ui.add(egui::Label::new(plain(&item)).wrap().selectable(true));
        }
    }
}

/// The lines of a paragraph joined into one, or into one for each item of a list.
fn items(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        match items.last_mut() {
            Some(last) if !line.starts_with("* ") => {
                last.push(' ');
                last.push_str(line);
            }
            _ => items
                .push(line.strip_prefix("* ").map_or_else(|| line.to_owned(), |item| format!("• {item}"))),
        }
    }
    items
}

/// The text without Markdown's marks of code and emphasis; a star in code is one of its characters.
fn plain(text: &str) -> String {
    let part = |(at, part): (usize, &str)| if at % 2 == 0 { part.replace('*', "") } else { part.to_owned() };
    text.split('`').enumerate().map(part).collect()
}

fn table(ui: &mut Ui, text: &str) {
    let rows = text.lines().filter(|line| !line.starts_with("|-"));
    let cells =
        |row: &str| row.trim_matches('|').split(" | ").map(|cell| plain(cell.trim())).collect::<Vec<_>>();
    let columns = text.lines().next().map_or(1, |row| cells(row).len());
    let width = ui.available_width() / columns as f32 - COLUMN_GAP_PX;
    let grid = Grid::new(text).num_columns(columns).spacing([COLUMN_GAP_PX, 4.0]).striped(true);
    grid.show(ui, |ui| {
        for (at, row) in rows.enumerate() {
            for (column, cell) in cells(row).into_iter().enumerate() {
                let cell = if at == 0 { RichText::new(cell).weak() } else { RichText::new(cell) };
                ui.scope(|ui| {
                    // The last one takes what the others leave.
                    if column + 1 < columns {
                        ui.set_max_width(width);
                    }
                    ui.add(egui::Label::new(cell).wrap().selectable(true));
                });
            }
            ui.end_row();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_in_its_paragraph_under_its_heading() {
        let page = "# One\n\nA cat\nand more.\n\n## Two\n\nA dog.\n\nA cat and a Dog.";
        assert_eq!(paragraphs(page, "dog cat"), ["## Two", "A cat and a Dog."]);
        assert_eq!(paragraphs(page, "").len(), 5);
        assert!(paragraphs(page, "bird").is_empty());
        assert_eq!(items("* a\n  b\n* c"), ["• a b", "• c"]);
        assert_eq!(plain("*By class* is **a `b * c`**"), "By class is a b * c");
        assert!(!paragraphs(DEFINITIONS, "temperature").is_empty());
    }
}
