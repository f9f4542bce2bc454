//! Training curves: loss and accuracy of several heads over the steps, as in the paper's figure of training loss: the mean
//! over seeds, with a band of one standard deviation or of the 95 % interval of the mean. The data are [`Curves`], not a trace.

use crate::viz::draw::series::{band, bands, stroke};
use crate::viz::figures::plot::{Caption, Plot};
use crate::viz::figures::prelude::*;

/// Means over seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means {
    /// Step and value, in the order of steps.
    pub points: Vec<(f64, f64)>,
    /// Standard deviation over seeds of every point, or the half width of its interval; empty if there is one seed, NaN at steps
    /// that only one seed has reached.
    pub spread: Vec<f64>,
    /// Number of seeds of every point.
    pub seeds: Vec<usize>,
}

impl Means {
    /// The lower and the upper edge of the band at every point; the points themselves without a spread.
    fn edges(&self) -> impl Iterator<Item = f64> {
        let spread = self.spread.iter().map(|s| s.max(0.0)).chain(std::iter::repeat(0.0));
        self.points.iter().zip(spread).flat_map(|(p, s)| [p.1 - s, p.1 + s])
    }

    fn has_band(&self) -> bool {
        self.spread.iter().any(|spread| *spread > 0.0)
    }
}

/// The losses and accuracies of one head during training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Name of the head.
    pub name: String,
    /// Its number among all series of its runs, also those that are not drawn: it gives its colour. By default its place
    /// among those that are.
    pub number: Option<usize>,
    /// Training losses.
    pub loss: Means,
    /// Accuracies on held-out images, in percent.
    pub accuracy: Means,
    /// Means over seeds of the moving [`average`] of each seed's losses; drawn in place of noisy losses.
    pub average: Means,
}

impl Series {
    /// Whether there are enough losses to draw their moving average, and the losses themselves only faintly.
    fn is_noisy(&self) -> bool {
        let [losses, averages] = [&self.loss, &self.average].map(|means| means.points.len());
        losses >= AVERAGE_FRACTION && averages == losses
    }

    /// The losses to draw, averaged if they are noisy.
    fn drawn_loss(&self) -> &Means {
        if self.is_noisy() { &self.average } else { &self.loss }
    }
}

/// The curves of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// One per head.
    pub series: Vec<Series>,
    /// Whether spreads are half widths of the 95 % interval of the mean instead of standard deviations.
    pub interval: bool,
}

impl Curves {
    /// The series with their numbers.
    fn numbered(&self) -> impl Iterator<Item = (usize, &Series)> {
        self.series.iter().enumerate().map(|(at, series)| (series.number.unwrap_or(at), series))
    }
}

listed! {
    /// Which curves are drawn.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Part {
        /// Loss, and accuracy below it.
        #[default]
        Both: "training";
        /// Loss alone, as in the paper.
        Loss: "training_loss";
        /// Accuracy alone.
        Accuracy: "training_accuracy";
    }
}

impl Part {
    /// Its name and description.
    pub fn info(self) -> Info {
        let about = match self {
            Self::Both => "Training loss, and below it the accuracy on held-out images",
            Self::Loss => "Training loss by step, one line per head",
            Self::Accuracy => "Accuracy on held-out images by step, one line per head",
        };
        Info { id: self.name(), title: "Training curves", about, tab: TabGroup::Page.tab() }
    }
}

/// The curves of a run as a [`Plot`].
#[derive(Clone)]
pub struct TrainingPlot {
    /// All curves of the run.
    pub curves: Curves,
    /// Which of them are drawn.
    pub part: Part,
    /// Whether the axis of losses is logarithmic.
    pub log: bool,
    /// What was trained on which dataset, and the run that the curves are of.
    pub caption: Caption,
}

