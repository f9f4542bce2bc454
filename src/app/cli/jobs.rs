//! `ssmprobe jobs`: how tasks go that were handed in, and what is done about them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use crate::app::jobs::tasks::PlannedStage;
use crate::app::submit::script::script;
use crate::app::submit::status::{State, are_done, states, tail};
use crate::app::submit::{Plan, SlurmError, Stage, SubmitFlags, SubmitTarget, Task, hand_in, join, local};
use crate::app::terminal::progress::Display;
use crate::app::terminal::stdout::say;
use crate::app::terminal::{interrupt, stdout};

/// Lines of a log that are shown of a task that failed.
const TAIL: usize = 8;
/// Looks that nothing is under way, before that is believed.
const LOOKS: u32 = 2;
/// The same where a task is in no queue and shows no exit code: a file system that is shared may show it a minute later.
const LATE_LOOKS: u32 = 40;
/// Slurm may give no answer for so long, as while it starts anew.
const SILENCE: Duration = Duration::from_mins(5);
/// Where it takes no more, it is asked again after longer and longer, at most so long.
const PAUSE: Duration = Duration::from_mins(1);

/// Show how the tasks of a run go that --submit handed in; wait for them, hand in again what failed, end them.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub struct Jobs {
    /// The folder that they end in.
    #[arg(value_name = "RUN")]
    folder: PathBuf,
    /// Stay until everything is joined; Ctrl-C leaves the tasks running.
    #[arg(long, conflicts_with_all = ["cancel", "join", "work"])]
    wait: bool,
    /// Hand in again what failed, was stopped or got lost, and what waited for it. What it did is kept.
    #[arg(long, conflicts_with_all = ["cancel", "join", "work"])]
    retry: bool,
    /// End all tasks. What they did is kept: --retry goes on with it.
    #[arg(long, conflicts_with_all = ["join", "work"])]
    cancel: bool,
    /// Join the parts of a training into RUN, as the last task does; of several backbones, those of the run in RUN/NAME.
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "work"
    )]
    join: Option<String>,
    /// Run the tasks here, as --submit local does in a process of its own.
    #[arg(long)]
    work: bool,
    /// Print one JSON document to standard output.
    #[arg(long, conflicts_with_all = ["wait", "retry", "cancel", "join", "work"])]
    json: bool,
}

const LONG: &str =
    "Everything about the tasks lies in RUN/tasks: plan.json, what sbatch got (STAGE.sh), log/STAGE-N.txt, \
and the run of each part until they are joined.

Exit codes: 0 done, 1 failed, or a task that was waited for did, 2 wrong usage, 130 Ctrl-C.";

