//! What is open: backbones, probes, images; what each is, and whether it fits.

use std::fmt::Display;

use eframe::egui;
use egui::{Align, Color32, Layout, RichText, ScrollArea, Ui};

use super::gallery::Gallery;
use super::library_row::{self, Entry};
use super::probe_rows::ProbeRows;
use super::{Panel, PanelContext, PanelPlace, backbone_options};
use crate::app::jobs::evaluate::EvalSplit;
use crate::app::jobs::info::BackboneInfo;
use crate::app::state::Status;
use crate::app::state::command::{Action, Command};
use crate::app::window::style;
use crate::model::data::Split;
use crate::viz::draw::paint::color32;
use crate::viz::{Info, TabGroup};

/// Most backbones in sight at once.
const MAX_BACKBONES: f32 = 3.0;
/// Most datasets in sight at once.
const MAX_DATASETS: f32 = 2.0;

#[derive(Default)]
pub struct Library {
    probes: ProbeRows,
    gallery: Gallery,
}

impl Panel for Library {
    fn info(&self) -> Info {
        Info {
            id: "library",
            title: "Library",
            about: "Backbones, probes and images that are open",
            tab: TabGroup::Page.tab(),
        }
    }

    fn place(&self) -> PanelPlace {
        PanelPlace::Left
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        ui.add_space(2.0);
        header(ui, cx, "Backbones", &[(Action::OpenBackbone, "Folder…"), (Action::OpenHub, "Hub…")]);
        let count = cx.state.library.backbones.len();
        let room = (count as f32).min(MAX_BACKBONES) * (library_row::HEIGHT_PX + 2.0);
        list(ui, "backbones", count, room, "No backbone open", |ui, at| backbone(ui, cx, at));
        ui.add_space(4.0);
        header(ui, cx, "Probes", &[(Action::OpenProbes, "Files…"), (Action::OpenRun, "Run…")]);
        let count = cx.state.library.probes.len();
        let most = (ui.available_height() * 0.45).max(2.0 * library_row::HEIGHT_PX);
        let room = (count as f32 * (library_row::HEIGHT_PX + 2.0)).min(most);
        self.probes.bar(ui, cx);
        list(ui, "probes", count, room, "No probe open", |ui, at| self.probes.row(ui, cx, at));
        ui.add_space(4.0);
        datasets(ui, cx);
        header(ui, cx, "Images", &[(Action::OpenImages, "Files…"), (Action::OpenImageFolder, "Folder…")]);
        self.gallery.ui(ui, cx);
    }
}

/// The datasets that are open, and how probes are evaluated on the one that is looked at.
fn datasets(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    header(ui, cx, "Datasets", &[(Action::OpenDataset, "Folder…")]);
    let count = cx.state.library.datasets.len();
    let room = (count as f32).min(MAX_DATASETS) * (library_row::HEIGHT_PX + 2.0);
    list(ui, "datasets", count, room, "No dataset open", |ui, at| dataset(ui, cx, at));
    if cx.state.dataset().is_some() {
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            for (action, text) in
                [(Action::EvaluateShown, "Evaluate shown"), (Action::EvaluateAll, "Evaluate all")]
            {
                let button = egui::Button::new(text).small();
                let enabled = action.enabled(cx.state) && cx.state.evaluations.job.is_none();
                if ui.add_enabled(enabled, button).on_hover_text(action.tooltip()).clicked() {
                    cx.choose(action);
                }
            }
        });
    }
    ui.add_space(4.0);
}

fn dataset(ui: &mut Ui, cx: &mut PanelContext<'_>, at: usize) {
    let Some((id, dataset)) = cx.state.library.datasets.get_index(at) else { return };
    let (mut about, dot) = words(ui, cx, &dataset.status, &dataset.path.display(), EvalSplit::summary);
    let used = cx.state.evaluations.dataset == Some(*id);
    let asking = cx.state.evaluations.job.and_then(|job| cx.state.jobs.get(&job)).filter(|_| used);
    if let Some(progress) = asking.and_then(|job| job.progress.as_ref()) {
        about = format!("{}: {}", progress.what, progress.amounts());
    }
    let name = dataset.name();
    let done = Entry { selected: used, ..Entry::new(&name, &about, dot) }.show(ui);
    if done.close {
        cx.send(Command::CloseDataset(*id));
    } else if done.response.clicked() {
        cx.send(Command::UseDataset(*id));
    }
    done.response.context_menu(|ui| {
        let Some(part) = dataset.status.ready() else { return };
        for split in Split::ALL {
            let count = part.dataset.count(split);
            let text = format!("Look at the {count} {} images", split.name());
            let there = count > 0 && split != part.split;
            if ui.add_enabled(there, egui::Button::new(text)).clicked() {
                cx.send(Command::OpenDataset(dataset.path.clone(), Some(split)));
            }
        }
    });
    done.response.on_hover_ui(|ui| {
        ui.strong(&name);
        ui.label(&about);
        ui.weak(dataset.path.display().to_string());
        if let Some(part) = dataset.status.ready() {
            part.dataset.notes.iter().for_each(|note| drop(ui.weak(note)));
            ui.weak("Right-click to choose another split");
        }
    });
}

