//! `ssmprobe report`: the paper's tables from runs, printed or written; or an HTML page with tables and figures.

mod html;

use indexmap::IndexSet;

pub(super) use self::html::notes;
use crate::app::cli::prelude::*;
use crate::app::paths::{self, make_folder};
use crate::app::report::table::Table;
use crate::app::report::{FORMATS, Format, PARQUET, Source, TABLES, parquet, tables_of};
use crate::app::value_parser::{number, one_of};
use crate::model::io::atomic_file;

/// Make the paper's tables from runs, or an HTML page of tables and explained images.
///
/// Tables are Markdown, LaTeX, CSV or Parquet.
#[derive(Args)]
#[command(after_long_help = long())]
pub struct Report {
    /// Folders of runs, finished or not. Those that differ in their heads alone share their tables.
    #[arg(value_name = "RUN", required_unless_present = "trace", num_args = 1..)]
    runs: Vec<PathBuf>,
    /// Folder to write a file per table and format to; without it, tables are printed.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Formats: md, latex, csv, parquet [default: md printed, the first three written].
    #[arg(long, value_name = "FORMAT", value_delimiter = ',',
          value_parser = one_of(FORMATS.iter().map(Some).chain([None]), |format| format.map_or(PARQUET, |format| format.id)))]
    format: Vec<FormatArg>,
    /// Only these tables.
    #[arg(long, value_name = "TABLE", value_delimiter = ',',
          value_parser = one_of(TABLES.iter().map(|kind| kind.id), |id| id))]
    table: Vec<&'static str>,
    /// Head that the tables `paired` and `causal` compare the others with [default: sinkhorn, else the
    /// best in `paired` and the first in `causal`].
    #[arg(long, value_name = "HEAD")]
    against: Option<String>,
    /// Test in the table `paired` whether heads differ by less than this many points of accuracy.
    #[arg(long, value_name = "POINTS", value_parser = number("above 0 and at most 100", |points: f64| points > 0.0 && points <= 100.0))]
    equivalence: Option<f64>,
    #[command(flatten)]
    html: html::HtmlFlags,
}

fn long() -> String {
    let tables = TABLES.iter().map(|kind| format!("  {:<14} {}\n", kind.id, kind.what)).collect::<String>();
    format!(
        "Tables, those that the runs have data for:\n{tables}\n`main`, `cost` and `conventions` need a head that \
         is not a point of a sweep, `paired` two heads or more, `routing` two learned routers or more, `fine-grained` several runs, \
         `rates` heads at several layers or rates (`ssmprobe train --layers`, `--rates`), and `grid`, `state-size` and `sweep` \
         a `ssmprobe sweep --grid`: temperature by iterations, state_dim, any other setting (`--with HEADS` trains others beside it). `ssmprobe eval --run RUN`, \
         without --last, adds the data of `diagnostics` and `order` and, if the dataset has masks or annotations, of `regions` and of how well heads \
         find known objects. Its flags add the rest: --ablations `scramble`, --keep-last `last`, --stability `stability`, --causal \
         `causal`, --baselines those of `main`.\n\n{}\n\nExit codes: 0 done, 1 failed, 2 wrong usage.",
        html::LONG
    )
}

/// Largest file beside the tables that is compared with them, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// The reason that a run without an outcome has no tables.
const UNTRAINED: &str = "no training has ended yet";

fn lack(runs: &str, what: &str) -> String {
    format!("{runs} no data for {what}; `ssmprobe report --help` says what each table needs")
}

/// A format: a text format, which can be printed, or `None` for Parquet.
type FormatArg = Option<&'static Format>;

/// The name of the file of the table `id` in a format.
fn file_name(id: &str, format: FormatArg) -> String {
    format!("{id}.{}", format.map_or(PARQUET, |format| format.extension))
}

/// The contents of such a file.
fn rendered(table: &Table, format: FormatArg) -> anyhow::Result<Vec<u8>> {
    format.map_or_else(|| parquet(table), |format| Ok((format.render)(table).into_bytes()))
}

impl Report {
    /// The given flags that choose tables and what they compare, as in a command line.
    fn table_flags(&self) -> String {
        let table = (!self.table.is_empty()).then(|| format!(" --table {}", self.table.join(",")));
        let against = self.against.as_deref().map(|head| format!(" --against {}", shell_word(head)));
        let equivalence = self.equivalence.map(|points| format!(" --equivalence {points}"));
        [table, against, equivalence].into_iter().flatten().collect()
    }

