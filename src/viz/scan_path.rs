//! The path a probe reads along: patch to patch over the grid, coloured by step; a plan by its hard
//! order (expected positions). Several sweeps stand side by side. With `step` it shows what the
//! memory holds after so many tokens: every patch as opaque as `|K[j]| / max |K|`, `j` steps back.

use super::frame::{self, Axis};
use super::order;
use super::picture;
use super::scale::Scale;
use super::scene::{Box2, Identity, Point, Scene, Stroke};
use super::table::Table;
use super::theme::{Color, Theme};
use super::{Empty, Figure, Options, Size, no_order};
use crate::model::trace::{Routing, Trace};

/// The figure.
pub struct ScanPath;

/// Columns and rows of the small multiples.
fn layout(sweeps: usize) -> (usize, usize) {
    let columns = if sweeps <= 1 { 1 } else { 2 };
    (columns, sweeps.max(1).div_ceil(columns))
}

/// The colour bar.
fn bar(trace: &Trace, memory: bool) -> Axis {
    if memory {
        Axis::new(Scale::linear(0.0, 1.0), "Share of the memory kept", 4)
    } else {
        Axis::counts(Scale::linear(0.0, trace.grid.len() as f64 - 1.0), "Step (last is read last)", 5)
    }
}

/// Width of one panel.
fn side(theme: &Theme, width: f32, columns: usize, bar: &Axis) -> f32 {
    let bar = frame::bar_room(theme, bar);
    let room = (width - bar - (columns - 1) as f32 * 2.0 * theme.gap) / columns as f32;
    room.min(240.0)
}

fn name(trace: &Trace, sweep: usize, of: usize) -> String {
    match &trace.routing {
        Routing::Plan(_) => format!("Hard order; line: the last {} steps", tail(trace)),
        _ if of == 1 => trace.head.clone(),
        _ => format!("{}, sweep {}", trace.head, sweep + 1),
    }
}

/// How many of the last steps of a learned order are drawn as a line: those the memory keeps best.
fn tail(trace: &Trace) -> usize {
    (trace.grid.len() / 10).max(1)
}

impl Figure for ScanPath {
    fn id(&self) -> &'static str {
        "scan_path"
    }

    fn title(&self) -> &'static str {
        "Reading order"
    }

    fn about(&self) -> &'static str {
        "The path over the patches, coloured by step: the ring is read first, the dot last"
    }

    fn height(&self, trace: &Trace, width: f32) -> f32 {
        let theme = Theme::light();
        let (columns, rows) = layout(order::orders(trace).len());
        rows as f32
            * (side(&theme, width, columns, &bar(trace, false)) * picture::aspect(trace) + theme.label + 6.5)
            - 4.0
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let orders = order::orders(trace);
        if orders.is_empty() {
            return Err(no_order(trace));
        }
        let memory = options.step.map(|step| {
            let kept = order::memory(trace);
            kept.map(|kept| (step, kept)).ok_or_else(|| Empty(format!("{} has no memory kernel", trace.head)))
        });
        let memory = memory.transpose()?;
        let mut scene = Scene::new(size.width, size.height, "Reading order", theme.background);
        let (columns, rows) = layout(orders.len());
        let axis = bar(trace, memory.is_some());
        let (w, head) = (side(theme, size.width, columns, &axis), theme.label + 2.5);
        let row = (size.height + 4.0) / rows as f32;
        let panel = Box2::new(0.0, head, w, row - head - 4.0).largest(1.0, picture::aspect(trace));
        for (s, order) in orders.iter().enumerate() {
            let (x, y) = ((s % columns) as f32 * (panel.w + 2.0 * theme.gap), (s / columns) as f32 * row);
            let rect = Box2 { x, y: y + head, ..panel };
            let title = match &memory {
                Some((step, _)) => {
                    format!("Memory after {} of {} steps", step.min(&order.len()), order.len())
                }
                None => name(trace, s, orders.len()),
            };
            frame::title(&mut scene, theme, [x, y], &title, rect.w);
            match &memory {
                Some((step, kept)) => held(&mut scene, theme, trace, options, rect, order, *step, kept),
                None => path(&mut scene, theme, trace, options, rect, order),
            }
        }
        let all = Box2::new(
            0.0,
            head,
            columns as f32 * (panel.w + 2.0 * theme.gap) - 2.0 * theme.gap,
            (rows - 1) as f32 * row + panel.h,
        );
        frame::color_bar(&mut scene, theme, all, &axis, |t| color(theme, options, t));
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let mut table = Table::counted("step", trace.grid.len());
        for (s, order) in order::orders(trace).iter().enumerate() {
            table = table.numbers(&format!("token_{s}"), order.iter().map(|&i| i as f64));
        }
        table
    }
}

