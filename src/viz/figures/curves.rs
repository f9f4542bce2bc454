//! Training curves: loss and accuracy of several heads over the steps, as in the paper's figure of
//! training loss: the mean over seeds, with a band of one standard deviation or of the mean's 95 % interval.
//! Takes plain numbers of its own, not a trace.

use serde::{Deserialize, Serialize};

use crate::viz::draw::{Axis, Box2, Frame, Mark, Point, Scale, Scene, Stroke, Table, Theme, extent, legend};
use crate::viz::figures::plot::{Caption, Plot, Source};
use crate::viz::{Empty, Info, MARGIN, Options, Size, TabGroup};

/// What one head did while it trained; steps rise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name of the head.
    pub name: String,
    /// Step and training loss.
    pub loss: Vec<(f64, f64)>,
    /// Step and accuracy on held-out images, 0 to 1.
    pub accuracy: Vec<(f64, f64)>,
    /// Standard deviation over seeds of every loss, or the half width of its interval; empty where there is one seed, no
    /// number where one has come this far.
    pub loss_spread: Vec<f64>,
    /// And of every accuracy.
    pub accuracy_spread: Vec<f64>,
    /// Step and mean over seeds of the [`average`] of each one's losses: what is drawn of noisy ones.
    #[serde(default)]
    pub average: Vec<(f64, f64)>,
    /// Standard deviation over seeds of every average; empty where there is one seed.
    #[serde(default)]
    pub average_spread: Vec<f64>,
}

impl Series {
    /// Whether losses are those of steps, too many to tell one from the next.
    fn is_noisy(&self) -> bool {
        self.loss.len() >= AVERAGES && self.average.len() == self.loss.len()
    }

    /// The losses that are drawn, and their spread.
    fn drawn(&self) -> (&Vec<(f64, f64)>, &Vec<f64>) {
        match self.is_noisy() {
            true => (&self.average, &self.average_spread),
            false => (&self.loss, &self.loss_spread),
        }
    }
}

/// The curves of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// One a head.
    pub series: Vec<Series>,
    /// Whether spreads are half widths of the mean's 95 % interval instead of standard deviations.
    #[serde(default)]
    pub interval: bool,
}

/// Which curves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Loss, and accuracy below it.
    #[default]
    Both,
    /// Loss alone, as in the paper.
    Loss,
    /// Accuracy alone.
    Accuracy,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 3] = [Self::Both, Self::Loss, Self::Accuracy];

    /// What it is called, and what it shows.
    pub fn info(self) -> Info {
        let (id, about) = match self {
            Self::Both => ("training", "Training loss, and below it the accuracy on held-out images"),
            Self::Loss => ("training_loss", "Training loss over the steps, a line a head"),
            Self::Accuracy => {
                ("training_accuracy", "Accuracy on held-out images over the steps, a line a head")
            }
        };
        Info { id, title: "Training curves", about, tab: TabGroup::Page.tab() }
    }

    /// The part of this id.
    pub fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.info().id == id)
    }
}

/// The curves of a run, as a picture that brings its own data.
#[derive(Clone)]
pub struct TrainingPlot {
    /// What is drawn.
    pub curves: Curves,
    /// Which of them.
    pub part: Part,
    /// Logarithmic losses.
    pub log: bool,
    /// What was trained on what, and the run it is drawn from.
    pub caption: Caption,
}

impl TrainingPlot {
    /// The curves of its part.
    fn shown(&self) -> Curves {
        let mut curves = self.curves.clone();
        for series in &mut curves.series {
            match self.part {
                Part::Both => {}
                Part::Loss => series.accuracy.clear(),
                Part::Accuracy => {
                    series.loss.clear();
                    series.average.clear();
                }
            }
        }
        curves
    }
}

impl Plot for TrainingPlot {
    fn caption(&self) -> Caption {
        self.caption.clone()
    }

    fn height(&self, width: f32) -> f32 {
        let legend = 14.0 * (self.curves.series.len() as f32 / 4.0).ceil();
        legend + width * if self.part == Part::Both { 1.0 } else { 0.62 }
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        inside(&self.shown(), &Options { log: self.log, ..Options::default() }, theme, size)
    }

    fn table(&self) -> Table {
        table(&self.shown())
    }

    fn sources(&self) -> Vec<Source<'_>> {
        Vec::new() // the run's folder has them
    }
}

/// Name of the axis both panels share.
const STEP: &str = "Training step";
/// Name of the axis of losses, wherever they are drawn.
pub const LOSS: &str = "Training loss";
/// Name of the axis of accuracies.
pub const ACCURACY: &str = "Accuracy (%)";
/// Said where there is nothing to draw.
pub const NO_STEP: &str = "No step has been trained yet";
/// Most points drawn of one curve: beyond it neighbours share a pixel.
const MAX_POINTS: usize = 1500;
/// Part of the curve a moving average spans on either side: one of so many.
const AVERAGES: usize = 60;

