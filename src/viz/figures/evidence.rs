//! Evidence for one class by position read (docs/definitions.md, section 6). Above, exact: `e[k] = W_c . (K[N-1-k] *
//! routed[k])`, orange for the class and blue against it, under the measured decay of the memory; as a
//! line what the same memory would see in raster order. Below, the paper's proxy `W_c . routed[k] * rho^(N-1-k)`, as routed and had it been read in raster.

use super::token_map::class_name;
use crate::model::trace::{Routing, Trace};
use crate::viz::draw::{
    Axis, Box2, Frame, Identity, Mark, Scale, Scene, Stroke, Table, Theme, bars, extent, legend,
    order::memories,
};
use crate::viz::{Empty, Figure, Info, Options, Size, Subtractable, TabGroup, no_order};

pub struct Evidence;

/// Name of the axis both panels share.
const POSITION: &str = "Position (last is read last)";

/// How many panels the trace fills.
fn panels(trace: &Trace) -> usize {
    usize::from(trace.evidence.position.is_some()) + usize::from(trace.evidence.proxy.is_some())
}

impl Figure for Evidence {
    fn info(&self) -> Info {
        Info {
            id: "evidence",
            title: "Evidence by position",
            about: "What every position read adds to the logit of the class, exactly and by the paper's proxy, routed and in raster order",
            tab: TabGroup::Evidence.front(),
        }
    }

    fn subtractable(&self) -> Subtractable {
        Subtractable::ForOneClass
    }

    fn marks_step(&self) -> bool {
        true
    }

    fn is_compared(&self) -> bool {
        true
    }

    fn height(&self, trace: &Trace, _: &Options, width: f32) -> f32 {
        (width * 0.34 + 34.0) * panels(trace).max(1) as f32
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        let none = || match trace.routing {
            Routing::None => no_order(trace),
            _ => Empty(format!("{} has no evidence by position", trace.head)),
        };
        (panels(trace) == 0).then(|| trace.evidence.why_none.clone().map_or_else(none, Empty))
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        let raster = trace.evidence.position_raster.as_deref().unwrap_or(&[]);
        extent(trace.evidence.position.as_ref()?.iter().chain(raster).map(|&v| f64::from(v)))
    }

    fn proxy_limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        let raster = trace.evidence.proxy_raster.as_deref().unwrap_or(&[]);
        extent(trace.evidence.proxy.as_ref()?.iter().chain(raster).map(|&v| f64::from(v)))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let e = &trace.evidence;
        let count = panels(trace);
        if let Some(why) = self.lacks(trace) {
            return Err(why);
        }
        let mut scene = Scene::new(size.width, size.height, "Evidence by position", theme.background);
        let height = size.height / count as f32;
        let room = |i: usize| Box2::new(0.0, i as f32 * height, size.width, height);
        let x = if count > 1 { "" } else { POSITION };
        let limits = options.limits.or_else(|| self.limits(trace));
        let mut upper = e.position.as_ref().map(|v| {
            let room = key_exact(&mut scene, theme, trace, room(0));
            let room = Box2 { h: room.h - if count > 1 { theme.gap } else { 0.0 }, ..room };
            panel(room, v.len(), limits.unwrap_or((0.0, 1.0)), (x, "Evidence (logit)"), theme)
        });
        let mut lower = e.proxy.as_ref().map(|v| {
            let limits = options.proxy_limits.or_else(|| self.proxy_limits(trace)).unwrap_or((0.0, 1.0));
            let room = key_proxy(&mut scene, theme, trace, room(count - 1));
            panel(room, v.len(), limits, (POSITION, "Proxy (logit)"), theme)
        });
        if let (Some(upper), Some(lower)) = (&mut upper, &mut lower) {
            Frame::align(&mut [upper, lower]);
        }
        if let (Some(frame), Some(values)) = (&upper, &e.position) {
            exact(&mut scene, theme, trace, frame, values);
        }
        if let (Some(frame), Some(values)) = (&lower, &e.proxy) {
            proxy(&mut scene, theme, trace, frame, values);
        }
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let e = &trace.evidence;
        Table::counted("position", trace.grid.len())
            .optional("exact", e.position.as_deref())
            .optional("exact_raster", e.position_raster.as_deref())
            .optional("proxy", e.proxy.as_deref())
            .optional("proxy_raster", e.proxy_raster.as_deref())
    }
}

