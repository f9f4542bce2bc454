//! The picture that the model saw, and beside it the same picture with the weight of every token in the readout,
//! `token_weight[i] = sum_k P[i,k] (K[N-1-k] + D [k = N-1])`, as the colour of its patch.

use crate::viz::difference;
use crate::viz::draw::{frame::TITLE_HEIGHT, outlines};
use crate::viz::figures::prelude::*;

pub struct Photo;

/// Largest side of a picture in a cell of a row.
const MAX_SIDE_PT: f32 = 120.0;
/// Smallest width of a cell of a row in which both pictures stand side by side.
const MIN_BESIDE_PT: f32 = 150.0;

/// The values that colour the patches, their name and that of their scale: token weights, or scores if there are none.
fn layer(trace: &Trace) -> Option<(&[f32], &'static str, &'static str)> {
    match (&trace.token_weight, &trace.scores) {
        (Some(weight), _) => Some((weight, "Token weight", "Weight in the sum")),
        (None, Some(scores)) => Some((scores, "Token score", "Score (standardised)")),
        (None, None) => None,
    }
}

/// Whether values, of which `lo` is the lowest, are coloured by sign.
fn is_signed(trace: &Trace, lo: f64) -> bool {
    trace.minus.is_some() || lo < 0.0
}

/// Width of a picture if two stand side by side, and if one stands above the other.
fn picture_widths(width: f32, bar: &Axis, keys: Keys) -> [f32; 2] {
    let room = keys.picture_room(bar, width, 2.0 * MAX_SIDE_PT);
    [(room - 2.0 * pt::GAP) / 2.0, room]
}

/// The boxes of both pictures: side by side, or one above the other if that makes them larger.
fn places(size: Size, bar: &Axis, keys: Keys, aspect: f32) -> [Box2; 2] {
    let [half, full] = picture_widths(size.width, bar, keys);
    let title = TITLE_HEIGHT;
    let beside = Box2::new(0.0, title, half, size.height - title).largest(1.0, aspect);
    let above = Box2::new(0.0, title, full, (size.height - pt::GAP) / 2.0 - title).largest(1.0, aspect);
    if above.w > beside.w {
        [above, Box2 { y: above.bottom() + pt::GAP + title, ..above }]
    } else {
        [beside, Box2 { x: beside.right() + 2.0 * pt::GAP, ..beside }]
    }
}

/// By which factor the second picture must be wider alone than beside the first to be shown alone.
const MIN_GROWTH: f32 = 1.5;

impl Photo {
    /// The axis of the colour bar: centred at zero for differences, and if there are negative values.
    fn bar(&self, trace: &Trace, options: &Options) -> Axis {
        let name = layer(trace).map_or_else(String::new, |(.., name)| label(trace, name));
        let (lo, hi) = options.limits.or_else(|| self.limits(trace)).unwrap_or((0.0, 1.0));
        let scale = if is_signed(trace, lo) { around_zero((lo, hi)) } else { Scale::linear(lo, hi) };
        Axis::new(scale, name, 4)
    }
}

impl Figure for Photo {
    fn info(&self) -> Info {
        Info {
            id: "photo",
            title: "Picture",
            about: "The picture as the model saw it, and how much each token counts in the readout",
            tab: TabGroup::Picture.tab(),
        }
    }

    fn controls(&self, trace: &Trace) -> &'static [Control] {
        outlines::controls(trace, self.limits(trace).is_some_and(|(lo, _)| is_signed(trace, lo)))
    }

    fn properties(&self) -> Properties {
        Properties {
            compares_tokens: true,
            is_compared: true,
            shares_keys: true,
            least_width: 52.0,
            ..Properties::default()
        }
    }

    fn scale(&self, trace: &Trace) -> &'static str {
        layer(trace).map_or("", |(.., name)| name)
    }

    fn height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        // One picture stands above the other.
        if options.keys.are_shared() && width < MIN_BESIDE_PT {
            return self.max_height(trace, options, width);
        }
        let [half, _] = picture_widths(width, &self.bar(trace, options), options.keys);
        half * picture::aspect(trace) + TITLE_HEIGHT
    }

    fn max_height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        let [_, full] = picture_widths(width, &self.bar(trace, options), options.keys);
        2.0 * (full * picture::aspect(trace) + TITLE_HEIGHT) + pt::GAP
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        extent(layer(trace)?.0.iter().map(|&v| f64::from(v)))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let mut scene = Scene::new(size.width, size.height, "Picture and token weights", theme.background);
        let axis = options.keys.bar_axis(self.bar(trace, options), size.height);
        let aspect = picture::aspect(trace);
        let [left, beside] = places(size, &axis, options.keys, aspect);
        // The second picture alone, if two would leave the pane half empty; no exported page has such a shape.
        let [_, full] = picture_widths(size.width, &axis, options.keys);
        let top = TITLE_HEIGHT;
        let alone = Box2::new(0.0, top, full, size.height - top).largest(1.0, aspect);
        let alone = (alone.w > MIN_GROWTH * beside.w && layer(trace).is_some()).then_some(alone);
        if alone.is_none() {
            frame::title(&mut scene, theme, [left.x, left.y - TITLE_HEIGHT], "Model input", left.w);
            picture::seen(&mut scene, theme, trace, left, 0.0);
            outlines::over(&mut scene, theme, trace, options, left);
        }
        let right = alone.unwrap_or(beside);
        let Some((values, name, _)) = layer(trace) else {
            let why = match &trace.minus {
                Some(_) => "The two share neither a weight nor a score for single tokens".to_owned(),
                None => format!("{} has neither a weight nor a score for single tokens", trace.head),
            };
            let text = frame::message(theme, right.w, right.h, &why);
            scene.place(text, [right.x, right.y], None);
            return Ok(scene);
        };
        let bare = alone.is_some() && options.opacity <= 0.0;
        let title = if bare { "Model input".to_owned() } else { label(trace, name) };
        frame::title(&mut scene, theme, [right.x, right.y - TITLE_HEIGHT], &title, right.w);
        let scale = axis.scale;
        let signed = scale.lo < 0.0;
        let color = |t: f32| options.map.on_scale(theme, signed, t);
        picture::seen(&mut scene, theme, trace, right, if bare { 0.0 } else { 0.25 });
        picture::cover(&mut scene, trace.grid, right, |i| {
            color(scale.at(f64::from(values[i]))).alpha(options.opacity)
        });
        outlines::over(&mut scene, theme, trace, options, right);
        options.keys.color_bar(&mut scene, theme, right, &axis, color);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let n = trace.grid.len();
        let cols = trace.grid.cols.max(1);
        Table::counted("token", n)
            .numbers("row", (0..n).map(|i| (i / cols) as f64))
            .numbers("column", (0..n).map(|i| (i % cols) as f64))
            .optional(&difference::head(trace, "token_weight"), trace.token_weight.as_deref())
            .optional(&difference::head(trace, "score"), trace.scores.as_deref())
    }
}
