//! An open run: its status, buttons that control it, its curves and its heads.

use super::curves::Curves;
use super::{legend, tasks};
use crate::app::format;
use crate::app::jobs::detached::EPOCHS;
use crate::app::jobs::tasks::Tasks;
use crate::app::state::{ActiveRun, Phase, WatchedRun};
use crate::app::window::panels::prelude::*;

pub fn ui(ui: &mut Ui, cx: &mut PanelContext<'_>, run: &WatchedRun, curves: &mut Curves) {
    head(ui, cx, run);
    tasks::ui(ui, cx, run);
    if run.history.lines(0).is_empty() {
        let none = match &run.phase {
            Phase::Missing(_) => "It is shown here as soon as its folder can be read",
            _ if run.tasks.is_some() => "No task has started training yet",
            _ => "This run trains no heads",
        };
        return placeholder::empty(ui, none);
    }
    ui.add_space(6.0);
    curves.controls(ui, cx, &run.history);
    let rows = run.history.about.heads.len() as f32;
    let table = (rows * legend::ROW_PX + legend::HEAD_PX).min((ui.available_height() * 0.4).max(120.0));
    let height = (ui.available_height() - table - 14.0).max(150.0);
    curves.ui(ui, cx, &run.history, height);
    ui.add_space(4.0);
    legend::ui(ui, cx, run, &mut curves.hidden, table - legend::HEAD_PX);
}

fn head(ui: &mut Ui, cx: &mut PanelContext<'_>, run: &WatchedRun) {
    let about = &run.history.about;
    let active = cx.state.active_on(&about.folder);
    ui.horizontal(|ui| {
        ui.label(RichText::new(about.name()).heading()).on_hover_text(about.folder.display().to_string());
        let (text, color) = status(cx, run, active);
        ui.label(RichText::new(text).color(color));
        at_right(ui, |ui| buttons(ui, cx, run, active));
    });
    let details = format!(
        "{} through {}, on {}: {} to train on, {} to test on; {}, {}, {}",
        about.dataset,
        about.backbone,
        about.device,
        counted(about.train, "image", "images"),
        format::count(about.test),
        counted(about.heads.len(), "head", "heads"),
        counted(about.epochs, "epoch", "epochs"),
        counted(about.seeds.len(), "seed", "seeds"),
    );
    if !about.heads.is_empty() {
        ui.add(Label::new(RichText::new(details).small().weak()).truncate());
    }
    let mut own = cx.state.jobs.values().filter(|job| job.run.as_ref() == Some(&about.folder));
    // That of tasks is told with them; that of a run which another process has finished since is over.
    let is_told = run.tasks.is_none() && run.phase != Phase::Done;
    let refused = own.find_map(|job| job.error.as_ref()).filter(|_| is_told);
    let failed = match &run.phase {
        Phase::Failed(error) | Phase::Missing(error) => Some(error),
        _ => None,
    };
    if let Some(error) = refused.or(failed) {
        let color = color32(style::failed(cx.theme));
        for line in &error.lines {
            placeholder::selectable(ui, RichText::new(line).color(color));
        }
        if let Some(remedy) = &error.remedy {
            placeholder::selectable(ui, RichText::new(remedy));
        }
        placeholder::copy_button(ui, error);
    }
    progress(ui, cx, run, active);
}

/// The status of a run in words, and their colour.
fn status(
    cx: &PanelContext<'_>,
    run: &WatchedRun,
    active: Option<&ActiveRun>,
) -> (&'static str, egui::Color32) {
    let (fine, muted) = (color32(style::fine(cx.theme)), color32(cx.theme.muted));
    match (&run.phase, active) {
        (_, Some(active)) if active.folder.is_none() => {
            (if cancelling(cx, active) { "Stopping…" } else { "Preparing…" }, muted)
        }
        (Phase::Running, Some(active)) if cancelling(cx, active) => ("Stopping after this step", muted),
        (Phase::Running, Some(ActiveRun { paused: true, .. })) => {
            ("Paused", color32(cx.theme.legible(cx.theme.series(4))))
        }
        (Phase::Running, Some(ActiveRun { pausing: true, .. })) => ("Pausing after this step", muted),
        (Phase::Running, _) => ("Running", fine),
        (Phase::Open { .. }, _) if run.tasks.as_ref().is_some_and(Tasks::are_active) => ("In tasks", fine),
        (Phase::Open { growing: true }, _) if run.tasks.is_none() => ("Runs elsewhere", fine),
        (Phase::Open { .. }, _) => ("Not finished", muted),
        (Phase::Stopped, _) => ("Stopped and saved", muted),
        (Phase::Done, _) => ("Finished", fine),
        (Phase::Failed(_), _) => ("Failed", color32(style::failed(cx.theme))),
        (Phase::Missing(_), _) => ("Cannot be read", color32(style::failed(cx.theme))),
    }
}

