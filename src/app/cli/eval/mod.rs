//! `ssmprobe eval`: what trained probes do on images: accuracy, what their order was worth, how they
//! meet known objects, and anchors beside them.

mod eval_probes;
mod files;
mod output;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use burn::tensor::Device;
use clap::Args;
use serde_json::json;

use self::eval_probes::{Asked, Question, Subject, readable};
use super::inspect::sources::named;
use super::over::Over;
use super::{extract, fetch};
use crate::app::jobs::engine::{Engine, WorkerEnv};
use crate::app::jobs::evaluate::{ask_all, eval_set};
use crate::app::jobs::extract::{ExtractOptions, ExtractSpec, Extracted, Plan, TokenSettings};
use crate::app::jobs::regions::{RegionSource, of_samples};
use crate::app::jobs::tokens::{doubt, preprocessor};
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::train::resume::same_tokens;
use crate::app::report::run_metrics::{ProbeMetrics, RunMetrics};
use crate::app::terminal::error::{self, Usage};
use crate::app::terminal::reporter::TerminalReporter;
use crate::app::terminal::stdout::say;
use crate::app::terminal::{interrupt, stdout};
use crate::app::{format, jobs};
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::Split;
use crate::model::data::token_cache::TokenKey;
use crate::model::explain::baselines::{Anchor, anchors};
use crate::model::explain::evaluation::evaluator::Evaluator;
use crate::model::explain::evaluation::metrics::MetricsSpec;
use crate::model::explain::evaluation::vectors::vector_bytes;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::{DRAWS, NullBands};
use crate::model::explain::removal::{Mode, RemovalSpec};
use crate::model::io::atomic_file;
use crate::model::probe::Probe;
use crate::model::train::run::{ProbeCheckpoint, Run};
use crate::model::{data, device};

/// Evaluate trained probes: accuracy, disturbed orders, known objects, anchors.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub struct Eval {
    /// A run's folder: its backbone, dataset, probes and test images. What is found is kept there, for
    /// `ssmprobe report`.
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,
    /// The backbone: a folder, or an id of the Hugging Face Hub (ORGANISATION/NAME[@REVISION]).
    #[arg(long, value_name = "DIR|HUB_ID")]
    backbone: Option<String>,
    /// The dataset: a folder, or a table of paths and labels.
    #[arg(long, value_name = "DIR|TABLE")]
    data: Option<PathBuf>,
    /// Probe files.
    #[arg(long, value_name = "P.safetensors", conflicts_with = "run", num_args = 1..)]
    probe: Vec<PathBuf>,
    /// Of a run, evaluate the probes after the last epoch, not those of the best one.
    #[arg(long, requires = "run")]
    last: bool,
    /// The images: train, val or test [default: the test split, or val where there is none].
    #[arg(long, value_name = "SPLIT", value_parser = split, conflicts_with = "run")]
    split: Option<Split>,
    /// Where regions of the images are known from: a folder of masks (PNG) with the images' names, or a dataset's folder with
    /// annotations of CUB or Stanford Cars [default: those that the dataset brings along].
    #[arg(long, value_name = "DIR")]
    masks: Option<PathBuf>,
    /// Also disturb the order: scrambled after routing, no routing, random order. Nothing is trained anew.
    #[arg(long)]
    ablations: bool,
    /// Also take every image's tokens away, and put them back, the most important first, and keep the mean heights of the
    /// probability of its own class: frozen (plan and weights stay) or rerouted (the head reads what is left); `inspect
    /// --causal` has patches and pixels, too. Every probe reads every image up to a thousand times: give few images.
    #[arg(long, value_name = "MODE[,MODE]", value_parser = modes)]
    causal: Option<Modes>,
    /// How the probes read, none of them retrained: as-trained, scrambled[=SEED] (after routing), hardened, no-routing,
    /// random-order[=SEED], order=FILE, temperature=T or iterations=K. Of a run nothing is kept then.
    #[arg(long, value_name = "READING", default_value = "as-trained", conflicts_with = "ablations")]
    reading: Intervention,
    /// Also nearest neighbours and logistic regression on CLS and mean tokens of the training images.
    #[arg(long)]
    anchors: bool,
    /// Also write what every probe makes of every image into this folder: <probe>.survey.json, which
    /// `ssmprobe figures --evaluation` draws and `ssmprobe similar` compares images by, and <probe>.csv, a row an image.
    #[arg(long, alias = "survey", value_name = "DIR")]
    evaluation: Option<PathBuf>,
    /// Seed of disturbed orders and of null bands.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    tokens: Over<TokenSettings>,
    /// Where to take tokens: cpu, wgpu, cuda or auto. Probes are read in float64 on the processor.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Print one JSON document a line, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

