//! The soft permutation `P` as an image: one row per token, one column per position, the position read last at the right.
//! Strips at the edges show how far every row sum and column sum is from 1. A difference `P - P'` has the row order of `P'`,
//! a colour scale centred at zero, and sums that are compared with 0.

use std::borrow::Cow;
use std::sync::Arc;

use crate::model::trace::{Matrix, Routing};
use crate::viz::difference;
use crate::viz::draw::{order::argmax, order::ascending, order::expected, order::rows};
use crate::viz::figures::prelude::*;
use crate::viz::{Rows, lacks_plan, no_plan};

/// Thickness of the strip of row sums or column sums.
const STRIP_PT: f32 = 9.0;

pub struct Assignment;

fn plan(trace: &Trace) -> Result<Cow<'_, Matrix>, Empty> {
    difference::plan(trace).ok_or_else(|| no_plan(trace))
}

/// The token of every row, and the axis name; of a difference those of the subtracted trace, so that all columns share them.
fn row_order(trace: &Trace, order: Rows) -> (Vec<usize>, &'static str) {
    let source = trace.minus.as_deref().unwrap_or(trace);
    let name = |own: &'static str, other: &'static str| if trace.minus.is_some() { other } else { own };
    match (order, &source.scores, &source.routing) {
        (Rows::Score, Some(scores), _) => {
            let scores: Vec<f64> = scores.iter().map(|&s| f64::from(s)).collect();
            (ascending(&scores), name("Token (by score)", "Token (by the other's score)"))
        }
        (Rows::Argmax | Rows::Score, _, Routing::Plan(plan)) => {
            let (best, mean) = (argmax(plan), expected(source, plan));
            let mut order = ascending(&mean);
            order.sort_by_key(|&i| best[i]); // stable: equal best positions keep the order of their means
            (order, name("Token (by its best position)", "Token (by the other's best position)"))
        }
        _ => ((0..trace.grid.len()).collect(), "Token (raster)"),
    }
}

/// The value furthest from zero, with its sign.
fn largest(plan: &Matrix) -> f32 {
    plan.data.iter().copied().fold(0.0, |a: f32, b| if b.abs() > a.abs() { b } else { a })
}

impl Figure for Assignment {
    fn info(&self) -> Info {
        Info {
            id: "assignment",
            title: "Assignment matrix",
            about: "The soft permutation: the share of every token (row) at every position (column, the last read at the right)",
            tab: TabGroup::Plan.tab(),
        }
    }

    fn controls(&self, trace: &Trace) -> &'static [Control] {
        let own = trace.minus.is_none();
        if own { &[Control::Rows, Control::Log, Control::Map] } else { &[Control::Rows] }
    }

    fn properties(&self) -> Properties {
        Properties {
            compares_tokens: true,
            marks_step: true,
            shares_keys: true,
            least_width: 64.0,
            ..Properties::default()
        }
    }

    fn height(&self, _: &Trace, _: &Options, width: f32) -> f32 {
        width * 0.87
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        lacks_plan(trace)
    }

    /// The N/4 largest of the `N^2` shares are above the upper limit and all get the brightest colour: a scale up to the
    /// largest would leave the others too dark. A difference has the same limit, of absolute values, on both sides of zero.
    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        let plan = plan(trace).ok()?;
        let (lo, _) = extent(plan.data.iter().map(|&p| f64::from(p)))?;
        let mut shares: Vec<f32> = plan.data.iter().copied().filter(|p| p.is_finite()).collect();
        if trace.minus.is_some() {
            shares.iter_mut().for_each(|p| *p = p.abs());
        }
        let rank = shares.len().saturating_sub(1 + plan.rows / 4);
        let (_, hi, _) = shares.select_nth_unstable_by(rank, f32::total_cmp);
        let hi = f64::from(*hi);
        Some((if trace.minus.is_some() { -hi } else { lo }, hi))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let plan = &*plan(trace)?;
        let n = plan.rows;
        let is_difference = trace.minus.is_some();
        let (order, name) = row_order(trace, options.rows);
        let (lo, hi) = options.limits.or_else(|| self.limits(trace)).unwrap_or((0.0, 1.0));
        let log = options.log && !is_difference;
        let shares = match (is_difference, log) {
            (true, _) => around_zero((lo, hi)),
            (_, true) => Scale::log(lo, hi, 4),
            (_, false) => Scale::linear(0.0, hi),
        };
        let mut scene = Scene::new(size.width, size.height, "Assignment matrix", theme.background);
        let largest = f64::from(largest(plan));
        let scale_name = label(trace, if log { "Share, logarithmic" } else { "Share" });
        let keys = options.keys;
        let clipped = largest.abs() > shares.hi * 1.001;
        let largest = difference::value(trace, largest);
        let bar_name = if clipped && !keys.are_shared() {
            format!("{scale_name} (largest {largest})")
        } else {
            scale_name.clone()
        };
        let bar = keys.bar_axis(Axis::new(shares, bar_name, 4), size.height);
        let residuals = Residuals::new(plan, if is_difference { 0.0 } else { 1.0 });
        let worst = number(residuals.largest());
        let (sums, sums_unnumbered) = match is_difference {
            true => {
                (format!("Δ of row and column sums: at most {worst}"), "Δ of row and column sums, its size")
            }
            false => {
                (format!("Row and column sums: off by at most {worst}"), "Row and column sums: how far off 1")
            }
        };
        let key = if keys.are_shared() { sums_unnumbered } else { &sums };
        let key = [(Mark::Patch(theme.series(0)), key)];
        let top = keys.legend(&mut scene, theme, [0.0, 0.0], size.width, &key) + STRIP_PT + 1.0;
        if keys.are_shared() {
            scene.deferred.foot = match is_difference {
                true => format!("Largest {scale_name} {largest}, Δ of sums at most {worst}"),
                false => format!("Largest share {largest}, sums off by at most {worst}"),
            };
        }
        let beside = keys.bar_room(&bar) + STRIP_PT + 3.0;
        let outer = Box2::new(0.0, top, size.width - beside, size.height - top);
        let downwards = Scale::linear(-0.5, n as f64 - 0.5).reversed();
        let y = Axis::counts(downwards, name, 4).up_to(n);
        let x = Axis::positions(n, "Position (last is read last)");
        let frame = Frame::keyed(outer, (x, y), keys);
        let area = frame.area;
        let color = |t: f32| options.map.on_scale(theme, is_difference, t);
        let data = &plan.data;
        let pixels = order.iter().flat_map(|&i| data[i * n..(i + 1) * n].iter());
        let raster = Raster::new(n, n, pixels.map(|&p| color(shares.at(f64::from(p)))));
        let identity = Identity::Plan { rows: Arc::from(order.as_slice()), positions: n };
        scene.image(area, raster, false, Some(identity));
        scene.outline(area, Stroke::new(pt::HAIR, theme.axis));
        frame.axes(&mut scene, theme);
        residuals.draw(&mut scene, theme, area, &order);
        let beside = Box2 { w: area.w + STRIP_PT + 3.0, ..area };
        keys.color_bar(&mut scene, theme, beside, &bar, color);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let table = Table::counted("token", trace.grid.len())
            .optional(&head(trace, "score"), trace.scores.as_deref());
        let (Ok(plan), Some(positions)) = (plan(trace), difference::positions(trace)) else { return table };
        let table = match trace.minus {
            Some(_) => table,
            None => table.numbers("best_position", argmax(&plan).into_iter().map(|k| k as f64)),
        };
        table
            .numbers(&head(trace, "expected_position"), positions)
            .matrix(&head(trace, "plan"), plan.into_owned())
    }
}

