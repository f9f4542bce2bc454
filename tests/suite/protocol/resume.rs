//! A run stopped after any event resumes to the same bits: schedule, order, moments, best epoch so far, and the last
//! values that gave a finite loss.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::json;
use ssmprobe::app::jobs::train::{self, Event, TrainPlan, TrainSpec, TrainingError};
use ssmprobe::model::backbone::preprocess::augment::Augmentation;
use ssmprobe::model::device;
use ssmprobe::model::io::array::Arrays;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::train::TrainCursor;
use ssmprobe::model::train::run::{Outcome, ProbeCheckpoint, Run, RunError};

use super::{Sandbox, arrays, below};
use crate::faults::stride;
use crate::run::files;

type Contents = (BTreeMap<String, Vec<u8>>, Vec<Outcome>, String);

/// The contents of a run's folder, without durations.
pub fn contents(run: &Run) -> Contents {
    let mut all = files(&run.folder().join("probes"));
    all.extend(files(&run.folder().join("losses")));
    let outcomes = run.outcomes().expect("answers").into_iter().map(|one| Outcome { seconds: 0.0, ..one });
    let metrics = std::fs::read_to_string(run.folder().join("metrics.jsonl")).unwrap_or_default();
    (all, outcomes.collect(), metrics)
}

/// Trains, stops after event `cut` and resumes; the run, and whether there was such an event.
fn train_in_two(sandbox: &Sandbox, plan: &TrainPlan, out: &str, cut: usize) -> (Run, bool) {
    let mut events = 0;
    let first = sandbox.train(plan, out, &mut |event| {
        let counts = !matches!(event, Event::Plan { .. } | Event::Extract { .. } | Event::Begin { .. });
        events += usize::from(counts);
        if counts && events == cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (if first.finished { first.run } else { sandbox.trained(plan, out) }, events >= cut)
}

/// Asserts that a run, stopped after any event or every `step`-th, ends with the contents of `whole`; the number of the
/// last event asked for, which there is not. Folders' names begin with `name`.
#[track_caller]
pub fn cut_anywhere(sandbox: &Sandbox, plan: &TrainPlan, name: &str, whole: &Contents, step: usize) -> usize {
    let mut cut = 1;
    loop {
        let out = format!("{name}cut-{cut}");
        let (run, there) = train_in_two(sandbox, plan, &out, cut);
        assert!(contents(&run) == *whole, "{out} ends otherwise");
        if !there {
            return cut;
        }
        cut += step;
    }
}

#[test]
fn a_run_stopped_after_any_event_ends_as_one_that_was_not() {
    let sandbox = Sandbox::new();
    let plan = sandbox.train_plan(&["linear-bn", "random-dynamic"]);
    let whole = contents(&sandbox.trained(&plan, "whole"));
    assert_eq!((whole.0.len(), whole.1.len()), (2 * 2 * 2 + 2, 4));
    let cut = cut_anywhere(&sandbox, &plan, "", &whole, stride(5));
    // Steps, batches of evaluation (2 of val, 2 of test), epochs, seeds.
    let events = 2 * (4 * (4 + 4 + 1) + 1);
    assert!(cut > events && cut <= events + stride(5), "{cut}");
}

#[test]
fn a_run_that_another_begins_is_one_to_wait_for_before_any_token_is_extracted() {
    let sandbox = Sandbox::new();
    let plan = sandbox.train_plan(&["linear-bn"]);
    for resume in [false, true] {
        let spec = TrainSpec { plan: plan.clone(), out: sandbox.path(&format!("run-{resume}")), resume };
        let mut twin = None;
        let first = train::run(device::choose, &spec, &mut |event| {
            if matches!(event, Event::Plan { .. }) {
                twin = Some(train::run(device::choose, &spec, &mut |_| panic!("it has begun")));
            }
            ControlFlow::Continue(())
        });
        assert!(first.expect("a training").finished);
        let error = twin.expect("a twin").expect_err("another has it");
        assert!(matches!(error, TrainingError::Run(RunError::InUse { host: None, .. })), "{error}");
    }
}

#[test]
fn a_run_on_random_crops_that_is_stopped_after_any_event_ends_as_one_that_was_not() {
    let sandbox = Sandbox::new();
    let mut plan = sandbox.train_plan(&["linear-bn"]);
    (plan.settings.seeds, plan.settings.epochs, plan.settings.augment) = (1, 2, Augmentation::Crop);
    let whole = contents(&sandbox.trained(&plan, "whole"));
    let cut = cut_anywhere(&sandbox, &plan, "", &whole, stride(5));
    assert!(cut > 2 * (4 + 4 + 1), "{cut}");
    plan.settings.augment = Augmentation::None;
    plan.settings.tokens.cache = Some(sandbox.path("own"));
    assert!(contents(&sandbox.trained(&plan, "plain")) != whole, "crops that change nothing");
}

/// Its weights are those after the step, not those whose accuracy the last epoch has.
#[test]
fn the_last_probe_of_a_training_that_was_stopped_within_an_epoch_has_no_accuracy() {
    let sandbox = Sandbox::new();
    let mut plan = sandbox.train_plan(&["gap"]);
    plan.settings.seeds = 1;
    let stopped = |out: &str, stop: fn(&Event) -> bool| {
        let summary = sandbox.train(&plan, out, &mut |event| match stop(&event) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        [ProbeCheckpoint::Best, ProbeCheckpoint::Last].map(|which| {
            let probe = Probe::load(summary.run.probe_path("gap", 0, which)).expect("a probe");
            probe.meta.training.expect("a training")["epoch"].clone()
        })
    };
    let within =
        |event: &Event| matches!(event, Event::Step { position: TrainCursor { epoch: 1, step: 2 }, .. });
    let [best, last] = stopped("within", within);
    assert!(best["epoch"] == 1 && best["test"].is_number(), "{best}");
    assert_eq!(last, json!({ "epoch": 2 }));
    let [_, last] = stopped("after", |event| matches!(event, Event::Epoch { .. }));
    assert!(last["epoch"] == 1 && last["test"].is_number(), "{last}");
}

/// The training images of a run of seed 0 as recorded for the peer: epochs of batches.
fn batches() -> Vec<Vec<Vec<usize>>> {
    let order = arrays("start.safetensors").shift_remove("order/s0").expect("an order");
    let images: Vec<usize> = order.data.iter().map(|&image| image as usize).collect();
    let epochs = images.chunks(order.shape[1]);
    epochs.map(|epoch| epoch.chunks(8).map(<[usize]>::to_vec).collect()).collect()
}

/// One image of the first batch has tokens so large that the weights, after steps at an absurd rate, overflow on it in
/// the second epoch, at a known step.
#[test]
fn a_loss_that_breaks_after_a_stop_falls_back_to_the_last_values_that_gave_a_finite_one() {
    let batches = batches();
    let place =
        |image: usize| batches[1].iter().position(|batch| batch.contains(&image)).expect("every image");
    let large = *batches[0][0].iter().max_by_key(|image| place(**image)).expect("images");
    let broken = batches[0].len() + place(large);
    assert!(broken >= 6, "a broken step with others before it in its epoch: {broken}");
    let sandbox = Sandbox::with(|image, tokens| match image == large {
        true => {
            Tokens { patches: tokens.patches.iter().map(|x| (3e4 * x).clamp(-6e4, 6e4)).collect(), ..tokens }
        }
        false => tokens,
    });
    let mut plan = sandbox.train_plan(&["gap"]);
    (plan.settings.rate, plan.settings.seeds) = (1e35, 1);
    let mut steps: Vec<Arrays> = vec![below(&arrays("start.safetensors"), "s0/gap/")];
    let whole = sandbox.train(&plan, "whole", &mut |event| {
        if let Event::Step { trainers, .. } = &event {
            steps.push(trainers[0].model.params().to_trained());
        }
        ControlFlow::Continue(())
    });
    let failure = whole.outcomes[0].failure.as_deref().expect("a loss that breaks");
    assert!(failure.contains("the loss became") && failure.ends_with("in epoch 2"), "{failure}");
    assert_eq!(steps.len(), broken + 1, "the start, and every step before the broken one");
    // The loss was finite with the values before the last step, and not with those after it.
    let last_finite = &steps[broken - 1]["classifier.weight"].data;
    let same = |run: &Run, name: &str| {
        let probe = Probe::load(run.probe_path("gap", 0, ProbeCheckpoint::Last)).expect("a probe");
        assert!(probe.classifier.weight == *last_finite, "{name}: other values than the last good ones");
        assert_eq!(probe.meta.training.expect("a training")["epoch"], json!({ "epoch": 2 }), "{name}");
    };
    same(&whole.run, "uninterrupted");
    let expected = contents(&whole.run);
    for cut in 1.. {
        let (run, there) = train_in_two(&sandbox, &plan, &format!("cut-{cut}"), cut);
        same(&run, &format!("stopped after event {cut}"));
        assert!(contents(&run) == expected, "stopped after event {cut}");
        if !there {
            break;
        }
    }
}
