//! `ssmprobe train`: heads on the tokens of a frozen backbone, by the paper's protocol.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::tokens::TokenFlags;
use super::{extract, fetch};
use crate::app::jobs::extract::ExtractError;
use crate::app::jobs::train::{self, Event, Summary, TrainPlan, TrainSpec, TrainingError, plan, settings};
use crate::app::terminal::error::Usage;
use crate::app::terminal::progress::{self, Display};
use crate::app::terminal::stdout::say;
use crate::app::terminal::{interrupt, stdout};
use crate::model::train::TrainConfig;
use crate::model::train::run::{Metric, Outcome, Run, Variant};
use crate::model::{backbone, device};

/// Train probes on a dataset, all heads together, into a run's folder.
#[derive(Args)]
#[command(after_long_help = format!("{}\n{}\n{LONG}", settings::listed(), backbone::listed()))]
pub struct Train {
    /// Heads, with commas between them; `paper` and `all` are lists of them.
    #[arg(long, value_name = "HEADS", value_delimiter = ',', required_unless_present = "resume")]
    heads: Vec<String>,
    /// Settings of heads: KEY=VALUE for all that know it, HEAD.KEY=VALUE for one.
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., requires = "heads")]
    config: Vec<String>,
    #[command(flatten)]
    how: TrainArgs,
}

/// On what, how, and where to: flags that every training has.
#[derive(Args)]
pub struct TrainArgs {
    /// The backbone: a folder, or an id of the Hugging Face Hub (ORGANISATION/NAME[@REVISION]).
    #[arg(long, value_name = "DIR|HUB_ID", required_unless_present = "resume")]
    backbone: Option<String>,
    /// The dataset: a folder, or a table of paths and labels.
    #[arg(long, value_name = "DIR|TABLE", required_unless_present = "resume")]
    data: Option<PathBuf>,
    /// Passes over the training images (paper: 5 on ImageNet, 100 on CUB and Cars) [default: 100].
    #[arg(long, value_name = "E", value_parser = at_least_one)]
    epochs: Option<usize>,
    /// Number of seeds (0, 1, ...), one training of all heads each; more of them add to a run that is
    /// gone on with [default: 1].
    #[arg(long, value_name = "S", value_parser = at_least_one)]
    seeds: Option<usize>,
    /// Images in one step [default: 256].
    #[arg(long, value_name = "B", value_parser = at_least_one)]
    batch: Option<usize>,
    /// Learning rate at the start of its cosine [default: 0.001].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Pick the best epoch on this share of the training images, which are then not trained on
    /// [default: on the validation split where there is a test split too, else on the test images].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    select_split: Option<f64>,
    /// Folder of the run.
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
    /// Go on with the run in RUN, where there is one; `--resume --out RUN` is enough then.
    #[arg(long)]
    resume: bool,
    /// Keep no tokens: run the backbone again on every batch, for datasets whose tokens fit on no disk.
    /// Results are those of a cache, to the bit on the CPU.
    #[arg(long)]
    recompute: bool,
    #[command(flatten)]
    tokens: TokenFlags,
    /// Where to compute: cpu, wgpu, cuda or auto [default: auto, or where the run was begun].
    #[arg(long)]
    device: Option<String>,
    /// Print one JSON document a line, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

const LONG: &str = r#"The run's folder:
  run.json        configuration, versions, hashes, seeds, backbone and dataset
  metrics.jsonl   one line for every seed, head and epoch
  losses/         s<seed>.safetensors: training loss within every epoch, head by head
  results.csv     head, seed, best, last, best_epoch, parameters, seconds (accuracies in percent)
  probes/         <head>-s<seed>-best.safetensors and -last: `ssmprobe inspect` reads them
  answers/        predicted class of every test image, and the true ones
  state/          what a stopped or killed run goes on from (--resume), on the CPU to the same bits
Every file is written whole or not at all.

--json prints {"event": "plan", ...}, {"event": "epoch", "head", "seed", "epoch", "loss", "train",
"select", "test"}, {"event": "unreadable", "image", "error"} and last {"event": "end", "run",
"finished", "results"}.

Exit codes: 0 done, 1 failed, or every head stopped, 2 wrong usage, 130 stopped by Ctrl-C (saved; a second one quits at once)."#;

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=1_000_000).contains(&count) => Ok(count),
        _ => Err("expected a whole number from 1 to 1000000".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("expected a number above 0".into()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("expected a number between 0 and 1".into()),
    }
}

