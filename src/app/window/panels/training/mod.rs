//! The training pane: the form and the plan of the next training, or the curves of an open run.

mod curves;
mod form;
mod head_curves;
mod heads;
mod legend;
mod place;
mod plan;
mod readout;
mod run;
mod tasks;

use std::path::PathBuf;

use egui::{Frame, Margin};

use self::curves::Curves;
use self::form::Form;
use crate::app::jobs::JobId;
use crate::app::state::Phase;
use crate::app::window::panels::prelude::*;

/// Width of the form.
const FORM_PX: f32 = 416.0;
/// Height of the plan if it is below the form.
const PLAN_PX: f32 = 420.0;
/// From this width the plan is beside the form.
const SIDE_BY_SIDE_PX: f32 = 800.0;

/// The id of the panel.
pub const TRAINING: &str = "training";

#[derive(Default)]
pub struct Training {
    /// The shown run; `None` for the form of the next one.
    shown: Option<PathBuf>,
    /// The last run that was shown automatically, as it began or was opened, and the job that did so.
    auto_shown: Option<(JobId, PathBuf)>,
    form: Form,
    curves: Curves,
}

impl Panel for Training {
    fn info(&self) -> Info {
        Info {
            id: TRAINING,
            title: "Training",
            about: "Train probes on a dataset, and see how runs go",
            tab: TabGroup::Page.tab(),
        }
    }

    fn shows_probe(&self) -> bool {
        false
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let training = &cx.state.training;
        let latest = training.latest.as_ref().filter(|latest| self.auto_shown.as_ref() != Some(*latest));
        if let Some((job, folder)) = latest {
            self.shown = Some(folder.clone());
            self.auto_shown = Some((*job, folder.clone()));
        }
        self.shown.take_if(|folder| !training.runs.contains_key(folder));
        Frame::new().inner_margin(Margin::symmetric(14, 8)).show(ui, |ui| {
            self.choose_run(ui, cx);
            ui.add_space(6.0);
            match self.shown.as_ref().and_then(|folder| cx.state.training.runs.get(folder)) {
                Some(run) => {
                    // In a small or zoomed window, which has no room for the curves and the heads below them.
                    ScrollArea::vertical().id_salt("run").auto_shrink(false).show(ui, |ui| {
                        run::ui(ui, cx, run, &mut self.curves);
                        follow_focus(ui);
                    });
                }
                None => self.next_training(ui, cx),
            }
        });
    }
}

/// Sends a command before the start of a training that was asked for in this frame, by Ctrl+Enter in a field; false if none was.
fn send_before_start(cx: &mut PanelContext<'_>, command: Command) -> bool {
    let is_start = |action: &UiAction| matches!(action, UiAction::Action(Action::StartTraining));
    let start = cx.actions.iter().position(is_start);
    if let Some(at) = start {
        cx.actions.insert(at, UiAction::Command(command));
    }
    start.is_some()
}

impl Training {
    /// Chooses which run is shown, or the form of the next one.
    fn choose_run(&mut self, ui: &mut Ui, cx: &PanelContext<'_>) {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            if ui.selectable_label(self.shown.is_none(), "New training").clicked() {
                self.shown = None;
            }
            let training = &cx.state.training;
            for (folder, run) in &training.runs {
                let paused = training.active.as_ref().is_some_and(|active| active.paused);
                let mark = match run.phase {
                    Phase::Running if paused => " (paused)",
                    Phase::Running => " (running)",
                    Phase::Missing(_) => " (cannot be read)",
                    _ => "",
                };
                let text = format!("{}{mark}", run.history.about.name());
                let label = ui.selectable_label(self.shown.as_ref() == Some(folder), text);
                if label.on_hover_text(folder.display().to_string()).clicked() {
                    self.shown = Some(folder.clone());
                }
            }
        });
    }

    /// Draws form and plan of the next training, side by side in a wide pane.
    fn next_training(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let room = ui.available_rect_before_wrap();
        if room.width() < SIDE_BY_SIDE_PX {
            ScrollArea::vertical().id_salt("next").auto_shrink(false).show(ui, |ui| {
                self.form.ui(ui, cx);
                ui.add_space(12.0);
                // A centred placeholder needs a height to be centred in.
                let size = Vec2::new(ui.available_width(), PLAN_PX);
                ui.allocate_ui(size, |ui| plan::ui(ui, cx));
                follow_focus(ui);
            });
            return;
        }
        let left = Rect::from_min_size(room.min, Vec2::new(FORM_PX, room.height()));
        let right = Rect::from_min_max(room.min + Vec2::new(FORM_PX + 28.0, 0.0), room.max);
        ui.scope_builder(UiBuilder::new().max_rect(left).id_salt("form"), |ui| {
            ScrollArea::vertical().id_salt("form").auto_shrink(false).show(ui, |ui| {
                self.form.ui(ui, cx);
                follow_focus(ui);
            });
        });
        let line = ui.visuals().widgets.noninteractive.bg_stroke;
        ui.painter().vline(left.right() + 14.0, room.y_range(), line);
        ui.scope_builder(UiBuilder::new().max_rect(right).id_salt("plan"), |ui| {
            plan::ui(ui, cx);
        });
    }
}
