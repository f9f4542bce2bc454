//! A picture that brings its own data: what is exported, and what stands in a pane.

use std::path::Path;
use std::sync::Arc;

use crate::model::explain::evaluation::{self, Evaluation};
use crate::model::explain::removal::Removal;
use crate::model::explain::stability::Stability;
use crate::model::trace::{Trace, slug};
use crate::viz::draw::{Map, Scene, Table, Theme};
use crate::viz::figures::compare::Narrow;
use crate::viz::figures::dataset::{self, Choice, Control, MapOf, Overview, View};
use crate::viz::{Empty, MARGIN, Size, heading};

/// What a plot is called, and what draws it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// On the screen.
    pub title: String,
    /// What its file is called, without ending.
    pub file: String,
    /// What it was made of, for the file's metadata.
    pub about: String,
    /// What `ssmprobe figures` is told to draw the same, without its data and where it goes; empty where it cannot.
    pub command: String,
}

/// A picture with its data.
pub trait Plot: Send + Sync {
    /// What it is called, and what draws it again.
    fn caption(&self) -> Caption;

    /// A height that suits `width`, in points.
    fn height(&self, width: f32) -> f32;

    /// A height beyond which room is not used, in points.
    fn max_height(&self, width: f32) -> f32 {
        1.4 * self.height(width)
    }

    /// The smallest size, in points, in which all of it can be read in a pane of this `width`: a smaller one scrolls.
    fn legible(&self, _width: f32) -> Size {
        Size { width: 0.0, height: 0.0 }
    }

    /// The picture at `size`.
    ///
    /// # Errors
    /// Why there is nothing to see.
    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty>;

    /// The picture in a column of `width` points, as high as suits it, edge included.
    ///
    /// # Errors
    /// Why there is nothing to see.
    fn draw_column(&self, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let width = width - 2.0 * MARGIN;
        Ok(self.scene(theme, Size { width, height: self.height(width) })?.framed(MARGIN))
    }

    /// The numbers behind it.
    fn table(&self) -> Table;

    /// How many tokens are read one after the other, where the picture shows it; 0 where it does not.
    fn steps(&self) -> usize {
        0
    }

    /// The picture in a column after so many tokens were read.
    ///
    /// # Errors
    /// Why there is nothing to see.
    fn draw_step(&self, _step: usize, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        self.draw_column(theme, width)
    }

    /// Whether it is several pictures side by side, which are a page wide and have no one table.
    fn is_comparison(&self) -> bool {
        false
    }

    /// Why several do not fit side by side on a page of `width` points, if they do not.
    fn narrow(&self, _width: f32) -> Option<Narrow> {
        None
    }

    /// The same with so many side by side and the others below, where there are several.
    fn in_rows(&self, _columns: usize) -> Option<Arc<dyn Plot>> {
        None
    }

    /// Its data as files; none where it has a place of its own.
    fn sources(&self) -> Vec<Source<'_>>;
}

/// Draws a plot at `size`, edge included.
///
/// # Errors
/// Why there is nothing to see.
pub fn draw(plot: &dyn Plot, theme: &Theme, size: Size) -> Result<Scene, Empty> {
    let inner = Size { width: size.width - 2.0 * MARGIN, height: size.height - 2.0 * MARGIN };
    Ok(plot.scene(theme, inner)?.framed(MARGIN))
}

/// Data that a picture is drawn from again.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// What a probe made of an image.
    Trace(&'a Trace),
    /// What was subtracted from the others.
    Against(&'a Trace),
    /// What one made of a dataset.
    Evaluation(&'a Evaluation),
    /// How stable an order is.
    Stability(&'a Stability),
    /// Removal curves.
    Removal(&'a Removal),
    /// Removal curves that were subtracted.
    RemovalAgainst(&'a Removal),
}

impl Source<'_> {
    /// What it is; the option of `ssmprobe figures` that names its file has two hyphens before it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Trace(_) => "trace",
            Self::Against(_) | Self::RemovalAgainst(_) => "against",
            Self::Evaluation(_) => "evaluation",
            Self::Stability(_) => "stability",
            Self::Removal(_) => "causal",
        }
    }

    /// How the name of its file ends.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Trace(_) | Self::Against(_) => "trace.json",
            Self::Evaluation(_) => evaluation::ENDING,
            Self::Stability(_) => "stability.json",
            Self::Removal(_) | Self::RemovalAgainst(_) => "causal.json",
        }
    }

    /// Its file's content.
    ///
    /// # Errors
    /// If it holds what JSON cannot.
    pub fn json(self) -> Result<String, String> {
        match self {
            Self::Trace(trace) | Self::Against(trace) => {
                serde_json::to_string(trace).map_err(|error| error.to_string())
            }
            Self::Evaluation(evaluation) => evaluation.to_json().map_err(|error| error.to_string()),
            Self::Stability(stability) => serde_json::to_string(stability).map_err(|error| error.to_string()),
            Self::Removal(removal) | Self::RemovalAgainst(removal) => {
                serde_json::to_string(removal).map_err(|error| error.to_string())
            }
        }
    }
}

