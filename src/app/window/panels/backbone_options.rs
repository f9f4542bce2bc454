//! The menu of an open backbone: after which layer, at which size and in which order images are read.

use eframe::egui;
use egui::{ScrollArea, Ui};

use super::PanelContext;
use crate::app::jobs::BackboneOptions;
use crate::app::jobs::info::BackboneInfo;
use crate::app::state::command::Command;
use crate::model::backbone::family;
use crate::model::backbone::order::MaeOrder;

/// Patches along a side that are offered.
const SIDES: [usize; 14] = [4, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 37, 48];
/// Seeds of ViT-MAE's shuffles that are offered.
const SEEDS: std::ops::Range<u64> = 0..4;
/// Height of a long list.
const LIST_PX: f32 = 320.0;

pub fn menu(ui: &mut Ui, cx: &mut PanelContext<'_>, backbone: &BackboneInfo) {
    ui.set_min_width(270.0);
    let now = cx.state.backbone_options;
    let mut wanted = now;
    ui.weak("How all open backbones read images");
    let column = cx.column();
    let facts = column.and_then(|column| cx.state.library.probes.get(&column.probe)?.status.ready());
    if let Some(facts) = facts {
        let trained = facts.wants();
        let text = format!("As {} was trained: {}", facts.name, trained.text());
        if ui.selectable_label(trained == now, text).clicked() {
            wanted = trained;
            ui.close();
        }
    }
    ui.separator();
    layers(ui, backbone.layers, &mut wanted);
    sizes(ui, backbone.patch[0].max(backbone.patch[1]), &mut wanted);
    if backbone.model_type == family::VIT_MAE.model_type {
        orders(ui, &mut wanted);
    }
    if wanted != now {
        cx.send(Command::SetBackboneOptions(wanted));
    }
}

fn layers(ui: &mut Ui, layers: usize, wanted: &mut BackboneOptions) {
    let name = |layer: Option<usize>| match layer {
        Some(layer) => format!("Layer {layer}"),
        None => format!("Last layer ({layers})"),
    };
    ui.menu_button(format!("Tokens after: {}", name(wanted.layer).to_lowercase()), |ui| {
        let all = std::iter::once(None).chain((0..layers).rev().map(Some));
        list(ui, all, &mut wanted.layer, name);
    });
}

fn sizes(ui: &mut Ui, patch: usize, wanted: &mut BackboneOptions) {
    let name = |pixels: Option<usize>| match pixels {
        Some(pixels) => format!("{pixels} pixels, {0} × {0} patches", pixels / patch),
        None => "The backbone's own".to_owned(),
    };
    let now = wanted.pixels.map_or("its own".to_owned(), |pixels| format!("{pixels} pixels"));
    ui.menu_button(format!("Size of images: {now}"), |ui| {
        let mut all: Vec<Option<usize>> = SIDES.iter().map(|side| Some(side * patch)).collect();
        all.push(wanted.pixels);
        all.sort_unstable();
        all.dedup();
        let own = all.first().is_some_and(Option::is_some).then_some(None);
        list(ui, own.into_iter().chain(all), &mut wanted.pixels, name);
    });
}

fn orders(ui: &mut Ui, wanted: &mut BackboneOptions) {
    let name = |order: MaeOrder| match order {
        MaeOrder::Kept => "Row by row".to_owned(),
        MaeOrder::Shuffled(seed) => format!("Shuffled by seed {seed}"),
    };
    ui.menu_button(format!("Order of patches: {}", name(wanted.mae_order).to_lowercase()), |ui| {
        let all = std::iter::once(MaeOrder::Kept).chain(SEEDS.map(MaeOrder::Shuffled));
        list(ui, all, &mut wanted.mae_order, name);
    });
}

/// Values to choose from; the menu closes once one is.
fn list<T: Copy + PartialEq>(
    ui: &mut Ui,
    all: impl Iterator<Item = T>,
    chosen: &mut T,
    name: impl Fn(T) -> String,
) {
    ScrollArea::vertical().max_height(LIST_PX).show(ui, |ui| {
        for value in all {
            if ui.selectable_label(*chosen == value, name(value)).clicked() {
                *chosen = value;
                ui.close();
            }
        }
    });
}
