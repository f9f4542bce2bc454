//! Figures of traces as a picture that brings its own data: one alone, or several side by side, as they are or as
//! differences from another.

use std::borrow::Cow;
use std::sync::Arc;

use indexmap::IndexSet;

use super::plot::{Caption, Plot, Source, joined, stem};
use crate::model::trace::{Reading, Routing, Trace};
use crate::viz::draw::{Map, Scene, Table, Theme, check::check};
use crate::viz::figures::compare::{Comparison, Narrow};
use crate::viz::{self, Empty, Figure, Options, Rows, Size, difference, draw_column, heading, marked};

/// Figures of traces: one alone, or several side by side.
#[derive(Clone)]
pub struct TracePlot {
    /// Which, as rows.
    pub figures: Vec<&'static dyn Figure>,
    /// Of which, as columns.
    pub traces: Vec<Arc<Trace>>,
    /// What is set.
    pub options: Options,
    /// What is set of each row of several instead, in their order.
    pub row_options: Vec<Options>,
    /// Whether it says itself how the trace was read; on the screen the head of a column may.
    pub headed: bool,
    /// What they are differences from; a column that is this very trace stays as it is.
    pub against: Option<Arc<Trace>>,
    /// How many stand side by side, the others below; all where absent.
    pub columns: Option<usize>,
    /// Whether each is drawn on a scale of its own.
    pub own_scales: bool,
}

/// A figure that stands alone, and the trace or the difference it shows.
type Lone<'a> = (&'static dyn Figure, Cow<'a, Trace>);

impl TracePlot {
    /// One figure of one trace.
    pub fn new(figure: &'static dyn Figure, trace: &Arc<Trace>, options: Options) -> Self {
        Self::compared(vec![figure], vec![trace.clone()], options)
    }

    /// Several side by side.
    pub fn compared(figures: Vec<&'static dyn Figure>, traces: Vec<Arc<Trace>>, options: Options) -> Self {
        let (row_options, headed, against, columns, own_scales) = (Vec::new(), true, None, None, false);
        Self { figures, traces, options, row_options, headed, against, columns, own_scales }
    }

    /// The figure, where it stands alone.
    fn alone(&self) -> Option<(&'static dyn Figure, &Trace)> {
        match (&self.figures[..], &self.traces[..]) {
            ([figure], [trace]) => Some((*figure, trace)),
            _ => None,
        }
    }

    /// The figures and their settings, as `ssmprobe figures` takes them; nothing where rows differ in these.
    fn command(&self) -> String {
        if self.row_options.iter().any(|own| *own != self.options) {
            return String::new();
        }
        let mut words: Vec<String> =
            self.figures.iter().map(|figure| format!("--figure {}", figure.id())).collect();
        let Options { map, log, rows, opacity, grid, regions, step, limits, proxy_limits, keys: _ } =
            &self.options;
        let usual = Options::default();
        let step = step.filter(|_| self.figures.iter().any(|figure| figure.marks_step()));
        words.extend((*map == Map::Viridis).then(|| "--map viridis".to_owned()));
        words.extend(match rows {
            Rows::Argmax => None,
            Rows::Score => Some("--rows score".to_owned()),
            Rows::Raster => Some("--rows raster".to_owned()),
        });
        words.extend((*opacity != usual.opacity).then(|| format!("--opacity {opacity}")));
        words.extend(log.then(|| "--log".to_owned()));
        words.extend(grid.then(|| "--grid".to_owned()));
        words.extend(regions.then(|| "--regions".to_owned()));
        words.extend(step.map(|step| format!("--step {step}")));
        // Limits that hold one number alone are those the figure has by itself.
        let wide = |limits: &Option<(f64, f64)>| limits.filter(|(low, high)| low < high);
        words.extend(wide(limits).map(|(low, high)| format!("--limits {low}:{high}")));
        words.extend(wide(proxy_limits).map(|(low, high)| format!("--proxy-limits {low}:{high}")));
        words.extend(self.pinned().map(|at| format!("--against {}", at + 1)));
        words.extend(self.columns.map(|columns| format!("--columns {columns}")));
        words.extend(self.own_scales.then(|| "--own-scales".to_owned()));
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

    /// Which column they are differences from, where it is one of them.
    fn pinned(&self) -> Option<usize> {
        let against = self.against.as_ref()?;
        self.traces.iter().position(|trace| Arc::ptr_eq(trace, against))
    }

    /// The figure of a trace or of its difference, where it stands alone.
    fn lone(&self) -> Option<Result<Lone<'_>, Empty>> {
        let (figure, trace) = self.alone()?;
        let shown = match self.against.as_deref().filter(|against| !std::ptr::eq(*against, trace)) {
            Some(against) => difference::shown(figure, trace, against).map(Cow::Owned),
            None => Ok(Cow::Borrowed(trace)),
        };
        Some(shown.and_then(|trace| check(&trace).map(|()| (figure, trace))))
    }

