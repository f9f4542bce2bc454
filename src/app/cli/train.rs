//! `ssmprobe train`: heads on the tokens of a frozen backbone, by the paper's protocol.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::on::On;
use super::{extract, fetch, jobs, train_far};
use crate::app::jobs::extract::{ExtractError, TokenSettings, describe};
use crate::app::jobs::over::Over;
use crate::app::jobs::part::Part;
use crate::app::jobs::train::{
    self, Event, Summary, TrainPlan, TrainSettings, TrainSpec, TrainingError, heads, preflight,
};
use crate::app::submit::plan::{JOIN, TRAIN, part_folder};
use crate::app::submit::{Stage, SubmitFlags};
use crate::app::terminal::error::Usage;
use crate::app::terminal::progress::{self, Display};
use crate::app::terminal::stdout::say;
use crate::app::terminal::{interrupt, stdout};
use crate::model::data::token_cache::SHARD;
use crate::model::train::TrainConfig;
use crate::model::train::run::{Metric, Outcome, Run, Variant};
use crate::model::{backbone, device};

/// Train probes on a dataset, all heads together, into a run's folder.
#[derive(Args)]
#[command(after_long_help = format!("{}\n{}\n{LONG}", heads::listed(), backbone::listed()))]
pub struct Train {
    /// Heads, with commas between them; `paper` and `all` are lists of them, order:FILE reads in the order of a file.
    #[arg(long, value_name = "HEADS", value_delimiter = ',', required_unless_present = "resume")]
    heads: Vec<String>,
    /// Settings of heads: KEY=VALUE for all that know it, HEAD.KEY=VALUE for one.
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., requires = "heads")]
    config: Vec<String>,
    #[command(flatten)]
    training: TrainArgs,
    #[command(flatten)]
    on: On,
}

/// On what, how, and where to: flags that every training has.
#[derive(Args)]
pub struct TrainArgs {
    #[command(flatten)]
    settings: Over<TrainSettings>,
    /// Folder of the run.
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
    /// Go on with the run in RUN, where there is one; `--resume --out RUN` is enough then.
    #[arg(long, conflicts_with = "submit")]
    resume: bool,
    /// Print one JSON document a line, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
    /// Train one of N parts alone, into RUN/tasks/I: some of the seeds, or a block of the heads with one of them. What
    /// --submit hands in.
    #[arg(long, value_name = "I/N")]
    part: Option<Part>,
    #[command(flatten)]
    submit: SubmitFlags,
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

With --on PLACE it runs there as a process of its own, DIR, TABLE and RUN being of that machine, and its words are printed here:
Ctrl-C and a lost connection leave it running, `train --on PLACE --resume --out RUN` follows it again. What it says stands in
RUN/train.log, its results in RUN/train.out.

Exit codes: 0 done, 1 failed, or every head stopped, 2 wrong usage, 130 stopped by Ctrl-C (saved; a second one quits at once)."#;

impl Train {
    /// Trains. A stopped training is saved and no failure.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(host) = self.on.host() {
            if self.training.submit.submit.is_some() || self.training.part.is_some() {
                let why = "--on trains in one process there: --submit and --part are for the machine they are typed on";
                return Err(Usage(why.to_owned()).into());
            }
            let words = self.words().map_err(Usage)?;
            return train_far::run(host, words, self.training.out);
        }
        let heads = match self.heads.is_empty() {
            true => None,
            false => Some(heads::variants(&self.heads, &self.config)?),
        };
        let named = self.heads.iter().map(|head| format!("--heads={head}"));
        let config = self.config.iter().map(|config| format!("--config={config}"));
        let words = ["train".to_owned()].into_iter().chain(named).chain(config).collect();
        self.training.run(heads, words)
    }

    /// All that was given but where the run goes and who computes: for another program.
    fn words(&self) -> Result<Vec<String>, String> {
        let heads = self.heads.iter().map(|head| format!("--heads={head}"));
        let config = self.config.iter().map(|word| format!("--config={word}"));
        let TrainArgs { settings, resume, json, .. } = &self.training;
        let on = |flag: &str, on: bool| on.then(|| flag.to_owned());
        let flags = [on("--resume", *resume), on("--json", *json)];
        Ok(heads.chain(config).chain(flags.into_iter().flatten()).chain(settings.words()?).collect())
    }
}

