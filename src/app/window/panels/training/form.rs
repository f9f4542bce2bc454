//! The form for the next training.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use egui::{CollapsingHeader, DragValue, Grid};
use indexmap::IndexSet;
use serde_json::{Map, Value};

use super::{heads, place, send_before_start};
use crate::app::format::file_name;
use crate::app::jobs::tasks::TaskForm;
use crate::app::jobs::train::{BATCHES, COUNTS, MAX_SEEDS, TrainSettings, is_rate};
use crate::app::paths::expanded;
use crate::app::state::command::FilePrompt;
use crate::app::state::settings::DEVICES;
use crate::app::window::panels::backbone_options;
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::fit;
use crate::model::backbone::preprocess::augment::Augmentation;
use crate::model::backbone::token_spec::{TokenSpec, comma_separated};
use crate::model::train::protocol::Protocol;
use crate::viz::heading::capitalised;

/// Width of combo boxes and text fields.
pub const COMBO_PX: f32 = 182.0;
/// Least width of numbers, which are as wide as one another.
const NUMBER_PX: f32 = 88.0;

/// Room for the scroll bar.
const SCROLL_BAR_PX: f32 = 12.0;

/// The form while it is edited: the state gets the settings when typing or dragging ends.
#[derive(Default)]
pub struct Form {
    /// The settings as edited, and as the state had them when the editing began.
    editing: Option<(TrainSettings, TrainSettings)>,
    /// The text of layers and of rates, while it is being typed or is invalid.
    typed: [Option<String>; 2],
    /// The Slurm options, while they are edited.
    slurm: Option<TaskForm>,
}

impl Form {
    pub fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let state = cx.state;
        let current = &state.training.form;
        let mut edited = match self.editing.take() {
            // A path that is no text cannot be serialised.
            Some((edited, before)) if before != *current => {
                rebase(&edited, &before, current).unwrap_or(edited)
            }
            Some((edited, _)) => edited,
            None => current.clone(),
        };
        ui.spacing_mut().item_spacing.y = 6.0;
        ui.set_max_width(ui.available_width() - SCROLL_BAR_PX);
        Grid::new("source").num_columns(2).spacing([12.0, 8.0]).min_col_width(92.0).show(ui, |ui| {
            backbone(ui, cx, &mut edited);
            tokens(ui, cx, &mut edited);
            dataset(ui, cx, &mut edited);
        });
        ui.add_space(6.0);
        let mut settled = protocol(ui, cx, &mut edited);
        ui.add_space(2.0); // as between the rows above
        place::ui(ui, cx, &mut self.slurm);
        CollapsingHeader::new("Advanced").show(ui, |ui| {
            settled &= advanced(ui, cx, &mut edited);
            settled &= axes(ui, &mut edited, &mut self.typed);
        });
        ui.add_space(8.0);
        let open = cx.state.library.open_backbone_from(&edited.backbone);
        let without_cls = open.filter(|info| !info.cls);
        heads::ui(ui, &mut edited.heads, without_cls.map(|info| info.id.as_str()));
        if edited == *current {
            return;
        }
        let set = Command::SetTrainForm(Box::new(edited.clone()));
        if settled {
            cx.send(set);
        } else if !send_before_start(cx, set) {
            self.editing = Some((edited, current.clone()));
        }
    }
}

/// The settings in `current`, with the fields in which `edited` differs from `before`: a dataset opened during the editing stays.
fn rebase(edited: &TrainSettings, before: &TrainSettings, current: &TrainSettings) -> Option<TrainSettings> {
    let fields =
        |settings| serde_json::from_value::<Map<String, Value>>(serde_json::to_value(settings).ok()?).ok();
    let (edited, before, mut rebased) = (fields(edited)?, fields(before)?, fields(current)?);
    for key in edited.keys().chain(before.keys()).filter(|&key| edited.get(key) != before.get(key)) {
        match edited.get(key) {
            Some(value) => rebased.insert(key.clone(), value.clone()),
            None => rebased.remove(key), // a field at its default is not serialised
        };
    }
    serde_json::from_value(rebased.into()).ok()
}

