//! Evidence for one class by position read (docs/definitions.md, section 6). Above, exact: bars of `e[k] = W_c . (K[N-1-k] *
//! routed[k])`, orange for the class and blue against it, over the measured decay of the memory, and a grey line of the
//! same evidence in raster order. Below, the paper's proxy `W_c . routed[k] * rho^(N-1-k)`, as routed and in raster order.

use super::token_map::class_name;
use crate::model::trace::Routing;
use crate::viz::draw::{bars, order::has_memory, order::memories};
use crate::viz::figures::prelude::*;
use crate::viz::{lacking, no_order};

pub struct Evidence;

/// Name of the horizontal axis of both panels.
const POSITION: &str = "Position (last is read last)";

/// How many of the two panels the trace has values for.
fn panels(trace: &Trace) -> usize {
    usize::from(trace.evidence.position.is_some()) + usize::from(trace.evidence.proxy.is_some())
}

/// Range of the height of a panel in a cell of a row, in which the name of its axis has room.
const MIN_PANEL_PT: f32 = 74.0;
const MAX_PANEL_PT: f32 = 92.0;

/// Whether the exact panel and that of the proxy are drawn: in a row those that any of its cells has values for, so that
/// all cells have the same axes.
fn shown_panels(trace: &Trace, options: &Options) -> [bool; 2] {
    let row =
        [options.limits, options.proxy_limits].map(|limits| options.keys.are_shared() && limits.is_some());
    [trace.evidence.position.is_some() || row[0], trace.evidence.proxy.is_some() || row[1]]
}

impl Figure for Evidence {
    fn info(&self) -> Info {
        Info {
            id: "evidence",
            title: "Evidence by position",
            about: "What each position adds to the logit of the class, exactly and by the paper's proxy, as routed and in raster order",
            tab: TabGroup::Evidence.front(),
        }
    }

    fn properties(&self) -> Properties {
        Properties {
            is_for_one_class: true,
            marks_step: true,
            is_compared: true,
            shares_keys: true,
            least_width: 48.0,
            ..Properties::default()
        }
    }

    fn legend_lines(&self, trace: &Trace, width: f32) -> usize {
        if trace.evidence.position.is_none() {
            return 0;
        }
        let (mut scratch, room) = (Scene::new(width, 0.0, "", None), Box2::new(0.0, 0.0, width, 0.0));
        let whole = Options { limits: Some((0.0, 1.0)), ..Options::default() };
        (key_exact(&mut scratch, &Theme::light(), trace, room, &whole).y / legend::ROW_PT) as usize
    }

    fn height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        let height = width * 0.34 + 34.0;
        let height =
            if options.keys.are_shared() { height.clamp(MIN_PANEL_PT, MAX_PANEL_PT) } else { height };
        height * shown_panels(trace, options).into_iter().filter(|shown| *shown).count().max(1) as f32
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        let none = || match trace.routing {
            Routing::None => no_order(trace),
            _ => {
                let other = trace.minus.as_ref().is_some_and(|minus| panels(minus) == 0);
                Empty(format!("{} has no evidence by position", lacking(trace, other).head))
            }
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
        let keys = options.keys;
        let [above, below] = shown_panels(trace, options);
        let count = usize::from(above) + usize::from(below);
        let mut scene = Scene::new(size.width, size.height, "Evidence by position", theme.background);
        let height = size.height / count as f32;
        let room = |i: usize| Box2::new(0.0, i as f32 * height, size.width, height);
        let x = if count > 1 { "" } else { POSITION };
        let limits = options.limits.or_else(|| self.limits(trace));
        let n = trace.grid.len();
        let names = ["Evidence (logit)", "Proxy (logit)"].map(|name| label(trace, name));
        let mut upper = above.then(|| {
            let room = key_exact(&mut scene, theme, trace, room(0), options);
            let room = Box2 { h: room.h - if count > 1 { pt::GAP } else { 0.0 }, ..room };
            panel(room, n, limits.unwrap_or((0.0, 1.0)), (x, &names[0]), keys)
        });
        let mut lower = below.then(|| {
            let limits = options.proxy_limits.or_else(|| self.proxy_limits(trace)).unwrap_or((0.0, 1.0));
            let room = key_proxy(&mut scene, theme, trace, room(count - 1), keys);
            panel(room, n, limits, (POSITION, &names[1]), keys)
        });
        if keys.are_shared() {
            scene.deferred.caption = format!("For {}", class_name(trace));
        }
        if let (Some(upper), Some(lower)) = (&mut upper, &mut lower) {
            Frame::align(&mut [upper, lower]);
        }
        // Without values they draw the axes alone, as beside cells of a row that have some.
        upper.iter().for_each(|frame| draw_exact(&mut scene, theme, trace, frame));
        lower.iter().for_each(|frame| draw_proxy(&mut scene, theme, trace, frame));
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let evidence = &trace.evidence;
        Table::counted("position", trace.grid.len())
            .optional(&head(trace, "exact"), evidence.position.as_deref())
            .optional(&head(trace, "exact_raster"), evidence.position_raster.as_deref())
            .optional(&head(trace, "proxy"), evidence.proxy.as_deref())
            .optional(&head(trace, "proxy_raster"), evidence.proxy_raster.as_deref())
    }
}