impl TrainArgs {
    /// Trains `heads`, or goes on with the run's own.
    /// `words` are the verb and what it says of the heads.
    pub fn run(self, heads: Option<Vec<Variant>>, words: Vec<String>) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        let spec = self.spec(heads)?;
        if let Some(place) = self.submit.submit {
            let stages = self.stages(&spec, words)?;
            return jobs::begin(&spec.out, place, &self.submit, stages);
        }
        let mut display = Display::new();
        let (mut trained, mut working) = (false, None);
        let result = train::run(device::choose, &spec, &mut |event| {
            trained |= matches!(event, Event::Step { .. });
            if matches!(event, Event::Begin { .. }) {
                working = Some(interrupt::working());
            }
            self.tell(&event, &spec.plan.settings, &mut display);
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
            true if all_failed && self.part.is_none() => ExitCode::FAILURE,
            true => ExitCode::SUCCESS,
            false => interrupt::code(),
        })
    }

    /// What is to be trained: what a run was begun with that is gone on with, or what is usual, with what
    /// the flags say in its place. Where a run cannot go on with that, the training refuses it.
    fn spec(&self, heads: Option<Vec<Variant>>) -> anyhow::Result<TrainSpec> {
        let out = self.part.map_or_else(|| self.out.clone(), |part| part_folder(&self.out, part.index));
        let resume = self.resume;
        // A part is called by the words of the whole, whose seeds they count.
        let goes_on = resume && self.part.is_none() && out.join("run.json").exists();
        let run = if goes_on { Some(Run::open(&out)?) } else { None };
        let usual = TrainSettings { epochs: TrainConfig::default().epochs, ..TrainSettings::default() };
        let begun = run.as_ref().map(TrainSettings::of_run).transpose()?;
        let settings = self.settings.over(begun.unwrap_or(usual));
        let heads = heads.or(run.map(|run| run.manifest.heads));
        let Some(heads) = heads.filter(|_| !settings.backbone.is_empty() && settings.data.is_some()) else {
            let out = out.display();
            return Err(Usage(format!(
                "{out} holds no run to resume; --backbone, --data and the heads begin one"
            ))
            .into());
        };
        let backbone = fetch::backbone(&settings.backbone)?;
        let mut plan = TrainPlan { settings, backbone, heads };
        self.part.map_or(Ok(()), |part| plan.cut(part))?;
        Ok(TrainSpec { plan, out, resume })
    }

    /// The training cut into tasks: its tokens, where they are not there; its parts; and what joins them. What would
    /// be refused in each task is refused here.
    fn stages(&self, spec: &TrainSpec, verb: Vec<String>) -> anyhow::Result<Vec<Stage>> {
        let TrainSpec { plan, out, .. } = spec;
        let parts = self.submit.tasks.map_or(plan.settings.seeds, |parts| parts as usize);
        plan.can_be_cut(parts)?;
        let settings = TrainSettings { out: Some(out.clone()), ..plan.settings.clone() };
        let (_, tokens, _) = preflight(&TrainPlan { settings, ..plan.clone() })?;
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or(Usage(format!("{}: is no text", path.display())))
        };
        let run = text(out)?;
        let mut stages = Vec::new();
        if !plan.settings.recompute && !tokens.complete() {
            let data = text(plan.settings.data.as_deref().unwrap_or(Path::new("")))?;
            let how = self.settings.part::<TokenSettings>();
            let words = extract::verb(&plan.settings.backbone, &data, &plan.settings.device, &how)?;
            let shards = tokens.images.div_ceil(SHARD);
            if parts.min(shards) > 1 {
                stages.push(Stage::cut("tokens", words.clone(), parts.min(shards)));
            }
            stages.push(Stage::whole("all-tokens", words));
        }
        let how = self.settings.words().map_err(Usage)?;
        let own = [format!("--out={run}"), "--resume".to_owned()];
        stages.push(Stage::cut(TRAIN, verb.into_iter().chain(how).chain(own).collect(), parts));
        let join = ["jobs", &run, "--join"].map(str::to_owned);
        stages.push(Stage::whole(JOIN, join.to_vec()));
        Ok(stages)
    }

    /// Tells what happens.
    fn tell(&self, event: &Event, settings: &TrainSettings, display: &mut Display) {
        let epochs = settings.epochs;
        match event {
            Event::Plan { tokens, dataset, steps, shows } => {
                match settings.recompute && !tokens.complete() {
                    true => display.say("tokens: none are kept, the backbone runs again on every batch"),
                    false => display.say(&describe(tokens)),
                }
                display.say(&format!("training: {steps} steps of all heads"));
                display.say(&format!(
                    "smallest difference it could show: {shows:.1} points, {}",
                    train::ASSUMED
                ));
                self.print(display, || {
                    json!({"event": "plan", "images": dataset.samples.len(), "steps": steps,
                           "smallest_difference": shows, "bytes": tokens.bytes, "done": tokens.done})
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
            Event::Step { seed, position, trainers, progress, .. } => {
                let what = format!("seed {seed}, epoch {} of {epochs}", position.epoch + 1);
                display.show(&what, progress, &progress::running(trainers));
            }
            Event::Epoch { seed, position, trainers } => {
                let heads = progress::closed(trainers);
                let line = format!("seed {seed}, epoch {} of {epochs}: {heads}", position.epoch);
                display.milestone(&line, position.epoch == epochs);
                for trainer in *trainers {
                    if let (None, Some(epoch)) = (&trainer.progress.failure, trainer.progress.history.last())
                    {
                        let (head, epoch) = (trainer.name.clone(), epoch.clone());
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