fn backbone(ui: &mut Ui, cx: &mut PanelContext<'_>, settings: &mut TrainSettings) {
    let label = ui.label("Backbone").id;
    ui.horizontal(|ui| {
        let library = &cx.state.library.backbones;
        let known = library.values().find(|backbone| backbone.source == settings.backbone);
        let shown = match known {
            Some(backbone) => backbone.name(),
            None if settings.backbone.is_empty() => "None chosen".to_owned(),
            None => file_name(Path::new(&settings.backbone)),
        };
        let list = combo(ui, "backbone", COMBO_PX, fit(ui, shown, 160.0), |ui| {
            let open = library.values().map(|backbone| (backbone.name(), &backbone.source));
            let recent = cx.state.settings.recent.backbones.iter();
            let recent = recent.filter(|source| library.values().all(|b| b.source != **source));
            for (text, source) in open.chain(recent.map(|source| (file_name(Path::new(source)), source))) {
                if ui.selectable_label(*source == settings.backbone, text).on_hover_text(source).clicked() {
                    settings.backbone.clone_from(source);
                }
            }
            if library.is_empty() && cx.state.settings.recent.backbones.is_empty() {
                ui.weak("Open one first");
            }
        });
        let list = list.labelled_by(label);
        if !settings.backbone.is_empty() {
            list.on_hover_text(&settings.backbone);
        }
        if ui.button("Open…").on_hover_text(Action::OpenBackbone.keyed()).clicked() {
            cx.choose(Action::OpenBackbone);
        }
    });
    ui.end_row();
}

/// Chooses the layer after which tokens are taken, and the image size.
fn tokens(ui: &mut Ui, cx: &PanelContext<'_>, settings: &mut TrainSettings) {
    let info = cx.state.library.open_backbone_from(&settings.backbone);
    let shown = capitalised(&settings.tokens.token_spec.layers());
    let TokenSpec { layer, blocks, size, .. } = &mut settings.tokens.token_spec;
    let label = ui.label("Tokens").id;
    ui.horizontal(|ui| {
        let list = combo(ui, "layer", 96.0, shown, |ui| match info {
            Some(info) => backbone_options::layers(ui, info.layers, layer, blocks),
            None => drop(ui.weak("Open the backbone to choose its layer")),
        });
        list.labelled_by(label).on_hover_text("The layer whose tokens the heads read");
        let shown = size.map_or("Own size".to_owned(), |size| format!("{size} pixels"));
        let list = combo(ui, "size", 96.0, shown, |ui| match info {
            Some(info) => backbone_options::sizes(ui, info.patch, size),
            None => drop(ui.weak("Open the backbone to choose a size")),
        });
        list.accessible_name("Size of images").on_hover_text("Side length of the images the backbone reads");
    });
    ui.end_row();
}

fn dataset(ui: &mut Ui, cx: &mut PanelContext<'_>, settings: &mut TrainSettings) {
    let label = ui.label("Dataset").id;
    ui.horizontal(|ui| {
        let shown = settings.data.as_deref().map_or("None chosen".to_owned(), file_name);
        let open = cx.state.library.datasets.values().map(|dataset| &dataset.path);
        let all: IndexSet<&PathBuf> = open.chain(&cx.state.settings.recent.datasets).collect();
        let list = combo(ui, "dataset", COMBO_PX, fit(ui, shown, 160.0), |ui| {
            for path in &all {
                let chosen = settings.data.as_ref() == Some(*path);
                let (name, about) = (file_name(path), path.display().to_string());
                if ui.selectable_label(chosen, name).on_hover_text(about).clicked() {
                    settings.data = Some((*path).clone());
                }
            }
            if all.is_empty() {
                ui.weak("None open or used recently");
            }
        });
        let none = || "Labelled images to train and to test on".to_owned();
        let about = settings.data.as_ref().map_or_else(none, |path| path.display().to_string());
        list.labelled_by(label).on_hover_text(about);
        let button = ui.button("Folder…").accessible_name("Choose dataset").on_hover_text("A folder with a folder for each class, CUB, Cars or ImageNet as distributed, or a table's folder");
        if button.clicked() {
            cx.actions.push(UiAction::Prompt(FilePrompt::TrainingData.into()));
        }
    });
    ui.end_row();
}

/// Protocol, optimiser settings, seeds, device and output; whether nothing is being typed or dragged.
fn protocol(ui: &mut Ui, cx: &mut PanelContext<'_>, settings: &mut TrainSettings) -> bool {
    let mut settled = true;
    Grid::new("protocol").num_columns(2).spacing([12.0, 8.0]).min_col_width(92.0).show(ui, |ui| {
        ui.spacing_mut().interact_size.x = NUMBER_PX;
        protocols(ui, settings);
        let mut number = |ui: &mut Ui, text: &str, about: &str, value: DragValue<'_>| {
            let label = ui.label(text).on_hover_text(about).id;
            let response = ui.add(value).labelled_by(label).on_hover_text(about);
            settled &= !response.dragged() && !response.has_focus();
            ui.end_row();
        };
        let epochs = DragValue::new(&mut settings.epochs).range(COUNTS).speed(0.2);
        let about = "Passes over the training images; the paper uses 5 on ImageNet, 100 on CUB and Cars, and \
                     `ssmprobe train` defaults to 100";
        number(ui, "Epochs", about, epochs);
        let batch = DragValue::new(&mut settings.batch).range(BATCHES).suffix(" images");
        number(ui, "Batch", "Images per step; the paper uses 256", batch);
        let rate = DragValue::new(&mut settings.rate).range(1e-6..=10.0).speed(1e-5).max_decimals(6);
        let about = "At the start, or after the warm-up; it decays to zero along a cosine. No weight decay";
        number(ui, "Learning rate", about, rate);
        let seeds = DragValue::new(&mut settings.seeds).range(1..=MAX_SEEDS).speed(0.05);
        number(ui, "Seeds", "All heads are trained once per seed; their spread is the curves' band", seeds);
        settled &= selection(ui, settings);
        let label = ui.label("Device").id;
        let list = combo(ui, "train on", COMBO_PX, settings.device.clone(), |ui| {
            for (device, about) in DEVICES {
                if ui.selectable_label(settings.device == *device, format!("{device}: {about}")).clicked() {
                    (*device).clone_into(&mut settings.device);
                }
            }
        });
        list.labelled_by(label);
        ui.end_row();
        settled &= output(ui, cx, settings);
    });
    settled
}

