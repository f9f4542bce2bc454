//! `ssmprobe report --html`: images explained by probes, and the tables, in one file that a browser shows offline.

use std::collections::HashMap;
use std::sync::Arc;

use crate::app::anonymous::ShortNames;
use crate::app::cli::figures::source;
use crate::app::cli::prelude::*;
use crate::app::format;
use crate::app::jobs::engine::{Engine, WorkerEnv};
use crate::app::jobs::inspect::flags;
use crate::app::paths::{self, make_folder};
use crate::app::report::Source;
use crate::app::report::html::{FIGURES, Page, Part, choose, explain};
use crate::app::report::table::Table;
use crate::app::state::share::TrueClass;
use crate::app::value_parser::{names, one_of};
use crate::model::data::synsets::same_class;
use crate::model::io::atomic_file;
use crate::model::probe::Probe;
use crate::model::trace::{Prediction, Trace};
use crate::model::train::run::ProbeCheckpoint;
use crate::viz::draw::check::check;
use crate::viz::file_names::stem;
use crate::viz::{self, Figure, export};

/// Largest file of notes, in bytes.
const MAX_NOTES: u64 = 1 << 20;
/// The paragraph about `--html` in the long help of `report`.
pub(super) const LONG: &str = "--html writes one self-contained file that any browser shows offline: test images through probes side by side, the token \
     under the pointer marked in all figures, the reading order step by step, evidence for each image's own class and for \
     those that probes predict, and the tables. Its figures are those of `ssmprobe figures`, byte for byte.";

/// A page instead of tables alone.
#[derive(Args)]
pub(super) struct HtmlFlags {
    /// HTML file to write, which any browser shows offline: images through probes side by side, and the tables.
    // Required as a group: clap drops the requirement of a flag where that flag conflicts with another one.
    #[arg(long, value_name = "FILE", group = "page", conflicts_with_all = ["out", "format"])]
    pub(super) html: Option<PathBuf>,
    /// Test images of the first run to show, named as in `eval --evaluation`, or by file name [default: 6 on which
    /// the probes disagree].
    #[arg(long, value_name = "NAME", num_args = 1.., requires = "page")]
    image: Vec<String>,
    /// Heads of the first run to show, each with its best seed, or HEAD-sSEED [default: the best of 4 kinds, routers
    /// first].
    #[arg(long, value_name = "HEAD", value_delimiter = ',', num_args = 1.., requires = "page")]
    probe: Vec<String>,
    /// Classes to store evidence for, comma-separated names or numbers; readers of the page choose among them
    /// [default: the image's own, and those that the probes predict].
    #[arg(long, value_name = "CLASS", requires = "page")]
    class: Option<String>,
    /// Traces to show instead of explaining images (inspect --save-traces); no run is needed then. Several traces of
    /// one image and probe offer a choice of classes.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "page", conflicts_with_all = ["image", "probe", "class"])]
    trace: Vec<PathBuf>,
    /// Figures to show [default: token_map, scan_path, evidence]; `ssmprobe figures --list` lists them.
    #[arg(long, value_name = "ID", value_delimiter = ',', requires = "page",
          value_parser = one_of(viz::FIGURES.iter().copied(), Figure::id))]
    figure: Vec<&'static dyn Figure>,
    /// Your notes, a Markdown file: headings, paragraphs, lists, emphasis and code.
    #[arg(long, value_name = "FILE", requires = "page")]
    notes: Option<PathBuf>,
    /// Title of the page [default: backbone and dataset].
    #[arg(long, value_name = "TEXT", requires = "page")]
    title: Option<String>,
    /// Dataset of the first run, if it has moved.
    #[arg(long, value_name = "DIR", requires = "page")]
    data: Option<PathBuf>,
    /// Where to compute: cpu, wgpu, cuda or auto.
    #[arg(long, default_value = "auto", requires = "page")]
    device: String,
    /// Also save the traces that the page is made of, which `ssmprobe figures` draws.
    #[arg(long, value_name = "DIR", requires = "page", conflicts_with = "trace")]
    save_traces: Option<PathBuf>,
}

/// Traces, and the names of their probes.
type Explained = (Vec<Arc<Trace>>, Vec<String>);

impl HtmlFlags {
    /// The given flags that choose figures and words, as in a command line.
    fn page_flags(&self) -> String {
        let ids: Vec<&str> = self.figure.iter().map(|figure| figure.id()).collect();
        let figures = (!ids.is_empty()).then(|| format!(" --figure {}", ids.join(",")));
        let notes = self.notes.as_deref().map(|path| format!(" --notes {}", file_word(path)));
        let title = self.title.as_deref().map(|title| format!(" --title {}", shell_word(title)));
        [figures, notes, title].into_iter().flatten().collect()
    }

