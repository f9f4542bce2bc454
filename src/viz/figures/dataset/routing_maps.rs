//! Mean position or mean weight of every token over the images of a class: one small map per class, all on one scale. If there
//! are more classes than are drawn, those whose maps are furthest from the map of all classes are picked, and come first.
//!
//! Chance: the mean of `n` random orders lies within `1/2 ± 1.645 / sqrt(12 n)` for nine of ten tokens.

use super::{ClassSort, Control, MapOf, Overview, Picked, no_class};
use crate::model::explain::evaluation::vectors::SHUFFLED;
use crate::model::explain::evaluation::{ClassMaps, Evaluation};
use crate::model::trace::Matrix;
use crate::viz::figures::plot::EvaluationPlot;
use crate::viz::figures::prelude::*;

/// Width of a map if the height is free, in points.
const DEFAULT_MAP_PT: f32 = 58.0;
/// Smallest width of a map that can be read.
const MIN_MAP_PT: f32 = 40.0;
/// Largest width of a map.
const MAX_MAP_PT: f32 = 110.0;
/// Height of a line of text.
const LINE_PT: f32 = pt::TICK + 3.0;
/// Gap between maps.
const GAP_PT: f32 = 7.0;

pub struct RoutingMaps;

/// The maps of the selected quantity, or the message if the evaluation has none.
fn maps(plot: &EvaluationPlot) -> Result<&ClassMaps, Empty> {
    let evaluation = &*plot.evaluation;
    if evaluation.is_shuffled() {
        return Err(Empty(SHUFFLED.to_owned()));
    }
    let (maps, what) = match plot.choice.maps {
        MapOf::Positions => (&evaluation.positions, "reads its tokens in no single order"),
        MapOf::Weights => (&evaluation.weights, "gives tokens no single weight"),
    };
    let other = match plot.choice.maps {
        MapOf::Positions if evaluation.weights.is_some() => "; choose Weight to see how much they count",
        MapOf::Weights if evaluation.positions.is_some() => "; choose Position to see when they are read",
        _ => "",
    };
    maps.as_ref().ok_or_else(|| Empty(format!("{} {what}{other}", evaluation.head)))
}

/// The classes to draw; the difference of a class is the squared distance of its map from that of all classes.
fn classes(plot: &EvaluationPlot, maps: &ClassMaps) -> Picked {
    let (all, _) = maps.all();
    let distance = |class: usize| -> f64 {
        maps.of_class(class).iter().zip(&all).map(|(a, b)| f64::from(a - b).powi(2)).sum()
    };
    let candidates: Vec<usize> = (0..maps.counts.len()).filter(|class| maps.counts[*class] > 0).collect();
    let filter = &plot.choice.classes;
    let too_many = candidates.len() > filter.most.unwrap_or(usize::MAX);
    let default_sort = if too_many { ClassSort::Difference } else { ClassSort::Dataset };
    filter.pick(&plot.evaluation.set.classes, candidates, distance, default_sort)
}

/// The axis of the colour bar; centred at zero for weights of which some are negative.
fn bar(maps: &ClassMaps, drawn: &[usize], of: MapOf) -> Axis {
    let (all, _) = maps.all();
    let values = drawn.iter().flat_map(|class| maps.of_class(*class)).chain(&all).map(|v| f64::from(*v));
    let (lo, hi) = extent(values).unwrap_or((0.0, 1.0));
    let weights = || if lo < 0.0 { around_zero((lo, hi)) } else { Scale::linear(0.0, hi) };
    match of {
        MapOf::Positions => Axis::new(Scale::linear(lo, hi), "Mean position, 0 first to 1 last", 5),
        MapOf::Weights => Axis::new(weights(), "Mean weight, 1 as in GAP", 5),
    }
}

/// Number of columns and width of the largest maps of which `count` fit into `room` by `height`, each below a name `head` high.
fn tiles(count: usize, room: f32, height: f32, head: f32, aspect: f32) -> (usize, f32) {
    let width = |columns: usize| {
        let rows = count.div_ceil(columns) as f32;
        let side = (room + GAP_PT) / columns as f32 - GAP_PT;
        side.min((height / rows - GAP_PT - head) / aspect).clamp(4.0, MAX_MAP_PT)
    };
    let best = |a: &usize, b: &usize| width(*a).total_cmp(&width(*b)).then(b.cmp(a));
    let columns = (1..=count.max(1)).max_by(best).unwrap_or(1);
    (columns, width(columns))
}

