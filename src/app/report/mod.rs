//! The paper's tables from the folders of runs: each table is plain data ([`table::Table`]) from one
//! function of the list [`TABLES`]; each format is one renderer of the list [`FORMATS`].

mod causal;
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

use std::path::Path;

use self::Build::{All, Each};
pub use self::csv::parquet;
use self::run_metrics::{ProbeMetrics, RunMetrics};
use self::table::{Cell, Column, Row, Table};
use crate::app::jobs::history::TrainHistory;
pub use crate::app::jobs::run_metrics;
use crate::model::probe::head;
use crate::model::train;
use crate::model::train::run::{Outcome, ProbeCheckpoint, Run, RunError, Selection, Truth, Variant};
use crate::viz::figures::rates::RateGrid;

/// A run with everything that came out of it.
pub struct Source {
    /// The run.
    pub run: Run,
    /// What it is called: its folder, numbered where several runs have the same.
    pub name: String,
    /// The head that `paired` compares with; Sinkhorn or the best one where none is named.
    pub reference: Option<String>,
    /// The difference in points within which `paired` calls two heads equivalent, where that is asked.
    pub equivalence: Option<f64>,
    /// What came out, head by head and seed by seed.
    pub outcomes: Vec<Outcome>,
    /// The test images.
    pub truth: Truth,
    /// What `ssmprobe eval` found, where it was asked.
    pub evaluations: Option<RunMetrics>,
    /// Probes left out of it, because they were trained on since.
    pub stale: Vec<String>,
}

/// An entry of the list of tables.
pub struct TableKind {
    /// Its id on the command line and in file names.
    pub id: &'static str,
    /// What it shows, in one line.
    pub what: &'static str,
    /// How it is made.
    pub build: Build,
}

/// How tables are made; none of runs that do not hold what they show.
pub enum Build {
    /// Of one run after the other.
    Each(fn(&Source) -> Vec<Table>),
    /// Of all runs together.
    All(fn(&[Source]) -> Vec<Table>),
}

impl TableKind {
    /// The tables of these runs. Where there are several runs, the ids of tables of one name it.
    pub fn tables(&self, sources: &[Source]) -> Vec<Table> {
        let build = match self.build {
            Each(build) => build,
            All(build) => return build(sources),
        };
        let mut tables = Vec::new();
        for source in sources {
            let own = build(source).into_iter();
            match sources.len() {
                1 => tables.extend(own),
                _ => tables.extend(own.map(|t| Table { id: format!("{}-{}", t.id, source.name), ..t })),
            }
        }
        tables
    }
}

/// Every table, in the order of a report.
pub const TABLES: &[TableKind] = &[
    TableKind { id: "main", what: "all heads by tier, best and last", build: Each(comparison::tables) },
    TableKind { id: "paired", what: "each head against one, image by image", build: Each(paired::tables) },
    TableKind { id: "routing", what: "routing mechanisms against pooling", build: Each(routing::tables) },
    TableKind {
        id: "fine-grained",
        what: "heads across backbones and datasets",
        build: All(fine_grained::tables),
    },
    TableKind { id: "scramble", what: "the order disturbed at evaluation", build: Each(scramble::tables) },
    TableKind { id: "last", what: "accuracy by how many last tokens are kept", build: Each(last::tables) },
    TableKind {
        id: "stability",
        what: "what small changes and other seeds leave of orders",
        build: Each(stability::tables),
    },
    TableKind {
        id: "order",
        what: "images whose order beats all orders of their tokens",
        build: Each(order::tables),
    },
    TableKind {
        id: "causal",
        what: "removal curves of every ranking, beside random orders and another head",
        build: Each(causal::tables),
    },
    TableKind {
        id: "regions",
        what: "when marked regions are read, and which before which",
        build: Each(regions::tables),
    },
    TableKind {
        id: "diagnostics",
        what: "what every router does, beside chance and untrained scorers",
        build: Each(diagnostics::tables),
    },
    TableKind {
        id: "rates",
        what: "layers by learning rates, and what the selection images choose",
        build: Each(rates::tables),
    },
    TableKind { id: "grid", what: "temperature by iterations", build: Each(grid::tables) },
    TableKind { id: "state-size", what: "accuracy by number of S4 states", build: Each(sweep::state_size) },
    TableKind { id: "sweep", what: "accuracy by any other setting", build: Each(sweep::tables) },
    TableKind { id: "cost", what: "parameters and operations", build: Each(cost::tables) },
    TableKind {
        id: "conventions",
        what: "operations by three conventions, beside the paper's figures",
        build: Each(conventions::tables),
    },
];

