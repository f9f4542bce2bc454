//! `ssmprobe figures`: draws stored traces, fixed scans, runs and evaluations, with no weights and no GPU.

mod evaluation;
mod run;
pub(super) mod source;

use std::sync::Arc;

use crate::app::cli::prelude::*;
use crate::app::jobs::history::Band;
use crate::app::paths::make_folder;
use crate::app::value_parser::{choice_of, fraction, number, one_of, whole_number};
use crate::model::grid::Grid;
use crate::model::probe::router::scan::{SCANS, Scan};
use crate::model::trace::Trace;
use crate::viz::animation::{self, Drawn};
use crate::viz::draw::colormap::Map;
use crate::viz::draw::theme::FileTheme;
use crate::viz::export::{ExportError, ExportFormat, GIF_DPI, PNG_DPI};
use crate::viz::figures::plot::Plot;
use crate::viz::figures::scan_path::ScanPath;
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::{Empty, FIGURES, Figure, Info, Options, Rows, export, figures, find};

/// Width of a column of a page, in mm.
const COLUMN_MM: f32 = 85.0;

/// Draw figures of traces, scans, runs and evaluations, or write their numbers.
///
/// Drawings are SVG, PDF, PNG or GIF, numbers CSV or NPZ. The same input gives the same bytes.
#[derive(Args)]
#[command(mut_args(source::unless_its_source_uses_it))]
pub struct Figures {
    /// Trace to draw, written by `inspect --save-traces` (with --attributions or --masks for the figures of these); several
    /// are drawn side by side on shared scales
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Fixed scans to draw instead of a trace, side by side; needs no weights and no image
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = one_of(SCANS.iter().copied(), |scan| scan.id))]
    scan: Vec<&'static Scan>,
    /// Folder of a run whose training curves to draw: --figure training (loss and accuracy), training_loss (as in the
    /// paper) or training_accuracy; several runs share one plot. Or rates: layers by learning rates, for a run that
    /// compares them; or settings: accuracy and coverage by the one number that variants differ in, for several runs
    /// on one plot
    #[arg(long, value_name = "DIR")]
    run: Vec<PathBuf>,
    /// Bands of training curves over seeds: one standard deviation, or the 95 % interval of the mean
    #[arg(long, default_value = "deviation", value_parser = choice_of(Band::ALL, Band::id))]
    band: Band,
    #[command(flatten)]
    evaluations: evaluation::EvaluationFlags,
    /// Heads of the run to draw [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    heads: Vec<String>,
    /// Rows and columns of the patch grid that a scan reads
    #[arg(long, default_value = "14x14", value_parser = source::grid, value_name = "RxC")]
    patches: Grid,
    /// Figures to draw, comma-separated; those of a trace are stacked in one file, "all" with --trace or --run writes one
    /// file each
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    figure: Vec<String>,
    /// File to write: .svg, .pdf, .png, .csv or .npz, or .gif for the reading step by step; --figure all adds the
    /// figure's id to its name
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// List the figures and exit
    #[arg(long)]
    list: bool,
    /// Width in mm: 85 for one column, 174 for a two-column page [default: 85, or what traces side by side need to be
    /// legible]
    #[arg(long, value_name = "MM", value_parser = number("from 20 to 2000 mm", |mm: f32| (20.0..=2000.0).contains(&mm)))]
    width: Option<f32>,
    /// Resolution of a PNG or GIF, in dots per inch [default: 300, GIF 150]
    #[arg(long, value_parser = number("from 10 to 2400 dots per inch", |dpi: f32| (10.0..=2400.0).contains(&dpi)))]
    dpi: Option<f32>,
    /// Theme; print draws no background
    #[arg(long, default_value = "print", value_parser = choice_of(FileTheme::ALL, FileTheme::id))]
    theme: FileTheme,
    /// Colour map of magnitudes
    #[arg(long, default_value = "cividis", value_parser = choice_of(Map::ALL, Map::id))]
    map: Map,
    /// Use a logarithmic scale, if the figure has one
    #[arg(long)]
    log: bool,
    /// Order of the rows of an assignment matrix
    #[arg(long, default_value = "argmax", value_parser = choice_of(Rows::ALL, Rows::id))]
    rows: Rows,
    /// Draw differences from this: the file of another trace, or the number of a --trace, from 1, which is itself drawn
    /// first; for removal curves (--causal), another file of them. For a scatter: the measure on the y axis
    #[arg(long, value_name = "COLUMN|FILE|MEASURE")]
    against: Option<String>,
    /// Number of probes side by side, the others below [default: all]
    #[arg(long, value_name = "N", value_parser = whole_number(1_u16..))]
    columns: Option<u16>,
    /// Give each of several probes side by side its own scale
    #[arg(long)]
    own_scales: bool,
    /// Draw the patch grid
    #[arg(long)]
    grid: bool,
    /// Outline marked regions over pictures
    #[arg(long)]
    regions: bool,
    /// Opacity of overlays on a picture, 0 to 1
    #[arg(long, default_value_t = 0.7, value_parser = fraction::<f32>)]
    opacity: f32,
    /// Limits of the values shown, to share scales between figures
    #[arg(long, value_name = "LOW:HIGH", value_parser = limits, allow_hyphen_values = true)]
    limits: Option<(f64, f64)>,
    /// Limits of evidence by the paper's proxy
    #[arg(long, value_name = "LOW:HIGH", value_parser = limits, allow_hyphen_values = true)]
    proxy_limits: Option<(f64, f64)>,
    /// Show what the memory holds after this many steps of the reading order; evidence, kernel and assignment mark
    /// the token that is read then
    #[arg(long, value_parser = whole_number(0_usize..))]
    step: Option<usize>,
    /// Also write this many stills, evenly spaced over the steps: NAME-step-STEP beside the file, in its format (PNG
    /// for a GIF)
    #[arg(long, value_name = "COUNT", value_parser = whole_number(0_usize..))]
    stills: Option<usize>,
}

