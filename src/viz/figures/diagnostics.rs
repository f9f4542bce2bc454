//! Every diagnostic of the plan (docs/definitions.md, section 5), one row each: a mark over two bands, the 5th to 95th
//! percentile of random scores under the same router settings (chance) and of untrained scorers on the same image; beside it
//! its value, whether it lies above, below or within its band, and the bands in numbers. Every row has its own scale, set by
//! its bands. The value of a single untrained scorer, in traces that have no more, is a tick.

use super::meanings::{meaning, words};
use super::strip::{Strip, VerdictBand};
use crate::model::trace::Diagnostic;
use crate::viz::difference;
use crate::viz::figures::prelude::*;
use crate::viz::no_plan;

/// Legend entry of the mark of a difference.
const DIFFERENCE: &str = "Difference (Δ) beside zero";

/// Height of a row, and of the row of column headers.
const ROW_PT: f32 = 12.0;
/// Range of the height of a row that is fitted to the room there is.
const MIN_ROW_PT: f32 = 8.5;
const MAX_ROW_PT: f32 = 22.0;
/// Smallest width of the track, on which marks and bands are drawn.
const MIN_TRACK_PT: f32 = 34.0;

/// The figure of all diagnostics of a trace.
pub struct Diagnostics;

/// A column of bands in numbers: its header, and the band of a row.
type Band = (&'static str, fn(&Strip) -> Option<(f64, f64)>);

/// The columns of a row, from left to right: names, track, values, verdicts, bands.
struct Columns {
    /// The columns of bands.
    bands: Vec<Band>,
    /// The right edges of these columns.
    ends: Vec<f32>,
    value_right: f32,
    verdict_left: f32,
    names_width: f32,
    /// Left edge and width of the track.
    track: (f32, f32),
}

/// The columns of both bands if they leave room for the track, otherwise of the band that gives the verdict, otherwise of none.
fn columns(rect: Box2, strips: &[Strip]) -> Columns {
    let both: Vec<Band> =
        vec![("Chance", |s| s.diagnostic.null), ("Untrained", |s| s.diagnostic.untrained_band)];
    let against = VerdictBand::from_strips(strips);
    let (verdict_header, band_header) = against.heads();
    let judging: Vec<Band> = vec![(band_header, Strip::band)];
    let widest = |header: &str, text: &dyn Fn(&Strip) -> String| {
        let texts = strips.iter().map(|s| font::width(&text(s), pt::TICK));
        texts.fold(font::width(header, pt::TICK), f32::max)
    };
    let names = widest("", &|s| words(&s.id)).min(rect.w * 0.42);
    let value = widest(value_name(strips), &Strip::value);
    let verdict = widest(verdict_header, &|s| s.starred(against));
    let gap = 2.0 * pt::GAP;
    let layout = |bands: Vec<Band>| {
        let mut right = rect.right();
        let mut ends = Vec::new();
        for (header, band) in bands.iter().rev() {
            ends.insert(0, right);
            right -= widest(header, &|s| s.range(band(s)) + "*") + gap;
        }
        let left = rect.x + names + gap;
        let track = (left, right - verdict - pt::GAP - value - gap - left);
        let value_right = right - verdict - pt::GAP;
        Columns { bands, ends, value_right, verdict_left: right - verdict, names_width: names, track }
    };
    let fits = |columns: &Columns| columns.track.1 >= MIN_TRACK_PT;
    if strips.first().is_some_and(|strip| strip.is_difference) {
        return layout(Vec::new());
    }
    [both, judging].into_iter().map(layout).find(fits).unwrap_or_else(|| layout(Vec::new()))
}

/// Draws the rows into `rect`, below a row of column headers and above a legend.
pub fn strips(scene: &mut Scene, theme: &Theme, rect: Box2, strips: &[Strip]) {
    let (key, lines) = key(theme, rect.w, strips);
    let row = ((rect.h - 2.0) / (strips.len() as f32 + 1.0 + lines)).clamp(MIN_ROW_PT, MAX_ROW_PT);
    let columns = columns(rect, strips);
    let against = VerdictBand::from_strips(strips);
    let header_y = rect.y + 0.5 * row.min(ROW_PT);
    scene.text_mid([columns.value_right, header_y], value_name(strips), pt::TICK, theme.muted, Anchor::End);
    if strips.iter().any(|strip| !strip.verdict().is_empty()) {
        let (verdict, at) = (against.heads().0, [columns.verdict_left, header_y]);
        scene.text_mid(at, verdict, pt::TICK, theme.muted, Anchor::Start);
    }
    for ((name, _), end) in columns.bands.iter().zip(&columns.ends) {
        scene.text_mid([*end, header_y], *name, pt::TICK, theme.muted, Anchor::End);
    }
    let first = rect.y + row.min(ROW_PT);
    for (i, strip) in strips.iter().enumerate() {
        let y = first + (i as f32 + 0.5) * row;
        let name = font::fit(&words(&strip.id), pt::TICK, columns.names_width + 0.1);
        scene.text_mid([rect.x, y], name, pt::TICK, theme.ink, Anchor::Start);
        draw_track(scene, theme, strip, columns.track, y, (0.36 * row).min(5.5));
        scene.text_mid([columns.value_right, y], strip.value(), pt::TICK, theme.ink, Anchor::End);
        let color = if strip.verdict() == "within" { theme.muted } else { theme.accent() };
        scene.text_mid([columns.verdict_left, y], strip.starred(against), pt::TICK, color, Anchor::Start);
        for ((_, band), end) in columns.bands.iter().zip(&columns.ends) {
            let star = if columns.bands.len() == 1 { strip.star(against) } else { "" };
            let text = strip.range(band(strip)) + star;
            scene.text_mid([*end, y], text, pt::TICK, theme.muted, Anchor::End);
        }
        scene.target(Box2::new(rect.x, y - row / 2.0, rect.w, row), Identity::Item(i));
    }
    let below = first + strips.len() as f32 * row + 1.0;
    legend::legend(scene, theme, [rect.x, below], rect.w, &key);
}

/// The entries of the legend, and how many lines it takes; names are shorter where `room` is narrow.
fn key(theme: &Theme, room: f32, strips: &[Strip]) -> (Vec<(Mark, &'static str)>, f32) {
    let wide = room > 225.0;
    let name = match strips.first() {
        Some(strip) if strip.is_difference => DIFFERENCE,
        _ if wide => "This image",
        _ => "Image",
    };
    let mut key = vec![(Mark::Tick(mark(theme)), name)];
    if strips.iter().any(|s| s.diagnostic.null.is_some()) {
        key.push((Mark::Patch(theme.band), if wide { "Chance, 5 to 95 %" } else { "Chance" }));
    }
    if strips.iter().any(|s| s.diagnostic.untrained_band.is_some()) {
        key.push((Mark::Patch(untrained(theme)), if wide { "Untrained, 5 to 95 %" } else { "Untrained" }));
    } else if strips.iter().any(|s| s.diagnostic.untrained.is_some()) {
        key.push((Mark::Tick(Stroke::new(1.0, theme.muted)), "Untrained"));
    }
    if VerdictBand::from_strips(strips) == VerdictBand::Both {
        key.push((Mark::None, "* vs untrained"));
    }
    if room > 330.0 {
        key.push((Mark::None, "Each row on its own scale"));
    }
    let lines = legend::lines(room, &key);
    (key, lines as f32)
}

/// The header of the column of values.
fn value_name(strips: &[Strip]) -> &'static str {
    strips.first().map_or("", Strip::value_name)
}

/// The stroke of the mark at the value.
fn mark(theme: &Theme) -> Stroke {
    Stroke::new(1.8, theme.series(1))
}

/// Draws the bands of a row and the mark at its value, which reaches `half` above and below `y`.
fn draw_track(scene: &mut Scene, theme: &Theme, strip: &Strip, (left, width): (f32, f32), y: f32, half: f32) {
    let at = |v: f64| left + strip.scale.at(v).clamp(0.0, 1.0) * width;
    scene.line(vec![[left, y], [left + width, y]], Stroke::new(pt::HAIR, theme.faint));
    let Diagnostic { value, null, untrained: single, untrained_band } = strip.diagnostic;
    let mut band = |(lo, hi): (f64, f64), top: f32, height: f32, color: Color| {
        let (a, b) = (at(lo.min(hi)), at(hi.max(lo)));
        scene.fill(Box2::new(a - 0.5, y + top, b - a + 1.0, height), color);
    };
    let band_half = 0.8 * half;
    match (null, untrained_band) {
        (Some(null), Some(untrained_band)) => {
            band(null, -band_half, band_half, theme.band);
            band(untrained_band, 0.0, band_half, untrained(theme));
        }
        (Some(null), None) => band(null, -band_half, 2.0 * band_half, theme.band),
        (None, Some(untrained_band)) => band(untrained_band, -band_half, 2.0 * band_half, untrained(theme)),
        (None, None) => {}
    }
    let zero = strip.is_difference.then_some(0.0);
    if let Some(v) = zero.or(single.filter(|_| untrained_band.is_none())) {
        let x = at(v);
        scene.line(vec![[x, y - band_half], [x, y + band_half]], Stroke::new(1.0, theme.muted));
    }
    let x = at(value);
    let ends = vec![[x, y - half], [x, y + half]];
    scene.line(ends.clone(), Stroke::new(mark(theme).width + 1.4, theme.ground));
    scene.line(ends, mark(theme));
}

/// The colour of the band of untrained scorers.
fn untrained(theme: &Theme) -> Color {
    theme.ground.mix(theme.series(0), 0.45)
}

fn finite_strips(trace: &Trace) -> Vec<Strip> {
    trace.diagnostics.keys().filter_map(|name| Strip::from_trace(trace, name)).collect()
}

/// The readout of one diagnostic: its value, bands and verdict, and what it measures.
pub(super) fn readout(strip: &Strip) -> Readout {
    let d = strip.diagnostic;
    let mut readout = Readout::titled(words(&strip.id)).line(strip.value_name(), strip.value());
    if d.null.is_some() {
        readout = readout.line("Chance, 5 to 95 %", strip.range(d.null));
    }
    if d.untrained_band.is_some() {
        readout = readout.line("Untrained, 5 to 95 %", strip.range(d.untrained_band));
    }
    let band = if d.null.is_some() { "chance" } else { "untrained" };
    let verdict = match strip.verdict() {
        "" => String::new(),
        verdict => format!(". It is {verdict} the {band} range"),
    };
    readout.note(format!("{}{verdict}", meaning(&strip.id)))
}

impl Figure for Diagnostics {
    fn info(&self) -> Info {
        Info {
            id: "diagnostics",
            title: "Diagnostics",
            about: "Every diagnostic of the plan, against random scores and untrained scorers on this image at the same settings",
            tab: TabGroup::Diagnostics.tab(),
        }
    }

    fn height(&self, trace: &Trace, _: &Options, width: f32) -> f32 {
        let strips = finite_strips(trace);
        let (_, lines) = key(&Theme::light(), width, &strips);
        (strips.len() as f32 + 1.0 + lines) * ROW_PT + 2.0
    }

    fn max_height(&self, trace: &Trace, _: &Options, _: f32) -> f32 {
        (trace.diagnostics.len() as f32 + 2.0) * MAX_ROW_PT
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        trace.diagnostics.values().all(|d| !d.value.is_finite()).then(|| no_plan(trace))
    }

    fn readout(&self, trace: &Trace, hover: Hover) -> Readout {
        hover.item.and_then(|at| finite_strips(trace).get(at).map(readout)).unwrap_or_default()
    }

    fn scene(&self, trace: &Trace, _: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let rows = finite_strips(trace);
        if rows.is_empty() {
            return Err(no_plan(trace));
        }
        let mut scene = Scene::new(size.width, size.height, "Diagnostics of the plan", theme.background);
        strips(&mut scene, theme, Box2::new(0.0, 0.0, size.width, size.height), &rows);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let d = &trace.diagnostics;
        let table = Table::default()
            .words("diagnostic", d.keys().cloned())
            .numbers(&difference::head(trace, "value"), d.values().map(|d| d.value));
        if trace.minus.is_some() {
            return table;
        }
        table
            .numbers("null_p05", d.values().map(|d| d.null.map(|n| n.0)))
            .numbers("null_p95", d.values().map(|d| d.null.map(|n| n.1)))
            .numbers("untrained", d.values().map(|d| d.untrained))
            .numbers("untrained_p05", d.values().map(|d| d.untrained_band.map(|n| n.0)))
            .numbers("untrained_p95", d.values().map(|d| d.untrained_band.map(|n| n.1)))
    }
}
