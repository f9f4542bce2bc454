//! The live curves of a run in plots of egui_plot that can be zoomed and read off: loss on the left, accuracy on the
//! right, a colour and dash for each head. `viz::figures::curves` draws them for export, and has what both share.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use egui::{Color32, Id, Slider};
use egui_plot::{
    FilledArea, GridInput, GridMark, HoverPosition, Legend, Line, LineStyle, Plot, PlotMemory, PlotPoints,
    Points,
};

use super::head_curves::{HeadCurve, HeadCurves};
use super::readout;
use crate::app::jobs::history::{Band, Curve, Measure, TrainHistory};
use crate::app::state::State;
use crate::app::window::panels::plot_view::PlotView;
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::{choice_frame, fitted_choice, keep_together, lasting_menu_button};
use crate::viz::draw::series::{DASHES, band};
use crate::viz::draw::{Scale, Theme, number};
use crate::viz::figures::curves::{ACCURACY, LOSS, NO_STEP, Part, TrainingPlot};
use crate::viz::figures::rates::{RateGrid, RatesPlot};

/// From this width the plots are side by side.
const SIDE_BY_SIDE_PX: f32 = 620.0;

/// In less height they are side by side in any width: below each other they could not be read.
const STACKED_PX: f32 = 300.0;

/// Least share of the axis for the epochs so far, which a long run would press into a line.
const REACHED_SHARE: f64 = 0.25;

/// Most marks along an axis.
const MAX_MARKS: usize = 6;

/// How curves are shown.
pub struct Curves {
    log: bool,
    smoothing: f64,
    accuracy: Measure,
    band: Band,
    /// Folders of other runs whose curves are drawn too.
    beside: HashSet<PathBuf>,
    /// Whether the grid of layers and rates is shown instead of curves, if a run has one.
    show_rates: bool,
    rates: PlotView<Vec<RateGrid>, RatesPlot>,
    /// Heads that are not drawn, by name.
    pub hidden: HashSet<String>,
    curves: HashMap<Measure, HeadCurves>,
}

impl Default for Curves {
    fn default() -> Self {
        let (log, smoothing, accuracy, band) = (true, 0.6, Measure::Test, Band::default());
        let (beside, hidden, rates) = (HashSet::new(), HashSet::new(), PlotView::default());
        let (show_rates, curves) = (false, HashMap::new());
        Self { log, smoothing, accuracy, band, beside, show_rates, rates, hidden, curves }
    }
}

