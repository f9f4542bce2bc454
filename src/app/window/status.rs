//! The status bar: where it computes, what is open, and what jobs run.

use eframe::egui;
use egui::{Align, Layout, RichText, Ui};

use super::pinned::PinnedToken;
use crate::app::format::{self, counted};
use crate::app::jobs::detached::EPOCHS;
use crate::app::jobs::{Progress, Unit};
use crate::app::process_memory;
use crate::app::state::JobKind;
use crate::app::state::command::{Action, Command};
use crate::app::state::connection::Connection;
use crate::app::state::settings::DEVICES;
use crate::app::window::panels::{PanelContext, UiAction};
use crate::app::window::style;
use crate::app::window::widgets::{fit, label_within, menu_button};
use crate::viz::draw::color32;

/// Below this width counts of what is open give way to running jobs.
const NARROW_PX: f32 = 900.0;
/// Least room for a job's title.
const MIN_TITLE_PX: f32 = 40.0;

/// Draws the bar; `unread` warnings came since the log was last shown.
pub fn ui(ui: &mut Ui, cx: &mut PanelContext<'_>, pinned: &mut PinnedToken, unread: usize) {
    ui.horizontal(|ui| {
        connection(ui, cx);
        device(ui, cx);
        if let Some((_, info)) = cx.backbone() {
            ui.separator();
            let name =
                label_within(ui, RichText::new(&info.id).small(), (0.2 * ui.max_rect().width()).max(60.0));
            name.on_hover_text(format!("{}: {}", info.id, info.summary()));
        }
        // A narrow bar leaves its room to running jobs.
        let narrow = ui.max_rect().width() < NARROW_PX;
        let busy = cx.state.jobs.values().any(|job| job.error.is_none());
        if !(narrow && busy) {
            ui.separator();
            let probes = counted(cx.state.library.open_probe_count(), "probe", "probes");
            for text in [probes, counted(cx.state.readable_images(), "image", "images")] {
                ui.label(RichText::new(text).small().weak());
            }
        }
        if let Some((text, about)) = memory(cx).filter(|_| !narrow) {
            ui.separator();
            ui.label(RichText::new(text).small().weak()).on_hover_text(about);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            jobs(ui, cx, unread);
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| pinned.ui(ui, cx));
        });
    });
}

/// Memory taken where it computes, and the tooltip on it.
fn memory(cx: &PanelContext<'_>) -> Option<(String, String)> {
    let own = process_memory::resident().map(format::bytes);
    let Some(host) = cx.state.connection.host() else {
        return Some((format!("Memory: {}", own?), "Memory of the program".to_owned()));
    };
    let remote = format::bytes(cx.state.remote_memory?);
    let window = own.map_or_else(String::new, |own| format!("; this window uses {own}"));
    Some((format!("Memory there: {remote}"), format!("Memory of the worker on {}{window}", host.name())))
}

/// A button with the remote worker's connection and number of jobs; nothing while this program computes.
fn connection(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let connection = &cx.state.connection;
    if connection.host().is_none() {
        return;
    }
    let busy = cx.state.jobs.values().filter(|job| job.error.is_none()).count() + cx.state.runs_in_tasks();
    let busy = match busy {
        0 => String::new(),
        jobs => format!(", {}", counted(jobs, "job", "jobs")),
    };
    let text = RichText::new(format!("{}{busy}", connection.text())).small();
    let (text, about) = match connection {
        Connection::Connected { hello, .. } => (text, hello.as_str()),
        Connection::Lost { why, .. } => (text.color(color32(style::failed(cx.theme))), why.as_str()),
        Connection::Here | Connection::Connecting(_) => (text, ""),
    };
    let mut button = ui.button(text);
    if !about.is_empty() {
        button = button.on_hover_text(about);
    }
    if button.clicked() {
        cx.choose(Action::Connect);
    }
    ui.separator();
}