/// How many of `count` maps, each at least `side` wide, fit side by side into `room`.
fn columns(room: f32, side: f32, count: usize) -> usize {
    (((room + GAP_PT) / (side + GAP_PT)) as usize).clamp(1, count)
}

/// The width for maps in a picture of this `width`, and their number: one for each class, and one for all.
fn room(plot: &EvaluationPlot, maps: &ClassMaps, width: f32) -> (f32, usize) {
    let drawn = classes(plot, maps).classes;
    let bar = bar(maps, &drawn, plot.choice.maps);
    (width - legend::bar_room(&bar) - 2.0, drawn.len() + 1)
}

/// Height of `rows` rows of maps, with names above them and the note below, in a picture of this `width`.
fn height_of_rows(plot: &EvaluationPlot, maps: &ClassMaps, (rows, side): (usize, f32), width: f32) -> f32 {
    let lines = note(plot, maps, &classes(plot, maps), width).len();
    let more = lines.saturating_sub(1) as f32 * LINE_PT;
    rows as f32 * (side * aspect(&plot.evaluation) + LINE_PT + GAP_PT) + pt::TICK + 4.0 + more
}

/// Height of a map over its width.
fn aspect(evaluation: &Evaluation) -> f32 {
    evaluation.grid.rows as f32 / evaluation.grid.cols.max(1) as f32
}

impl Overview for RoutingMaps {
    fn info(&self) -> Info {
        Info {
            id: "routing_maps",
            title: "Routing by class",
            about: "Where tokens come in the order, or how much they count, on average over the images of each class",
            tab: TabGroup::Routing.tab(),
        }
    }

