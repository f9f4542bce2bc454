//! The head of a compared column: its name, its prediction, how its reading is changed, the change from the pinned one, and the
//! menu of what can be done with it.

use super::interventions::{interventions, temperature, temperature_of_column};
use super::true_class;
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::menu_button;
use crate::model::explain::intervention::Intervention;
use crate::model::trace::Routing;
use crate::viz::difference::is_same_class;
use crate::viz::draw::minus;
use crate::viz::figures::token_map::class_name;
use crate::viz::heading::capitalised;

/// Height of the head of a column.
const HEAD_PX: f32 = 70.0;
/// Height of one more line in it.
const LINE_PX: f32 = 17.0;
/// Height of the line of names that stays in sight, which covers that in the heads.
const NAMES_PX: f32 = 26.0;

/// Height of the heads of these columns.
pub fn height(cx: &PanelContext<'_>, columns: &[ColumnId]) -> f32 {
    let evaluated = columns.iter().any(|id| accuracy(cx, *id).is_some());
    let changed = columns.iter().any(|id| cx.state.columns.get(id).is_some_and(|one| !one.change.is_none()));
    HEAD_PX + LINE_PX * f32::from(u8::from(evaluated) + u8::from(changed))
}

/// Draws the head of a column: its name, its prediction, and the menu of what can be done with it.
pub fn ui(ui: &mut Ui, cx: &mut PanelContext<'_>, id: ColumnId, width: f32) {
    let Some(column) = cx.state.columns.get(&id) else { return };
    let (pinned, title) = (cx.state.selection.reference == Some(id), cx.state.column_title(id));
    ui.spacing_mut().item_spacing = Vec2::new(6.0, 2.0);
    ui.horizontal(|ui| {
        let text = cx.fit_title(&cx.state.column_name(id), 14.5, width - if pinned { 140.0 } else { 116.0 });
        let name = ui.selectable_label(cx.focus == Some(id), RichText::new(text).size(14.5).strong());
        if name.accessible_name(&title).on_hover_text(&title).clicked() {
            cx.send(Command::Focus(id));
        }
        at_right(ui, |ui| {
            let pin = ui.selectable_label(pinned, if pinned { "Pinned" } else { "Pin" });
            if pin.on_hover_text("The others show how far they are from this one").clicked() {
                cx.send(Command::Pin((!pinned).then_some(id)));
            }
            let more = egui::Button::new("More").frame_when_inactive(false);
            menu_button(ui, more, |ui| menu(ui, cx, id)).on_hover_text("Intervene, move, remove");
        });
    });
    ui.spacing_mut().interact_size.y = 0.0; // lines of text, no higher than that
    let Some(trace) = column.shown.trace() else { return changed(ui, cx, id, &column.change) };
    let is_outdated = cx.state.is_outdated(id);
    if let Some(best) = trace.top.first() {
        let mut text = RichText::new(match is_outdated {
            true => "Explaining…".to_owned(),
            false => format!("{}, {:.1} %", best.name, 100.0 * best.probability),
        });
        let said = true_class::of_prediction(cx.state, column, trace).filter(|_| !is_outdated);
        if let Some((_, right @ Some(_))) = said {
            text = text.color(color32(style::outcome(cx.theme, right)));
        }
        indented(ui, |ui| {
            let label = ui.add(Label::new(text).truncate());
            said.into_iter().fold(label, |label, (about, _)| label.on_hover_text(about));
        });
    }
    if let Some(text) = accuracy(cx, id) {
        let about = "Share of the dataset's images whose predicted class is the true one; a changed reading was not retrained";
        indented(ui, |ui| drop(ui.label(RichText::new(text).small().weak()).on_hover_text(about)));
    }
    changed(ui, cx, id, &column.change);
    indented(ui, |ui| {
        let pinned = cx.state.selection.reference.is_some_and(|pinned| pinned != id);
        if cx.state.views.difference && pinned {
            ui.label(RichText::new("Differences").small().color(color32(cx.theme.series(0))));
        }
        if let Some(text) = against(cx, id, trace).filter(|_| !is_outdated) {
            ui.add(egui::Label::new(RichText::new(text).small().weak()).truncate());
        }
    });
}

/// The line on how the reading of a column is changed, which its name has no room for.
fn changed(ui: &mut Ui, cx: &mut PanelContext<'_>, id: ColumnId, change: &Intervention) {
    if change.is_none() {
        return;
    }
    indented(ui, |ui| {
        let is_number = matches!(change, Intervention::Temperature(_));
        let text = match is_number {
            true => "Not retrained".to_owned(), // the field beside it has the temperature
            false => format!("{}, not retrained", capitalised(&change.to_string())),
        };
        let text = RichText::new(text).small().color(color32(style::failed(cx.theme)));
        let about = "The probe was trained without this change; only its reading is changed";
        ui.add(Label::new(text).truncate()).on_hover_text(about);
        if is_number {
            temperature_of_column(ui, cx, id);
        }
    });
}