/// Draws the loss, and below it the accuracy where there is one.
///
/// # Errors
/// If no series has a point yet.
pub fn scene(curves: &Curves, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
    let size = Size { width: size.width - 2.0 * MARGIN, height: size.height - 2.0 * MARGIN };
    Ok(inside(curves, options, theme, size)?.framed(MARGIN))
}

/// The same without an edge around it.
fn inside(curves: &Curves, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
    let has = |f: fn(&Series) -> &Vec<(f64, f64)>| curves.series.iter().any(|s| !f(s).is_empty());
    let (loss, accuracy) = (has(|s| &s.loss), has(|s| &s.accuracy));
    if !loss && !accuracy {
        return Err(Empty(NO_STEP.to_owned()));
    }
    let (width, whole) = (size.width, size.height);
    let mut scene = Scene::new(width, whole, "Training curves", theme.background);
    let key: Vec<(Mark, &str)> = curves
        .series
        .iter()
        .enumerate()
        .map(|(i, s)| (Mark::Line(stroke(theme, i)), s.name.as_str()))
        .collect();
    let top = legend::legend(&mut scene, theme, [0.0, 0.0], width, &key);
    let height = (whole - top) / if loss && accuracy { 2.0 } else { 1.0 };
    let steps = curves.series.iter().flat_map(|s| s.loss.iter().chain(&s.accuracy)).map(|p| p.0);
    let (first, last) = extent(steps).unwrap_or((0.0, 1.0));
    let panel = |y: f32, height: f32, scale: Scale, x: &str, label: &str| {
        let x = Axis::new(Scale::linear(first.min(0.0), last), x, 5);
        Frame::fit(Box2::new(0.0, y, width - 4.0, height), x, Axis::new(scale, label, 4), theme)
    };
    let (x, gap) = if accuracy { ("", theme.gap) } else { (STEP, 0.0) };
    let mut upper = panel(top, height - gap, loss_scale(curves, options), x, LOSS);
    let under = if loss { top + height } else { top };
    let mut lower = panel(under, height, accuracy_scale(curves), STEP, ACCURACY);
    if loss && accuracy {
        Frame::align(&mut [&mut upper, &mut lower]);
    }
    if loss {
        lines(&mut scene, theme, &upper, curves, Series::drawn, true);
    }
    if accuracy {
        lines(&mut scene, theme, &lower, curves, |s| (&s.accuracy, &s.accuracy_spread), false);
    }
    Ok(scene)
}

/// The line of series `i`; those that share a colour differ by their dash.
pub(super) fn stroke(theme: &Theme, i: usize) -> Stroke {
    let line = Stroke::new(theme.line * 1.2, theme.series(i));
    match Dash::new(theme, i) {
        Dash::Solid => line,
        Dash::Loose => line.dashed(4.0, 2.0),
        Dash::Dense => line.dashed(1.5, 1.5),
        Dash::Dots => line.dashed(0.8, 2.4),
    }
}

/// How the line of a series is broken: there are fewer colours than heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dash {
    /// The first round of colours.
    Solid,
    /// The second.
    Loose,
    /// The third.
    Dense,
    /// All others.
    Dots,
}

impl Dash {
    /// That of series `i`.
    pub fn new(theme: &Theme, i: usize) -> Self {
        match i / theme.series.len() {
            0 => Self::Solid,
            1 => Self::Loose,
            2 => Self::Dense,
            _ => Self::Dots,
        }
    }
}

/// The edges of a band of these half widths around `mean`, the lower one first; none where no seed
/// differs. On a logarithmic axis a band that reaches zero ends a little under the curve.
pub fn band(mean: &[f64], spread: &[f64], log: bool) -> Option<[Vec<f64>; 2]> {
    if spread.len() != mean.len() || !spread.iter().any(|spread| *spread > 0.0) {
        return None;
    }
    let lowest = mean.iter().copied().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
    let floor = if log { lowest * 0.5 } else { f64::NEG_INFINITY };
    let edge = |sign: f64| mean.iter().zip(spread).map(|(m, s)| (m + sign * s.max(0.0)).max(floor)).collect();
    Some([edge(-1.0), edge(1.0)])
}

/// Values of a curve, and the ends of its band.
fn with_band<'a>(points: &'a [(f64, f64)], spread: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    let spread = spread.iter().map(|s| s.max(0.0)).chain(std::iter::repeat(0.0));
    points.iter().zip(spread).flat_map(|(p, s)| [p.1 - s, p.1 + s])
}