/// The axes of a panel; the vertical one includes zero.
fn panel(room: Box2, n: usize, limits: (f64, f64), labels: (&str, &str), keys: Keys) -> Frame {
    let scale = Scale::padded(limits.0.min(0.0), limits.1.max(0.0));
    Frame::keyed(room, (Axis::positions(n, labels.0), Axis::new(scale, labels.1, 4)), keys)
}

/// Draws the legend of the upper panel; returns what is left of `room` below it. With limits, which columns share, it leaves room
/// for every entry, or what has the same value would not be as high in all.
fn key_exact(scene: &mut Scene, theme: &Theme, trace: &Trace, room: Box2, options: &Options) -> Box2 {
    let keys = options.keys;
    let name =
        if keys.are_shared() { "For the class".to_owned() } else { format!("For {}", class_name(trace)) };
    // In a row, its axes tell which columns are differences.
    let name_of = |name: &str| if keys.are_shared() { name.to_owned() } else { label(trace, name) };
    let names = [name.as_str(), "Against"].map(name_of);
    let all = [
        (Mark::Patch(theme.positive), &*names[0]),
        (Mark::Patch(theme.negative), &*names[1]),
        (Mark::Line(strokes(theme)[1]), "In raster order"),
        (Mark::Patch(theme.band), "|K|, own scale"),
    ];
    let has = [true, true, trace.evidence.position_raster.is_some(), has_memory(trace)];
    let key: Vec<_> = all.into_iter().zip(has).filter_map(|(entry, has)| has.then_some(entry)).collect();
    let height = keys.legend(scene, theme, [room.x, room.y], room.w, &key);
    let mut scratch = Scene::new(room.w, 0.0, "", None);
    let whole = keys.legend(&mut scratch, theme, [0.0; 2], room.w, &all);
    keys.below_legend(below(room, if options.limits.is_some() { whole } else { height }))
}

/// The strokes of lines as routed and in raster order. The second is only there to compare with: thin, and in no colour of the
/// bars under it.
fn strokes(theme: &Theme) -> [Stroke; 2] {
    [Stroke::new(pt::LINE, theme.series(1)), Stroke::new(pt::LINE * 0.6, theme.muted)]
}

/// Draws the legend of the lower panel; returns what is left of `room` below it.
fn key_proxy(scene: &mut Scene, theme: &Theme, trace: &Trace, room: Box2, keys: Keys) -> Box2 {
    let [routed, raster] = strokes(theme);
    let has_router = matches!(trace.routing, Routing::Plan(_)) && !keys.are_shared();
    let name = if has_router { "Proxy, as routed" } else { "Proxy, as read" };
    let mut key = vec![(Mark::Line(routed), name)];
    if trace.evidence.proxy_raster.is_some() {
        key.push((Mark::Line(raster), "Proxy, raster order"));
    }
    below(room, keys.legend(scene, theme, [room.x, room.y], room.w, &key))
}

/// `room` without its upper `height`.
fn below(room: Box2, height: f32) -> Box2 {
    Box2::new(room.x, room.y + height, room.w, room.h - height)
}

fn draw_exact(scene: &mut Scene, theme: &Theme, trace: &Trace, frame: &Frame) {
    let Some(values) = &trace.evidence.position else { return frame.axes(scene, theme) };
    let n = values.len();
    let (area, zero) = (frame.area, frame.y(0.0));
    if let Some(memory) = memories(trace) {
        // From the zero line to the edge farther from it, which the largest value of the memory touches.
        let (up, down) = (area.y - zero, area.bottom() - zero);
        let full = if -up >= down { up } else { down };
        let mut outline = vec![[area.x, zero]];
        outline.extend((0..n).map(|k| [frame.x(k as f64), zero + memory[n - 1 - k] as f32 * full]));
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
    frame.zero_line(scene, theme);
    if let Some(raster) = &trace.evidence.position_raster {
        frame.curve(scene, raster.iter().map(|&v| f64::from(v)), strokes(theme)[1]);
    }
    frame.axes(scene, theme);
}

fn draw_proxy(scene: &mut Scene, theme: &Theme, trace: &Trace, frame: &Frame) {
    let Some(values) = &trace.evidence.proxy else { return frame.axes(scene, theme) };
    frame.grid(scene, theme);
    frame.zero_line(scene, theme);
    let [routed_stroke, raster_stroke] = strokes(theme);
    if let Some(raster) = trace.evidence.proxy_raster.as_deref() {
        frame.curve(scene, raster.iter().map(|&v| f64::from(v)), raster_stroke);
    }
    frame.curve(scene, values.iter().map(|&v| f64::from(v)), routed_stroke);
    frame.strips(scene, values.len(), Identity::Position);
    frame.axes(scene, theme);
}
