//! The paper's tables, made from run folders: each entry of [`TABLES`] builds tables as plain data ([`table::Table`]), each
//! entry of [`FORMATS`] renders one as text.

mod causal;
mod change;
mod choice;
mod comparison;
mod conventions;
mod cost;
mod csv;
mod diagnostics;
pub mod findings;
mod fine_grained;
mod grid;
pub mod html;
mod last;
mod latex;
mod markdown;
mod notes;
mod order;
mod paired;
mod rates;
mod regions;
mod routing;
mod scramble;
mod stability;
mod sweep;
pub mod table;
mod tiers;

use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;

use self::Build::{All, Each};
pub use self::csv::parquet;
use self::table::{Cell, Column, Row, Table};
use crate::app::format::distinct;
use crate::app::jobs::run_metrics::{self, ProbeMetrics, RunMetrics};
use crate::app::jobs::train::resume::have_other_heads_alone;
use crate::model::probe::head;
use crate::model::train::run::{Outcome, ProbeCheckpoint, Run, RunError, Truth, Variant};
use crate::viz::figures::rates::RateGrid;

/// A run with its results.
pub struct Source {
    /// The run.
    pub run: Run,
    /// Names and runs of others of the same training, whose heads, outcomes and evaluations stand beside its own.
    pub joined: Vec<(String, Run)>,
    /// Name of its folder; [`tables_of`] appends a number if an earlier run has the same.
    pub name: String,
    /// The reference head of the tables `paired` and `causal`; by default Sinkhorn, else the best (`paired`) or first (`causal`).
    pub reference: Option<String>,
    /// Margin of the equivalence test of the table `paired`, in points of accuracy; no such test if absent.
    pub equivalence: Option<f64>,
    /// The outcome of every head and seed trained so far.
    pub outcomes: Vec<Outcome>,
    /// The test images and their true classes.
    pub truth: Truth,
    /// The share of the test images that are of the most frequent class, if classes differ in their numbers of images.
    majority: Option<f64>,
    /// The evaluations that `ssmprobe eval` wrote, if any.
    pub evaluations: Option<RunMetrics>,
    /// A note on each probe left out of `evaluations` because its file has changed since.
    pub stale: Vec<String>,
    /// The kinds of table that [`tables_of`] made none of, and why, where it is more than that the run has no such data.
    pub absent: Vec<(&'static str, Option<String>)>,
    /// [`Source::grids`] of these outcomes, once a table has asked for them.
    grids: OnceLock<Vec<RateGrid>>,
}

/// An entry of [`TABLES`].
pub struct TableKind {
    /// Its id on the command line and in file names.
    pub id: &'static str,
    /// What it shows, in one line.
    pub what: &'static str,
    /// The function that builds it.
    pub build: Build,
    /// Why a run has no such table although it could have one; `None` if there is nothing to say.
    pub why_none: fn(&Source) -> Option<String>,
}

/// The function that builds tables; it returns none if the runs lack the data.
pub enum Build {
    /// Called once per run; tables without rows are left out.
    Each(fn(&Source) -> Vec<Table>),
    /// Called once with all runs.
    All(fn(&[Source]) -> Vec<Table>),
}

impl TableKind {
    /// The tables of these runs. With several runs, `-` and the run's name are appended to the ids of tables of a single run.
    pub fn tables(&self, sources: &[Source]) -> Vec<Table> {
        let several = sources.len() > 1;
        let of_run = |(at, source)| self.of_run(source, several).into_iter().map(move |table| (at, table));
        self.of_runs(sources.iter().enumerate().flat_map(of_run), sources)
    }

    /// The tables of all runs; those of single runs are `of_run`, each with the place of its run.
    fn of_runs(&self, of_run: impl IntoIterator<Item = (usize, Table)>, sources: &[Source]) -> Vec<Table> {
        match self.build {
            All(build) => build(sources),
            Each(_) => of_run.into_iter().map(|(at, table)| titled(sources, at, table)).collect(),
        }
    }

