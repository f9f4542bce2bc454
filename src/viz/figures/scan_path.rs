//! The path along which a probe reads: patch to patch over the grid, coloured by step; a plan by its
//! hard order (expected positions). Several sweeps are drawn side by side. With `step` it shows what the
//! memory holds after that many tokens: the token read `j` steps before the last as bright as `|K[j]|`, under
//! a plan token `i` as `sum_k P[i,k] |K[step-1-k]|`, divided by the largest. A difference shows how much later
//! every token is read, by its position, or its mean position under a plan.

use super::sweep::{self, Sweep};
use crate::model::trace::Routing;
use crate::viz::difference::{delta, positions};
use crate::viz::draw::order;
use crate::viz::figures::prelude::*;
use crate::viz::{heading, no_order};

pub struct ScanPath;

/// Its name on the command line.
pub const ID: &str = "scan_path";

/// Largest width of all panels together in a cell of a row, in points.
const MAX_SIDE_PT: f32 = 160.0;
/// Panels narrower than this, in points, have titles without the word `Sweep`.
const WORD_FROM_PT: f32 = 60.0;

/// Number of columns and rows of the panels: two side by side in a column, four on a page.
fn layout(sweeps: usize, width: f32) -> (usize, usize) {
    let columns = sweeps.clamp(1, if width > 380.0 { 4 } else { 2 });
    (columns, sweeps.max(1).div_ceil(columns))
}

/// The axis of the colour bar.
fn bar_axis(trace: &Trace, options: &Options) -> Axis {
    if trace.minus.is_some() {
        let limits = options.limits.or_else(|| ScanPath.limits(trace)).unwrap_or_default();
        Axis::new(around_zero(limits), delta("Position (above 0 is read later)"), 5)
    } else if memory_step(trace, options).is_some() {
        Axis::new(Scale::linear(0.0, 1.0), "Memory (share of the best kept)", 4)
    } else {
        let n = trace.grid.len();
        Axis::counts(Scale::linear(0.0, n.max(2) as f64 - 1.0), "Step (last is read last)", 5).up_to(n)
    }
}

/// How many tokens have been read, if the trace has a kernel that says how much of each the memory holds.
fn memory_step(trace: &Trace, options: &Options) -> Option<usize> {
    options.step.filter(|_| order::memory(trace, 0).is_some())
}

/// Height of the legend of a path below the panels, in points.
fn legend_height(memory: bool, keys: Keys) -> f32 {
    if memory || keys.are_shared() { 0.0 } else { pt::TICK + 6.0 }
}

/// Height of the title of a panel, in points; 0 where the row writes the title of a single panel.
fn panel_title_height(panels: usize, keys: Keys) -> f32 {
    if panels > 1 { frame::TITLE_HEIGHT } else { keys.title_room() }
}

/// Largest width of a panel on a page, in points; in a window's pane it grows with the pane.
const PAGE_PT: f32 = 240.0;

/// Width of one panel in points, if height is no limit.
fn panel_width(width: f32, columns: usize, bar: &Axis, keys: Keys) -> f32 {
    let room = keys.picture_room(bar, width, MAX_SIDE_PT);
    (room - (columns - 1) as f32 * 2.0 * pt::GAP) / columns as f32
}

/// Height of the figure with panels as wide as possible, up to `max_width`, in points.
fn figure_height(trace: &Trace, options: &Options, width: f32, max_width: f32) -> f32 {
    let (columns, rows) = layout(order::orders(trace).len(), width);
    let memory = memory_step(trace, options).is_some();
    let keys = options.keys;
    let panel = panel_width(width, columns, &bar_axis(trace, options), keys).min(max_width);
    let title = panel_title_height(columns * rows, keys);
    rows as f32 * (panel * picture::aspect(trace) + title + 4.0) - 4.0 + legend_height(memory, keys)
}

fn panel_title(trace: &Trace, sweep: usize, count: usize, width: f32, keys: Keys) -> String {
    match &trace.routing {
        Routing::Plan(_) => "By mean position; line: the last 10 %".to_owned(),
        _ if count == 1 && trace.reading.change.is_none() => trace.head.clone(),
        // Of a figure by itself the heading says the change.
        _ if count == 1 && !keys.are_shared() => "Path, coloured by step".to_owned(),
        _ if count == 1 => heading::capitalised(&trace.reading.change.to_string()),
        _ if width < WORD_FROM_PT => format!("{} of {count}", sweep + 1),
        _ => format!("Sweep {} of {count}", sweep + 1),
    }
}

/// Why a trace, or one of the two traces of a difference, has no single position for each token.
fn no_positions(trace: &Trace) -> Empty {
    let reason = |trace: &Trace| match order::orders(trace).len() {
        0 => no_order(trace),
        _ => Empty(format!("{} reads in several sweeps, in which a token has no one position", trace.head)),
    };
    let both = [Some(trace), trace.minus.as_deref()];
    both.into_iter()
        .flatten()
        .find(|trace| order::positions(trace).is_none())
        .map_or_else(|| no_order(trace), reason)
}

