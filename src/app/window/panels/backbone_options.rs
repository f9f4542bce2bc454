//! Menus for how a backbone reads images: layer and image size beside its name; these and the order of patches in its menu.

use egui::Checkbox;

use crate::app::jobs::info::BackboneInfo;
use crate::app::jobs::{BackboneId, BackboneOptions};
use crate::app::state::Backbone;
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::menu_button;
use crate::model::backbone::family;
use crate::model::backbone::order::MaeOrder;
use crate::viz::heading::capitalised;

/// Image sizes offered, in patches along a side.
const SIDES: [usize; 14] = [4, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 37, 48];
/// Seeds offered for ViT-MAE's shuffles.
const SEEDS: std::ops::Range<u64> = 0..4;
/// How many layers are joined, where joining is chosen.
const BLOCKS: usize = 4;
/// Minimum size of a button beside a name: two are as high as the name's entry, and end where the others do.
const BESIDE_PX: egui::Vec2 = egui::vec2(83.0, 19.5);
/// Height of a long list.
const LIST_PX: f32 = 320.0;

/// Sends the options `wanted`: as the backbone's own if it has its own, else as those of all other backbones.
fn set(cx: &mut PanelContext<'_>, id: BackboneId, backbone: &Backbone, wanted: BackboneOptions) {
    cx.send(match backbone.own {
        Some(_) => Command::SetOwnOptions(id, wanted),
        None => Command::SetBackboneOptions(wanted),
    });
}

/// The options with which a backbone reads, or will once it is open.
fn now(cx: &PanelContext<'_>, backbone: &Backbone) -> BackboneOptions {
    backbone.own.unwrap_or(cx.state.backbone_options)
}

/// Draws the choices of layer and image size beside a backbone's name.
pub fn beside(
    ui: &mut Ui,
    cx: &mut PanelContext<'_>,
    id: BackboneId,
    backbone: &Backbone,
    info: &BackboneInfo,
) {
    let now = now(cx, backbone);
    let mut wanted = now;
    ui.vertical(|ui| {
        ui.spacing_mut().item_spacing.y = 1.0;
        let text = capitalised(&now.token_spec().layers());
        let layer = small(ui, &text, "Layer", |ui| {
            ui.weak("The layer whose tokens are read");
            layers(ui, info.layers, &mut wanted.layer, &mut wanted.blocks);
            ui.separator();
            ui.menu_button("Another layer beside it", |ui| {
                let mut other = now;
                layers(ui, info.layers, &mut other.layer, &mut other.blocks);
                if other != now {
                    cx.send(Command::OpenBeside(id, other));
                }
            })
            .response
            .on_hover_text("Opens the backbone once more, so that probes of both layers can be compared");
        });
        layer.on_hover_text("The layer whose tokens are read");
        let size = now.pixels.map_or("Own size".to_owned(), |pixels| format!("{pixels} px"));
        let size = small(ui, &size, "Size of images", |ui| {
            ui.weak("Side length of the images it reads");
            sizes(ui, info.patch, &mut wanted.pixels);
        });
        size.on_hover_text("Side length of the images it reads");
    });
    if wanted != now {
        set(cx, id, backbone, wanted);
    }
}

/// A small button with a menu; for screen readers its label is `name` and the chosen `text`.
fn small(ui: &mut Ui, text: &str, name: &str, add: impl FnOnce(&mut Ui)) -> Response {
    let button = egui::Button::new(RichText::new(text).small()).small().min_size(BESIDE_PX);
    menu_button(ui, button, add).accessible_name(format!("{name}: {text}"))
}