/// How far the sums of the plan are from 1, or those of a difference from 0.
struct Residuals {
    /// By token.
    rows: Vec<f64>,
    /// By position.
    columns: Vec<f64>,
    /// The value drawn at full length: the largest of both strips, so that a normalised side looks flat, and at least 0.01, so
    /// that float32 rounding does too.
    full_scale: f64,
}

impl Residuals {
    fn new(plan: &Matrix, exact_sum: f64) -> Self {
        let (mut row_sums, mut column_sums) = (vec![-exact_sum; plan.rows], vec![-exact_sum; plan.cols]);
        for (i, row) in rows(plan).enumerate() {
            for (k, &p) in row.iter().enumerate() {
                row_sums[i] += f64::from(p);
                column_sums[k] += f64::from(p);
            }
        }
        let [rows, columns] =
            [row_sums, column_sums].map(|v| v.into_iter().map(f64::abs).collect::<Vec<_>>());
        let full_scale = rows.iter().chain(&columns).copied().fold(0.01, f64::max);
        Self { rows, columns, full_scale }
    }

    fn largest(&self) -> f64 {
        self.rows.iter().chain(&self.columns).copied().fold(0.0, f64::max)
    }

    /// Draws the deviations of row sums right of `area`, those of column sums above it; `order` is the token of every row.
    fn draw(&self, scene: &mut Scene, theme: &Theme, area: Box2, order: &[usize]) {
        let n = order.len() as f32;
        let length = |off: f64| (off / self.full_scale) as f32 * (STRIP_PT - 1.0);
        let (right, above) = (area.right() + 2.0, area.y - 2.0);
        let mut outline = vec![[right, area.y]];
        for (r, &i) in order.iter().enumerate() {
            let (x, y) = (right + length(self.rows[i]), area.y + r as f32 / n * area.h);
            outline.extend([[x, y], [x, y + area.h / n]]);
        }
        outline.push([right, area.bottom()]);
        scene.polygon(outline, theme.series(0));
        let mut outline = vec![[area.x, above]];
        for (k, &off) in self.columns.iter().enumerate() {
            let (x, y) = (area.x + k as f32 / n * area.w, above - length(off));
            outline.extend([[x, y], [x + area.w / n, y]]);
        }
        outline.push([area.right(), above]);
        scene.polygon(outline, theme.series(0));
        let hair = Stroke::new(pt::HAIR, theme.axis);
        scene.line(vec![[right, area.y], [right, area.bottom()]], hair);
        scene.line(vec![[area.x, above], [area.right(), above]], hair);
    }
}