/// Chooses a project's protocol, which sets epochs and rates to that project's, and says whether they were changed since.
fn protocols(ui: &mut Ui, settings: &mut TrainSettings) {
    let label = ui.label("Protocol").id;
    let as_published = |protocol| TrainSettings { protocol, ..settings.clone() }.with_protocol([false; 2]);
    let (own, mut chosen) = (settings.protocol, None);
    let changed = if as_published(own) == *settings { "" } else { ", changed" };
    let list = combo(ui, "protocol", COMBO_PX, fit(ui, format!("{}{changed}", own.name()), 160.0), |ui| {
        for protocol in Protocol::ALL {
            if ui.selectable_label(protocol == own, protocol.name()).clicked() {
                chosen = Some(as_published(protocol));
            }
        }
    });
    list.labelled_by(label)
        .on_hover_text("Optimiser, warm-up, learning rates and epochs of a project; choosing it again restores rates and epochs");
    ui.end_row();
    chosen.into_iter().for_each(|chosen| *settings = chosen);
}

/// Lists of layers and learning rates, all of which every head is trained with; whether nothing is being typed.
fn axes(ui: &mut Ui, settings: &mut TrainSettings, typed: &mut [Option<String>; 2]) -> bool {
    let [layers, rates] = typed;
    let mut settled = true;
    Grid::new("axes").num_columns(2).spacing([12.0, 8.0]).min_col_width(80.0).show(ui, |ui| {
        let about = "Every head is trained on the tokens after each of these layers, in place of the one \
                     above; one backbone pass extracts them all";
        let read = |word: &str| word.parse().ok();
        settled &= list(ui, ("Layers", "3, 6, 9, last", about), &mut settings.layers, layers, &read);
        let about = "Every head is trained at each of these learning rates, in place of the one above";
        let read = |word: &str| word.parse().ok().filter(|rate| is_rate(*rate));
        settled &= list(ui, ("Learning rates", "1e-4, 1e-3", about), &mut settings.rates, rates, &read);
    });
    settled
}

/// A text field for a comma-separated list; whether nothing is being typed. `values` keeps its last valid content.
fn list<T: Display>(
    ui: &mut Ui,
    (name, hint, about): (&str, &str, &str),
    values: &mut Vec<T>,
    typed: &mut Option<String>,
    read: &dyn Fn(&str) -> Option<T>,
) -> bool {
    ui.label(name);
    let mut text = typed.take().unwrap_or_else(|| comma_separated(values));
    let edit = TextEdit::singleline(&mut text).hint_text(hint).desired_width(COMBO_PX);
    let edit = field(ui, name, edit).on_hover_text(about);
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    match words.map(read).collect::<Option<Vec<T>>>() {
        Some(all) => *values = all,
        None => *typed = Some(text.clone()),
    }
    if edit.has_focus() {
        *typed = Some(text);
    }
    ui.end_row();
    if typed.is_some() && !edit.has_focus() {
        ui.label("");
        ui.label(RichText::new(format!("Expected a list such as {hint}")).small().weak());
        ui.end_row();
    }
    !edit.has_focus()
}

/// Chooses the images that select the best epoch; whether nothing is being typed or dragged.
fn selection(ui: &mut Ui, settings: &mut TrainSettings) -> bool {
    let mut settled = true;
    ui.label("Best epoch");
    ui.horizontal(|ui| {
        let mut aside = settings.selection.is_some();
        let about = "The best epoch is picked on images used neither for training nor for the reported \
                     accuracy. Without it: on the validation split if there is a test split too, else on the test \
                     images, which is optimistic";
        if ui.checkbox(&mut aside, "Pick on part of train").on_hover_text(about).changed() {
            settings.selection = aside.then_some(0.1);
        }
        if let Some(share) = &mut settings.selection {
            let mut percent = (*share * 1000.0).round() / 10.0;
            let decimals = usize::from(percent.fract() != 0.0);
            let value = DragValue::new(&mut percent).range(1.0..=90.0).clamp_existing_to_range(false);
            let value = value.speed(0.2).max_decimals(decimals).suffix(" %");
            let response = ui.add(value).accessible_name("Held-out part");
            if response.changed() {
                *share = percent / 100.0; // else it would be rounded as soon as it is shown
            }
            settled = !response.dragged() && !response.has_focus();
        }
    });
    ui.end_row();
    settled
}