/// An overview of evaluations.
#[derive(Clone)]
pub struct EvaluationPlot {
    /// Which.
    pub overview: &'static dyn Overview,
    /// What one probe made of the images.
    pub evaluation: Arc<Evaluation>,
    /// And another; the same where there is none.
    pub other: Arc<Evaluation>,
    /// What is set.
    pub choice: Choice,
    /// The image to mark.
    pub selected: Option<usize>,
}

impl EvaluationPlot {
    /// As an overview takes it.
    pub fn view(&self) -> View<'_> {
        let Self { evaluation, other, choice, selected, .. } = self;
        View { evaluation, other, choice, selected: *selected }
    }

    /// How its probes read, where that is not as trained.
    fn head(&self) -> Option<String> {
        let said = |evaluation: &Evaluation| {
            let change = Some(&evaluation.change).filter(|change| !change.is_empty());
            change.map(|change| format!("{}: {change}, not retrained", evaluation.probe))
        };
        let other = self.is_of_two().then_some(&*self.other);
        let all: Vec<String> = std::iter::once(&*self.evaluation).chain(other).filter_map(said).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Whether it shows an evaluation against another.
    fn is_of_two(&self) -> bool {
        self.overview.is_by_image() && !Arc::ptr_eq(&self.evaluation, &self.other)
    }

    /// The overview and its settings, as `ssmprobe figures` takes them.
    fn command(&self) -> String {
        let Choice { measure, against, maps, map, classes, .. } = &self.choice;
        let measure = dataset::measure(&self.evaluation, measure);
        let against = dataset::measure(&self.other, against);
        let mut words = vec![format!("--figure {}", self.overview.id())];
        for control in self.overview.controls() {
            match control {
                Control::Measure => words.push(format!("--measure {measure}")),
                Control::Against => words.push(format!("--against {against}")),
                Control::Maps if *maps == MapOf::Weights => words.push("--maps weights".to_owned()),
                Control::Classes => words.extend(classes.command()),
                Control::Maps | Control::Map => {}
            }
        }
        words.extend((*map == Map::Viridis).then(|| "--map viridis".to_owned()));
        words.join(" ")
    }
}

impl Plot for EvaluationPlot {
    fn caption(&self) -> Caption {
        Caption {
            title: self.overview.info().title.to_owned(),
            file: joined(&[
                &self.evaluation.asked.dataset,
                &self.evaluation.probe,
                &slug(&self.evaluation.change),
                self.overview.id(),
            ]),
            about: dataset::subject(&self.evaluation),
            command: self.command(),
        }
    }

    fn height(&self, width: f32) -> f32 {
        self.overview.height(self.view(), width) + heading::height(self.head().as_deref(), width)
    }

    fn legible(&self, width: f32) -> Size {
        self.overview.legible(self.view(), width)
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let draw = |size| self.overview.scene(self.view(), theme, size);
        heading::over(self.head().as_deref(), theme, size, draw)
    }

    fn table(&self) -> Table {
        self.overview.table(self.view())
    }

    fn sources(&self) -> Vec<Source<'_>> {
        let evaluations = std::iter::once(&self.evaluation).chain(self.is_of_two().then_some(&self.other));
        evaluations.map(|evaluation| Source::Evaluation(evaluation)).collect()
    }
}

/// Parts of a file's name, those that say something.
pub(super) fn joined(parts: &[&str]) -> String {
    parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// The name of a file without its folder and its ending.
pub fn stem(name: &str) -> String {
    Path::new(name).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}
