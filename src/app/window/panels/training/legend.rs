//! The heads of a run as rows: the curve's colour and dash, its results, and a button to compare its probe.
//! A click on a name hides or shows its curve, a right click copies the table.

use std::collections::{BTreeSet, HashSet};

use egui::{Shape, Stroke};
use egui_plot::LineStyle;

use super::curves::line_style;
use crate::app::jobs::history::{Score, TrainHistory};
use crate::app::state::WatchedRun;
use crate::app::window::panels::prelude::*;
use crate::app::window::panels::table;
use crate::model::train::run::ProbeCheckpoint;
use crate::viz::draw::{Table, Theme, number_like};
use crate::viz::export;

/// Height of a row.
pub const ROW_PX: f32 = 26.0;
/// Height of the heading above the rows.
pub const HEAD_PX: f32 = 30.0;

/// Columns of numbers: heading, width, description.
const COLUMNS: [(&str, f32, &str); 4] = [
    ("Loss", 64.0, "Training loss over the last epoch, mean over seeds"),
    ("Train (%)", 74.0, "Training accuracy over the last epoch, in percent"),
    ("Test, last (%)", 104.0, "Test accuracy after the last epoch, in percent"),
    ("Test, best (%)", 104.0, "Test accuracy at the epoch that was best on the selection images, in percent"),
];
/// Width of a swatch: as long that the eight dashes differ in how many dashes or dots it shows.
const SWATCH_PX: f32 = 52.0;
/// Width of a name with its swatch.
const NAME_PX: f32 = SWATCH_PX + 166.0;

/// Draws the rows in at least `height`; `hidden` are names of heads whose curves are not drawn.
pub fn ui(
    ui: &mut Ui,
    cx: &mut PanelContext<'_>,
    run: &WatchedRun,
    hidden: &mut HashSet<String>,
    height: f32,
) {
    let heads = &run.history.about.heads;
    ui.spacing_mut().item_spacing.y = 0.0;
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 0.0;
        cell(ui, NAME_PX, Align::Min, |ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            if ui.small_button("Show all").clicked() {
                hidden.clear();
            }
            if ui.small_button("Hide all").clicked() {
                hidden.extend(heads.iter().cloned());
            }
        });
        for (name, width, about) in COLUMNS {
            cell(ui, width, Align::Max, |ui| drop(ui.weak(name).on_hover_text(about)));
        }
    });
    let area = ScrollArea::vertical().id_salt("heads").auto_shrink([false, true]).min_scrolled_height(height);
    let common = font::common(heads.iter().map(String::as_str));
    area.show_rows(ui, ROW_PX, heads.len(), |ui, rows| {
        rows.for_each(|head| row(ui, cx, run, head, hidden, &common));
        follow_focus(ui);
    });
}

/// A cell of a row, `width` wide.
fn cell(ui: &mut Ui, width: f32, align: Align, add: impl FnOnce(&mut Ui)) {
    let layout = match align {
        Align::Max => Layout::right_to_left(Align::Center),
        _ => Layout::left_to_right(Align::Center),
    };
    ui.allocate_ui_with_layout(Vec2::new(width, ROW_PX - 4.0), layout, |ui| {
        ui.set_min_width(width);
        add(ui);
    });
}

/// Draws the row of a head; `common` are the words that the names of all heads have.
fn row(
    ui: &mut Ui,
    cx: &mut PanelContext<'_>,
    run: &WatchedRun,
    head: usize,
    hidden: &mut HashSet<String>,
    common: &BTreeSet<&str>,
) {
    let Some(name) = run.history.about.heads.get(head) else { return };
    let shown = !hidden.contains(name);
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 0.0;
        cell(ui, NAME_PX, Align::Min, |ui| {
            swatch(ui, cx.theme, head, shown);
            ui.add_space(6.0);
            let text = RichText::new(font::fit_among(name, common, 13.5, NAME_PX - SWATCH_PX - 36.0));
            let text = if shown { text } else { text.weak().strikethrough() };
            let about = if shown { "Click to hide its curve" } else { "Click to show its curve" };
            let label = ui
                .selectable_label(false, text)
                .accessible_name(name)
                .on_hover_text(format!("{name}\n{about}"));
            table::menu(&label, || tsv(&run.history));
            if label.clicked() && !hidden.remove(name) {
                hidden.insert(name.clone());
            }
        });
        let score = run.history.score(head);
        let spread = |(mean, deviation): (f64, f64), seeds: usize| match seeds {
            1 => format!("{mean:.1}"),
            _ => format!("{mean:.1} ± {deviation:.1}"),
        };
        let texts = score.map(|score| {
            [
                number_like(score.loss, score.loss),
                format!("{:.1}", score.train),
                spread(score.last, score.seeds),
                spread(score.best, score.seeds),
            ]
        });
        for (at, (_, width, _)) in COLUMNS.iter().enumerate() {
            let text = texts.as_ref().map_or("–", |texts| texts[at].as_str());
            cell(ui, *width, Align::Max, |ui| drop(ui.label(text)));
        }
        ui.add_space(16.0);
        ui.spacing_mut().item_spacing.x = 8.0;
        compare(ui, cx, run, name);
        if let Some(why) = failure(&run.history, head) {
            let text = style::failure(ui, format!("Stopped: {why}")).small();
            ui.add(egui::Label::new(text).truncate().show_tooltip_when_elided(false)).on_hover_text(why);
        }
    });
}

