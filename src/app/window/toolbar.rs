//! The line above the panes: the image, the probe, its reading order and the class evidence is for.

use eframe::egui;
use egui::{ComboBox, Response, Role, Ui, WidgetInfo};

use super::{MainWindow, widgets};
use crate::app::format::count;
use crate::app::jobs::ClassChoice;
use crate::app::state::Image;
use crate::app::state::command::{Action, Command};
use crate::app::window::panels::{PanelContext, UiAction, interventions, temperature_of_column};
use crate::model::data::ImageSource;
use crate::model::data::synsets::same_class;
use crate::model::explain::intervention::Intervention;
use crate::model::trace::Routing;
use crate::viz::draw::font;
use crate::viz::heading::capitalised;

/// Width from which every part has its preferred width.
const FULL_PX: f32 = 1330.0;
/// Width of what does not shrink, the names before choices included.
const FIXED_PX: f32 = 470.0;
/// Width from which every part of two lines has its preferred width, and of what does not shrink in the longer one.
const TWO_LINES_PX: [f32; 2] = [600.0, 250.0];
/// Width of all choices, which have the second of two lines to themselves, and of the gaps between them.
const CHOICES_PX: [f32; 2] = [545.0, 40.0];
/// Width of the gaps between them on the line of the image, where long texts widen them a little.
const ONE_LINE_GAPS_PX: f32 = 60.0;
/// Width of the names before choices.
const NAMES_PX: f32 = 130.0;

/// The names of choices: of the probe, its order and the class.
const NAMES: [&str; 3] = ["Probe", "Order", "Evidence for"];
/// The tooltip on the choice of an order.
const ABOUT_ORDER: &str = "Change one thing in how the probe reads; it is not retrained";

/// How the parts of the line share its width.
#[derive(Clone, Copy)]
struct WidthBudget {
    /// Width of a part, as a share of its preferred width.
    share: f32,
    /// Width of a choice, likewise.
    choices: f32,
    /// Whether choices have their names before them.
    named: bool,
    /// Whether choices stand on a line of their own.
    two_lines: bool,
}

impl WidthBudget {
    /// For a line `width` wide: first the names are dropped, then choices take a second line.
    fn from_width(width: f32) -> Self {
        let share = |fixed: f32| (width - fixed) / (FULL_PX - FIXED_PX);
        let named = share(FIXED_PX) > 0.7; // below, their choices would be cut off
        let share = if named { share(FIXED_PX) } else { share(FIXED_PX - NAMES_PX) };
        let two_lines = share < 0.5;
        let [whole, fixed] = TWO_LINES_PX;
        let [all, gaps] = CHOICES_PX;
        let [share, choices] = match two_lines {
            true => [(width - fixed) / (whole - fixed), (width - gaps) / all],
            false => [share; 2],
        };
        Self { share: share.clamp(0.45, 1.0), choices: choices.clamp(0.45, 1.0), named, two_lines }
    }

    /// With wider choices, where the image leaves them more than their share of the line: `rest`.
    fn with_rest(self, rest: f32) -> Self {
        let width = |name: &&str| font::width(name, 13.5) + 8.0;
        let names = if self.named { NAMES.iter().map(width).sum() } else { 0.0 };
        let choices = (rest - names - ONE_LINE_GAPS_PX) / CHOICES_PX[0];
        Self { choices: choices.clamp(self.choices, 1.0), ..self }
    }
}

/// Draws the line; in a narrow window its parts lose their names and shrink, and then take two lines.
pub fn ui(window: &mut MainWindow, ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let mut room = WidthBudget::from_width(ui.available_width());
    ui.horizontal_wrapped(|ui| {
        image(ui, cx, room);
        if room.two_lines {
            ui.end_row();
        } else {
            ui.separator();
            room = room.with_rest(ui.available_size_before_wrap().x);
        }
        probe(ui, cx, room);
        reading(ui, cx, room);
        if cx.focus.is_some() {
            ui.separator();
            class(window, ui, cx, room);
        }
    });
}

fn image(ui: &mut Ui, cx: &mut PanelContext<'_>, room: WidthBudget) {
    let Some(image) = cx.state.current_image() else {
        if ui.button(Action::OpenImages.text()).clicked() {
            cx.choose(Action::OpenImages);
        }
        return;
    };
    for (action, text) in [(Action::PreviousImage, "‹"), (Action::NextImage, "›")] {
        let button = ui.button(text).accessible_name(action.text());
        if button.on_hover_text(action.keyed()).clicked() {
            cx.choose(action);
        }
    }
    // Images in one table are told apart by their row.
    let name = match image.source.row {
        Some(row) => format!("Row {row} of {}", ImageSource::from(image.source.path.clone()).short()),
        None => image.name(),
    };
    name_within(ui, &name, 190.0 * room.share).on_hover_text(image.source.to_string());
    if let Some(class) = cx.state.library.true_class(image) {
        ui.weak("·");
        widgets::label_within(ui, class, 110.0 * room.share).on_hover_text(format!("True class: {class}"));
    }
    let all = count(cx.shown.ids.len());
    match cx.state.selection.image.and_then(|id| cx.shown.ids.get_index_of(&id)) {
        Some(at) => ui.weak(format!("{} of {all}", count(at + 1))),
        None => ui.weak(format!("– of {all}")).on_hover_text("The gallery's filter hides this image"),
    };
    finding(ui, cx, image, room);
}

