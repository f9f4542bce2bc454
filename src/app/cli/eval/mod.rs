//! `ssmprobe eval`: accuracy of trained probes, effect of their order, localisation of known objects, baselines.

mod output;

use std::sync::{Mutex, PoisonError};

use clap::ValueEnum as _;
use indicatif::ProgressBar;

use super::jobs;
use super::on_flags::OnFlags;
use crate::app::cli::prelude::*;
use crate::app::jobs::evaluate::verb::{EvalEvent, EvalFlags, EvaluatedProbe, RowFormat};
use crate::app::jobs::result_file::ResultFile;
use crate::app::jobs::{Compute, Event};
use crate::app::paths::make_folder;
use crate::app::submit::plan::JOIN;
use crate::app::submit::{Stage, SubmitFlags, SubmitTarget};
use crate::model::explain::baselines::Baseline;
use crate::model::io::atomic_file;

/// Evaluate trained probes: accuracy, disturbed orders, localisation of objects, baselines.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub struct Eval {
    #[command(flatten)]
    flags: EvalFlags,
    #[command(flatten)]
    on: OnFlags,
    /// Print one JSON document per line, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    submit: SubmitFlags,
}

const LONG: &str = r#"If the dataset has a folder `masks` beside its splits (masks/<split>/<class>/<name>.png, white is
the object), or --masks names a folder of masks, eval also measures how well each head finds the
object: ROC AUC over tokens of their weights and of the evidence for the image's own class, and
the share of the evidence on the object. Masks with a palette, or with greys up to 50 or named,
hold a region for every index (names.txt beside them names each). CUB's segmentations, boxes and
parts are known too, and the boxes of Stanford Cars. For every region the results say when it is
read, how much its tokens count and add, and which is read before which (`ssmprobe report --table
regions`).

For heads with a router every diagnostic of their plans is kept too: its mean over the images,
beside that of random scores and of untrained scorers (`ssmprobe report --table diagnostics`).

--evaluation writes for every image its name, class, prediction, whether that is correct (1, 0),
its probability, the five most probable classes, the probability of its own class, every
diagnostic, and z, p and headroom of the order test; with --causal the mean height of every
removal curve, with --stability the mean tau of every kind of change. The JSON also holds three
numbers for every token, in float16: its position, what it adds to the image's own class, and its
weight (50,000 images of 196 tokens: 59 MB, 78 MB in the file).

For heads whose memory has a kernel by position, every image's order is tested against all orders
of its tokens (`ssmprobe report --table order`). --causal adds removal curves for every ranking
(`ssmprobe report --table causal`), --keep-last the accuracy by tokens kept for every head with a
memory by position (--table last), --stability what is left of every single order (--table
stability).

--reading applies to every image and probe, and is part of the file names: <probe>-order-mine.csv.

--json prints {"event": "probe", "probe", "head", "seed", "which", "reading", "evaluation"} for
every probe, {"event": "survey", "probe", "files"} with --evaluation, {"event": "failure",
"probe", "error"} for one that cannot be evaluated, {"event": "anchor", ...} and last
{"event": "end", "images", "masks", "probes", "file"}.

Exit codes: 0 at least one probe was evaluated, 1 none was or it failed, 2 wrong usage, 130
stopped by Ctrl-C."#;

/// Prints the events of the job, and collects the results for the table.
struct Report {
    flags: EvalFlags,
    json: bool,
    results: Mutex<Results>,
}

#[derive(Default)]
struct Results {
    probes: Vec<EvaluatedProbe>,
    baselines: Vec<Baseline>,
    images: usize,
    masks: usize,
    /// Tables of images that earlier evaluations left beside the files of this one.
    others: Vec<String>,
}

impl Eval {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        let EvalFlags { part, join, .. } = &self.flags;
        let is_task = part.is_some() || join.is_some();
        let in_parts = self.submit.submit.is_some() || is_task;
        if in_parts && self.on.host().is_some() {
            refuse!(
                "--on evaluates in one process there: --submit, --part and --join work only on this machine"
            );
        }
        if in_parts && self.flags.stability {
            refuse!("--stability reads changed images for all probes at once: use it without --submit");
        }
        if let Some(place) = self.submit.place(is_task)? {
            return self.submit(place);
        }
        if let Some(folder) = &self.flags.evaluation {
            let refused =
                |why| Usage(format!("--evaluation {}: cannot be written to: {why}", folder.display()));
            atomic_file::can_write(folder).map_err(refused)?;
        }
        let report = Report { flags: self.flags.clone(), json: self.json, results: Mutex::default() };
        let ended = self.on.perform(Compute::Eval(Box::new(self.flags)), &|event, bar| match event {
            Event::Eval { event, .. } => report.print_event(event, bar),
            _ => Ok(()),
        })?;
        Ok(if ended { ExitCode::SUCCESS } else { interrupt::code() })
    }

    /// Submits the evaluation as tasks, each on some of the images; the last one joins their results.
    fn submit(&self, place: SubmitTarget) -> anyhow::Result<ExitCode> {
        let folder = self.flags.home()?;
        let tasks = self.submit.required_tasks()?.min(self.flags.images()?.max(1));
        let words = SubmitFlags::other_arguments()?;
        let join = words.iter().cloned().chain([format!("--join={tasks}")]).collect();
        let stages = vec![Stage::cut("eval", words, tasks), Stage::single(JOIN, join)];
        jobs::submit(&folder, place, &self.submit, stages, self.json)
    }
}

