//! Closing the window while a training runs: what becomes of it is asked first.

use eframe::egui::{Ui, ViewportCommand};

use super::dialog;
use crate::app::state::State;
use crate::app::state::command::{Action, Effect};
use crate::app::window::panels::UiAction;

/// How far leaving has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leave {
    /// Nobody leaves.
    #[default]
    Staying,
    /// It is asked what becomes of the training.
    Asking,
    /// The training is being stopped; the window closes once it is saved.
    Saving,
    /// The window closes whatever runs.
    Going,
}

impl Leave {
    /// Holds the window where a training would end with it, and asks.
    pub fn ui(&mut self, ui: &Ui, state: &State, wishes: &mut Vec<UiAction>) {
        let training = state.training.live.is_some();
        let closing = ui.input(|i| i.viewport().close_requested());
        if closing && training && *self != Self::Going {
            ui.ctx().send_viewport_cmd(ViewportCommand::CancelClose);
            if *self == Self::Staying {
                *self = Self::Asking;
            }
        }
        if !training && matches!(self, Self::Asking | Self::Saving) {
            *self = Self::Going;
            ui.ctx().send_viewport_cmd(ViewportCommand::Close);
        }
        if *self == Self::Asking {
            self.ask(ui, state, wishes);
        }
    }

    fn ask(&mut self, ui: &Ui, state: &State, wishes: &mut Vec<UiAction>) {
        let modal = dialog::show(ui.ctx(), "leave", |ui| {
            ui.set_width(420.0);
            ui.heading("A training is running");
            ui.weak("It was saved after its last epoch. Stopped, it is saved where it is, and goes on from there later");
            ui.add_space(6.0);
            ui.horizontal(|ui| {
                if dialog::main_button(ui, "Stop, save and quit", true).clicked() {
                    if let Effect::Command(command) = Action::StopTraining.effect(state) {
                        wishes.push(UiAction::Command(command));
                    }
                    *self = Self::Saving;
                }
                if ui.button("Quit at once").clicked() {
                    *self = Self::Going;
                    ui.ctx().send_viewport_cmd(ViewportCommand::Close);
                }
                if ui.button("Keep training").clicked() {
                    *self = Self::Staying;
                }
            });
        });
        if modal.should_close() {
            *self = Self::Staying;
        }
    }
}