fn device(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let open = cx.backbone().map(|(_, info)| info.clone());
    let name = open.as_ref().map_or(cx.state.settings.device.as_str(), |info| info.device.as_str());
    // The adapter too, if the machine is another: its user need not know it.
    let adapter = open.as_ref().filter(|_| cx.state.connection.host().is_some());
    let adapter = adapter.map_or_else(String::new, |info| format!(" ({})", info.adapter));
    let text = RichText::new(format!("Device: {name}{adapter}")).small();
    let badge = fit(ui, text, (0.25 * ui.max_rect().width()).max(90.0));
    let menu = menu_button(ui, egui::Button::new(badge), |ui| {
        for (device, about) in DEVICES {
            let chosen = cx.state.settings.device == *device;
            if ui.selectable_label(chosen, format!("{device}: {about}")).clicked() {
                cx.send(Command::SetDevice((*device).to_owned()));
            }
        }
        if let Connection::Connected { host, hello } = &cx.state.connection {
            ui.separator();
            let text = RichText::new(format!("{}: {hello}", host.name()));
            ui.add(egui::Label::new(text.small().weak()).wrap());
        }
    });
    let about = open.map_or_else(|| "Where tokens are computed".to_owned(), |info| info.adapter.clone());
    menu.on_hover_text(about);
}

/// The running job with its progress, and how many failed, or how many warnings are unread.
fn jobs(ui: &mut Ui, cx: &mut PanelContext<'_>, unread: usize) {
    let failed = cx.state.jobs.values().filter(|job| job.error.is_some()).count();
    let text = match failed {
        0 if unread == 0 => RichText::new("Jobs and log").small(),
        0 => RichText::new(format!("Log: {}", counted(unread, "warning", "warnings"))).small(),
        count => style::failure(ui, format!("{count} failed")).small(),
    };
    let response = ui.button(text).on_hover_text("Jobs and log");
    if response.clicked() {
        cx.actions.push(UiAction::Jobs);
    }
    let running = cx.state.jobs.iter().filter(|(_, job)| job.error.is_none());
    // A job with progress is shown rather than an explanation, which takes a moment.
    let Some((id, job)) = running.max_by_key(|(_, job)| (job.progress.is_some(), job.started)) else {
        return;
    };
    let trains = job.kind == JobKind::Train;
    let cancel = egui::Button::new(RichText::new(job.cancel_text()).small());
    let cancel = ui.add_enabled(!job.cancelling, cancel);
    let cancel = if trains { cancel.on_hover_text(Action::StopTraining.keyed_tooltip()) } else { cancel };
    if cancel.clicked() {
        cx.send(Command::Cancel(*id));
    }
    if let Some((progress, amounts)) = job.progress.as_ref().zip(cx.state.amounts(*id)) {
        let width = 240.0f32.min(ui.available_width());
        let text = if trains { of_training(progress, amounts) } else { amounts };
        let shown = fit(ui, RichText::new(&text).small(), width - 16.0);
        let bar = egui::ProgressBar::new(progress.fraction().unwrap_or(0.0)).text(shown);
        ui.add(bar.desired_width(width).desired_height(16.0)).on_hover_text(text);
    }
    let room = ui.available_width().min(320.0);
    if room > MIN_TITLE_PX {
        label_within(ui, RichText::new(&job.title).small(), room).on_hover_text(&job.title);
    }
}

/// The `amounts` of a training's progress, and what they count.
fn of_training(progress: &Progress, amounts: String) -> String {
    match (progress.unit, progress.total) {
        // What a process of its own prints before its first epoch.
        (Unit::Items, None) => progress.what.clone(),
        (Unit::Items, Some(_)) if progress.what == EPOCHS => format!("Epochs {amounts}"),
        (Unit::Items, Some(_)) => format!("Image {amounts}"),
        (Unit::Bytes, _) => amounts,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_number_of_a_training_says_what_it_counts() {
        let text = |what: &str, total| {
            let (what, elapsed) = (what.to_owned(), Duration::ZERO);
            let progress = Progress { what, done: 7, total, unit: Unit::Items, elapsed, left: None };
            of_training(&progress, progress.amounts())
        };
        assert_eq!(text("Seed 0, epoch 1 of 9", Some(9000)), "Image 7 of 9,000");
        assert_eq!(text(EPOCHS, Some(90)), "Epochs 7 of 90");
        assert_eq!(text("tokens: 40 images", None), "tokens: 40 images");
    }
}
