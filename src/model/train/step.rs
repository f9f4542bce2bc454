//! One step of many heads on one batch.
//!
//! Heads that pool the tokens do so together: on the CPU one [`Pass`] reads the tokens for all of them
//! and, once every head knows what its pools are owed, one more reads them for all gradients. In
//! between each head has a graph of its own, from its pools to its loss; before, one from its
//! parameters to what it asks of the tokens. A pass gives every head the same bits whoever is
//! beside it, and so does the step.

use std::time::Instant;

use burn::tensor::{Gradients, Tensor, TensorData};

use super::HeadTrainer;
use super::RecordedStep;
use super::batches::Labels;
use super::cross_entropy::loss_and_gradients;
use crate::model::io::failpoint;
use crate::model::ops::cpu;
use crate::model::ops::pooling::Pooling;
use crate::model::ops::pooling::pass::{Gradient, Pass};
use crate::model::probe::head::Batch;
use crate::model::probe::params::Params;
use crate::model::train::classifier::Model;
use crate::model::train::optim::Optimizer;

/// One step of every head that still trains, on one batch whose `patches` record gradients, at the learning rate that
/// `rate` says of each.
pub fn step_all<'a>(
    trainers: impl IntoIterator<Item = &'a mut HeadTrainer>,
    batch: &Batch,
    labels: &Labels,
    rate: impl Fn(&HeadTrainer) -> f64,
) {
    step_all_and(trainers, batch, labels, rate, || ());
}

/// The same; calls `meanwhile` where a GPU has all that it was asked for, and the host would wait for it.
pub(super) fn step_all_and<'a>(
    trainers: impl IntoIterator<Item = &'a mut HeadTrainer>,
    batch: &Batch,
    labels: &Labels,
    rate: impl Fn(&HeadTrainer) -> f64,
    meanwhile: impl FnOnce(),
) {
    failpoint::device_step(batch.image_seeds.len());
    let trainers = trainers.into_iter().filter(|trainer| trainer.progress.failure.is_none());
    match cpu::on_cpu(&batch.patches.device()) {
        true => together(trainers, batch, labels, rate),
        false => in_turn(trainers, batch, labels, rate, meanwhile),
    }
}

/// On the CPU all heads that pool the tokens read them in one pass.
fn together<'a>(
    trainers: impl Iterator<Item = &'a mut HeadTrainer>,
    batch: &Batch,
    labels: &Labels,
    rate: impl Fn(&HeadTrainer) -> f64,
) {
    let begun = Instant::now();
    let mut steps: Vec<Step> = trainers
        .map(|trainer| {
            let step = Step::new(trainer);
            let pooling = step.tracked.head().pooling(step.tracked.params(), batch);
            Step { pooling, ..step }
        })
        .collect();
    let asking = steps.iter().filter(|step| step.pooling.is_some()).count().max(1);
    let requests = steps.iter().filter_map(|step| step.pooling.as_ref()).map(Pooling::request).collect();
    let (pooled, pass) = Pass::forward(&cpu::flex(batch.patches.clone()), requests, true);
    let mut pooled = pooled.into_iter();
    let mut shared = begun.elapsed().as_secs_f64();

    let mut owed = vec![];
    for step in &mut steps {
        let pooled = step.pooling.is_some().then(|| pooled.next().expect("an answer to every ask"));
        let cotangent = step.timed(|step| {
            step.begin(batch, labels, pooled);
            step.read_loss()
        });
        if step.pooling.is_some() {
            owed.push(cotangent);
        }
    }

    let begun = Instant::now();
    let mut gradients = pass.backward(&owed).into_iter();
    shared += begun.elapsed().as_secs_f64();

    for mut step in steps {
        let gradient = step.pooling.is_some().then(|| gradients.next().flatten()).flatten();
        if step.pooling.is_some() {
            step.trainer.progress.seconds += shared / asking as f64;
        }
        let rate = rate(step.trainer);
        step.timed(|step| {
            if step.is_finite() {
                step.update(gradient, rate);
            }
            let outcome = step.outcome.expect("a loss is read before it is counted");
            step.trainer.count(outcome, labels);
        });
    }
}