impl Jobs {
    /// Does what was asked.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut plan = Plan::open(&self.folder)?;
        if self.work {
            return Ok(if local::work(&plan)? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        if let Some(chain) = &self.join {
            let chain = Some(chain.as_str()).filter(|chain| !chain.is_empty());
            for note in join::join(&plan, chain)? {
                say!("warning: {note}");
            }
            let folder = chain.map_or_else(|| self.folder.clone(), |chain| self.folder.join(chain));
            say!("the run is in {}", folder.display());
            return Ok(ExitCode::SUCCESS);
        }
        if self.cancel {
            if are_done(&plan) {
                say!("nothing is to be ended: all tasks are done");
                return Ok(ExitCode::SUCCESS);
            }
            hand_in::end(&plan)?;
            say!("ended; `ssmprobe jobs {} --retry` goes on", self.folder.display());
            return Ok(ExitCode::SUCCESS);
        }
        if self.retry {
            match hand_in::again(&mut plan)? {
                0 => say!("nothing is to be handed in"),
                1 => say!("handed in 1 task"),
                tasks => say!("handed in {tasks} tasks"),
            }
        }
        if self.wait {
            return wait(&mut plan);
        }
        if self.json {
            document(&plan)?;
        } else {
            list(&plan)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Hands in the `stages` that end in `folder`, or prints what would be, as a document where that is wanted.
pub fn begin(
    folder: &Path,
    place: SubmitTarget,
    flags: &SubmitFlags,
    stages: Vec<Stage>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut plan = Plan::new(folder, place, flags.slurm.clone(), stages)?;
    if flags.dry_run && json {
        let planned = |stage: &Stage| PlannedStage {
            name: stage.name.clone(),
            tasks: stage.tasks(),
            script: script(&plan, stage),
        };
        let planned: Vec<PlannedStage> = plan.stages.iter().map(planned).collect();
        stdout::text(format_args!("{:#}\n", json!(planned)))?;
        return Ok(ExitCode::SUCCESS);
    }
    if flags.dry_run {
        for stage in &plan.stages {
            stdout::text(format_args!("# tasks/{}.sh\n{}\n", stage.id(), script(&plan, stage)))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    match hand_in::all(&mut plan) {
        // What is waited for is handed in as there is room.
        Err(error) if flags.wait && is_limit(&error) && !plan.handed_in.is_empty() => {
            say!("note: {error:#}");
            return wait(&mut plan);
        }
        all => all?,
    }
    say!("handed in: {}; `ssmprobe jobs {}` shows how they go", handed_in(&plan.stages), folder.display());
    if flags.wait { wait(&mut plan) } else { Ok(ExitCode::SUCCESS) }
}

/// What was handed in, chain by chain: `3 x tokens, then all-tokens, then 4 x train, then join`.
fn handed_in(stages: &[Stage]) -> String {
    let mut chains: Vec<(Option<&str>, Vec<String>)> = Vec::new();
    for stage in stages {
        let times = stage.parts.map_or(String::new(), |parts| format!("{parts} x "));
        let words = format!("{times}{}", stage.name);
        match chains.last_mut() {
            Some((out, chain)) if *out == stage.out.as_deref() => chain.push(words),
            _ => chains.push((stage.out.as_deref(), vec![words])),
        }
    }
    let chain = |(out, words): &(Option<&str>, Vec<String>)| {
        format!("{}{}", out.map_or(String::new(), |out| format!("{out}: ")), words.join(", then "))
    };
    chains.iter().map(chain).collect::<Vec<_>>().join("; ")
}

/// Stays until all is done, or what is not will not be by itself.
fn wait(plan: &mut Plan) -> anyhow::Result<ExitCode> {
    interrupt::listen();
    let every =
        if plan.place == SubmitTarget::Local { Duration::from_millis(200) } else { Duration::from_secs(2) };
    let mut watch = Watch { every, display: Display::new(), told: String::new(), still: 0, full: None };
    let mut silent: Option<Instant> = None;
    loop {
        match states(plan) {
            Err(error @ SlurmError::Refused { .. })
                if silent.is_none_or(|since| since.elapsed() < SILENCE) =>
            {
                if silent.is_none() {
                    watch.display.say(&format!("note: {error}; it is asked again"));
                    silent = Some(Instant::now());
                }
            }
            looked => {
                silent = None;
                if let Some(done) = watch.look(plan, &looked?)? {
                    return Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE });
                }
            }
        }
        let begun = Instant::now();
        while begun.elapsed() < every {
            if interrupt::flow().is_break() {
                watch.display.clear();
                let folder = plan.folder.display();
                say!("the tasks go on; `ssmprobe jobs {folder}` shows them, with --wait it waits again");
                return Ok(interrupt::code());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Who waits for tasks.
struct Watch {
    /// Time between two looks.
    every: Duration,
    display: Display,
    /// What was said last.
    told: String,
    /// Looks since the last at which something went on.
    still: u32,
    /// When Slurm took no more, and how long it is let alone then.
    full: Option<(Instant, Duration)>,
}

impl Watch {
    /// Hands in what is to come, and says how tasks go; once it is over, whether all are done.
    fn look(&mut self, plan: &mut Plan, all: &[(Task, State)]) -> anyhow::Result<Option<bool>> {
        let to_come = are_to_come(plan, all);
        if to_come && self.full.is_none_or(|(since, pause)| since.elapsed() >= pause) {
            self.hand_in(plan, all)?;
        }
        let summary = summary(all);
        if summary != self.told {
            self.display.milestone(&summary, true);
            self.told = summary;
        }
        let done = all.iter().all(|(_, state)| *state == State::Done);
        let goes_on = to_come || all.iter().any(|(_, state)| state.is_active());
        self.still = if goes_on { 0 } else { self.still + 1 };
        let lost = plan.place == SubmitTarget::Slurm
            && all.iter().any(|(_, state)| matches!(state, State::Lost { .. }));
        if !done && self.still < if lost { LATE_LOOKS } else { LOOKS } {
            return Ok(None);
        }
        self.display.clear();
        all.iter().for_each(|(task, state)| complain(plan, *task, state));
        if !done {
            say!("`ssmprobe jobs {} --retry` hands in what is not done", plan.folder.display());
        }
        Ok(Some(done))
    }

    fn hand_in(&mut self, plan: &mut Plan, all: &[(Task, State)]) -> anyhow::Result<()> {
        let before = plan.handed_in.len();
        self.full = match hand_in::rest(plan, all) {
            Err(error) if is_limit(&error) && !plan.handed_in.is_empty() => {
                let longer = self.full.filter(|_| plan.handed_in.len() == before);
                Some((Instant::now(), longer.map_or(self.every, |(_, pause)| PAUSE.min(2 * pause))))
            }
            rest => {
                rest?;
                None
            }
        };
        Ok(())
    }
}

/// Whether there are tasks that Slurm never took, and still should.
fn are_to_come(plan: &Plan, all: &[(Task, State)]) -> bool {
    let failed = |state: &State| matches!(state, State::Failed { .. } | State::Lost { .. } | State::Stopped);
    plan.place == SubmitTarget::Slurm
        && !plan.is_cancelled()
        && !all.iter().any(|(_, state)| failed(state))
        && all.iter().any(|(task, _)| plan.array(*task).is_none())
}

/// Whether Slurm took no more.
fn is_limit(error: &anyhow::Error) -> bool {
    error.downcast_ref::<SlurmError>().is_some_and(SlurmError::is_limit)
}

/// A line for each task, with the last it printed.
fn list(plan: &Plan) -> anyhow::Result<()> {
    let all = states(plan)?;
    let width = all.iter().map(|(task, _)| plan.name(*task).len()).fold(12, usize::max);
    for (task, state) in &all {
        let last = tail(plan, *task, 1).pop().unwrap_or_default();
        let (name, state) = (plan.name(*task), state.to_string());
        stdout::line(format!("{name:<width$} {state:<28} {last}").trim_end())?;
    }
    all.iter().for_each(|(task, state)| complain(plan, *task, state));
    say!("{}", summary(&all));
    if all.iter().any(|(_, state)| *state != State::Done && !state.is_active()) {
        say!("`ssmprobe jobs {} --retry` hands in what is not done", plan.folder.display());
    }
    Ok(())
}

/// The same as a document.
fn document(plan: &Plan) -> anyhow::Result<()> {
    let task = |(task, state): &(Task, State)| {
        let last = tail(plan, *task, 1).pop();
        json!({"task": plan.name(*task), "how": state, "last": last, "log": plan.log(*task)})
    };
    let tasks: Vec<_> = states(plan)?.iter().map(task).collect();
    stdout::text(format_args!("{:#}\n", json!({"folder": plan.folder, "place": plan.place, "tasks": tasks})))
}

/// What a task that failed printed last.
fn complain(plan: &Plan, task: Task, state: &State) {
    if !matches!(state, State::Failed { .. } | State::Lost { .. }) {
        return;
    }
    let (name, log) = (plan.name(task), plan.log(task));
    if log.exists() {
        say!("{name} {state}; {} ends with:", log.display());
    } else {
        say!("{name} {state}; it printed nothing");
    }
    tail(plan, task, TAIL).iter().for_each(|line| say!("  {line}"));
}

/// How many tasks are in which state.
fn summary(all: &[(Task, State)]) -> String {
    let mut counts = [("running", 0), ("waiting", 0), ("stopped", 0), ("failed", 0), ("not handed in", 0)];
    let mut done = 0;
    for (_, state) in all {
        match state {
            State::Done => done += 1,
            State::Running { .. } => counts[0].1 += 1,
            State::Waiting { .. } => counts[1].1 += 1,
            State::Stopped => counts[2].1 += 1,
            State::Failed { .. } | State::Lost { .. } => counts[3].1 += 1,
            State::NotHandedIn => counts[4].1 += 1,
        }
    }
    let mut text = format!("{done} of {} tasks done", all.len());
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        text += &format!(", {count} {name}");
    }
    text
}