/// The colour of part `t` of the way; the end of the map that would sink into the ground is left out.
fn color(theme: &Theme, options: &Options, t: f32) -> Color {
    options.map.at(if theme.dark { 0.2 + 0.8 * t } else { 0.93 * t })
}

/// The middle of the patch of token `i`.
fn middle(trace: &Trace, rect: Box2, i: usize) -> Point {
    let (g, r, c) = (trace.grid, i / trace.grid.cols, i % trace.grid.cols);
    let across = (c as f32 + 0.5) / g.cols as f32;
    let down = (r as f32 + 0.5) / g.rows as f32;
    [rect.x + across * rect.w, rect.y + down * rect.h]
}

fn path(scene: &mut Scene, theme: &Theme, trace: &Trace, options: &Options, rect: Box2, order: &[usize]) {
    let n = order.len();
    let soft = matches!(trace.routing, Routing::Plan(_));
    let cell = (rect.w / trace.grid.cols as f32).min(rect.h / trace.grid.rows as f32);
    let at = |k: usize| (k as f32) / (n.max(2) - 1) as f32;
    let mut step_of = vec![0; n];
    for (k, &i) in order.iter().enumerate() {
        step_of[i] = k;
    }
    if soft {
        // A learned order leaps about: every patch carries its step, a line only the last ones.
        picture::seen(scene, theme, trace, rect, 0.2);
        picture::cover(scene, trace.grid, rect, |i| {
            color(theme, options, at(step_of[i])).alpha(options.opacity)
        });
        let last = &order[n.saturating_sub(tail(trace) + 1)..];
        let points: Vec<Point> = last.iter().map(|&i| middle(trace, rect, i)).collect();
        scene.line(points.clone(), Stroke::new(1.8, theme.ground.alpha(0.75)));
        scene.line(points, Stroke::new(0.8, theme.ink));
    } else {
        picture::seen(scene, theme, trace, rect, 0.75);
        if options.grid {
            picture::lines(scene, theme, trace.grid, rect);
        }
        let weight = (cell * 0.28).clamp(0.6, 2.4);
        for k in 1..n {
            let ends = [order[k - 1], order[k]].map(|i| middle(trace, rect, i));
            let near = (ends[0][0] - ends[1][0]).hypot(ends[0][1] - ends[1][1]) < 2.0 * cell;
            let color = color(theme, options, at(k)).alpha(if near { 1.0 } else { 0.5 });
            scene.line(ends.to_vec(), Stroke::new(if near { weight } else { weight * 0.4 }, color));
        }
    }
    if let (Some(&first), Some(&last)) = (order.first(), order.last()) {
        let radius = (cell * 0.34).clamp(1.6, 4.0);
        let ring = Stroke::new(0.8, theme.ink);
        scene.dot(middle(trace, rect, first), radius, theme.ground, Some(ring));
        scene.dot(middle(trace, rect, last), radius, theme.ink, Some(Stroke::new(0.8, theme.ground)));
    }
}

/// What the memory holds after `step` tokens.
#[allow(clippy::too_many_arguments)] // a private step of `scene`, cut out to be read on its own
fn held(
    scene: &mut Scene,
    theme: &Theme,
    trace: &Trace,
    options: &Options,
    rect: Box2,
    order: &[usize],
    step: usize,
    kept: &[f64],
) {
    let step = step.min(order.len());
    let mut share = vec![None; order.len()];
    for (k, &i) in order[..step].iter().enumerate() {
        share[i] = kept.get(step - 1 - k).map(|&m| m as f32);
    }
    picture::seen(scene, theme, trace, rect, 0.75);
    picture::cover(scene, trace.grid, rect, |i| match share[i] {
        Some(m) => color(theme, options, m).alpha(0.15 + 0.85 * m),
        None => theme.ground.alpha(0.6),
    });
    if options.grid {
        picture::lines(scene, theme, trace.grid, rect);
    }
    if let Some(&last) = step.checked_sub(1).and_then(|k| order.get(k)) {
        let ring = Stroke::new(0.8, theme.ground);
        scene.dot(middle(trace, rect, last), 2.2, theme.ink, Some(ring));
        scene.target(
            Box2::new(middle(trace, rect, last)[0] - 2.2, middle(trace, rect, last)[1] - 2.2, 4.4, 4.4),
            Identity::Token(last),
        );
    }
}
