//! The measured memory kernel `K[j]` at `j` steps before the end, divided by its largest magnitude, beside `rho^j` with the
//! spectral radius `rho`: LegS does not decay exponentially, so `rho^j` alone would mislead. A channel-wise kernel is drawn as
//! its median and the range of 5 to 95 % of channels. A scan of several sweeps has a kernel per sweep: a line each, and `rho^j`
//! of the first. A difference subtracts these lines, medians over channels and powers of the radius; the kernels of each trace
//! are divided by their own largest magnitude first.

use crate::model::trace::Matrix;
use crate::viz::difference::less;
use crate::viz::draw::{order::kernels, order::rows, series::stroke};
use crate::viz::figures::order_test::entries;
use crate::viz::figures::prelude::*;
use crate::viz::lacking;

pub struct Kernel;

/// Smallest height of the chart below the legend, with its axis, in points.
const MIN_CHART_PT: f32 = 64.0;

/// 5th percentile, median and 95th percentile of `f(K[j])` over channels, at every step `j`.
fn quantiles(kernel: &Matrix, f: impl Fn(f64) -> f64) -> Vec<[f64; 3]> {
    let quantile = |sorted: &[f64], q: f64| {
        let rank = q * (sorted.len() - 1) as f64;
        let (i, fraction) = (rank as usize, rank.fract());
        let next = sorted[(i + 1).min(sorted.len() - 1)];
        sorted[i] + (next - sorted[i]) * fraction
    };
    let of_step = |row: &[f32]| {
        let mut sorted: Vec<f64> = row.iter().map(|&k| f(f64::from(k))).collect();
        sorted.sort_by(f64::total_cmp);
        [0.05, 0.5, 0.95].map(|q| quantile(&sorted, q))
    };
    rows(kernel).map(of_step).collect()
}

/// [`quantiles`] of every kernel, divided by the largest magnitude of all of them, where `log` of magnitudes; `None` if all are zero.
fn spreads(trace: &Trace, log: bool) -> Option<Vec<Vec<[f64; 3]>>> {
    let largest = largest(trace);
    let relative = |k: f64| if log { k.abs() / largest } else { k / largest };
    let is_scaled = largest > 0.0 && largest.is_finite();
    is_scaled.then(|| kernels(trace).map(|kernel| quantiles(kernel, relative)).collect())
}

/// The limits of these quantiles and of 1, the largest magnitude.
fn limits(spreads: &[Vec<[f64; 3]>]) -> Option<(f64, f64)> {
    extent(spreads.iter().flatten().flatten().chain(&[1.0]).copied())
}

fn no_kernel(trace: &Trace) -> Empty {
    Empty(format!("{} has no memory kernel", lacking(trace, trace.kernel.is_some()).head))
}

/// The spectral radius, if it is finite and positive, so that its powers can be drawn.
fn radius(trace: &Trace) -> Option<f64> {
    trace.radius.map(f64::from).filter(|r| r.is_finite() && *r > 0.0)
}

/// The largest magnitude of all kernels of a trace.
fn largest(trace: &Trace) -> f64 {
    kernels(trace).flat_map(|kernel| &kernel.data).map(|k| f64::from(k.abs())).fold(0.0, f64::max)
}

/// The line of a sweep, with a colour and dashes of its own; those of series 1 are left to the powers of the radius.
fn measured(theme: &Theme, sweep: usize) -> Stroke {
    Stroke { width: pt::LINE, ..stroke(theme, if sweep == 0 { 0 } else { sweep + 1 }) }
}

/// The line of the powers of the radius.
fn decaying(theme: &Theme) -> Stroke {
    Stroke::new(pt::LINE, theme.series(1)).dashed(3.0, 2.0)
}

/// The entries of the legend, in a figure `room` points wide.
fn key(trace: &Trace, theme: &Theme, room: f32) -> Vec<(Mark, String)> {
    let sweeps = kernels(trace).count();
    let channels = trace.kernel.as_ref().map_or(1, |kernel| kernel.cols);
    let name = |sweep: usize| match sweeps {
        1 if channels > 1 && trace.minus.is_none() => "Measured, median".to_owned(),
        1 => label(trace, "Measured"),
        _ => label(trace, &format!("Sweep {}", sweep + 1)),
    };
    let mut key: Vec<(Mark, String)> =
        (0..sweeps).map(|sweep| (Mark::Line(measured(theme, sweep)), name(sweep))).collect();
    let powers = Mark::Line(decaying(theme));
    if let Some(minus) = &trace.minus {
        let both = radius(trace).and(radius(minus));
        key.extend(both.map(|_| (powers, "Δ ρ^j, ρ the spectral radius".to_owned())));
        key.push((Mark::None, "Each kernel over its own max |K|".to_owned()));
        return key;
    }
    if channels > 1 {
        let spread = Mark::Patch(theme.series(0).alpha(0.25));
        key.push((spread, format!("5 to 95 % of {channels} channels")));
    }
    let name = if sweeps > 1 { "ρ^j, sweep 1" } else { "ρ^j" };
    let value = |r: f64| Some(format!("spectral radius ρ = {}", format_radius(r)));
    key.extend(radius(trace).into_iter().flat_map(|r| entries(powers, name.to_owned(), value(r), room)));
    key.push((Mark::None, format!("max |K| = {}", number(largest(trace)))));
    key
}