impl TrainingPlot {
    /// The curves that belong to [`part`](Self::part).
    fn selected(&self) -> Curves {
        let mut curves = self.curves.clone();
        for series in &mut curves.series {
            match self.part {
                Part::Both => {}
                Part::Loss => series.accuracy = Means::default(),
                Part::Accuracy => (series.loss, series.average) = Default::default(),
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
        draw(&self.selected(), self.log, theme, size)
    }

    /// One row for each point; of noisy losses also for their average, which is what is drawn.
    fn table(&self) -> Table {
        let Curves { series, interval } = &self.selected();
        let mut rows = Vec::new();
        for one in series {
            let averaged = one.is_noisy().then_some(("average_loss", &one.average));
            let measures = [("loss", &one.loss)].into_iter().chain(averaged);
            for (measure, means) in measures.chain([("accuracy", &one.accuracy)]) {
                let row = |(at, point)| (&one.name, measure, point, means, at);
                rows.extend(means.points.iter().enumerate().map(row));
            }
        }
        Table::default()
            .words("head", rows.iter().map(|(name, ..)| (*name).clone()))
            .words("measure", rows.iter().map(|(_, measure, ..)| (*measure).to_owned()))
            .numbers("step", rows.iter().map(|(_, _, point, ..)| point.0))
            .numbers("value", rows.iter().map(|(_, _, point, ..)| point.1))
            .numbers(
                if *interval { "interval_95_half_width" } else { "standard_deviation" },
                rows.iter().map(|(.., means, at)| means.spread.get(*at).copied()),
            )
            .numbers("seeds", rows.iter().map(|(.., means, at)| Some(*means.seeds.get(*at)? as f64)))
    }
}

/// Name of the horizontal axis of both panels.
const STEP: &str = "Training step";
/// Name of the axis of losses, on the screen and in exports.
pub const LOSS: &str = "Training loss";
/// Name of the axis of accuracies.
pub const ACCURACY: &str = "Accuracy (%)";
/// The message of a run without a trained step.
pub const NO_STEP: &str = "No training step yet";
/// Most points drawn of one curve: with more, neighbours would share a pixel.
const MAX_POINTS: usize = 1500;
/// Most accuracies of a series that are drawn as dots too.
const MAX_DOTS: usize = 60;
/// A moving average spans one part in this many of the points on either side; fewer points are drawn as they are.
const AVERAGE_FRACTION: usize = 60;

/// Draws the loss, and below it the accuracy; whichever has no points is left out.
fn draw(curves: &Curves, log: bool, theme: &Theme, size: Size) -> Result<Scene, Empty> {
    let has = |f: fn(&Series) -> &Means| curves.series.iter().any(|s| !f(s).points.is_empty());
    let (has_loss, has_accuracy) = (has(|s| &s.loss), has(|s| &s.accuracy));
    if !has_loss && !has_accuracy {
        return Err(Empty(NO_STEP.to_owned()));
    }
    let width = size.width;
    let mut scene = Scene::new(width, size.height, "Training curves", theme.background);
    let mut key: Vec<(Mark, &str)> =
        curves.numbered().map(|(i, s)| (Mark::Line(stroke(theme, i)), s.name.as_str())).collect();
    let mut means = curves.series.iter().flat_map(|s| [&s.loss, &s.accuracy]);
    let bands = bands(curves.interval, means.clone().flat_map(|means| &means.seeds).copied());
    key.extend(means.any(Means::has_band).then_some((Mark::None, &*bands)));
    let top = legend::legend(&mut scene, theme, [0.0, 0.0], width, &key);
    let height = (size.height - top) / if has_loss && has_accuracy { 2.0 } else { 1.0 };
    let steps = curves.series.iter().flat_map(|s| s.loss.points.iter().chain(&s.accuracy.points));
    let (first, last) = extent(steps.map(|p| p.0)).unwrap_or((0.0, 1.0));
    let panel = |y: f32, height: f32, scale: Scale, x: &str, label: &str| {
        let x = Axis::counts(Scale::linear(first.min(0.0), last), x, 5);
        Frame::fit(Box2::new(0.0, y, width, height), x, Axis::new(scale, label, 4))
    };
    let (x, gap) = if has_accuracy { ("", pt::GAP) } else { (STEP, 0.0) };
    let mut upper = panel(top, height - gap, loss_scale(curves, log), x, LOSS);
    let under = if has_loss { top + height } else { top };
    let accuracies = curves.series.iter().flat_map(|s| s.accuracy.edges());
    let mut lower = panel(under, height, accuracy_scale(accuracies), STEP, ACCURACY);
    if has_loss && has_accuracy {
        Frame::align(&mut [&mut upper, &mut lower]);
    }
    if has_loss {
        draw_lines(&mut scene, theme, &upper, curves, Series::drawn_loss, true);
    }
    if has_accuracy {
        draw_lines(&mut scene, theme, &lower, curves, |s| &s.accuracy, false);
    }
    Ok(scene)
}

fn loss_scale(curves: &Curves, log: bool) -> Scale {
    let values = || {
        curves.series.iter().flat_map(|s| {
            let drawn = s.drawn_loss();
            // Of losses drawn faintly the axis includes the highest, but not the lowest, which would shrink the other lines.
            let highest = s.loss.points.iter().map(|p| p.1).filter(|_| !drawn.has_band());
            let highest = highest.fold(f64::NEG_INFINITY, f64::max);
            drawn.edges().chain(highest.is_finite().then_some(highest))
        })
    };
    let (lo, hi) = extent(values()).unwrap_or((0.0, 1.0));
    if log {
        let lowest = extent(values().filter(|v| *v > 0.0)).map_or(lo, |e| e.0);
        Scale::log(lowest * 0.9, hi * 1.1, 6)
    } else {
        // Values close to each other fill the box; otherwise the axis includes zero.
        Scale::padded(if lo > 0.5 * hi { lo } else { lo.min(0.0) }, hi)
    }
}

/// The scale of accuracies in percent; up to 1 % where all are 0, as there are none below.
pub(super) fn accuracy_scale(percent: impl Iterator<Item = f64>) -> Scale {
    let (lo, hi) = extent(percent.map(|v| v.clamp(0.0, 100.0))).unwrap_or((0.0, 100.0));
    Scale::nice(lo.min(hi * 0.5), if hi > 0.0 { hi } else { 1.0 }, 4)
}

/// Draws one line per series, with a band if it has a spread; `is_loss` is whether the lines are losses, whose noisy series
/// without a band are drawn faintly behind their moving average, or accuracies.
fn draw_lines(
    scene: &mut Scene,
    theme: &Theme,
    frame: &Frame,
    curves: &Curves,
    means_of: impl Fn(&Series) -> &Means,
    is_loss: bool,
) {
    frame.grid(scene, theme);
    let place = |points: &[(f64, f64)]| -> Vec<Point> {
        let stride = points.len().div_ceil(MAX_POINTS).max(1);
        let last = points.last().into_iter();
        points.iter().step_by(stride).chain(last).map(|p| frame.at(p.0, p.1)).collect()
    };
    for (i, series) in curves.numbered() {
        let Means { points, spread, .. } = means_of(series);
        let mean: Vec<f64> = points.iter().map(|point| point.1).collect();
        // What lies below a logarithmic axis is drawn at its end.
        if let Some(edges) = band(&mean, spread, false) {
            let [low, high] = edges.map(|edge| {
                place(&points.iter().map(|point| point.0).zip(edge).collect::<Vec<(f64, f64)>>())
            });
            let outline = high.into_iter().chain(low.into_iter().rev()).collect();
            scene.polygon(outline, theme.series(i).alpha(0.16));
        } else if is_loss && series.is_noisy() {
            scene.line(place(&series.loss.points), Stroke::new(pt::LINE * 0.5, theme.series(i).alpha(0.25)));
        }
    }
    for (i, series) in curves.numbered() {
        let points = &means_of(series).points;
        scene.line(place(points), stroke(theme, i));
        if !is_loss && points.len() <= MAX_DOTS {
            for p in place(points) {
                scene.dot(p, 1.3, theme.series(i), None);
            }
        }
    }
    frame.axes(scene, theme);
}

/// Moving average over a sixtieth of the points, at least one, on either side; at the ends over those that exist.
pub fn average(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sums = vec![0.0];
    for p in points {
        sums.push(sums[sums.len() - 1] + p.1);
    }
    let radius = (points.len() / AVERAGE_FRACTION).max(1);
    let mean = |i: usize| {
        let (from, to) = (i.saturating_sub(radius), (i + radius + 1).min(points.len()));
        (sums[to] - sums[from]) / (to - from) as f64
    };
    points.iter().enumerate().map(|(i, p)| (p.0, mean(i))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracies_of_zero_stand_on_an_axis_without_negative_ones() {
        let scale = accuracy_scale([0.0, 0.0].into_iter());
        assert_eq!((scale.lo, scale.hi), (0.0, 1.0));
        let scale = accuracy_scale([0.0, 93.0].into_iter());
        assert_eq!((scale.lo, scale.hi), (0.0, 100.0));
        assert_eq!(accuracy_scale([90.0, 104.0].into_iter()).hi, 100.0, "the edge of a band");
    }

    #[test]
    fn a_logarithmic_axis_of_losses_begins_at_the_lowest_positive_edge() {
        let loss = Means { points: vec![(0.0, 1.0), (1.0, 0.5)], spread: vec![1.5, 0.1], seeds: vec![2; 2] };
        let curves = Curves { series: vec![Series { loss, ..Series::default() }], interval: false };
        assert!((loss_scale(&curves, true).lo - 0.9 * 0.4).abs() < 1e-12);
    }

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