impl Curves {
    /// Draws the plots in `height`.
    pub fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, history: &Arc<TrainHistory>, height: f32) {
        let runs = self.runs(cx.state, history);
        let width = ui.available_width();
        if !history.has_data() || self.show_rates && history.has_grids() {
            let size = Vec2::new(width, height);
            ui.allocate_ui(size, |ui| {
                ui.set_min_size(size);
                if !history.has_data() {
                    return placeholder::empty(ui, NO_STEP);
                }
                let plot = history.rates(&[]);
                self.rates.fill(ui, cx, plot.grids.clone(), plot, RatesPlot::clone);
            });
            return;
        }
        let across = width >= SIDE_BY_SIDE_PX || height < STACKED_PX;
        let size = match across {
            true => Vec2::new((width - 12.0) / 2.0, height),
            false => Vec2::new(width, (height - 6.0) / 2.0),
        };
        let mut both = |ui: &mut Ui| {
            self.plot(ui, cx.theme, &runs, Measure::Loss, size);
            self.plot(ui, cx.theme, &runs, self.accuracy, size);
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

    /// The shown curves up to the last finished epoch, as a figure for export.
    fn figure(&self, runs: &[&Arc<TrainHistory>]) -> Arc<TrainingPlot> {
        let runs: Vec<&TrainHistory> = runs.iter().map(|run| &***run).collect();
        let heads = || runs.iter().flat_map(|run| &run.about.heads);
        let hidden = heads().any(|head| self.hidden.contains(head));
        let mut shown: Vec<String> =
            heads().filter(|head| hidden && !self.hidden.contains(*head)).cloned().collect();
        shown.sort();
        shown.dedup();
        Arc::new(TrainHistory::figure_of(&runs, &shown, Part::Both, self.log, self.band))
    }

    /// The shown run, and the other runs whose curves are drawn too.
    fn runs<'a>(&self, state: &'a State, history: &'a Arc<TrainHistory>) -> Vec<&'a Arc<TrainHistory>> {
        let others = state.training.runs.iter().filter(|(folder, _)| self.beside.contains(*folder));
        let others = others.filter(|(folder, _)| **folder != history.about.folder);
        std::iter::once(history).chain(others.map(|(_, run)| &run.history)).collect()
    }

    /// A menu of other runs whose curves to draw too.
    fn others(&mut self, ui: &mut Ui, state: &State, history: &Arc<TrainHistory>) {
        let mut others =
            state.training.runs.keys().filter(|folder| **folder != history.about.folder).peekable();
        if others.peek().is_none() {
            return;
        }
        let count = self.runs(state, history).len() - 1;
        let text = if count == 0 { "Other runs".to_owned() } else { format!("Other runs ({count})") };
        let menu = lasting_menu_button(ui, egui::Button::new(text), |ui| {
            for folder in others {
                let name = state.training.runs[folder].history.about.name();
                let mut on = self.beside.contains(folder);
                if ui.checkbox(&mut on, name).on_hover_text(folder.display().to_string()).changed()
                    && !self.beside.remove(folder)
                {
                    self.beside.insert(folder.clone());
                }
            }
        });
        menu.on_hover_text("Draws the curves of other open runs on the same plots");
        ui.add_space(8.0);
    }

    /// Draws what chooses how the curves are drawn, and what they are compared with.
    pub fn controls(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, history: &Arc<TrainHistory>) {
        ui.horizontal_wrapped(|ui| {
            if history.has_grids() {
                let about =
                    "Accuracy on the selection images by layer and learning rate, in place of the curves";
                ui.checkbox(&mut self.show_rates, "Layers and rates").on_hover_text(about);
                ui.add_space(8.0);
            }
            ui.checkbox(&mut self.log, "Log scale").on_hover_text("Of the loss");
            ui.add_space(8.0);
            let gap = ui.spacing().item_spacing.x;
            keep_together(ui, font::width("Smoothing", 13.5) + gap + ui.spacing().slider_width);
            let label = ui.label("Smoothing").id;
            let slider = Slider::new(&mut self.smoothing, 0.0..=0.98).show_value(false);
            ui.add(slider).labelled_by(label).on_hover_text("A moving average of the loss");
            ui.add_space(8.0);
            let words = font::width("Accuracy on test selection train", 13.5);
            keep_together(ui, words + 6.0 * ui.spacing().button_padding.x + gap);
            // A row of its own, as wrapped lines do not centre their first label.
            ui.horizontal(|ui| {
                ui.label("Accuracy on");
                ui.spacing_mut().item_spacing.x = 2.0;
                for (measure, text, about) in [
                    (Measure::Test, "test", "The images results are reported on, after each epoch"),
                    (Measure::Select, "selection", "The images that pick the best epoch"),
                    (Measure::Train, "train", "The training images, over each epoch"),
                ] {
                    ui.selectable_value(&mut self.accuracy, measure, text).on_hover_text(about);
                }
            });
            ui.add_space(8.0);
            self.others(ui, cx.state, history);
            let runs = self.runs(cx.state, history);
            if runs.iter().any(|run| run.about.seeds.len() > 1) {
                let widest = font::widest(Band::ALL.map(Band::name), 13.5);
                keep_together(ui, font::width("Band", 13.5) + gap + widest + choice_frame(ui));
                let label = ui.label("Band").on_hover_text("Around the mean over seeds").id;
                fitted_choice(ui, "band", &mut self.band, Band::ALL, |band| band.name()).labelled_by(label);
                ui.add_space(8.0);
            }
            // A figure of no heads would be one of all.
            let shows = runs.iter().flat_map(|run| &run.about.heads).any(|head| !self.hidden.contains(head));
            let ready = shows && runs.iter().all(|run| run.done().0 > 0);
            let export = ui.add_enabled(ready, Button::new("Export curves…"));
            let export = export.on_disabled_hover_text("It needs a finished epoch and a head that is shown");
            if export.on_hover_text("Loss and accuracy after every epoch, as a figure").clicked() {
                cx.actions.push(UiAction::Export(self.figure(&runs)));
            }
        });
    }

    fn plot(
        &mut self,
        ui: &mut Ui,
        theme: &Theme,
        runs: &[&Arc<TrainHistory>],
        measure: Measure,
        size: Vec2,
    ) {
        let loss = measure == Measure::Loss;
        let log = loss && self.log;
        let name = if loss { LOSS } else { ACCURACY };
        let strength = if loss { self.smoothing } else { 0.0 };
        if self.curves.get(&measure).is_none_or(|known| !known.are_of(runs, strength)) {
            self.curves.insert(measure, HeadCurves::new(runs, measure, strength));
        }
        // Series are numbered over all runs, hidden ones included, so that no colour changes.
        let shown = |(_, curve): &(usize, &HeadCurve)| {
            !self.hidden.contains(&curve.head) && !curve.smooth.at.is_empty()
        };
        let shown_of = |measure| self.curves[&measure].all.iter().enumerate().filter(shown);
        let curves: Vec<(usize, &HeadCurve)> = shown_of(measure).collect();
        let epochs = runs.iter().map(|run| run.about.epochs).max().unwrap_or(0) as f64;
        // Also by the loss, drawn before and known within epochs: both plots share one axis while a run progresses.
        let reached = shown_of(Measure::Loss).chain(curves.iter().copied());
        let reached = reached.filter_map(|(_, curve)| curve.smooth.at.last());
        let reached = reached.fold(1.0, |most: f64, at| most.max(*at));
        // Read out as they are, as in the table below and in exports, however they are smoothed.
        let read: Vec<(&str, &Curve)> = curves.iter().map(|(_, one)| (&*one.name, &one.raw)).collect();
        let band_of = self.band;
        let id = Id::unique(("curves", &runs[0].about.folder, loss));
        let is_new = PlotMemory::load(ui.ctx(), id).is_none();
        let plot = Plot::new("curves")
            .id(id)
            .width(size.x)
            .height(size.y)
            .show_background(false)
            .allow_scroll(false)
            .x_axis_label(RichText::new("Epoch").small())
            .y_axis_label(RichText::new(name).small())
            .y_axis_min_width(34.0)
            .include_x(0.0)
            .include_x(epochs.min(reached / REACHED_SHARE))
            .set_margin_fraction(Vec2::new(0.02, 0.06))
            .grid_color(color32(theme.faint))
            .cursor_color(color32(theme.band))
            .grid_fade(0.0)
            .grid_spacing(4.0..=8.0)
            .x_grid_spacer(integer_marks)
            .y_grid_spacer(move |input| marks(input, log))
            .x_axis_formatter(|mark, _| number(mark.value))
            .y_axis_formatter(move |mark, seen| label(mark.value, (*seen.start(), *seen.end()), log))
            .label_formatter(move |at| readout::at(&read, epoch(at), loss, band_of));
        // egui_plot would draw an axis from -2 to 2 %.
        let none = !loss && curves.is_empty();
        let plot = if none { plot.include_y(0.0).include_y(100.0) } else { plot };
        // The table below names the curves of one run; curves of several need a legend.
        let plot = if runs.len() > 1 && !loss { plot.legend(Legend::default()) } else { plot };
        let scope = ui.scope(|ui| {
            ui.visuals_mut().override_text_color = Some(color32(theme.muted));
            plot.show(ui, |plot| {
                for (series, HeadCurve { name, raw, smooth: curve, .. }) in &curves {
                    let color = color32(theme.series(*series));
                    let scale = |value: f64| if log { value.max(1e-12).log10() } else { value };
                    let line = |curve: &Curve| -> PlotPoints<'_> {
                        curve.at.iter().zip(&curve.mean).map(|(at, mean)| [*at, scale(*mean)]).collect()
                    };
                    if strength > 0.0 {
                        // The unsmoothed curve, faintly.
                        let raw = Line::new("", line(raw)).color(faint(color));
                        plot.line(raw.width(1.0).allow_hover(false));
                    }
                    if let Some(edges) = band(&curve.mean, &curve.band(self.band), log) {
                        let [low, high] = edges.map(|edge| edge.into_iter().map(scale).collect::<Vec<f64>>());
                        let area = FilledArea::new("", &curve.at, &low, &high);
                        plot.add(area.fill_color(faint(color)).allow_hover(false));
                    }
                    if curve.at.len() == 1 {
                        // A line of a single point, as after the first epoch, draws nothing.
                        let dot = Points::new("", line(curve)).color(color).radius(2.5);
                        plot.points(dot.allow_hover(false));
                    }
                    plot.line(
                        Line::new(name, line(curve)).color(color).width(1.8).style(line_style(*series)),
                    );
                }
            })
        });
        if is_new {
            // egui_plot gives its axes the room that they took the last time: their names lay on their numbers.
            ui.ctx().request_discard("the room for the axes of new curves is not known yet");
        }
        let response = scope.inner;
        let text = format!("{name} of {}", counted(curves.len(), "head", "heads"));
        response.response.widget_info(|| WidgetInfo::labeled(egui::Role::Image, true, &text));
    }
}

