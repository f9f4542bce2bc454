//! The card for getting started: three steps, with what is open already and buttons that open the rest.

use egui::{Align2, FontId, Frame, Margin};

use crate::app::state::{Backbone, State, Status};
use crate::app::window::panels::prelude::*;

/// Width of the card.
const CARD_PX: f32 = 470.0;

/// Whether a step is still to be done.
pub fn needed(state: &State) -> bool {
    steps(state).iter().any(|step| step.done.is_none())
}

/// One thing to open.
struct Step {
    /// What to open, and what it is for.
    text: &'static str,
    /// What is open of it; `None` while nothing is.
    done: Option<String>,
    /// Why opening it failed; shown while nothing is open of it.
    error: Option<String>,
    /// The name of what an open probe was trained on, and where it is opened from.
    named: Option<(String, String)>,
    /// Actions that open it, with short names.
    actions: Vec<(Action, &'static str)>,
}

fn steps(state: &State) -> [Step; 3] {
    let library = &state.library;
    let open = library.backbones.values().filter(|backbone| backbone.status.is_open());
    let open: Vec<String> = open.map(Backbone::name).collect();
    let name = library.backbone().map(|(_, info)| info.id.clone());
    let backbone = name.or_else(|| (!open.is_empty()).then(|| open.join(", ")));
    let backbones = library.backbones.values().map(|backbone| (backbone.name(), &backbone.status));
    let probes = library.probes.values().map(|probe| (probe.name(), &probe.status));
    let named = library.probes.keys().find_map(|probe| state.backbone_to_open(*probe));
    let count = |n: usize, one: &str, many: &str| (n > 0).then(|| counted(n, one, many));
    [
        Step {
            text: "Open a backbone: the frozen model whose tokens are read",
            error: failure(backbones),
            named: named.map(|(name, source)| (name.to_owned(), source)),
            done: backbone,
            actions: vec![(Action::OpenBackbone, "Folder…"), (Action::OpenHub, "Hub…")],
        },
        Step {
            text: "Open probes that were trained on it, or train some",
            error: failure(probes),
            named: None,
            done: count(library.open_probe_count(), "probe", "probes"),
            actions: vec![
                (Action::OpenProbes, "Files…"),
                (Action::OpenRun, "Run…"),
                (Action::ShowTraining, "Train…"),
            ],
        },
        Step {
            text: "Open images, or drop them here",
            done: count(state.readable_images(), "image", "images"),
            error: None,
            named: None,
            actions: vec![(Action::OpenImages, "Files…"), (Action::OpenImageFolder, "Folder…")],
        },
    ]
}

/// Which of these entries could not be opened first, and why.
fn failure<'a, Info: 'a>(mut entries: impl Iterator<Item = (String, &'a Status<Info>)>) -> Option<String> {
    entries.find_map(|(name, status)| match status {
        Status::Failed(_, error) => Some(format!("{name} could not be opened: {error}")),
        _ => None,
    })
}

/// Draws the card in the middle of the rest of `ui`.
pub fn ui(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let steps = steps(cx.state);
    let next = steps.iter().position(|step| step.done.is_none());
    placeholder::centred(ui, 240.0, |ui| {
        let edge = egui::Stroke::new(1.0, color32(cx.theme.faint));
        let card = Frame::new().fill(color32(style::panel(cx.theme))).stroke(edge).corner_radius(8);
        card.inner_margin(Margin::symmetric(20, 16)).show(ui, |ui| {
            ui.set_width((ui.available_width() - 4.0).min(CARD_PX));
            ui.with_layout(Layout::top_down(Align::Min), |ui| {
                ui.label(RichText::new("See images through probes").heading());
                ui.add_space(8.0);
                for (at, step) in steps.iter().enumerate() {
                    step_ui(ui, cx, at, step, next == Some(at));
                }
                ui.horizontal(|ui| {
                    for action in [Action::OpenDemo, Action::Tour] {
                        cx.button(ui, egui::Button::new(action.text()), action);
                    }
                });
            });
        });
    });
}

fn step_ui(ui: &mut Ui, cx: &mut PanelContext<'_>, at: usize, step: &Step, next: bool) {
    ui.horizontal(|ui| {
        let (badge, _) = ui.allocate_exact_size(Vec2::splat(22.0), Sense::hover());
        let color = if step.done.is_some() { style::fine(cx.theme) } else { cx.theme.band };
        ui.painter().circle_filled(badge.center(), 10.5, color32(color));
        if step.done.is_some() {
            let line = egui::Stroke::new(1.8, color32(cx.theme.ground));
            let tick = [[-4.5, 0.5], [-1.5, 3.5], [4.5, -3.5]].map(|[x, y]| badge.center() + Vec2::new(x, y));
            ui.painter().line(tick.into(), line);
        } else {
            let (text, font) = ((at + 1).to_string(), FontId::proportional(13.0));
            ui.painter().text(badge.center(), Align2::CENTER_CENTER, text, font, color32(cx.theme.ink));
        }
        let room = at_right(ui, |ui| {
            for (at, (action, text)) in step.actions.iter().enumerate() {
                let button = egui::Button::new(*text);
                let first = next && at == 0;
                let button = if first { button.fill(ui.visuals().selection.bg_fill) } else { button };
                let response = ui.add(button).on_hover_text(action.keyed());
                if response.clicked() {
                    cx.choose(*action);
                }
            }
        });
        let room = UiBuilder::new().max_rect(room).layout(Layout::left_to_right(Align::Center));
        ui.scope_builder(room, |ui| match &step.done {
            Some(done) => drop(ui.add(egui::Label::new(done).truncate())),
            None => drop(ui.add(egui::Label::new(step.text).wrap())),
        });
    });
    if let Some(error) = step.error.as_ref().filter(|_| step.done.is_none()) {
        let text = style::failure(ui, error).small();
        placeholder::selectable(ui, text);
    }
    if let Some((name, source)) = step.named.as_ref().filter(|_| step.done.is_none()) {
        let button = ui.button(format!("Open {name}"));
        if button.on_hover_text("The backbone that an open probe was trained on, as its file says").clicked()
        {
            cx.send(Command::OpenBackbone(source.clone()));
        }
    }
    ui.add_space(4.0);
}