const LONG: &str = r#"Where the dataset has a folder `masks` beside its splits (masks/<split>/<class>/<name>.png, white
is the object), or --masks names a folder of masks, it is also asked how well each head finds the object: ROC AUC
over tokens of what they count and of the evidence for the image's own class, and the share of the evidence on it.
Masks with a palette, or with greys up to 50, hold a region for every index (names.txt beside them names each). Of CUB
the segmentations, boxes and parts are known too, of Stanford Cars the boxes. Of every region it is kept when it is
read, how much its tokens count and add, and which is read before which (`ssmprobe report --table regions`).

Of heads with a router every diagnostic of their plans is kept too: its mean over the images, beside
what random scores and untrained scorers give (`ssmprobe report --table diagnostics`).

--evaluation writes of every image its name, class, prediction, whether that is right (1, 0), its
probability, the five most probable classes, the probability of its own class, every diagnostic, and
z, p and headroom of the order test; with --causal the mean height of every removal curve. The JSON also
keeps three numbers of every token, in float16: where it came, what it adds to the image's own class, and what it
counts (50,000 images of 196 tokens: 59 MB, 78 MB in the file).

Of heads whose memory has a kernel by position every image's order is tested against all orders of its
tokens (`ssmprobe report --table order`). With --causal every ranking has removal curves (`ssmprobe report
--table causal`).

--reading reads every image of every probe so, and stands in the names of files: <probe>-order-mine.csv.

--json prints {"event": "probe", "probe", "head", "seed", "reading", "evaluation"} for every probe, {"event":
"survey", "probe", "files"} with --evaluation, {"event": "failure", "probe", "error"} for one that cannot
be asked, {"event": "anchor", ...} and last
{"event": "end", "images", "masks", "probes", "file"}.

Exit codes: 0 at least one probe was asked, 1 none was or it failed, 2 wrong usage, 130 stopped by
Ctrl-C."#;

/// A list of modes in one value.
#[derive(Clone)]
struct Modes(Vec<Mode>);

fn modes(text: &str) -> Result<Modes, String> {
    let modes = Mode::list(text)?;
    match modes.iter().find(|mode| mode.needs_encoder()) {
        Some(mode) => Err(format!("`{}` needs the encoder: it is of `inspect --causal`", mode.id())),
        None => Ok(Modes(modes)),
    }
}

fn split(text: &str) -> Result<Split, String> {
    Split::ALL
        .into_iter()
        .find(|split| split.name() == text)
        .ok_or_else(|| "expected train, val or test".into())
}