/// The axes of a panel whose upward range holds zero.
fn panel(room: Box2, n: usize, limits: (f64, f64), labels: (&str, &str), theme: &Theme) -> Frame {
    let scale = Scale::padded(limits.0.min(0.0), limits.1.max(0.0));
    Frame::fit(room, Axis::positions(n, labels.0), Axis::new(scale, labels.1, 4), theme)
}

/// Draws the key of the upper panel, and gives what is left of `room`.
fn key_exact(scene: &mut Scene, theme: &Theme, trace: &Trace, room: Box2) -> Box2 {
    let name = format!("For {}", class_name(trace));
    let mut key =
        vec![(Mark::Patch(theme.positive), name.as_str()), (Mark::Patch(theme.negative), "Against")];
    if trace.evidence.position_raster.is_some() {
        key.push((Mark::Line(strokes(theme)[1]), "In raster order"));
    }
    if memories(trace).is_some() {
        key.push((Mark::Patch(theme.band), "|K|, own scale"));
    }
    below(room, legend::legend(scene, theme, [room.x, room.y], room.w, &key))
}

/// The strokes of the proxy as routed and in raster order.
fn strokes(theme: &Theme) -> [Stroke; 2] {
    [Stroke::new(theme.line, theme.series(1)), Stroke::new(theme.line * 0.8, theme.series(0))]
}

/// Draws the key of the lower panel, and gives what is left of `room`.
fn key_proxy(scene: &mut Scene, theme: &Theme, trace: &Trace, room: Box2) -> Box2 {
    let [routed, raster] = strokes(theme);
    let read = if matches!(trace.routing, Routing::Plan(_)) { "Proxy, as routed" } else { "Proxy, as read" };
    let mut key = vec![(Mark::Line(routed), read)];
    if trace.evidence.proxy_raster.is_some() {
        key.push((Mark::Line(raster), "Proxy, raster order"));
    }
    below(room, legend::legend(scene, theme, [room.x, room.y], room.w, &key))
}

/// `room` without its upper `height`.
fn below(room: Box2, height: f32) -> Box2 {
    Box2::new(room.x, room.y + height, room.w, room.h - height)
}

fn exact(scene: &mut Scene, theme: &Theme, trace: &Trace, frame: &Frame, values: &[f32]) {
    let n = values.len();
    let (area, zero) = (frame.area, frame.y(0.0));
    if let Some(kept) = memories(trace) {
        // From the zero line to the farther edge, which the largest memory touches.
        let (up, down) = (area.y - zero, area.bottom() - zero);
        let reach = if -up >= down { up } else { down };
        let mut outline = vec![[area.x, zero]];
        outline.extend((0..n).map(|k| [frame.x(k as f64), zero + kept[n - 1 - k] as f32 * reach]));
        outline.push([area.right(), zero]);
        scene.polygon(outline, theme.band.alpha(0.6));
    }
    frame.grid(scene, theme);
    let cell = area.w / n as f32;
    for (k, (&v, (left, width))) in values.iter().zip(bars::spans(values, area.x, cell)).enumerate() {
        let end = frame.at(k as f64, f64::from(v))[1];
        let color = if v < 0.0 { theme.negative } else { theme.positive };
        scene.fill(Box2::new(left, zero.min(end), width, (zero - end).abs()), color);
    }
    frame.strips(scene, n, Identity::Position);
    scene.line(vec![[area.x, zero], [area.right(), zero]], Stroke::new(theme.hair, theme.axis));
    if let Some(raster) = &trace.evidence.position_raster {
        let points = raster.iter().enumerate().map(|(k, &v)| frame.at(k as f64, f64::from(v))).collect();
        scene.line(points, strokes(theme)[1]);
    }
    frame.axes(scene, theme);
}

fn proxy(scene: &mut Scene, theme: &Theme, trace: &Trace, frame: &Frame, values: &[f32]) {
    frame.grid(scene, theme);
    let (area, zero) = (frame.area, frame.y(0.0));
    scene.line(vec![[area.x, zero], [area.right(), zero]], Stroke::new(theme.hair, theme.axis));
    let curve = |v: &[f32]| v.iter().enumerate().map(|(k, &v)| frame.at(k as f64, f64::from(v))).collect();
    let [routed_stroke, raster_stroke] = strokes(theme);
    if let Some(raster) = trace.evidence.proxy_raster.as_deref() {
        scene.line(curve(raster), raster_stroke);
    }
    scene.line(curve(values), routed_stroke);
    frame.strips(scene, values.len(), Identity::Position);
    frame.axes(scene, theme);
}