/// All options, in the menu of a backbone's entry.
pub fn menu(
    ui: &mut Ui,
    cx: &mut PanelContext<'_>,
    id: BackboneId,
    backbone: &Backbone,
    info: &BackboneInfo,
) {
    ui.set_min_width(270.0);
    let now = now(cx, backbone);
    let mut wanted = now;
    ui.weak(match backbone.own {
        Some(_) => "How this backbone reads images",
        None => "How all open backbones read images",
    });
    if let Some(probe_info) = cx.column().and_then(|column| cx.state.library.probe_info(column.probe)) {
        let trained = probe_info.options();
        let text = format!("As {} was trained: {}", probe_info.name, trained.text());
        if ui.selectable_label(trained == now, text).clicked() {
            wanted = trained;
            ui.close();
        }
    }
    ui.separator();
    ui.menu_button(format!("Tokens after: {}", now.token_spec().layers()), |ui| {
        layers(ui, info.layers, &mut wanted.layer, &mut wanted.blocks);
    });
    let size = now.pixels.map_or("its own".to_owned(), |pixels| format!("{pixels} pixels"));
    ui.menu_button(format!("Size of images: {size}"), |ui| sizes(ui, info.patch, &mut wanted.pixels));
    if info.model_type == family::VIT_MAE.model_type {
        orders(ui, &mut wanted);
    }
    if wanted != now {
        set(cx, id, backbone, wanted);
    }
}

/// Chooses one of `layers` layers, or `None` for the last, alone or joined with those before it.
pub fn layers(ui: &mut Ui, layers: usize, layer: &mut Option<usize>, blocks: &mut Option<usize>) {
    let all = std::iter::once(None).chain((0..layers).rev().map(Some));
    list(ui, all, layer, |layer| match layer {
        Some(layer) => format!("Layer {layer}"),
        None => format!("Last layer ({layers})"),
    });
    let up_to = layer.unwrap_or(layers) + 1;
    *blocks = blocks.filter(|blocks| (2..=up_to).contains(blocks)); // one alone is not joined, and a file may say 0
    let mut joined = blocks.is_some();
    let text = format!("Joined with the {} before it", blocks.unwrap_or(BLOCKS) - 1);
    let found = ui.add_enabled(joined || BLOCKS <= up_to, Checkbox::new(&mut joined, text));
    let about = "Tokens of these layers side by side along the channels, as DINOv2's linear evaluation reads its last 4";
    if found.on_hover_text(about).changed() {
        *blocks = joined.then_some(BLOCKS);
        ui.close();
    }
}

/// Chooses an image size of whole patches, in pixels along a side, or the backbone's own.
pub fn sizes(ui: &mut Ui, patch: [usize; 2], pixels: &mut Option<usize>) {
    let patch = patch[0].max(patch[1]);
    let name = |pixels: Option<usize>| match pixels {
        Some(pixels) => format!("{pixels} pixels, {0} × {0} patches", pixels / patch),
        None => "The backbone's own".to_owned(),
    };
    let mut all: Vec<Option<usize>> = SIDES.iter().map(|side| Some(side * patch)).collect();
    all.push(*pixels);
    all.sort_unstable();
    all.dedup();
    let own = all.first().is_some_and(Option::is_some).then_some(None);
    list(ui, own.into_iter().chain(all), pixels, name);
}

fn orders(ui: &mut Ui, wanted: &mut BackboneOptions) {
    let name = |order: MaeOrder| match order {
        MaeOrder::Kept => "Row by row".to_owned(),
        MaeOrder::Shuffled(seed) => format!("Shuffled by seed {seed}"),
        MaeOrder::Redrawn => "Redrawn at every pass".to_owned(),
    };
    ui.menu_button(format!("Order of patches: {}", name(wanted.mae_order).to_lowercase()), |ui| {
        let all = [MaeOrder::Kept, MaeOrder::Redrawn].into_iter().chain(SEEDS.map(MaeOrder::Shuffled));
        list(ui, all, &mut wanted.mae_order, name);
    });
}

/// A list of values to choose from, which closes the menu.
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
        follow_focus(ui);
    });
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn no_layer_or_one_as_a_file_may_say_is_joined_with_none() {
        for (blocks, kept) in [(0, None), (1, None), (4, Some(4))] {
            let ui = |ui: &mut Ui, blocks: &mut Option<usize>| layers(ui, 12, &mut None, blocks);
            let harness = Harness::new_ui_state(ui, Some(blocks));
            assert!(harness.query_by_label("Joined with the 3 before it").is_some());
            assert_eq!(*harness.state(), kept);
        }
    }
}
