//! Removal curves: a class's logit, margin or probability while tokens are deleted and while they are inserted, one line for
//! each ranking beside a band of random orders; below, the picture at one of the steps.

use std::sync::Arc;

use super::removal_difference::subtract;
use crate::model::explain::removal::{Curve, Curves, Found, Mode, RANDOM, RANKINGS, Removal, counts};
use crate::viz::difference::{delta, signed};
use crate::viz::draw::series::stroke;
use crate::viz::figures::plot::{Caption, Plot, Source};
use crate::viz::figures::prelude::*;
use crate::viz::file_names::{joined, stem, subject};
use crate::viz::heading::{self, uncapitalised};

/// Its names and description.
pub const INFO: Info = Info {
    id: "removal",
    title: "Removal curves",
    about: "How much is left of a class when the tokens that count most are taken away first (deletion), or put back first (insertion), against random orders",
    tab: TabGroup::Evidence.tab(),
};

/// Gap between the charts of deletion and insertion, in points.
const GAP_PT: f32 = 8.0;
/// Height of the line of text over a picture, in points.
const LINE_PT: f32 = 11.0;
/// Least height of a chart with its axis, and of a picture, in points.
const MIN_HEIGHT_PT: f32 = 64.0;
/// Height over width of a chart.
const CHART_ASPECT: f32 = 0.72;

listed! {
    /// The output of the class that the curves show.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Quantity {
        /// Its logit.
        #[default]
        Logit: "logit", "Logit";
        /// Its logit minus that of the strongest other class on the whole image.
        Margin: "margin", "Margin";
        /// Its probability.
        Probability: "probability", "Probability";
    }
}

impl Quantity {
    /// Its values in a curve; empty for the margin of a probe with a single class.
    pub fn values(self, curve: &Curve) -> &[f64] {
        match self {
            Self::Logit => &curve.logit,
            Self::Margin => curve.margin.as_deref().unwrap_or(&[]),
            Self::Probability => &curve.probability,
        }
    }
}

/// Which of an image's curves are shown, and at which step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalView {
    /// How tokens are removed.
    pub mode: Mode,
    /// The quantity on the vertical axis.
    pub quantity: Quantity,
    /// The ranking whose picture is shown.
    pub ranking: String,
    /// The step whose pictures are shown.
    pub step: usize,
}

impl RemovalView {
    /// The first mode and the first ranking that have curves, at half of the steps.
    pub fn new(removal: &Removal) -> Self {
        let mode = removal.modes.iter().find(|(_, curves)| curves.found().is_some());
        let mode = mode.or(removal.modes.first()).map_or(Mode::Rerouted, |(mode, _)| *mode);
        let ranking = removal.rankings.iter().find(|(_, ranked)| ranked.found().is_some());
        let ranking = ranking.map_or(String::new(), |(id, _)| id.clone());
        Self { mode, quantity: Quantity::Logit, ranking, step: removal.fraction.len() / 2 }
    }
}

/// One image's removal curves, as a plot.
#[derive(Clone)]
pub struct RemovalPlot {
    /// The curves, or the difference of two.
    pub removal: Arc<Removal>,
    /// What is shown of them.
    pub view: RemovalView,
    /// Of a difference, the curves and those subtracted from them.
    operands: Option<[Arc<Removal>; 2]>,
}

/// The name of a ranking on the screen.
pub fn ranking_name(id: &str) -> &str {
    RANKINGS.iter().find(|ranking| ranking.id == id).map_or("Random", |ranking| ranking.name)
}

