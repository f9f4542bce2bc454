//! Accuracy and rank coverage of variants of heads over the one setting in which they differ, one line for each head, layer and
//! rate: means over seeds, with a band of one standard deviation. Takes plain numbers, not a trace.

use super::curves::{ACCURACY, accuracy_scale};
use crate::viz::draw::series::{self, stroke};
use crate::viz::figures::plot::{Caption, Plot};
use crate::viz::figures::prelude::*;

/// Its names and description.
pub const INFO: Info = Info {
    id: "settings",
    title: "Accuracy and coverage by a setting",
    about: "Accuracy, and below it rank coverage, of a head's variants by the one number that differs, one line per head, layer and rate",
    tab: TabGroup::Page.tab(),
};

/// A number over seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OverSeeds {
    /// The mean.
    pub mean: f64,
    /// Standard deviation; `None` of one seed.
    pub deviation: Option<f64>,
    /// Number of seeds.
    pub seeds: usize,
}

/// One variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SettingPoint {
    /// Value of the setting.
    pub value: f64,
    /// Accuracy at the best epoch, in percent.
    pub accuracy: OverSeeds,
    /// Rank coverage over the test images, where the head has a plan and was evaluated on them.
    pub coverage: Option<OverSeeds>,
}

/// The variants of one head at one layer and rate, by increasing value.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingLine {
    /// Name of the head.
    pub name: String,
    /// One point for each variant.
    pub points: Vec<SettingPoint>,
}

/// The lines of some runs, as a plot.
#[derive(Clone)]
pub struct SettingsPlot {
    /// Name of the setting.
    pub setting: String,
    /// One line for each head.
    pub lines: Vec<SettingLine>,
    /// Names and metadata of the plot.
    pub caption: Caption,
}

/// Name of the vertical axis of the lower panel.
const COVERAGE: &str = "Rank coverage";
/// Ratio of the largest to the smallest value from which the axis is logarithmic.
const LOG_FROM_RATIO: f64 = 30.0;

impl SettingsPlot {
    fn points(&self) -> impl Iterator<Item = &SettingPoint> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn has_coverage(&self) -> bool {
        self.points().any(|point| point.coverage.is_some())
    }

    fn value_scale(&self) -> Option<Scale> {
        let (low, high) = extent(self.points().map(|point| point.value))?;
        Some(match low > 0.0 && high / low >= LOG_FROM_RATIO {
            true => Scale::log(low, high, 12),
            false => Scale::padded(low, high),
        })
    }
}

impl Plot for SettingsPlot {
    fn caption(&self) -> Caption {
        self.caption.clone()
    }

    fn height(&self, width: f32) -> f32 {
        let legend = 14.0 * (self.lines.len() as f32 / 4.0).ceil();
        legend + width * if self.has_coverage() { 1.0 } else { 0.62 }
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let empty = "No head of this run has several variants that differ in one number: `ssmprobe sweep --grid FIELD=VALUE,…`";
        let values = self.value_scale().ok_or_else(|| Empty(empty.to_owned()))?;
        let mut scene = Scene::new(size.width, size.height, INFO.title, theme.background);
        let lines = self.lines.iter().enumerate();
        let mut key: Vec<(Mark, &str)> =
            lines.map(|(at, line)| (Mark::Line(stroke(theme, at)), line.name.as_str())).collect();
        let numbers = || self.points().flat_map(|point| [Some(point.accuracy), point.coverage]).flatten();
        let bands = series::bands(false, numbers().map(|number| number.seeds));
        let has_band = numbers().any(|number| number.deviation.is_some_and(|deviation| deviation > 0.0));
        key.extend(has_band.then_some((Mark::None, &*bands)));
        let top = legend::legend(&mut scene, theme, [0.0, 0.0], size.width, &key);
        let covered = self.has_coverage();
        let height = (size.height - top) / if covered { 2.0 } else { 1.0 };
        let panel = |y: f32, height: f32, scale: Scale, x: &str, label: &str| {
            let (outer, y) = (Box2::new(0.0, y, size.width, height), Axis::new(scale, label, 4));
            Frame::fit(outer, Axis::new(values, x, 5), y)
        };
        let accuracies = accuracy_scale(self.points().flat_map(|point| ends(point.accuracy)));
        let (x, gap) = if covered { ("", pt::GAP) } else { (&*self.setting, 0.0) };
        let mut upper = panel(top, height - gap, accuracies, x, ACCURACY);
        let mut lower = panel(top + height, height, Scale::linear(0.0, 1.0), &self.setting, COVERAGE);
        Frame::align(&mut [&mut upper, &mut lower]);
        let mut draw = |frame: &Frame, number: &dyn Fn(&SettingPoint) -> Option<OverSeeds>| {
            frame.grid(&mut scene, theme);
            let place = |values: &[f64], numbers: Vec<f64>| -> Vec<Point> {
                values.iter().zip(numbers).map(|(x, y)| frame.at(*x, y)).collect()
            };
            let of_line = |(at, line): (usize, &SettingLine)| {
                let known = line.points.iter().filter_map(|point| Some((point.value, number(point)?)));
                let (values, numbers): (Vec<f64>, Vec<OverSeeds>) = known.unzip();
                let means: Vec<f64> = numbers.iter().map(|number| number.mean).collect();
                let deviations: Vec<f64> =
                    numbers.iter().map(|number| number.deviation.unwrap_or(0.0)).collect();
                (at, values, means, deviations)
            };
            let lines: Vec<_> = self.lines.iter().enumerate().map(of_line).collect();
            for (at, values, means, deviations) in &lines {
                if let Some(edges) = series::band(means, deviations, false) {
                    let [low, high] = edges.map(|edge| place(values, edge));
                    let outline = high.into_iter().chain(low.into_iter().rev()).collect();
                    scene.polygon(outline, theme.series(*at).alpha(0.16));
                }
            }
            for (at, values, means, _) in lines {
                let points = place(&values, means);
                points.iter().for_each(|point| scene.dot(*point, 1.3, theme.series(at), None));
                scene.line(points, stroke(theme, at));
            }
            frame.axes(&mut scene, theme);
        };
        draw(&upper, &|point| Some(point.accuracy));
        if covered {
            draw(&lower, &|point| point.coverage);
        }
        Ok(scene)
    }

    fn table(&self) -> Table {
        let all =
            || self.lines.iter().flat_map(|line| line.points.iter().map(move |point| (&line.name, point)));
        let coverage =
            |of: fn(OverSeeds) -> Option<f64>| all().map(move |(_, point)| point.coverage.and_then(of));
        Table::default()
            .words("head", all().map(|(name, _)| name.clone()))
            .numbers("value", all().map(|(_, point)| point.value))
            .numbers("accuracy", all().map(|(_, point)| point.accuracy.mean))
            .numbers("rank_coverage", coverage(|number| Some(number.mean)))
            .numbers("seeds", all().map(|(_, point)| point.accuracy.seeds as f64))
            .numbers("accuracy_standard_deviation", all().map(|(_, point)| point.accuracy.deviation))
            .numbers("rank_coverage_seeds", coverage(|number| Some(number.seeds as f64)))
            .numbers("rank_coverage_standard_deviation", coverage(|number| number.deviation))
            .words("setting", all().map(|_| self.setting.clone()))
    }
}

/// The ends of a band of one standard deviation, the lower first.
fn ends(OverSeeds { mean, deviation, .. }: OverSeeds) -> [f64; 2] {
    let deviation = deviation.unwrap_or(0.0);
    [mean - deviation, mean + deviation]
}