    /// Why runs lack tables that were asked for, or that they could have.
    fn absences(&self, sources: &[Source], tables: &[Table]) -> Vec<String> {
        // A table's id begins with that of its kind.
        let is_made = |id: &&str| tables.iter().any(|table| table.id.starts_with(*id));
        let is_told = |id: &&str| {
            sources.iter().flat_map(|source| &source.absent).any(|(own, why)| own == id && why.is_some())
        };
        let mut all = Vec::new();
        for source in sources {
            if source.outcomes.is_empty() {
                all.push(format!("{}: {UNTRAINED}", source.name));
                continue;
            }
            let whys = source.absent.iter().filter_map(|(id, why)| Some((*id, why.as_ref()?)));
            for (id, why) in whys {
                all.push(format!("{}: no table `{id}`: {why}", source.name));
            }
            let is_asked = |id: &&'static str| self.table.contains(id) && (is_made(id) || is_told(id));
            let others =
                source.absent.iter().filter(|(_, why)| why.is_none()).map(|(id, _)| *id).filter(is_asked);
            let others = others.collect::<Vec<_>>().join(", ");
            all.extend((!others.is_empty()).then(|| lack(&format!("{} has", source.name), &others)));
            if source.absent.iter().any(|(id, why)| why.is_none() && self.table.contains(id)) {
                all.extend(source.stale_note().map(|note| format!("{}: {note}", source.name)));
            }
        }
        let nowhere = self.table.iter().copied().filter(|id| !is_made(id) && !is_told(id));
        let nowhere = nowhere.collect::<Vec<_>>().join(", ");
        all.extend((!nowhere.is_empty() && !sources.is_empty()).then(|| lack("the runs have", &nowhere)));
        all
    }

    pub fn run(self) -> anyhow::Result<ExitCode> {
        let kinds = TABLES.iter().filter(|kind| self.table.is_empty() || self.table.contains(&kind.id));
        let (tables, sources) = tables_of(&kinds.collect::<Vec<_>>(), &self.runs, |source| {
            (source.reference, source.equivalence) = (self.against.clone(), self.equivalence);
        })?;
        if let Some(asked) = &self.against
            && !sources.iter().any(|source| source.called(asked).is_some())
        {
            let heads = sources.iter().flat_map(|source| &source.run.manifest.heads);
            let heads: IndexSet<&str> = heads.map(|head| head.name.as_str()).collect();
            let heads = Vec::from_iter(heads).join(", ");
            return Err(
                Usage(format!("--against {asked}: no run has such a head; choose one of {heads}")).into()
            );
        }
        let absences = self.absences(&sources, &tables);
        if tables.is_empty() && self.html.html.is_none() {
            if sources.iter().all(|source| source.outcomes.is_empty()) {
                bail!(
                    "{UNTRAINED}, so there are no tables; `ssmprobe figures --run RUN` draws the curves so far"
                );
            }
            bail!(if absences.is_empty() { lack("the runs have", "any table") } else { absences.join("\n") });
        }
        for absence in absences {
            say!("warning: {absence}");
        }
        if self.html.html.is_some() {
            return self.html.run(&sources, tables, &self.table_flags());
        }
        let Some(out) = &self.out else {
            let format = match self.format[..] {
                [] => &FORMATS[0],
                [Some(one)] => one,
                [None] | [_, ..] => {
                    refuse!("Parquet and several formats cannot be printed; add --out DIR");
                }
            };
            let texts: Vec<String> = tables.iter().map(|table| (format.render)(table)).collect();
            stdout::text(texts.join("\n"))?;
            return Ok(ExitCode::SUCCESS);
        };
        let formats: Vec<FormatArg> =
            if self.format.is_empty() { FORMATS.iter().map(Some).collect() } else { self.format.clone() };
        make_folder(out)?;
        let mut written = IndexSet::new();
        for table in &tables {
            for format in &formats {
                let name = file_name(&table.id, *format);
                paths::write(&out.join(&name), &rendered(table, *format)?)?;
                written.insert(name);
            }
        }
        let others = self.others(out, &tables, &written);
        if !others.is_empty() {
            let (out, others) = (out.display(), others.join(", "));
            say!("warning: {out}: not as these runs give them, perhaps of an earlier report: {others}");
        }
        say!("{} in {}", counted(tables.len(), "table", "tables"), out.display());
        Ok(ExitCode::SUCCESS)
    }

    /// The names of files in `out`, besides those `written`, with the requested tables from other numbers, as of an earlier report: a
    /// reader would think that they belong together. They stay, since a `main.tex` may just as well be a paper.
    fn others(&self, out: &Path, tables: &[Table], written: &IndexSet<String>) -> Vec<String> {
        let asked =
            TABLES.iter().map(|kind| kind.id).filter(|id| self.table.is_empty() || self.table.contains(id));
        let ids: IndexSet<&str> = asked.chain(tables.iter().map(|table| table.id.as_str())).collect();
        let formats = || FORMATS.iter().map(Some).chain([None]);
        let all = ids.into_iter().flat_map(|id| formats().map(move |format| (id, format)));
        let is_other = |&(id, format): &(&str, FormatArg)| {
            let name = file_name(id, format);
            let there = (!written.contains(&name)).then(|| atomic_file::read(&out.join(name), MAX_BYTES));
            let Some(Ok(there)) = there else { return false };
            let table = tables.iter().find(|table| table.id == id);
            !table.is_some_and(|table| rendered(table, format).is_ok_and(|own| own == there))
        };
        all.filter(is_other).map(|(id, format)| file_name(id, format)).collect()
    }
}
