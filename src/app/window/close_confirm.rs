//! Closing the window while a training runs, or a workspace is not saved: what becomes of it is asked first.

use eframe::egui::{Context, Ui, ViewportCommand};

use super::dialog::{self, Answer};
use crate::app::state::State;
use crate::app::state::command::Action;
use crate::app::window::panels::UiAction;

/// How far closing has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloseConfirm {
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

impl CloseConfirm {
    /// Lets the window close whatever there is.
    pub fn go(&mut self, ctx: &Context) {
        *self = Self::Going;
        ctx.send_viewport_cmd(ViewportCommand::Close);
    }

    /// Holds the window where a training would end with it, and asks. True where a workspace is to be asked
    /// about, which `unsaved` says.
    pub fn ui(
        &mut self,
        ui: &Ui,
        state: &State,
        unsaved: impl Fn() -> bool,
        actions: &mut Vec<UiAction>,
    ) -> bool {
        let training = state.training.active.as_ref().is_some_and(|run| !run.detached);
        let closing = ui.input(|i| i.viewport().close_requested());
        if closing && training && *self != Self::Going {
            ui.ctx().send_viewport_cmd(ViewportCommand::CancelClose);
            if *self == Self::Staying {
                *self = Self::Asking;
            }
        }
        let over = !training && matches!(self, Self::Asking | Self::Saving);
        if (over || closing && !training && *self != Self::Going) && unsaved() {
            *self = Self::Staying;
            ui.ctx().send_viewport_cmd(ViewportCommand::CancelClose);
            return true;
        }
        if over {
            self.go(ui.ctx());
        }
        if *self == Self::Asking {
            self.ask(ui, state, actions);
        }
        false
    }

    fn ask(&mut self, ui: &Ui, state: &State, actions: &mut Vec<UiAction>) {
        let answer = dialog::show(ui.ctx(), "leave", 420.0, "A training is running", |ui| {
            ui.weak("It was saved after its last epoch. Stopped, it is saved where it is, and can be resumed later");
            ui.add_space(6.0);
            let mut answer = Answer::Open;
            ui.horizontal(|ui| {
                if dialog::main_button(ui, "Stop, save and quit", true).clicked() {
                    actions.push(UiAction::chosen(Action::StopTraining, state));
                    answer = Answer::Given(Self::Saving);
                }
                if ui.button("Quit at once").clicked() {
                    ui.ctx().send_viewport_cmd(ViewportCommand::Close);
                    answer = Answer::Given(Self::Going);
                }
                if ui.button("Keep training").clicked() {
                    answer = Answer::Closed;
                }
            });
            answer
        });
        match answer {
            Answer::Open => {}
            Answer::Closed => *self = Self::Staying,
            Answer::Given(next) => *self = next,
        }
    }
}
