//! One number for each token, over its patch: exact evidence, `e[i] = sum_k P[i,k] W_c . (K[N-1-k] * t_i)`, or the result of an
//! attribution method; orange speaks for the class, blue against it. The evidence of all tokens and the bias sum to the logit.

use crate::model::trace::{Attributed, Attribution, Found};
use crate::viz::difference::value;
use crate::viz::draw::outlines;
use crate::viz::figures::prelude::*;

/// The map of an attribution method, or of exact evidence.
pub struct TokenMap(pub Option<Attribution>);

/// Largest width of the picture in a cell of a row, in points.
const MAX_SIDE_PT: f32 = 160.0;

/// Name of the class that the evidence is about.
pub fn class_name(trace: &Trace) -> String {
    name_of(trace, trace.evidence.class)
}

/// The name of a class, or its number if it is not among the top predictions of the trace.
pub fn name_of(trace: &Trace, class: usize) -> String {
    let known = trace.top.iter().find(|p| p.index == class);
    known.map_or_else(|| format!("class {class}"), |p| p.name.clone())
}

/// Why there is no evidence by token.
fn why_none(trace: &Trace) -> String {
    let why = trace.evidence.why_none.clone();
    why.unwrap_or_else(|| format!("{} has no exact evidence by token", trace.head))
}

/// What a map shows: an attribution method, or `None` for exact evidence, and one value for each token.
type Mapped<'a> = (Option<Attribution>, &'a [f32]);

impl TokenMap {
    /// What there is to show; instead of missing evidence the first attribution method with a result.
    fn mapped<'a>(&self, trace: &'a Trace) -> Result<Mapped<'a>, Empty> {
        let found = |(method, found): (&Attribution, &'a Found<Attributed>)| {
            Some((Some(*method), &found.found()?.token[..]))
        };
        match (self.0, &trace.evidence.token) {
            (None, Some(values)) => Ok((None, values)),
            (None, None) => trace.attributions.iter().find_map(found).ok_or_else(|| Empty(why_none(trace))),
            (Some(method), _) => match trace.attributions.get(&method) {
                Some(Found::Some(found)) => Ok((Some(method), &found.token)),
                Some(Found::None { none }) => Err(Empty(none.clone())),
                None => Err(Empty(format!("{} is not computed: it was not requested", method.name()))),
            },
        }
    }

    /// The axis of the colour bar: symmetric around zero, unless its values are never negative.
    fn bar_axis(&self, trace: &Trace, options: &Options) -> Axis {
        let (lo, hi) = options.limits.or_else(|| self.limits(trace)).unwrap_or((-1.0, 1.0));
        let scale = if self.is_signed(trace, lo) { around_zero((lo, hi)) } else { Scale::linear(lo, hi) };
        Axis::new(scale, label(trace, self.scale(trace)), 5)
    }

    /// Whether the colour map has two signs, for values whose smallest is `lo`.
    fn is_signed(&self, trace: &Trace, lo: f64) -> bool {
        trace.minus.is_some() || self.0 != Some(Attribution::Rollout) || lo < 0.0
    }

    /// Height of the figure with a picture of this width in a scene `width` points wide, in points.
    fn figure_height(&self, trace: &Trace, picture: f32, width: f32, keys: Keys) -> f32 {
        let lines = keys.title_room() + self.foot_height(trace, width, keys);
        picture * picture::aspect(trace) + lines
    }

    /// Height of the lines under the picture, in points.
    fn foot_height(&self, trace: &Trace, width: f32, keys: Keys) -> f32 {
        let foot = self.mapped(trace).map_or_else(|_| String::new(), |mapped| self.foot(trace, mapped));
        let lines = keys.foot_lines(&foot, width).len();
        if keys.are_shared() { 0.0 } else { lines.max(1) as f32 * keys.title_room() + 1.0 }
    }

    /// What stands under the picture: the sum of the values, and what it should be.
    fn foot(&self, trace: &Trace, (method, values): Mapped<'_>) -> String {
        let sum = values.iter().map(|&v| f64::from(v)).sum::<f64>();
        let part = |name: &str, v: f64| format!("{} {}", label(trace, name), value(trace, v));
        let evidence = trace.evidence.token.as_ref().map(|token| token.iter().map(|&v| f64::from(v)).sum());
        match (method, method.and_then(|method| trace.attributions.get(&method))) {
            (Some(_), _) if self.0.is_none() => why_none(trace),
            (None, _) => {
                let bias = f64::from(trace.evidence.bias);
                [part("Sum", sum), part("bias", bias), part("logit", sum + bias)].join(", ")
            }
            (Some(Attribution::Gradient), _) => match evidence {
                Some(evidence) => [part("Sum", sum), part("of exact evidence", evidence)].join(", "),
                None => format!("{}, no exact evidence", part("Sum", sum)),
            },
            (_, Some(Found::Some(Attributed { completeness_error: Some(error), .. }))) => {
                format!("{}, completeness error {}", part("Sum", sum), number(*error))
            }
            _ => part("Sum", sum),
        }
    }
}

