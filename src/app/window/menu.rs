//! The menu bar and the keyboard shortcuts: both follow the one list of actions.

use std::collections::VecDeque;
use std::path::PathBuf;

use eframe::egui;
use egui::{Button, KeyboardShortcut, MenuBar, Modifiers, RichText, ScrollArea, TextWrapMode, Ui};

use super::dialogs::leaving::Leaving;
use super::{MainWindow, style, widgets};
use crate::app::state::command::{Action, Command, Menu, Shortcut};
use crate::app::state::settings::ThemeChoice;
use crate::app::window::panels::{PanelContext, PanelPlace, UiAction};
use crate::viz;
use crate::viz::draw::font;
use crate::viz::figures::dataset;
use crate::viz::heading::uncapitalised;

/// What a text field does with its own text while it has the focus.
const OF_FIELDS: [Action; 3] = [Action::Undo, Action::Redo, Action::Paste];
/// The height that the bar and the edges of a menu take.
const BAR_PX: f32 = 60.0;
/// From this room on the button *Find action…* names its key.
const FIND_WITH_KEY_PX: f32 = 330.0;
/// The gap between themes.
const THEME_GAP_PX: f32 = 2.0;
/// Largest width of the step that is undone or redone, which may name what has a long name.
const STEP_PX: f32 = 420.0;
/// Files of each kind in the menu Open recent.
const RECENT: usize = 5;
/// Size and largest width of their paths.
const RECENT_SIZE: f32 = 13.5;
const RECENT_PX: f32 = 560.0;

pub fn bar(window: &mut MainWindow, ui: &mut Ui, cx: &mut PanelContext<'_>) {
    MenuBar::new().style(style::menu).config(widgets::menu()).ui(ui, |ui| {
        let most = ui.ctx().content_rect().height() - BAR_PX;
        for menu in Menu::ALL {
            let button = ui.menu_button(menu.name(), |ui| {
                // In a small or zoomed window it is scrolled, by a bar beside the keys.
                ui.spacing_mut().scroll.floating_allocated_width = 6.0;
                let area = ScrollArea::vertical().max_height(most).min_scrolled_height(most);
                area.show(ui, |ui| entries(window, ui, cx, menu));
                widgets::closed_by_key(ui)
            });
            widgets::return_focus(&button.response, button.inner);
        }
        let room = ui.available_width();
        widgets::at_right(ui, |ui| {
            let key = Action::Palette.shortcut().map(Shortcut::text).unwrap_or_default();
            let find = match room > FIND_WITH_KEY_PX {
                true => ui.button((Action::Palette.text(), RichText::new(key).small().weak())),
                false => ui.button(Action::Palette.text()),
            };
            let find = find.accessible_name(Action::Palette.text());
            if find.on_hover_text(Action::Palette.tooltip()).clicked() {
                cx.choose(Action::Palette);
            }
            ui.add_space(THEME_GAP_PX);
            theme(ui, cx);
        });
    });
}

/// What is in a menu.
fn entries(window: &mut MainWindow, ui: &mut Ui, cx: &mut PanelContext<'_>, menu: Menu) {
    ui.set_min_width(250.0);
    // Where it is scrolled, the bar would leave the longest entries no room for their keys, and break them.
    ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
    ui.spacing_mut().item_spacing.y = 2.0;
    if menu == Menu::Panes {
        panes(window, ui);
    }
    for action in Action::ALL.iter().filter(|action| action.menu() == menu) {
        if *action == Action::OpenWorkspace {
            recent(ui, cx);
        }
        item(ui, cx, *action);
        if action.ends_group() {
            ui.separator();
        }
    }
    widgets::follow_focus(ui);
}

fn item(ui: &mut Ui, cx: &mut PanelContext<'_>, action: Action) {
    let key = action.shortcut().map(Shortcut::text).unwrap_or_default();
    let step = |what: &str, step| Button::new(widgets::fit(ui, naming(what, step), STEP_PX));
    let button = match action {
        Action::Undo => step("Undo", cx.state.undo_text()),
        Action::Redo => step("Redo", cx.state.redo_text()),
        _ => Button::new(action.text()),
    };
    let button = match key.is_empty() {
        true => button, // no empty text on the right, which screen readers would read
        false => button.right_text(RichText::new(key).small().weak()),
    };
    if cx.button_about(ui, button, action, action.tooltip()) {
        ui.close(); // egui closes it at a click alone, not by keyboard
    }
}

/// The text of Undo or Redo with its step: `Undo: close a probe`.
fn naming(what: &str, step: Option<&str>) -> String {
    step.map_or_else(|| what.to_owned(), |step| format!("{what}: {}", uncapitalised(step)))
}