impl Eval {
    /// Asks every probe.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        if self.run.is_none() && (self.backbone.is_none() || self.data.is_none() || self.probe.is_empty()) {
            return Err(Usage("give --run RUN, or --backbone, --data and --probe".into()).into());
        }
        let run = self.run.as_deref().map(Run::open).transpose()?;
        let begun = run.as_ref().map(TrainSettings::of_run).transpose()?;
        let device = device::open(&self.device)?;
        let wanted = self.wanted(begun.as_ref(), &device)?;
        // Its dataset may have moved.
        let data = self.data.clone().or_else(|| begun.as_ref()?.data.clone()).expect("asked for above");
        let dataset = data::open(&data)?;
        let selection = begun.as_ref().and_then(|begun| begun.selection);
        let question = match &run {
            Some(run) => Question::of_run(run, &dataset, selection)?,
            None => Question::of_split(&dataset, self.split)?,
        };
        let subjects = match &run {
            Some(run) => {
                Subject::of_run(run, if self.last { ProbeCheckpoint::Last } else { ProbeCheckpoint::Best })?
            }
            None => self.probe.iter().map(|path| Subject::of_file(path)).collect(),
        };
        let plan = Plan::new(wanted.clone(), &dataset)?;
        match &run {
            Some(run) => same_tokens(run, &plan.source)?,
            None => self.warn(&plan, &wanted.tokens.taking),
        }
        let (subjects, left_out) = self.fitting(subjects, &question, &plan, &dataset.classes)?;
        // Without anchors the training images are not needed, unless their tokens are there anyway.
        let whole = self.anchors || plan.complete();
        let (dataset, question) = if whole { (dataset, question) } else { question.alone(&dataset) };
        let plan = if whole { plan } else { plan.for_dataset(&dataset)? };
        let mut reporter = TerminalReporter::new();
        reporter.display.say(&extract::describe(&plan));
        let spec = ExtractSpec { plan: &plan, dataset: &dataset, device: &device };
        let mut engine = Engine::new(WorkerEnv::default());
        let taken = jobs::extract::run(&mut engine, &spec, &mut reporter);
        let Some(Extracted { cache, .. }) = reporter.end(taken)? else { return Ok(interrupt::code()) };
        // What is asked from here on is kept.
        let _working = interrupt::working();
        if let Some(folder) = &self.evaluation {
            atomic_file::make_folder(folder)
                .with_context(|| format!("{}: cannot be made", folder.display()))?;
            let bytes = vector_bytes(question.asked.images.len(), cache.grid().len());
            say!(
                "keeping three numbers of every token: {} a probe, a third more in its file",
                format::bytes(bytes)
            );
        }
        let nulls = NullBands::new(DRAWS, self.seed);
        let [asked_about, known] = [&question.asked, &question.known].map(|set| readable(set, &cache));
        if asked_about.images.is_empty() {
            bail!("none of the {} {} images can be read", question.asked.images.len(), question.split);
        }
        let places = &question.asked.images;
        let read: Vec<Option<usize>> = places.iter().map(|&at| cache.readable(at).then_some(at)).collect();
        let from = RegionSource::new(self.masks.clone());
        let preprocessor = preprocessor(&wanted.backbone, wanted.tokens.taking.size)?;
        let images = (&dataset, &read[..]);
        let regions = of_samples(&mut engine, &from, images, &preprocessor, cache.grid(), &mut reporter);
        let Some(regions) = reporter.end(regions)? else { return Ok(interrupt::code()) };
        let set = Arc::new(eval_set(&dataset, question.split, places));
        let causal = self.causal.clone().map(|Modes(modes)| RemovalSpec {
            modes,
            seed: self.seed,
            ..RemovalSpec::default()
        });
        let ablations = self.ablations.then_some(self.seed);
        let spec = MetricsSpec { ablations, causal: causal.as_ref(), regions: &regions.of };
        let mut asked = Vec::new();
        let reading = if self.reading.is_none() { String::new() } else { format!("-{}", self.reading.id()) };
        let names = named(subjects.iter().map(|subject| subject.path.clone()).collect());
        let names: Vec<String> = names.into_iter().map(|name| name + &reading).collect();
        for (subject, name) in subjects.iter().zip(&names) {
            let answer = subject.load().and_then(|(probe, file)| {
                question.check_classes(&probe, &dataset.classes)?;
                let images = (&places[..], &question.draws[..]);
                let evaluator =
                    Evaluator::new(&probe, self.reading.clone(), &cache, set.clone(), images, &nulls)?;
                let evaluator = evaluator.with_metrics(spec);
                let mut evaluator =
                    if self.evaluation.is_some() { evaluator.with_vectors() } else { evaluator };
                let ended = ask_all(&mut engine, &mut evaluator, &subject.name(), &mut reporter);
                if reporter.end(ended)?.is_none() {
                    return Ok(None);
                }
                let metrics = evaluator.metrics().context("none of its images was read")?;
                let backbone = probe.meta.backbone.id.clone();
                let change = &self.reading;
                let files =
                    self.evaluation.as_ref().map(|to| files::write(to, name, evaluator, backbone, change));
                Ok(Some((Asked { subject, file, metrics }, files)))
            });
            match answer {
                Ok(Some((answer, files))) => {
                    self.print(|| output::document(subject, &self.reading, &answer.metrics))?;
                    asked.push(answer);
                    if let Some(files) = files.transpose()? {
                        self.print(|| json!({"event": "survey", "probe": subject.path, "files": files}))?;
                    }
                }
                // Stopped in its middle: half the images say nothing.
                Ok(None) => {}
                Err(error) => self.leave_out(subject, &error)?,
            }
            // What was asked until then is shown and kept.
            if interrupt::flow().is_break() {
                break;
            }
        }
        let stopped = interrupt::flow().is_break();
        if asked.is_empty() && stopped {
            say!("stopped before the first probe was asked about every image");
            return Ok(interrupt::code());
        }
        if asked.is_empty() {
            bail!("none of the {} probes could be asked", subjects.len() + left_out);
        }
        let found = match self.anchors && !stopped {
            true => anchors(&cache, &known, &asked_about, dataset.classes.len()),
            false => Vec::new(),
        };
        for anchor in &found {
            self.print(|| output::anchor(anchor))?;
        }
        let images = asked_about.images.len();
        if !self.json {
            let read = if self.reading.is_none() { String::new() } else { format!(", {}", self.reading) };
            let name = format!("{images} {} images of {}{read}", question.split, dataset.name);
            stdout::text(output::table(&name, &asked, &found, regions.known()))?;
        }
        let kept = run.as_ref().filter(|_| self.reading.is_none());
        let file = kept.map(|run| keep(run, self.seed, &asked, found)).transpose()?;
        self.print(|| {
            let masks = regions.known();
            json!({"event": "end", "images": images, "masks": masks, "probes": asked.len(), "file": file})
        })?;
        if let Some(file) = file {
            say!("kept in {}", file.display());
        }
        Ok(if stopped { interrupt::code() } else { ExitCode::SUCCESS })
    }

    /// The tokens of the run, or those the probes were trained on, as far as their files and the flags say.
    fn wanted(&self, begun: Option<&TrainSettings>, device: &Device) -> anyhow::Result<ExtractOptions> {
        let source = self.backbone.as_ref().or(begun.map(|begun| &begun.backbone));
        let backbone = fetch::backbone(source.expect("asked for without --run"))?;
        let mut tokens = self.tokens.over(begun.map(|begun| begun.tokens.clone()).unwrap_or_default());
        if begun.is_none() {
            let probes = self.readable();
            let probes = probes.iter().map(|(path, probe)| (*path, probe));
            tokens.taking = self.tokens.part::<TokenSpec>().of_probes(probes, &backbone, device)?;
        }
        Ok(ExtractOptions { backbone, tokens })
    }

    /// The probes that can be read; what is wrong with the others is said when they are asked.
    fn readable(&self) -> Vec<(&Path, Probe)> {
        self.probe.iter().filter_map(|path| Some((path.as_path(), Probe::load(path).ok()?))).collect()
    }

    /// The probes that can be asked, before any image is read; says of the others, which it counts, why not.
    fn fitting(
        &self,
        subjects: Vec<Subject>,
        question: &Question,
        plan: &Plan,
        classes: &[String],
    ) -> anyhow::Result<(Vec<Subject>, usize)> {
        let (mut fitting, all) = (Vec::new(), subjects.len());
        for subject in subjects {
            let fits = subject.load().and_then(|(probe, _)| {
                probe.fits(plan.backbone.hidden_size, plan.grid.len(), plan.cls)?;
                question.check_classes(&probe, classes)
            });
            match fits {
                Ok(()) => fitting.push(subject),
                Err(error) => self.leave_out(&subject, &error)?,
            }
        }
        if fitting.is_empty() {
            bail!("none of the {all} probes can be asked; no image was read");
        }
        let left_out = all - fitting.len();
        Ok((fitting, left_out))
    }

    fn leave_out(&self, subject: &Subject, error: &anyhow::Error) -> anyhow::Result<()> {
        let (path, error) = (&subject.path, error::lines(error).join(": "));
        let named = error.starts_with(&path.display().to_string());
        let of = if named { String::new() } else { format!("{}: ", path.display()) };
        say!("warning: left out: {of}{error}");
        self.print(|| json!({"event": "failure", "probe": path, "error": error}))
    }

    /// Says of every probe that was trained on other tokens that it was.
    fn warn(&self, plan: &Plan, taking: &TokenSpec) {
        let TokenKey { weights, preprocessing, .. } = &plan.source;
        for (path, probe) in self.readable() {
            if let Some(why) = doubt(&probe, weights, &plan.settled(taking), preprocessing) {
                say!("warning: probe {} {why}; its numbers may mean little", path.display());
            }
        }
    }

    fn print(&self, document: impl FnOnce() -> serde_json::Value) -> anyhow::Result<()> {
        if self.json { stdout::line(document()) } else { Ok(()) }
    }
}

/// Keeps what was found, drawn from the seed `draws`, in the run's folder; returns the file.
fn keep(run: &Run, draws: u64, asked: &[Asked], anchors: Vec<Anchor>) -> anyhow::Result<PathBuf> {
    let probes = asked.iter().filter_map(|Asked { subject, file, metrics }| {
        let (head, seed, which) = subject.of.clone()?;
        let (which, metrics) = (which.name().to_owned(), metrics.clone());
        Some(ProbeMetrics { head, seed, which, file: Some(file.clone()), draws: Some(draws), metrics })
    });
    Ok(RunMetrics { probes: probes.collect(), anchors }.keep(run)?)
}
