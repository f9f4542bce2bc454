//! Figures of traces as a plot: a single one, or several side by side, as they are or as differences from another trace.

use std::borrow::Cow;
use std::sync::Arc;

use indexmap::IndexSet;

use super::plot::{Caption, Plot, Source};
use crate::model::trace::{Routing, Trace};
use crate::viz::draw::{Scene, Table, Theme, check::check, order};
use crate::viz::file_names::{joined, probe_name, stem, subject};
use crate::viz::{Empty, Figure, MARGIN, Options, Size, difference, heading, marked};

/// Figures of traces: a single one, or several side by side.
#[derive(Clone)]
pub struct TracePlot {
    /// The figures, one for each row.
    pub figures: Vec<&'static dyn Figure>,
    /// The traces, one for each column.
    pub traces: Vec<Arc<Trace>>,
    /// The settings of all rows.
    pub options: Options,
    /// Settings of each row instead, in order; may be empty.
    pub row_options: Vec<Options>,
    /// Whether a single figure has a heading on how its trace was read; on the screen a column may have it instead.
    pub headed: bool,
    /// The trace that is subtracted from all others; the column of this very trace is shown as it is.
    pub against: Option<Arc<Trace>>,
    /// Number of columns before the others continue below; all side by side if `None`.
    pub columns: Option<usize>,
    /// Whether each picture has a scale of its own.
    pub own_scales: bool,
}

/// A single figure, and the trace or the difference it shows.
type Single<'a> = (&'static dyn Figure, Cow<'a, Trace>);

impl TracePlot {
    /// One figure of one trace.
    pub fn new(figure: &'static dyn Figure, trace: &Arc<Trace>, options: Options) -> Self {
        Self::compared(vec![figure], vec![trace.clone()], options)
    }

    /// Several figures and traces side by side.
    pub fn compared(figures: Vec<&'static dyn Figure>, traces: Vec<Arc<Trace>>, options: Options) -> Self {
        let (row_options, headed, against, columns, own_scales) = (Vec::new(), true, None, None, false);
        Self { figures, traces, options, row_options, headed, against, columns, own_scales }
    }

    /// The plot after `step` tokens have been read.
    pub fn at_step(&self, step: usize) -> Self {
        let at_step = |options: &Options| Options { step: Some(step), ..options.clone() };
        let row_options = self.row_options.iter().map(at_step).collect();
        Self { options: at_step(&self.options), row_options, ..self.clone() }
    }

    /// Number of steps of the reading, where a figure shows them; else 0.
    pub fn steps(&self) -> usize {
        if !self.figures.iter().any(|figure| figure.properties().marks_step) {
            return 0;
        }
        // Several sweeps without a memory have neither a token of a step nor what is kept after it.
        let is_shown = |trace: &Trace| trace.kernel.is_some() || order::single(trace).is_some();
        let read = self.traces.iter().filter(|trace| !matches!(trace.routing, Routing::None));
        read.filter(|trace| is_shown(trace)).map(|trace| trace.grid.len()).max().unwrap_or(0)
    }

    /// The figure and its trace, if there is one of each.
    fn single(&self) -> Option<(&'static dyn Figure, &Trace)> {
        match (&self.figures[..], &self.traces[..]) {
            ([figure], [trace]) => Some((*figure, trace)),
            _ => None,
        }
    }

    /// The options of `ssmprobe figures` for the figures and their settings; empty where rows differ in their settings.
    fn command(&self) -> String {
        if self.row_options.iter().any(|own| *own != self.options) {
            return String::new();
        }
        let mut words: Vec<String> =
            self.figures.iter().map(|figure| format!("--figure {}", figure.id())).collect();
        let Options { map, log, rows, opacity, grid, regions, step, limits, proxy_limits, keys: _ } =
            &self.options;
        let defaults = Options::default();
        // The step may be another column's, with more tokens: a figure shows the last one then, which the command names.
        let (marks, all) = (self.figures.iter().any(|figure| figure.properties().marks_step), self.steps());
        let step = step.filter(|step| marks && (*step == 0 || all > 0)).map(|step| step.min(all));
        words.extend((*map != defaults.map).then(|| format!("--map {}", map.id())));
        words.extend((*rows != defaults.rows).then(|| format!("--rows {}", rows.id())));
        words.extend((*opacity != defaults.opacity).then(|| format!("--opacity {opacity}")));
        words.extend(log.then(|| "--log".to_owned()));
        words.extend(grid.then(|| "--grid".to_owned()));
        words.extend(regions.then(|| "--regions".to_owned()));
        words.extend(step.map(|step| format!("--step {step}")));
        // The command line refuses limits without extent; the figure has those by itself.
        let non_empty = |limits: &Option<(f64, f64)>| limits.filter(|(low, high)| low < high);
        words.extend(non_empty(limits).map(|(low, high)| format!("--limits {low}:{high}")));
        words.extend(non_empty(proxy_limits).map(|(low, high)| format!("--proxy-limits {low}:{high}")));
        words.extend(self.against_column().map(|at| format!("--against {}", at + 1)));
        words.extend(self.columns.map(|columns| format!("--columns {columns}")));
        words.extend(self.own_scales.then(|| "--own-scales".to_owned()));
        words.join(" ")
    }