/// The name of a section and what opens more of it.
fn header(ui: &mut Ui, cx: &mut PanelContext<'_>, title: &str, actions: &[(Action, &str)]) {
    ui.horizontal(|ui| {
        ui.label(RichText::new(title).size(14.5).strong());
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            for (action, text) in actions.iter().rev() {
                let response = ui.small_button(*text).on_hover_text(action.text());
                response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, action.text()));
                if response.clicked() {
                    cx.choose(*action);
                }
            }
        });
    });
}

/// Entries, of which only those in sight are drawn.
fn list(ui: &mut Ui, id: &str, count: usize, room: f32, none: &str, mut one: impl FnMut(&mut Ui, usize)) {
    if count == 0 {
        ui.weak(none);
        return;
    }
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing.y = 2.0;
        let area = ScrollArea::vertical().id_salt(id).max_height(room).auto_shrink([false, true]);
        area.show_rows(ui, library_row::HEIGHT_PX, count, |ui, shown| shown.for_each(|at| one(ui, at)));
    });
}

/// What a status says of `source` and in which colour.
pub fn words<F>(
    ui: &Ui,
    cx: &PanelContext<'_>,
    status: &Status<F>,
    source: &dyn Display,
    ready: impl Fn(&F) -> String,
) -> (String, Color32) {
    let theme = style::theme(ui);
    match status {
        Status::Ready(facts) => (ready(facts), color32(style::fine(&theme))),
        Status::Closed => ("Not open".to_owned(), color32(theme.band)),
        Status::Failed(error) => {
            // The entry bears its name already, so the reason comes first.
            let line = error.lines.first().map_or("", String::as_str);
            let reason = line.strip_prefix(&source.to_string()).unwrap_or(line);
            (reason.trim_start_matches([':', ' ']).to_owned(), color32(style::failed(&theme)))
        }
        Status::Opening(job) => {
            let progress = cx.state.jobs.get(job).and_then(|job| job.progress.as_ref());
            let words = progress.map_or("Opening…".to_owned(), |p| format!("{} {}", p.what, p.amounts()));
            (words, color32(theme.series(4)))
        }
    }
}

fn backbone(ui: &mut Ui, cx: &mut PanelContext<'_>, at: usize) {
    let Some((id, backbone)) = cx.state.library.backbones.get_index(at) else { return };
    let (about, dot) = words(ui, cx, &backbone.status, &backbone.source, BackboneInfo::summary);
    let name = backbone.name();
    let selected = cx.backbone().is_some_and(|(read, _)| read == *id);
    let done = Entry { selected, ..Entry::new(&name, &about, dot) }.show(ui);
    if done.close {
        cx.send(Command::CloseBackbone(*id));
    } else if done.response.clicked() && !matches!(backbone.status, Status::Opening(_) | Status::Ready(_)) {
        cx.send(Command::UseBackbone(*id));
    }
    if let Some(facts) = backbone.status.ready() {
        egui::Popup::menu(&done.response)
            .close_behavior(egui::PopupCloseBehavior::CloseOnClickOutside)
            .show(|ui| backbone_options::menu(ui, cx, facts));
    }
    done.response.on_hover_ui(|ui| {
        ui.strong(&name);
        match &backbone.status {
            Status::Ready(facts) => {
                ui.label(facts.summary());
                ui.label(format!("Images are read: {}. Click to choose", facts.options.text()));
                ui.weak(&facts.adapter);
                ui.weak(format!("Weights {}…", facts.fingerprint.get(..12).unwrap_or_default()));
            }
            Status::Failed(error) => drop(ui.label(error.to_string())),
            Status::Closed => drop(ui.label("Click to open it beside those that are open")),
            Status::Opening(_) => drop(ui.label(&about)),
        }
    });
}