/// The style of a head's line for egui_plot, which looks like the one of [`DASHES`].
pub fn line_style(head: usize) -> LineStyle {
    let all: [LineStyle; DASHES.len()] = [
        LineStyle::Solid,
        LineStyle::dashed_loose(),
        LineStyle::dashed_dense(),
        LineStyle::dotted_dense(),
        LineStyle::Dashed { length: 20.0 },
        LineStyle::dotted_loose(),
        LineStyle::Dashed { length: 14.0 },
        LineStyle::Dotted { spacing: 16.0 },
    ];
    all[head % all.len()]
}

fn faint(color: Color32) -> Color32 {
    color.gamma_multiply(0.18)
}

/// The epoch under the pointer.
fn epoch(at: &HoverPosition<'_>) -> f64 {
    match at {
        HoverPosition::NearDataPoint { position, .. } | HoverPosition::Elsewhere { position } => position.x,
    }
}

/// The scale within the bounds of an axis, which are decimal logarithms if `log`.
fn scale((low, high): (f64, f64), log: bool) -> Scale {
    let (lo, hi) = if log { (10f64.powf(low), 10f64.powf(high)) } else { (low, high) };
    // Within one decade, marks of a linear scale are denser than those of a logarithmic one.
    Scale { lo, hi, log: log && high - low > 1.0 }
}

