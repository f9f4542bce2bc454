//! The library: open backbones, probes, datasets and images, what each is, and whether it fits.

use std::fmt::Display;

use egui::{Color32, Id};

use super::backbone_options;
use super::eval_removals::EvalRemovals;
use super::gallery::Gallery;
use super::library_row::{self, Entry};
use super::library_section::{self, Section, edge, header};
use super::probe_rows::ProbeRows;
use crate::app::format::{self, noun};
use crate::app::jobs::Progress;
use crate::app::jobs::evaluate::EvalSplit;
use crate::app::jobs::info::BackboneInfo;
use crate::app::state::Status;
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::{closed_by_key, context_menu, return_focus, scroll_to_row};
use crate::model::data::Split;

/// Height of the buttons that evaluate.
const EVALUATE_PX: f32 = 24.0;
/// Room for layer and size beside a backbone's name.
const CHOICES_PX: f32 = 86.0;

#[derive(Default)]
pub struct Library {
    probes: ProbeRows,
    gallery: Gallery,
    removals: EvalRemovals,
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
        let all = ui.available_height();
        ui.spacing_mut().item_spacing.y = 2.0;
        let library = &cx.state.library;
        let kept = &cx.state.settings.library;
        let rows = |section: Section, count: usize| if section.is_folded(kept, all) { 0 } else { count };
        let counts = [
            rows(Section::Backbones, library.backbones.len()),
            rows(Section::Probes, library.probes.len()),
            rows(Section::Datasets, library.datasets.len()),
        ];
        let evaluate = if counts[2] > 0 { EVALUATE_PX } else { 0.0 };
        let [backbones, probes, datasets] = library_section::heights(kept, counts, all, evaluate);
        let name = cx.backbone().map_or(String::new(), |(_, info)| info.id.clone());
        let actions = [(Action::OpenBackbone, "Folder…"), (Action::OpenHub, "Hub…")];
        if header(ui, cx, Section::Backbones, all, &name, &actions) {
            let open = &cx.state.library.backbones;
            let shown = cx.backbone().and_then(|(id, _)| open.get_index_of(&id));
            let size = (open.len(), backbones);
            list(ui, "backbones", size, "No backbone open", shown, |ui, at| backbone(ui, cx, at));
            edge(ui, cx, Section::Backbones, backbones);
        }
        let name = cx.focus.map_or(String::new(), |column| cx.state.column_title(column));
        let actions = [(Action::OpenProbes, "Files…"), (Action::OpenRun, "Run…")];
        if header(ui, cx, Section::Probes, all, &name, &actions) {
            let open = &cx.state.library.probes;
            let shown = cx.column().and_then(|column| open.get_index_of(&column.probe));
            let size = (open.len(), probes);
            list(ui, "probes", size, "No probe open", shown, |ui, at| self.probes.row(ui, cx, at));
            self.probes.bar(ui, cx); // below the rows, which stay under the pointer when it comes and goes
            edge(ui, cx, Section::Probes, probes);
        }
        let name = cx.state.dataset().map_or(String::new(), |(_, part)| part.set.dataset.clone());
        if header(ui, cx, Section::Datasets, all, &name, &[(Action::OpenDataset, "Folder…")]) {
            self::datasets(ui, cx, datasets, &mut self.removals);
            edge(ui, cx, Section::Datasets, datasets);
        }
        let actions = [(Action::OpenImages, "Files…"), (Action::OpenImageFolder, "Folder…")];
        let name = cx.state.library.images.len().to_string();
        if header(ui, cx, Section::Images, all, &name, &actions) {
            self.gallery.ui(ui, cx);
        }
    }
}

/// The open datasets, and the buttons that evaluate probes on the current one.
fn datasets(ui: &mut Ui, cx: &mut PanelContext<'_>, room: f32, removals: &mut EvalRemovals) {
    let open = &cx.state.library.datasets;
    let shown = cx.state.evaluations.dataset.and_then(|id| open.get_index_of(&id));
    let size = (open.len(), room);
    list(ui, "datasets", size, "No dataset open", shown, |ui, at| dataset(ui, cx, at));
    if cx.state.dataset().is_some() {
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            for (action, text) in
                [(Action::EvaluateShown, "Evaluate shown"), (Action::EvaluateAll, "Evaluate all")]
            {
                cx.button(ui, egui::Button::new(text).small(), action);
            }
            let enabled = Action::EvaluateShown.enabled(cx.state);
            ui.add_enabled_ui(enabled, |ui| removals.ui(ui, cx));
        });
    }
}

fn dataset(ui: &mut Ui, cx: &mut PanelContext<'_>, at: usize) {
    let Some((id, dataset)) = cx.state.library.datasets.get_index(at) else { return };
    let (mut about, dot) = words(cx, &dataset.status, &dataset.path.display(), EvalSplit::summary);
    let used = cx.state.evaluations.dataset == Some(*id);
    let evaluating =
        cx.state.evaluations.under_way().and_then(|job| cx.state.jobs.get(&job)).filter(|_| used);
    if let Some(progress) = evaluating.and_then(|job| job.progress.as_ref()) {
        about = progress.line();
    }
    let name = dataset.name();
    let done = Entry { selected: used, ..Entry::new(&name, &about, dot) }.show(ui);
    if done.close {
        cx.send(Command::CloseDataset(*id));
    } else if done.response.clicked() {
        cx.send(Command::UseDataset(*id));
    }
    context_menu(&done.response, |ui| {
        let Some(part) = dataset.status.ready() else { return };
        for split in Split::ALL {
            let count = part.dataset.count(split);
            let (images, noun) = (format::count(count), noun(count, "image", "images"));
            let text = format!("Use the {images} {} {noun}", split.name());
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
            ui.weak("Right-click, or press Shift+F10, to choose another split");
        }
    });
}

