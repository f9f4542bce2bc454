//! `ssmprobe train`: trains heads on the tokens of a frozen backbone, by the paper's protocol.

mod board;
mod output;
mod tasks;

use std::time::Duration;

use clap::{Arg, ArgAction};

use super::on_flags::OnFlags;
use super::{fetch, jobs, train_remote};
use crate::app::cli::prelude::*;
use crate::app::jobs::detached::Heartbeat;
use crate::app::jobs::extract::ExtractError;
use crate::app::jobs::fetch::moved;
use crate::app::jobs::flag_overrides::FlagOverrides;
use crate::app::jobs::part::{Part, part_folder};
use crate::app::jobs::train::{self, Event, TrainPlan, TrainSettings, TrainSpec, TrainingError, heads};
use crate::app::state::connection::Host;
use crate::app::submit::plan::TRAIN;
use crate::app::submit::{SubmitFlags, submission};
use crate::model::io::atomic_file;
use crate::model::train::TrainConfig;
use crate::model::train::run::{Run, RunError, Variant};
use crate::model::{backbone, device};

/// Time between two attempts of a task to train a run that another process holds.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Train probes on a dataset, all heads together in one run.
#[derive(Args)]
#[command(mut_arg("backbone", repeatable))]
#[command(after_long_help = format!("{}\n{}\n{LONG}", heads::listed(), backbone::listed()))]
pub struct Train {
    /// Comma-separated heads; `paper` and `all` stand for lists of them, order:FILE reads in the order of a file.
    #[arg(long, value_name = "HEADS", value_delimiter = ',', required_unless_present = "resume")]
    heads: Vec<String>,
    /// Settings of heads: KEY=VALUE for all heads that have it, HEAD.KEY=VALUE for one.
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., requires = "heads")]
    config: Vec<String>,
    #[command(flatten)]
    training: TrainArgs,
    #[command(flatten)]
    on: OnFlags,
}

/// The flags of every training: on which data, how, and into which folder.
#[derive(Args)]
pub struct TrainArgs {
    #[command(flatten)]
    settings: FlagOverrides<TrainSettings>,
    /// Folder of the run.
    #[arg(long, value_name = "RUN")]
    out: PathBuf,
    /// Resume the run in RUN, if there is one; `--resume --out RUN` is enough then.
    #[arg(long, conflicts_with = "submit")]
    resume: bool,
    /// Also write the metrics of every epoch for TensorBoard, to `DIR/<name of RUN>/<head>-s<seed>`; pass it again with
    /// --resume.
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// Print one JSON document per line, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
    /// Train only one of N parts, into RUN/tasks/I: some of the seeds, or a block of heads with one seed. Used by the
    /// tasks of --submit.
    #[arg(long, value_name = "I/N")]
    part: Option<Part>,
    /// The owner file, made by the caller, by which this process shows that it is alive.
    #[arg(long, value_name = "FILE", hide = true)]
    owner_file: Option<PathBuf>,
    #[command(flatten)]
    submit: SubmitFlags,
}

const LONG: &str = r#"The run's folder:
  run.json        configuration, versions, hashes, seeds, backbone and dataset
  metrics.jsonl   one line per seed, head and epoch, and with --evaluate-every per evaluation
                  within an epoch ("step")
  losses/         s<seed>.safetensors: training loss within every epoch, head by head
  results.csv     head, seed, best, last, best_epoch, parameters, seconds (accuracies in percent)
  probes/         <head>-s<seed>-best.safetensors and -last: `ssmprobe inspect` reads them
  answers/        predicted class of every test image, and the true classes
  state/          checkpoint that --resume continues from after a stop or a kill, bit-exactly on
                  the CPU
Every file is written whole or not at all.

--json prints {"event": "plan", ...}, {"event": "epoch", "head", "seed", "epoch", "loss", "train",
"select", "test"}, with --evaluate-every {"event": "evaluation", ... "step" ...}, {"event":
"unreadable", "image", "error"} and last {"event": "end", "run", "finished", "results", "chosen"}.

With --layers or --rates every head is trained with each of them, as HEAD[layer=L,rate=R], in one
run with one pass of the backbone; on the CPU each is bit-identical to a separate run. The best is
chosen on images that are neither trained on nor reported (--select-split, or a validation split
beside a test split); `ssmprobe report --table rates` and `ssmprobe figures --figure rates` show
all of them.

With --on PLACE it runs there as a separate process; DIR, TABLE and RUN are paths on that machine,
and its output is printed here. Ctrl-C and a lost connection leave it running; `train --on PLACE
--resume --out RUN` follows it again. Its log is RUN/train.log, its results are in RUN/train.out.

Exit codes: 0 done, 1 failed, or every head stopped, 2 wrong usage, 130 stopped by Ctrl-C (saved;
a second one quits at once)."#;

impl Train {
    /// Trains. A training stopped by Ctrl-C is saved, and is no failure.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let words = self.words();
        if let Some(host) = self.on.host() {
            return self.training.run_on(host, words);
        }
        let heads = match self.heads.is_empty() {
            true => None,
            false => Some(heads::variants(&self.heads, &self.config)?),
        };
        self.training.run(heads, words)
    }

    /// The verb and its flags for heads, as words of a command line.
    fn words(&self) -> Vec<String> {
        let heads = self.heads.iter().map(|head| format!("--heads={head}"));
        let config = self.config.iter().map(|config| format!("--config={config}"));
        [TRAIN.to_owned()].into_iter().chain(heads).chain(config).collect()
    }
}

/// Lets `--backbone` be given several times, for a training of each.
pub fn repeatable(backbone: Arg) -> Arg {
    backbone.action(ArgAction::Append)
}

