//! The most probable classes, best first.

use crate::model::trace::Trace;
use crate::viz::draw::{Anchor, Box2, Hover, Identity, Readout, Scene, Table, Theme, font, number};
use crate::viz::{Empty, Figure, Info, Options, Size, TabGroup};

/// How many classes are drawn where the height is free.
const DEFAULT_CLASSES: usize = 5;
/// Height of one bar with its gap.
const MIN_ROW_PT: f32 = 13.0;
/// The same where there is room.
const MAX_ROW_PT: f32 = 17.0;

/// Height of the words above the bars.
fn head(theme: &Theme) -> f32 {
    theme.label + 2.5
}

pub struct Predictions;

impl Figure for Predictions {
    fn info(&self) -> Info {
        Info {
            id: "predictions",
            title: "Predictions",
            about: "The most probable classes, as many as fit; the one the evidence speaks for is marked",
            tab: TabGroup::Predictions.tab(),
        }
    }

    fn names_classes(&self) -> bool {
        true
    }

    fn least_width(&self) -> f32 {
        100.0
    }

    fn height(&self, trace: &Trace, _: &Options, _: f32) -> f32 {
        trace.top.len().clamp(1, DEFAULT_CLASSES) as f32 * MIN_ROW_PT + 2.0 + head(&Theme::light())
    }

    fn max_height(&self, trace: &Trace, _: &Options, _: f32) -> f32 {
        trace.top.len().max(1) as f32 * MAX_ROW_PT + 2.0 + head(&Theme::light())
    }

    fn readout(&self, trace: &Trace, hover: Hover) -> Readout {
        let Some((at, p)) = hover.item.and_then(|at| Some((at, trace.top.get(at)?))) else {
            return Readout::default();
        };
        Readout::titled(&p.name)
            .line("Place", (at + 1).to_string())
            .line("Probability", format!("{} %", number(100.0 * f64::from(p.probability))))
            .line("Logit", number(f64::from(p.logit)))
    }

    fn scene(&self, trace: &Trace, _: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        if trace.top.is_empty() {
            return Err(Empty("The trace names no predicted class".to_owned()));
        }
        let mut scene = Scene::new(size.width, size.height, "Predictions", theme.background);
        let room = size.height - head(theme) - 2.0;
        let fitting = (((room + 0.5) / MIN_ROW_PT) as usize).clamp(1, trace.top.len());
        let row = (room / fitting as f32).clamp(MIN_ROW_PT, MAX_ROW_PT);
        let top = &trace.top[..fitting];
        let widest = font::widest(top.iter().map(|p| &p.name), theme.tick);
        let names = widest.min(size.width * 0.4);
        let value = |p: f32| format!("{} %", number((f64::from(p) * 1000.0).round() / 10.0));
        let values = font::widest(top.iter().map(|p| value(p.probability)), theme.tick);
        let left = names + 6.0;
        let track = Box2::new(left, 0.0, size.width - left - values - 6.0, 0.0);
        crate::viz::draw::frame::title(&mut scene, theme, [left, 0.0], "Probability", track.w);
        let logits = top.first().map(|p| number(f64::from(p.logit))).unwrap_or_default();
        let text = format!("best logit {logits}");
        let base = theme.label * font::CAP + 0.5;
        scene.text([size.width, base], text, theme.tick, theme.muted, Anchor::End);
        for (i, p) in top.iter().enumerate() {
            let y = head(theme) + (i as f32 + 0.5) * row;
            let chosen = p.index == trace.evidence.class;
            let name = font::fit(&p.name, theme.tick, names + 0.1);
            scene.text_mid([names, y], name, theme.tick, theme.ink, Anchor::End);
            scene.fill(Box2::new(left, y - 4.0, track.w, 8.0), theme.faint);
            let share = p.probability.clamp(0.0, 1.0);
            let color = if chosen { theme.series(1) } else { theme.series(0) };
            scene.fill(Box2::new(left, y - 4.0, track.w * share, 8.0), color);
            scene.text_mid([size.width, y], value(p.probability), theme.tick, theme.ink, Anchor::End);
            scene.target(Box2::new(0.0, y - row / 2.0, size.width, row), Identity::Item(i));
        }
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let top = &trace.top;
        Table::default()
            .words("class", top.iter().map(|p| p.name.clone()))
            .numbers("index", top.iter().map(|p| p.index as f64))
            .numbers("logit", top.iter().map(|p| f64::from(p.logit)))
            .numbers("probability", top.iter().map(|p| f64::from(p.probability)))
    }
}