/// An entry of the list of formats.
pub struct Format {
    /// Its name on the command line.
    pub id: &'static str,
    /// Ending of its files.
    pub extension: &'static str,
    /// A table in it.
    pub render: fn(&Table) -> String,
}

/// The name of the one format that is no text; [`parquet`] makes it.
pub const PARQUET: &str = "parquet";

/// Every format that is text.
pub const FORMATS: &[Format] = &[
    Format { id: "md", extension: "md", render: markdown::render },
    Format { id: "latex", extension: "tex", render: latex::render },
    Format { id: "csv", extension: "csv", render: csv::render },
];

impl Source {
    /// Reads the runs in `folders`, each once.
    pub fn open_all(folders: &[impl AsRef<Path>]) -> Result<Vec<Self>, RunError> {
        let mut sources: Vec<Self> = Vec::new();
        for folder in folders {
            let mut source = Self::open(folder.as_ref())?;
            let place = |source: &Self| source.run.folder().canonicalize().ok();
            if sources.iter().any(|other| place(other).is_some_and(|one| Some(one) == place(&source))) {
                continue;
            }
            let taken = |name: &str| sources.iter().any(|other| other.name == name);
            let numbered = (2..).map(|number| format!("{}-{number}", source.name));
            let mut names = std::iter::once(source.name.clone()).chain(numbered);
            source.name = names.find(|name| !taken(name)).expect("an endless supply of names");
            sources.push(source);
        }
        Ok(sources)
    }

    /// Reads the run in `folder`, finished or not.
    pub fn open(folder: &Path) -> Result<Self, RunError> {
        let run = Run::open(folder)?;
        let (outcomes, truth) = (run.outcomes()?, run.truth()?);
        let mut evaluations = run_metrics::read(&run)?;
        let stale = evaluations.as_mut().map(|all| all.drop_stale(&run)).unwrap_or_default();
        let place = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = place.file_name().map_or("run".into(), |name| name.to_string_lossy().into_owned());
        Ok(Self { run, name, reference: None, equivalence: None, outcomes, truth, evaluations, stale })
    }

    /// Backbone and dataset, as titles have them.
    pub fn setting(&self) -> String {
        format!("{} on {}", self.run.manifest.backbone.id, self.run.manifest.dataset.name)
    }

    /// A table of this run, with what a reader must know of its accuracies.
    fn table(&self, id: impl Into<String>, title: String, columns: Vec<Column>, rows: Vec<Row>) -> Table {
        Table { id: id.into(), title, columns, rows, notes: self.notes() }
    }

    /// Accuracies of a variant at its best epoch and after the last: the cells of [`Column::accuracies`].
    fn accuracy_cells(&self, name: &str) -> [Cell; 2] {
        [ProbeCheckpoint::Best, ProbeCheckpoint::Last]
            .map(|which| Cell::over(&self.accuracies(name, which), 2))
    }