fn loss_scale(curves: &Curves, options: &Options) -> Scale {
    let values = || {
        curves.series.iter().flat_map(|s| {
            let (points, spread) = s.drawn();
            // A faint line is no reason to leave the others little room below it; above it is.
            let high = s.loss.iter().map(|p| p.1).filter(|_| spread.is_empty());
            let high = high.fold(f64::NEG_INFINITY, f64::max);
            with_band(points, spread).chain(high.is_finite().then_some(high))
        })
    };
    let (lo, hi) = extent(values()).unwrap_or((0.0, 1.0));
    if options.log {
        let above = extent(values().filter(|v| *v > 0.0)).map_or(lo, |e| e.0);
        Scale::log(above * 0.9, hi * 1.1, 6)
    } else {
        // Close to each other the curves fill the box; else it shows how far they are from zero.
        Scale::padded(if lo > 0.5 * hi { lo } else { lo.min(0.0) }, hi)
    }
}

fn accuracy_scale(curves: &Curves) -> Scale {
    let values = curves.series.iter().flat_map(|s| with_band(&s.accuracy, &s.accuracy_spread));
    let values = values.map(|v| (v * 100.0).clamp(0.0, 100.0));
    let (lo, hi) = extent(values).unwrap_or((0.0, 100.0));
    Scale::nice(lo.min(hi * 0.5), hi, 4)
}

/// Draws one line a series, with a band where it has a spread; a noisy one is drawn faint, with its
/// moving average above it.
fn lines(
    scene: &mut Scene,
    theme: &Theme,
    frame: &Frame,
    curves: &Curves,
    of: impl Fn(&Series) -> (&Vec<(f64, f64)>, &Vec<f64>),
    noisy: bool,
) {
    frame.grid(scene, theme);
    let factor = if noisy { 1.0 } else { 100.0 };
    let place = |points: &[(f64, f64)]| -> Vec<Point> {
        let stride = points.len().div_ceil(MAX_POINTS).max(1);
        let last = points.last().into_iter();
        points.iter().step_by(stride).chain(last).map(|p| frame.at(p.0, p.1 * factor)).collect()
    };
    for (i, series) in curves.series.iter().enumerate() {
        let (points, spread) = of(series);
        let mean: Vec<f64> = points.iter().map(|point| point.1).collect();
        if let Some(edges) = band(&mean, spread, frame.y.scale.log) {
            let [low, high] = edges.map(|edge| {
                place(&points.iter().map(|point| point.0).zip(edge).collect::<Vec<(f64, f64)>>())
            });
            scene.polygon(
                high.into_iter().chain(low.into_iter().rev()).collect(),
                theme.series(i).alpha(0.16),
            );
        } else if noisy && series.is_noisy() {
            scene.line(place(&series.loss), Stroke::new(theme.line * 0.5, theme.series(i).alpha(0.25)));
        }
    }
    for (i, series) in curves.series.iter().enumerate() {
        let (points, _) = of(series);
        scene.line(place(points), stroke(theme, i));
        if !noisy && points.len() <= 60 {
            for p in place(points) {
                scene.dot(p, 1.3, theme.series(i), None);
            }
        }
    }
    frame.axes(scene, theme);
}

/// Moving average over a sixtieth of the curve on either side, one-sided at the ends.
pub fn average(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sums = vec![0.0];
    for p in points {
        sums.push(sums[sums.len() - 1] + p.1);
    }
    let reach = (points.len() / AVERAGES).max(1);
    let mean = |i: usize| {
        let (from, to) = (i.saturating_sub(reach), (i + reach + 1).min(points.len()));
        (sums[to] - sums[from]) / (to - from) as f64
    };
    points.iter().enumerate().map(|(i, p)| (p.0, mean(i))).collect()
}

/// The numbers behind the curves, one row a point.
pub fn table(curves: &Curves) -> Table {
    let mut names = Vec::new();
    let mut kinds = Vec::new();
    let (mut steps, mut values, mut spreads) = (Vec::new(), Vec::new(), Vec::new());
    for series in &curves.series {
        let kinds_of = [
            ("loss", &series.loss, &series.loss_spread),
            ("accuracy", &series.accuracy, &series.accuracy_spread),
        ];
        for (kind, points, spread) in kinds_of {
            for (at, &(step, value)) in points.iter().enumerate() {
                spreads.push(spread.get(at).copied().unwrap_or(f64::NAN));
                names.push(series.name.clone());
                kinds.push(kind.to_owned());
                steps.push(step);
                values.push(value);
            }
        }
    }
    Table::default()
        .words("head", names)
        .words("measure", kinds)
        .numbers("step", steps)
        .numbers("value", values)
        .numbers(if curves.interval { "interval_95_half_width" } else { "standard_deviation" }, spreads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_keeps_a_straight_line() {
        let points: Vec<(f64, f64)> = (0..240).map(|i| (f64::from(i), 3.0 - f64::from(i) * 0.01)).collect();
        let smoothed = average(&points);
        assert_eq!(smoothed.len(), points.len());
        for (a, b) in smoothed.iter().zip(&points).skip(4).take(232) {
            assert!((a.1 - b.1).abs() < 1e-9 && a.0 == b.0, "{a:?} {b:?}");
        }
        assert!((smoothed[0].1 - 2.98).abs() < 1e-9, "the mean of the first five");
    }
}
