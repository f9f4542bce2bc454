//! What the script is handed: pictures in both themes with the places of tokens and positions in them, and what is known
//! of every token. As JSON, compressed, in base64.
//!
//! A picture that several figures hold (the photograph) is kept once, and the two themes of a figure line by line beside
//! each other, where they are nearly the same: the script puts them back to the byte.

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
use crate::viz::{Empty, Figure, Options, shared};

/// Before the pixels of a picture within a figure.
const PIXELS: &str = "href=\"data:image/png;base64,";
/// As many characters of it hold what shades of one photograph differ in.
const COLORS: usize = export::INDEXED_HEAD / 3 * 4;

/// All that is shown.
#[derive(Default, Serialize)]
pub struct Pictures {
    /// Pixels, PNG in base64, in two parts.
    pixels: IndexSet<String>,
    figures: Vec<Drawn>,
    traces: Vec<Known>,
}

/// A figure.
#[derive(PartialEq, Serialize)]
struct Drawn {
    /// In points.
    size: [f32; 2],
    /// The light and the dark one as SVG, a line of each in turn, with `@3,4` for these two parts of pixels; or one after the other,
    /// where they have not as many lines.
    svg: Vec<String>,
    /// What lies where.
    places: Vec<HitBox>,
}

/// A box of a figure that stands for something: left, top, width, height in points.
#[derive(PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum HitBox {
    Grid([f32; 4], usize, usize),
    Plan([f32; 4], Vec<usize>, usize),
    Token([f32; 4], usize),
    Position([f32; 4], usize),
}

/// What is known of the tokens of a trace.
#[derive(Serialize)]
struct Known {
    rows: usize,
    cols: usize,
    /// The token read at every step, a list a sweep.
    orders: Vec<Vec<usize>>,
    scores: Option<Vec<f32>>,
    weight: Option<Vec<f32>>,
    evidence: Option<Vec<f32>>,
    position: Option<Vec<f32>>,
}

impl Pictures {
    /// Adds a figure of a trace on the scale that it shares with the others of its row; its number, or why there is
    /// nothing to see.
    pub fn figure(
        &mut self,
        figure: &'static dyn Figure,
        trace: &Arc<Trace>,
        row: &[&Arc<Trace>],
        width: f32,
    ) -> Result<usize, Empty> {
        let plot = plot(figure, trace, row);
        let about = plot.caption().about;
        let light = plot.draw_column(&Theme::light(), width)?;
        let dark = plot.draw_column(&Theme::dark(), width)?;
        let svg = [&light, &dark].map(|scene| self.pooled(&export::svg(scene, &about)));
        let drawn = Drawn { size: [light.width, light.height], svg: beside(svg), places: places(&light) };
        let known = self.figures.iter().position(|other| *other == drawn);
        Ok(known.unwrap_or_else(|| {
            self.figures.push(drawn);
            self.figures.len() - 1
        }))
    }

    /// Adds what is known of a trace; its number.
    pub fn trace(&mut self, trace: &Trace) -> usize {
        let short =
            |values: Option<&Vec<f32>>| values.map(|values| values.iter().map(|&v| short(v)).collect());
        self.traces.push(Known {
            rows: trace.grid.rows,
            cols: trace.grid.cols,
            orders: order::orders(trace),
            scores: short(trace.scores.as_ref()),
            weight: short(trace.token_weight.as_ref()),
            evidence: short(trace.evidence.token.as_ref()),
            position: short(trace.evidence.position.as_ref()),
        });
        self.traces.len() - 1
    }

    /// It as the page holds it.
    pub fn text(&self) -> String {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        serde_json::to_writer(&mut packed, self).expect("plain data serialises");
        packed.flush().expect("memory takes every byte");
        STANDARD.encode(packed.finish().expect("memory takes every byte"))
    }

    /// The text of a figure with its pixels set aside.
    fn pooled(&mut self, svg: &str) -> String {
        let mut parts = svg.split(PIXELS);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (pixels, rest) = part.split_once('"').expect("an attribute has an end");
            // Shades of one photograph differ in their colours alone.
            let (colors, same) = pixels.split_at(pixels.len().min(COLORS));
            let [colors, same] = [colors, same].map(|part| self.pixels.insert_full(part.to_owned()).0);
            out.push_str(&format!("{PIXELS}@{colors},{same}\"{rest}"));
        }
        out
    }
}

/// The picture of a trace on the scale that it shares with its row.
pub fn plot(figure: &'static dyn Figure, trace: &Arc<Trace>, row: &[&Arc<Trace>]) -> TracePlot {
    let scale = |other: &&&Arc<Trace>| figure.scale(other) == figure.scale(trace);
    let alike = row.iter().filter(scale).map(AsRef::as_ref);
    TracePlot::new(figure, trace, Options::default().within(shared(figure, alike)))
}

/// Line by line in turn, where both have as many.
fn beside([light, dark]: [String; 2]) -> Vec<String> {
    let [lines, others] = [&light, &dark].map(|svg| svg.split('\n').collect::<Vec<_>>());
    if lines.len() != others.len() {
        return vec![light, dark];
    }
    vec![lines.iter().zip(others).flat_map(|(light, dark)| [*light, dark]).collect::<Vec<_>>().join("\n")]
}

fn places(scene: &Scene) -> Vec<HitBox> {
    let targets = hover::targets(&scene.items).into_iter();
    let places = targets.filter_map(|(rect, identity)| {
        let at = [rect.x, rect.y, rect.w, rect.h].map(|v| (v * 1000.0).round() / 1000.0);
        match identity {
            Identity::Grid(grid) => Some(HitBox::Grid(at, grid.rows, grid.cols)),
            Identity::Plan { rows, positions } => Some(HitBox::Plan(at, rows.to_vec(), *positions)),
            Identity::Token(token) => Some(HitBox::Token(at, *token)),
            Identity::Position(position) => Some(HitBox::Position(at, *position)),
            Identity::Item(_) | Identity::Cells { .. } => None,
        }
    });
    places.collect()
}

/// A number to four digits, as it is read.
fn short(value: f32) -> f32 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
