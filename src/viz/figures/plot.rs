//! A picture that brings its own data: what is exported, and what stands in a pane.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexSet;

use crate::model::explain::evaluation::{self, Evaluation};
use crate::model::explain::stability::Stability;
use crate::model::trace::{Routing, Trace, slug};
use crate::viz::draw::{Map, Scene, Table, Theme, check::check};
use crate::viz::figures::dataset::{self, Choice, Control, MapOf, Overview, View};
use crate::viz::{self, Empty, Figure, MARGIN, Options, Rows, Size, compare, draw_column, heading, marked};

/// What a plot is called, and what draws it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// On the screen.
    pub title: String,
    /// What its file is called, without ending.
    pub file: String,
    /// What it was made of, for the file's metadata.
    pub about: String,
    /// What `ssmprobe figures` is told to draw the same, without its data and where it goes.
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
    /// What one made of a dataset.
    Evaluation(&'a Evaluation),
    /// How stable an order is.
    Stability(&'a Stability),
}

impl Source<'_> {
    /// What it is; the option of `ssmprobe figures` that names its file has two hyphens before it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Trace(_) => "trace",
            Self::Evaluation(_) => "evaluation",
            Self::Stability(_) => "stability",
        }
    }

    /// How the name of its file ends.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Trace(_) => "trace.json",
            Self::Evaluation(_) => evaluation::ENDING,
            Self::Stability(_) => "stability.json",
        }
    }

    /// Its file's content.
    ///
    /// # Errors
    /// If it holds what JSON cannot.
    pub fn json(self) -> Result<String, String> {
        match self {
            Self::Trace(trace) => serde_json::to_string(trace).map_err(|error| error.to_string()),
            Self::Evaluation(evaluation) => evaluation.to_json().map_err(|error| error.to_string()),
            Self::Stability(stability) => serde_json::to_string(stability).map_err(|error| error.to_string()),
        }
    }
}

/// Figures of traces: one alone, or several side by side.
#[derive(Clone)]
pub struct TracePlot {
    /// Which, as rows.
    pub figures: Vec<&'static dyn Figure>,
    /// Of which, as columns.
    pub traces: Vec<Arc<Trace>>,
    /// What is set.
    pub options: Options,
    /// Whether it says itself how the trace was read; on the screen the head of a column may.
    pub headed: bool,
}

impl TracePlot {
    /// One figure of one trace.
    pub fn new(figure: &'static dyn Figure, trace: &Arc<Trace>, options: Options) -> Self {
        Self { figures: vec![figure], traces: vec![trace.clone()], options, headed: true }
    }

    /// The figure, where it stands alone.
    fn alone(&self) -> Option<(&'static dyn Figure, &Trace)> {
        match (&self.figures[..], &self.traces[..]) {
            ([figure], [trace]) => Some((*figure, trace)),
            _ => None,
        }
    }

    /// The figures and their settings, as `ssmprobe figures` takes them.
    fn command(&self) -> String {
        let mut words: Vec<String> =
            self.figures.iter().map(|figure| format!("--figure {}", figure.id())).collect();
        let Options { map, log, rows, opacity, grid, step, limits, proxy_limits } = &self.options;
        let usual = Options::default();
        words.extend((*map == Map::Viridis).then(|| "--map viridis".to_owned()));
        words.extend(match rows {
            Rows::Argmax => None,
            Rows::Score => Some("--rows score".to_owned()),
            Rows::Raster => Some("--rows raster".to_owned()),
        });
        words.extend((*opacity != usual.opacity).then(|| format!("--opacity {opacity}")));
        words.extend(log.then(|| "--log".to_owned()));
        words.extend(grid.then(|| "--grid".to_owned()));
        let step = step.filter(|_| self.figures.iter().any(|figure| figure.marks_step()));
        words.extend(step.map(|step| format!("--step {step}")));
        words.extend(limits.map(|(low, high)| format!("--limits {low}:{high}")));
        words.extend(proxy_limits.map(|(low, high)| format!("--proxy-limits {low}:{high}")));
        words.join(" ")
    }