/// A name of a file that is not wider than `room`: cut in the middle, as those of a dataset often differ at their end alone.
fn name_within(ui: &mut Ui, name: &str, room: f32) -> Response {
    let label = ui.label(font::fit_middle(name, 13.5, room));
    label.widget_info(|| WidgetInfo::labeled(Role::Label, true, name));
    label
}

/// The star of the current image, and the latest finding of it.
fn finding(ui: &mut Ui, cx: &mut PanelContext<'_>, image: &Image, room: WidthBudget) {
    let star = widgets::star(ui, cx.state.findings.is_starred(image), "Star this image");
    let about = format!("{}\n{}", Action::StarImage.keyed(), Action::StarImage.tooltip());
    if star.on_hover_text(about).clicked() {
        cx.choose(Action::StarImage);
    }
    let Some((id, finding)) = cx.state.findings.of_image(image).last() else {
        cx.button(ui, egui::Button::new("Keep…"), Action::KeepFinding);
        return;
    };
    let head = finding.head(1);
    let first = head.lines().next().map_or("Finding", |line| line.trim_start_matches(['#', ' ']));
    let button = ui.button(widgets::fit(ui, first, 90.0 * room.share)).on_hover_text(finding.head(12));
    if button.clicked() {
        cx.actions.push(UiAction::EditFinding(id, Box::new(finding.clone())));
    }
}

fn probe(ui: &mut Ui, cx: &mut PanelContext<'_>, room: WidthBudget) {
    if cx.state.columns.is_empty() {
        ui.weak("No probe shown");
        return;
    }
    let shown = cx.focus.map(|id| cx.state.column_title(id)).unwrap_or_default();
    let combo = ComboBox::from_id_salt("probe");
    // The choice of order says how its reading is changed.
    let name = cx.focus.map(|id| cx.state.column_name(id)).unwrap_or_default();
    let fitted = cx.fit_title(&name, 13.5, text_width(190.0, room));
    choice(ui, [NAMES[0], ""], combo, 190.0, room, [&shown, &fitted], |ui| {
        for id in cx.state.columns.keys() {
            if ui.selectable_label(cx.focus == Some(*id), cx.state.column_title(*id)).clicked() {
                cx.send(Command::Focus(*id));
                ui.close();
            }
        }
    });
}

/// The width of the text in a choice of preferred width `width`.
fn text_width(width: f32, room: WidthBudget) -> f32 {
    width * room.choices - 24.0
}

/// A combo box of preferred width `width`, with its name before it if that fits too, which shows the second of two texts. Its tooltip
/// is the name where that does not fit, the first text where the second is cut, and what it is about.
fn choice(
    ui: &mut Ui,
    [name, about]: [&str; 2],
    combo: ComboBox,
    width: f32,
    room: WidthBudget,
    [whole, shown]: [&str; 2],
    list: impl FnOnce(&mut Ui),
) {
    let label = room.named.then(|| ui.label(name).id);
    let fitted = widgets::fit(ui, shown, text_width(width, room));
    let is_cut = fitted.elided || shown != whole;
    let combo = combo.width(width * room.choices).selected_text(fitted);
    let response = widgets::combo_of(ui, combo, list);
    if is_cut {
        widgets::set_full_text(&response, whole);
    }
    let response = match label {
        Some(label) => response.labelled_by(label),
        None => response.accessible_name(name),
    };
    let lines = [(label.is_none(), name), (is_cut, whole), (!about.is_empty(), about)];
    let lines: Vec<&str> = lines.into_iter().filter_map(|(is_told, line)| is_told.then_some(line)).collect();
    if !lines.is_empty() {
        response.on_hover_text(lines.join("\n")); // one text: each would have a box of its own
    }
}

