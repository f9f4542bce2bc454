//! The list of findings, in the library's place: searched, reordered, edited; a click shows one again.

use egui::Frame;

use crate::app::state::{Finding, FindingId};
use crate::app::window::panels::prelude::*;
use crate::viz::figures::dataset::folded;

/// Visible lines of a note.
const LINES: usize = 4;

#[derive(Default)]
pub struct Findings {
    /// The words searched for.
    text: String,
    /// The finding that was shown last.
    shown: Option<FindingId>,
}

impl Panel for Findings {
    fn info(&self) -> Info {
        Info {
            id: "findings",
            title: "Findings",
            about: "What you kept to come back to; a click shows it again",
            tab: TabGroup::Page.tab(),
        }
    }

    fn place(&self) -> PanelPlace {
        PanelPlace::OverLibrary
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let all: Vec<(FindingId, &Finding)> = cx.state.findings.iter().collect();
        ui.horizontal(|ui| {
            ui.label(RichText::new("Findings").size(14.5).strong());
            at_right(ui, |ui| {
                if !all.is_empty() {
                    cx.button(ui, Button::new(Action::Share.text()), Action::Share);
                }
                if ui.button("Hide").on_hover_text("Show the library").clicked() {
                    cx.actions.push(UiAction::Findings);
                }
            });
        });
        ui.add_space(2.0);
        if all.is_empty() {
            let hint = "Nothing is kept yet. A finding is an image with its probes as shown, and your note on it (N)";
            if Action::KeepFinding.enabled(cx.state) {
                cx.invite(ui, hint, Action::KeepFinding);
            } else {
                placeholder::empty(ui, &format!("{hint}. Open an image first"));
            }
            return;
        }
        let text = folded(&self.text);
        let found: Vec<usize> = (0..all.len()).filter(|at| all[*at].1.holds(&text)).collect();
        ui.horizontal(|ui| {
            let count = if text.trim().is_empty() {
                all.len().to_string()
            } else {
                format!("{} of {}", found.len(), all.len())
            };
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.weak(count);
                let edit = TextEdit::singleline(&mut self.text).hint_text("Find an image, a probe or a word");
                let edit = edit.desired_width(ui.available_width());
                field(ui, "Find in findings", edit);
            });
        });
        ui.add_space(4.0);
        if found.is_empty() {
            return placeholder::empty(ui, "No finding contains these words");
        }
        ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            for at in found {
                self.row(ui, cx, at, all[at], all.len());
                ui.add_space(3.0);
            }
            follow_focus(ui);
        });
    }
}

impl Findings {
    fn row(
        &mut self,
        ui: &mut Ui,
        cx: &mut PanelContext<'_>,
        at: usize,
        (id, finding): (FindingId, &Finding),
        count: usize,
    ) {
        let name = finding.name();
        let builder = UiBuilder::new().id_salt(("finding", id)).sense(Sense::click());
        let inner = ui.scope_builder(builder, |ui| {
            let response = ui.response();
            let mut visuals = ui.style().interact_selectable(&response, self.shown == Some(id));
            if !response.hovered() && self.shown != Some(id) {
                visuals.weak_bg_fill = color32(cx.theme.ground);
            }
            let frame = Frame::group(ui.style()).fill(visuals.weak_bg_fill).stroke(visuals.bg_stroke);
            frame.show(ui, |ui| {
                ui.set_width(ui.available_width());
                ui.spacing_mut().item_spacing.y = 2.0;
                let whole = format!("{}  {name}", at + 1);
                let cut = font::fit_middle(&whole, 13.5, ui.available_width());
                let title = egui::Label::new(RichText::new(&cut).strong()).truncate().selectable(false);
                let title = ui.add(title);
                if cut != whole {
                    title.on_hover_text(&whole);
                }
                let probes: Vec<String> = finding.probes().into_iter().collect();
                if !probes.is_empty() {
                    let probes = RichText::new(probes.join(", ")).small().weak();
                    ui.add(egui::Label::new(probes).truncate().selectable(false));
                }
                if !finding.note.is_empty() {
                    let note = egui::Label::new(finding.head(LINES)).wrap().selectable(false);
                    ui.add(note);
                }
                ui.horizontal(|ui| buttons(ui, cx, at, (id, finding), count));
            });
        });
        let response = inner.response;
        let label = format!("Show finding {}: {name}", at + 1);
        response.widget_info(|| WidgetInfo::selected(Role::Button, true, self.shown == Some(id), &label));
        if response.has_focus() {
            crate::app::window::style::focus(ui, response.rect, 4.0);
        }
        if response.on_hover_text("Show it as it was kept").clicked() {
            self.shown = Some(id);
            cx.actions.push(UiAction::ShowFinding(id));
        }
    }
}

/// The buttons of a finding: edit, move, delete.
fn buttons(
    ui: &mut Ui,
    cx: &mut PanelContext<'_>,
    at: usize,
    (id, finding): (FindingId, &Finding),
    count: usize,
) {
    let named = |ui: &mut Ui, enabled: bool, text: &str, about: &str| {
        let button = ui.add_enabled(enabled, Button::new(RichText::new(text).small()).small());
        button.accessible_name(format!("{about} finding {}", at + 1)).on_hover_text(about).clicked()
    };
    if named(ui, true, "Edit…", "Edit the note of") {
        cx.actions.push(UiAction::EditFinding(id, Box::new(finding.clone())));
    }
    if named(ui, at > 0, "Up", "Move up") {
        cx.send(Command::MoveFinding(id, at - 1));
    }
    if named(ui, at + 1 < count, "Down", "Move down") {
        cx.send(Command::MoveFinding(id, at + 1));
    }
    if named(ui, true, "Delete", "Delete") {
        cx.send(Command::DeleteFinding(id));
    }
}