/// Largest width of the picture on a page, in points; in a window's pane it grows with the pane.
const PAGE_PT: f32 = 240.0;

impl Figure for TokenMap {
    fn info(&self) -> Info {
        let (id, title) =
            self.0.map_or(("token_map", "Evidence by token"), |method| (method.id(), method.name()));
        let about = match self.0 {
            None => {
                "What every token adds to the logit of the class, over its patch; the patches and the bias sum to the logit"
            }
            Some(Attribution::Gradient) => {
                "Every token times the logit's gradient with respect to it: exact evidence where weights depend on no token; behind a router the difference is the routing's own gradient"
            }
            Some(Attribution::Integrated) => {
                "Gradients of the logit at 64 steps from the mean token to each token; their sum misses the logit's change by the completeness error"
            }
            Some(Attribution::Rollout) => {
                "How much of each patch reaches the patch tokens through the backbone's attention, layer by layer; it is the same for every class"
            }
        };
        let group = if self.0.is_some() { TabGroup::OnRequest } else { TabGroup::Picture };
        Info { id, title, about, tab: group.tab() }
    }

    fn attribution(&self) -> Option<Attribution> {
        self.0
    }

    fn controls(&self, trace: &Trace) -> &'static [Control] {
        let lowest = self.limits(trace).map_or(0.0, |(lo, _)| lo);
        outlines::controls(trace, self.is_signed(trace, lowest))
    }

    fn properties(&self) -> Properties {
        Properties {
            compares_tokens: true,
            is_for_one_class: self.0 != Some(Attribution::Rollout),
            is_compared: self.0.is_none(),
            shares_keys: true,
            least_width: 48.0,
            ..Properties::default()
        }
    }

    fn scale(&self, trace: &Trace) -> &'static str {
        match self.mapped(trace).ok().and_then(|(method, _)| method).or(self.0) {
            None => "Contribution to the logit",
            Some(Attribution::Gradient) => "Gradient × token (logit)",
            Some(Attribution::Integrated) => "Integrated gradient (logit)",
            Some(Attribution::Rollout) => "Share of the patch",
        }
    }

    fn height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        let bar = self.bar_axis(trace, options);
        let picture = options.keys.picture_room(&bar, width, MAX_SIDE_PT).min(PAGE_PT);
        self.figure_height(trace, picture, width, options.keys)
    }

    fn max_height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        let bar = self.bar_axis(trace, options);
        let picture = options.keys.picture_room(&bar, width, MAX_SIDE_PT);
        self.figure_height(trace, picture, width, options.keys)
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        self.mapped(trace).err()
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        extent(self.mapped(trace).ok()?.1.iter().map(|&v| f64::from(v)))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let mapped @ (method, values) = self.mapped(trace)?;
        let name = method.map_or("Evidence", Attribution::name);
        let mut scene = Scene::new(size.width, size.height, format!("{name} by token"), theme.background);
        let keys = options.keys;
        let line = keys.title_room();
        let axis = keys.bar_axis(self.bar_axis(trace, options), size.height);
        let foot = self.foot_height(trace, size.width, keys);
        let width = keys.picture_room(&axis, size.width, MAX_SIDE_PT);
        let room = Box2::new(0.0, line, width, size.height - line - foot);
        let rect = room.largest(1.0, picture::aspect(trace));
        let (title, short) = match method {
            Some(Attribution::Rollout) => (label(trace, name), "Of the backbone".to_owned()),
            _ => {
                let class = class_name(trace);
                (label(trace, &format!("{name} for {class}")), format!("For {class}"))
            }
        };
        keys.title(&mut scene, theme, (&title, &short), size.width);
        picture::seen(&mut scene, theme, trace, rect, 0.35);
        let signed = axis.scale.lo < 0.0;
        let color = |t: f32| options.map.on_scale(theme, signed, t);
        picture::cover(&mut scene, trace.grid, rect, |i| {
            let at = axis.scale.at(f64::from(values[i]));
            let magnitude = if signed { (2.0 * at - 1.0).abs() } else { at };
            color(at).alpha(options.opacity.max(0.05) * (0.25 + 0.75 * magnitude.min(1.0)).sqrt())
        });
        outlines::over(&mut scene, theme, trace, options, rect);
        keys.color_bar(&mut scene, theme, rect, &axis, color);
        keys.foot(&mut scene, theme, [0.0, rect.bottom() + line], self.foot(trace, mapped));
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let mapped = self.mapped(trace).ok();
        let method = mapped.and_then(|(method, _)| method).or(self.0);
        let name = method.map_or("evidence", Attribution::id);
        Table::counted("token", trace.grid.len())
            .optional(&head(trace, name), mapped.map(|(_, values)| values))
    }
}
