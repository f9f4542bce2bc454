//! The soft permutation `P` as an image: one row a token, one column a position, the last read at
//! the right. Strips at the edges show how far every row and column sum is from 1.

use std::sync::Arc;

use crate::model::trace::{Matrix, Routing, Trace};
use crate::viz::draw::{
    Axis, Box2, Frame, Identity, Mark, Raster, Scale, Scene, Stroke, Table, Theme, extent, number,
    order::argmax, order::ascending, order::expected, order::rows,
};
use crate::viz::{Control, Empty, Figure, Info, Options, Rows, Size, TabGroup, no_plan};

/// Width of a marginal strip.
const STRIP_PT: f32 = 9.0;

pub struct Assignment;

fn plan(trace: &Trace) -> Result<&Matrix, Empty> {
    match &trace.routing {
        Routing::Plan(plan) => Ok(plan),
        Routing::Orders(_) | Routing::None => Err(no_plan(trace)),
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
            let (best, mean) = (argmax(plan), expected(trace, plan));
            let mut order = ascending(&mean);
            order.sort_by_key(|&i| best[i]); // stable: equal best positions stay by their mean
            (order, "Token (by its best position)")
        }
        (Rows::Raster, _) => ((0..plan.rows).collect(), "Token (raster)"),
    }
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

    fn controls(&self, _: &Trace) -> &'static [Control] {
        &[Control::Rows, Control::Log, Control::Map]
    }

    fn marks_step(&self) -> bool {
        true
    }

    fn least_width(&self) -> f32 {
        64.0
    }

    fn shares_keys(&self) -> bool {
        true
    }

    fn height(&self, _: &Trace, _: &Options, width: f32) -> f32 {
        width * 0.87
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        plan(trace).err()
    }

    /// The few sharpest cells may share the brightest colour, or they would darken all others: the
    /// upper limit is the N/4-th largest share.
    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        let plan = plan(trace).ok()?;
        let (lo, _) = extent(plan.data.iter().map(|&p| f64::from(p)))?;
        let mut shares: Vec<f32> = plan.data.iter().copied().filter(|p| p.is_finite()).collect();
        let rank = shares.len().saturating_sub(1 + plan.rows / 4);
        let (_, hi, _) = shares.select_nth_unstable_by(rank, f32::total_cmp);
        Some((lo, f64::from(*hi)))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let plan = plan(trace)?;
        let n = plan.rows;
        let (order, name) = row_order(trace, plan, options.rows);
        let (lo, hi) = options.limits.or_else(|| self.limits(trace)).unwrap_or((0.0, 1.0));
        let shares = if options.log { Scale::log(lo, hi, 4) } else { Scale::linear(0.0, hi) };
        let mut scene = Scene::new(size.width, size.height, "Assignment matrix", theme.background);
        let largest = plan.data.iter().copied().fold(0.0, f32::max);
        let scale_name = if options.log { "Share, logarithmic" } else { "Share" };
        let keys = options.keys;
        let beyond = f64::from(largest) > shares.hi * 1.001;
        let label = if beyond && !keys.are_shared() {
            format!("{scale_name} (largest {})", number(f64::from(largest)))
        } else {
            scale_name.to_owned()
        };
        let bar = Axis::new(shares, label, 4);
        let off = Residuals::new(plan);
        let sums = "Row and column sums: off by at most";
        let key = format!("{sums} {}", number(off.largest()));
        let key = if keys.are_shared() { "Row and column sums: how far off 1" } else { &key };
        let below = keys.above(&mut scene, theme, size, &[(Mark::Patch(theme.series(0)), key)]);
        if keys.are_shared() {
            let largest = number(f64::from(largest));
            scene.handed.foot =
                format!("Largest share {largest}, sums off by at most {}", number(off.largest()));
        }
        let beside = keys.bar_room(theme, &bar) + STRIP_PT + 3.0;
        let top = below.y + STRIP_PT + 1.0;
        let outer = Box2::new(0.0, top, size.width - beside, size.height - top);
        let downwards = Scale::linear(-0.5, n as f64 - 0.5).reversed();
        let y = Axis::counts(downwards, name, 4).up_to(n);
        let x = Axis::positions(n, "Position (last is read last)");
        let frame = Frame::keyed(outer, (x, y), theme, keys);
        let area = frame.area;
        let color = |t: f32| options.map.at(t);
        let data = &plan.data;
        let pixels = order.iter().flat_map(|&i| data[i * n..(i + 1) * n].iter());
        let raster = Raster::new(n, n, pixels.map(|&p| color(shares.at(f64::from(p)))));
        let identity = Identity::Plan { rows: Arc::from(order.as_slice()), positions: n };
        scene.image(area, raster, false, Some(identity));
        scene.outline(area, Stroke::new(theme.hair, theme.axis));
        frame.axes(&mut scene, theme);
        off.draw(&mut scene, theme, area, &order);
        let beside = Box2 { w: area.w + STRIP_PT + 3.0, ..area };
        keys.color_bar(&mut scene, theme, beside, &bar, color);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let table = Table::counted("token", trace.grid.len()).optional("score", trace.scores.as_deref());
        match plan(trace) {
            Ok(plan) => table
                .numbers("best_position", argmax(plan).into_iter().map(|k| k as f64))
                .numbers("expected_position", expected(trace, plan))
                .matrix("plan", plan.clone()),
            Err(_) => table,
        }
    }
}