    fn controls(&self) -> &'static [Control] {
        &[Control::Maps, Control::Map, Control::Classes]
    }

    fn depends_on(&self, plot: &EvaluationPlot, control: Control) -> bool {
        // Signed values have a colour map of their own; no position is negative.
        let scale = |maps| bar(maps, &classes(plot, maps).classes, plot.choice.maps).scale;
        control != Control::Map
            || plot.choice.maps == MapOf::Positions
            || !maps(plot).is_ok_and(|maps| scale(maps).lo < 0.0)
    }

    fn height(&self, plot: &EvaluationPlot, width: f32) -> f32 {
        let Ok(maps) = maps(plot) else { return 80.0 };
        let (room, count) = room(plot, maps, width);
        let columns = columns(room, DEFAULT_MAP_PT, count);
        let side = ((room + GAP_PT) / columns as f32 - GAP_PT).min(MAX_MAP_PT);
        height_of_rows(plot, maps, (count.div_ceil(columns), side), width)
    }

    fn legible(&self, plot: &EvaluationPlot, width: f32) -> Size {
        let Ok(maps) = maps(plot) else { return Size::default() };
        let (room, count) = room(plot, maps, width);
        let rows = count.div_ceil(columns(room, MIN_MAP_PT, count));
        Size { width: 0.0, height: height_of_rows(plot, maps, (rows, MIN_MAP_PT), width) }
    }

    fn scene(&self, plot: &EvaluationPlot, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let (evaluation, maps) = (&*plot.evaluation, maps(plot)?);
        let mut scene = Scene::new(size.width, size.height, "Routing by class", theme.background);
        if maps.counts.iter().all(|count| *count == 0) {
            return Err(Empty("No image could be read".to_owned()));
        }
        let picked = classes(plot, maps);
        if picked.classes.is_empty() {
            return Err(Empty(no_class(&plot.choice)));
        }
        let drawn = &picked.classes;
        let axis = bar(maps, drawn, plot.choice.maps).within(size.height);
        let signed = axis.scale.lo < 0.0;
        let color = |t: f32| plot.choice.map.on_scale(theme, signed, t);
        let note = note(plot, maps, &picked, size.width);
        let foot = note.len().max(1) as f32 * LINE_PT;
        let room = size.width - legend::bar_room(&axis) - 2.0;
        let head = LINE_PT;
        let (columns, side) = tiles(drawn.len() + 1, room, size.height - foot, head, aspect(evaluation));
        let rows = (drawn.len() + 1).div_ceil(columns);
        let (all, _) = maps.all();
        for at in 0..=drawn.len() {
            let class = at.checked_sub(1).map(|at| drawn[at]);
            let values = class.map_or(all.as_slice(), |class| maps.of_class(class));
            let name = class.map_or("All classes", |class| evaluation.set.classes[class].as_str());
            let x = (at % columns) as f32 * (side + GAP_PT);
            let y = (at / columns) as f32 * (side * aspect(evaluation) + head + GAP_PT);
            let rect = Box2::new(x, y + head, side, side * aspect(evaluation));
            let text = font::fit_middle(name, pt::TICK, side);
            scene.text([x, y + pt::TICK * font::CAP + 1.0], text, pt::TICK, theme.ink, Anchor::Start);
            let pixels = values.iter().map(|v| color(axis.scale.at(f64::from(*v))));
            let raster = Raster::new(evaluation.grid.cols, evaluation.grid.rows, pixels);
            scene.image(rect, raster, false, None);
            scene.target(rect, Identity::Item(class.unwrap_or(evaluation.set.classes.len())));
        }
        let bar_height =
            (rows as f32 * (side * aspect(evaluation) + head + GAP_PT) - head - GAP_PT).min(220.0);
        let right = (columns.min(drawn.len() + 1)) as f32 * (side + GAP_PT) - GAP_PT;
        legend::color_bar(&mut scene, theme, Box2::new(0.0, head, right, bar_height), &axis, color);
        let base = rows as f32 * (side * aspect(evaluation) + head + GAP_PT) + pt::TICK * font::CAP;
        for (at, words) in note.into_iter().enumerate() {
            let base = base + at as f32 * head;
            scene.text([0.0, base], words, pt::TICK, theme.muted, Anchor::Start);
        }
        Ok(scene)
    }

    fn table(&self, plot: &EvaluationPlot) -> Table {
        let Ok(maps) = maps(plot) else { return Table::default() };
        let classes = maps.counts.len();
        let matrix =
            Matrix { rows: classes, cols: maps.values.len() / classes.max(1), data: maps.values.clone() };
        let measure = if plot.choice.maps == MapOf::Weights { "mean_weight" } else { "mean_position" };
        Table::default()
            .words("class", plot.evaluation.set.classes.iter().cloned())
            .words("measure", vec![measure.to_owned(); classes])
            .numbers("images", maps.counts.iter().map(|count| f64::from(*count)))
            .matrix("token", matrix)
    }

    fn item(&self, plot: &EvaluationPlot, item: usize) -> (String, Vec<usize>) {
        let set = &plot.evaluation.set;
        let of = |at: &usize| item == set.classes.len() || set.class[*at] as usize == item;
        let name = set.classes.get(item).cloned().unwrap_or_else(|| "All classes".to_owned());
        (name, (0..plot.evaluation.len()).filter(of).collect())
    }
}

/// The note below the maps, in lines of at most `width` points: which classes are drawn if not all, and the range of mean positions
/// under random orders.
fn note(plot: &EvaluationPlot, maps: &ClassMaps, picked: &Picked, width: f32) -> Vec<String> {
    let picked_note = picked.note("furthest from all").unwrap_or_default();
    let fewest = picked.classes.iter().map(|class| maps.counts[*class]).min().unwrap_or(1).max(1);
    let chance = match plot.choice.maps {
        MapOf::Positions => {
            // The position of a token in one order is uniform, the mean of several nearly normal.
            let spread = if fewest == 1 { 0.45 } else { 1.645 / (12.0 * f64::from(fewest)).sqrt() };
            let [low, high] = [0.5 - spread, 0.5 + spread].map(|end| number((end * 1000.0).round() / 1000.0));
            let s = if fewest == 1 { "" } else { "s" };
            format!("Chance: {low} to {high} (5 to 95 %, mean of {fewest} random order{s})")
        }
        MapOf::Weights => String::new(),
    };
    let parts = [picked_note, chance].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    font::break_lines(&parts.join(". "), pt::TICK, width)
}