    /// The heading of a single figure.
    fn heading(&self, trace: &Trace) -> Option<String> {
        heading::of_trace(trace).filter(|_| self.headed)
    }

    /// The ids of all readings that are not as trained, each once, joined by hyphens.
    fn readings(&self) -> String {
        let all: IndexSet<String> = self.traces.iter().map(|trace| trace.reading.id()).collect();
        joined(&all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The column of the trace that is subtracted, if it is one of them.
    fn against_column(&self) -> Option<usize> {
        let against = self.against.as_ref()?;
        self.traces.iter().position(|trace| Arc::ptr_eq(trace, against))
    }

    /// The single figure and the checked trace or difference it shows; `None` where there are several.
    fn shown_single(&self) -> Option<Result<Single<'_>, Empty>> {
        let (figure, trace) = self.single()?;
        let shown = match self.against.as_deref().filter(|against| !std::ptr::eq(*against, trace)) {
            Some(against) => difference::shown(figure, trace, against).map(Cow::Owned),
            None => Ok(Cow::Borrowed(trace)),
        };
        Some(shown.and_then(|trace| check(&trace).map(|()| (figure, trace))))
    }
}

/// What a figure of `trace` was made from, for the metadata of its file.
fn about(trace: &Trace) -> String {
    if trace.image.is_empty() {
        return format!("{} over {} x {} patches", trace.head, trace.grid.rows, trace.grid.cols);
    }
    let subject = |trace: &Trace| subject(&trace.image, &trace.probe, &trace.reading);
    let own = format!("{} on {}", subject(trace), trace.backbone);
    match &trace.minus {
        Some(minus) => format!("{own}, minus {}", subject(minus)),
        None => own,
    }
}

impl Plot for TracePlot {
    fn caption(&self) -> Caption {
        let minus = self.against.as_deref().map(|trace| joined(&[stem(&trace.probe), &trace.reading.id()]));
        let minus = minus.map_or_else(String::new, |name| format!("minus-{name}"));
        let (mut title, file) = match (self.single(), self.traces.first()) {
            (Some((figure, trace)), _) => {
                let read = trace.reading.id();
                let parts = [stem(&trace.image), stem(&trace.probe), &read, &minus, figure.id()];
                (figure.title().to_owned(), joined(&parts))
            }
            (None, Some(trace)) => {
                let parts = [stem(&trace.image), "comparison", &self.readings(), &minus];
                ("Comparison".to_owned(), joined(&parts))
            }
            (None, None) => ("Comparison".to_owned(), "figure".to_owned()),
        };
        if let Some(changes) = self.single().and_then(|(_, trace)| trace.reading.changes()) {
            title = format!("{title} ({changes})");
        }
        let mut made_of = self.traces.iter().map(|trace| about(trace)).collect::<Vec<_>>().join("; ");
        if let Some(against) = &self.against {
            made_of += &format!("; differences from {}", about(against));
            let files = || self.traces.iter().chain([against]).map(|trace| &*trace.probe);
            let own = self.single().map(|(_, trace)| format!(" of {}", probe_name(&trace.probe, files())));
            let other = probe_name(&against.probe, files());
            title = format!("{title}{}, difference (Δ) from {other}", own.unwrap_or_default());
        }
        Caption { title, file, about: made_of, command: self.command() }
    }

    fn height(&self, width: f32) -> f32 {
        match self.shown_single() {
            Some(Ok((figure, trace))) => {
                let heading = heading::height(self.heading(&trace).as_deref(), width);
                figure.height(&trace, &self.options, width) + heading
            }
            Some(Err(_)) => 0.0,
            None => self.side_by_side(&Theme::light(), width).map_or(0.0, |scene| scene.height),
        }
    }

    fn max_height(&self, width: f32) -> f32 {
        match self.shown_single() {
            Some(Ok((figure, trace))) => {
                let heading = heading::height(self.heading(&trace).as_deref(), width);
                figure.max_height(&trace, &self.options, width) + heading
            }
            _ => self.height(width),
        }
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let Some(single) = self.shown_single() else {
            return self.side_by_side(theme, size.width);
        };
        let (figure, trace) = single?;
        let draw = |size| marked(figure, &trace, &self.options, theme, size);
        heading::over(self.heading(&trace).as_deref(), theme, size, draw)
    }

    fn draw_column(&self, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let width = width - 2.0 * MARGIN;
        // The height of a comparison is only known once it is drawn.
        let height = if self.is_comparison() { 0.0 } else { self.height(width) };
        Ok(self.scene(theme, Size { width, height })?.framed())
    }

    fn table(&self) -> Table {
        match (self.shown_single(), self.figures.first().zip(self.traces.first())) {
            (Some(Ok((figure, trace))), _) => figure.table(&trace).read(&trace.reading),
            (None, Some((figure, trace))) => figure.table(trace).read(&trace.reading),
            (Some(Err(_)), _) | (None, None) => Table::default(),
        }
    }

    fn is_comparison(&self) -> bool {
        self.single().is_none()
    }

    fn as_traces(&self) -> Option<&TracePlot> {
        Some(self)
    }

    fn sources(&self) -> Vec<Source<'_>> {
        let against = self.against.as_deref().filter(|_| self.against_column().is_none());
        self.traces.iter().map(|trace| Source::Trace(trace)).chain(against.map(Source::Against)).collect()
    }
}
