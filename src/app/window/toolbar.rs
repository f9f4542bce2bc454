//! The line above the panes: which image, through which probe, read how, evidence for what.

use eframe::egui;
use egui::{ComboBox, ScrollArea, Ui};

use super::MainWindow;
use crate::app::jobs::ClassChoice;
use crate::app::state::command::{Action, Command};
use crate::app::window::panels::{PanelContext, UiAction, interventions, own_class};
use crate::model::data::ImageSource;
use crate::model::explain::intervention::Intervention;
use crate::model::trace::Routing;
use crate::viz::draw::font;

/// Width from which all has the room it likes.
const WIDE: f32 = 1150.0;
/// What does not shrink.
const RIGID: f32 = 330.0;

/// Draws the line; in a narrow window its parts lose their names and shrink, and then wrap.
pub fn ui(desk: &mut MainWindow, ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let room = ((ui.available_width() - RIGID) / (WIDE - RIGID)).clamp(0.45, 1.0);
    ui.horizontal_wrapped(|ui| {
        image(ui, cx, room);
        ui.separator();
        probe(ui, cx, room);
        reading(ui, cx, room);
        ui.separator();
        class(desk, ui, cx, room);
    });
}

fn image(ui: &mut Ui, cx: &mut PanelContext<'_>, room: f32) {
    let Some(image) = cx.state.current_image() else {
        if ui.button(Action::OpenImages.text()).clicked() {
            cx.choose(Action::OpenImages);
        }
        return;
    };
    for (action, text) in [(Action::PreviousImage, "‹"), (Action::NextImage, "›")] {
        let response = ui.button(text).on_hover_text(action.text());
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, action.text()));
        if response.clicked() {
            cx.choose(action);
        }
    }
    let images = &cx.state.library.images;
    let at = cx.state.selection.image.and_then(|id| images.get_index_of(&id)).map_or(0, |at| at + 1);
    // Of a row of a table the number tells it from the others.
    let name = match image.place.row {
        Some(row) => format!("Row {row} of {}", ImageSource::from(image.place.path.clone()).short()),
        None => image.name(),
    };
    ui.label(font::fit(&name, 13.5, 190.0 * room)).on_hover_text(image.place.to_string());
    if let Some(class) = own_class(cx.state, image) {
        ui.weak("·");
        ui.label(font::fit(class, 13.5, 110.0 * room)).on_hover_text(format!("It is {class}"));
    }
    ui.weak(format!("{at} of {}", images.len()));
}

fn probe(ui: &mut Ui, cx: &mut PanelContext<'_>, room: f32) {
    if cx.state.columns.is_empty() {
        ui.weak("No probe shown");
        return;
    }
    let label = name(ui, "Probe", room);
    let shown = cx.focus.map(|id| cx.state.column_title(id)).unwrap_or_default();
    let combo = ComboBox::from_id_salt("probe").width(190.0 * room).selected_text(font::fit(
        &shown,
        13.5,
        190.0 * room - 24.0,
    ));
    let list = |ui: &mut Ui| {
        for id in cx.state.columns.keys() {
            if ui.selectable_label(cx.focus == Some(*id), cx.state.column_title(*id)).clicked() {
                cx.wishes.push(UiAction::Focus(*id));
            }
        }
    };
    named(combo.show_ui(ui, list).response, label, "Probe");
}

/// The name before a choice, where there is room for it.
fn name(ui: &mut Ui, text: &str, room: f32) -> Option<egui::Id> {
    (room > 0.6).then(|| ui.label(text).id)
}

/// The choice, by the name before it or by `text`.
fn named(choice: egui::Response, label: Option<egui::Id>, text: &str) -> egui::Response {
    match label {
        Some(label) => choice.labelled_by(label),
        None => {
            choice.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ComboBox, true, text));
            choice.on_hover_text(text)
        }
    }
}