    /// The tables of a single run, which may be one of `several`; none if they are made of all runs.
    fn of_run(&self, source: &Source, several: bool) -> Vec<Table> {
        let Each(build) = self.build else { return Vec::new() };
        let named = |table: Table| match several {
            true => Table { id: format!("{}-{}", table.id, source.name), ..table },
            false => table,
        };
        build(source).into_iter().filter(|table| !table.rows.is_empty()).map(named).collect()
    }
}

/// The table of the run at a place, with the run's name in its title if another one has the same backbone and dataset.
fn titled(sources: &[Source], at: usize, table: Table) -> Table {
    let source = &sources[at];
    let is_alike = |(other, run): (usize, &Source)| other != at && run.setting() == source.setting();
    match sources.iter().enumerate().any(is_alike) {
        true => Table { title: format!("{} ({})", table.title, source.name), ..table },
        false => table,
    }
}

/// The tables of `kinds`, in their order, of the runs in `folders` (each folder once), and these runs, each changed by `prepare`
/// first. Runs that [have other heads alone](have_other_heads_alone) are one. Runs are read one after the other, and what they
/// hold of every image is dropped once the tables of a run are made, but that of the first run: a hundred runs of ImageNet hold
/// gigabytes.
///
/// # Errors
/// As [`Source::open`].
pub fn tables_of(
    kinds: &[&TableKind],
    folders: &[impl AsRef<Path>],
    prepare: impl Fn(&mut Source),
) -> Result<(Vec<Table>, Vec<Source>), RunError> {
    let mut seen = HashSet::new();
    let mut is_new = |folder: &Path| folder.canonicalize().map_or(true, |path| seen.insert(path));
    let folders: Vec<&Path> = folders.iter().map(AsRef::as_ref).filter(|folder| is_new(folder)).collect();
    let mut groups: Vec<Vec<Run>> = Vec::new();
    for folder in folders {
        let run = Run::open(folder)?;
        let is_own = |group: &&mut Vec<Run>| group.iter().all(|other| have_other_heads_alone(other, &run));
        match groups.iter_mut().find(is_own) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    let (mut sources, mut tables_of_runs) = (Vec::<Source>::new(), vec![Vec::new(); kinds.len()]);
    let mut names = HashSet::new();
    let several = groups.len() > 1;
    for group in groups {
        let mut runs = group.into_iter().map(|run| {
            let mut source = Source::of(run)?;
            source.name = distinct(&source.name, |name| names.contains(name));
            names.insert(source.name.clone());
            Ok::<_, RunError>(source)
        });
        let Some(mut source) = runs.next().transpose()? else { continue };
        runs.try_for_each(|other| other.map(|other| source.join(other)))?;
        prepare(&mut source);
        for (kind, tables) in kinds.iter().zip(&mut tables_of_runs) {
            let own = kind.of_run(&source, several);
            if own.is_empty() && matches!(kind.build, Each(_)) {
                let why = (kind.why_none)(&source);
                source.absent.push((kind.id, why));
            }
            tables.extend(own.into_iter().map(|table| (sources.len(), table)));
        }
        if !sources.is_empty() {
            (source.truth, source.evaluations) = (Truth::default(), None);
            for outcome in &mut source.outcomes {
                (outcome.best, outcome.last) = (Vec::new(), Vec::new());
            }
        }
        sources.push(source);
    }
    let all = kinds.iter().zip(tables_of_runs).flat_map(|(kind, tables)| kind.of_runs(tables, &sources));
    Ok((all.collect(), sources))
}

const fn each(id: &'static str, what: &'static str, build: fn(&Source) -> Vec<Table>) -> TableKind {
    TableKind { id, what, build: Each(build), why_none: |_| None }
}

/// All kinds of table, in the order of a report.
pub const TABLES: &[TableKind] = &[
    each("main", "all heads by tier, best and last", comparison::tables),
    TableKind {
        why_none: paired::why_none,
        ..each("paired", "each head against one, image by image", paired::tables)
    },
    TableKind {
        why_none: routing::why_none,
        ..each("routing", "routing mechanisms against pooling", routing::tables)
    },
    TableKind {
        id: "fine-grained",
        what: "heads across backbones and datasets",
        build: All(fine_grained::tables),
        why_none: |_| None,
    },
    each("scramble", "the order disturbed at evaluation", scramble::tables),
    each("last", "accuracy by number of last tokens kept", last::tables),
    each("stability", "stability of orders under small changes and across seeds", stability::tables),
    each("order", "images whose order beats random orders of their tokens", order::tables),
    each("causal", "removal curves of every ranking, against random orders and another head", causal::tables),
    each("regions", "when marked regions are read, and which of two comes first", regions::tables),
    each(
        "diagnostics",
        "diagnostics of every router, against chance and untrained scorers",
        diagnostics::tables,
    ),
    each("rates", "layers by learning rates, and the choice on the selection images", rates::tables),
    each("grid", "temperature by iterations", grid::tables),
    each("state-size", "accuracy by number of S4 states", sweep::state_size),
    each("sweep", "accuracy by any other setting", sweep::tables),
    each("cost", "parameters and operations", cost::tables),
    each("conventions", "operations by three conventions, next to the paper's figures", conventions::tables),
];

/// An entry of [`FORMATS`].
pub struct Format {
    /// Its name on the command line.
    pub id: &'static str,
    /// Extension of its files, without the dot.
    pub extension: &'static str,
    /// Renders a table.
    pub render: fn(&Table) -> String,
}

/// Id of the only binary format, which [`parquet()`] writes.
pub const PARQUET: &str = "parquet";

/// All text formats.
pub const FORMATS: &[Format] = &[
    Format { id: "md", extension: "md", render: markdown::render },
    Format { id: "latex", extension: "tex", render: latex::render },
    Format { id: "csv", extension: "csv", render: csv::render },
];

impl Source {
    /// Reads the run in `folder`, finished or not; an error if one of its files cannot be read.
    pub fn open(folder: &Path) -> Result<Self, RunError> {
        Self::of(Run::open(folder)?)
    }

    /// Reads what an opened run has found so far.
    fn of(run: Run) -> Result<Self, RunError> {
        let (outcomes, truth) = (run.outcomes()?, run.truth()?);
        let mut evaluations = run_metrics::read(&run)?;
        let stale = evaluations.as_mut().map(|metrics| metrics.drop_stale(&run)).unwrap_or_default();
        let path = run.folder().canonicalize().unwrap_or_else(|_| run.folder().to_owned());
        let name = path.file_name().map_or("run".into(), |name| name.to_string_lossy().into_owned());
        let (reference, equivalence, absent, joined) = (None, None, Vec::new(), Vec::new());
        let (majority, grids) =
            (majority(&truth.classes, run.manifest.dataset.classes.len()), OnceLock::new());
        Ok(Self {
            run,
            joined,
            name,
            reference,
            equivalence,
            outcomes,
            truth,
            majority,
            evaluations,
            stale,
            absent,
            grids,
        })
    }

    /// Adds a run that [has other heads alone](have_other_heads_alone).
    fn join(&mut self, other: Self) {
        self.run.manifest.heads.extend(other.run.manifest.heads.iter().cloned());
        self.outcomes.extend(other.outcomes);
        self.grids = OnceLock::new();
        self.stale.extend(other.stale);
        if let Some(evaluations) = other.evaluations {
            self.evaluations.get_or_insert_default().merge(evaluations);
        }
        self.joined.push((other.name, other.run));
    }

    /// The run whose folder holds the probes of a head.
    pub fn run_of(&self, head: &str) -> &Run {
        let has = |run: &&Run| run.manifest.heads.iter().any(|variant| variant.name == head);
        self.joined.iter().map(|(_, run)| run).find(has).unwrap_or(&self.run)
    }

    /// The names of its folder and of those of the joined runs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.joined.iter().map(|(name, _)| &**name))
    }

    /// Backbone and dataset as in titles: `BACKBONE on DATASET`.
    pub fn setting(&self) -> String {
        format!("{} on {}", self.run.manifest.backbone.id, self.run.manifest.dataset.name)
    }

    /// A table of `what` in this run, with [its notes](Self::notes).
    fn table(&self, id: impl Into<String>, what: &str, columns: Vec<Column>, rows: Vec<Row>) -> Table {
        let title = format!("{what}: {}", self.setting());
        Table { id: id.into(), title, columns, rows, notes: self.notes() }
    }

    /// The cells of [`Column::accuracies`] of a variant; a seed that has finished an epoch has both accuracies.
    fn accuracy_cells(&self, name: &str) -> [Cell; 3] {
        let [best, last] = ProbeCheckpoint::ALL.map(|which| self.accuracies(name, which));
        [Cell::number(best.len() as f64, 0), Cell::over(&best, 2), Cell::over(&last, 2)]
    }

    /// The outcomes of the variant `name`, one per seed.
    pub fn outcomes_of(&self, name: &str) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(move |outcome| outcome.head == name)
    }

