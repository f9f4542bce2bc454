//! How many tokens have each position as their best (argmax), with the edges that `edge_mass_10`
//! counts marked, and below it the rank diagnostics, each beside its null band.

use super::diagnostics::{self, strips};
use super::strip::Strip;
use crate::model::trace::Routing;
use crate::viz::draw::{bars, order::argmax};
use crate::viz::figures::prelude::*;
use crate::viz::readout;
use crate::viz::{lacks_plan, no_plan};

pub struct Ranks;

/// Names of the diagnostics below the histogram.
const SHOWN: [&str; 5] = ["rank_coverage", "argmax_entropy", "edge_mass_10", "row_max_mean", "row_max_p95"];

/// Height of `rows` diagnostics with their headings and key, and of the gap above them, in points.
fn strips_height(rows: f32) -> f32 {
    rows * 12.0 + 30.0
}

/// Number of tokens by best position; of a difference, minus that in the other trace. `None` without a plan.
fn histogram(trace: &Trace) -> Option<Vec<f64>> {
    let Routing::Plan(plan) = &trace.routing else { return None };
    let mut counts = vec![0.0; plan.cols];
    for k in argmax(plan) {
        counts[k] += 1.0;
    }
    if let Some(minus) = &trace.minus {
        counts.iter_mut().zip(histogram(minus)?).for_each(|(own, other)| *own -= other);
    }
    Some(counts)
}

/// How many positions at either end are the edges.
fn edge(n: usize) -> usize {
    (n / 10).max(1)
}

/// The colours of bars: of a difference, of those above zero and of those below.
fn colors(trace: &Trace, theme: &Theme) -> [Color; 2] {
    if trace.minus.is_some() { [theme.positive, theme.negative] } else { [theme.series(0); 2] }
}

/// The entries of the legend.
fn key(trace: &Trace, theme: &Theme) -> Vec<(Mark, String)> {
    let [more, fewer] = colors(trace, theme).map(Mark::Patch);
    let edge_name = match edge(trace.grid.len()) {
        1 => "First and last position".to_owned(),
        edge => format!("First and last {edge} positions"),
    };
    let fewer = trace.minus.as_ref().map(|_| (fewer, "Fewer".to_owned()));
    let bars = (more, label(trace, "Tokens by best position"));
    std::iter::once(bars).chain(fewer).chain([(Mark::Patch(theme.band), edge_name)]).collect()
}

/// The diagnostics below the histogram that the trace has.
fn rank_strips(trace: &Trace) -> Vec<Strip> {
    SHOWN.iter().filter_map(|name| Strip::from_trace(trace, name)).collect()
}

impl Figure for Ranks {
    fn info(&self) -> Info {
        Info {
            id: "ranks",
            title: "Rank use",
            about: "How many tokens have each position as their best, and the rank diagnostics against chance",
            tab: TabGroup::Plan.tab(),
        }
    }

    fn height(&self, trace: &Trace, _: &Options, width: f32) -> f32 {
        let strips = rank_strips(trace).len() as f32;
        width * 0.3 + 40.0 + if strips > 0.0 { strips_height(strips) } else { 0.0 }
    }

    fn legend_lines(&self, trace: &Trace, width: f32) -> usize {
        legend::lines(width, &key(trace, &Theme::light()))
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        lacks_plan(trace)
    }

    fn readout(&self, trace: &Trace, hover: Hover) -> Readout {
        match hover.item {
            Some(at) => rank_strips(trace).get(at).map(diagnostics::readout).unwrap_or_default(),
            None => readout::readout(trace, hover),
        }
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        let (low, high) = extent(histogram(trace)?)?;
        Some((low.min(0.0), high))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let counts = histogram(trace).ok_or_else(|| no_plan(trace))?;
        let n = counts.len();
        let strip_data = rank_strips(trace);
        let under = if strip_data.is_empty() { 0.0 } else { strips_height(strip_data.len() as f32) };
        let mut scene = Scene::new(size.width, size.height, "Rank use", theme.background);
        let (edge, is_difference) = (edge(n), trace.minus.is_some());
        let [more, fewer] = colors(trace, theme);
        let room = legend::above(&mut scene, theme, size, &key(trace, theme));
        let room = options.keys.below_legend(room);
        let (low, high) = options.limits.or_else(|| self.limits(trace)).unwrap_or_default();
        let top = high.max(1.0);
        let scale = match is_difference {
            true => around_zero((1.04 * low, 1.04 * top)),
            false => Scale::linear(0.0, top * 1.04),
        };
        let y = Axis::counts(scale, label(trace, "Tokens"), 4);
        let outer = Box2 { h: (room.h - under).max(0.0), ..room };
        let frame = Frame::fit(outer, Axis::positions(n, "Best position (the last is read last)"), y);
        let area = frame.area;
        let cell = area.w / n as f32;
        for x in [area.x, area.right() - edge as f32 * cell] {
            scene.fill(Box2::new(x, area.y, edge as f32 * cell, area.h), theme.band.alpha(0.55));
        }
        frame.grid(&mut scene, theme);
        let values: Vec<f32> = counts.iter().map(|count| *count as f32).collect();
        let spans = bars::spans(&values, area.x, cell);
        let zero = frame.y(0.0);
        for (&count, (left, width)) in counts.iter().zip(spans).filter(|(count, _)| **count != 0.0) {
            // Beyond limits that were set, a bar ends at the edge.
            let end = frame.y(count).max(area.y).min(area.bottom());
            let bar = Box2::new(left, zero.min(end), width, (zero - end).abs());
            scene.fill(bar, if count > 0.0 { more } else { fewer });
        }
        if is_difference {
            frame.zero_line(&mut scene, theme);
        }
        frame.strips(&mut scene, n, Identity::Position);
        frame.axes(&mut scene, theme);
        if !strip_data.is_empty() {
            let rect = Box2::new(0.0, size.height - under + 4.0, size.width, under - 4.0);
            strips(&mut scene, theme, rect, &strip_data);
        }
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let counts = histogram(trace).unwrap_or_default();
        Table::counted("position", counts.len()).numbers(&head(trace, "tokens"), counts)
    }
}
