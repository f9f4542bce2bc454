//! The data of the page's script: every figure in both themes with the boxes of its tokens and positions, and the values of
//! every token. Serialised as JSON, gzipped, in base64.
//!
//! To compress well, the pixels of an image that several figures contain (the photograph) are stored once, and the lines of a
//! figure's two themes, which are nearly the same, alternate. The script restores each SVG file byte for byte.

use std::io::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use indexmap::IndexSet;
use serde::Serialize;

use crate::model::trace::Trace;
use crate::viz::draw::{Identity, Scene, Theme, hover, order};
use crate::viz::export;
use crate::viz::figures::plot::Plot;
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::{Empty, Figure, Options, SharedLimits};

/// What precedes the base64 pixels of an image within an SVG file.
const PIXELS_PREFIX: &str = "href=\"data:image/png;base64,";
/// Base64 length of an indexed PNG up to the end of its palette: only there do differently shaded copies of a photograph differ.
const PALETTE_CHARS: usize = export::INDEXED_HEAD / 3 * 4;

/// The figures and traces of a page.
#[derive(Default, Serialize)]
pub struct Pictures {
    /// PNG files in base64, each split in two parts: up to the palette, and the rest.
    pixels: IndexSet<String>,
    figures: Vec<FigureData>,
    traces: Vec<TraceData>,
}

#[derive(PartialEq, Serialize)]
struct FigureData {
    /// Width and height, in points.
    size: [f32; 2],
    /// The light and the dark SVG file in one string of alternating lines, or in two strings if their numbers of lines differ.
    /// `@3,4` stands for the parts 3 and 4 of `pixels`.
    svg: Vec<String>,
    /// The boxes that stand for tokens and positions, later ones above earlier ones.
    places: Vec<HitBox>,
}

/// A box of a figure, `[left, top, width, height]` in points, and what it shows: a grid of rows and columns of tokens, a plan
/// with the token of every row and its number of positions, one token, or one position of the reading order.
#[derive(PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum HitBox {
    Grid([f32; 4], usize, usize),
    Plan([f32; 4], Vec<usize>, usize),
    Token([f32; 4], usize),
    Position([f32; 4], usize),
}

/// The values of a trace by token, rounded to four digits; `position` holds the evidence by position.
#[derive(Serialize)]
struct TraceData {
    rows: usize,
    cols: usize,
    /// The token read at every step, one list per sweep.
    orders: Vec<Vec<usize>>,
    scores: Option<Vec<f32>>,
    weight: Option<Vec<f32>>,
    evidence: Option<Vec<f32>>,
    position: Option<Vec<f32>>,
}

impl Pictures {
    /// Draws a figure of a trace, `width` points wide, on the scale of `row`, the traces beside it. Returns its index among the
    /// figures, which equal ones share, or why there is nothing to draw.
    pub fn figure(
        &mut self,
        figure: &'static dyn Figure,
        trace: &Arc<Trace>,
        row: &[&Arc<Trace>],
        width: f32,
    ) -> Result<usize, Empty> {
        let plot = plot(figure, trace, row, Options::default());
        let about = plot.caption().about;
        let light = plot.draw_column(&Theme::light(), width)?;
        let dark = plot.draw_column(&Theme::dark(), width)?;
        let svg = [&light, &dark].map(|scene| self.extract_pixels(&export::svg(scene, &about)));
        let size = [light.width, light.height];
        let figure = FigureData { size, svg: interleaved(svg), places: hit_boxes(&light) };
        let known = self.figures.iter().position(|other| *other == figure);
        Ok(known.unwrap_or_else(|| {
            self.figures.push(figure);
            self.figures.len() - 1
        }))
    }

    /// Adds the values of a trace; returns its index among the traces.
    pub fn trace(&mut self, trace: &Trace) -> usize {
        let rounded = |values: Option<&Vec<f32>>| {
            values.map(|values| values.iter().map(|&v| to_four_digits(v)).collect())
        };
        self.traces.push(TraceData {
            rows: trace.grid.rows,
            cols: trace.grid.cols,
            orders: order::orders(trace),
            scores: rounded(trace.scores.as_ref()),
            weight: rounded(trace.token_weight.as_ref()),
            evidence: rounded(trace.evidence.token.as_ref()),
            position: rounded(trace.evidence.position.as_ref()),
        });
        self.traces.len() - 1
    }

    /// The data as the page holds it: gzipped JSON in base64.
    pub fn encoded(&self) -> String {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        serde_json::to_writer(&mut gzip, self).expect("plain data serialises");
        gzip.flush().expect("memory takes every byte");
        STANDARD.encode(gzip.finish().expect("memory takes every byte"))
    }

    /// Moves the pixels of an SVG file into `pixels`, and puts their indices in their place.
    fn extract_pixels(&mut self, svg: &str) -> String {
        let mut parts = svg.split(PIXELS_PREFIX);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (pixels, rest) = part.split_once('"').expect("an attribute has an end");
            let (palette, rest_of_png) = pixels.split_at(pixels.len().min(PALETTE_CHARS));
            let [palette, rest_of_png] =
                [palette, rest_of_png].map(|part| self.pixels.insert_full(part.to_owned()).0);
            out.push_str(&format!("{PIXELS_PREFIX}@{palette},{rest_of_png}\"{rest}"));
        }
        out
    }
}

/// The plot of a trace on the scale of the traces in `row` with the same kind of scale.
pub fn plot(
    figure: &'static dyn Figure,
    trace: &Arc<Trace>,
    row: &[&Arc<Trace>],
    options: Options,
) -> TracePlot {
    let has_same_scale = |other: &&&Arc<Trace>| figure.scale(other) == figure.scale(trace);
    let alike = row.iter().filter(has_same_scale).map(AsRef::as_ref);
    TracePlot::new(figure, trace, options.within(SharedLimits::new(figure, alike)))
}

/// The alternating lines of both texts as one, or both texts if their numbers of lines differ.
fn interleaved([light, dark]: [String; 2]) -> Vec<String> {
    let [light_lines, dark_lines] = [&light, &dark].map(|svg| svg.split('\n').collect::<Vec<_>>());
    if light_lines.len() != dark_lines.len() {
        return vec![light, dark];
    }
    let pairs = light_lines.iter().zip(dark_lines);
    vec![pairs.flat_map(|(light, dark)| [*light, dark]).collect::<Vec<_>>().join("\n")]
}

/// The boxes of a scene that stand for tokens or positions, rounded to 0.001 points.
fn hit_boxes(scene: &Scene) -> Vec<HitBox> {
    let targets = hover::targets(&scene.items).into_iter();
    let boxes = targets.filter_map(|(rect, identity)| {
        let bounds = [rect.x, rect.y, rect.w, rect.h].map(|v| (v * 1000.0).round() / 1000.0);
        match identity {
            Identity::Grid(grid) => Some(HitBox::Grid(bounds, grid.rows, grid.cols)),
            Identity::Plan { rows, positions } => Some(HitBox::Plan(bounds, rows.to_vec(), *positions)),
            Identity::Token(token) => Some(HitBox::Token(bounds, *token)),
            Identity::Position(position) => Some(HitBox::Position(bounds, *position)),
            Identity::Item(_) | Identity::Cells { .. } => None,
        }
    });
    boxes.collect()
}

/// The value rounded to four significant digits.
fn to_four_digits(value: f32) -> f32 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