    /// What `draw` makes of them side by side.
    fn side_by_side<T>(&self, draw: impl FnOnce(Comparison<'_>) -> T) -> T {
        let traces: Vec<&Trace> = self.traces.iter().map(AsRef::as_ref).collect();
        let (against, columns, own_scales) = (self.against.as_deref(), self.columns, self.own_scales);
        let comparison = Comparison::new(&traces, &self.figures, &self.options);
        draw(Comparison { row_options: &self.row_options, against, columns, own_scales, ..comparison })
    }
}

/// What a file says of a trace it was made of.
pub fn about(trace: &Trace) -> String {
    if trace.image.is_empty() {
        return format!("{} over {} x {} patches", trace.head, trace.grid.rows, trace.grid.cols);
    }
    let read = |read: &Reading| if read.is_as_trained() { String::new() } else { format!(" ({read})") };
    let own =
        format!("{} through {}{} on {}", trace.image, trace.probe, read(&trace.reading), trace.backbone);
    match &trace.minus {
        Some(minus) => {
            format!("{own}, minus {} through {}{}", minus.image, minus.probe, read(&minus.reading))
        }
        None => own,
    }
}

/// What a file says of traces side by side, and of what they are differences from.
pub fn about_all<'a>(traces: impl Iterator<Item = &'a Trace>, against: Option<&Trace>) -> String {
    let all: Vec<String> = traces.map(about).collect();
    let against = against.map_or_else(String::new, |trace| format!("; differences from {}", about(trace)));
    all.join("; ") + &against
}

impl Plot for TracePlot {
    fn caption(&self) -> Caption {
        let minus = self.against.as_deref().map(|trace| joined(&[&stem(&trace.probe), &trace.reading.id()]));
        let minus = minus.map_or_else(String::new, |name| format!("minus-{name}"));
        let (mut title, file) = match (self.alone(), self.traces.first()) {
            (Some((figure, trace)), _) => {
                let read = trace.reading.id();
                let parts = [&stem(&trace.image), &stem(&trace.probe), &read, &minus, figure.id()];
                (figure.title().to_owned(), joined(&parts))
            }
            (None, Some(trace)) => {
                let parts = [&stem(&trace.image), "comparison", &self.readings(), &minus];
                ("Comparison".to_owned(), joined(&parts))
            }
            (None, None) => ("Comparison".to_owned(), "figure".to_owned()),
        };
        if let Some(changes) = self.alone().and_then(|(_, trace)| trace.reading.changes()) {
            title = format!("{title} ({changes})");
        }
        if let Some(against) = &self.against {
            let own =
                self.alone().map_or_else(String::new, |(_, trace)| format!(" of {}", stem(&trace.probe)));
            title = format!("{title}{own}, difference (Δ) from {}", stem(&against.probe));
        }
        let about = about_all(self.traces.iter().map(AsRef::as_ref), self.against.as_deref());
        Caption { title, file, about, command: self.command() }
    }

    fn height(&self, width: f32) -> f32 {
        match self.lone() {
            Some(Ok((figure, trace))) => {
                figure.height(&trace, &self.options, width) + self.head(&trace, width)
            }
            Some(Err(_)) => 0.0,
            None => {
                let drawn = self.side_by_side(|comparison| comparison.inside(&Theme::light(), width));
                drawn.map_or(0.0, |scene| scene.height)
            }
        }
    }

    fn max_height(&self, width: f32) -> f32 {
        match self.lone() {
            Some(Ok((figure, trace))) => {
                figure.max_height(&trace, &self.options, width) + self.head(&trace, width)
            }
            _ => self.height(width),
        }
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let Some(lone) = self.lone() else {
            return self.side_by_side(|comparison| comparison.inside(theme, size.width));
        };
        let (figure, trace) = lone?;
        if self.headed {
            return viz::scene(figure, &trace, &self.options, theme, size);
        }
        marked(figure, &trace, &self.options, theme, size)
    }

    fn draw_column(&self, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        match self.lone() {
            Some(lone) => {
                let (figure, trace) = lone?;
                draw_column(figure, &trace, &self.options, theme, width)
            }
            None => self.side_by_side(|comparison| comparison.scene(theme, width)),
        }
    }

    fn table(&self) -> Table {
        match (self.lone(), self.figures.first().zip(self.traces.first())) {
            (Some(Ok((figure, trace))), _) => figure.table(&trace).read(&trace.reading),
            (None, Some((figure, trace))) => figure.table(trace).read(&trace.reading),
            (Some(Err(_)), _) | (None, None) => Table::default(),
        }
    }

    fn steps(&self) -> usize {
        if !self.figures.iter().any(|figure| figure.marks_step()) {
            return 0;
        }
        let read = self.traces.iter().filter(|trace| !matches!(trace.routing, Routing::None));
        read.map(|trace| trace.grid.len()).max().unwrap_or(0)
    }

    fn draw_step(&self, step: usize, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let at_step = |options: &Options| Options { step: Some(step), ..options.clone() };
        let row_options = self.row_options.iter().map(at_step).collect();
        Self { options: at_step(&self.options), row_options, ..self.clone() }.draw_column(theme, width)
    }

    fn is_comparison(&self) -> bool {
        self.alone().is_none()
    }

    fn narrow(&self, width: f32) -> Option<Narrow> {
        self.is_comparison()
            .then(|| self.side_by_side(|comparison| comparison.narrow(&Theme::print(), width)))?
    }

    fn in_rows(&self, columns: usize) -> Option<Arc<dyn Plot>> {
        self.is_comparison()
            .then(|| Arc::new(Self { columns: Some(columns), ..self.clone() }) as Arc<dyn Plot>)
    }

    fn sources(&self) -> Vec<Source<'_>> {
        let against = self.against.as_deref().filter(|_| self.pinned().is_none());
        self.traces.iter().map(|trace| Source::Trace(trace)).chain(against.map(Source::Against)).collect()
    }
}