/// Keeps the names above the columns, each as wide as the `place` of its head, where those are scrolled out of sight.
pub fn keep_names(ui: &Ui, cx: &PanelContext<'_>, columns: &[ColumnId], place: impl Fn(usize) -> Rect) {
    let sight = ui.clip_rect();
    if place(0).top() >= sight.top() {
        return;
    }
    let line = Rect::from_min_size(sight.min, Vec2::new(sight.width(), NAMES_PX));
    ui.interact(line, ui.scope_id().with("names"), Sense::CLICK); // no token of a figure below it
    ui.painter().rect_filled(line, 0.0, color32(cx.theme.ground));
    let edge = ui.visuals().widgets.noninteractive.bg_stroke;
    ui.painter().hline(line.x_range(), line.bottom(), edge);
    for (at, id) in columns.iter().enumerate() {
        let head = place(at).shrink2(Vec2::new(ui.spacing().button_padding.x, 0.0));
        if head.right() < sight.left() || head.left() > sight.right() {
            continue; // to fit a name takes those of all others
        }
        let title = cx.fit_title(&cx.state.column_title(*id), 13.5, head.width());
        let (at, ink) = (egui::pos2(head.left(), line.center().y), ui.visuals().strong_text_color());
        let font = egui::FontId::proportional(13.5);
        ui.painter().text(at, egui::Align2::LEFT_CENTER, title, font, ink);
    }
}

/// A line below the name, indented by the padding of the name's button.
fn indented(ui: &mut Ui, add: impl FnOnce(&mut Ui)) {
    ui.horizontal(|ui| {
        ui.add_space(ui.spacing().button_padding.x);
        add(ui);
    });
}

/// The column's logit; if another is pinned, the change from its logit for that column's class.
fn against(cx: &PanelContext<'_>, id: ColumnId, trace: &Trace) -> Option<String> {
    let reference = cx.state.reference().filter(|_| cx.state.selection.reference != Some(id));
    let Some(reference) = reference else {
        let logit = trace.logits.get(trace.evidence.class)?;
        return Some(format!("Logit {} for {}", minus(format!("{logit:.2}")), class_name(trace)));
    };
    let at = reference.evidence.class;
    if trace.logits.len() != reference.logits.len() || !is_same_class(trace, reference, at) {
        return Some("Classes differ from the pinned column".to_owned());
    }
    let change = minus(format!("{:+.2}", trace.logits.get(at)? - reference.logits.get(at)?));
    Some(format!("Δ logit {change} for {}, from pinned", class_name(reference)))
}

/// The column's accuracy on the dataset and, if its reading is changed, the change from the probe as trained.
fn accuracy(cx: &PanelContext<'_>, id: ColumnId) -> Option<String> {
    let column = cx.state.columns.get(&id)?;
    let own = cx.state.evaluation_of(id)?.ok()?.accuracy();
    let trained = cx.state.evaluation(column.probe, &Intervention::None).and_then(Result::ok);
    let change =
        trained.filter(|_| column.change != Intervention::None).map_or_else(String::new, |trained| {
            format!(", {} points vs as trained", minus(format!("{:+.1}", own - trained.accuracy())))
        });
    Some(format!("Accuracy {own:.1} %{change}"))
}

/// The menu of a column: interventions, its image, moving and removing it.
fn menu(ui: &mut Ui, cx: &mut PanelContext<'_>, id: ColumnId) {
    let Some(column) = cx.state.columns.get(&id) else { return };
    let routing = column.shown.trace().map(|trace| &trace.routing);
    let (probe, image) = (column.probe, column.image);
    let info = cx.state.library.probe_info(probe);
    if !matches!(routing, None | Some(Routing::None)) {
        ui.weak("The same probe beside it, not retrained");
        for change in interventions(info) {
            if ui.button(capitalised(&change.to_string())).clicked() {
                cx.send(Command::AddColumn { probe, image, change });
            }
        }
        if let Some(trained) = temperature(info, &Intervention::None) {
            let about = "Half of the trained value; type or drag another in the column header";
            if ui.button("Another temperature").on_hover_text(about).clicked() {
                let change = Intervention::Temperature(trained / 2.0);
                cx.send(Command::AddColumn { probe, image, change });
            }
        }
        ui.separator();
    }
    if column.change != Intervention::None && ui.button("Read as trained").clicked() {
        cx.send(Command::SetIntervention(id, Intervention::None));
    }
    if column.image.is_some() {
        if ui.button("Follow the current image").clicked() {
            cx.send(Command::SetImage(id, None));
        }
    } else if cx.state.selection.image.is_some() && ui.button("Keep this image").clicked() {
        cx.send(Command::SetImage(id, cx.state.selection.image));
    }
    let (at, all) = (cx.state.columns.get_index_of(&id).unwrap_or(0), cx.state.compared().count());
    if at > 0 && ui.button("Move left").clicked() {
        cx.send(Command::MoveColumn(id, at - 1));
    }
    if at + 1 < all && ui.button("Move right").clicked() {
        cx.send(Command::MoveColumn(id, at + 1));
    }
    if ui.button("Remove column").clicked() {
        cx.send(Command::RemoveColumn(id));
    }
    if all > 1 && ui.button("Remove the other columns").clicked() {
        cx.send(Command::KeepColumn(id));
    }
}
