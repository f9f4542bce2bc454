//! Exact evidence by token, `e[i] = sum_k P[i,k] W_c . (K[N-1-k] * t_i)`, over the picture: orange
//! speaks for the class, blue against it. The patches sum, with the bias, to the logit.

use crate::model::trace::Trace;
use crate::viz::difference::{self, label, value};
use crate::viz::draw::{Axis, Box2, Keys, Scale, Scene, Table, Theme, diverging, extent, picture};
use crate::viz::{Control, Empty, Figure, Info, Options, Size, Subtractable, TabGroup};

pub struct TokenMap;

/// Largest side of the picture in a cell of a row.
const MAX_SIDE_PT: f32 = 160.0;

/// Name of the class the evidence speaks for.
pub fn class_name(trace: &Trace) -> String {
    let class = trace.evidence.class;
    let known = trace.top.iter().find(|p| p.index == class);
    known.map_or_else(|| format!("class {class}"), |p| p.name.clone())
}

/// Why there is no evidence by token.
fn none(trace: &Trace) -> Empty {
    let why = trace.evidence.why_none.clone();
    Empty(why.unwrap_or_else(|| format!("{} has no exact evidence by token", trace.head)))
}

/// The scale of the colour bar, around zero.
fn bar(trace: &Trace, limits: Option<(f64, f64)>) -> Axis {
    let (lo, hi) = limits.unwrap_or((-1.0, 1.0));
    let bound = lo.abs().max(hi.abs()).max(1e-30);
    Axis::new(Scale::linear(-bound, bound), label(trace, "Contribution to the logit"), 5)
}

/// Widest picture on a page; in a pane it grows to the room there is.
const PAGE_PT: f32 = 240.0;

/// Width of the picture, where height does not matter.
fn side(theme: &Theme, width: f32, bar: &Axis, keys: Keys) -> f32 {
    let room = width - keys.bar_room(theme, bar);
    if keys.are_shared() { room.min(MAX_SIDE_PT) } else { room }
}

/// Height of the figure around a picture so wide.
fn around(trace: &Trace, side: f32, keys: Keys) -> f32 {
    let edges = if keys.are_shared() { 0.0 } else { 2.0 * (Theme::light().label + 2.5) + 1.0 };
    side * picture::aspect(trace) + edges
}

impl Figure for TokenMap {
    fn info(&self) -> Info {
        Info {
            id: "token_map",
            title: "Evidence by token",
            about: "What every token adds to the logit of the class, over its patch; the patches and the bias sum to the logit",
            tab: TabGroup::Picture.tab(),
        }
    }

    fn controls(&self, _: &Trace) -> &'static [Control] {
        &[Control::Opacity, Control::Grid]
    }

    fn subtractable(&self) -> Subtractable {
        Subtractable::ForOneClass
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
        let theme = Theme::light();
        let bar = bar(trace, options.limits.or_else(|| self.limits(trace)));
        around(trace, side(&theme, width, &bar, options.keys).min(PAGE_PT), options.keys)
    }

    fn max_height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        let bar = bar(trace, options.limits.or_else(|| self.limits(trace)));
        around(trace, side(&Theme::light(), width, &bar, options.keys), options.keys)
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        trace.evidence.token.is_none().then(|| none(trace))
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        extent(trace.evidence.token.as_ref()?.iter().map(|&v| f64::from(v)))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let values = trace.evidence.token.as_ref().ok_or_else(|| none(trace))?;
        let mut scene = Scene::new(size.width, size.height, "Evidence by token", theme.background);
        let keys = options.keys;
        let line = keys.title_room(theme);
        let axis = bar(trace, options.limits.or_else(|| self.limits(trace)));
        let foot = if keys.are_shared() { 0.0 } else { line + 1.0 };
        let room = Box2::new(0.0, line, side(theme, size.width, &axis, keys), size.height - line - foot);
        let rect = room.largest(1.0, picture::aspect(trace));
        let class = class_name(trace);
        let title = label(trace, &format!("Evidence for {class}"));
        keys.title(&mut scene, theme, (&title, &format!("For {class}")), size.width);
        picture::seen(&mut scene, theme, trace, rect, 0.35);
        picture::cover(&mut scene, trace.grid, rect, |i| {
            let t = 2.0 * axis.scale.at(f64::from(values[i])) - 1.0;
            diverging(theme, t).alpha(options.opacity.max(0.05) * (0.25 + 0.75 * t.abs().min(1.0)).sqrt())
        });
        if options.grid {
            picture::lines(&mut scene, theme, trace.grid, rect);
        }
        keys.color_bar(&mut scene, theme, rect, &axis, |t| diverging(theme, 2.0 * t - 1.0));
        let sum: f64 = values.iter().map(|&v| f64::from(v)).sum();
        let bias = f64::from(trace.evidence.bias);
        let part = |name: &str, v: f64| format!("{} {}", label(trace, name), value(trace, v));
        let text = [part("Sum", sum), part("bias", bias), part("logit", sum + bias)].join(", ");
        keys.foot(&mut scene, theme, [0.0, rect.bottom() + line], text);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        Table::counted("token", trace.grid.len())
            .optional(&difference::head(trace, "evidence"), trace.evidence.token.as_deref())
    }
}
