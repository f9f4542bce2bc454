//! Plots: figures that bring their own data, as they are exported and shown in a pane.

use std::sync::Arc;

use crate::model::explain::evaluation::{self, Evaluation};
use crate::model::explain::removal::Removal;
use crate::model::explain::stability::Stability;
use crate::model::trace::{Trace, slug};
use crate::viz::draw::{Map, Scene, Table, Theme};
use crate::viz::figures::dataset::{self, Choice, Control, MapOf, Overview};
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::file_names::joined;
use crate::viz::{Empty, MARGIN, Size, heading};

/// The names of a plot, and the command that draws it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caption {
    /// Its title on the screen.
    pub title: String,
    /// The stem of its file name.
    pub file: String,
    /// What it was made from, for the file's metadata.
    pub about: String,
    /// The options of `ssmprobe figures` that draw the same, without those for data and output; empty where there are none.
    pub command: String,
}

/// A picture that owns its data.
pub trait Plot: Send + Sync {
    /// Its names, and the command that draws it again.
    fn caption(&self) -> Caption;

    /// The preferred height at `width`, in points.
    fn height(&self, width: f32) -> f32;

    /// The height beyond which more space is of no use, in points.
    fn max_height(&self, width: f32) -> f32 {
        1.4 * self.height(width)
    }

    /// The smallest legible size in a pane of this `width`, in points; a smaller pane scrolls.
    fn legible(&self, _width: f32) -> Size {
        Size::default()
    }

    /// Draws the picture at `size`, without a margin.
    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty>;

    /// Draws the picture at `width` points and its preferred height, margin included.
    fn draw_column(&self, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let width = width - 2.0 * MARGIN;
        Ok(self.scene(theme, Size { width, height: self.height(width) })?.framed())
    }

    /// The numbers it shows.
    fn table(&self) -> Table;

    /// Whether it is several pictures side by side, which take a page's width and have no single table.
    fn is_comparison(&self) -> bool {
        false
    }

    /// The figures of traces that it is, if it is such: these can show a reading step by step, and stand in rows.
    fn as_traces(&self) -> Option<&TracePlot> {
        None
    }

    /// The data that its file needs to be drawn again; empty where they are kept elsewhere, as in the folder of a run.
    fn sources(&self) -> Vec<Source<'_>> {
        Vec::new()
    }
}

/// Draws a plot at `size`, margin included.
pub fn draw(plot: &dyn Plot, theme: &Theme, size: Size) -> Result<Scene, Empty> {
    let inner = Size { width: size.width - 2.0 * MARGIN, height: size.height - 2.0 * MARGIN };
    Ok(plot.scene(theme, inner)?.framed())
}

/// Data from which a plot can be drawn again.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// The trace of a probe on an image.
    Trace(&'a Trace),
    /// The trace that is subtracted from the others.
    Against(&'a Trace),
    /// The evaluation of a probe on a dataset, and the name of the probe.
    Evaluation(&'a Evaluation, &'a str),
    /// The stability of an order.
    Stability(&'a Stability),
    /// Removal curves.
    Removal(&'a Removal),
    /// Removal curves that are subtracted.
    RemovalAgainst(&'a Removal),
}

impl Source<'_> {
    /// Its kind: the name of the `ssmprobe figures` option that takes its file, without hyphens.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Trace(_) => "trace",
            Self::Against(_) | Self::RemovalAgainst(_) => "against",
            Self::Evaluation(..) => "evaluation",
            Self::Stability(_) => "stability",
            Self::Removal(_) => "causal",
        }
    }

    /// The ending of its file name, without the dot before it.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Trace(_) | Self::Against(_) => "trace.json",
            Self::Evaluation(..) => evaluation::ENDING,
            Self::Stability(_) => "stability.json",
            Self::Removal(_) | Self::RemovalAgainst(_) => "causal.json",
        }
    }

    /// The content of its file, as JSON.
    pub fn json(self) -> Result<String, String> {
        let json = match self {
            Self::Trace(trace) | Self::Against(trace) => serde_json::to_string(trace),
            Self::Evaluation(evaluation, name) => {
                let named = Evaluation { probe: name.to_owned(), ..evaluation.clone() };
                return named.to_json().map_err(|error| error.to_string());
            }
            Self::Stability(stability) => serde_json::to_string(stability),
            Self::Removal(removal) | Self::RemovalAgainst(removal) => serde_json::to_string(removal),
        };
        json.map_err(|error| error.to_string())
    }
}

