//! Slurm tasks: those the next training would be split into, and the status of a run's, with buttons to cancel and retry.

use egui::CollapsingHeader;

use crate::app::jobs::tasks::{TaskPhase, TaskStatus, Tasks};
use crate::app::state::{Phase, WatchedRun};
use crate::app::window::panels::prelude::*;

/// Maximum height of the list of tasks.
const LIST_PX: f32 = 150.0;
/// Height of a task in it.
const ROW_PX: f32 = 18.0;
/// Widths of a task's name and of its state.
const WIDTHS: [f32; 2] = [90.0, 190.0];

/// Draws the stages the next training would be split into, and their scripts for `sbatch`.
pub fn planned(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    ui.add_space(6.0);
    match cx.state.planned_tasks() {
        (Some(Ok(stages)), _) => {
            for stage in stages.iter() {
                let tasks = counted(stage.tasks, "task", "tasks");
                ui.horizontal_wrapped(|ui| {
                    ui.label(RichText::new(format!("{}: {tasks}", stage.name)).strong());
                    ui.label(RichText::new(stage.about()).weak());
                });
                CollapsingHeader::new(format!("Script for sbatch: {}.sh", stage.name)).show(ui, |ui| {
                    let script = RichText::new(&stage.script).monospace().small();
                    ui.add(Label::new(script).selectable(true).wrap());
                    if ui.small_button("Copy script").clicked() {
                        ui.ctx().copy_text(stage.script.clone());
                    }
                });
            }
        }
        (Some(Err(error)), _) => {
            let color = color32(style::failed(cx.theme));
            error.lines.iter().for_each(|line| {
                placeholder::selectable(ui, RichText::new(line).color(color));
            });
            // With a wrong field it would fail again.
            if cx.state.settings.training.slurm.faults().is_empty() && ui.button("Try again").clicked() {
                cx.send(Command::PlanTasks);
            }
        }
        (None, planning) => {
            ui.weak("Splitting it into tasks…");
            if planning.is_none() {
                cx.send(Command::PlanTasks);
            }
        }
    }
}

/// Draws the status of a run's tasks.
pub fn ui(ui: &mut Ui, cx: &mut PanelContext<'_>, run: &WatchedRun) {
    let Some(tasks) = run.tasks.as_ref().filter(|_| run.phase != Phase::Done) else { return };
    let folder = &run.history.about.folder;
    ui.horizontal(|ui| {
        let room = at_right(ui, |ui| {
            let free = !cx.state.is_changing_tasks();
            let retry = ui.add_enabled(free && tasks.can_retry(), Button::new("Retry failed"));
            let about = "Resubmits what failed or was stopped, and what waited for it; finished work is kept";
            if retry.on_hover_text(about).clicked() {
                cx.send(Command::RetryTasks(folder.clone()));
            }
            let cancel = ui.add_enabled(free && tasks.are_active(), Button::new("Cancel tasks"));
            let about = "Cancels all tasks; finished work is kept, and they can be retried";
            if cancel.on_hover_text(about).clicked() {
                cx.send(Command::EndTasks(folder.clone()));
            }
        });
        let text = if tasks.all.is_empty() { "Checking its tasks…".to_owned() } else { tasks.summary() };
        let room = UiBuilder::new().max_rect(room).layout(Layout::left_to_right(Align::Center));
        ui.scope_builder(room, |ui| ui.add(Label::new(RichText::new(text).strong()).truncate()));
    });
    let own = cx.state.jobs.values().filter(|job| job.run.as_ref() == Some(folder));
    let refused = own.filter_map(|job| job.error.as_ref()).flat_map(|error| &error.lines);
    for problem in tasks.problem.iter().chain(refused) {
        placeholder::selectable(ui, RichText::new(problem).color(color32(style::failed(cx.theme))));
    }
    let rows = sorted(tasks);
    let area = ScrollArea::vertical().id_salt("tasks").max_height(LIST_PX).auto_shrink([false, true]);
    area.show_rows(ui, ROW_PX, rows.len(), |ui, range| {
        rows[range].iter().for_each(|task| row(ui, cx, task));
    });
}

/// The tasks in order of attention: failed first, then running, idle, waiting, and done last.
fn sorted(tasks: &Tasks) -> Vec<&TaskStatus> {
    let mut rows: Vec<&TaskStatus> = tasks.all.iter().collect();
    rows.sort_by_key(|task| match task.phase {
        TaskPhase::Failed => 0,
        TaskPhase::Running => 1,
        TaskPhase::Idle => 2,
        TaskPhase::Waiting => 3,
        TaskPhase::Done => 4,
    });
    rows
}

fn row(ui: &mut Ui, cx: &PanelContext<'_>, task: &TaskStatus) {
    let color = match task.phase {
        TaskPhase::Failed => color32(style::failed(cx.theme)),
        TaskPhase::Running | TaskPhase::Done => color32(style::fine(cx.theme)),
        TaskPhase::Waiting | TaskPhase::Idle => color32(cx.theme.muted),
    };
    ui.horizontal(|ui| {
        ui.set_height(ROW_PX);
        let texts = [RichText::new(&task.name).small(), RichText::new(&task.state).small().color(color)];
        for (text, width) in texts.into_iter().zip(WIDTHS) {
            let layout = Layout::left_to_right(Align::Center);
            ui.allocate_ui_with_layout(egui::vec2(width, ROW_PX), layout, |ui| {
                ui.set_min_width(width);
                ui.add(Label::new(text).truncate());
            });
        }
        let last = task.said.last().map_or("", String::as_str);
        let last = Label::new(RichText::new(last).small().weak()).truncate();
        let last = ui.add(last.show_tooltip_when_elided(false));
        if !task.said.is_empty() {
            last.on_hover_text(task.said.join("\n"));
        }
    });
}
