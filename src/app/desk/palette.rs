//! All actions by name: typed, found, chosen with the keyboard.

use eframe::egui;
use egui::{Key, Modifiers, RichText, ScrollArea, Ui, Vec2};

use super::{Answer, dialog};
use crate::app::command::{Action, Shortcut};
use crate::app::panel::Panel;
use crate::app::state::State;

/// What was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// An action.
    Action(Action),
    /// The pane of a panel.
    Pane(&'static str),
}

/// The open palette.
#[derive(Default)]
pub struct Palette {
    text: String,
    at: usize,
}

/// A line of the palette.
struct Line {
    text: String,
    about: &'static str,
    key: String,
    enabled: bool,
    chosen: Chosen,
}

impl Palette {
    /// Draws it.
    pub fn ui(&mut self, ui: &Ui, state: &State, panels: &[Box<dyn Panel>]) -> Answer<Chosen> {
        let lines = lines(state, panels, &self.text);
        let ctx = ui.ctx();
        let (up, down, enter, escape) = ctx.input_mut(|i| {
            let mut key = |key| i.consume_key(Modifiers::NONE, key);
            (key(Key::ArrowUp), key(Key::ArrowDown), key(Key::Enter), key(Key::Escape))
        });
        self.at = (self.at + usize::from(down)).min(lines.len().saturating_sub(1));
        self.at = self.at.saturating_sub(usize::from(up));
        let mut chosen = None;
        let shown = dialog::hang(ctx, "palette", |ui| {
            ui.set_width(560.0);
            let hint = "Type a few letters of what you want to do";
            let edit = egui::TextEdit::singleline(&mut self.text)
                .hint_text(hint)
                .desired_width(f32::INFINITY)
                .margin(egui::Margin::symmetric(8, 6));
            let edit = ui.add(edit);
            edit.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TextInput, true, "Find action"));
            edit.request_focus();
            if edit.changed() {
                self.at = 0;
            }
            ui.separator();
            if lines.is_empty() {
                ui.weak("No action has these words in its name");
            }
            ScrollArea::vertical().auto_shrink([false, true]).max_height(360.0).show(ui, |ui| {
                ui.spacing_mut().item_spacing.y = 1.0;
                for (at, line) in lines.iter().enumerate() {
                    let response = one(ui, line, at == self.at);
                    if at == self.at && (up || down) {
                        response.scroll_to_me(None);
                    }
                    if response.clicked() || (enter && at == self.at && line.enabled) {
                        chosen = Some(line.chosen);
                    }
                }
            });
        });
        let outside = shown.backdrop_response.clicked();
        match chosen {
            Some(chosen) => Answer::Given(chosen),
            None if escape || outside => Answer::Closed,
            None => Answer::Open,
        }
    }
}

fn one(ui: &mut Ui, line: &Line, selected: bool) -> egui::Response {
    let button = egui::Button::selectable(selected, &line.text)
        .right_text(RichText::new(&line.key).small().weak())
        .min_size(Vec2::new(ui.available_width(), 26.0));
    ui.add_enabled(line.enabled, button).on_hover_text(line.about)
}

/// All lines whose text holds every word that was typed; those that can be chosen first, and of them
/// those that begin with it.
fn lines(state: &State, panels: &[Box<dyn Panel>], text: &str) -> Vec<Line> {
    let actions = Action::ALL.iter().filter(|action| **action != Action::Palette).map(|action| Line {
        text: action.text().to_owned(),
        about: action.tooltip(),
        key: action.shortcut().map(Shortcut::text).unwrap_or_default(),
        enabled: action.enabled(state),
        chosen: Chosen::Action(*action),
    });
    let panes = panels.iter().filter(|panel| panel.place() != crate::app::panel::Place::Left);
    let panes = panes.map(|panel| Line {
        text: format!("Show {}", panel.title().to_lowercase()),
        about: panel.about(),
        key: String::new(),
        enabled: true,
        chosen: Chosen::Pane(panel.id()),
    });
    let text = text.to_lowercase();
    let found = |line: &Line| {
        let known = line.text.to_lowercase();
        text.split_whitespace().all(|word| known.contains(word))
    };
    let mut lines: Vec<Line> = actions.chain(panes).filter(found).collect();
    let begins = |line: &Line| line.text.to_lowercase().starts_with(text.trim());
    lines.sort_by_key(|line| (!line.enabled, !begins(line)));
    lines
}