/// The table as tab-separated text; unknown values are empty.
fn tsv(history: &TrainHistory) -> String {
    let heads = &history.about.heads;
    let scores: Vec<Option<Score>> = (0..heads.len()).map(|head| history.score(head)).collect();
    let spread =
        |score: Score, (_, deviation): (f64, f64)| if score.seeds > 1 { deviation } else { f64::NAN };
    let values = |value: &dyn Fn(Score) -> f64| -> Vec<f64> {
        scores.iter().map(|score| score.map_or(f64::NAN, value)).collect()
    };
    let [loss, train, last, best] = COLUMNS.map(|(name, ..)| name);
    let deviation = |name: &str| format!("{name}, standard deviation over seeds");
    let table = Table::default()
        .words("Head", heads.iter().cloned())
        .numbers(loss, values(&|score| score.loss))
        .numbers(train, values(&|score| score.train))
        .numbers(last, values(&|score| score.last.0))
        .numbers(&deviation(last), values(&|score| spread(score, score.last)))
        .numbers(best, values(&|score| score.best.0))
        .numbers(&deviation(best), values(&|score| spread(score, score.best)));
    export::tsv(&table)
}

/// Draws a sample of the head's line in the plots.
fn swatch(ui: &mut Ui, theme: &Theme, head: usize, shown: bool) {
    let (rect, _) = ui.allocate_exact_size(Vec2::new(SWATCH_PX, ROW_PX - 6.0), Sense::hover());
    let color = if shown { color32(theme.series(head)) } else { color32(theme.band) };
    ui.painter().extend(sample(rect, Stroke::new(2.4, color), line_style(head)));
}

/// A line through `rect`, with the gaps that egui_plot leaves.
fn sample(rect: Rect, stroke: Stroke, style: LineStyle) -> Vec<Shape> {
    let ends = [rect.left_center(), rect.right_center()];
    match style {
        LineStyle::Solid => vec![Shape::line_segment(ends, stroke)],
        LineStyle::Dashed { length } => Shape::dashed_line(&ends, stroke, length, length * 0.618),
        LineStyle::Dotted { spacing } => Shape::dotted_line(&ends, stroke.color, spacing, 1.4),
    }
}

/// Why a head stopped early, for the first of its seeds that did.
fn failure(history: &TrainHistory, head: usize) -> Option<&str> {
    history.lines(head).iter().find_map(|line| line.failure.as_deref())
}

/// A button that adds the head's best probe to the comparison: that of the first seed whose probe is open.
fn compare(ui: &mut Ui, cx: &mut PanelContext<'_>, run: &WatchedRun, head: &str) {
    let about = &run.history.about;
    let path = |seed: &u64| {
        about.folder.join(format!("probes/{head}-s{seed}-{}.safetensors", ProbeCheckpoint::Best.name()))
    };
    let open = |seed: &u64| cx.state.library.probe_at(&path(seed));
    let Some(probe) = about.seeds.iter().find_map(open) else { return };
    let button = ui.small_button("Compare").on_hover_text("Adds its best probe to the comparison");
    if button.clicked() {
        cx.send(Command::Compare(vec![probe]));
    }
}

#[cfg(test)]
mod tests {
    use egui::{Color32, Pos2};

    use super::*;

    #[test]
    fn samples_differ_in_how_many_dashes_or_dots_they_have() {
        let rect = Rect::from_min_size(Pos2::new(100.0, 0.0), Vec2::new(SWATCH_PX, 10.0));
        let samples: HashSet<(bool, usize)> = (0..8)
            .map(|head| {
                let shapes = sample(rect, Stroke::new(2.4, Color32::RED), line_style(head));
                (matches!(shapes[0], Shape::Circle(_)), shapes.len())
            })
            .collect();
        assert_eq!(samples.len(), 8, "{samples:?}");
    }
}