    /// The height of what it says itself of how the trace was read.
    fn head(&self, trace: &Trace, width: f32) -> f32 {
        let text = heading::of_trace(trace).filter(|_| self.headed);
        heading::height(text.as_deref(), width)
    }

    /// The names of all readings that are not as trained, once each.
    fn readings(&self) -> String {
        let all: IndexSet<String> = self.traces.iter().map(|trace| trace.reading.id()).collect();
        joined(&all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn compared(&self, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let traces: Vec<&Trace> = self.traces.iter().map(AsRef::as_ref).collect();
        compare::inside(&traces, &self.figures, &self.options, theme, width)
    }
}

/// What a file says of a trace it was made of.
pub fn about(trace: &Trace) -> String {
    if trace.image.is_empty() {
        return format!("{} over {} x {} patches", trace.head, trace.grid.rows, trace.grid.cols);
    }
    let read = &trace.reading;
    let read = if read.is_as_trained() { String::new() } else { format!(" ({read})") };
    format!("{} through {}{read} on {}", trace.image, trace.probe, trace.backbone)
}

/// Parts of a file's name, those that say something.
pub(super) fn joined(parts: &[&str]) -> String {
    parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

fn stem(name: &str) -> String {
    Path::new(name).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

impl Plot for TracePlot {
    fn caption(&self) -> Caption {
        let (title, file) = match (self.alone(), self.traces.first()) {
            (Some((figure, trace)), _) => {
                let read = trace.reading.id();
                let file = joined(&[&stem(&trace.image), &stem(&trace.probe), &read, figure.id()]);
                (figure.title(), file)
            }
            (None, Some(trace)) => {
                ("Comparison", joined(&[&stem(&trace.image), "comparison", &self.readings()]))
            }
            (None, None) => ("Comparison", "figure".to_owned()),
        };
        let changes = self.alone().and_then(|(_, trace)| trace.reading.changes());
        let title = changes.map_or_else(|| title.to_owned(), |changes| format!("{title} ({changes})"));
        let about = self.traces.iter().map(|trace| about(trace)).collect::<Vec<_>>().join("; ");
        Caption { title, file, about, command: self.command() }
    }

    fn height(&self, width: f32) -> f32 {
        match self.alone() {
            Some((figure, trace)) if check(trace).is_ok() => {
                figure.height(trace, &self.options, width) + self.head(trace, width)
            }
            Some(_) => 0.0,
            None => self.compared(&Theme::light(), width).map_or(0.0, |scene| scene.height),
        }
    }

    fn max_height(&self, width: f32) -> f32 {
        match self.alone() {
            Some((figure, trace)) if check(trace).is_ok() => {
                figure.max_height(trace, &self.options, width) + self.head(trace, width)
            }
            _ => self.height(width),
        }
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let Some((figure, trace)) = self.alone() else { return self.compared(theme, size.width) };
        if self.headed {
            return viz::scene(figure, trace, &self.options, theme, size);
        }
        check(trace)?;
        marked(figure, trace, &self.options, theme, size)
    }

    fn draw_column(&self, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        match self.alone() {
            Some((figure, trace)) => draw_column(figure, trace, &self.options, theme, width),
            None => Ok(self.compared(theme, width - 2.0 * MARGIN)?.framed(MARGIN)),
        }
    }

    fn table(&self) -> Table {
        let first = self.figures.first().zip(self.traces.first());
        first.map(|(figure, trace)| figure.table(trace)).unwrap_or_default()
    }

    fn steps(&self) -> usize {
        if !self.figures.iter().any(|figure| figure.marks_step()) {
            return 0;
        }
        let read = self.traces.iter().filter(|trace| !matches!(trace.routing, Routing::None));
        read.map(|trace| trace.grid.len()).max().unwrap_or(0)
    }

    fn draw_step(&self, step: usize, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let options = Options { step: Some(step), ..self.options.clone() };
        Self { options, ..self.clone() }.draw_column(theme, width)
    }

    fn is_comparison(&self) -> bool {
        self.alone().is_none()
    }

    fn sources(&self) -> Vec<Source<'_>> {
        self.traces.iter().map(|trace| Source::Trace(trace)).collect()
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
        let Choice { measure, against, maps, map, classes } = &self.choice;
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