/// A folder, typed or chosen in a dialog, with a hint while it is empty; whether nothing is being typed.
fn folder(
    ui: &mut Ui,
    text: &str,
    hint: &str,
    path: &mut Option<PathBuf>,
    cx: &mut PanelContext<'_>,
    ask: FilePrompt,
) -> bool {
    ui.label(text);
    let mut settled = true;
    ui.horizontal(|ui| {
        let mut typed = path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let edit = TextEdit::singleline(&mut typed).hint_text(hint).desired_width(COMBO_PX);
        let edit = field(ui, text, edit).on_hover_text(if typed.is_empty() { hint } else { &typed });
        // Trimmed only when typing ends, as the next word may follow a space. `~` is expanded only on this machine.
        let here = cx.state.connection.host().is_none();
        let typed = if edit.lost_focus() { typed.trim() } else { &typed };
        if edit.changed() || edit.lost_focus() {
            let path_of =
                |typed: &str| if here && edit.lost_focus() { expanded(typed) } else { typed.into() };
            *path = Some(typed).filter(|typed| !typed.is_empty()).map(path_of);
        }
        settled = !edit.has_focus();
        let button = ui.button("Choose…").accessible_name(format!("Choose {}", text.to_lowercase()));
        if button.clicked() {
            cx.actions.push(UiAction::Prompt(ask.into()));
        }
    });
    ui.end_row();
    settled
}

fn output(ui: &mut Ui, cx: &mut PanelContext<'_>, settings: &mut TrainSettings) -> bool {
    let suggested = match cx.state.training.preflight().0 {
        Some(Ok(preflight)) => preflight.out.display().to_string(),
        _ => "A new folder in ssmprobe-runs".to_owned(),
    };
    folder(ui, "Output folder", &suggested, &mut settings.out, cx, FilePrompt::RunOutput)
}

/// The advanced settings: head settings, token cache, augmentation; whether nothing is being typed.
fn advanced(ui: &mut Ui, cx: &mut PanelContext<'_>, settings: &mut TrainSettings) -> bool {
    let mut settled = true;
    Grid::new("places").num_columns(2).spacing([12.0, 8.0]).min_col_width(80.0).show(ui, |ui| {
        ui.label("Head settings");
        let edit = TextEdit::singleline(&mut settings.head_settings)
            .hint_text("sinkhorn.temperature=0.2")
            .desired_width(COMBO_PX);
        let edit = field(ui, "Head settings", edit).on_hover_text(
            "KEY=VALUE for all heads that have it, HEAD.KEY=VALUE for one, separated by spaces",
        );
        settled &= !edit.has_focus();
        ui.end_row();
        let hint = "The user's cache folder";
        settled &= folder(ui, "Token cache", hint, &mut settings.tokens.cache, cx, FilePrompt::CacheFolder);
        let label = ui.label("Cache limit").id;
        let limit =
            DragValue::new(&mut settings.tokens.cache_limit).range(1.0..=1e6).clamp_existing_to_range(false);
        let limit = ui.add(limit.max_decimals(1).suffix(" GB")).labelled_by(label);
        settled &= !limit.dragged() && !limit.has_focus();
        limit.on_hover_text("A training whose tokens need more is refused before any work is done");
        ui.end_row();
        let label = ui.label("Augmentation").id;
        let (all, name) = (Augmentation::ALL, |one: &Augmentation| one.name());
        let chosen = choice(ui, "augmentation", COMBO_PX, &mut settings.augment, all, name);
        chosen.labelled_by(label).on_hover_text(
            "Training images are changed in every epoch, so no tokens are kept: moved by up to an eighth \
             (shift), or cropped at random as in the protocol's project (crop), and mirrored half the time",
        );
        ui.end_row();
        ui.label("");
        ui.checkbox(&mut settings.recompute, "Keep no tokens").on_hover_text(
            "For tokens that do not fit on the disk: the backbone reads the images again in every epoch",
        );
        ui.end_row();
    });
    let kept = match settings.recomputes(false) {
        true => "The backbone reads the images again in every epoch",
        false => "Tokens are extracted once and kept for every later training",
    };
    ui.label(RichText::new(kept).small().weak());
    settled
}
