//! Evidence for one class by position read (SPEC section 6). Above, exact: `e[k] = W_c . (K[N-1-k] *
//! routed[k])`, orange for the class and blue against it, under the measured decay of the memory.
//! Below, the paper's proxy `W_c . routed[k] * rho^(N-1-k)`, as routed and had it been read in raster.

use super::frame::{self, Axis, Frame, Mark};
use super::order::memory;
use super::scale::{Scale, extent};
use super::scene::{Box2, Identity, Scene, Stroke};
use super::table::Table;
use super::theme::Theme;
use super::token_map::class_name;
use super::{Empty, Figure, Options, Size, no_order};
use crate::model::trace::{Routing, Trace};

/// The figure.
pub struct Evidence;

/// How many panels the trace fills.
fn panels(trace: &Trace) -> usize {
    usize::from(trace.evidence.position.is_some()) + usize::from(trace.evidence.proxy.is_some())
}

impl Figure for Evidence {
    fn id(&self) -> &'static str {
        "evidence"
    }

    fn title(&self) -> &'static str {
        "Evidence by position"
    }

    fn about(&self) -> &'static str {
        "What every position read adds to the logit of the class, exactly and by the paper's proxy, routed and in raster order"
    }

    fn height(&self, trace: &Trace, width: f32) -> f32 {
        width * 0.42 * panels(trace).max(1) as f32 + 14.0
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        extent(trace.evidence.position.as_ref()?.iter().map(|&v| f64::from(v)))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let e = &trace.evidence;
        let count = panels(trace);
        if count == 0 {
            let why = e.why_none.clone().map(Empty);
            return Err(match trace.routing {
                Routing::None => why.unwrap_or_else(|| no_order(trace)),
                _ => why.unwrap_or_else(|| Empty(format!("{} has no evidence by position", trace.head))),
            });
        }
        let mut scene = Scene::new(size.width, size.height, "Evidence by position", theme.background);
        let height = size.height / count as f32;
        let mut y = 0.0;
        if let Some(values) = &e.position {
            let room = Box2::new(0.0, y, size.width, height);
            exact(
                &mut scene,
                theme,
                trace,
                room,
                values,
                options.limits.or_else(|| self.limits(trace)),
                count == 1,
            );
            y += height;
        }
        if let Some(values) = &e.proxy {
            proxy(&mut scene, theme, trace, Box2::new(0.0, y, size.width, height), values);
        }
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let e = &trace.evidence;
        Table::counted("position", trace.grid.len())
            .optional("exact", e.position.as_deref())
            .optional("proxy", e.proxy.as_deref())
            .optional("proxy_raster", e.proxy_raster.as_deref())
    }
}

/// The axes of a panel whose upward range holds zero.
fn panel(room: Box2, n: usize, limits: (f64, f64), labels: (&str, &str), theme: &Theme) -> Frame {
    let scale = Scale::nice(limits.0.min(0.0), limits.1.max(0.0), 4);
    let mut x = Axis::positions(n, labels.0);
    x.ticks = 5;
    Frame::fit(room, x, Axis::new(scale, labels.1, 4), theme)
}

fn exact(
    scene: &mut Scene,
    theme: &Theme,
    trace: &Trace,
    room: Box2,
    values: &[f32],
    limits: Option<(f64, f64)>,
    last: bool,
) {
    let n = values.len();
    let kept = memory(trace);
    let name = format!("Exact, for {}", class_name(trace));
    let mut key =
        vec![(Mark::Patch(theme.positive), name.as_str()), (Mark::Patch(theme.negative), "Against it")];
    if kept.is_some() {
        key.push((Mark::Patch(theme.band), "Decay |K|, 0 to its largest"));
    }
    let top = frame::legend(scene, theme, [room.x, room.y], room.w, &key);
    let below = if last { 0.0 } else { theme.gap };
    let room = Box2::new(room.x, room.y + top, room.w, room.h - top - below);
    let label = if last { "Position (last is read last)" } else { "" };
    let frame = panel(room, n, limits.unwrap_or((0.0, 1.0)), (label, "Evidence"), theme);
    let (area, zero) = (frame.area, frame.y(0.0));
    if let Some(kept) = kept {
        // From the zero line to the top: the largest memory touches the top of the panel.
        let reach = (zero - area.y).max(area.h * 0.3);
        let mut outline = vec![[area.x, zero]];
        outline
            .extend((0..n).map(|k| [frame.x(k as f64), (zero - kept[n - 1 - k] as f32 * reach).max(area.y)]));
        outline.push([area.right(), zero]);
        scene.polygon(outline, theme.band.alpha(0.6));
    }
    frame.grid(scene, theme);
    let cell = area.w / n as f32;
    for (k, &v) in values.iter().enumerate() {
        let end = frame.at(k as f64, f64::from(v))[1];
        let x = area.x + k as f32 * cell;
        let color = if v < 0.0 { theme.negative } else { theme.positive };
        let rect = Box2::new(x, zero.min(end), cell * 0.92, (zero - end).abs());
        scene.fill(rect, color);
        scene.target(Box2::new(x, area.y, cell, area.h), Identity::Position(k));
    }
    scene.line(vec![[area.x, zero], [area.right(), zero]], Stroke::new(theme.hair, theme.axis));
    frame.axes(scene, theme);
}

fn proxy(scene: &mut Scene, theme: &Theme, trace: &Trace, room: Box2, values: &[f32]) {
    let n = values.len();
    let raster = trace.evidence.proxy_raster.as_deref();
    let routed_line = Stroke::new(theme.line, theme.series(1));
    let raster_line = Stroke::new(theme.line * 0.8, theme.series(0));
    let mut key = vec![(Mark::Line(routed_line), "Proxy, as routed")];
    if raster.is_some() {
        key.push((Mark::Line(raster_line), "Proxy, had it read in raster"));
    }
    let top = frame::legend(scene, theme, [room.x, room.y], room.w, &key);
    let all = values.iter().chain(raster.unwrap_or(&[])).map(|&v| f64::from(v));
    let limits = extent(all).unwrap_or((0.0, 1.0));
    let room = Box2::new(room.x, room.y + top, room.w, room.h - top);
    let frame = panel(room, n, limits, ("Position (last is read last)", "Proxy evidence"), theme);
    frame.grid(scene, theme);
    let curve = |v: &[f32]| v.iter().enumerate().map(|(k, &v)| frame.at(k as f64, f64::from(v))).collect();
    let zero = frame.y(0.0);
    let area = frame.area;
    scene.line(vec![[area.x, zero], [area.right(), zero]], Stroke::new(theme.hair, theme.axis));
    if let Some(raster) = raster {
        scene.line(curve(raster), raster_line);
    }
    scene.line(curve(values), routed_line);
    let cell = area.w / n as f32;
    for k in 0..n {
        scene.target(Box2::new(area.x + k as f32 * cell, area.y, cell, area.h), Identity::Position(k));
    }
    frame.axes(scene, theme);
}
