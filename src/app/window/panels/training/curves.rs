//! The curves of a run as they come, to zoom into and to read off (egui_plot): loss on the left, accuracy
//! on the right, one colour and dash a head. `viz::figures::curves` draws them for a page, and has what both share.

use std::collections::HashSet;
use std::sync::Arc;

use eframe::egui;
use egui::{Button, Color32, RichText, Slider, Ui, Vec2, WidgetInfo};
use egui_plot::{FilledArea, GridInput, GridMark, HoverPosition, Line, LineStyle, Plot, PlotPoints};

use crate::app::jobs::history::{Curve, Measure, TrainHistory, smooth};
use crate::app::window::panels::{PanelContext, UiAction, placeholder};
use crate::viz::draw::{Scale, Theme, color32, number};
use crate::viz::figures::curves::{ACCURACY, Dash, LOSS, NO_STEP, Part, TrainingPlot, band};

/// From this width on the plots stand side by side.
const SIDE_BY_SIDE_PX: f32 = 620.0;

/// Round numbers along an axis.
const MAX_MARKS: usize = 6;

/// How curves are shown.
pub struct Curves {
    log: bool,
    smoothing: f64,
    accuracy: Measure,
    /// Heads that are not drawn, by name.
    pub hidden: HashSet<String>,
}

impl Default for Curves {
    fn default() -> Self {
        Self { log: true, smoothing: 0.6, accuracy: Measure::Test, hidden: HashSet::new() }
    }
}

impl Curves {
    /// Draws what they are shown by, and the plots in `height`.
    pub fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, history: &TrainHistory, height: f32) {
        self.controls(ui, cx, history);
        if !history.begun() {
            let size = Vec2::new(ui.available_width(), height);
            ui.allocate_ui(size, |ui| {
                ui.set_min_size(size);
                placeholder::empty(ui, NO_STEP);
            });
            return;
        }
        let width = ui.available_width();
        let (across, size) = match width >= SIDE_BY_SIDE_PX {
            true => (true, Vec2::new((width - 12.0) / 2.0, height)),
            false => (false, Vec2::new(width, (height - 6.0) / 2.0)),
        };
        let both = |ui: &mut Ui| {
            self.plot(ui, cx.theme, history, Measure::Loss, size);
            self.plot(ui, cx.theme, history, self.accuracy, size);
        };
        if across {
            ui.horizontal(|ui| {
                ui.spacing_mut().item_spacing.x = 12.0;
                both(ui);
            });
        } else {
            both(ui);
        }
    }

    /// What is drawn of the epochs that are done, as a figure.
    fn figure(&self, history: &TrainHistory) -> Arc<TrainingPlot> {
        let hidden = history.about.heads.iter().any(|head| self.hidden.contains(head));
        let shown = history.about.heads.iter().filter(|head| hidden && !self.hidden.contains(*head));
        Arc::new(history.figure(&shown.cloned().collect::<Vec<_>>(), Part::Both, self.log))
    }

    fn controls(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, history: &TrainHistory) {
        ui.horizontal_wrapped(|ui| {
            ui.checkbox(&mut self.log, "Log scale").on_hover_text("Of the loss");
            ui.add_space(8.0);
            let label = ui.label("Smoothing").id;
            let slider = Slider::new(&mut self.smoothing, 0.0..=0.98).show_value(false);
            ui.add(slider).labelled_by(label).on_hover_text("A moving average of the loss");
            ui.add_space(8.0);
            ui.label("Accuracy on");
            ui.spacing_mut().item_spacing.x = 2.0;
            for (measure, text, about) in [
                (Measure::Test, "test", "The images results are reported on, after each epoch"),
                (Measure::Select, "selection", "The images that pick the best epoch"),
                (Measure::Train, "train", "The training images, over each epoch"),
            ] {
                ui.selectable_value(&mut self.accuracy, measure, text).on_hover_text(about);
            }
            if history.about.seeds.len() > 1 {
                ui.add_space(8.0);
                let text = RichText::new("Mean over seeds, band of one standard deviation").small().weak();
                ui.label(text);
            }
            ui.add_space(8.0);
            let ready = history.done().0 > 0;
            let export = ui.add_enabled(ready, Button::new("Export curves…"));
            if export.on_hover_text("Loss and accuracy after every epoch, as a figure").clicked() {
                cx.actions.push(UiAction::Export(self.figure(history)));
            }
        });
    }

    fn plot(&self, ui: &mut Ui, theme: &Theme, history: &TrainHistory, measure: Measure, size: Vec2) {
        let loss = measure == Measure::Loss;
        let log = loss && self.log;
        let name = if loss { LOSS } else { ACCURACY };
        let curves: Vec<(usize, Curve)> = history
            .about
            .heads
            .iter()
            .enumerate()
            .filter(|(_, head)| !self.hidden.contains(*head))
            .map(|(head, _)| (head, history.curve(head, measure)))
            .filter(|(_, curve)| !curve.at.is_empty())
            .collect();
        let plot = Plot::new((&history.about.folder, loss))
            .width(size.x)
            .height(size.y)
            .show_background(false)
            .allow_scroll(false)
            .x_axis_label(RichText::new("Epoch").small())
            .y_axis_label(RichText::new(name).small())
            .y_axis_min_width(34.0)
            .include_x(0.0)
            .include_x(history.about.epochs as f64)
            .set_margin_fraction(Vec2::new(0.02, 0.06))
            .grid_color(color32(theme.faint))
            .cursor_color(color32(theme.band))
            .grid_fade(0.0)
            .grid_spacing(4.0..=8.0)
            .x_grid_spacer(whole)
            .y_grid_spacer(move |input| marks(input, log))
            .x_axis_formatter(|mark, _| number(mark.value))
            .y_axis_formatter(move |mark, _| number(if log { 10f64.powf(mark.value) } else { mark.value }))
            .label_formatter(move |at| hover(at, loss, log));
        let scope = ui.scope(|ui| {
            ui.visuals_mut().override_text_color = Some(color32(theme.muted));
            plot.show(ui, |plot| {
                for (head, curve) in &curves {
                    let color = color32(theme.series(*head));
                    let strength = if loss { self.smoothing } else { 0.0 };
                    let scale = |value: f64| if log { value.max(1e-12).log10() } else { value };
                    let line = |mean: &[f64]| -> PlotPoints<'_> {
                        curve.at.iter().zip(mean).map(|(at, mean)| [*at, scale(*mean)]).collect()
                    };
                    if strength > 0.0 {
                        // What is smoothed stays to see, faintly.
                        let raw = Line::new("", line(&curve.mean)).color(faint(color));
                        plot.line(raw.width(1.0).allow_hover(false));
                    }
                    let Curve { mean, spread, .. } = match strength > 0.0 {
                        true => history.curve_of(*head, measure, |points| averaged(&points, strength)),
                        false => curve.clone(),
                    };
                    let name = &history.about.heads[*head];
                    if let Some(edges) = band(&mean, &spread, log) {
                        let [low, high] = edges.map(|edge| edge.into_iter().map(scale).collect::<Vec<f64>>());
                        let area = FilledArea::new("", &curve.at, &low, &high);
                        plot.add(area.fill_color(faint(color)).allow_hover(false));
                    }
                    plot.line(
                        Line::new(name, line(&mean)).color(color).width(1.8).style(line_style(*head, theme)),
                    );
                }
            })
        });
        let response = scope.inner;
        let (role, text) = (egui::Role::Image, format!("{name} of {} heads", curves.len()));
        response.response.widget_info(|| WidgetInfo::labeled(role, true, &text));
    }
}

