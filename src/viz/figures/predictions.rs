//! The most probable classes, best first; of a difference both traces' top classes around zero, the most different first.

use crate::model::trace::Prediction;
use crate::viz::difference::{value, with_plus};
use crate::viz::draw::frame::TITLE_HEIGHT;
use crate::viz::figures::prelude::*;

/// Most classes at the preferred height.
const DEFAULT_CLASSES: usize = 5;
/// Smallest height of a bar with its gap, in points.
const MIN_ROW_PT: f32 = 13.0;
/// Largest height of a bar with its gap, in points.
const MAX_ROW_PT: f32 = 17.0;

/// A probability in percent, or a difference of two in percentage points, as text, all with one decimal.
fn probability_text(trace: &Trace, p: &Prediction) -> String {
    let percent = (f64::from(p.probability) * 1000.0).round() / 10.0;
    let text = if percent.is_finite() { minus(format!("{percent:.1}")) } else { number(percent) };
    match trace.minus {
        Some(_) => with_plus(percent, text),
        None => format!("{text} %"),
    }
}

pub struct Predictions;

impl Figure for Predictions {
    fn info(&self) -> Info {
        Info {
            id: "predictions",
            title: "Predictions",
            about: "The most probable classes, as many as fit; the class of the evidence is marked",
            tab: TabGroup::Predictions.tab(),
        }
    }

    fn properties(&self) -> Properties {
        Properties { names_classes: true, least_width: 100.0, ..Properties::default() }
    }

    fn height(&self, trace: &Trace, _: &Options, _: f32) -> f32 {
        trace.top.len().clamp(1, DEFAULT_CLASSES) as f32 * MIN_ROW_PT + 2.0 + TITLE_HEIGHT
    }

    fn max_height(&self, trace: &Trace, _: &Options, _: f32) -> f32 {
        trace.top.len().max(1) as f32 * MAX_ROW_PT + 2.0 + TITLE_HEIGHT
    }

    fn readout(&self, trace: &Trace, hover: Hover) -> Readout {
        let Some((at, p)) = hover.item.and_then(|at| Some((at, trace.top.get(at)?))) else {
            return Readout::default();
        };
        let probability = value(trace, 100.0 * f64::from(p.probability));
        let readout = match trace.minus {
            Some(_) => Readout::titled(&p.name).line("Δ probability", format!("{probability} points")),
            None => Readout::titled(&p.name)
                .line("Rank", (at + 1).to_string())
                .line("Probability", format!("{probability} %")),
        };
        readout.line(label(trace, "Logit"), value(trace, f64::from(p.logit)))
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        let no_common_classes = trace.minus.is_some() && trace.top.is_empty();
        no_common_classes.then(|| Empty("The two probes have different classes".to_owned()))
    }

    /// Limits of differences; probabilities share a fixed scale, 0 to 1.
    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        trace.minus.as_ref()?;
        extent(trace.top.iter().map(|p| f64::from(p.probability)))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        if trace.top.is_empty() {
            return Err(Empty("The trace has no predicted classes".to_owned()));
        }
        let mut scene = Scene::new(size.width, size.height, "Predictions", theme.background);
        let room = size.height - TITLE_HEIGHT - 2.0;
        let shown = (((room + 0.5) / MIN_ROW_PT) as usize).clamp(1, trace.top.len());
        let row = (room / shown as f32).clamp(MIN_ROW_PT, MAX_ROW_PT);
        let top = &trace.top[..shown];
        let widest = font::widest(top.iter().map(|p| &p.name), pt::TICK);
        let names = widest.min(size.width * 0.4);
        let values = font::widest(top.iter().map(|p| probability_text(trace, p)), pt::TICK);
        let left = names + 6.0;
        let track = Box2::new(left, 0.0, size.width - left - values - 6.0, 0.0);
        let scale = trace.minus.as_ref().map(|_| {
            let limits = options.limits.or_else(|| self.limits(trace));
            around_zero(limits.unwrap_or_default())
        });
        let (title, side) = match (&scale, top.first()) {
            (None, Some(best)) => ("Probability", format!("best logit {}", number(f64::from(best.logit)))),
            _ => ("Δ probability, in points", String::new()),
        };
        let width = size.width - left;
        frame::title(&mut scene, theme, [left, 0.0], title, width);
        // In a narrow cell the title has no room beside it.
        if font::width(title, pt::LABEL) + pt::GAP + font::width(&side, pt::TICK) <= width {
            let base = pt::LABEL * font::CAP + 0.5;
            scene.text([size.width, base], side, pt::TICK, theme.muted, Anchor::End);
        }
        for (i, p) in top.iter().enumerate() {
            let y = TITLE_HEIGHT + (i as f32 + 0.5) * row;
            let chosen = p.index == trace.evidence.class;
            let name = font::fit_middle(&p.name, pt::TICK, names + 0.1);
            scene.text_mid([names, y], name, pt::TICK, theme.ink, Anchor::End);
            scene.fill(Box2::new(left, y - 4.0, track.w, 8.0), theme.faint);
            if let Some(scale) = scale {
                let [zero, end] =
                    [0.0, f64::from(p.probability)].map(|v| left + scale.at(v).clamp(0.0, 1.0) * track.w);
                let color = if p.probability < 0.0 { theme.negative } else { theme.positive };
                scene.fill(Box2::new(zero.min(end), y - 4.0, (end - zero).abs(), 8.0), color);
            } else {
                let share = p.probability.clamp(0.0, 1.0);
                let color = if chosen { theme.series(1) } else { theme.series(0) };
                scene.fill(Box2::new(left, y - 4.0, track.w * share, 8.0), color);
            }
            scene.text_mid([size.width, y], probability_text(trace, p), pt::TICK, theme.ink, Anchor::End);
            scene.target(Box2::new(0.0, y - row / 2.0, size.width, row), Identity::Item(i));
        }
        if let Some(scale) = scale {
            let x = left + scale.at(0.0) * track.w;
            let ends = vec![[x, TITLE_HEIGHT], [x, TITLE_HEIGHT + top.len() as f32 * row]];
            scene.line(ends, Stroke::new(pt::HAIR, theme.axis));
        }
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let top = &trace.top;
        Table::default()
            .words("class", top.iter().map(|p| p.name.clone()))
            .numbers("index", top.iter().map(|p| p.index as f64))
            .numbers(&head(trace, "logit"), top.iter().map(|p| f64::from(p.logit)))
            .numbers(&head(trace, "probability"), top.iter().map(|p| f64::from(p.probability)))
    }
}
