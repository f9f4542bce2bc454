//! Where tokens are sent: how many have each position as their best (argmax), with the edges
//! counted by `edge_mass_10` marked, and the four rank diagnostics, each beside its null band.

use super::diagnostics::{self, Strip, strips};
use crate::model::trace::{Routing, Trace};
use crate::viz::draw::{
    Axis, Box2, Frame, Hover, Identity, Mark, Readout, Scale, Scene, Table, Theme, bars, legend,
    order::argmax, readout,
};
use crate::viz::{Empty, Figure, Info, Options, Size, TabGroup, no_plan};

pub struct Ranks;

/// Names of the diagnostics below the histogram.
const SHOWN: [&str; 5] = ["rank_coverage", "argmax_entropy", "edge_mass_10", "row_max_mean", "row_max_p95"];

/// Height of so many rows, their heads and key, and of the gap above them.
fn under(rows: f32) -> f32 {
    rows * 12.0 + 30.0
}

/// How many tokens have each position as their best.
fn histogram(trace: &Trace) -> Option<Vec<usize>> {
    let Routing::Plan(plan) = &trace.routing else { return None };
    let mut counts = vec![0; plan.cols];
    for k in argmax(plan) {
        counts[k] += 1;
    }
    Some(counts)
}

/// The strips below, of what the trace has.
fn below(trace: &Trace) -> Vec<Strip> {
    SHOWN.iter().filter_map(|name| Strip::new(name, trace.diagnostics.get(*name)?)).collect()
}

impl Figure for Ranks {
    fn info(&self) -> Info {
        Info {
            id: "ranks",
            title: "Rank use",
            about: "How many tokens have each position as their best, and the rank diagnostics beside what chance gives",
            tab: TabGroup::Plan.tab(),
        }
    }

    fn height(&self, trace: &Trace, _: &Options, width: f32) -> f32 {
        let strips = below(trace).len() as f32;
        width * 0.3 + 40.0 + if strips > 0.0 { under(strips) } else { 0.0 }
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        (!matches!(trace.routing, Routing::Plan(_))).then(|| no_plan(trace))
    }

    fn readout(&self, trace: &Trace, hover: Hover) -> Readout {
        match hover.item {
            Some(at) => below(trace).get(at).map(diagnostics::readout).unwrap_or_default(),
            None => readout::readout(trace, hover),
        }
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        Some((0.0, histogram(trace)?.into_iter().max()? as f64))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let counts = histogram(trace).ok_or_else(|| no_plan(trace))?;
        let n = counts.len();
        let strip_data = below(trace);
        let under = if strip_data.is_empty() { 0.0 } else { under(strip_data.len() as f32) };
        let mut scene = Scene::new(size.width, size.height, "Rank use", theme.background);
        let edge = (n / 10).max(1);
        let edge_name = format!("First and last {edge} positions");
        let entries = [
            (Mark::Patch(theme.series(0)), "Tokens by best position"),
            (Mark::Patch(theme.band), &*edge_name),
        ];
        let room = legend::above(&mut scene, theme, size, &entries);
        let most = options.limits.or_else(|| self.limits(trace)).map_or(1.0, |(_, hi)| hi.max(1.0));
        let y = Axis::counts(Scale::linear(0.0, most * 1.04), "Tokens", 4);
        let outer = Box2 { h: (room.h - under).max(0.0), ..room };
        let frame = Frame::fit(outer, Axis::positions(n, "Best position (the last is read last)"), y, theme);
        let area = frame.area;
        let cell = area.w / n as f32;
        for x in [area.x, area.right() - edge as f32 * cell] {
            scene.fill(Box2::new(x, area.y, edge as f32 * cell, area.h), theme.band.alpha(0.55));
        }
        frame.grid(&mut scene, theme);
        let values: Vec<f32> = counts.iter().map(|count| *count as f32).collect();
        let spans = bars::spans(&values, area.x, cell);
        for (&count, (left, width)) in counts.iter().zip(spans).filter(|(count, _)| **count > 0) {
            let top = frame.y(count as f64);
            scene.fill(Box2::new(left, top, width, area.bottom() - top), theme.series(0));
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
        Table::counted("position", counts.len()).numbers("tokens", counts.into_iter().map(|c| c as f64))
    }
}