/// How far the sums of the plan are from 1.
struct Residuals {
    /// By token.
    rows: Vec<f64>,
    /// By position.
    columns: Vec<f64>,
    /// The largest; one scale for both sides, so that an exact side looks exact. At least 0.01, so
    /// that float32 dust stays flat.
    most: f64,
}

impl Residuals {
    fn new(plan: &Matrix) -> Self {
        let (mut across, mut down) = (vec![-1.0f64; plan.rows], vec![-1.0f64; plan.cols]);
        for (i, row) in rows(plan).enumerate() {
            for (k, &p) in row.iter().enumerate() {
                across[i] += f64::from(p);
                down[k] += f64::from(p);
            }
        }
        let [rows, columns] = [across, down].map(|v| v.into_iter().map(f64::abs).collect::<Vec<_>>());
        let most = rows.iter().chain(&columns).copied().fold(0.01, f64::max);
        Self { rows, columns, most }
    }

    /// The largest of all.
    fn largest(&self) -> f64 {
        self.rows.iter().chain(&self.columns).copied().fold(0.0, f64::max)
    }

    /// Row sums to the right, column sums above.
    fn draw(&self, scene: &mut Scene, theme: &Theme, area: Box2, order: &[usize]) {
        let n = order.len() as f32;
        let reach = |off: f64| (off / self.most) as f32 * (STRIP_PT - 1.0);
        let (right, above) = (area.right() + 2.0, area.y - 2.0);
        let mut outline = vec![[right, area.y]];
        for (r, &i) in order.iter().enumerate() {
            let (x, y) = (right + reach(self.rows[i]), area.y + r as f32 / n * area.h);
            outline.extend([[x, y], [x, y + area.h / n]]);
        }
        outline.push([right, area.bottom()]);
        scene.polygon(outline, theme.series(0));
        let mut outline = vec![[area.x, above]];
        for (k, &off) in self.columns.iter().enumerate() {
            let (x, y) = (area.x + k as f32 / n * area.w, above - reach(off));
            outline.extend([[x, y], [x + area.w / n, y]]);
        }
        outline.push([area.right(), above]);
        scene.polygon(outline, theme.series(0));
        let hair = Stroke::new(theme.hair, theme.axis);
        scene.line(vec![[right, area.y], [right, area.bottom()]], hair);
        scene.line(vec![[area.x, above], [area.right(), above]], hair);
    }
}