/// On a GPU each reads them for itself. All heads' steps are asked for before the first loss is read, so that the GPU does not wait
/// for the host in between; what they take together is shared out by what first steps took alone, and not counted as more than
/// that, which is what the host did `meanwhile`.
fn in_turn<'a>(
    trainers: impl Iterator<Item = &'a mut HeadTrainer>,
    batch: &Batch,
    labels: &Labels,
    rate: impl Fn(&HeadTrainer) -> f64,
    meanwhile: impl FnOnce(),
) {
    let mut trainers: Vec<_> = trainers.collect();
    for trainer in &mut trainers {
        if trainer.alone.begins(labels.count) {
            trainer.recorded = None;
        }
    }
    let recording = trainers.iter().any(|trainer| trainer.alone.records(labels.count));
    if recording {
        // What was used before and is free would count as memory that recordings have taken.
        batch.patches.device().memory_cleanup();
    }
    let placed = trainers.iter().find_map(|trainer| trainer.recorded.as_ref()?.place(batch, labels));
    let placed = placed.or_else(|| recording.then(|| (RecordedStep::dense(batch), labels.clone())));
    let (batch, labels) = placed.as_ref().map_or((batch, labels), |(batch, labels)| (batch, labels));
    let ask = |trainer: &'a mut HeadTrainer| {
        if trainer.alone.records(labels.count) {
            trainer.recorded = RecordedStep::new(trainer, batch, labels).map(Box::new);
        }
        let rate = rate(trainer);
        Asked::new(trainer, batch, labels, rate)
    };
    if trainers.iter().any(|trainer| !trainer.alone.is_over()) {
        for trainer in trainers {
            let begun = Instant::now();
            let trainer = ask(trainer).finish(labels);
            let seconds = begun.elapsed().as_secs_f64();
            trainer.progress.seconds += seconds;
            trainer.alone.add(labels.count, seconds);
        }
        return;
    }
    let begun = Instant::now();
    let asked: Vec<Asked> = trainers.into_iter().map(ask).collect();
    meanwhile();
    let trainers: Vec<_> = asked.into_iter().map(|asked| asked.finish(labels)).collect();
    let seconds = begun.elapsed().as_secs_f64();
    let all: f64 = trainers.iter().map(|trainer| trainer.alone.least()).sum();
    for trainer in trainers {
        trainer.progress.seconds += seconds.min(all) * trainer.alone.least() / all;
    }
}

/// A head's step that a GPU was asked for, update included.
struct Asked<'a> {
    trainer: &'a mut HeadTrainer,
    /// Its loss and how many images are right, on their way, `[2]`.
    told: Tensor<1>,
    /// What its update moves, as it was before.
    before: (Model, Optimizer, Option<Params>),
}

impl<'a> Asked<'a> {
    /// Waits for nothing.
    fn new(trainer: &'a mut HeadTrainer, batch: &Batch, labels: &Labels, rate: f64) -> Self {
        let mut recorded = trainer.recorded.take();
        let mut fitting = recorded.as_mut().filter(|recorded| recorded.place(batch, labels).is_some());
        if let Some(recorded) = &mut fitting {
            recorded.take_over(trainer);
        }
        let HeadTrainer { model, optimizer, last_finite, .. } = &*trainer;
        let before = (model.clone(), optimizer.clone(), last_finite.clone());
        let told = match fitting {
            Some(recorded) => recorded.replay(trainer, rate),
            None => {
                let mut step = Step::new(trainer);
                step.begin(batch, labels, None);
                let told = step.take_told();
                step.update(None, rate);
                told
            }
        };
        trainer.recorded = recorded;
        Self { trainer, told, before }
    }

    /// Waits for its loss, and takes back what led to one that is not finite.
    fn finish(self, labels: &Labels) -> &'a mut HeadTrainer {
        let Self { trainer, told, before } = self;
        let outcome = outcome(told);
        if !outcome.0.is_finite() {
            (trainer.model, trainer.optimizer, trainer.last_finite) = before;
        }
        trainer.count(outcome, labels);
        trainer
    }
}

/// The loss and how many images are right, on the host.
fn outcome(told: Tensor<1>) -> (f64, usize) {
    let told = told.into_data().try_into_vec::<f32>().expect("float32 numbers");
    (f64::from(told[0]), told[1] as usize)
}