    /// Whether a variant has an outcome.
    fn is_trained(&self, variant: &Variant) -> bool {
        self.outcomes_of(&variant.name).next().is_some()
    }

    /// Test accuracies of the variant `name` in percent, one per seed that has finished an epoch.
    pub fn accuracies(&self, name: &str, which: ProbeCheckpoint) -> Vec<f64> {
        let accuracy = |outcome: &Outcome| match which {
            ProbeCheckpoint::Best => outcome.best_accuracy(),
            ProbeCheckpoint::Last => outcome.last_accuracy(),
        };
        self.outcomes_of(name).filter_map(accuracy).collect()
    }

    /// The evaluations of the variant's probes at the best epoch, one per seed.
    pub fn evaluated(&self, name: &str) -> impl Iterator<Item = &ProbeMetrics> {
        let all = self.evaluations.iter().flat_map(|evaluations| &evaluations.probes);
        all.filter(move |evaluated| evaluated.head == name && evaluated.which == ProbeCheckpoint::Best)
    }
}

/// The share of the images, of which these are the classes, that are of the most frequent of all `count` classes; `None` if all classes
/// have as many images.
fn majority(classes: &[usize], count: usize) -> Option<f64> {
    let mut images = vec![0; count];
    for &class in classes.iter().filter(|class| **class < count) {
        images[class] += 1;
    }
    let most: usize = images.into_iter().max()?;
    (most * count > classes.len()).then(|| most as f64 / classes.len() as f64)
}

/// Note that explains the mark of [`marked_title`].
const NOT_IN_PAPER_NOTE: &str = "†: not in the paper";

/// The [`title`] of a variant, with a dagger if its head is not in the paper.
fn marked_title(variant: &Variant) -> String {
    let mark = if head::find(&variant.head).is_some_and(|kind| kind.in_paper) { "" } else { " †" };
    title(variant) + mark
}

/// The [titles](title) of variants that are not finished, and what finishes them.
fn not_finished<'a>(variants: impl Iterator<Item = &'a Variant>) -> String {
    let titles = variants.map(title).collect::<Vec<_>>().join(", ");
    format!("not finished: {titles} (`ssmprobe train --resume --out RUN` continues)")
}

/// The name of a variant in tables: its head's display name, followed by what the variant's name adds to the head's id.
pub fn title(variant: &Variant) -> String {
    let name = head::find(&variant.head).map_or(variant.head.as_str(), |kind| kind.name);
    match variant.name.strip_prefix(&variant.head) {
        Some("") => name.to_owned(),
        Some(rest) => format!("{name} {}", rest.trim_start_matches('-').trim()),
        None => variant.name.clone(),
    }
}