impl Plot for RemovalPlot {
    fn caption(&self) -> Caption {
        let Removal { image, probe, reading, .. } = &*self.removal;
        let RemovalView { mode, quantity, ranking, step } = &self.view;
        let ranking = if ranking.is_empty() { String::new() } else { format!(" --ranking {ranking}") };
        let mut title = INFO.title.to_owned();
        let (mut minus, mut about) = (String::new(), subject(image, probe, reading));
        if let Some(other) = self.other() {
            title = format!("{title} of {probe}, difference (Δ) from {}", other.probe);
            minus = format!("minus-{}", joined(&[&other.probe, &other.reading.id()]));
            about = format!("{about}, minus {}", subject(&other.image, &other.probe, &other.reading));
        }
        Caption {
            title,
            file: joined(&[stem(image), probe, &reading.id(), &minus, INFO.id, mode.id()]),
            about,
            command: format!(
                "--figure {} --mode {} --quantity {}{ranking} --step {step}",
                INFO.id,
                mode.id(),
                quantity.id()
            ),
        }
    }

    fn height(&self, width: f32) -> f32 {
        let half = (width - GAP_PT) / 2.0;
        self.above(width) + 2.0 * CHART_ASPECT * half + LINE_PT + self.picture_height(half)
    }

    fn legible(&self, width: f32) -> Size {
        Size { width: 0.0, height: self.above(width) + MIN_HEIGHT_PT + LINE_PT + MIN_HEIGHT_PT }
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        heading::over(self.heading().as_deref(), theme, size, |size| self.charts(theme, size))
    }

    fn table(&self) -> Table {
        let Removal { fraction, .. } = &*self.removal;
        let table = Table::default().numbers("fraction", fraction.iter().copied());
        let curves = self.curves().into_iter().flatten();
        let table = curves.fold(table, |table, (id, pair)| {
            let [deletion, insertion] = pair.each_ref().map(|curve| self.view.quantity.values(curve));
            let delta = if self.operands.is_some() { "delta_" } else { "" };
            table
                .numbers(&format!("{delta}deletion_{id}"), deletion.iter().copied())
                .numbers(&format!("{delta}insertion_{id}"), insertion.iter().copied())
        });
        let RemovalView { mode, quantity, .. } = &self.view;
        let every_row = |word: &str| vec![word.to_owned(); fraction.len()];
        table
            .words("mode", every_row(mode.id()))
            .words("quantity", every_row(quantity.id()))
            .words("class", every_row(&self.removal.class.1))
    }

    fn sources(&self) -> Vec<Source<'_>> {
        match &self.operands {
            Some([own, other]) => vec![Source::Removal(own), Source::RemovalAgainst(other)],
            None => vec![Source::Removal(&self.removal)],
        }
    }
}

impl RemovalPlot {
    /// The curves of an image, minus `against` if given.
    pub fn new(removal: Arc<Removal>, against: Option<Arc<Removal>>) -> Result<Self, Empty> {
        let (removal, operands) = match against {
            Some(other) => (Arc::new(subtract(&removal, &other)?), Some([removal, other])),
            None => (removal, None),
        };
        Ok(Self { view: RemovalView::new(&removal), removal, operands })
    }

    /// The curves that were subtracted, if any.
    fn other(&self) -> Option<&Removal> {
        self.operands.as_ref().map(|[_, other]| &**other)
    }

    /// The heading: how the probe read, where that is not as trained, and what the curves are a difference from.
    fn heading(&self) -> Option<String> {
        let reading = heading::of_reading(&self.removal.reading);
        let Some(other) = self.other() else { return reading };
        Some(heading::of_difference(
            reading,
            (&self.removal.image, &self.removal.probe),
            (&other.image, &other.probe, &other.reading),
        ))
    }

    /// The label of a number, with a delta for a difference.
    fn label(&self, name: String) -> String {
        if self.operands.is_some() { delta(&name) } else { name }
    }

    /// The curves of the mode that is shown; an error where there are none.
    fn curves(&self) -> Result<&Curves, Empty> {
        match self.removal.modes.get(&self.view.mode) {
            Some(Found::Some(curves)) => Ok(curves),
            Some(Found::None { none }) => Err(Empty(none.clone())),
            None => Err(Empty(format!("No removal curves for mode {}", self.view.mode.id()))),
        }
    }

