//! The soft permutation `P` as an image: one row a token, one column a position, the last read at
//! the right. Strips at the edges show how far every row and column sum is from 1.

use std::sync::Arc;

use super::frame::{self, Axis, Frame};
use super::order::{argmax, ascending, expected, rows};
use super::scale::{Scale, extent, number};
use super::scene::{Anchor, Box2, Identity, Raster, Scene, Stroke};
use super::table::Table;
use super::theme::Theme;
use super::{Empty, Figure, Options, Rows, Size, no_order};
use crate::model::trace::{Matrix, Routing, Trace};

/// Width of a marginal strip.
const STRIP: f32 = 9.0;

/// The figure.
pub struct Assignment;

fn plan(trace: &Trace) -> Result<&Matrix, Empty> {
    match &trace.routing {
        Routing::Plan(plan) => Ok(plan),
        Routing::Orders(_) => {
            Err(Empty(format!("{} reads in a fixed order: see the reading order instead", trace.head)))
        }
        Routing::None => Err(no_order(trace)),
    }
}

/// The token of every row.
fn row_order(trace: &Trace, plan: &Matrix, order: Rows) -> (Vec<usize>, &'static str) {
    match (order, &trace.scores) {
        (Rows::Score, Some(scores)) => {
            let scores: Vec<f64> = scores.iter().map(|&s| f64::from(s)).collect();
            (ascending(&scores), "Token (by score)")
        }
        (Rows::Argmax | Rows::Score, _) => {
            let (best, mean) = (argmax(plan), expected(plan));
            let mut order = ascending(&mean);
            order.sort_by_key(|&i| best[i]); // stable: equal best positions stay by their mean
            (order, "Token (by its best position)")
        }
        (Rows::Raster, _) => ((0..plan.rows).collect(), "Token (raster)"),
    }
}

impl Figure for Assignment {
    fn id(&self) -> &'static str {
        "assignment"
    }

    fn title(&self) -> &'static str {
        "Assignment matrix"
    }

    fn about(&self) -> &'static str {
        "The soft permutation: the share of every token (row) at every position (column, the last read at the right)"
    }

    fn height(&self, _: &Trace, width: f32) -> f32 {
        width * 0.84
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        extent(plan(trace).ok()?.data.iter().map(|&p| f64::from(p)))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let plan = plan(trace)?;
        let n = plan.rows;
        let (order, name) = row_order(trace, plan, options.rows);
        let (lo, hi) = options.limits.or_else(|| self.limits(trace)).unwrap_or((0.0, 1.0));
        let shares = if options.log { Scale::log(lo, hi, 6) } else { Scale::linear(0.0, hi) };
        let mut scene = Scene::new(size.width, size.height, "Assignment matrix", theme.background);
        let bar = frame::bar_room(theme, shares, 4);
        let outer = Box2::new(0.0, STRIP + 3.0, size.width - bar - STRIP - 3.0, size.height - STRIP - 3.0);
        let downwards = Scale::linear(-0.5, n as f64 - 0.5).reversed();
        let y = Axis::new(downwards, name, 4);
        let frame = Frame::fit(outer, Axis::positions(n, "Position (last is read last)"), y, theme);
        let area = frame.area;
        let color = |t: f32| options.map.at(t);
        let data = &plan.data;
        let pixels = order.iter().flat_map(|&i| data[i * n..(i + 1) * n].iter());
        let raster = Raster::new(n, n, pixels.map(|&p| color(shares.at(f64::from(p)))));
        let identity = Identity::Plan { rows: Arc::from(order.as_slice()), positions: n };
        scene.image(area, raster, false, Some(identity));
        scene.outline(area, Stroke::new(theme.hair, theme.axis));
        frame.axes(&mut scene, theme);
        residuals(&mut scene, theme, area, plan, &order);
        let label = if options.log { "Share (logarithmic)" } else { "Share" };
        let beside = Box2 { w: area.w + STRIP + 3.0, ..area };
        frame::color_bar(&mut scene, theme, beside, &Axis::new(shares, label, 4), color);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let table = Table::counted("token", trace.grid.len()).optional("score", trace.scores.as_deref());
        match plan(trace) {
            Ok(plan) => table
                .numbers("best_position", argmax(plan).into_iter().map(|k| k as f64))
                .numbers("expected_position", expected(plan))
                .matrix("plan", plan.clone()),
            Err(_) => table,
        }
    }
}

/// Row sums to the right, column sums above, each as its distance from 1.
fn residuals(scene: &mut Scene, theme: &Theme, area: Box2, plan: &Matrix, order: &[usize]) {
    let n = plan.rows;
    let mut columns = vec![0.0f64; n];
    let mut sums = vec![0.0f64; n];
    for (i, row) in rows(plan).enumerate() {
        for (k, &p) in row.iter().enumerate() {
            sums[i] += f64::from(p);
            columns[k] += f64::from(p);
        }
    }
    let off = |sum: &f64| (sum - 1.0).abs();
    // One scale for both, so that an exact side looks exact; 0.01 keeps float32 dust flat.
    let most = sums.iter().chain(&columns).map(off).fold(0.01, f64::max);
    let (w, h) = (area.w / n as f32, area.h / n as f32);
    let reach = |sum: f64| (off(&sum) / most) as f32 * (STRIP - 1.0);
    let right = area.right() + 2.0;
    let mut outline = vec![[right, area.y]];
    for (r, &i) in order.iter().enumerate() {
        let x = right + reach(sums[i]);
        outline.extend([[x, area.y + r as f32 * h], [x, area.y + (r + 1) as f32 * h]]);
    }
    outline.push([right, area.bottom()]);
    scene.polygon(outline, theme.series(0));
    let above = area.y - 2.0;
    let mut outline = vec![[area.x, above]];
    for (k, &sum) in columns.iter().enumerate() {
        let y = above - reach(sum);
        outline.extend([[area.x + k as f32 * w, y], [area.x + (k + 1) as f32 * w, y]]);
    }
    outline.push([area.right(), above]);
    scene.polygon(outline, theme.series(0));
    let hair = Stroke::new(theme.hair, theme.axis);
    scene.line(vec![[right, area.y], [right, area.bottom()]], hair);
    scene.line(vec![[area.x, above], [area.right(), above]], hair);
    let text = format!("|sum − 1|, scaled to {}", number(most));
    scene.text([area.x, area.y - STRIP + 3.5], text, theme.tick, theme.muted, Anchor::Start);
}
