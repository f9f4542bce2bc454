//! The memory kernel as measured, `K[j]` for `j` steps before the end, beside `rho^j` of the
//! spectral radius: LegS does not decay exponentially, so the second alone would mislead. Both are
//! divided by their largest size. A channel-wise kernel shows its median and 5 to 95 % of channels. A
//! scan of several sweeps has a memory each: a line each, and the decay of the first.

use crate::model::trace::{Matrix, Trace};
use crate::viz::draw::{
    Axis, Box2, Frame, Identity, Mark, Point, Scale, Scene, Stroke, Table, Theme, extent, legend, number,
    order::kernels, order::rows,
};
use crate::viz::{Control, Empty, Figure, Info, Options, Size, TabGroup};

pub struct Kernel;

/// 5th percentile, median and 95th percentile over channels at every step.
fn quantiles(kernel: &Matrix, f: impl Fn(f64) -> f64) -> Vec<[f64; 3]> {
    let at = |sorted: &[f64], q: f64| {
        let place = q * (sorted.len() - 1) as f64;
        let (i, part) = (place as usize, place.fract());
        let next = sorted[(i + 1).min(sorted.len() - 1)];
        sorted[i] + (next - sorted[i]) * part
    };
    let spread = |row: &[f32]| {
        let mut sorted: Vec<f64> = row.iter().map(|&k| f(f64::from(k))).collect();
        sorted.sort_by(f64::total_cmp);
        [at(&sorted, 0.05), at(&sorted, 0.5), at(&sorted, 0.95)]
    };
    rows(kernel).map(spread).collect()
}

fn no_kernel(trace: &Trace) -> Empty {
    Empty(format!("{} has no memory kernel", trace.head))
}

impl Figure for Kernel {
    fn info(&self) -> Info {
        Info {
            id: "kernel",
            title: "Memory kernel",
            about: "What the memory keeps of the token read j steps before the end, beside the decay its spectral radius suggests",
            tab: TabGroup::Evidence.tab(),
        }
    }

    fn controls(&self, _: &Trace) -> &'static [Control] {
        &[Control::Log]
    }

    fn marks_step(&self) -> bool {
        true
    }

    fn least_width(&self) -> f32 {
        110.0
    }

    fn height(&self, _: &Trace, _: &Options, width: f32) -> f32 {
        width * 0.5
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        trace.kernel.is_none().then(|| no_kernel(trace))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let all: Vec<&Matrix> = kernels(trace).collect();
        let first = all.first().copied().ok_or_else(|| no_kernel(trace))?;
        let n = first.rows;
        let sizes = all.iter().flat_map(|kernel| &kernel.data).map(|k| f64::from(k.abs()));
        let largest = sizes.fold(0.0, f64::max);
        if largest <= 0.0 || !largest.is_finite() {
            return Err(Empty("The kernel is zero at every step".to_owned()));
        }
        let sized = |v: f64| if options.log { v.abs() / largest } else { v / largest };
        let spreads: Vec<Vec<[f64; 3]>> = all.iter().map(|kernel| quantiles(kernel, sized)).collect();
        let many = first.cols > 1;
        let (lo, hi) = extent(spreads.iter().flatten().flatten().copied()).unwrap_or((0.0, 1.0));
        let scale = if options.log {
            Scale::log(lo.max(1e-12), 1.0, 6)
        } else {
            Scale::padded(lo.min(0.0), hi.max(1.0))
        };

        let mut scene = Scene::new(size.width, size.height, "Memory kernel", theme.background);
        let color = |sweep: usize| theme.series(if sweep == 0 { 0 } else { sweep + 1 });
        let measured = |sweep: usize| Stroke::new(theme.line, color(sweep));
        let decay = Stroke::new(theme.line, theme.series(1)).dashed(3.0, 2.0);
        let channels = format!("5 to 95 % of {} channels", first.cols);
        let names: Vec<String> = match (all.len(), many) {
            (1, false) => vec!["Measured".to_owned()],
            (1, true) => vec!["Measured, median".to_owned()],
            (sweeps, _) => (1..=sweeps).map(|sweep| format!("Sweep {sweep}")).collect(),
        };
        let mut key: Vec<(Mark, &str)> =
            names.iter().enumerate().map(|(s, name)| (Mark::Line(measured(s)), name.as_str())).collect();
        if many {
            key.push((Mark::Patch(color(0).alpha(0.25)), &channels));
        }
        let radius = trace.radius.map(f64::from).filter(|r| r.is_finite() && *r > 0.0);
        let whose = if all.len() > 1 { "sweep 1, " } else { "" };
        let exponential = radius.map(|r| format!("ρ^j, {whose}spectral radius ρ = {}", number_fine(r)));
        if let Some(text) = &exponential {
            key.push((Mark::Line(decay), text));
        }
        let unit = format!("max |K| = {}", number(largest));
        key.push((Mark::None, &unit));
        let outer = legend::above(&mut scene, theme, size, &key);
        let label = if options.log { "|K[j]| / max |K|" } else { "K[j] / max |K|" };
        let x = Axis::new(Scale::linear(0.0, n.max(2) as f64 - 1.0), "Steps before the end, j", 5).up_to(n);
        let frame = Frame::fit(outer, x, Axis::new(scale, label, 4), theme);
        frame.grid(&mut scene, theme);
        let curve =
            |f: &dyn Fn(usize) -> f64| -> Vec<Point> { (0..n).map(|j| frame.at(j as f64, f(j))).collect() };
        for (s, spread) in spreads.iter().enumerate().filter(|_| many) {
            let mut outline = curve(&|j| spread[j][2]);
            outline.extend(curve(&|j| spread[j][0]).into_iter().rev());
            scene.polygon(outline, color(s).alpha(if spreads.len() > 1 { 0.1 } else { 0.25 }));
        }
        if let Some(r) = radius {
            scene.line(curve(&|j| r.powi(j as i32)), decay);
        }
        for (s, spread) in spreads.iter().enumerate().rev() {
            scene.line(curve(&|j| spread[j][1]), measured(s));
        }
        let cell = frame.area.w / n as f32;
        for j in 0..n {
            let x = frame.x(j as f64) - cell / 2.0;
            scene.target(Box2::new(x, frame.area.y, cell, frame.area.h), Identity::Position(n - 1 - j));
        }
        frame.axes(&mut scene, theme);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let Some(kernel) = &trace.kernel else { return Table::default() };
        let table = Table::counted("steps_before_end", kernel.rows);
        let table = match trace.radius {
            Some(r) => table.numbers("radius_power", (0..kernel.rows).map(|j| f64::from(r).powi(j as i32))),
            None => table,
        };
        if trace.other_kernels.is_empty() {
            return table.matrix("kernel", kernel.clone());
        }
        // Sweep by sweep, a column each and channel.
        let all: Vec<&Matrix> = kernels(trace).collect();
        let row =
            |j: usize| all.iter().flat_map(move |kernel| &kernel.data[j * kernel.cols..][..kernel.cols]);
        let data: Vec<f32> = (0..kernel.rows).flat_map(row).copied().collect();
        table.matrix("kernels", Matrix { rows: kernel.rows, cols: data.len() / kernel.rows.max(1), data })
    }
}

/// A radius close to 1, where the third decimal decides.
fn number_fine(r: f64) -> String {
    if r > 0.9 && r < 1.0 { format!("{r:.4}") } else { number(r) }
}
