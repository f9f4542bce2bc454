//! The list of jobs, with progress and a button to cancel, failures that stay until they are dismissed,
//! and the log.

use crate::app::jobs::JobId;
use crate::app::state::{Job, Severity};
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::label_within;

/// Most entries of the log that are shown, as all of them are laid out in every frame.
const MAX_ENTRIES: usize = 200;
/// Room for the button that cancels a job.
const CANCEL_PX: f32 = 84.0;

pub struct Jobs;

impl Panel for Jobs {
    fn info(&self) -> Info {
        Info {
            id: "jobs",
            title: "Jobs and log",
            about: "What is running and what went wrong",
            tab: TabGroup::Page.tab(),
        }
    }

    fn place(&self) -> PanelPlace {
        PanelPlace::Below
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        ui.set_min_height(ui.available_height()); // also without anything to list, or it would stay as low as that
        ui.add_space(4.0);
        ui.horizontal(|ui| {
            ui.label(RichText::new("Jobs and log").size(14.5).strong());
            at_right(ui, |ui| {
                for action in [Action::CancelAll, Action::CopyLog] {
                    cx.button(ui, egui::Button::new(action.text()), action);
                }
                if ui.button("Hide").clicked() {
                    cx.actions.push(UiAction::Jobs);
                }
            });
        });
        if cx.state.jobs.is_empty() && cx.state.log.is_empty() {
            return placeholder::empty(ui, "Nothing is running, and nothing has failed");
        }
        ScrollArea::vertical().auto_shrink(false).stick_to_bottom(true).show(ui, |ui| {
            let earlier = cx.state.log.len().saturating_sub(MAX_ENTRIES);
            if earlier > 0 {
                let earlier = counted(earlier, "earlier entry", "earlier entries");
                ui.weak(format!("{earlier}: {} copies all", Action::CopyLog.text()));
            }
            for entry in &cx.state.log[earlier..] {
                let color = match entry.severity {
                    Severity::Error => style::failed(cx.theme),
                    Severity::Warning => cx.theme.ink,
                    Severity::Info => cx.theme.muted,
                };
                let text = RichText::new(entry.line()).color(color32(color));
                placeholder::selectable(ui, text);
            }
            for (id, job) in &cx.state.jobs {
                job_ui(ui, cx, *id, job);
            }
            follow_focus(ui);
        });
    }
}

fn job_ui(ui: &mut Ui, cx: &mut PanelContext<'_>, id: JobId, job: &Job) {
    ui.horizontal(|ui| {
        label_within(ui, &job.title, 0.4 * ui.available_width()).on_hover_text(&job.title);
        if job.error.is_some() {
            ui.label(style::failure(ui, "Failed"));
            if ui.small_button("Dismiss").clicked() {
                cx.send(Command::Dismiss(id));
            }
            return;
        }
        match &job.progress {
            Some(progress) => {
                let width = (ui.available_width() - CANCEL_PX).clamp(0.0, placeholder::MAX_LINE_PX);
                let amounts = cx.state.amounts(id).unwrap_or_default();
                placeholder::progress_bar(ui, progress.fraction().unwrap_or(0.0), &amounts, width);
            }
            None if job.started => drop(ui.weak("Running…")),
            None => drop(ui.weak("Waiting…")),
        }
        let cancel = egui::Button::new(job.cancel_text()).small();
        if ui.add_enabled(!job.cancelling, cancel).clicked() {
            cx.send(Command::Cancel(id));
        }
    });
}