pub(super) fn cancelling(cx: &PanelContext<'_>, active: &ActiveRun) -> bool {
    cx.state.jobs.get(&active.job).is_some_and(|job| job.cancelling)
}

/// Width of the button Pause or Resume, the same for both texts so that nothing beside it moves.
const PAUSE_PX: f32 = 72.0;

/// Draws the buttons, of which each keeps its place: a double click never hits another.
fn buttons(ui: &mut Ui, cx: &mut PanelContext<'_>, run: &WatchedRun, active: Option<&ActiveRun>) {
    let folder = &run.history.about.folder;
    let wide = egui::Vec2::new(PAUSE_PX, 0.0);
    if let Some(active) = active {
        let (can_stop, begun) = (!cancelling(cx, active), active.folder.is_some());
        let stop = ui.add_enabled(can_stop, Button::new("Stop and save"));
        let about = "Ends after this step and saves: probes are written, and it can be resumed later";
        if stop.on_hover_text(about).clicked() {
            cx.send(Command::Cancel(active.job));
        }
        let (text, about) = match active.pausing {
            true => ("Resume", "Continue from here"),
            false => ("Pause", "No more steps until it is resumed; images can still be explained"),
        };
        let pause = ui
            .add_enabled(can_stop && begun && !active.detached, Button::new(text).min_size(wide))
            .on_hover_text(about);
        let apart = "It is a separate process: stop it, and resume it later";
        if pause.on_disabled_hover_text(if begun { apart } else { "It has not begun yet" }).clicked() {
            cx.send(Command::PauseTraining(!active.pausing));
        }
    } else if !matches!(run.phase, Phase::Done | Phase::Missing(_)) && run.tasks.is_none() {
        let free = cx.state.training.active.is_none();
        let about = match run.phase {
            Phase::Open { .. } => {
                "Continues from where it was saved. No other program may be training it now"
            }
            _ => "Continues from where it was saved",
        };
        if ui.add_enabled(free, Button::new("Resume").min_size(wide)).on_hover_text(about).clicked() {
            cx.send(Command::ResumeTraining(folder.clone()));
        }
    }
    let close = ui.add_enabled(active.is_none(), Button::new("Close run"));
    let close = close.on_hover_text("Removes the curves; the files and open probes stay");
    if close.on_disabled_hover_text("It is running: stop it first").clicked() {
        cx.send(Command::CloseRun(folder.clone()));
    }
}

/// Draws the progress of a run; for the active one also its rate and the time left.
fn progress(ui: &mut Ui, cx: &PanelContext<'_>, run: &WatchedRun, active: Option<&ActiveRun>) {
    let (done, all) = run.history.done();
    let known = active.and_then(|active| cx.state.jobs.get(&active.job)?.progress.as_ref());
    let (fraction, text) = match (active, known) {
        (Some(active), Some(progress)) => {
            let rest = match active.rate > 0.0 {
                true if active.paused => String::new(),
                true => {
                    let rate = format::count(active.rate.round() as usize);
                    format!(", {rate} images/s, {} left", format::clock(active.left))
                }
                // A training in a separate process reports only its epochs.
                false if progress.what == EPOCHS => format!(": {}", progress.amounts()),
                false => String::new(),
            };
            (progress.fraction().unwrap_or(0.0), format!("{}{rest}", progress.what))
        }
        _ if run.history.finished() => return, // or it has not begun
        _ => {
            let part = done as f32 / all.max(1) as f32;
            (part, format!("{:.0} % of all epochs are done", 100.0 * part))
        }
    };
    placeholder::progress_bar(ui, fraction, &text, ui.available_width());
}