impl Report {
    fn print_event(&self, event: EvalEvent, bar: &ProgressBar) -> anyhow::Result<()> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.flags.evaluation.as_deref();
        bar.suspend(|| match event {
            EvalEvent::Note(text) => {
                say!("{text}");
                Ok(())
            }
            EvalEvent::Begun => folder.map_or(Ok(()), make_folder),
            EvalEvent::LeftOut { probe, error } => {
                let probe = probe.display().to_string();
                let of = if error.starts_with(&probe) { String::new() } else { format!("{probe}: ") };
                say!("warning: left out: {of}{error}");
                self.print_json(|| json!({"event": "failure", "probe": probe, "error": error}))
            }
            EvalEvent::Evaluated(probe) => {
                let EvaluatedProbe { file, metrics, .. } = &*probe;
                self.print_json(|| output::document(file, &self.flags.reading, metrics))?;
                results.probes.push(*probe);
                Ok(())
            }
            EvalEvent::Evaluation { probe, files } => {
                let Some(folder) = folder else { return Ok(()) };
                results.others.extend(tables_of_others(folder, &files));
                files.iter().try_for_each(|file| file.save(folder))?;
                let shown = |file: ResultFile| folder.join(file.path).display().to_string();
                let (probe, files) =
                    (probe.display().to_string(), files.into_iter().map(shown).collect::<Vec<_>>());
                self.print_json(|| json!({"event": "survey", "probe": probe, "files": files}))
            }
            EvalEvent::Baseline(baseline) => {
                self.print_json(|| super::event("anchor", &baseline))?;
                results.baselines.push(baseline);
                Ok(())
            }
            EvalEvent::Found { title, images, masks } => {
                (results.images, results.masks) = (images, masks);
                if self.json {
                    return Ok(());
                }
                stdout::text(output::table(&title, &results.probes, &results.baselines))
            }
            EvalEvent::Kept(file) => {
                if let (Some(folder), false) = (folder, results.others.is_empty()) {
                    let (folder, others) = (folder.display(), results.others.join(", "));
                    say!("warning: {folder}: not of this evaluation, perhaps of an earlier one: {others}");
                }
                let Results { images, masks, ref probes, .. } = *results;
                self.print_json(|| {
                    let (probes, file) = (probes.len(), file.as_ref().map(|file| file.display().to_string()));
                    json!({"event": "end", "images": images, "masks": masks, "probes": probes, "file": file})
                })?;
                let Some(file) = file else { return Ok(()) };
                say!("saved to {}", file.display());
                // Reports are of the best epoch's probes.
                let EvalFlags { run, causal, last: false, .. } = &self.flags else { return Ok(()) };
                if let (Some(run), Some(_)) = (run, causal) {
                    say!("`ssmprobe report {} --table causal` shows the removal curves", shell_path(run));
                }
                Ok(())
            }
        })
    }

    fn print_json(&self, document: impl FnOnce() -> Value) -> anyhow::Result<()> {
        if self.json { stdout::line(document()) } else { Ok(()) }
    }
}

/// Names of the tables in `folder` that would lie beside `files`, those of a probe, in a format that is not among them; none where
/// the evaluation there is the same.
fn tables_of_others(folder: &Path, files: &[ResultFile]) -> Vec<String> {
    let [evaluation, .., table] = files else { return Vec::new() };
    let before = atomic_file::read(&folder.join(&evaluation.path), evaluation.bytes.len() as u64);
    if before.is_ok_and(|before| before == evaluation.bytes) {
        return Vec::new();
    }
    let formats = RowFormat::value_variants().iter().filter_map(RowFormat::to_possible_value);
    let tables = formats.map(|format| table.path.with_extension(format.get_name()));
    let others = tables.filter(|path| files.iter().all(|file| file.path != *path));
    others.filter(|path| folder.join(path).exists()).map(|path| path.display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_another_evaluation_in_another_format_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &str| ResultFile { path: name.into(), bytes: bytes.into() };
        let evaluate = |format: &str, bytes: &str| {
            let files = [file("p[a=0.1].survey.json", bytes), file(&format!("p[a=0.1].{format}"), bytes)];
            let others = tables_of_others(folder.path(), &files);
            files.iter().for_each(|file| file.save(folder.path()).unwrap());
            others
        };
        let none = <[String; 0]>::default();
        assert_eq!(evaluate("csv", "first"), none);
        assert_eq!(evaluate("parquet", "first"), none, "the same numbers");
        assert_eq!(evaluate("csv", "second"), ["p[a=0.1].parquet"]);
        assert_eq!(evaluate("parquet", "third"), ["p[a=0.1].csv"]);
        let both =
            ["survey.json", "csv", "parquet"].map(|ending| file(&format!("p[a=0.1].{ending}"), "fourth"));
        assert_eq!(tables_of_others(folder.path(), &both), none, "both are written");
    }
}
