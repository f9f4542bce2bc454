//! One measure over the images of every class: the mean as a dot, the 25th to 75th percentile as a bar, the 5th to 95th as a
//! line; behind them the null of the mean of as many images (5th to 95th percentile), or of a single image in evaluations by
//! earlier versions.

use super::{ClassSort, Control, Overview, axis_name, label, measure, no_class};
use crate::model::explain::evaluation::ClassRow;
use crate::viz::figures::plot::EvaluationPlot;
use crate::viz::figures::prelude::*;
use crate::viz::heading::uncapitalised;

/// Height of the row of a class.
const ROW_PT: f32 = 10.5;
/// Smallest height of a row that can be read.
const MIN_ROW_PT: f32 = 8.0;
/// Room for the legend and the axis.
const MARGINS_PT: f32 = 38.0;

pub struct ClassDiagnostics;

/// The classes that are drawn; if there are too many, those with the highest and the lowest means.
struct Rows {
    rows: Vec<ClassRow>,
    /// The index of the row above which classes are left out, and how many, if these lie between two rows.
    gap: Option<(usize, usize)>,
    /// How many classes are drawn of how many, if the gap does not show it.
    note: Option<String>,
}

fn rows(plot: &EvaluationPlot) -> Rows {
    let EvaluationPlot { evaluation, choice, .. } = plot;
    let names = &evaluation.set.classes;
    let mut rows = evaluation.by_class(measure(evaluation, &choice.measure));
    rows.retain(|row| choice.classes.finds(&names[row.class]));
    rows.sort_by(|a, b| b.mean.total_cmp(&a.mean).then(a.class.cmp(&b.class)));
    let mut rank = vec![0; names.len()];
    rows.iter().enumerate().for_each(|(at, row)| rank[row.class] = at);
    let middle = rows.len().saturating_sub(1) as f64 / 2.0;
    let distance = |class: usize| (rank[class] as f64 - middle).abs();
    let mut picked =
        choice.classes.pick(names, rows.iter().map(|row| row.class), distance, ClassSort::Difference);
    let mut gap = None;
    if picked.sort == ClassSort::Difference {
        picked.classes.sort_by_key(|class| rank[*class]);
        gap = picked.classes.windows(2).position(|pair| rank[pair[1]] > rank[pair[0]] + 1);
    }
    Rows {
        gap: gap.map(|at| (at + 1, picked.found - picked.classes.len())),
        note: picked.note("both ends").filter(|_| gap.is_none()),
        rows: picked.classes.iter().map(|class| rows[rank[*class]].clone()).collect(),
    }
}

impl Overview for ClassDiagnostics {
    fn info(&self) -> Info {
        Info {
            id: "class_diagnostics",
            title: "By class",
            about: "A measure over the images of each class, against the chance level of their mean",
            tab: TabGroup::Classes.tab(),
        }
    }

