//! Every diagnostic of the plan (docs/definitions.md, section 5): its value as a dot, what chance gives for the same
//! router settings as a band (5th to 95th percentile), and below it that of untrained scorers on the same
//! image; a trace that knows only one of these shows it as a tick.

use super::font;
use super::legend::{self, Mark};
use super::scale::{Scale, extent, number_like};
use super::scene::{Anchor, Box2, Scene, Stroke};
use super::table::Table;
use super::theme::{Color, Theme};
use super::{Empty, Figure, Options, Size, no_order};
use crate::model::trace::{Diagnostic, Routing, Trace};

/// Height of one strip and of the key below them.
const ROW: f32 = 12.0;
/// Height of one where there is less room.
const LEAST: f32 = 8.5;

/// The figure.
pub struct Diagnostics;

/// One row: a name, its number, and the range it can lie in.
pub struct Strip<'a> {
    name: String,
    diagnostic: &'a Diagnostic,
    scale: Scale,
}

impl<'a> Strip<'a> {
    /// Of a diagnostic whose value is a number; a share runs from 0 to 1, the rest over what is there.
    pub fn of(name: &str, diagnostic: &'a Diagnostic) -> Option<Self> {
        if !diagnostic.value.is_finite() {
            return None;
        }
        let null = diagnostic.null.map(|(lo, hi)| [lo, hi]);
        let all =
            [diagnostic.value].into_iter().chain(null.into_iter().flatten()).chain(diagnostic.untrained);
        let all = all.chain(diagnostic.untrained_band.into_iter().flat_map(|(lo, hi)| [lo, hi]));
        let (lo, hi) = extent(all)?;
        let share = ["coverage", "entropy", "edge_mass"].iter().any(|part| name.contains(part));
        let scale = if share {
            Scale::linear(lo.min(0.0), hi.max(1.0))
        } else if name.contains("kendall") {
            Scale::linear(lo.min(-1.0), hi.max(1.0))
        } else {
            Scale::linear(lo.min(0.0) * 1.1, hi.max(0.0) * 1.1)
        };
        Some(Self { name: words(name), diagnostic, scale })
    }
}

/// `rank_coverage` as a person reads it.
pub(super) fn words(name: &str) -> String {
    let text = name.replace("_p95", ", p95").replace("_10", ", 10 %").replace('_', " ");
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |c| c.to_uppercase().chain(letters).collect())
}