    /// What came out of the variant called `name`.
    pub fn outcomes_of(&self, name: &str) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(move |outcome| outcome.head == name)
    }

    /// Accuracies of a variant over its seeds, in percent.
    pub fn accuracies(&self, name: &str, which: ProbeCheckpoint) -> Vec<f64> {
        let accuracy = |outcome: &Outcome| match which {
            ProbeCheckpoint::Best => outcome.best_accuracy(),
            ProbeCheckpoint::Last => outcome.last_accuracy(),
        };
        self.outcomes_of(name).filter_map(accuracy).collect()
    }

    /// The variants under their head's own name: what is compared with one another.
    pub fn plain(&self) -> impl Iterator<Item = &Variant> {
        let done = |name: &str| self.outcomes_of(name).next().is_some();
        self.run.manifest.heads.iter().filter(move |v| !v.name.contains('[') && done(&v.name))
    }

    /// What is tested against one another: the [plain](Self::plain) variants, and of heads at several layers or rates the one that
    /// the selection images choose.
    pub fn compared(&self) -> Vec<&Variant> {
        let grids = TrainHistory::of_outcomes(&self.run, &self.outcomes).grids();
        let chosen = |variant: &&Variant| {
            let cell = |grid: &RateGrid| Some(grid.cells[grid.chosen()?].as_ref()?.name == variant.name);
            grids.iter().any(|grid| cell(grid) == Some(true))
        };
        self.plain().chain(self.run.manifest.heads.iter().filter(chosen)).collect()
    }

    /// That variant of them, by its name or its head's.
    pub fn called(&self, name: &str) -> Option<&Variant> {
        let compared = self.compared();
        let by = |own: fn(&Variant) -> &str| compared.iter().copied().find(|variant| own(variant) == name);
        by(|variant| &variant.name).or_else(|| by(|variant| &variant.head))
    }

    /// The evaluations of a variant's probes.
    pub fn evaluated(&self, name: &str) -> impl Iterator<Item = &ProbeMetrics> {
        let all = self.evaluations.iter().flat_map(|evaluations| &evaluations.probes);
        all.filter(move |evaluated| evaluated.head == name && evaluated.which == ProbeCheckpoint::Best.name())
    }

    /// What a reader must know of the accuracies: seeds, epochs, how the best one was picked, and
    /// what did not come to its end.
    pub fn notes(&self) -> Vec<String> {
        let manifest = &self.run.manifest;
        let (train::TrainConfig { epochs, batch, rate, protocol, augment, .. }, dataset) =
            (&manifest.config, &manifest.dataset);
        let seeds = manifest.seeds.len();
        let mut rates: Vec<String> = Vec::new();
        for rate in manifest.heads.iter().map(|variant| variant.rate.unwrap_or(*rate).to_string()) {
            if !rates.contains(&rate) {
                rates.push(rate);
            }
        }
        let rate = if rates.len() > 1 {
            format!("rates {}", rates.join(", "))
        } else {
            format!("rate {}", rates.join(""))
        };
        let how = protocol.describe(&rate);
        let seen = if augment.is_none() { String::new() } else { format!(", augment {augment}") };
        let spread = if seeds > 1 { ", mean ± sample standard deviation" } else { "" };
        let mut notes = vec![
            format!(
                "{}, {} training and {} test images, {} classes; {epochs} epochs of {how}, \
                 batch {batch}{seen}); {seeds} seed{}{spread}",
                self.setting(),
                dataset.train,
                dataset.test,
                dataset.classes.len(),
                if seeds == 1 { "" } else { "s" },
            ),
            match manifest.selection {
                Selection::Test => {
                    "Best: the epoch with the highest accuracy on the test images themselves, as \
                    in the paper, which flatters it; last: after the last epoch, which does not"
                        .to_owned()
                }
                Selection::Val => {
                    format!(
                        "Best: the epoch picked on {} validation images; last: after the last epoch",
                        dataset.select
                    )
                }
                Selection::PartOfTrain(share) => format!(
                    "Best: the epoch picked on {:.0} % of the training images ({}), which were not trained on; \
                     last: after the last epoch",
                    100.0 * share,
                    dataset.select
                ),
            },
        ];
        notes.extend(self.unusual());
        for outcome in self.outcomes.iter().filter(|outcome| outcome.failure.is_some()) {
            let why = outcome.failure.as_deref().unwrap_or_default();
            notes.push(format!("{}, seed {}, stopped early: {why}", outcome.head, outcome.seed));
        }
        if !self.stale.is_empty() {
            notes.push(format!(
                "Left out of what `ssmprobe eval` found, for they were trained on since: {}; ask again",
                self.stale.join("; ")
            ));
        }
        let expected = manifest.heads.len() * seeds;
        let cut = self.outcomes.iter().filter(|o| o.failure.is_none() && o.epochs.len() < *epochs);
        let open = expected - self.outcomes.len().min(expected) + cut.count();
        if open > 0 {
            notes.push(format!("Not finished: {open} of {expected} trainings are missing or were stopped"));
        }
        notes
    }

    /// Which tokens were read, and how heads were set, where that is not the default.
    fn unusual(&self) -> Option<String> {
        let manifest = &self.run.manifest;
        let mut said = Vec::new();
        if manifest.tokens.layer != "last" && manifest.layers().len() == 1 {
            said.push(format!("tokens of layer: {}", manifest.tokens.layer));
        }
        said.extend(manifest.size.map(|size| format!("images of {size} px")));
        for variant in self.plain() {
            let settings = variant.config.fields();
            let each =
                settings.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ");
            if !each.is_empty() {
                said.push(format!("{}: {each}", variant.name));
            }
        }
        (!said.is_empty()).then(|| format!("Not as by default: {}", said.join("; ")))
    }
}

/// Beyond the paper's own tables.
const BEYOND: &str = "†: not in the paper";

/// What a variant is called among heads of the paper: as [`title`], with a mark if it is not one.
fn marked(variant: &Variant) -> String {
    let mark = if head::find(&variant.head).is_some_and(|kind| kind.in_paper) { "" } else { " †" };
    title(variant) + mark
}

/// What a variant is called on paper: its head's name, and its settings where it has a name of its own.
pub fn title(variant: &Variant) -> String {
    let name = head::find(&variant.head).map_or(variant.head.as_str(), |kind| kind.name);
    match variant.name == variant.head {
        true => name.to_owned(),
        false => match variant.name.strip_prefix(&variant.head) {
            Some(rest) => format!("{name} {}", rest.trim_start_matches('-').trim()),
            None => variant.name.clone(),
        },
    }
}
