//! The line of controls above a figure, with only those that the figure has.

use egui::Slider;

use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::{fitted_choice, step_slider};
use crate::viz::draw::colormap::Map;
use crate::viz::{Control, Options, Rows};

/// Speed at which a reading path is played.
const STEPS_PER_SECOND: f64 = 30.0;

/// Draws the controls of `figure` and sends its options if they change. `playing`: since when a reading
/// path is being played, in egui's time, and from which step.
pub fn show(
    ui: &mut Ui,
    cx: &mut PanelContext<'_>,
    figure: &dyn Figure,
    trace: &Trace,
    playing: &mut Option<(f64, usize)>,
) {
    let controls = figure.controls(trace);
    if controls.is_empty() {
        return;
    }
    let before = cx.state.views.figure_options(figure.id());
    let mut options = before.clone();
    inset(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().slider_width = 90.0;
            for control in controls {
                control_ui(ui, *control, &mut options, trace.grid.len(), playing);
            }
        });
    });
    if options != before {
        cx.send(Command::SetOptions(figure.id().to_owned(), options));
    }
}

fn control_ui(
    ui: &mut Ui,
    control: Control,
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
        Control::Regions => {
            ui.checkbox(&mut options.regions, "Regions").on_hover_text("Outlines of the marked regions");
        }
        Control::Log => {
            ui.checkbox(&mut options.log, "Log").on_hover_text("Logarithmic values");
        }
        Control::Rows => {
            let label = ui.label("Rows by").id;
            fitted_choice(ui, "rows", &mut options.rows, Rows::ALL, |rows| rows.name()).labelled_by(label);
        }
        Control::Map => colors(ui, &mut options.map),
        Control::Step => scrub(ui, options, tokens, playing),
    }
}

/// Chooses the colour map of magnitudes.
pub fn colors(ui: &mut Ui, map: &mut Map) {
    let list = fitted_choice(ui, "map", map, Map::ALL, |map| map.name());
    list.accessible_name("Colours of magnitudes").on_hover_text("Colours of magnitudes");
}

/// Scrubs through the reading order, or plays it.
fn scrub(ui: &mut Ui, options: &mut Options, tokens: usize, playing: &mut Option<(f64, usize)>) {
    let now = ui.input(|i| i.time);
    let mut step = options.step.unwrap_or(tokens).min(tokens);
    if let Some((began, from)) = *playing {
        step = from + ((now - began) * STEPS_PER_SECOND) as usize;
        if step >= tokens {
            (step, *playing) = (tokens, None);
        } else {
            ui.ctx().request_repaint_after(std::time::Duration::from_secs_f64(1.0 / STEPS_PER_SECOND));
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
    if step_slider(ui, "Tokens read", &mut step, tokens).changed() {
        *playing = None;
    }
    options.step = (step < tokens).then_some(step);
}