/// Chooses how the probe reads: as trained, or with one change.
fn reading(ui: &mut Ui, cx: &mut PanelContext<'_>, room: WidthBudget) {
    let Some((id, column)) = cx.focus.zip(cx.column()) else { return };
    let routing = column.shown.trace().map(|trace| &trace.routing);
    if column.change == Intervention::None && matches!(routing, None | Some(Routing::None)) {
        return;
    }
    let change = column.change.clone();
    let info = cx.state.library.probe_info(column.probe);
    let all = [vec![Intervention::None], interventions(info)].concat();
    let name = |change: &Intervention| capitalised(&change.to_string());
    let shown = name(&change);
    let combo = ComboBox::from_id_salt("reading")
        .height(420.0)
        .close_behavior(egui::PopupCloseBehavior::CloseOnClickOutside);
    choice(ui, [NAMES[1], ABOUT_ORDER], combo, 175.0, room, [&shown; 2], |ui| {
        for other in all {
            if ui.selectable_label(change == other, name(&other)).clicked() {
                cx.send(Command::SetIntervention(id, other));
                ui.close();
            }
        }
        widgets::inset(ui, |ui| temperature_of_column(ui, cx, id)); // as the entries above
    });
}

/// Chooses the class that evidence is for.
fn class(window: &mut MainWindow, ui: &mut Ui, cx: &mut PanelContext<'_>, room: WidthBudget) {
    // The name and its choice stay on one line.
    let needed = 180.0 * room.choices + if room.named { font::width(NAMES[2], 13.5) + 16.0 } else { 8.0 };
    widgets::keep_together(ui, needed);
    let class = cx.state.class_of(cx.state.selection.image);
    let shown = match &class {
        ClassChoice::Predicted if room.named => "predicted class",
        ClassChoice::Predicted => "Predicted class",
        ClassChoice::Named(_) if cx.state.selection.follows_true && room.named => "true class",
        ClassChoice::Named(_) if cx.state.selection.follows_true => "True class",
        ClassChoice::Named(name) => name,
    };
    let combo = ComboBox::from_id_salt("class")
        .height(360.0)
        .close_behavior(egui::PopupCloseBehavior::CloseOnClickOutside);
    choice(ui, [NAMES[2], ""], combo, 180.0, room, [shown; 2], |ui| classes(window, ui, cx));
}

/// The list of classes: the predicted one, the true one, and all of the open probes.
fn classes(window: &mut MainWindow, ui: &mut Ui, cx: &mut PanelContext<'_>) {
    ui.set_min_width(240.0);
    let (chosen, follows) = (&cx.state.selection.class, cx.state.selection.follows_true);
    let is_chosen = |name: &str| matches!(chosen, ClassChoice::Named(own) if same_class(own, name));
    let mut wanted = None;
    let is_predicted = *chosen == ClassChoice::Predicted && !follows;
    if ui.selectable_label(is_predicted, "The predicted class").clicked() {
        wanted = Some(Command::SetClass(ClassChoice::Predicted));
    }
    let own = cx.state.current_image().and_then(|image| cx.state.library.true_class(image));
    if own.is_some() || follows {
        let text =
            own.map_or("The true class, where it is known".into(), |own| format!("The true class: {own}"));
        let own = ui.selectable_label(follows, text);
        if own.on_hover_text("Of each image; where it is not known, the predicted one").clicked() {
            wanted = Some(Command::FollowTrueClass);
        }
    }
    let classes = cx.state.library.classes();
    if !classes.is_empty() {
        widgets::class_list(ui, &classes, &mut window.class_filter, 280.0, |ui, name| {
            if ui.selectable_label(is_chosen(name), name).clicked() {
                wanted = Some(Command::SetClass(ClassChoice::Named(name.clone())));
            }
        });
    }
    if let Some(command) = wanted {
        cx.send(command);
        ui.close();
    }
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn a_long_name_keeps_its_end_and_is_whole_for_screen_readers() {
        let name = "ILSVRC2012_val_00037861.JPEG";
        let harness = Harness::new_ui(|ui| drop(name_within(ui, name, 120.0)));
        assert!(harness.get_by_label(name).rect().width() < 125.0);
        let painted = harness.output().shapes.iter().find_map(|clipped| match &clipped.shape {
            egui::Shape::Text(text) => Some(text.galley.text()),
            _ => None,
        });
        assert!(painted.is_some_and(|text| text.contains('…') && text.ends_with("JPEG")), "{painted:?}");
    }

    #[test]
    fn choices_take_what_a_short_name_leaves_of_the_line() {
        let room = WidthBudget::from_width(970.0);
        assert!(!room.two_lines && !room.named && room.choices < 0.8);
        assert!(room.with_rest(580.0).choices > 0.9);
        for rest in [200.0, room.choices * CHOICES_PX[0]] {
            assert_eq!(room.with_rest(rest).choices, room.choices, "never less than their share");
        }
        assert_eq!(room.with_rest(900.0).choices, 1.0);
    }

    #[test]
    fn choices_on_a_line_of_their_own_take_all_of_it() {
        for width in [320.0, 390.0, 500.0, 620.0] {
            let room = WidthBudget::from_width(width);
            let taken = CHOICES_PX[0] * room.choices + CHOICES_PX[1];
            assert!(
                room.two_lines && taken <= width + 0.1 && (taken > 0.9 * width || room.choices == 1.0),
                "{width}: {taken}"
            );
        }
    }
}
