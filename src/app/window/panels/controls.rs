//! What a person may set of a figure: a line of controls above it, only those the figure heeds.

use std::sync::Arc;

use eframe::egui;
use egui::{ComboBox, Slider, Ui};

use super::PanelContext;
use crate::app::state::command::Command;
use crate::model::trace::{Routing, Trace};
use crate::viz::draw::colormap::Map;
use crate::viz::{Options, Rows};

/// Steps a second while a reading path is played.
const SPEED: f64 = 30.0;

/// A setting some figures heed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    Opacity,
    Grid,
    Log,
    Rows,
    Step,
    Map,
}

/// Which figure heeds what.
fn heeded(figure: &str) -> &'static [Control] {
    match figure {
        "photo" => &[Control::Opacity, Control::Grid, Control::Map],
        "token_map" => &[Control::Opacity, Control::Grid],
        "scan_path" => &[Control::Step],
        "assignment" => &[Control::Rows, Control::Log, Control::Map],
        "kernel" => &[Control::Log],
        _ => &[],
    }
}

/// Whether a memory reads the tokens step by step.
fn scrubs(trace: &Trace) -> bool {
    !matches!(trace.routing, Routing::None) && trace.kernel.is_some()
}

/// Draws the controls of `figure`; sends the options once they change. `playing` is when a path
/// began to be played, and from which step.
pub fn show(
    ui: &mut Ui,
    cx: &mut PanelContext<'_>,
    figure: &str,
    trace: &Arc<Trace>,
    playing: &mut Option<(f64, usize)>,
) {
    let controls = heeded(figure);
    if controls.is_empty() || (figure == "scan_path" && !scrubs(trace)) {
        return;
    }
    let before = cx.state.views.of(figure);
    let mut options = before.clone();
    let edge = egui::Margin { left: 8, right: 4, ..egui::Margin::ZERO };
    egui::Frame::new().inner_margin(edge).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().slider_width = 90.0;
            for control in controls {
                one(ui, *control, figure, &mut options, trace.grid.len(), playing);
            }
        });
    });
    if options != before {
        cx.send(Command::SetOptions(figure.to_owned(), options));
    }
}

fn one(
    ui: &mut Ui,
    control: Control,
    figure: &str,
    options: &mut Options,
    tokens: usize,
    playing: &mut Option<(f64, usize)>,
) {
    match control {
        Control::Opacity => {
            let label = ui.label("Opacity").id;
            ui.add(Slider::new(&mut options.opacity, 0.0..=1.0).show_value(false)).labelled_by(label);
        }
        Control::Grid => {
            ui.checkbox(&mut options.grid, "Grid").on_hover_text("Lines between patches");
        }
        Control::Log => {
            ui.checkbox(&mut options.log, "Log").on_hover_text("Logarithmic values");
        }
        Control::Rows => {
            let names = [(Rows::Argmax, "Best position"), (Rows::Score, "Score"), (Rows::Raster, "Raster")];
            let label = ui.label("Rows by").id;
            let shown = names.iter().find(|(rows, _)| *rows == options.rows).map_or("", |(_, name)| *name);
            let list = |ui: &mut Ui| {
                for (rows, name) in names {
                    ui.selectable_value(&mut options.rows, rows, name);
                }
            };
            let combo = ComboBox::from_id_salt((figure, "rows")).selected_text(shown).width(105.0);
            combo.show_ui(ui, list).response.labelled_by(label);
        }
        Control::Map => {
            let names = [(Map::Cividis, "Cividis"), (Map::Viridis, "Viridis")];
            let shown = names.iter().find(|(map, _)| *map == options.map).map_or("", |(_, name)| *name);
            let list = |ui: &mut Ui| {
                for (map, name) in names {
                    ui.selectable_value(&mut options.map, map, name);
                }
            };
            let combo = ComboBox::from_id_salt((figure, "map")).selected_text(shown).width(70.0);
            combo.show_ui(ui, list).response.on_hover_text("Colours of magnitudes");
        }
        Control::Step => scrub(ui, options, tokens, playing),
    }
}

/// Scrubs through the reading order, or plays it.
fn scrub(ui: &mut Ui, options: &mut Options, tokens: usize, playing: &mut Option<(f64, usize)>) {
    let now = ui.input(|i| i.time);
    let mut step = options.step.unwrap_or(tokens).min(tokens);
    if let Some((began, from)) = *playing {
        step = from + ((now - began) * SPEED) as usize;
        if step >= tokens {
            (step, *playing) = (tokens, None);
        } else {
            ui.ctx().request_repaint_after(std::time::Duration::from_secs_f64(1.0 / SPEED));
        }
    }
    let text = if playing.is_some() { "Stop" } else { "Play" };
    let button = egui::Button::new(text).min_size(egui::Vec2::new(46.0, 0.0));
    if ui.add(button).on_hover_text("What the memory holds, step by step").clicked() {
        *playing = match playing {
            Some(_) => None,
            None => Some((now, if step >= tokens { 0 } else { step })),
        };
    }
    let name = "Tokens read";
    let label = (ui.available_size_before_wrap().x > 230.0).then(|| ui.label(name).id);
    ui.spacing_mut().slider_width = (ui.available_size_before_wrap().x - 80.0).clamp(60.0, 260.0);
    let slider = ui.add(Slider::new(&mut step, 0..=tokens));
    let slider = match label {
        Some(label) => slider.labelled_by(label),
        None => slider.on_hover_text(name),
    };
    if slider.changed() {
        *playing = None;
    }
    options.step = (step < tokens).then_some(step);
}