/// The text of the mark at `place`, with as many decimals as the other marks within the bounds.
fn label(place: f64, bounds: (f64, f64), log: bool) -> String {
    let value = if log { 10f64.powf(place) } else { place };
    let scale = scale(bounds, log);
    let ticks = scale.ticks(MAX_MARKS);
    let far = |at: &usize| (ticks[*at] - value).abs();
    let nearest = (0..ticks.len()).min_by(|a, b| far(a).total_cmp(&far(b)));
    nearest.map_or_else(|| number(value), |at| scale.labels(&ticks).swap_remove(at))
}

/// Marks at round numbers within the bounds, which are decimal logarithms if `log`.
fn marks(input: GridInput, log: bool) -> Vec<GridMark> {
    let (low, high) = input.bounds;
    let place = |value: f64| if log { value.log10() } else { value };
    let ticks = scale(input.bounds, log).ticks(MAX_MARKS);
    let places: Vec<f64> = ticks.into_iter().map(place).filter(|at| at.is_finite()).collect();
    let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
    let step_size = gaps.fold(high - low, f64::min).max(f64::EPSILON);
    places.into_iter().map(|value| GridMark { value, step_size }).collect()
}

/// Marks at integers within the bounds, for epochs.
fn integer_marks(input: GridInput) -> Vec<GridMark> {
    let mut marks = marks(input, false);
    marks.retain(|mark| (mark.value - mark.value.round()).abs() < 1e-6);
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::history::{About, Steps};

    #[test]
    fn both_plots_have_one_axis_of_epochs_while_a_run_goes_on() {
        let heads = vec!["gap".to_owned()];
        let about = About { folder: "run".into(), heads, epochs: 100, seeds: vec![0], ..About::default() };
        let mut run = TrainHistory::new(about);
        run.step(&Steps { seed: 0, at: 2.9, losses: vec![Some(1.0)] });
        let (run, mut curves) = (Arc::new(run), Curves::default());
        let mut harness = egui_kittest::Harness::new_ui(|ui| {
            for measure in [Measure::Loss, Measure::Test] {
                curves.plot(ui, &Theme::light(), &[&run], measure, Vec2::new(300.0, 200.0));
            }
        });
        harness.run();
        let [loss, accuracy] = [true, false].map(|loss| {
            let plot = PlotMemory::load(&harness.ctx, Id::unique(("curves", &run.about.folder, loss)));
            plot.expect("a plot").bounds().max()[0]
        });
        assert!(loss > 2.9 && loss == accuracy, "{loss}, {accuracy}");
    }

    #[test]
    fn a_logarithmic_axis_has_round_marks_inside() {
        let text = |low, high| -> Vec<String> {
            let input = GridInput { bounds: (low, high), base_step_size: 0.1 };
            marks(input, true).iter().map(|mark| label(mark.value, (low, high), true)).collect()
        };
        assert_eq!(text(-1.2, 0.4), ["0.1", "0.2", "0.5", "1", "2"]);
        assert_eq!(text(-4.1, 2.1), ["0.001", "0.1", "10"]);
        let close = text(0.3, 0.5); // 2.0 to 3.2
        assert!(close.len() >= 4 && close.contains(&"2.4".to_owned()), "{close:?}");
        assert!(close.iter().all(|text| text.len() == 3), "as many decimals as the others: {close:?}");
        let broken = GridInput { bounds: (f64::NAN, f64::NAN), base_step_size: 0.1 };
        marks(broken, false);
    }
}