/// How egui_plot breaks the line of a head.
pub fn line_style(head: usize, theme: &Theme) -> LineStyle {
    match Dash::new(theme, head) {
        Dash::Solid => LineStyle::Solid,
        Dash::Loose => LineStyle::dashed_loose(),
        Dash::Dense => LineStyle::dashed_dense(),
        Dash::Dots => LineStyle::dotted_dense(),
    }
}

/// Points with their values smoothed.
fn averaged(points: &[(f64, f64)], strength: f64) -> Vec<(f64, f64)> {
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    points.iter().map(|point| point.0).zip(smooth(&values, strength)).collect()
}

fn faint(color: Color32) -> Color32 {
    color.gamma_multiply(0.18)
}

/// What is near the pointer.
fn hover(at: &HoverPosition<'_>, loss: bool, log: bool) -> Option<String> {
    let HoverPosition::NearDataPoint { plot_name, position, .. } = at else { return None };
    let value = if log { 10f64.powf(position.y) } else { position.y };
    let value = if loss { format!("loss {value:.4}") } else { format!("{value:.1} %") };
    (!plot_name.is_empty()).then(|| format!("{plot_name}\nepoch {:.1}, {value}", position.x))
}

/// Round numbers inside, where the axis has logarithms or the numbers themselves.
fn marks(input: GridInput, log: bool) -> Vec<GridMark> {
    let (low, high) = input.bounds;
    let (lo, hi) = if log { (10f64.powf(low), 10f64.powf(high)) } else { (low, high) };
    // Within a decade round numbers lie closer than its parts.
    let scale = Scale { lo, hi, log: log && high - low > 1.0 };
    let place = |value: f64| if log { value.log10() } else { value };
    let places: Vec<f64> =
        scale.ticks(MAX_MARKS).into_iter().map(place).filter(|at| at.is_finite()).collect();
    let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
    let step_size = gaps.fold(high - low, f64::min).max(f64::EPSILON);
    places.into_iter().map(|value| GridMark { value, step_size }).collect()
}

/// Whole numbers inside: there is no half an epoch to read off.
fn whole(input: GridInput) -> Vec<GridMark> {
    let mut marks = marks(input, false);
    marks.retain(|mark| (mark.value - mark.value.round()).abs() < 1e-6);
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_has_round_marks_inside() {
        let text = |low, high| -> Vec<String> {
            let input = GridInput { bounds: (low, high), base_step_size: 0.1 };
            marks(input, true).iter().map(|mark| number(10f64.powf(mark.value))).collect()
        };
        assert_eq!(text(-1.2, 0.4), ["0.1", "0.2", "0.5", "1", "2"]);
        assert_eq!(text(-4.1, 2.1), ["0.001", "0.1", "10"]);
        let close = text(0.3, 0.5); // 2.0 to 3.2
        assert!(close.len() >= 4 && close.contains(&"2.4".to_owned()), "{close:?}");
        let broken = GridInput { bounds: (f64::NAN, f64::NAN), base_step_size: 0.1 };
        marks(broken, false);
    }
}