/// An overview of one evaluation, or of two, as a plot.
#[derive(Clone)]
pub struct EvaluationPlot {
    /// The overview.
    pub overview: &'static dyn Overview,
    /// The evaluation shown.
    pub evaluation: Arc<Evaluation>,
    /// A second evaluation; the same as the first where there is none.
    pub other: Arc<Evaluation>,
    /// The names of their probes among those that are open.
    pub names: [String; 2],
    /// The settings of the overview.
    pub choice: Choice,
    /// The image to mark.
    pub selected: Option<usize>,
}

impl EvaluationPlot {
    /// An overview of these evaluations, whose probes are called as their files are.
    pub fn new(
        overview: &'static dyn Overview,
        [evaluation, other]: [Arc<Evaluation>; 2],
        choice: Choice,
    ) -> Self {
        let names = [&evaluation, &other].map(|one| one.probe.clone());
        Self { overview, evaluation, other, names, choice, selected: None }
    }

    /// The heading: how its probes read, where that is not as trained.
    fn head(&self) -> Option<String> {
        let all: Vec<String> =
            self.evaluations().filter_map(|(shown, name)| dataset::heading(shown, name)).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The one or two evaluations it shows, with the names of their probes.
    fn evaluations(&self) -> impl Iterator<Item = (&Evaluation, &str)> {
        let [own, other] = &self.names;
        let second = self.is_of_two().then_some((&*self.other, other.as_str()));
        std::iter::once((&*self.evaluation, own.as_str())).chain(second)
    }

    /// Whether it shows two different evaluations.
    pub(super) fn is_of_two(&self) -> bool {
        self.overview.is_by_image() && !Arc::ptr_eq(&self.evaluation, &self.other)
    }

    /// The options of `ssmprobe figures` for the overview and its settings.
    fn command(&self) -> String {
        let Choice { measure, against, maps, map, classes, .. } = &self.choice;
        let measure = dataset::measure(&self.evaluation, measure);
        let against = dataset::measure(&self.other, against);
        let mut words = vec![format!("--figure {}", self.overview.id())];
        for control in self.overview.controls() {
            match control {
                Control::Measure => words.push(format!("--measure {measure}")),
                Control::Against => words.push(format!("--against {against}")),
                Control::Maps if *maps != MapOf::default() => words.push(format!("--maps {}", maps.id())),
                Control::Classes => words.extend(classes.command()),
                Control::Maps | Control::Map => {}
            }
        }
        words.extend((*map != Map::default()).then(|| format!("--map {}", map.id())));
        words.join(" ")
    }
}

impl Plot for EvaluationPlot {
    fn caption(&self) -> Caption {
        let [own, other] = &self.names;
        let subjects = self.evaluations().map(|(shown, name)| dataset::subject(shown, name));
        Caption {
            title: self.overview.info().title.to_owned(),
            file: joined(&[
                &self.evaluation.set.dataset,
                own,
                &slug(&self.evaluation.change),
                if self.is_of_two() { other } else { "" },
                self.overview.id(),
            ]),
            about: subjects.collect::<Vec<_>>().join("; "),
            command: self.command(),
        }
    }

    fn height(&self, width: f32) -> f32 {
        self.overview.height(self, width) + heading::height(self.head().as_deref(), width)
    }

    fn legible(&self, width: f32) -> Size {
        self.overview.legible(self, width)
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let draw = |size| self.overview.scene(self, theme, size);
        heading::over(self.head().as_deref(), theme, size, draw)
    }

    fn table(&self) -> Table {
        self.overview.table(self)
    }

    fn sources(&self) -> Vec<Source<'_>> {
        self.evaluations().map(|(evaluation, name)| Source::Evaluation(evaluation, name)).collect()
    }
}
