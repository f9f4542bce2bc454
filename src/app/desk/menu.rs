//! The menu bar, and the keys: both walk the one list of actions.

use eframe::egui;
use egui::{Align, Button, KeyboardShortcut, Layout, MenuBar, Modifiers, RichText, Ui};

use super::Desk;
use crate::app::command::{Action, Command, Menu, Shortcut};
use crate::app::panel::{Cx, Place};
use crate::app::settings::ThemeChoice;

/// Draws the bar.
pub fn bar(desk: &mut Desk, ui: &mut Ui, cx: &mut Cx<'_>) {
    MenuBar::new().ui(ui, |ui| {
        for menu in Menu::ALL {
            ui.menu_button(menu.text(), |ui| {
                ui.set_min_width(250.0);
                if *menu == Menu::Panes {
                    panes(desk, ui);
                }
                for action in Action::ALL.iter().filter(|action| action.menu() == *menu) {
                    item(ui, cx, *action);
                    if action.ends_group() {
                        ui.separator();
                    }
                }
                if *menu == Menu::File {
                    recent(ui, cx);
                }
            });
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let gap = ui.spacing().item_spacing.x;
            theme(ui, cx);
            ui.add_space(gap);
            if ui.button("Find action…").on_hover_text("Ctrl+K").clicked() {
                cx.choose(Action::Palette);
            }
        });
    });
}

fn item(ui: &mut Ui, cx: &mut Cx<'_>, action: Action) {
    let key = action.shortcut().map(Shortcut::text).unwrap_or_default();
    let text = match action {
        Action::Undo => name("Undo", cx.state.undo_text()),
        Action::Redo => name("Redo", cx.state.redo_text()),
        _ => action.text().to_owned(),
    };
    let button = Button::new(text).right_text(RichText::new(key).small().weak());
    if ui.add_enabled(action.enabled(cx.state), button).on_hover_text(action.tooltip()).clicked() {
        cx.choose(action);
    }
}

/// `Undo: close a probe`.
fn name(what: &str, step: Option<&str>) -> String {
    let lower = |step: &str| {
        let mut letters = step.chars();
        letters
            .next()
            .map(|first| first.to_lowercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    };
    step.map_or_else(|| what.to_owned(), |step| format!("{what}: {}", lower(step)))
}

/// What was opened lately.
fn recent(ui: &mut Ui, cx: &mut Cx<'_>) {
    let recent = &cx.state.settings.recent;
    if recent.backbones.is_empty() && recent.probes.is_empty() && recent.images.is_empty() {
        return;
    }
    ui.separator();
    let mut wanted = None;
    ui.menu_button("Recently used", |ui| {
        for source in recent.backbones.iter().take(5) {
            if ui.button(source).clicked() {
                wanted = Some(Command::OpenBackbone(source.clone()));
            }
        }
        ui.separator();
        for path in recent.runs.iter().take(5) {
            if ui.button(path.display().to_string()).clicked() {
                wanted = Some(Command::OpenRun(path.clone()));
            }
        }
        for path in recent.probes.iter().take(5) {
            if ui.button(path.display().to_string()).clicked() {
                wanted = Some(Command::OpenProbes(vec![path.clone()]));
            }
        }
        ui.separator();
        for path in recent.images.iter().take(5) {
            if ui.button(path.display().to_string()).clicked() {
                wanted = Some(Command::OpenImages(vec![path.clone()]));
            }
        }
    });
    wanted.into_iter().for_each(|command| cx.send(command));
}

/// Which panes are open.
fn panes(desk: &mut Desk, ui: &mut Ui) {
    for panel in desk.panels.iter().filter(|panel| panel.place() == Place::Middle) {
        let mut open = desk.layout.is_open(panel.id());
        if ui.checkbox(&mut open, panel.title()).on_hover_text(panel.about()).changed() {
            if open {
                desk.layout.show(&**panel);
            } else {
                desk.layout.close(&**panel);
            }
        }
    }
    ui.separator();
    ui.checkbox(&mut desk.jobs, "Jobs and log");
}

/// Light, dark, or as the system has it.
fn theme(ui: &mut Ui, cx: &mut Cx<'_>) {
    let names = [(ThemeChoice::Dark, "Dark"), (ThemeChoice::Light, "Light"), (ThemeChoice::System, "System")];
    ui.spacing_mut().item_spacing.x = 2.0;
    for (choice, name) in names {
        if ui.selectable_label(cx.state.settings.theme == choice, name).on_hover_text("Theme").clicked() {
            cx.send(Command::SetTheme(choice));
        }
    }
}

/// Chooses the actions whose keys were pressed.
pub fn keys(ctx: &egui::Context, cx: &mut Cx<'_>) {
    let typing = ctx.egui_wants_keyboard_input() || ctx.memory(|m| m.focused().is_some());
    let mut actions: Vec<(Action, Shortcut)> =
        Action::ALL.iter().filter_map(|action| Some((*action, action.shortcut()?))).collect();
    // Ctrl+S would take Ctrl+Shift+S too, so that has to be looked for first.
    actions.sort_by_key(|(_, key)| !key.shift);
    for (action, key) in actions {
        if typing && !key.ctrl {
            continue;
        }
        let modifiers = Modifiers { shift: key.shift, ..Modifiers::NONE };
        let modifiers = if key.ctrl { modifiers | Modifiers::COMMAND } else { modifiers };
        let Some(name) = egui::Key::from_name(key.key) else { continue };
        let pressed = ctx.input_mut(|i| i.consume_shortcut(&KeyboardShortcut::new(modifiers, name)));
        if pressed && action.enabled(cx.state) {
            cx.choose(action);
        }
    }
}
