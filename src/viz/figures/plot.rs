//! A picture that brings its own data: what is exported, and what stands in a pane.

use std::path::Path;
use std::sync::Arc;

use crate::model::explain::evaluation::{self, Evaluation};
use crate::model::explain::stability::Stability;
use crate::model::trace::Trace;
use crate::viz::draw::{Map, Scene, Table, Theme, check::check};
use crate::viz::figures::dataset::{self, Choice, Control, MapOf, Overview, View};
use crate::viz::{Empty, Figure, MARGIN, Options, Rows, Size, compare, draw_column};

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
}

impl TracePlot {
    /// One figure of one trace.
    pub fn new(figure: &'static dyn Figure, trace: &Arc<Trace>, options: Options) -> Self {
        Self { figures: vec![figure], traces: vec![trace.clone()], options }
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
        words.extend(step.map(|step| format!("--step {step}")));
        words.extend(limits.map(|(low, high)| format!("--limits {low}:{high}")));
        words.extend(proxy_limits.map(|(low, high)| format!("--proxy-limits {low}:{high}")));
        words.join(" ")
    }

    fn compared(&self, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let traces: Vec<&Trace> = self.traces.iter().map(AsRef::as_ref).collect();
        compare::inside(&traces, &self.figures, &self.options, theme, width)
    }
}

fn stem(name: &str) -> String {
    Path::new(name).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

impl Plot for TracePlot {
    fn caption(&self) -> Caption {
        let (title, file) = match (self.alone(), self.traces.first()) {
            (Some((figure, trace)), _) => {
                let file = format!("{}-{}-{}", stem(&trace.image), stem(&trace.probe), figure.id());
                (figure.title(), file)
            }
            (None, Some(trace)) => ("Comparison", format!("{}-comparison", stem(&trace.image))),
            (None, None) => ("Comparison", "figure".to_owned()),
        };
        let about = |t: &Arc<Trace>| format!("{} through {} on {}", t.image, t.probe, t.backbone);
        let about = self.traces.iter().map(about).collect::<Vec<_>>().join("; ");
        Caption { title: title.to_owned(), file, about, command: self.command() }
    }

    fn height(&self, width: f32) -> f32 {
        match self.alone() {
            Some((figure, trace)) if check(trace).is_ok() => figure.height(trace, &self.options, width),
            Some(_) => 0.0,
            None => self.compared(&Theme::light(), width).map_or(0.0, |scene| scene.height),
        }
    }

    fn max_height(&self, width: f32) -> f32 {
        match self.alone() {
            Some((figure, trace)) if check(trace).is_ok() => figure.max_height(trace, &self.options, width),
            _ => self.height(width),
        }
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let Some((figure, trace)) = self.alone() else { return self.compared(theme, size.width) };
        check(trace)?;
        figure.scene(trace, &self.options, theme, size)
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

    /// The overview and its settings, as `ssmprobe figures` takes them.
    fn command(&self) -> String {
        let Choice { measure, against, maps, map } = &self.choice;
        let measure = dataset::measure(&self.evaluation, measure);
        let against = dataset::measure(&self.other, against);
        let mut words = vec![format!("--figure {}", self.overview.id())];
        for control in self.overview.controls() {
            match control {
                Control::Measure => words.push(format!("--measure {measure}")),
                Control::Against => words.push(format!("--against {against}")),
                Control::Maps if *maps == MapOf::Weights => words.push("--maps weights".to_owned()),
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
            file: format!(
                "{}-{}-{}",
                self.evaluation.asked.dataset,
                self.evaluation.probe,
                self.overview.id()
            ),
            about: dataset::subject(&self.evaluation),
            command: self.command(),
        }
    }

    fn height(&self, width: f32) -> f32 {
        self.overview.height(self.view(), width)
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        self.overview.scene(self.view(), theme, size)
    }

    fn table(&self) -> Table {
        self.overview.table(self.view())
    }

    fn sources(&self) -> Vec<Source<'_>> {
        let two = self.overview.is_by_image() && !Arc::ptr_eq(&self.evaluation, &self.other);
        let evaluations = std::iter::once(&self.evaluation).chain(two.then_some(&self.other));
        evaluations.map(|evaluation| Source::Evaluation(evaluation)).collect()
    }
}