impl HeadTrainer {
    /// Counts what came of a step; a loss that is not finite takes back the step that led to it.
    fn count(&mut self, (loss, right): (f64, usize), labels: &Labels) {
        if !loss.is_finite() {
            self.fail(&format!("the loss became {loss}"));
            return;
        }
        self.progress.running.loss += loss * labels.count as f64;
        self.progress.running.right += right;
        self.progress.running.images += labels.count;
    }
}

/// A head within a step.
pub(super) struct Step<'a> {
    trainer: &'a mut HeadTrainer,
    /// The model with parameters that record their gradients.
    tracked: Model,
    /// What it asks of a pass shared with others.
    pooling: Option<Pooling>,
    /// The features it found, before they are normalised, without their graph.
    raw: Option<Tensor<2>>,
    /// What the pass gave it, `[B, M, d or d + 1]`.
    pooled: Option<Tensor<3>>,
    /// The gradients of what lies behind the pass.
    gradients: Option<Gradients>,
    /// Its loss and how many images are right, on their way, `[2]`.
    told: Option<Tensor<1>>,
    /// The same when they are there.
    outcome: Option<(f64, usize)>,
}

impl<'a> Step<'a> {
    pub(super) fn new(trainer: &'a mut HeadTrainer) -> Self {
        let tracked = trainer.model.clone().with_params(trainer.model.params().tracked());
        Self {
            trainer,
            tracked,
            pooling: None,
            raw: None,
            pooled: None,
            gradients: None,
            told: None,
            outcome: None,
        }
    }

