//! One measure over the images of every class: median as a dot, the middle half as a bar, the middle
//! nine tenths as a line; behind them what chance gives for a single image (5th to 95th percentile).

use super::{Control, Overview, View, label, measure};
use crate::model::explain::evaluation::{ClassRow, Evaluation};
use crate::viz::draw::{
    Anchor, Axis, Box2, Identity, Mark, RowChart, Scale, Scene, Stroke, Table, Theme, extent, legend,
};
use crate::viz::{Empty, Info, Size, TabGroup};

/// Height of one class.
const ROW_PT: f32 = 10.5;
/// Most classes drawn: the lowest and the highest of more.
const MAX_CLASSES: usize = 40;
/// Room for key and axis.
const MARGINS_PT: f32 = 38.0;

pub struct ClassDiagnostics;

/// The classes that are drawn, highest median first, and how many lie between the two halves.
fn rows(evaluation: &Evaluation, measure: &str) -> (Vec<ClassRow>, usize) {
    let mut rows = evaluation.by_class(measure);
    rows.sort_by(|a, b| b.quantiles[2].total_cmp(&a.quantiles[2]).then(a.class.cmp(&b.class)));
    let left_out = rows.len().saturating_sub(MAX_CLASSES);
    if left_out > 0 {
        rows.drain(MAX_CLASSES / 2..MAX_CLASSES / 2 + left_out);
    }
    (rows, left_out)
}

impl Overview for ClassDiagnostics {
    fn info(&self) -> Info {
        Info {
            id: "class_diagnostics",
            title: "By class",
            about: "A measure over the images of every class, beside what chance gives for one image",
            tab: TabGroup::Classes.tab(),
        }
    }

    fn controls(&self) -> &'static [Control] {
        &[Control::Measure]
    }

    fn height(&self, view: View<'_>, _: f32) -> f32 {
        let rows = rows(view.evaluation, measure(view.evaluation, &view.choice.measure)).0.len();
        rows.max(3) as f32 * ROW_PT + MARGINS_PT
    }

    fn scene(&self, view: View<'_>, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let (evaluation, name) = (view.evaluation, measure(view.evaluation, &view.choice.measure));
        let (rows, left_out) = rows(evaluation, name);
        if rows.is_empty() {
            return Err(Empty(format!("No image has a {}", label(name).to_lowercase())));
        }
        let mut scene = Scene::new(size.width, size.height, "Measure by class", theme.background);
        let null = evaluation.nulls.get(name).copied();
        let ends = rows.iter().flat_map(|row| [row.quantiles[0], row.quantiles[4]]);
        let (lo, hi) = extent(ends.chain(null.into_iter().flat_map(|(a, b)| [a, b]))).unwrap_or((0.0, 1.0));
        let mut key = vec![
            (Mark::Dot(theme.series(0)), "Median"),
            (Mark::Patch(theme.series(0)), "Middle half"),
            (Mark::Line(Stroke::new(theme.line, theme.series(0))), "5 to 95 % of images"),
        ];
        if null.is_some() {
            key.push((Mark::Patch(theme.band), "Chance for one image"));
        }
        let below = legend::above(&mut scene, theme, size, &key);
        let names: Vec<&str> = rows.iter().map(|row| evaluation.asked.classes[row.class].as_str()).collect();
        let axis = Axis::new(Scale::padded(lo, hi), label(name), 5);
        // The last number may stand half beyond its axis.
        let chart = RowChart::new(below, axis, &names, (0.32, 8.0), theme);
        let frame = &chart.frame;
        if let Some(null) = null {
            frame.band(&mut scene, null, theme.band);
        }
        let step = chart.step;
        let thick = (step * 0.42).min(4.4);
        let color = theme.series(0);
        for (at, row) in rows.iter().enumerate() {
            let y = chart.name(&mut scene, theme, at, names[at]);
            let [p5, p25, p50, p75, p95] = row.quantiles.map(|v| frame.x(v));
            scene.line(vec![[p5, y], [p95, y]], Stroke::new(theme.line, color));
            scene.fill(Box2::new(p25, y - thick / 2.0, (p75 - p25).max(0.5), thick), color.alpha(0.55));
            scene.dot([p50, y], (thick * 0.55).max(1.5), color, Some(Stroke::new(0.7, theme.ground)));
            scene.target(Box2::new(0.0, y - step / 2.0, size.width, step), Identity::Item(row.class));
        }
        if left_out > 0 {
            let y = frame.area.y + (MAX_CLASSES / 2) as f32 * step;
            let line = Stroke::new(theme.hair, theme.muted).dashed(2.0, 2.0);
            scene.line(vec![[frame.area.x, y], [frame.area.right(), y]], line);
            let text = format!("{left_out} classes between");
            scene.text_mid([frame.area.right(), y - 4.0], text, theme.tick, theme.muted, Anchor::End);
        }
        frame.axes(&mut scene, theme);
        Ok(scene)
    }

    fn table(&self, view: View<'_>) -> Table {
        let (evaluation, name) = (view.evaluation, measure(view.evaluation, &view.choice.measure));
        let rows = evaluation.by_class(name);
        let quantile = |at: usize| rows.iter().map(move |row| row.quantiles[at]);
        let null = evaluation.nulls.get(name).copied().unwrap_or((f64::NAN, f64::NAN));
        Table::default()
            .words("class", rows.iter().map(|row| evaluation.asked.classes[row.class].clone()))
            .words("measure", rows.iter().map(|_| name.to_owned()))
            .numbers("images", rows.iter().map(|row| row.count as f64))
            .numbers("p05", quantile(0))
            .numbers("p25", quantile(1))
            .numbers("median", quantile(2))
            .numbers("p75", quantile(3))
            .numbers("p95", quantile(4))
            .numbers("null_p05", rows.iter().map(|_| null.0))
            .numbers("null_p95", rows.iter().map(|_| null.1))
    }

    fn item(&self, view: View<'_>, item: usize) -> (String, Vec<usize>) {
        let asked = &view.evaluation.asked;
        let images = (0..view.evaluation.len()).filter(|at| asked.class[*at] as usize == item).collect();
        (asked.classes.get(item).cloned().unwrap_or_default(), images)
    }
}
