//! The path a probe reads along: patch to patch over the grid, coloured by step; a plan by its hard
//! order (expected positions). Several sweeps stand side by side. With `step` it shows what the
//! memory holds after so many tokens: every token as bright as `|K[j]|`, `j` steps back, under a
//! plan as `sum_k P[i,k] |K[step-1-k]|`, divided by the largest. Paths have no difference, places in them have: how much
//! later every token is read, its mean position under a plan.

use super::sweep::{self, Sweep};
use crate::model::trace::{Routing, Trace};
use crate::viz::difference::{around_zero, delta, positions};
use crate::viz::draw::{
    Axis, Box2, Keys, Mark, Scale, Scene, Stroke, Table, Theme, diverging, extent, frame, order, picture,
};
use crate::viz::{Control, Empty, Figure, Info, Options, Size, TabGroup, heading, no_order};

pub struct ScanPath;

/// Its name.
pub const ID: &str = "scan_path";

/// Largest width of all panels in a cell of a row.
const MAX_SIDE_PT: f32 = 160.0;
/// Below this width, in points, a panel has no room for a word in its title.
const WORD_FROM_PT: f32 = 60.0;

/// Columns and rows of the small multiples: two abreast in a column, four across a page.
fn layout(sweeps: usize, width: f32) -> (usize, usize) {
    let columns = sweeps.clamp(1, if width > 380.0 { 4 } else { 2 });
    (columns, sweeps.max(1).div_ceil(columns))
}

/// The colour bar.
fn bar(trace: &Trace, options: &Options) -> Axis {
    if trace.minus.is_some() {
        let limits = options.limits.or_else(|| ScanPath.limits(trace)).unwrap_or_default();
        Axis::new(around_zero(limits), delta("Position (above 0 is read later)"), 5)
    } else if step(trace, options).is_some() {
        Axis::new(Scale::linear(0.0, 1.0), "Memory (share of the best kept)", 4)
    } else {
        let n = trace.grid.len();
        Axis::counts(Scale::linear(0.0, n as f64 - 1.0), "Step (last is read last)", 5).up_to(n)
    }
}

/// How many tokens have been read, where a memory says what is held of them.
fn step(trace: &Trace, options: &Options) -> Option<usize> {
    options.step.filter(|_| order::memory(trace, 0).is_some())
}

/// Room below the panels for the key of a path.
fn foot(theme: &Theme, memory: bool, keys: Keys) -> f32 {
    if memory || keys.are_shared() { 0.0 } else { theme.tick + 6.0 }
}

/// Height of the titles of the panels; over a row's one panel the row writes it.
fn head(theme: &Theme, panels: usize, keys: Keys) -> f32 {
    if panels > 1 { theme.label + 2.5 } else { keys.title_room(theme) }
}

/// Widest panel on a page; in a pane it grows to the room there is.
const PAGE_PT: f32 = 240.0;

/// Width of one panel, where height does not matter.
fn side(theme: &Theme, width: f32, columns: usize, bar: &Axis, keys: Keys) -> f32 {
    let bar = keys.bar_room(theme, bar);
    let width = if keys.are_shared() { width.min(MAX_SIDE_PT) } else { width };
    (width - bar - (columns - 1) as f32 * 2.0 * theme.gap) / columns as f32
}

/// Height of the figure with panels as wide as there is room, but no wider than `most`.
fn tall(trace: &Trace, options: &Options, width: f32, most: f32) -> f32 {
    let theme = Theme::light();
    let (columns, rows) = layout(order::orders(trace).len(), width);
    let memory = step(trace, options).is_some();
    let keys = options.keys;
    let side = side(&theme, width, columns, &bar(trace, options), keys).min(most);
    let head = head(&theme, columns * rows, keys);
    rows as f32 * (side * picture::aspect(trace) + head + 4.0) - 4.0 + foot(&theme, memory, keys)
}

fn name(trace: &Trace, sweep: usize, of: usize, width: f32) -> String {
    match &trace.routing {
        Routing::Plan(_) => "By mean position; line: the last 10 %".to_owned(),
        _ if of == 1 && trace.reading.change.is_none() => trace.head.clone(),
        _ if of == 1 => heading::capitalised(&trace.reading.change.to_string()),
        _ if width < WORD_FROM_PT => format!("{} of {of}", sweep + 1),
        _ => format!("Sweep {} of {of}", sweep + 1),
    }
}

/// Why there are no places to subtract.
fn no_place(trace: &Trace) -> Empty {
    let of = |trace: &Trace| match order::orders(trace).len() {
        0 => no_order(trace),
        _ => Empty(format!("{} reads in several sweeps, in which a token has no one position", trace.head)),
    };
    let both = [Some(trace), trace.minus.as_deref()];
    both.into_iter()
        .flatten()
        .find(|trace| order::positions(trace).is_none())
        .map_or_else(|| no_order(trace), of)
}

