//! The curves of a run: loss on the left, accuracy on the right, one colour and dash a head.

use std::collections::HashSet;

use eframe::egui;
use egui::{Color32, RichText, Slider, Ui, Vec2, WidgetInfo};
use egui_plot::{FilledArea, GridInput, GridMark, HoverPosition, Line, LineStyle, Plot, PlotPoints};

use crate::app::course::{Course, Curve, Measure, smooth};
use crate::app::panel::Cx;
use crate::viz::paint::color32;
use crate::viz::theme::Theme;

/// From this width on the plots stand side by side.
const WIDE: f32 = 620.0;

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
        Self { log: true, smoothing: 0.0, accuracy: Measure::Test, hidden: HashSet::new() }
    }
}

impl Curves {
    /// Draws what they are shown by, and the plots in `height`.
    pub fn ui(&mut self, ui: &mut Ui, cx: &Cx<'_>, course: &Course, height: f32) {
        self.controls(ui, course);
        let heads = course.about.heads.len();
        let begun = (0..heads).any(|head| !course.curve(head, Measure::Loss).at.is_empty());
        if !begun {
            let size = Vec2::new(ui.available_width(), height);
            ui.allocate_ui(size, |ui| {
                ui.set_min_size(size);
                crate::app::panel::notice::empty(ui, "No step has been trained yet");
            });
            return;
        }
        let width = ui.available_width();
        let (across, size) = match width >= WIDE {
            true => (true, Vec2::new((width - 12.0) / 2.0, height)),
            false => (false, Vec2::new(width, (height - 6.0) / 2.0)),
        };
        let mut both = |ui: &mut Ui| {
            self.plot(ui, cx.theme, course, Measure::Loss, size);
            self.plot(ui, cx.theme, course, self.accuracy, size);
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

    fn controls(&mut self, ui: &mut Ui, course: &Course) {
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
            if course.about.seeds.len() > 1 {
                ui.add_space(8.0);
                let text = RichText::new("Mean over seeds, band of one standard deviation").small().weak();
                ui.label(text);
            }
        });
    }

    fn plot(&self, ui: &mut Ui, theme: &Theme, course: &Course, measure: Measure, size: Vec2) {
        let loss = measure == Measure::Loss;
        let log = loss && self.log;
        let name = if loss { "Training loss" } else { "Accuracy (%)" };
        let curves: Vec<(usize, Curve)> = course
            .about
            .heads
            .iter()
            .enumerate()
            .filter(|(_, head)| !self.hidden.contains(*head))
            .map(|(head, _)| (head, course.curve(head, measure)))
            .filter(|(_, curve)| !curve.at.is_empty())
            .collect();
        let mut plot = Plot::new((&course.about.folder, loss))
            .width(size.x)
            .height(size.y)
            .show_background(false)
            .allow_scroll(false)
            .x_axis_label(RichText::new("Epoch").small())
            .y_axis_label(RichText::new(name).small())
            .y_axis_min_width(34.0)
            .include_x(0.0)
            .include_x(course.about.epochs as f64)
            .set_margin_fraction(Vec2::new(0.02, 0.06))
            .label_formatter(move |at| hover(at, loss, log));
        if log {
            plot = plot.y_grid_spacer(decades).y_axis_formatter(|mark, _| decade(mark.value));
        }
        let response = plot.show(ui, |plot| {
            for (head, curve) in &curves {
                let color = color32(theme.series(*head));
                let strength = if loss { self.smoothing } else { 0.0 };
                let scale = |value: f64| if log { value.max(1e-12).log10() } else { value };
                let mean = smooth(&curve.mean, strength);
                let spread = smooth(&curve.spread, strength);
                let name = &course.about.heads[*head];
                if course.about.seeds.len() > 1 && spread.iter().any(|spread| *spread > 0.0) {
                    let least = mean.iter().copied().filter(|m| *m > 0.0).fold(f64::INFINITY, f64::min);
                    // A band below zero has no logarithm: it ends a little under the curve.
                    let low =
                        |(m, s): (&f64, &f64)| scale(if log { (m - s).max(least * 0.5) } else { m - s });
                    let low: Vec<f64> = mean.iter().zip(&spread).map(low).collect();
                    let high: Vec<f64> = mean.iter().zip(&spread).map(|(m, s)| scale(m + s)).collect();
                    let area = FilledArea::new("", &curve.at, &low, &high);
                    plot.add(area.fill_color(band(color)).allow_hover(false));
                }
                let points: PlotPoints<'_> =
                    curve.at.iter().zip(&mean).map(|(at, mean)| [*at, scale(*mean)]).collect();
                plot.line(Line::new(name, points).color(color).width(1.8).style(dash(*head, theme)));
            }
        });
        let (role, text) = (egui::Role::Image, format!("{name} of {} heads", curves.len()));
        response.response.widget_info(|| WidgetInfo::labeled(role, true, &text));
    }
}

/// Heads that share a colour differ by their dash.
pub fn dash(head: usize, theme: &Theme) -> LineStyle {
    match head / theme.series.len() {
        0 => LineStyle::Solid,
        1 => LineStyle::dashed_loose(),
        2 => LineStyle::dashed_dense(),
        _ => LineStyle::dotted_dense(),
    }
}

fn band(color: Color32) -> Color32 {
    color.gamma_multiply(0.18)
}

/// What is near the pointer.
fn hover(at: &HoverPosition<'_>, loss: bool, log: bool) -> Option<String> {
    let HoverPosition::NearDataPoint { plot_name, position, .. } = at else { return None };
    let value = if log { 10f64.powf(position.y) } else { position.y };
    let value = if loss { format!("loss {value:.4}") } else { format!("{value:.1} %") };
    (!plot_name.is_empty()).then(|| format!("{plot_name}\nepoch {:.1}, {value}", position.x))
}

/// Marks of a logarithmic axis, in logarithms: decades, and 2 and 5 between them where there is room.
fn decades(input: GridInput) -> Vec<GridMark> {
    let (low, high) = input.bounds;
    let (first, last) = (low.floor().max(-12.0) as i32, high.ceil().min(12.0) as i32);
    let fine = high - low < 3.0;
    let mut marks = Vec::new();
    for decade in first..=last {
        for (factor, step) in [(1.0, 1.0), (2.0, 0.3), (5.0, 0.3)] {
            if factor == 1.0 || fine {
                marks.push(GridMark { value: f64::from(decade) + f64::log10(factor), step_size: step });
            }
        }
    }
    marks
}

/// The value of a mark, in as few digits as it needs.
fn decade(logarithm: f64) -> String {
    let value = 10f64.powf(logarithm);
    let digits = usize::try_from((-logarithm.floor() as i32).max(0)).unwrap_or(0);
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_has_round_marks() {
        let marks = decades(GridInput { bounds: (-1.2, 0.4), base_step_size: 0.1 });
        let texts: Vec<String> = marks.iter().map(|mark| decade(mark.value)).collect();
        assert_eq!(
            texts,
            ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "50"][..texts.len()]
        );
        let wide = decades(GridInput { bounds: (-4.0, 2.0), base_step_size: 0.1 });
        assert_eq!(wide.len(), 7);
    }
}
