//! A tour of the demo in five steps: a card above the panes that says what to look at, and shows its pane.

use eframe::egui;
use egui::{Align2, Frame, RichText, Ui, Vec2};

use super::dialog::{self, Answer};
use crate::app::window::panels::COMPARE;
use crate::viz::figures::dataset::Overview as _;
use crate::viz::figures::dataset::scatter::Scatter;

/// Below this width of the window the card would cover half of the picture from the middle.
const NARROW_PX: f32 = 1000.0;

/// From this width on notes have room beside the card.
const BESIDE_PX: f32 = 1200.0;
/// The gap between the card and notes above it.
const GAP_PX: f32 = 8.0;

/// A step: its title, its text, the id of the pane it shows.
struct Step {
    title: &'static str,
    text: &'static str,
    pane: &'static str,
}

fn steps() -> [Step; 5] {
    [
        Step {
            title: "An image through a probe",
            text: "The picture shows the weight of every token. Point at a patch: the same token lights up \
                   in every figure. Click to pin it, press Escape to unpin it.",
            pane: "photo",
        },
        Step {
            title: "In which order it reads",
            text: "The path is the order the router learned; what is read last is remembered best. Choose another \
                   Order above, such as Random order, and see what the probe makes of it.",
            pane: "scan_path",
        },
        Step {
            title: "Another probe, another image",
            text: "Click a probe in the library to show it; click a thumbnail, or press the arrow keys, for \
                   another image. The two bars beside a probe add it to Compare.",
            pane: "predictions",
        },
        Step {
            title: "Probes side by side",
            text: "Compare shows every probe on the same scales. Pin one, and the others can show their difference \
                   from it.",
            pane: COMPARE,
        },
        Step {
            title: "A whole dataset",
            text: "Evaluate probes on a dataset: accuracy, confusion, and in the Gallery the images on which two \
                   probes disagree. Click in a figure to see its images; the right mouse button exports it.",
            pane: Scatter.id(),
        },
    ]
}

/// The tour, at one of its steps.
#[derive(Default)]
pub struct Tour {
    step: usize,
    /// How far notes are moved up, as they would cover the buttons of the card.
    pub lifts: f32,
}

impl Tour {
    /// The pane of its step.
    pub fn pane(&self) -> &'static str {
        steps()[self.step].pane
    }

    /// Draws the card, `up` points above the status bar; the pane of another step. Enter goes on unless it is `taken` by what had
    /// the focus.
    pub fn ui(&mut self, ui: &Ui, up: f32, taken: bool) -> Answer<&'static str> {
        let (steps, at) = (steps(), self.step);
        // In a narrow window beside the pictures of the first steps.
        let width = ui.ctx().content_rect().width();
        let (corner, x) = match width < NARROW_PX {
            true => (Align2::RIGHT_BOTTOM, -8.0),
            false => (Align2::CENTER_BOTTOM, 0.0),
        };
        let area = egui::Area::new(egui::Id::unique("tour"))
            .order(egui::Order::Middle)
            .anchor(corner, Vec2::new(x, -44.0 - up));
        let card = |ui: &mut Ui| {
            ui.set_width(330.0);
            let step = &steps[at];
            ui.label(RichText::new(format!("Tour, step {} of {}", at + 1, steps.len())).small().weak());
            ui.label(RichText::new(step.title).size(15.0).strong());
            ui.add(egui::Label::new(step.text).wrap());
            ui.add_space(6.0);
            let mut answer = Answer::Open;
            ui.horizontal(|ui| {
                let last = at + 1 == steps.len();
                let next = dialog::main_button(ui, if last { "Done" } else { "Next" }, true);
                if next.clicked() || !taken && dialog::entered(ui) {
                    answer = if last { Answer::Closed } else { Answer::Given(steps[at + 1].pane) };
                    self.step = (at + 1).min(steps.len() - 1);
                }
                if ui.add_enabled(at > 0, egui::Button::new("Back")).clicked() {
                    self.step = at - 1;
                    answer = Answer::Given(steps[at - 1].pane);
                }
                if !last && ui.button("End the tour").clicked() {
                    answer = Answer::Closed;
                }
            });
            answer
        };
        let frame = Frame::window(&ui.ctx().global_style()).inner_margin(egui::Margin::same(12));
        let shown = area.show(ui.ctx(), |ui| frame.show(ui, card).inner);
        self.lifts = if width < BESIDE_PX { shown.response.rect.height() + GAP_PX } else { 0.0 };
        shown.inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_shows_a_pane_that_there_is() {
        let panels = crate::app::window::panels::all();
        for step in steps() {
            assert!(panels.iter().any(|panel| panel.id() == step.pane), "{}", step.pane);
        }
    }
}