    /// Writes the page, with the `tables` of the runs in `sources` that `table_flags` choose.
    pub(super) fn run(
        &self,
        sources: &[Source],
        tables: Vec<Table>,
        table_flags: &str,
    ) -> anyhow::Result<ExitCode> {
        let out = self.html.as_deref().context("--html names no file")?;
        if out.is_dir() {
            refuse!("--html {}: is a folder; give a file's name", out.display());
        }
        let notes = self.notes.as_deref().map(notes).transpose()?;
        if let Some(folder) = out.parent() {
            make_folder(folder)?;
            atomic_file::can_write(folder) // before images are explained
                .map_err(|why| Usage(format!("--html {}: cannot be written: {why}", out.display())))?;
        }
        let figures = match &self.figure[..] {
            [] => FIGURES.to_vec(),
            named => named.to_vec(),
        };
        let mut page = Page { notes, tables, figures, facts: provenance(sources), ..Page::default() };
        page.title = match (&self.title, sources) {
            (Some(title), _) => title.clone(),
            (None, [source, ..]) => source.setting(),
            (None, []) => "Probes side by side".to_owned(),
        };
        let runs: String =
            sources.iter().flat_map(Source::names).map(|name| format!(" {}", shell_word(name))).collect();
        let begun = format!("ssmprobe report{runs} --html {}", file_word(out));
        let flags = self.page_flags() + table_flags;
        let (mut images, mut probes) = (ShortNames::default(), ShortNames::default());
        // A page is sent to others: it must not name folders of this machine.
        let mut anonymised = |mut trace: Trace| {
            let known = sources.first().and_then(|source| true_class(source, &trace));
            (trace.image, trace.probe) = (images.name(&trace.image), probes.name(&trace.probe));
            let (image, probe) = (trace.image.clone(), trace.probe.clone());
            page.truth.extend(known.map(|(name, own)| TrueClass { image, probe, name, own }));
            Arc::new(trace)
        };
        match sources {
            [source, ..] if self.trace.is_empty() => {
                let Some((traces, probes)) = self.explain(source)? else { return Ok(interrupt::code()) };
                let traces = traces.into_iter().map(Arc::unwrap_or_clone).map(anonymised).collect::<Vec<_>>();
                let mut images: Vec<&str> = traces.iter().map(|trace| trace.image.as_str()).collect();
                images.dedup();
                let class = self.class.as_deref().map(|class| format!(" --class {}", shell_word(class)));
                page.commands.push(format!(
                    "{begun} --image {} --probe {}{}{flags} --save-traces TRACES",
                    images.into_iter().map(shell_word).collect::<Vec<_>>().join(" "),
                    shell_word(&probes.join(",")),
                    class.unwrap_or_default(),
                ));
                page.parts = vec![Part { note: None, traces }];
            }
            _ => {
                let mut traces = Vec::new();
                for path in &self.trace {
                    let trace = source::trace(path)?;
                    check(&trace)
                        .with_context(|| format!("{}: the trace is inconsistent", path.display()))?;
                    traces.push(anonymised(trace));
                }
                if let Some(image) = other_picture(&traces) {
                    say!(
                        "warning: {image}: traces of one backbone have different pictures under this name; the page shows them as one image"
                    );
                }
                page.parts = vec![Part { note: None, traces }];
                let files: Vec<String> = self.trace.iter().map(|path| file_word(path)).collect();
                page.commands.push(format!("{begun} --trace {}{flags}", files.join(" ")));
            }
        }
        if let Some(folder) = &self.save_traces {
            save(folder, page.traces())?;
        }
        let html = page.html();
        paths::write(out, html.as_bytes())?;
        let traces = counted(page.traces().count(), "explanation", "explanations");
        let tables = counted(page.tables.len(), "table", "tables");
        say!("{traces} and {tables}, {}", format::bytes(html.len() as u64));
        stdout::line(out.display())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Explains images of the run: traces, and the names of their probes; `None` if Ctrl-C stopped it.
    fn explain(&self, source: &Source) -> anyhow::Result<Option<Explained>> {
        let probes = choose::probes(source, &names(&self.probe)).map_err(Usage)?;
        let images = choose::images(source, &probes, &self.image).map_err(Usage)?;
        let classes = match (&self.class, probes.first()) {
            (Some(asked), Some(first)) => {
                let run = source.run_of(&first.head);
                let file = run.probe_path(&first.head, first.seed, ProbeCheckpoint::Best);
                Some(flags::classes(&Probe::load(file)?, asked)?)
            }
            _ => None,
        };
        let names = probes.iter().map(|outcome| format!("{}-s{}", outcome.head, outcome.seed)).collect();
        interrupt::listen();
        let mut reporter = TerminalReporter::new();
        let (data, device) = (self.data.clone(), self.device.clone());
        let spec = explain::ExplainSpec { source, images, probes, classes, data, device };
        let traces = spec.traces(&mut Engine::new(WorkerEnv::default()), &mut reporter);
        Ok(reporter.end(traces)?.map(|traces| (traces, names)))
    }
}

/// The name of an image under which traces of one backbone have pictures of one size that differ by more than the order of their patches.
fn other_picture(traces: &[Arc<Trace>]) -> Option<&str> {
    let mut known = HashMap::new();
    let other = traces.iter().find(|trace| {
        let Trace { image, backbone, seen, .. } = &***trace;
        let sum: u64 = seen.rgb.iter().map(|value| u64::from(*value)).sum();
        *known.entry((image, backbone, seen.width, seen.height)).or_insert(sum) != sum
    });
    other.map(|trace| &*trace.image)
}

/// Writes each trace to a file in `folder`, named by its number, image, probe and class.
fn save<'a>(folder: &Path, traces: impl Iterator<Item = &'a Arc<Trace>>) -> anyhow::Result<()> {
    make_folder(folder)?;
    for (number, trace) in (1..).zip(traces) {
        let (image, probe, class) = (stem(&trace.image), stem(&trace.probe), trace.evidence.class);
        let path = folder.join(format!("{number:03}-{image}-{probe}-{class}.trace.json"));
        paths::write(&path, &serde_json::to_vec(&**trace).expect("plain data serialises"))?;
    }
    Ok(())
}

