//! The output of `train` and `sweep`: lines for a person, JSON documents with `--json`.

use super::TrainArgs;
use crate::app::cli::event;
use crate::app::cli::prelude::*;
use crate::app::format::watching;
use crate::app::jobs::extract::describe;
use crate::app::jobs::history::TrainHistory;
use crate::app::jobs::train::{self, Event, Summary, TrainSettings};
use crate::app::terminal::progress;
use crate::model::train::run::{Metric, Outcome};
use crate::viz::figures::rates::{RateCell, RateGrid};

/// AdamW moves a weight by about the learning rate in a step: in fewer than these, by less than 0.1 at the paper's 1e-3.
const FEW_STEPS: usize = 100;

impl TrainArgs {
    pub(super) fn print_event(&self, event: &Event, settings: &TrainSettings, display: &mut Display) {
        let epochs = settings.epochs;
        match event {
            Event::Watch { host } => {
                display.say(&watching(host, &format!("train in {}", self.out.display())));
            }
            Event::Plan { tokens, dataset, steps, shows } => {
                match settings.recomputes(tokens.complete()) {
                    true => display.say("tokens: not cached, the backbone runs again on every batch"),
                    false => display.say(&describe(tokens)),
                }
                let left_out = settings.config().left_out();
                let each = steps / settings.seeds;
                let few = (each < FEW_STEPS).then(|| {
                    let each = counted(each, "step", "steps");
                    format!("each head is trained for {each} only; a smaller --batch has more in an epoch")
                });
                let notes = dataset.notes.iter().chain(&left_out).chain(&few);
                notes.for_each(|note| display.say(&format!("note: {note}")));
                display.say(&format!("training: {} of all heads", counted(*steps, "step", "steps")));
                let points = shows.map_or_else(|| "none".to_owned(), |points| format!("{points:.1} points"));
                let assumed = train::assumed(*shows, settings.seeds);
                display.say(&format!("smallest detectable difference: {points}, {assumed}"));
                self.print_json(display, || {
                    json!({"event": "plan", "images": dataset.samples.len(), "steps": steps,
                           "smallest_difference": shows, "bytes": tokens.bytes, "done": tokens.done, "left_out": left_out})
                });
            }
            Event::Extract { event, dataset } => {
                display.extract(event, dataset);
                if let crate::app::jobs::extract::Event::Unreadable { sample, why } = event {
                    let image = dataset.samples[*sample].source.to_string();
                    self.print_json(display, || json!({"event": "unreadable", "image": image, "error": why}));
                }
            }
            Event::Begin { run, device } => {
                let data = &run.manifest.dataset;
                display.say(&format!(
                    "{}: {}, {}, {}, on {}",
                    data.name,
                    counted(data.train, "training image", "training images"),
                    counted(data.test, "test image", "test images"),
                    counted(data.classes.len(), "class", "classes"),
                    device
                ));
                if let Some(warning) = run.manifest.selection.warning() {
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
                        self.print_json(display, || metric_event(&Metric { head, seed: *seed, epoch }));
                    }
                }
            }
            Event::Between { seed, trainers } => {
                for trainer in trainers.iter().filter(|trainer| trainer.progress.failure.is_none()) {
                    if let Some(epoch) = trainer.progress.between.last() {
                        let (head, seed, epoch) = (trainer.name.clone(), *seed, epoch.clone());
                        self.print_json(display, || metric_event(&Metric { head, seed, epoch }));
                    }
                }
            }
            Event::Waiting { why, first: true } => display.say(&format!("warning: {}", why.waited_for())),
            Event::Evaluation | Event::Waiting { .. } | Event::Seed => {}
        }
    }

    /// Prints the results and the run's folder; `trained` is false if the run was finished already.
    pub(super) fn print_summary(&self, summary: &Summary, trained: bool) -> anyhow::Result<()> {
        let Summary { run, outcomes, finished } = summary;
        for outcome in outcomes {
            if let Some(failure) = &outcome.failure {
                say!("warning: {} with seed {} stopped: {failure}", outcome.head, outcome.seed);
            }
        }
        let out = run.folder().display();
        let grids = TrainHistory::of_outcomes(run, outcomes).grids();
        if self.json {
            let results: Vec<Value> = outcomes.iter().map(result).collect();
            let end = json!({"event": "end", "run": out.to_string(), "finished": finished, "results": results,
                             "chosen": grids.iter().filter_map(chosen).collect::<Vec<_>>()});
            stdout::line(end)?;
        } else {
            // Names of grid points and of layers by rates are long.
            let wide = outcomes.iter().map(|outcome| outcome.head.len()).fold(18, usize::max);
            stdout::line(format_args!(
                "{:<wide$} {:>4} {:>7} {:>7} {:>10}",
                "head", "seed", "best", "last", "best_epoch"
            ))?;
            for outcome in outcomes {
                let percent = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
                let (best, last) = (percent(outcome.best_accuracy()), percent(outcome.last_accuracy()));
                let epoch = outcome.best_epoch.map_or("-".into(), |epoch| (epoch + 1).to_string());
                stdout::line(format_args!(
                    "{:<wide$} {:>4} {best:>7} {last:>7} {epoch:>10}",
                    outcome.head, outcome.seed
                ))?;
            }
            for grid in &grids {
                if let Some(verdict) = grid.verdict() {
                    stdout::line(format_args!("chosen for {}: {verdict}", grid.head))?;
                }
            }
        }
        match finished {
            true if trained => {
                // The run of a task is a part of one, and that of a detached training may be on another machine.
                let is_whole = self.part.is_none() && self.owner_file.is_none();
                let run = shell_path(run.folder());
                let next = format!(
                    "; `ssmprobe report {run}` makes its tables, `ssmprobe open {run}` shows its probes"
                );
                say!("the run is in {out}{}", if is_whole { &next } else { "" });
            }
            true => {
                say!(
                    "the run in {out} was already finished: nothing was trained; pass more --seeds to add to it"
                );
                run.check_finished().unwrap_or_else(|lacking| say!("warning: {lacking}"));
            }
            false => {
                let out = shell_path(run.folder());
                say!("stopped and saved; `ssmprobe train --resume --out {out}` resumes it");
            }
        }
        Ok(())
    }

    fn print_json(&self, display: &Display, document: impl FnOnce() -> Value) {
        if self.json {
            display.print(&document().to_string());
        }
    }
}

fn metric_event(metric: &Metric) -> Value {
    event(if metric.epoch.step.is_some() { "evaluation" } else { "epoch" }, metric)
}

/// The cell of a grid that the selection images choose, with its accuracies.
fn chosen(grid: &RateGrid) -> Option<Value> {
    let RateCell { name, select, test, last, .. } = grid.cells.get(grid.chosen()?)?.as_ref()?;
    Some(json!({"head": name, "selection": select, "best": test, "last": last}))
}

/// An outcome without its predictions.
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
