//! The menu that evaluates with removal curves of every image, and says in advance what that costs.

use super::removal::choose_modes;
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::lasting_menu_button;
use crate::model::explain::removal::{Mode, RANKINGS, RemovalSpec};

/// The chosen removal modes.
pub struct EvalRemovals(RemovalSpec);

impl Default for EvalRemovals {
    fn default() -> Self {
        Self(RemovalSpec { modes: vec![Mode::Frozen], ..RemovalSpec::default() })
    }
}

impl EvalRemovals {
    /// Draws the button and its menu.
    pub fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let tooltip = "Removal curves: every image's tokens are removed and put back, the most important \
                       first; the mean heights of the curves are measures of every image";
        // The menu stays open while modes are chosen.
        let menu = lasting_menu_button(ui, egui::Button::new("…").small(), |ui| {
            choose_modes(ui, &mut self.0.modes);
            ui.weak(self.cost(cx));
            let button = egui::Button::new("Evaluate shown with removal curves");
            let button = button.fill(ui.visuals().selection.bg_fill); // told apart from the choices above
            if ui.add_enabled(!self.0.modes.is_empty(), button).clicked() {
                cx.send(Command::EvaluateRemovals(self.0.modes.clone()));
                ui.close();
            }
        });
        let menu = menu.accessible_name("Removal curves…");
        menu.on_hover_text(tooltip).on_disabled_hover_text(Action::EvaluateShown.missing());
    }

    /// How many readings and backbone passes it takes, in words.
    fn cost(&self, cx: &PanelContext<'_>) -> String {
        let images = cx.state.dataset().map_or(0, |(_, part)| part.samples.len());
        let images = counted(images, "image", "images");
        let passes = self.0.passes(RANKINGS.len());
        // Ranking by attention rollout needs the backbone: without passes of it there is none.
        let rankings = RANKINGS.len() - usize::from(passes == 0.0);
        let reads = match self.0.readings(rankings) {
            0 => format!("Each probe reads each of {images} once"),
            readings => {
                let times = counted(readings, "time", "times");
                format!("Each probe reads each of {images} up to {times}")
            }
        };
        match passes {
            0.0 => reads,
            _ => format!("{reads}, at a cost of up to {passes:.0} full backbone passes per image"),
        }
    }
}