impl Train {
    /// Trains. A stopped training is saved and no failure.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let heads = match self.heads.is_empty() {
            true => None,
            false => Some(plan::variants(&self.heads, &self.config)?),
        };
        self.how.run(heads)
    }
}

impl TrainArgs {
    /// Trains `heads`, or goes on with the run's own.
    pub fn run(self, heads: Option<Vec<Variant>>) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        let (out, resume) = (self.out.clone(), self.resume);
        let spec = TrainSpec { order: self.order(heads)?, out, resume };
        let mut display = Display::new();
        let (mut trained, mut working) = (false, None);
        let result = train::run(device::choose, &spec, &mut |event| {
            trained |= matches!(event, Event::Step { .. });
            if matches!(event, Event::Begin { .. }) {
                working = Some(interrupt::working());
            }
            self.tell(&event, &spec.order, &mut display);
            interrupt::flow()
        });
        display.clear();
        drop(working);
        let summary = match result {
            Err(TrainingError::Extract(stopped @ ExtractError::Stopped { .. })) => {
                say!("{stopped}");
                return Ok(interrupt::code());
            }
            other => other?,
        };
        self.finish(&summary, trained)?;
        let all_failed = summary.outcomes.iter().all(|outcome| outcome.failure.is_some());
        Ok(match summary.finished {
            true if all_failed => ExitCode::FAILURE,
            true => ExitCode::SUCCESS,
            false => interrupt::code(),
        })
    }

    /// What is to be trained: as the run says that is gone on with, where there is one, with what the
    /// flags say besides; else as the flags say.
    fn order(&self, heads: Option<Vec<Variant>>) -> anyhow::Result<TrainPlan> {
        if self.resume && self.out.join("run.json").exists() {
            return self.resumed(&Run::open(&self.out)?, heads);
        }
        let (Some(source), Some(data), Some(heads)) = (&self.backbone, &self.data, heads) else {
            let out = self.out.display();
            return Err(Usage(format!(
                "{out} holds no run to resume; --backbone, --data and the heads begin one"
            ))
            .into());
        };
        let mut order = TrainPlan {
            backbone_source: source.clone(),
            tokens: self.tokens.wanted(source)?,
            data: data.clone(),
            heads,
            protocol: TrainConfig::default(),
            seeds: vec![0],
            selection: None,
            recompute: false,
            device: "auto".into(),
        };
        self.over(&mut order);
        Ok(order)
    }

    /// What a run was begun with, and what the flags say instead: where that is something else, the
    /// training refuses it.
    fn resumed(&self, run: &Run, heads: Option<Vec<Variant>>) -> anyhow::Result<TrainPlan> {
        let source = self.backbone.as_ref().unwrap_or(&run.manifest.backbone_source);
        let folder = fetch::backbone(source)?;
        let (root, limit) = (self.tokens.root(run)?, self.tokens.limit());
        let mut order = TrainPlan::of_run(run, folder, root, limit, None)?;
        self.tokens.over(&mut order.tokens);
        order.data = self.data.clone().unwrap_or(order.data);
        order.heads = heads.unwrap_or(order.heads);
        self.over(&mut order);
        Ok(order)
    }

    /// Puts what the flags say into an order.
    fn over(&self, order: &mut TrainPlan) {
        let TrainConfig { epochs, batch, rate } = &mut order.protocol;
        *epochs = self.epochs.unwrap_or(*epochs);
        *batch = self.batch.unwrap_or(*batch);
        *rate = self.rate.unwrap_or(*rate);
        if let Some(seeds) = self.seeds {
            order.seeds = (0..seeds as u64).collect();
        }
        order.selection = self.select_split.or(order.selection);
        order.recompute |= self.recompute;
        if let Some(device) = &self.device {
            order.device.clone_from(device);
        }
    }

    /// Tells what happens.
    fn tell(&self, event: &Event, order: &TrainPlan, display: &mut Display) {
        let epochs = order.protocol.epochs;
        match event {
            Event::Plan { tokens, dataset, steps } => {
                match order.recompute && !tokens.complete() {
                    true => display.say("tokens: none are kept, the backbone runs again on every batch"),
                    false => display.say(&extract::describe(tokens)),
                }
                display.say(&format!("training: {steps} steps of all heads"));
                self.print(display, || {
                    json!({"event": "plan", "images": dataset.samples.len(), "steps": steps,
                           "bytes": tokens.bytes, "done": tokens.done})
                });
            }
            Event::Extract { event, dataset } => {
                display.extract(event, |sample| dataset.samples[sample].source.name());
                if let crate::app::jobs::extract::Event::Unreadable { sample, why } = event {
                    let image = dataset.samples[*sample].source.name();
                    self.print(display, || json!({"event": "unreadable", "image": image, "error": why}));
                }
            }
            Event::Begin { run, device } => {
                let data = &run.manifest.dataset;
                display.say(&format!(
                    "{}: {} images to train on, {} to test on, {} classes, on {}",
                    data.name,
                    data.train,
                    data.test,
                    data.classes.len(),
                    device
                ));
                if let Some(warning) = &run.manifest.warning {
                    display.say(&format!("note: {warning}"));
                }
            }
            Event::Step { seed, position, learners, progress, .. } => {
                let what = format!("seed {seed}, epoch {} of {epochs}", position.epoch + 1);
                display.show(&what, progress, &progress::running(learners));
            }
            Event::Epoch { seed, position, learners } => {
                let heads = progress::closed(learners);
                let line = format!("seed {seed}, epoch {} of {epochs}: {heads}", position.epoch);
                display.milestone(&line, position.epoch == epochs);
                for learner in *learners {
                    if let (None, Some(epoch)) = (&learner.failure, learner.history.last()) {
                        let (head, epoch) = (learner.name.clone(), epoch.clone());
                        self.print(display, || event_of(&Metric { head, seed: *seed, epoch }));
                    }
                }
            }
            Event::Evaluation | Event::Seed(_) => {}
        }
    }

    /// The results, where they lie, and whether anything was `trained` for them.
    fn finish(&self, summary: &Summary, trained: bool) -> anyhow::Result<()> {
        let Summary { run, outcomes, finished } = summary;
        for outcome in outcomes {
            if let Some(failure) = &outcome.failure {
                say!("warning: {} with seed {} stopped: {failure}", outcome.head, outcome.seed);
            }
        }
        let out = run.folder().display();
        if self.json {
            let results: Vec<Value> = outcomes.iter().map(result).collect();
            let end = json!({"event": "end", "run": run.folder(), "finished": finished, "results": results});
            stdout::line(end)?;
        } else {
            stdout::line(format_args!(
                "{:<18} {:>4} {:>7} {:>7} {:>10}",
                "head", "seed", "best", "last", "best_epoch"
            ))?;
            for outcome in outcomes {
                let percent = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
                let (best, last) = (percent(outcome.best_accuracy()), percent(outcome.last_accuracy()));
                let epoch = outcome.best_epoch.map_or("-".into(), |epoch| (epoch + 1).to_string());
                stdout::line(format_args!(
                    "{:<18} {:>4} {best:>7} {last:>7} {epoch:>10}",
                    outcome.head, outcome.seed
                ))?;
            }
        }
        match finished {
            true if trained => say!("the run is in {out}"),
            true => say!("the run in {out} was finished: nothing was trained; more --seeds add to it"),
            false => say!("stopped and saved; `ssmprobe train --resume --out {out}` resumes it"),
        }
        Ok(())
    }

    fn print(&self, display: &Display, document: impl FnOnce() -> Value) {
        if self.json {
            display.print(&document().to_string());
        }
    }
}

fn event_of(metric: &Metric) -> Value {
    let mut value = json!({"event": "epoch"});
    if let (Value::Object(all), Ok(Value::Object(own))) = (&mut value, serde_json::to_value(metric)) {
        all.extend(own);
    }
    value
}

/// An outcome without its answers.
fn result(outcome: &Outcome) -> Value {
    json!({
        "head": outcome.head,
        "seed": outcome.seed,
        "best": outcome.best_accuracy(),
        "last": outcome.last_accuracy(),
        "best_epoch": outcome.best_epoch.map(|epoch| epoch + 1),
        "parameters": outcome.parameters,
        "seconds": outcome.seconds,
        "failure": outcome.failure,
    })
}