/// A list of `count` entries that is scrolled in `room`, of which only the visible ones are drawn; `none` is shown if it is
/// empty. When another entry is the `shown` one, it comes into sight.
fn list(
    ui: &mut Ui,
    id: &str,
    (count, room): (usize, f32),
    none: &str,
    shown: Option<usize>,
    mut row: impl FnMut(&mut Ui, usize),
) {
    if count == 0 {
        ui.weak(none);
        return;
    }
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing.y = 2.0;
        let area = ScrollArea::vertical().id_salt(id).max_height(room).auto_shrink([false, true]);
        let before = ui.data_mut(|data| {
            std::mem::replace(data.get_temp_mut_or_default(Id::unique(("shown entry", id))), shown)
        });
        area.show_rows(ui, library_row::HEIGHT_PX, count, |ui, visible| {
            if let Some(at) = shown.filter(|_| shown != before) {
                scroll_to_row(ui, library_row::HEIGHT_PX, at, visible.start);
            }
            visible.for_each(|at| row(ui, at));
        });
    });
}

/// The description of a status of `source`, and the colour of its dot.
pub fn words<F>(
    cx: &PanelContext<'_>,
    status: &Status<F>,
    source: &dyn Display,
    ready: impl Fn(&F) -> String,
) -> (String, Color32) {
    match status {
        Status::Ready(info) => (ready(info), color32(style::fine(cx.theme))),
        Status::Closed => ("Not open".to_owned(), color32(cx.theme.band)),
        Status::Failed(_, error) => {
            let line = error.lines.first().map_or("", String::as_str);
            (reason(line, &source.to_string()), color32(style::failed(cx.theme)))
        }
        Status::Opening(job) => {
            let progress = cx.state.jobs.get(job).and_then(|job| job.progress.as_ref());
            let words = progress.map_or("Opening…".to_owned(), Progress::line);
            (words, color32(cx.theme.series(4)))
        }
    }
}

/// The `line` of an error without the path of `source`, which the entry shows already and which would leave the reason no room.
fn reason(line: &str, source: &str) -> String {
    match line.split_once(source.trim_end_matches(['/', '\\'])) {
        Some(("", rest)) => rest.trim_start_matches([':', ' ', '/', '\\']).to_owned(),
        Some((before, rest)) if rest.starts_with(['/', '\\']) => {
            format!("{before}{}", rest.trim_start_matches(['/', '\\']))
        }
        _ => line.to_owned(),
    }
}

fn backbone(ui: &mut Ui, cx: &mut PanelContext<'_>, at: usize) {
    let Some((id, backbone)) = cx.state.library.backbones.get_index(at) else { return };
    let (about, dot) = words(cx, &backbone.status, &backbone.source, BackboneInfo::summary);
    let name = backbone.name();
    let selected = cx.backbone().is_some_and(|(read, _)| read == *id);
    let info = backbone.status.ready();
    let done = ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 3.0;
        let room = ui.available_width() - if info.is_some() { CHOICES_PX } else { 0.0 };
        let entry = |ui: &mut Ui| Entry { selected, ..Entry::new(&name, &about, dot) }.show(ui);
        let done = ui.allocate_ui(egui::Vec2::new(room, library_row::HEIGHT_PX), entry).inner;
        if let Some(info) = info {
            backbone_options::beside(ui, cx, *id, backbone, info);
        }
        done
    });
    let done = done.inner;
    if done.close {
        cx.send(Command::CloseBackbone(*id));
    } else if done.response.clicked() && !matches!(backbone.status, Status::Opening(_) | Status::Ready(_)) {
        cx.send(Command::UseBackbone(*id));
    }
    if let Some(info) = backbone.status.ready() {
        let menu = egui::Popup::menu(&done.response)
            .style(style::menu)
            .close_behavior(egui::PopupCloseBehavior::CloseOnClickOutside)
            .show(|ui| {
                backbone_options::menu(ui, cx, *id, backbone, info);
                closed_by_key(ui)
            });
        return_focus(&done.response, menu.map(|menu| menu.inner));
    }
    done.response.on_hover_ui(|ui| {
        ui.strong(&name);
        match &backbone.status {
            Status::Ready(info) => {
                ui.label(info.summary());
                ui.label(format!("Images are read: {}. Click to change", info.options.text()));
                ui.weak(&info.adapter);
                ui.weak(format!("Weights {}…", info.fingerprint.get(..12).unwrap_or_default()));
            }
            Status::Failed(_, error) => drop(ui.label(error.to_string())),
            Status::Closed => drop(ui.label("Click to open it beside the open ones")),
            Status::Opening(_) => drop(ui.label(&about)),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_failure_does_not_repeat_the_path_of_its_entry() {
        for (line, left) in [
            ("/data/birds: is no dataset", "is no dataset"),
            ("cannot read /data/birds/config.json: No such file", "cannot read config.json: No such file"),
            ("no answer for /data/birds: timed out", "no answer for /data/birds: timed out"),
            ("The device was lost", "The device was lost"),
        ] {
            assert_eq!([reason(line, "/data/birds"), reason(line, "/data/birds/")], [left; 2]);
        }
    }
}