/// Draws the rows into `rect`, with a key in a last row.
pub fn strips(scene: &mut Scene, theme: &Theme, rect: Box2, strips: &[Strip<'_>]) {
    let widest = |text: &dyn Fn(&Strip<'_>) -> String| {
        strips.iter().map(|s| font::width(&text(s), theme.tick)).fold(0.0, f32::max)
    };
    let value = |s: &Strip<'_>| number_like(s.diagnostic.value, s.diagnostic.value);
    let chance = |s: &Strip<'_>| match s.diagnostic.null {
        Some((lo, hi)) if rect.w > 200.0 => {
            let like = s.diagnostic.value;
            format!("{} to {}", number_like(lo, like), number_like(hi, like))
        }
        _ => String::new(), // a narrow one leaves the band to its drawing
    };
    let name_room = widest(&|s| s.name.clone()).min(rect.w * 0.46);
    let chance_room = widest(&chance);
    let value_room = widest(&value);
    let chance_x = rect.right() - chance_room;
    let value_x = chance_x - if chance_room > 0.0 { 2.0 * theme.gap } else { 0.0 };
    let left = rect.x + name_room + 2.0 * theme.gap;
    let width = value_x - value_room - 2.0 * theme.gap - left;
    let row = ((rect.h - 2.0) / (strips.len() as f32 + 1.0)).clamp(LEAST, ROW);
    for (i, strip) in strips.iter().enumerate() {
        let y = rect.y + (i as f32 + 0.5) * row;
        let at = |v: f64| left + strip.scale.at(v).clamp(0.0, 1.0) * width;
        let name = font::fit(&strip.name, theme.tick, name_room + 0.1);
        scene.text_mid([rect.x, y], name, theme.tick, theme.ink, Anchor::Start);
        scene.line(vec![[left, y], [left + width, y]], Stroke::new(theme.hair, theme.faint));
        let fresh = strip.diagnostic.untrained_band;
        let mut band = |(lo, hi): (f64, f64), top: f32, height: f32, color: Color| {
            let (a, b) = (at(lo.min(hi)), at(hi.max(lo)));
            scene.fill(Box2::new(a - 0.5, y + top, b - a + 1.0, height), color);
        };
        if let Some(null) = strip.diagnostic.null {
            band(null, -3.5, if fresh.is_some() { 3.5 } else { 7.0 }, theme.band);
        }
        if let Some(fresh) = fresh {
            band(fresh, 0.0, 3.5, untrained(theme));
        }
        if let Some(v) = strip.diagnostic.untrained.filter(|_| fresh.is_none()) {
            let x = at(v);
            scene.line(vec![[x, y - 3.5], [x, y + 3.5]], Stroke::new(1.0, theme.muted));
        }
        let ring = Stroke::new(0.6, theme.ground);
        scene.dot([at(strip.diagnostic.value), y], 2.4, theme.series(1), Some(ring));
        scene.text_mid([value_x, y], value(strip), theme.tick, theme.ink, Anchor::End);
        scene.text_mid([rect.right(), y], chance(strip), theme.tick, theme.muted, Anchor::End);
    }
    let wide = rect.w > 200.0;
    let mut key = vec![(Mark::Dot(theme.series(1)), if wide { "This image" } else { "Image" })];
    if strips.iter().any(|s| s.diagnostic.null.is_some()) {
        key.push((Mark::Patch(theme.band), if wide { "Chance, 5 to 95 %" } else { "Chance" }));
    }
    if strips.iter().any(|s| s.diagnostic.untrained_band.is_some()) {
        key.push((Mark::Patch(untrained(theme)), if wide { "Untrained, 5 to 95 %" } else { "Untrained" }));
    } else if strips.iter().any(|s| s.diagnostic.untrained.is_some()) {
        key.push((Mark::Tick(Stroke::new(1.0, theme.muted)), "Untrained"));
    }
    let below = rect.y + strips.len() as f32 * row + 1.0;
    legend::legend(scene, theme, [rect.x, below], rect.w, &key);
}

/// The colour of untrained scorers.
fn untrained(theme: &Theme) -> Color {
    theme.ground.mix(theme.series(0), 0.45)
}

fn all(trace: &Trace) -> Vec<Strip<'_>> {
    trace.diagnostics.iter().filter_map(|(name, d)| Strip::of(name, d)).collect()
}

impl Figure for Diagnostics {
    fn id(&self) -> &'static str {
        "diagnostics"
    }

    fn title(&self) -> &'static str {
        "Diagnostics"
    }

    fn about(&self) -> &'static str {
        "Every diagnostic of the plan beside what random scores, and untrained scorers on this image, give for the same settings"
    }

    fn height(&self, trace: &Trace, _: &Options, _: f32) -> f32 {
        (trace.diagnostics.len() as f32 + 1.0) * ROW + 2.0
    }

    fn scene(&self, trace: &Trace, _: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let rows = all(trace);
        if rows.is_empty() {
            return Err(match trace.routing {
                Routing::None => no_order(trace),
                _ => Empty(format!("{} reads in a fixed order: there is no plan to judge", trace.head)),
            });
        }
        let mut scene = Scene::new(size.width, size.height, "Diagnostics of the plan", theme.background);
        strips(&mut scene, theme, Box2::new(0.0, 0.0, size.width, size.height), &rows);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let d = &trace.diagnostics;
        let or_nan = |v: Option<f64>| v.unwrap_or(f64::NAN);
        Table::default()
            .words("diagnostic", d.keys().cloned())
            .numbers("value", d.values().map(|d| d.value))
            .numbers("null_p05", d.values().map(|d| or_nan(d.null.map(|n| n.0))))
            .numbers("null_p95", d.values().map(|d| or_nan(d.null.map(|n| n.1))))
            .numbers("untrained", d.values().map(|d| or_nan(d.untrained)))
            .numbers("untrained_p05", d.values().map(|d| or_nan(d.untrained_band.map(|n| n.0))))
            .numbers("untrained_p95", d.values().map(|d| or_nan(d.untrained_band.map(|n| n.1))))
    }
}