/// How the probe reads: as trained, or with one thing changed.
fn reading(ui: &mut Ui, cx: &mut PanelContext<'_>, room: f32) {
    let Some((id, column)) = cx.focus.and_then(|id| Some((id, cx.state.columns.get(&id)?))) else { return };
    let routing = column.shown.trace().map(|trace| &trace.routing);
    if column.change == Intervention::None && matches!(routing, None | Some(Routing::None)) {
        return;
    }
    let change = column.change;
    let facts = cx.state.library.probes.get(&column.probe).and_then(|probe| probe.status.ready()).cloned();
    let label = name(ui, "Order", room);
    let all = [vec![("As trained", Intervention::None)], interventions(facts.as_deref())].concat();
    let shown = all
        .iter()
        .find(|(_, known)| *known == change)
        .map_or_else(|| change.text(), |(name, _)| (*name).to_owned());
    let combo = ComboBox::from_id_salt("reading").width(175.0 * room).height(420.0).selected_text(font::fit(
        &shown,
        13.5,
        175.0 * room - 24.0,
    ));
    let list = |ui: &mut Ui| {
        for (name, other) in all {
            if ui.selectable_label(change == other, name).clicked() {
                cx.send(Command::SetChange(id, other));
            }
        }
    };
    let response = named(combo.show_ui(ui, list).response, label, "Order");
    response.on_hover_text("One thing changed in how the probe reads; it is not retrained");
}

/// The class evidence is for.
fn class(desk: &mut MainWindow, ui: &mut Ui, cx: &mut PanelContext<'_>, room: f32) {
    // The name and its choice stay on one line.
    let needed = 180.0 * room + if room > 0.6 { font::width("Evidence for", 13.5) + 16.0 } else { 8.0 };
    if ui.available_size_before_wrap().x < needed {
        ui.end_row();
    }
    let label = name(ui, "Evidence for", room);
    let shown = match &cx.state.selection.class {
        ClassChoice::Predicted => "the predicted class".to_owned(),
        ClassChoice::Named(name) => name.clone(),
    };
    let combo = ComboBox::from_id_salt("class")
        .width(180.0 * room)
        .height(360.0)
        .close_behavior(egui::PopupCloseBehavior::CloseOnClickOutside)
        .selected_text(font::fit(&shown, 13.5, 180.0 * room - 24.0));
    let list = |ui: &mut Ui| {
        ui.set_min_width(240.0);
        let predicted = cx.state.selection.class == ClassChoice::Predicted;
        if ui.selectable_label(predicted, "The predicted class").clicked() {
            cx.send(Command::SetClass(ClassChoice::Predicted));
            ui.close();
        }
        if let Some(own) =
            cx.state.current_image().and_then(|image| own_class(cx.state, image)).map(str::to_owned)
        {
            let chosen = cx.state.selection.class == ClassChoice::Named(own.clone());
            if ui.selectable_label(chosen, format!("What this image is: {own}")).clicked() {
                cx.send(Command::SetClass(ClassChoice::Named(own)));
                ui.close();
            }
        }
        let classes = cx.state.library.classes();
        if classes.is_empty() {
            return;
        }
        ui.add(egui::TextEdit::singleline(&mut desk.class_filter).hint_text("Filter classes"));
        let text = desk.class_filter.to_lowercase();
        let found: Vec<&String> = classes.iter().filter(|name| name.to_lowercase().contains(&text)).collect();
        ScrollArea::vertical().max_height(280.0).auto_shrink([false, true]).show_rows(
            ui,
            24.0,
            found.len(),
            |ui, rows| {
                for name in &found[rows] {
                    let chosen = cx.state.selection.class == ClassChoice::Named((*name).clone());
                    if ui.selectable_label(chosen, *name).clicked() {
                        cx.send(Command::SetClass(ClassChoice::Named((*name).clone())));
                        ui.close();
                    }
                }
            },
        );
    };
    named(combo.show_ui(ui, list).response, label, "Evidence for");
}
