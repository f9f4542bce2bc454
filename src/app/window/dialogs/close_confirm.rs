//! Closing the window: asks first what becomes of a training that runs, or of an unsaved workspace.

use eframe::egui::{Context, Ui, ViewportCommand};

use super::dialog::{self, Answer};
use crate::app::state::State;
use crate::app::state::command::Action;
use crate::app::window::panels::UiAction;

/// Progress of closing the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloseConfirm {
    /// The window stays open.
    #[default]
    Idle,
    /// The dialog asks what becomes of the training.
    Asking,
    /// The training is being stopped; the window closes once it is saved.
    Saving,
    /// The window closes, whatever runs.
    Closing,
}

impl CloseConfirm {
    /// Closes the window without asking.
    pub fn close_now(&mut self, ctx: &Context) {
        *self = Self::Closing;
        ctx.send_viewport_cmd(ViewportCommand::Close);
    }

    /// Cancels closing while a training would end with the window. True if the workspace is `unsaved` and the caller
    /// must ask whether to save it. A hidden window draws nothing, and closes unless this is called from its logic.
    pub fn decide(&mut self, ctx: &Context, state: &State, unsaved: impl Fn() -> bool) -> bool {
        let training = state.training.runs_here();
        let closing = ctx.input(|i| i.viewport().close_requested()) && *self != Self::Closing;
        let over = !training && matches!(self, Self::Asking | Self::Saving);
        if closing && training {
            *self = Self::Asking; // again while it is being saved: that may never end
            stay(ctx);
        } else if (closing || over) && unsaved() {
            *self = Self::Idle;
            stay(ctx);
            return true;
        } else if over {
            self.close_now(ctx);
        }
        false
    }

    /// Draws the question of what becomes of the training, while it is open.
    pub fn ui(&mut self, ui: &Ui, state: &State, actions: &mut Vec<UiAction>) {
        if *self != Self::Asking {
            return;
        }
        let began = state.training.active_run().is_some();
        let answer = dialog::show(ui.ctx(), "leave", 420.0, "A training is running", |ui| {
            ui.weak(match began {
                true => "It was saved after its last epoch. If stopped, it is saved where it is and can be resumed later",
                false => "It is still being prepared: the tokens so far are kept, and a run that is being resumed stays as it was",
            });
            dialog::row(ui, |ui| {
                let mut answer = Answer::Open;
                if dialog::confirmed(ui, "Stop, save and quit", true) {
                    actions.push(UiAction::Action(Action::StopTraining));
                    answer = Answer::Given(Self::Saving);
                }
                if ui.button("Quit now").clicked() {
                    ui.ctx().send_viewport_cmd(ViewportCommand::Close);
                    answer = Answer::Given(Self::Closing);
                }
                if ui.button("Keep training").clicked() {
                    answer = Answer::Closed;
                }
                answer
            })
        });
        match answer {
            Answer::Open => {}
            Answer::Closed => *self = Self::Idle,
            Answer::Given(next) => *self = next,
        }
    }
}

/// Keeps the window open, and brings it to the front for the question.
pub fn stay(ctx: &Context) {
    for command in [ViewportCommand::CancelClose, ViewportCommand::Minimized(false), ViewportCommand::Focus] {
        ctx.send_viewport_cmd(command);
    }
}