/// Draws a difference: the patches coloured by how much later they are read.
fn difference_scene(trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
    let places = positions(trace).ok_or_else(|| no_positions(trace))?;
    let mut scene = Scene::new(size.width, size.height, "Reading order", theme.background);
    let keys = options.keys;
    let axis = keys.bar_axis(bar_axis(trace, options), size.height);
    let (w, top) = (panel_width(size.width, 1, &axis, keys), panel_title_height(1, keys));
    let rect = Box2::new(0.0, top, w, size.height - top).largest(1.0, picture::aspect(trace));
    let title = delta("Position: read later or earlier");
    keys.title(&mut scene, theme, (&title, &title), size.width);
    picture::seen(&mut scene, theme, trace, rect, 0.25);
    picture::cover(&mut scene, trace.grid, rect, |i| {
        diverging(theme, 2.0 * axis.scale.at(places[i]) - 1.0).alpha(options.opacity)
    });
    keys.color_bar(&mut scene, theme, rect, &axis, |t| diverging(theme, 2.0 * t - 1.0));
    Ok(scene)
}

/// The title of a panel in little room, without the part that the legend of a row says.
fn short_title<'a>(trace: &Trace, title: &'a str) -> &'a str {
    match trace.routing {
        Routing::Plan(_) => title.split(';').next().unwrap_or(title),
        _ => title,
    }
}

impl Figure for ScanPath {
    fn info(&self) -> Info {
        Info {
            id: ID,
            title: "Reading order",
            about: "The path over the patches, coloured by step: the white dot is read first, the black one last",
            tab: TabGroup::Order.tab(),
        }
    }

    fn controls(&self, trace: &Trace) -> &'static [Control] {
        // Without a kernel there is no memory to show step by step.
        let has_memory = !matches!(trace.routing, Routing::None) && trace.kernel.is_some();
        match trace.minus {
            Some(_) => &[Control::Opacity],
            None if has_memory => &[Control::Step],
            None => &[],
        }
    }

    fn properties(&self) -> Properties {
        Properties {
            compares_tokens: true,
            marks_step: true,
            is_compared: true,
            shares_keys: true,
            least_width: 48.0,
            ..Properties::default()
        }
    }

    fn height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        figure_height(trace, options, width, PAGE_PT)
    }

    fn max_height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        figure_height(trace, options, width, f32::INFINITY)
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        let none = match trace.minus {
            Some(_) => positions(trace).is_none(),
            None => matches!(trace.routing, Routing::None),
        };
        none.then(|| no_positions(trace))
    }

    /// Limits of differences; paths share a fixed scale, that of their steps.
    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        trace.minus.as_ref()?;
        extent(positions(trace)?)
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        if trace.minus.is_some() {
            return difference_scene(trace, options, theme, size);
        }
        let orders = order::orders(trace);
        if orders.is_empty() {
            return Err(no_order(trace));
        }
        let mut scene = Scene::new(size.width, size.height, "Reading order", theme.background);
        let (columns, rows) = layout(orders.len(), size.width);
        let step = memory_step(trace, options);
        let keys = options.keys;
        let bottom = legend_height(step.is_some(), keys);
        // Centred beside the panels, the name of the bar ends above the legend.
        let axis = keys.bar_axis(bar_axis(trace, options), size.height - 2.0 * bottom);
        let w = panel_width(size.width, columns, &axis, keys);
        let top = panel_title_height(columns * rows, keys);
        let row = (size.height - bottom + 4.0) / rows as f32;
        let panel = Box2::new(0.0, top, w, row - top - 4.0).largest(1.0, picture::aspect(trace));
        for (s, order) in orders.iter().enumerate() {
            let (x, y) = ((s % columns) as f32 * (panel.w + 2.0 * pt::GAP), (s / columns) as f32 * row);
            let rect = Box2 { x, y: y + top, ..panel };
            let memory = step.and_then(|step| Some((step, order::memory(trace, s)?)));
            let own = panel_title(trace, s, orders.len(), rect.w, keys);
            let read = |step: &usize| *step.min(&order.len());
            let title = match &memory {
                Some((step, _)) if orders.len() > 1 => format!("{own}: {} read", read(step)),
                Some((step, _)) => format!("Memory after {} of {} steps", read(step), order.len()),
                None => own,
            };
            match orders.len() {
                1 => keys.title(&mut scene, theme, (&title, short_title(trace, &title)), size.width),
                _ => _ = frame::title(&mut scene, theme, [x, y], &title, rect.w),
            }
            let sweep = Sweep { theme, options, trace, rect, order };
            match &memory {
                Some((step, kept)) => sweep.memory(&mut scene, *step, kept),
                None => sweep.path(&mut scene),
            }
        }
        let across = columns as f32 * (panel.w + 2.0 * pt::GAP) - 2.0 * pt::GAP;
        let panels = Box2::new(0.0, top, across, (rows - 1) as f32 * row + panel.h);
        if step.is_none() {
            let [first, last] = sweep::end_colors();
            let mut key =
                vec![(Mark::Ring(first, last), "First read"), (Mark::Ring(last, first), "Last read")];
            if keys.are_shared() && matches!(trace.routing, Routing::Plan(_)) {
                key.push((Mark::Line(Stroke::new(0.8, theme.ink)), "Last 10 % by mean position"));
            }
            keys.legend(&mut scene, theme, [0.0, panels.bottom() + 3.0], size.width, &key);
        }
        let color = if step.is_some() { sweep::memory_color } else { sweep::step_color };
        keys.color_bar(&mut scene, theme, panels, &axis, |t| color(theme, options, t));
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        if trace.minus.is_some() {
            let table = Table::counted("token", trace.grid.len());
            let places = positions(trace).into_iter();
            return places.fold(table, |table, places| table.numbers("delta_position", places));
        }
        let mut table = Table::counted("step", trace.grid.len());
        for (s, order) in order::orders(trace).iter().enumerate() {
            table = table.numbers(&format!("token_{s}"), order.iter().map(|&i| i as f64));
        }
        table
    }
}