impl Figures {
    /// Draws the figures; fails if a file cannot be read or written, or a named figure has nothing to show.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.list {
            let wide = figures::all().map(|(info, _)| info.id.len()).max().unwrap_or(0);
            for (Info { id, about, .. }, of) in figures::all() {
                let of = if of == "a trace" { String::new() } else { format!(" (of {of})") };
                stdout::line(format_args!("{id:<wide$}  {about}{of}"))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        self.check()?;
        if let Some(why) = self.against.as_ref().and_then(|_| self.no_difference()) {
            refuse!("--against: {why}");
        }
        if let Some(folder) = self.out.as_deref().and_then(Path::parent) {
            make_folder(folder)?;
        }
        if !self.run.is_empty() {
            return self.draw_training();
        }
        if self.evaluations.are_named() {
            return self.draw_evaluation();
        }
        let traces = self.trace.iter().map(|path| source::trace(path).map(Arc::new));
        let mut traces = traces.collect::<anyhow::Result<Vec<_>>>()?;
        traces.extend(self.scan.iter().map(|scan| Arc::new(source::scan_trace(scan, self.patches))));
        let out = self.out.as_deref().context("--out names no file")?;
        let steps = TracePlot::compared(FIGURES.to_vec(), traces.clone(), self.options()).steps();
        if let Some(step) = self.step.filter(|step| *step > steps) {
            refuse!("--step {step}: the reading has steps 0 to {steps}");
        }
        if self.figure.iter().any(|id| id == "all") {
            return self.draw_all(&traces, out);
        }
        let figures = match self.scan.is_empty() {
            true => self.figure.iter().map(|id| figure(id)).collect::<anyhow::Result<Vec<_>>>()?,
            false => vec![&ScanPath as &'static dyn Figure],
        };
        self.draw_traces(&traces, figures, out).map_err(|error| match error.is::<Empty>() {
            true => error.context(format!(
                "--figure {}: cannot be drawn here; --figure all leaves out what cannot be drawn",
                self.figure.join(",")
            )),
            false => error,
        })?;
        say!("wrote {}", out.display());
        Ok(ExitCode::SUCCESS)
    }

    /// Checks that the flags name something to draw, a figure and a file.
    fn check(&self) -> Result<(), Usage> {
        let needs_figure = !self.trace.is_empty() || self.evaluations.are_named();
        if !needs_figure && self.scan.is_empty() && self.run.is_empty() {
            let sources = "--trace, --scan, --run, --evaluation, --stability or --causal";
            refuse!("nothing to draw: pass {sources}; --list shows the figures");
        }
        if needs_figure && self.figure.is_empty() && !self.evaluations.has_one_figure() {
            refuse!("no figure to draw: pass --figure ID; --list shows them");
        }
        match self.out {
            Some(_) => Ok(()),
            None => refuse!("no file to write: pass --out FILE"),
        }
    }

    /// Why `--against` cannot subtract what is drawn, whatever its value; `None` if it can.
    fn no_difference(&self) -> Option<&'static str> {
        if !self.run.is_empty() {
            return Some(
                "runs share one plot, step by step; `ssmprobe report --table paired` subtracts them",
            );
        }
        if !self.scan.is_empty() {
            return Some(
                "fixed scans have no trace; explain an image with their probes and subtract those (--trace)",
            );
        }
        self.evaluations.no_difference(&self.figure)
    }