/// Values over steps, one line per sweep, in the order of sweeps.
type Lines = Vec<Vec<f64>>;

/// The difference of the kernels of every sweep, and that of the powers of the radius; `None` if all kernels of one trace are zero.
fn difference_lines(trace: &Trace, minus: &Trace) -> Option<(Lines, Option<Vec<f64>>)> {
    let medians = |trace: &Trace| -> Option<Lines> {
        let median = |spread: Vec<[f64; 3]>| spread.into_iter().map(|[_, middle, _]| middle).collect();
        Some(spreads(trace, false)?.into_iter().map(median).collect())
    };
    let (own, other) = (medians(trace)?, medians(minus)?);
    let powers = |r: f64| -> Vec<f64> { (0..trace.grid.len()).map(|j| f64::powi(r, j as i32)).collect() };
    let decay = radius(trace).zip(radius(minus)).map(|(a, b)| less(&powers(a), &powers(b)));
    Some((own.iter().zip(&other).map(|(a, b)| less(a, b)).collect(), decay))
}

/// Draws the lines of a difference, on a scale centred at zero.
fn draw_difference(
    trace: &Trace,
    minus: &Trace,
    options: &Options,
    theme: &Theme,
    size: Size,
) -> Result<Scene, Empty> {
    let zero = || Empty("One of the kernels is zero at every step".to_owned());
    let (lines, decay) = difference_lines(trace, minus).ok_or_else(zero)?;
    let n = trace.grid.len();
    let mut scene = Scene::new(size.width, size.height, "Memory kernel", theme.background);
    let below = legend::above(&mut scene, theme, size, &key(trace, theme, size.width));
    let outer = options.keys.below_legend(below);
    let limits = options.limits.or_else(|| Kernel.limits(trace)).unwrap_or_default();
    let x = Axis::counts(Scale::linear(0.0, n.max(2) as f64 - 1.0), "Steps before the end, j", 5).up_to(n);
    let y = Axis::new(around_zero(limits), "Δ K[j] / max |K|", 4);
    let frame = Frame::fit(outer, x, y);
    frame.grid(&mut scene, theme);
    frame.zero_line(&mut scene, theme);
    if let Some(decay) = decay {
        frame.curve(&mut scene, decay, decaying(theme));
    }
    for (sweep, line) in lines.into_iter().enumerate().rev() {
        frame.curve(&mut scene, line, measured(theme, sweep));
    }
    add_targets(&mut scene, &frame, n);
    frame.axes(&mut scene, theme);
    Ok(scene)
}

/// Adds hover targets: a strip for every step, which stands for the position read `j` steps before the end.
fn add_targets(scene: &mut Scene, frame: &Frame, n: usize) {
    let cell = frame.area.w / n as f32;
    for j in 0..n {
        let x = frame.x(j as f64) - cell / 2.0;
        scene.target(Box2::new(x, frame.area.y, cell, frame.area.h), Identity::Position(n - 1 - j));
    }
}

impl Figure for Kernel {
    fn info(&self) -> Info {
        Info {
            id: "kernel",
            title: "Memory kernel",
            about: "How much the memory keeps of the token read j steps before the end, and the decay its spectral radius suggests",
            tab: TabGroup::Evidence.tab(),
        }
    }

