//! Evaluations within epochs: they measure the heads as they are at that step, change nothing else, and a stopped run
//! resumes to the same bits. Also other protocols than the paper's: their rates, and what a checkpoint keeps of them.

use std::ops::ControlFlow;

use ssmprobe::app::jobs::train::{Event, Parts};
use ssmprobe::model::io::array::Arrays;
use ssmprobe::model::train::protocol::Protocol;
use ssmprobe::model::train::run::Outcome;

use super::Sandbox;
use super::evaluation::ProbeLogits;
use super::resume::{contents, cut_anywhere};
use crate::faults::stride;

/// 4 epochs of 4 steps, evaluated after every third: 12 is the end of an epoch.
const EVERY: usize = 3;

#[test]
fn heads_are_evaluated_within_epochs_and_nothing_else_changes() {
    let sandbox = Sandbox::new();
    let mut plan = sandbox.train_plan(&["linear-bn", "gap"]);
    plan.settings.seeds = 1;
    let plain = sandbox.trained(&plan, "plain");
    plan.settings.evaluate_every = Some(EVERY);
    let parts = Parts::divide(&sandbox.dataset(), None).expect("parts");
    let mut evaluated: Vec<(String, usize)> = Vec::new();
    let mut evaluations = 0;
    let mut steps: Vec<Vec<Arrays>> = Vec::new();
    let run = sandbox.train(&plan, "run", &mut |event| {
        match event {
            Event::Step { trainers, .. } => {
                steps.push(trainers.iter().map(|trainer| trainer.model.params().to_trained()).collect());
            }
            Event::Between { trainers, .. } => {
                evaluations += 1;
                for (trainer, last) in trainers.iter().zip(steps.last().expect("steps")) {
                    assert!(
                        trainer.model.params().to_trained() == *last,
                        "evaluated other values than the last step's"
                    );
                    let epoch = trainer.progress.between.last().expect("an evaluation");
                    let step = epoch.step.expect("a step");
                    assert_eq!(
                        (step, epoch.epoch),
                        (steps.len(), (steps.len() - 1) / 4 + 1),
                        "{}",
                        trainer.name
                    );
                    let arrays = trainer.model.params().to_arrays();
                    let meta = sandbox.plan().backbone.clone();
                    let probe = trainer.model.probe_of(arrays, meta, sandbox.dataset().classes, None);
                    for (part, percent) in [(&parts.test, epoch.test), (&parts.select, epoch.select)] {
                        let logits = ProbeLogits::compute(&probe, &sandbox, &part.images, &part.classes);
                        logits.assert_accuracy(&format!("{}, step {step}", trainer.name), percent);
                    }
                    evaluated.push((trainer.name.clone(), step));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    let run = run.run;
    assert_eq!((evaluations, evaluated.len()), (4, 8));
    assert!(evaluated.iter().all(|(_, step)| [3, 6, 9, 15].contains(step)), "{evaluated:?}");
    // Apart from these evaluations, both runs are equal.
    let (with, without) = (contents(&run), contents(&plain));
    let losses = |files: &std::collections::BTreeMap<String, Vec<u8>>| files["s0.safetensors"].clone();
    assert!(losses(&with.0) == losses(&without.0));
    let plain = with.1.iter().map(|outcome| Outcome { between: Vec::new(), ..outcome.clone() });
    assert!(plain.collect::<Vec<_>>() == without.1);
    let lines: Vec<serde_json::Value> =
        with.2.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let places = |head: &str| {
        let own = lines.iter().filter(|line| line["head"] == head);
        own.map(|line| line["step"].as_u64().unwrap_or(4 * line["epoch"].as_u64().expect("an epoch")))
            .collect::<Vec<_>>()
    };
    assert_eq!(places("gap"), [3, 4, 6, 8, 9, 12, 15, 16], "in the order of steps");
    assert_eq!(without.2.lines().count(), 8);
}

#[test]
fn a_run_with_evaluations_within_epochs_goes_on_to_the_same_bits() {
    let sandbox = Sandbox::new();
    for protocol in [Protocol::Paper, Protocol::Dinov2Linear] {
        let mut plan = sandbox.train_plan(&["linear-bn"]);
        plan.settings.seeds = 1;
        (plan.settings.evaluate_every, plan.settings.protocol) = (Some(EVERY), protocol);
        let name = |what: &str| format!("{}-{what}", protocol.name());
        let whole = contents(&sandbox.trained(&plan, &name("whole")));
        assert_eq!(whole.1[0].between.len(), 4);
        let cut = cut_anywhere(&sandbox, &plan, &name(""), &whole, stride(3));
        // 16 steps, 4 epochs of 2 + 2 batches of evaluation and an end, a seed; 4 times 2 + 2 batches and an event.
        let events = 16 + 4 * 5 + 1 + 4 * 5;
        assert!(cut > events && cut <= events + stride(3), "{cut}");
    }
}

#[test]
fn a_protocol_moves_heads_by_its_own_optimiser_and_rates() {
    let sandbox = Sandbox::new();
    let mut plan = sandbox.train_plan(&["linear-bn"]);
    (plan.settings.seeds, plan.settings.epochs) = (1, 11);
    for protocol in [Protocol::MaeLinprobe, Protocol::EfficientProbing] {
        (plan.settings.protocol, plan.settings.rate) = (protocol, 0.4);
        let mut steps: Vec<Arrays> = Vec::new();
        sandbox.train(&plan, protocol.name(), &mut |event| {
            if let Event::Step { trainers, .. } = &event {
                let velocities = trainers[0].optimizer.to_arrays();
                assert!(velocities.keys().all(|name| name.ends_with(".velocity")), "{:?}", velocities.keys());
                steps.push(trainers[0].model.params().to_trained());
            }
            ControlFlow::Continue(())
        });
        let weight = |step: usize| steps[step]["classifier.weight"].data.clone();
        // The first step is taken at rate 0; the peak comes after ten epochs.
        let moved = |step: usize| {
            let pairs = weight(step).into_iter().zip(weight(step - 1));
            pairs.map(|(now, before)| f64::from(now - before).powi(2)).sum::<f64>().sqrt()
        };
        let start = &super::arrays("start.safetensors")["s0/linear-bn/classifier.weight"].data;
        let bias = &steps[0]["classifier.bias"].data;
        match protocol {
            Protocol::EfficientProbing => assert!(weight(0) == *start),
            _ => {
                let size = (weight(0).iter().map(|x| x * x).sum::<f32>() / start.len() as f32).sqrt();
                assert!((0.007..0.013).contains(&size) && bias.iter().all(|x| *x == 0.0), "{size} {bias:?}");
            }
        }
        assert!(moved(1) > 0.0 && moved(30) > 3.0 * moved(3), "{} {}", moved(3), moved(30));
        assert!(moved(43) < 0.5 * moved(40), "after the warm-up it falls: {} {}", moved(40), moved(43));
    }
    let run = ssmprobe::model::train::run::Run::open(&sandbox.path("mae-linprobe")).expect("a run");
    assert_eq!((run.manifest.config.protocol, run.manifest.config.rate), (Protocol::MaeLinprobe, 0.4));
}