    fn controls(&self) -> &'static [Control] {
        &[Control::Measure, Control::Classes]
    }

    fn height(&self, plot: &EvaluationPlot, _: f32) -> f32 {
        rows(plot).rows.len().max(3) as f32 * ROW_PT + MARGINS_PT
    }

    fn legible(&self, plot: &EvaluationPlot, _: f32) -> Size {
        Size { width: 0.0, height: rows(plot).rows.len() as f32 * MIN_ROW_PT + MARGINS_PT }
    }

    fn scene(&self, plot: &EvaluationPlot, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let (evaluation, name) = (&*plot.evaluation, measure(&plot.evaluation, &plot.choice.measure));
        let Rows { rows, gap, note } = rows(plot);
        if rows.is_empty() && evaluation.by_class(name).iter().any(|row| row.count > 0) {
            return Err(Empty(no_class(&plot.choice)));
        }
        if rows.is_empty() {
            return Err(Empty(format!("No image has a value for {}", uncapitalised(&label(name)))));
        }
        let mut scene = Scene::new(size.width, size.height, "Measure by class", theme.background);
        let null = |row: &ClassRow| {
            evaluation.mean_null(name, row.count).or_else(|| evaluation.nulls.get(name).copied())
        };
        let ends = rows.iter().flat_map(|row| {
            let (low, high) = null(row).unwrap_or((row.mean, row.mean));
            [row.quantiles[0], row.quantiles[4], row.mean, low, high]
        });
        let (lo, hi) = extent(ends).unwrap_or((0.0, 1.0));
        let mut key = vec![
            (Mark::Dot(theme.series(0)), "Mean"),
            (Mark::Patch(theme.series(0)), "Middle half"),
            (Mark::Line(Stroke::new(pt::LINE, theme.series(0))), "5 to 95 % of images"),
        ];
        if evaluation.nulls.contains_key(name) {
            let text = if evaluation.mean_nulls.contains_key(name) {
                "Chance for the mean, 5 to 95 %"
            } else {
                "Chance for one image, 5 to 95 %"
            };
            key.push((Mark::Patch(theme.band), text));
        }
        key.extend(note.iter().map(|note| (Mark::None, note.as_str())));
        let below = legend::above(&mut scene, theme, size, &key);
        let names: Vec<&str> = rows.iter().map(|row| evaluation.set.classes[row.class].as_str()).collect();
        let axis = Axis::new(Scale::padded(lo, hi), axis_name(name), 5);
        let chart = RowChart::new(below, axis, &names, (0.32, 8.0));
        let frame = &chart.frame;
        let step = chart.step;
        let thickness = (step * 0.42).min(4.4);
        let color = theme.series(0);
        for (at, row) in rows.iter().enumerate() {
            let y = chart.name(&mut scene, theme, at, names[at]);
            let [p5, p25, _, p75, p95] = row.quantiles.map(|v| frame.x(v));
            if let Some((low, high)) = null(row) {
                let (low, high) = (frame.x(low), frame.x(high));
                scene.fill(Box2::new(low, y - step / 2.0, (high - low).max(1.0), step), theme.band);
            }
            scene.line(vec![[p5, y], [p95, y]], Stroke::new(pt::LINE, color));
            let half = Box2::new(p25, y - thickness / 2.0, (p75 - p25).max(0.5), thickness);
            scene.fill(half, color.alpha(0.55));
            let (radius, ring) = ((thickness * 0.55).max(1.5), Stroke::new(0.7, theme.ground));
            scene.dot([frame.x(row.mean), y], radius, color, Some(ring));
            scene.target(Box2::new(0.0, y - step / 2.0, size.width, step), Identity::Item(row.class));
        }
        if let Some((at, left_out)) = gap {
            let y = frame.area.y + at as f32 * step;
            let line = Stroke::new(pt::HAIR, theme.muted).dashed(2.0, 2.0);
            scene.line(vec![[frame.area.x, y], [frame.area.right(), y]], line);
            let classes = if left_out == 1 { "class" } else { "classes" };
            let text = format!("{left_out} {classes} between");
            scene.text_mid([frame.area.right(), y - 4.0], text, pt::TICK, theme.muted, Anchor::End);
        }
        frame.axes(&mut scene, theme);
        Ok(scene)
    }

    fn table(&self, plot: &EvaluationPlot) -> Table {
        let (evaluation, name) = (&*plot.evaluation, measure(&plot.evaluation, &plot.choice.measure));
        let rows = evaluation.by_class(name);
        let quantile = |at: usize| rows.iter().map(move |row| row.quantiles[at]);
        let unknown = (f64::NAN, f64::NAN);
        let null = evaluation.nulls.get(name).copied().unwrap_or(unknown);
        let mean_band = |row: &ClassRow| evaluation.mean_null(name, row.count).unwrap_or(unknown);
        Table::default()
            .words("class", rows.iter().map(|row| evaluation.set.classes[row.class].clone()))
            .words("measure", rows.iter().map(|_| name.to_owned()))
            .numbers("images", rows.iter().map(|row| row.count as f64))
            .numbers("p05", quantile(0))
            .numbers("p25", quantile(1))
            .numbers("median", quantile(2))
            .numbers("p75", quantile(3))
            .numbers("p95", quantile(4))
            .numbers("null_p05", rows.iter().map(|_| null.0))
            .numbers("null_p95", rows.iter().map(|_| null.1))
            .numbers("mean", rows.iter().map(|row| row.mean))
            .numbers("mean_null_p05", rows.iter().map(|row| mean_band(row).0))
            .numbers("mean_null_p95", rows.iter().map(|row| mean_band(row).1))
    }

    fn item(&self, plot: &EvaluationPlot, item: usize) -> (String, Vec<usize>) {
        let (evaluation, set) = (&*plot.evaluation, &plot.evaluation.set);
        let of = |at: &usize| set.class[*at] as usize == item;
        let images: Vec<usize> = (0..evaluation.len()).filter(of).collect();
        let name = measure(evaluation, &plot.choice.measure);
        let values = evaluation.values(name).unwrap_or_default();
        let row = ClassRow::new(item, images.iter().filter_map(|at| values.get(*at).copied()));
        let numbers = row.map_or_else(String::new, |row| {
            let [low, .., high] = row.quantiles.map(number);
            format!("\n{}: mean {}, 5 to 95 % of images {low} to {high}", label(name), number(row.mean))
        });
        (set.classes.get(item).cloned().unwrap_or_default() + &numbers, images)
    }
}
