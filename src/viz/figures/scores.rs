//! The standardised scores by which the router sorts: from the lowest up, and their histogram, beside the
//! standard normal they would follow by chance. Differences are taken token by token, without a chance level.

use crate::viz::draw::order::ascending;
use crate::viz::figures::prelude::*;
use crate::viz::lacking;

pub struct Scores;

/// Bins of the histogram.
const BINS: usize = 24;

fn no_scores(trace: &Trace) -> String {
    // Of a difference whose other trace has scores, its own has none.
    let other = trace.minus.as_ref().is_some_and(|minus| minus.scores.is_none());
    format!("{} has no token scores", lacking(trace, other).head)
}

impl Figure for Scores {
    fn info(&self) -> Info {
        Info {
            id: "scores",
            title: "Scores",
            about: "The standardised token scores, sorted, and their spread against a standard normal",
            tab: TabGroup::Evidence.tab(),
        }
    }

    fn properties(&self) -> Properties {
        Properties { compares_tokens: true, ..Properties::default() }
    }

    fn height(&self, _: &Trace, _: &Options, width: f32) -> f32 {
        width * 0.5
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        trace.scores.is_none().then(|| Empty(no_scores(trace)))
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        extent(trace.scores.as_ref()?.iter().map(|&s| f64::from(s)))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let none = || Empty(no_scores(trace));
        let scores: Vec<f64> =
            trace.scores.as_ref().ok_or_else(none)?.iter().map(|&s| f64::from(s)).collect();
        let n = scores.len();
        let order = ascending(&scores);
        let (lo, hi) = options.limits.or_else(|| self.limits(trace)).unwrap_or((-1.0, 1.0));
        let is_difference = trace.minus.is_some();
        let y = if is_difference { around_zero((1.05 * lo, 1.05 * hi)) } else { Scale::padded(lo, hi) };
        let mut scene = Scene::new(size.width, size.height, "Token scores", theme.background);
        let normal = Stroke::new(pt::LINE, theme.series(1)).dashed(3.0, 2.0);
        let key = [(Mark::Dot(theme.series(0)), "Tokens"), (Mark::Line(normal), "Standard normal")];
        let key = if is_difference { &key[..1] } else { &key };
        let below = legend::above(&mut scene, theme, size, key);
        let outer = Box2 { w: size.width * 0.68, ..below };
        let long = ["Rank by score (the highest is read last)", "Score (standardised)"];
        // In a narrow cell the long name would run into that of the density.
        let fits = font::width(long[0], pt::LABEL) <= outer.w;
        let [rank, score] = if fits { long } else { ["Rank by score", "Score"] };
        let rank = if is_difference { "Rank by Δ score" } else { rank };
        let y_axis = Axis::new(y, label(trace, score), 5);
        let frame = Frame::fit(outer, Axis::positions(n, rank), y_axis);
        frame.grid(&mut scene, theme);
        if is_difference {
            frame.zero_line(&mut scene, theme);
        }
        let is_shown = |score: f64| y.lo <= score && score <= y.hi;
        for (k, &i) in order.iter().enumerate().filter(|(_, i)| is_shown(scores[**i])) {
            scene.dot(frame.at(k as f64, scores[i]), 0.9, theme.series(0), None);
        }
        frame.strips(&mut scene, n, |k| Identity::Token(order[k]));
        frame.axes(&mut scene, theme);

        // Beside it, on the same vertical axis: the histogram of the scores, as a density.
        let bin_width = (y.hi - y.lo) / BINS as f64;
        let mut counts = [0usize; BINS];
        for s in scores.iter().filter(|s| is_shown(**s)) {
            counts[(((s - y.lo) / bin_width) as usize).min(BINS - 1)] += 1;
        }
        let density = |count: usize| count as f64 / (n as f64 * bin_width);
        let normal_density = |s: f64| (-0.5 * s * s).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let floor = if is_difference { 0.0 } else { 0.4 };
        let top = counts.iter().map(|&c| density(c)).fold(floor, f64::max);
        let x_axis = Axis::new(Scale::linear(0.0, top * 1.05), "Density", 2);
        // The last label of the one axis and the first of the other need space side by side.
        let ticks = [frame.x.texts().pop(), x_axis.texts().into_iter().next()];
        let gap: f32 = ticks.iter().flatten().map(|(_, text)| font::width(text, pt::TICK) / 2.0).sum();
        let last = ticks[0].as_ref().map_or(frame.area.x, |(tick, _)| frame.x(*tick));
        let x = (frame.area.right() + 3.0 * pt::GAP).max(last + gap + pt::GAP);
        let right = Box2 { x, ..frame.area };
        let right = Box2 { w: size.width - right.x - 3.0, ..right };
        let side = Frame { area: right, x: x_axis, y: Axis::new(y, "", 0), keys: Keys::Own };
        for (b, &count) in counts.iter().enumerate() {
            let [x, upper] = side.at(density(count), y.lo + (b + 1) as f64 * bin_width);
            let lower = side.y(y.lo + b as f64 * bin_width);
            let bar = Box2::new(right.x, upper, x - right.x, lower - upper - 0.4);
            scene.fill(bar, theme.series(0).alpha(0.8));
        }
        let curve = (0..=96).map(|i| y.lo + (y.hi - y.lo) * f64::from(i) / 96.0);
        if !is_difference {
            scene.line(curve.map(|s| side.at(normal_density(s), s)).collect(), normal);
        }
        side.axes(&mut scene, theme);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        Table::counted("token", trace.grid.len()).optional(&head(trace, "score"), trace.scores.as_deref())
    }
}