    /// The curves that are drawn as lines, deletion and insertion, each with its name and stroke.
    fn lines<'a>(&'a self, theme: &Theme) -> Vec<(&'a str, Stroke, &'a [Curve; 2])> {
        let Ok(curves) = self.curves() else { return Vec::new() };
        let rankings = RANKINGS.iter().enumerate().filter_map(|(at, ranking)| {
            let pair = curves.get(ranking.id)?;
            Some((ranking.name, stroke(theme, at), pair))
        });
        let random = curves.get(RANDOM);
        let dashed = Stroke::new(pt::LINE, theme.muted).dashed(3.0, 2.0);
        rankings.chain(random.map(|pair| ("Random, mean", dashed, pair))).collect()
    }

    /// The entries of the legend; the last says where tokens are removed.
    fn key(&self, theme: &Theme) -> Vec<(Mark, String)> {
        let mode = self.view.mode;
        let lines =
            self.lines(theme).into_iter().map(|(name, stroke, _)| (Mark::Line(stroke), name.to_owned()));
        let band = (Mark::Patch(theme.band), format!("Random, 5 to 95 % of {} orders", mode.draws()));
        let band = self.operands.is_none().then_some(band);
        lines.chain(band).chain([(Mark::None, format!("Removed: {}", uncapitalised(mode.name())))]).collect()
    }

    fn why_empty(&self) -> &'static str {
        match self.other() {
            Some(other) if !other.has_rival_of(&self.removal) => "The two margins are over different classes",
            _ => "The probe has only one class",
        }
    }

    /// Height of the heading and the legend.
    fn above(&self, width: f32) -> f32 {
        let keys = legend::lines(width, &self.key(&Theme::light())) as f32 * LINE_PT;
        heading::height(self.heading().as_deref(), width) + keys
    }

    fn picture_height(&self, width: f32) -> f32 {
        width * picture::aspect_of(&self.removal.seen, self.removal.grid)
    }

    fn charts(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let (curves, removal) = (self.curves()?, &*self.removal);
        let quantity = self.view.quantity;
        let values = curves.values().flatten().flat_map(|curve| quantity.values(curve)).copied();
        let (low, high) = extent(values).ok_or_else(|| Empty(self.why_empty().to_owned()))?;
        let mut scene = Scene::new(size.width, size.height, INFO.title, theme.background);
        let below = legend::above(&mut scene, theme, size, &self.key(theme));
        let half = (below.w - GAP_PT) / 2.0;
        let room = (below.h - LINE_PT).max(0.0);
        // In a low pane the curves get the most room: a third of it is enough to tell the pictures apart.
        let most = (room - CHART_ASPECT * half).max(room / 3.0).max(MIN_HEIGHT_PT).min(0.5 * room);
        let seen = self.picture_height(half).min(most);
        let scale = match quantity {
            _ if self.operands.is_some() => around_zero((1.05 * low, 1.05 * high)),
            Quantity::Probability => Scale::linear(0.0, 1.0),
            _ => Scale::padded(low, high),
        };
        let rival = removal.rival.as_ref().map_or(String::new(), |(_, name)| format!(" over {name}"));
        let label = self.label(match quantity {
            Quantity::Margin => format!("Margin of {}{rival}", removal.class.1),
            _ => format!("{} of {}", quantity.name(), removal.class.1),
        });
        let step = self.view.step.min(removal.fraction.len().saturating_sub(1));
        let labels = [label.as_str(), ""];
        for (side, name) in ["Share taken away", "Share put back"].into_iter().enumerate() {
            let x = below.x + side as f32 * (half + GAP_PT);
            let outer = Box2::new(x, below.y, half, room - seen);
            let y = Axis::new(scale, font::fit(labels[side], pt::LABEL, outer.h), 4);
            let frame = Frame::fit(outer, Axis::new(Scale::linear(0.0, 1.0), name, 3), y);
            self.chart(&mut scene, theme, &frame, side, step);
            let under = Box2::new(x, outer.bottom() + LINE_PT, half, seen);
            self.picture(&mut scene, theme, under, side, step);
        }
        Ok(scene)
    }

    /// Draws the curves of deletion (`side` 0) or insertion (1) and marks `step`.
    fn chart(&self, scene: &mut Scene, theme: &Theme, frame: &Frame, side: usize, step: usize) {
        let fraction = &self.removal.fraction;
        let place = |curve: &Curve| -> Vec<Point> {
            fraction.iter().zip(self.view.quantity.values(curve)).map(|(x, y)| frame.at(*x, *y)).collect()
        };
        frame.grid(scene, theme);
        if let Ok(curves) = self.curves()
            && let [Some(low), Some(high)] = ["low", "high"].map(|end| curves.get(&format!("{RANDOM}_{end}")))
        {
            let edge = place(&high[side]).into_iter().chain(place(&low[side]).into_iter().rev());
            scene.polygon(edge.collect(), theme.band);
        }
        if self.operands.is_some() {
            frame.zero_line(scene, theme);
        }
        for (_, stroke, pair) in self.lines(theme).into_iter().rev() {
            scene.line(place(&pair[side]), stroke);
        }
        let at = frame.x(fraction[step]);
        let rule = vec![[at, frame.area.y], [at, frame.area.bottom()]];
        scene.line(rule, Stroke::new(pt::LINE, theme.ink).dashed(1.0, 2.0));
        frame.axes(scene, theme);
        // Of a step is what lies nearest to its point: the axis begins and ends at one.
        let area = frame.area;
        let middles = fraction.windows(2).map(|two| frame.x(f64::midpoint(two[0], two[1])));
        let edges: Vec<f32> = [area.x].into_iter().chain(middles).chain([area.right()]).collect();
        for (step, ends) in edges.windows(2).enumerate() {
            scene.target(Box2::new(ends[0], area.y, ends[1] - ends[0], area.h), Identity::Item(step));
        }
    }

    /// Draws the picture, with the patches covered that are absent at `step` of deletion (`side` 0) or insertion (1).
    fn picture(&self, scene: &mut Scene, theme: &Theme, room: Box2, side: usize, step: usize) {
        let Removal { seen, grid, rankings, fraction, .. } = &*self.removal;
        let Some(ranked) = rankings.get(&self.view.ranking).and_then(|ranked| ranked.found()) else { return };
        let (remaining, inserted) = counts(grid.len(), fraction.len() - 1, step);
        let kept = match side {
            0 => &ranked.order[grid.len() - remaining..],
            _ => &ranked.order[..inserted],
        };
        let mut present = vec![false; grid.len()];
        kept.iter().for_each(|&token| present[token] = true);
        let aspect = picture::aspect_of(seen, *grid);
        let rect = room.largest(1.0, aspect);
        let left = format!("{} of {} tokens left", kept.len(), grid.len());
        let beside = room.w - font::width(&format!(", {left}"), pt::TICK);
        let name = font::fit(ranking_name(&self.view.ranking), pt::TICK, beside);
        // A narrow picture has no room for the name.
        let text = if name == "…" { font::fit(&left, pt::TICK, room.w) } else { format!("{name}, {left}") };
        scene.text_mid([rect.x, room.y - LINE_PT / 2.0], text, pt::TICK, theme.ink, Anchor::Start);
        picture::seen_of(scene, theme, (seen, *grid), rect, 0.0);
        picture::cover(scene, *grid, rect, |i| theme.ground.alpha(if present[i] { 0.0 } else { 0.88 }));
    }

    /// The values at `step` as text, for each ranking its name and both values.
    pub fn at(&self, step: usize) -> Vec<(String, String)> {
        let [taken, back] = ["taken away", "put back"];
        let lines = self.lines(&Theme::light()).into_iter();
        let text = if self.operands.is_some() { signed } else { number };
        let value =
            |curve: &Curve| self.view.quantity.values(curve).get(step).map_or(String::new(), |v| text(*v));
        let line = |(name, _, pair): (&str, Stroke, &[Curve; 2])| {
            let name = self.label(name.to_owned());
            (name, format!("{} {taken}, {} {back}", value(&pair[0]), value(&pair[1])))
        };
        lines.map(line).collect()
    }
}