/// The menu of recent files, each kind by itself; workspaces first, as they hold all other kinds.
fn recent(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let recent = &cx.state.settings.recent;
    let items = |paths: &VecDeque<PathBuf>, action: &dyn Fn(PathBuf) -> UiAction| {
        let item = |path: &PathBuf| (path.display().to_string(), action(path.clone()));
        paths.iter().take(RECENT).map(item).collect::<Vec<_>>()
    };
    let backbone =
        |source: &String| (source.clone(), UiAction::Command(Command::OpenBackbone(source.clone())));
    let mut kinds = vec![
        items(&recent.workspaces, &|path| UiAction::Leave(Leaving::Workspace(path))),
        recent.backbones.iter().take(RECENT).map(backbone).collect(),
        items(&recent.runs, &|path| UiAction::Command(Command::OpenRun(path))),
        items(&recent.probes, &|path| UiAction::Command(Command::OpenProbes(vec![path]))),
        items(&recent.datasets, &|path| UiAction::Command(Command::OpenDataset(path, None))),
        items(&recent.images, &|path| UiAction::Command(Command::OpenImages(vec![path]))),
    ];
    if cx.state.connection.host().is_some() {
        kinds.truncate(1); // the other files lie on this machine, not on the worker's
    }
    let mut kinds = kinds.into_iter().filter(|kind: &Vec<_>| !kind.is_empty()).peekable();
    if kinds.peek().is_none() {
        return;
    }
    let mut wanted = None;
    ui.menu_button("Open recent", |ui| {
        for (place, kind) in kinds.enumerate() {
            if place > 0 {
                ui.separator();
            }
            for (text, command) in kind {
                let shown = font::fit_middle(&text, RECENT_SIZE, RECENT_PX);
                if ui.button(shown).accessible_name(&text).on_hover_text(&text).clicked() {
                    wanted = Some(command);
                    ui.close();
                }
            }
        }
    });
    ui.separator();
    cx.actions.extend(wanted);
}

/// A checkbox for each pane, which opens or closes it.
fn panes(window: &mut MainWindow, ui: &mut Ui) {
    let mut before = None;
    for panel in window.panels.0.iter().filter(|panel| panel.place() == PanelPlace::Middle) {
        // A line between figures of one image, those of a dataset, and all other panes.
        let kind = [viz::find(panel.id()).is_some(), dataset::find(panel.id()).is_some()];
        if before.replace(kind).is_some_and(|before| before != kind) {
            ui.separator();
        }
        let mut open = window.layout.is_open(panel.id());
        if ui.checkbox(&mut open, panel.title()).on_hover_text(panel.about()).changed() {
            if open {
                window.layout.show(&**panel);
            } else {
                window.layout.close(&**panel);
            }
        }
    }
    ui.separator();
    ui.checkbox(&mut window.findings, "Findings").on_hover_text("In place of the library");
    ui.checkbox(&mut window.jobs, "Jobs and log");
    ui.separator();
}

/// The choice of theme: light, dark, or the system's.
fn theme(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    ui.spacing_mut().item_spacing.x = THEME_GAP_PX;
    for choice in ThemeChoice::ALL {
        let label = ui.selectable_label(cx.state.settings.theme == choice, choice.name());
        if label.on_hover_text("Theme").clicked() {
            cx.send(Command::SetTheme(choice));
        }
    }
}

/// Chooses the actions whose keys were pressed.
pub fn keys(ctx: &egui::Context, cx: &mut PanelContext<'_>) {
    let mut typing = ctx.egui_wants_keyboard_input() || ctx.memory(|m| m.focused().is_some());
    let in_field = ctx.text_edit_focused();
    let mut actions: Vec<(Action, Shortcut)> =
        Action::ALL.iter().filter_map(|action| Some((*action, action.shortcut()?))).collect();
    // Ctrl+S also matches Ctrl+Shift+S, so shortcuts with Shift are matched first.
    actions.sort_by_key(|(_, key)| !key.shift);
    for (action, key) in actions {
        // Function keys type nothing.
        if typing && !key.ctrl && !key.key.starts_with("F1") || in_field && OF_FIELDS.contains(&action) {
            continue;
        }
        let modifiers = Modifiers { shift: key.shift, ..Modifiers::NONE };
        let modifiers = if key.ctrl { modifiers | Modifiers::COMMAND } else { modifiers };
        let Some(name) = egui::Key::from_name(key.key) else { continue };
        let pressed = ctx.input_mut(|i| i.consume_shortcut(&KeyboardShortcut::new(modifiers, name)));
        if pressed && action.enabled(cx.state) {
            cx.choose(action);
            typing |= action == Action::Palette; // letters that follow in the same frame are meant for it
        }
    }
}