    fn controls(&self, trace: &Trace) -> &'static [Control] {
        if trace.minus.is_none() { &[Control::Log] } else { &[] }
    }

    fn properties(&self) -> Properties {
        Properties { marks_step: true, least_width: 110.0, ..Properties::default() }
    }

    fn legend_lines(&self, trace: &Trace, width: f32) -> usize {
        legend::lines(width, &key(trace, &Theme::light(), width))
    }

    fn height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        let lines = options.keys.legend_lines(self.legend_lines(trace, width));
        // In a narrow cell a legend of several lines would leave the chart no height.
        (width * 0.5).max(lines as f32 * legend::ROW_PT + MIN_CHART_PT)
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        let other = trace.minus.as_deref().unwrap_or(trace);
        if trace.kernel.is_none() || other.kernel.is_none() {
            return Some(no_kernel(trace));
        }
        let [own, other] = [trace, other].map(|trace| kernels(trace).count());
        let why = || format!("{own} kernels, one per sweep, cannot be compared with {other}");
        (own != other).then(|| Empty(why()))
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        let Some(minus) = &trace.minus else { return limits(&spreads(trace, false)?) };
        let (lines, decay) = difference_lines(trace, minus)?;
        extent(lines.into_iter().chain(decay).flatten())
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        if let Some(minus) = &trace.minus {
            return draw_difference(trace, minus, options, theme, size);
        }
        let first = trace.kernel.as_ref().ok_or_else(|| no_kernel(trace))?;
        let (n, is_channelwise) = (first.rows, first.cols > 1);
        let zero = || Empty("The kernel is zero at every step".to_owned());
        let spreads = spreads(trace, options.log).ok_or_else(zero)?;
        let (lo, hi) = options.limits.or_else(|| limits(&spreads)).unwrap_or((0.0, 1.0));
        // From a limit below zero, which no magnitude has, a logarithmic one shows six decades.
        let scale = if options.log { Scale::log(lo, hi, 6) } else { Scale::padded(lo.min(0.0), hi) };

        let mut scene = Scene::new(size.width, size.height, "Memory kernel", theme.background);
        let below = legend::above(&mut scene, theme, size, &key(trace, theme, size.width));
        let outer = options.keys.below_legend(below);
        let name = if options.log { "|K[j]| / max |K|" } else { "K[j] / max |K|" };
        let x =
            Axis::counts(Scale::linear(0.0, n.max(2) as f64 - 1.0), "Steps before the end, j", 5).up_to(n);
        let frame = Frame::fit(outer, x, Axis::new(scale, name, 4));
        frame.grid(&mut scene, theme);
        let curve =
            |f: &dyn Fn(usize) -> f64| -> Vec<Point> { (0..n).map(|j| frame.at(j as f64, f(j))).collect() };
        for (s, spread) in spreads.iter().enumerate().filter(|_| is_channelwise) {
            let mut outline = curve(&|j| spread[j][2]);
            outline.extend(curve(&|j| spread[j][0]).into_iter().rev());
            let alpha = if spreads.len() > 1 { 0.1 } else { 0.25 };
            scene.polygon(outline, measured(theme, s).color.alpha(alpha));
        }
        if let Some(r) = radius(trace) {
            frame.curve(&mut scene, (0..n).map(|j| r.powi(j as i32)), decaying(theme));
        }
        for (s, spread) in spreads.iter().enumerate().rev() {
            frame.curve(&mut scene, spread.iter().map(|[_, middle, _]| *middle), measured(theme, s));
        }
        add_targets(&mut scene, &frame, n);
        frame.axes(&mut scene, theme);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let Some(kernel) = &trace.kernel else { return Table::default() };
        if let Some(minus) = &trace.minus {
            let Some((lines, decay)) = difference_lines(trace, minus) else { return Table::default() };
            let table = Table::counted("steps_before_end", kernel.rows);
            let table =
                decay.into_iter().fold(table, |table, v| table.numbers(&head(trace, "radius_power"), v));
            let named = |sweep: usize| head(trace, &format!("kernel_{sweep}"));
            return lines.into_iter().enumerate().fold(table, |table, (s, v)| table.numbers(&named(s), v));
        }
        let table = Table::counted("steps_before_end", kernel.rows);
        let table = match trace.radius {
            Some(r) => table.numbers("radius_power", (0..kernel.rows).map(|j| f64::from(r).powi(j as i32))),
            None => table,
        };
        if trace.other_kernels.is_empty() {
            return table.matrix("kernel", kernel.clone());
        }
        // One column per channel, sweep after sweep.
        let all: Vec<&Matrix> = kernels(trace).collect();
        let row =
            |j: usize| all.iter().flat_map(move |kernel| &kernel.data[j * kernel.cols..][..kernel.cols]);
        let data: Vec<f32> = (0..kernel.rows).flat_map(row).copied().collect();
        table.matrix("kernels", Matrix { rows: kernel.rows, cols: data.len() / kernel.rows.max(1), data })
    }
}

/// A spectral radius; four decimals close to 1, where the third decides.
fn format_radius(r: f64) -> String {
    if r > 0.9 && r < 1.0 { format!("{r:.4}") } else { number(r) }
}