    /// The trace that `--against` subtracts: a column, by its number from 1, or a file; `None` without the flag.
    fn reference(&self, traces: &[Arc<Trace>]) -> anyhow::Result<Option<Arc<Trace>>> {
        let Some(against) = &self.against else { return Ok(None) };
        if let Ok(column) = against.parse::<usize>() {
            if traces.len() < 2 {
                let why = "one trace has no difference from itself; pass another --trace, or the file of one";
                refuse!("--against {column}: {why}");
            }
            let found = column.checked_sub(1).and_then(|at| traces.get(at));
            let wrong =
                || Usage(format!("--against {column}: give a column from 1 to {}, or a file", traces.len()));
            return Ok(Some(found.ok_or_else(wrong)?.clone()));
        }
        Ok(Some(Arc::new(source::trace(Path::new(against))?)))
    }

    /// Draws each figure into its own file; prints which have nothing to show and are left out. Fails if all are.
    fn draw_all(&self, traces: &[Arc<Trace>], out: &Path) -> anyhow::Result<ExitCode> {
        let mut drawn = 0;
        for figure in FIGURES {
            let path = run::path_with_id(out, figure.id())?;
            match self.draw_traces(traces, vec![*figure], &path) {
                Ok(()) => {
                    drawn += 1;
                    say!("wrote {}", path.display());
                }
                Err(error) if error.is::<Empty>() => say!("skipped {}: {error}", figure.id()),
                Err(error) => return Err(error),
            }
        }
        if drawn == 0 {
            bail!(
                "--figure all: no figure can be drawn into {}, for the reasons above; draw other traces or another kind of file",
                out.display()
            );
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Draws figures of traces into one file, and the stills of `--stills` beside it.
    fn draw_traces(
        &self,
        traces: &[Arc<Trace>],
        figures: Vec<&'static dyn Figure>,
        out: &Path,
    ) -> anyhow::Result<()> {
        let against = self.reference(traces)?;
        let theme = self.theme.theme();
        let columns = self.columns.map(usize::from);
        let plot = TracePlot::compared(figures, traces.to_vec(), self.options());
        let plot = TracePlot { against, columns, own_scales: self.own_scales, ..plot };
        let format = ExportFormat::of(out);
        let numbers = format.is_some_and(ExportFormat::is_numbers);
        if numbers && plot.is_comparison() {
            refuse!("--out {}: {}", out.display(), export::NO_NUMBERS);
        }
        // At a step of the reading, a colour bar may be wider and leave its columns less room.
        let is_gif = format == Some(ExportFormat::Gif);
        let moves = is_gif || self.stills.is_some();
        let widest = if moves { plot.at_step(plot.steps()) } else { plot.clone() };
        let width = self.width_for(&widest);
        if let Some(narrow) = widest.too_narrow(width) {
            refuse!("{narrow}");
        }
        let about = plot.caption().about;
        let drawn = |dpi| Drawn { theme: &theme, width, dpi, about: &about, cancelled: &|| false };
        if let Some(count) = self.stills {
            if numbers {
                refuse!("--stills: only pictures have stills, numbers have none");
            }
            animation::save_stills(&plot, out, count, drawn(self.png_dpi())).map_err(animation_error)?;
            animation::stills(&plot, out, count)
                .iter()
                .for_each(|(_, file)| say!("wrote {}", file.display()));
        }
        if is_gif {
            let drawn = drawn(self.dpi.unwrap_or(GIF_DPI));
            if let Some(note) = export::missing_letters(&widest.draw_column(&theme, width)?) {
                say!("note: {note}");
            }
            animation::save_gif(&plot, out, drawn).map_err(animation_error)?;
        } else {
            self.save(&plot, out, width)?;
        }
        Ok(())
    }

    /// Draws a plot `width` points wide into a file, and prints notes about its height and missing glyphs.
    fn save(&self, plot: &dyn Plot, out: &Path, width: f32) -> anyhow::Result<()> {
        let scene = plot.draw_column(&self.theme.theme(), width)?;
        let draws_glyphs = matches!(ExportFormat::of(out), Some(ExportFormat::Pdf | ExportFormat::Png));
        let high = export::higher_than_page(&scene).filter(|_| plot.is_comparison());
        let missing = export::missing_letters(&scene).filter(|_| draws_glyphs);
        high.iter().chain(&missing).for_each(|note| say!("note: {note}"));
        Ok(export::save(out, &scene, &plot.table(), &plot.caption().about, self.png_dpi())?)
    }

    /// Width of a plot in points: the one asked for, or one column, or what its columns side by side need.
    fn width_for(&self, plot: &dyn Plot) -> f32 {
        let narrow = || plot.as_traces()?.too_narrow(export::points(COLUMN_MM));
        export::points(self.width.unwrap_or_else(|| narrow().map_or(COLUMN_MM, |narrow| narrow.needed)))
    }

    fn png_dpi(&self) -> f32 {
        self.dpi.unwrap_or(PNG_DPI)
    }

    fn options(&self) -> Options {
        Options {
            map: self.map,
            log: self.log,
            rows: self.rows,
            opacity: self.opacity,
            grid: self.grid,
            regions: self.regions,
            step: self.step,
            limits: self.limits,
            proxy_limits: self.proxy_limits,
            ..Options::default()
        }
    }
}

/// The error of an animation, of which [`Empty`] is found as that of a figure is.
fn animation_error(error: ExportError) -> anyhow::Error {
    match error {
        ExportError::Empty(empty) => empty.into(),
        error => error.into(),
    }
}

/// Parses `LOW:HIGH`, two finite numbers, the lower first.
fn limits(text: &str) -> Result<(f64, f64), String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    let pair = text.split_once(':').and_then(|(low, high)| Some((number(low)?, number(high)?)));
    pair.filter(|(low, high)| low < high).ok_or_else(|| "expected LOW:HIGH, the lower number first".into())
}

fn figure(id: &str) -> anyhow::Result<&'static dyn Figure> {
    find(id).ok_or_else(|| {
        let ids: Vec<&str> = FIGURES.iter().map(|f| f.id()).collect();
        Usage(format!("--figure {id}: a trace has no such figure; expected one of {}", ids.join(", "))).into()
    })
}
