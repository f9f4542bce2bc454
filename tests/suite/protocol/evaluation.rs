//! Evaluation does not train, does not change the draws of training, and agrees with the probe files afterwards: for every
//! head.

use std::ops::ControlFlow;

use ssmprobe::app::jobs::train::Event;
use ssmprobe::model::io::array::Arrays;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::train::run::{Outcome, ProbeCheckpoint, Run};

use super::Sandbox;
use crate::close::assert_close;
use crate::heads::logits_of;

/// Two logits with a smaller difference may have the other order in float32 than in float64.
const MARGIN_TOLERANCE: f64 = 1e-3;

/// The float64 logits that a probe file gives for images, and their classes; draws depend on an image's number in the dataset.
pub struct ProbeLogits {
    logits: Vec<Vec<f64>>,
    classes: Vec<usize>,
}

impl ProbeLogits {
    pub fn compute(probe: &Probe, sandbox: &Sandbox, images: &[usize], classes: &[usize]) -> Self {
        let logits = |&image: &usize| logits_of(probe, &sandbox.tokens(image), image as u64);
        Self { logits: images.iter().map(logits).collect(), classes: classes.to_vec() }
    }

    /// The logit of each image's class minus the largest other one.
    fn margins(&self, classes: impl Iterator<Item = usize>) -> Vec<f64> {
        let margin = |(logits, class): (&Vec<f64>, usize)| {
            let others = logits.iter().enumerate().filter(|(other, _)| *other != class);
            logits[class] - others.map(|(_, logit)| *logit).fold(f64::NEG_INFINITY, f64::max)
        };
        self.logits.iter().zip(classes).map(margin).collect()
    }

    pub fn assert_accuracy(&self, name: &str, percent: f64) {
        let margins = self.margins(self.classes.iter().copied());
        let above = |least: f64| margins.iter().filter(|margin| **margin > least).count() as f64;
        let (sure, at_most) = (above(MARGIN_TOLERANCE), above(-MARGIN_TOLERANCE));
        let right = percent / 100.0 * margins.len() as f64;
        assert_close(name, right, right.round(), 1e-6);
        assert!(
            sure - 1e-6 <= right && right <= at_most + 1e-6,
            "{name}: {right}, not from {sure} to {at_most}"
        );
    }

    fn assert_answers(&self, name: &str, answers: &[u32]) {
        let margins = self.margins(answers.iter().map(|&answer| answer as usize));
        assert_eq!(margins.len(), answers.len(), "{name}");
        assert!(margins.iter().all(|margin| *margin > -MARGIN_TOLERANCE), "{name}: {margins:?}");
    }
}

fn file(run: &Run, outcome: &Outcome, which: ProbeCheckpoint) -> Probe {
    Probe::load(run.probe_path(&outcome.head, outcome.seed, which)).expect("a probe")
}

#[test]
fn probe_files_hold_what_their_run_says_of_the_best_and_the_last_epoch() {
    let sandbox = Sandbox::new();
    let run = sandbox.trained(&sandbox.train_plan(&["all"]), "run");
    let parts = ssmprobe::app::jobs::train::Parts::divide(&sandbox.dataset(), None).expect("parts");
    assert_ne!(parts.select, parts.test);
    let mut apart = 0;
    for outcome in run.outcomes().expect("answers") {
        let best = outcome.best_epoch.expect("an epoch");
        let select: Vec<f64> = outcome.epochs.iter().map(|epoch| epoch.select).collect();
        let name = format!("{}, seed {}", outcome.head, outcome.seed);
        assert!(select.iter().all(|&x| x <= select[best]), "{name}: {best} is not the best of {select:?}");
        assert!(
            select[..best].iter().all(|&x| x < select[best]),
            "{name}: {best} is not the first of {select:?}"
        );
        for (which, epoch, answers) in [
            (ProbeCheckpoint::Best, best, &outcome.best),
            (ProbeCheckpoint::Last, outcome.epochs.len() - 1, &outcome.last),
        ] {
            let (probe, reported) = (file(&run, &outcome, which), &outcome.epochs[epoch]);
            let name = format!("{name}, {}", which.name());
            let test = ProbeLogits::compute(&probe, &sandbox, &parts.test.images, &parts.test.classes);
            test.assert_answers(&name, answers);
            test.assert_accuracy(&format!("{name}, test"), reported.test);
            let select = ProbeLogits::compute(&probe, &sandbox, &parts.select.images, &parts.select.classes);
            select.assert_accuracy(&format!("{name}, selection"), reported.select);
            let training = probe.meta.training.as_ref().expect("what it was trained on");
            assert_eq!(training["epoch"]["epoch"], epoch + 1, "{name}");
            assert_close(&name, training["epoch"]["test"].as_f64().expect("a number"), reported.test, 1e-6);
        }
        let [first, last] = ProbeCheckpoint::ALL.map(|which| file(&run, &outcome, which).classifier);
        assert_eq!(first == last, best + 1 == outcome.epochs.len(), "{name}");
        apart += usize::from(first != last);
    }
    assert!(apart > 20, "only {apart} probes are best before the end: the test tells little apart");
}

#[test]
fn evaluation_changes_neither_parameters_nor_moments() {
    let sandbox = Sandbox::new();
    let mut plan = sandbox.train_plan(&["linear-bn", "random-dynamic", "gumbel-sinkhorn", "transformer"]);
    plan.settings.seeds = 1;
    let mut before: Vec<(Arrays, Arrays)> = Vec::new();
    let mut compared = 0;
    sandbox.train(&plan, "run", &mut |event| {
        let (Event::Step { trainers, .. } | Event::Epoch { trainers, .. }) = &event else {
            return ControlFlow::Continue(());
        };
        let now = trainers.iter().map(|l| (l.model.params().to_trained(), l.optimizer.to_arrays())).collect();
        if matches!(event, Event::Epoch { .. }) {
            assert!(now == before);
            compared += 1;
        } else {
            assert!(now != before, "a step that moves nothing");
        }
        before = now;
        ControlFlow::Continue(())
    });
    assert_eq!(compared, 4);
}