    /// Runs `work` on the head's own time.
    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let begun = Instant::now();
        let result = work(self);
        self.trainer.progress.seconds += begun.elapsed().as_secs_f64();
        result
    }

    /// From what the pass gave to the loss and back. Waits for nothing.
    pub(super) fn begin(&mut self, batch: &Batch, labels: &Labels, pooled: Option<Vec<f32>>) {
        self.pooled = pooled.map(|pooled| {
            let [images, _, width] = batch.patches.dims();
            let asked = self.pooling.as_ref().expect("only who requests gets an answer");
            let pooled = TensorData::new(pooled, asked.shape(images, width));
            Tensor::<3>::from_data(pooled, &batch.patches.device()).require_grad()
        });
        let raw = match self.pooled.clone() {
            Some(pooled) => self.tracked.raw_features_of(pooled, batch),
            None => self.tracked.raw_features(batch),
        }; // [B, F]
        self.raw = Some(raw.clone().inner());
        let (products, bias) = self.tracked.training_products(raw);
        let (told, gradients) = loss_and_gradients(products, bias, labels);
        (self.told, self.gradients) = (Some(told), Some(gradients));
    }

    /// Its loss and how many images are right, on their way, `[2]`.
    pub(super) fn take_told(&mut self) -> Tensor<1> {
        self.told.take().expect("a step begins with a forward pass")
    }

    /// Waits for its loss, and returns the gradient of what the pass gave.
    fn read_loss(&mut self) -> Option<Vec<f32>> {
        self.outcome = Some(outcome(self.take_told()));
        let gradients = self.gradients.as_ref().filter(|_| self.is_finite())?;
        self.pooled.take()?.grad(gradients).map(cpu::host)
    }

    /// Whether its loss is, which was read.
    fn is_finite(&self) -> bool {
        self.outcome.is_some_and(|(loss, _)| loss.is_finite())
    }

    /// Moves the parameters. Waits for nothing.
    pub(super) fn update(&mut self, gradient: Option<Gradient>, rate: f64) {
        let trainer = &mut *self.trainer;
        let behind = self.gradients.take().expect("gradients come before an update");
        let carried = self.pooling.as_ref().zip(gradient).and_then(|(pooling, by)| pooling.carry(by));
        let before = carried.map(|carried| carried.backward());
        let gradients: Vec<&Gradients> = std::iter::once(&behind).chain(before.as_ref()).collect();
        trainer.last_finite = Some(trainer.model.params().clone());
        // Buffers follow what was seen before the step, as PyTorch's do.
        let raw = self.raw.take().expect("features come before a loss");
        let seen = trainer.model.clone().observe(raw);
        let params = seen.params().clone();
        let moved = trainer.optimizer.step(params, self.tracked.params(), &gradients, rate);
        trainer.model = seen.with_params(moved);
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::Device;

    use super::*;
    use crate::close::assert_close;
    use crate::model::grid::Grid;
    use crate::model::probe::head::{Config, Dims, find};
    use crate::model::train::alone::{Alone, STEPS};
    use crate::model::train::gpus_alone::gpus_alone;

    const DIMS: Dims = Dims { grid: Grid::new(2, 3), width: 8, classes: 4 };

    /// A few images, and their classes.
    fn images(device: &Device) -> (Batch, Labels) {
        let values: Vec<f32> = (0..4 * 6 * 8).map(|at| ((at * 37) % 101) as f32 / 50.0 - 1.0).collect();
        let patches = Tensor::<3>::from_data(TensorData::new(values, [4, 6, 8]), device).autodiff();
        let image_seeds = (0..4).collect();
        let batch = Batch { patches, cls: None, grid: DIMS.grid, image_seeds, training: true };
        (batch, Labels::new(&[0, 1, 2, 3], 4, device))
    }

    fn trainer(id: &str, rate: f64, device: &Device) -> HeadTrainer {
        let kind = find(id).expect("a head");
        let model = Model::start(kind, &Config::default(), DIMS, 0, device).expect("a head's start");
        HeadTrainer::new(id, model).at(0, Some(rate))
    }

    #[test]
    fn a_loss_that_breaks_takes_back_the_step_that_led_to_it_and_its_own() {
        for (name, device) in gpus_alone().chain([("cpu".to_owned(), Device::flex())]) {
            // Taken alone, and together.
            for steps in [0, STEPS] {
                let (batch, labels) = images(&device);
                let mut trainers = [1e38, 1e-3].map(|rate| trainer("attention", rate, &device));
                let alone = Alone { images: labels.count, seconds: vec![1.0; steps] };
                trainers.iter_mut().for_each(|trainer| trainer.alone = alone.clone());
                let start = trainers[0].model.params().to_arrays();
                for _ in 0..3 {
                    step_all(&mut trainers, &batch, &labels, |trainer| trainer.rate.expect("a rate"));
                }
                let [broken, sound] = trainers;
                assert!(broken.progress.failure.is_some_and(|why| why.contains("the loss became")), "{name}");
                assert_eq!(broken.model.params().to_arrays(), start, "{name}");
                let steps = |optimizer: Optimizer| optimizer.to_arrays()["steps"].data[0];
                assert_eq!((steps(broken.optimizer), broken.progress.running.images), (1.0, 4), "{name}");
                assert_eq!((steps(sound.optimizer), sound.progress.running.images), (3.0, 12), "{name}");
                assert!(sound.progress.failure.is_none() && sound.model.params().are_finite(), "{name}");
            }
        }
    }

    #[test]
    fn what_there_is_to_do_meanwhile_is_done_before_a_loss_is_waited_for() {
        for (name, device) in gpus_alone().chain([("cpu".to_owned(), Device::flex())]) {
            let (batch, labels) = images(&device);
            let mut trainers = ["gap", "attention"].map(|id| trainer(id, 1e-3, &device));
            let mut done = vec![];
            for step in 0..=STEPS {
                step_all_and(&mut trainers, &batch, &labels, |_| 1e-3, || done.push(step));
            }
            // Not in steps whose time is taken, nor where the host does the work.
            assert_eq!(done, if name == "cpu" { vec![] } else { vec![STEPS] }, "{name}");
        }
    }

    #[test]
    fn what_steps_take_together_is_shared_out_by_what_they_took_alone() {
        for (name, device) in gpus_alone() {
            let (batch, labels) = images(&device);
            let mut trainers = ["gap", "attention"].map(|id| trainer(id, 1e-3, &device));
            for _ in 0..STEPS {
                step_all(&mut trainers, &batch, &labels, |_| 1e-3);
            }
            let before = trainers.each_ref().map(|trainer| trainer.progress.seconds);
            let alone = trainers.each_ref().map(|trainer| trainer.alone.clone());
            assert_eq!(before, alone.each_ref().map(|steps| steps.seconds.iter().sum::<f64>()), "{name}");
            step_all(&mut trainers, &batch, &labels, |_| 1e-3);
            assert_eq!(trainers.each_ref().map(|trainer| trainer.alone.clone()), alone, "{name}");
            let found = [0, 1].map(|at| trainers[at].progress.seconds - before[at]);
            let [gap, attention] = alone.map(|steps| steps.least());
            assert_close(&name, [found[0] / found[1]], [gap / attention], 1e-6);
        }
    }
}
