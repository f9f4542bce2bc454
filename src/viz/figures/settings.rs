//! Accuracy and rank coverage of variants of heads over the one setting in which they differ, one line for each head, layer and
//! rate. Takes plain numbers, not a trace.

use super::curves::{ACCURACY, accuracy_scale, stroke};
use crate::viz::draw::{Axis, Box2, Frame, Mark, Point, Scale, Scene, Table, Theme, extent, legend, pt};
use crate::viz::figures::plot::{Caption, Plot};
use crate::viz::{Empty, Info, Size, TabGroup};

/// Its names and description.
pub const INFO: Info = Info {
    id: "settings",
    title: "Accuracy and coverage by a setting",
    about: "Accuracy, and below it rank coverage, of a head's variants by the one number that differs, one line per head, layer and rate",
    tab: TabGroup::Page.tab(),
};

/// One variant, means over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SettingPoint {
    /// Value of the setting.
    pub value: f64,
    /// Accuracy at the best epoch, in percent.
    pub accuracy: f64,
    /// Rank coverage over the test images, where the head has a plan and was evaluated on them.
    pub coverage: Option<f64>,
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
        let key: Vec<(Mark, &str)> =
            lines.map(|(at, line)| (Mark::Line(stroke(theme, at)), line.name.as_str())).collect();
        let top = legend::legend(&mut scene, theme, [0.0, 0.0], size.width, &key);
        let covered = self.has_coverage();
        let height = (size.height - top) / if covered { 2.0 } else { 1.0 };
        let panel = |y: f32, height: f32, scale: Scale, x: &str, label: &str| {
            let (outer, y) = (Box2::new(0.0, y, size.width, height), Axis::new(scale, label, 4));
            Frame::fit(outer, Axis::new(values, x, 5), y)
        };
        let accuracies = accuracy_scale(self.points().map(|point| point.accuracy));
        let (x, gap) = if covered { ("", pt::GAP) } else { (&*self.setting, 0.0) };
        let mut upper = panel(top, height - gap, accuracies, x, ACCURACY);
        let mut lower = panel(top + height, height, Scale::linear(0.0, 1.0), &self.setting, COVERAGE);
        Frame::align(&mut [&mut upper, &mut lower]);
        let mut draw = |frame: &Frame, value: &dyn Fn(&SettingPoint) -> Option<f64>| {
            frame.grid(&mut scene, theme);
            for (at, line) in self.lines.iter().enumerate() {
                let known = line.points.iter().filter_map(|point| Some(frame.at(point.value, value(point)?)));
                let points: Vec<Point> = known.collect();
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
        Table::default()
            .words("head", all().map(|(name, _)| name.clone()))
            .numbers("value", all().map(|(_, point)| point.value))
            .numbers("accuracy", all().map(|(_, point)| point.accuracy))
            .numbers("rank_coverage", all().map(|(_, point)| point.coverage))
    }
}