pub(in crate::app::cli) fn notes(path: &Path) -> anyhow::Result<String> {
    atomic_file::text(path, MAX_NOTES)
        .map_err(|error| source::read_error(format_args!("--notes {}", path.display()), error))
}

/// The name of the true class of a trace's image, if that is a test image of the run, and the classes of its probe that may be it.
/// Traces name their most probable classes alone: where these are not those of the run, the others are unknown.
fn true_class(source: &Source, trace: &Trace) -> Option<(String, Option<Vec<usize>>)> {
    let at = source.truth.images.iter().position(|image| *image == trace.image)?;
    let (classes, class) = (&source.run.manifest.dataset.classes, *source.truth.classes.get(at)?);
    let (name, top) = (classes.get(class)?, &trace.top);
    let in_run =
        |known: &Prediction| classes.get(known.index).is_some_and(|own| same_class(own, &known.name));
    let as_in_run = top.iter().all(in_run);
    if as_in_run && trace.logits.len() == classes.len() {
        return Some((name.clone(), Some(vec![class])));
    }
    let named = top.iter().filter(|known| same_class(&known.name, name));
    let named: Vec<usize> = named.map(|known| known.index).collect();
    let is_known = !named.is_empty() || top.len() == trace.logits.len();
    Some((name.clone(), is_known.then_some(named)))
}

/// The provenance of runs, as names and values; names no folder of this machine.
fn provenance(sources: &[Source]) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for source in sources {
        let manifest = &source.run.manifest;
        let dataset = &manifest.dataset;
        let tokens = format!(
            "{} x {} of {} values, after layer: {}",
            manifest.grid.rows,
            manifest.grid.cols,
            manifest.backbone.hidden_size,
            manifest.layers().join(", ")
        );
        let images = format!(
            "{}: {} to train, {} to test, {}",
            dataset.name,
            dataset.train,
            dataset.test,
            counted(dataset.classes.len(), "class", "classes")
        );
        let training = format!(
            "{}, {}, {}, by {} on {}",
            counted(manifest.heads.len(), "head", "heads"),
            counted(manifest.seeds.len(), "seed", "seeds"),
            counted(manifest.config.epochs, "epoch", "epochs"),
            manifest.program,
            manifest.device
        );
        let weights = manifest.backbone.fingerprint.clone().unwrap_or_else(|| "unknown".to_owned());
        let own = [
            ("Run", source.names().collect::<Vec<_>>().join(", ")),
            ("Backbone", manifest.backbone.id.clone()),
            ("Its weights (SHA-256)", weights),
            ("Tokens", tokens),
            ("Images", images),
            ("Training", training),
        ];
        facts.extend(own.map(|(name, value)| (name.to_owned(), value)));
    }
    facts.push(("Page".to_owned(), export::MADE_BY.to_owned()));
    facts
}

/// The name of a file as a word of a command line.
fn file_word(path: &Path) -> String {
    shell_word(&format::file_name(path))
}