impl TrainArgs {
    /// Trains at a host; `words` are the verb and its flags for heads.
    pub fn run_on(self, host: Host, words: Vec<String>) -> anyhow::Result<ExitCode> {
        if self.submit.submit.is_some() || self.part.is_some() {
            refuse!("--on trains in one process there: --submit and --part work only on this machine");
        }
        self.check_one_backbone()?;
        if self.out.to_str().is_none() {
            refuse!("--out {}: is not valid Unicode", self.out.display());
        }
        let switch = |flag: &str, on: bool| on.then(|| flag.to_owned());
        let flags = [switch("--resume", self.resume), switch("--json", self.json), self.tensorboard_word()?];
        let words = words.into_iter().filter(|word| word != TRAIN).chain(flags.into_iter().flatten());
        let words = words.chain(self.settings.words().map_err(Usage)?).collect();
        train_remote::run(host, words, self.out)
    }

    /// Refuses several backbones for one run.
    fn check_one_backbone(&self) -> Result<(), Usage> {
        match self.settings.all("backbone").len() {
            0 | 1 => Ok(()),
            _ => refuse!(
                "a run has one backbone: several --backbone need --submit, which trains a run for each"
            ),
        }
    }

    /// Trains `heads`, or resumes those of the run if `None`; `words` are the verb and its flags for heads.
    pub fn run(self, heads: Option<Vec<Variant>>, words: Vec<String>) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        if let Some(place) = self.submit.place(self.part.is_some())? {
            let stages = self.chains(heads.as_deref(), &words)?;
            return jobs::submit(&self.out, place, &self.submit, stages, self.json);
        }
        let _alive = self.owner_file.as_deref().map(Heartbeat::new).transpose()?;
        self.check_one_backbone()?;
        let spec = self.spec(heads)?;
        let mut board = self.board()?;
        let mut display = Display::new();
        let (mut trained, mut working) = (false, None);
        let mut train = |waits: bool| {
            train::run(device::choose, &spec, &mut |event| {
                if waits && matches!(event, Event::Watch { .. }) {
                    return interrupt::flow(); // it has been told
                }
                trained |= matches!(event, Event::Step { .. });
                if matches!(event, Event::Begin { .. }) {
                    working = Some(interrupt::working());
                }
                self.print_event(&event, &spec.plan.settings, &mut display);
                board.update(&event, &spec.out, &display);
                interrupt::flow()
            })
        };
        let mut result = train(false);
        // The task may still run on a node that the cluster has lost contact with: its work is not done twice.
        if let Err(error @ TrainingError::Run(RunError::InUse { .. })) = &result
            && self.part.is_some()
        {
            say!("{error}; this task waits for it, and continues where it ends");
            while matches!(result, Err(TrainingError::Run(RunError::InUse { .. }))) {
                if interrupt::pause(RETRY_INTERVAL).is_break() {
                    return Ok(interrupt::code());
                }
                result = train(true);
            }
        }
        display.clear();
        drop(working);
        let summary = match result {
            Err(TrainingError::Extract(stopped @ ExtractError::Stopped { .. })) => {
                say!("{stopped}");
                return Ok(interrupt::code());
            }
            other => other?,
        };
        self.print_summary(&summary, trained)?;
        let all_failed = summary.outcomes.iter().all(|outcome| outcome.failure.is_some());
        Ok(match summary.finished {
            true if all_failed && self.part.is_none() => ExitCode::FAILURE,
            true => ExitCode::SUCCESS,
            false => interrupt::code(),
        })
    }

    /// The settings of the run that is resumed, or the defaults, overridden by the flags. Settings that the run cannot be
    /// resumed with are refused by the training, not here.
    fn spec(&self, heads: Option<Vec<Variant>>) -> anyhow::Result<TrainSpec> {
        let out = self.part.map_or_else(|| self.out.clone(), |part| part_folder(&self.out, part.index));
        let resume = self.resume;
        // A part has the command line of the whole run, whose seeds it counts: its own folder gives no settings.
        let refused = |source| TrainingError::Out { folder: out.clone(), source };
        let exists = || atomic_file::is_there(&out.join("run.json")).map_err(refused);
        let resumes = resume && self.part.is_none() && exists()?;
        let run = if resumes { Some(Run::open(&out)?) } else { None };
        if run.is_none() {
            submission::check_free(&out)?; // the tasks there would join their own run
        }
        let defaults = TrainSettings { epochs: TrainConfig::default().epochs, ..TrainSettings::default() };
        let begun = run.as_ref().map(TrainSettings::of_run).transpose()?;
        let settings = match begun {
            Some(begun) => self.settings.over(begun),
            None => {
                let given = |name: &str| self.settings.has(name);
                self.settings.over(defaults).with_protocol([given("epochs"), given("rate") || given("rates")])
            }
        };
        let has_axes = self.settings.has("layers") || self.settings.has("rates");
        let heads = match heads {
            Some(heads) => Some(settings.spread(heads)?),
            None if has_axes => {
                refuse!(
                    "--layers and --rates apply to the heads that are named: name those of the run too, or pass \
                           --resume --out alone"
                );
            }
            None => run.map(|run| run.manifest.heads),
        };
        let Some(heads) = heads.filter(|_| !settings.backbone.is_empty() && settings.data.is_some()) else {
            let out = out.display();
            refuse!("{out} holds no run to resume; pass --backbone, --data and heads to start one");
        };
        let backbone = fetch::backbone(&settings.backbone);
        let backbone = match resumes && !self.settings.has("backbone") {
            true => backbone.map_err(|error| moved(&out, error))?,
            false => backbone?,
        };
        let mut plan = TrainPlan { settings, backbone, heads };
        self.part.map_or(Ok(()), |part| plan.cut(part))?;
        Ok(TrainSpec { plan, out, resume })
    }
}