/// The patches by how much later they are read.
fn apart(trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
    let places = positions(trace).ok_or_else(|| no_place(trace))?;
    let mut scene = Scene::new(size.width, size.height, "Reading order", theme.background);
    let keys = options.keys;
    let axis = keys.bar_axis(theme, bar(trace, options), size.height);
    let (w, head) = (side(theme, size.width, 1, &axis, keys), head(theme, 1, keys));
    let rect = Box2::new(0.0, head, w, size.height - head).largest(1.0, picture::aspect(trace));
    let title = delta("Position: read later or earlier");
    keys.title(&mut scene, theme, (&title, &title), size.width);
    picture::seen(&mut scene, theme, trace, rect, 0.25);
    picture::cover(&mut scene, trace.grid, rect, |i| {
        diverging(theme, 2.0 * axis.scale.at(places[i]) - 1.0).alpha(options.opacity)
    });
    keys.color_bar(&mut scene, theme, rect, &axis, |t| diverging(theme, 2.0 * t - 1.0));
    Ok(scene)
}

/// The title of a picture in a cell of a row, whose legend says the rest.
fn short<'a>(trace: &Trace, title: &'a str) -> &'a str {
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
        // Only a memory reads the tokens step by step.
        let reads = !matches!(trace.routing, Routing::None) && trace.kernel.is_some();
        match trace.minus {
            Some(_) => &[Control::Opacity],
            None if reads => &[Control::Step],
            None => &[],
        }
    }

    fn marks_step(&self) -> bool {
        true
    }

    fn is_compared(&self) -> bool {
        true
    }

    fn least_width(&self) -> f32 {
        48.0
    }

    fn shares_keys(&self) -> bool {
        true
    }

    fn height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        tall(trace, options, width, PAGE_PT)
    }

    fn max_height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        tall(trace, options, width, f32::INFINITY)
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        let none = match trace.minus {
            Some(_) => positions(trace).is_none(),
            None => matches!(trace.routing, Routing::None),
        };
        none.then(|| no_place(trace))
    }

    /// Of differences alone: paths are on one scale, that of their steps.
    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        trace.minus.as_ref()?;
        extent(positions(trace)?)
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        if trace.minus.is_some() {
            return apart(trace, options, theme, size);
        }
        let orders = order::orders(trace);
        if orders.is_empty() {
            return Err(no_order(trace));
        }
        let mut scene = Scene::new(size.width, size.height, "Reading order", theme.background);
        let (columns, rows) = layout(orders.len(), size.width);
        let step = step(trace, options);
        let keys = options.keys;
        let axis = keys.bar_axis(theme, bar(trace, options), size.height);
        let (w, head) = (side(theme, size.width, columns, &axis, keys), head(theme, columns * rows, keys));
        let foot = foot(theme, step.is_some(), keys);
        let row = (size.height - foot + 4.0) / rows as f32;
        let panel = Box2::new(0.0, head, w, row - head - 4.0).largest(1.0, picture::aspect(trace));
        for (s, order) in orders.iter().enumerate() {
            let (x, y) = ((s % columns) as f32 * (panel.w + 2.0 * theme.gap), (s / columns) as f32 * row);
            let rect = Box2 { x, y: y + head, ..panel };
            let memory = step.and_then(|step| Some((step, order::memory(trace, s)?)));
            let title = match &memory {
                Some((step, _)) if orders.len() > 1 => {
                    format!("{}: {} read", name(trace, s, orders.len(), rect.w), step.min(&order.len()))
                }
                Some((step, _)) => {
                    format!("Memory after {} of {} steps", step.min(&order.len()), order.len())
                }
                None => name(trace, s, orders.len(), rect.w),
            };
            match orders.len() {
                1 => keys.title(&mut scene, theme, (&title, short(trace, &title)), rect.w),
                _ => _ = frame::title(&mut scene, theme, [x, y], &title, rect.w),
            }
            let sweep = Sweep { theme, options, trace, rect, order };
            match &memory {
                Some((step, kept)) => sweep.memory(&mut scene, *step, kept),
                None => sweep.path(&mut scene),
            }
        }
        let all = Box2::new(
            0.0,
            head,
            columns as f32 * (panel.w + 2.0 * theme.gap) - 2.0 * theme.gap,
            (rows - 1) as f32 * row + panel.h,
        );
        if step.is_none() {
            let [first, last] = sweep::ends();
            let mut key =
                vec![(Mark::Ring(first, last), "First read"), (Mark::Ring(last, first), "Last read")];
            if keys.are_shared() && matches!(trace.routing, Routing::Plan(_)) {
                key.push((Mark::Line(Stroke::new(0.8, theme.ink)), "Last 10 % by mean position"));
            }
            keys.legend(&mut scene, theme, [0.0, all.bottom() + 3.0], size.width, &key);
        }
        keys.color_bar(&mut scene, theme, all, &axis, |t| {
            if step.is_some() { sweep::held(theme, options, t) } else { sweep::color(theme, options, t) }
        });
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
