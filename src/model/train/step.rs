//! One step of many heads on one batch.
//!
//! On the CPU, heads that pool the tokens share a [`Pass`]: its forward pass reads the tokens for all of them, and once the
//! cotangents of all pools are known, its backward pass reads them again for all gradients. Each head has a graph of its own
//! from its parameters to its pooling request, and another from its pools to its loss. A pass gives a head the same bits
//! whichever heads share it, and so does the step.

use std::time::Instant;

use burn::tensor::{Gradients, Tensor, TensorData};

use super::batches::Labels;
use super::cross_entropy::loss_and_gradients;
use super::pending_step::{PendingStep, read_outcomes};
use super::{HeadTrainer, RecordedStep};
use crate::model::io::failpoint;
use crate::model::ops::cpu;
use crate::model::ops::gpu::cube;
use crate::model::ops::pooling::Pooling;
use crate::model::ops::pooling::pass::{Gradient, Pass};
use crate::model::probe::head::Batch;
use crate::model::train::classifier::Model;
use crate::model::train::optim::gradients;

/// One step of every head that still trains, on a batch whose `patches` record gradients, at the head's learning rate.
pub fn step_all<'a>(
    trainers: impl IntoIterator<Item = &'a mut HeadTrainer>,
    batch: &Batch,
    labels: &Labels,
    rate: impl Fn(&HeadTrainer) -> f64,
) {
    step_all_overlapping(trainers, batch, labels, rate, || ());
}

/// As [`step_all`]; on a GPU, but for solo steps, calls `overlap` after all launches and before waiting for results.
pub(super) fn step_all_overlapping<'a>(
    trainers: impl IntoIterator<Item = &'a mut HeadTrainer>,
    batch: &Batch,
    labels: &Labels,
    rate: impl Fn(&HeadTrainer) -> f64,
    overlap: impl FnOnce(),
) {
    failpoint::device_step(batch.image_seeds.len());
    let trainers = trainers.into_iter().filter(|trainer| trainer.progress.failure.is_none());
    match cpu::on_cpu(&batch.patches.device()) {
        true => step_on_cpu(trainers, batch, labels, rate),
        false => step_on_gpu(trainers, batch, labels, rate, overlap),
    }
}

/// The step on the CPU, where all heads that pool the tokens share a pass.
fn step_on_cpu<'a>(
    trainers: impl Iterator<Item = &'a mut HeadTrainer>,
    batch: &Batch,
    labels: &Labels,
    rate: impl Fn(&HeadTrainer) -> f64,
) {
    let mut steps: Vec<Step> = trainers.map(Step::new).collect();
    for step in &mut steps {
        step.timed(|step| step.pooling = step.tracked.head().pooling(step.tracked.params(), batch));
    }
    let begun = Instant::now();
    let requests = steps.iter().filter_map(|step| step.pooling.as_ref()).map(Pooling::request).collect();
    let (pooled, pass) = Pass::forward(&cpu::flex(batch.patches.clone()), requests, true);
    let mut pooled = pooled.into_iter();
    let mut shared = begun.elapsed().as_secs_f64();

    let reads_float32 = |step: &Step| step.tracked.reads_float32(step.pooling.as_ref());
    let readers = steps.iter().filter(|step| reads_float32(step)).count();
    let begun = Instant::now();
    let wide = (readers > 0).then(|| batch.in_float32());
    let widening = begun.elapsed().as_secs_f64() / readers.max(1) as f64;
    let (mut computed, mut cotangents) = (vec![], vec![]);
    for step in &mut steps {
        let pools = step.pooling.is_some().then(|| pooled.next().expect("an answer to every request"));
        let wide = wide.as_ref().filter(|_| reads_float32(step));
        step.trainer.progress.seconds += wide.map_or(0.0, |_| widening);
        computed.push(step.timed(|step| {
            let batch = wide.unwrap_or(batch);
            let answer = step.pooling.as_ref().zip(pools);
            let pools = answer.map(|(own, pools)| own.tensor(pools, &batch.patches).require_grad());
            let (loss_and_right, backward) = step.forward_and_backward(batch, labels, pools.clone());
            let outcome = on_host(loss_and_right.into_data());
            if let Some(pools) = pools {
                let cotangent = pools.grad(&backward.gradients).filter(|_| outcome.0.is_finite());
                cotangents.push(cotangent.map(cpu::host));
            }
            (outcome, backward)
        }));
    }

    let begun = Instant::now();
    let mut gradients = pass.backward(&cotangents).into_iter();
    shared += begun.elapsed().as_secs_f64();
    let mut shares = pass.shares().into_iter();

    for (mut step, (outcome, backward)) in steps.into_iter().zip(computed) {
        let gradient = step.pooling.is_some().then(|| gradients.next().flatten()).flatten();
        if step.pooling.is_some() {
            step.trainer.progress.seconds += shared * shares.next().expect("a share for every request");
        }
        let rate = rate(step.trainer);
        step.timed(|step| {
            if outcome.0.is_finite() {
                step.update(backward, gradient, rate);
            }
            step.trainer.count(outcome, labels);
        });
    }
}

/// The step on a GPU, where each head reads the tokens itself. All heads' steps are launched before the first loss is read, so that
/// the GPU is not idle in between. Their total time is apportioned by the fastest solo step of each head, and counted up to the sum
/// of these: more is time of `overlap`.
fn step_on_gpu<'a>(
    trainers: impl Iterator<Item = &'a mut HeadTrainer>,
    batch: &Batch,
    labels: &Labels,
    rate: impl Fn(&HeadTrainer) -> f64,
    overlap: impl FnOnce(),
) {
    let mut trainers: Vec<_> = trainers.collect();
    for trainer in &mut trainers {
        if trainer.solo.restart_if_larger(labels.count) {
            trainer.recorded = None;
        }
    }
    let recording = trainers.iter().any(|trainer| trainer.solo.should_record(labels.count));
    if recording {
        // Otherwise free memory in the pools would count as taken by recordings.
        batch.patches.device().memory_cleanup();
    }
    let loaded = trainers.iter().find_map(|trainer| trainer.recorded.as_ref()?.load_batch(batch, labels));
    let loaded = loaded.or_else(|| recording.then(|| (RecordedStep::contiguous(batch), labels.clone())));
    let (batch, labels) = loaded.as_ref().map_or((batch, labels), |(batch, labels)| (batch, labels));
    let launch = |trainer: &'a mut HeadTrainer| {
        if trainer.solo.should_record(labels.count) {
            trainer.recorded = RecordedStep::new(trainer, batch, labels).map(Box::new);
        }
        let rate = rate(trainer);
        PendingStep::new(trainer, batch, labels, rate)
    };
    if trainers.iter().any(|trainer| !trainer.solo.are_done()) {
        for trainer in trainers {
            let begun = Instant::now();
            let pending = launch(trainer);
            let outcome = on_host(pending.loss_and_right.clone().into_data()); // waits for the device
            let trainer = pending.finish(outcome, labels);
            let seconds = begun.elapsed().as_secs_f64();
            trainer.progress.seconds += seconds;
            trainer.solo.add(labels.count, seconds);
        }
        return;
    }
    let begun = Instant::now();
    let pending: Vec<PendingStep> = trainers.into_iter().map(launch).collect();
    let gpu = cube(batch.patches.clone()).client;
    let read = read_outcomes(&gpu, &pending);
    overlap();
    let trainers: Vec<_> =
        pending.into_iter().zip(read()).map(|(step, outcome)| step.finish(outcome, labels)).collect();
    let seconds = begun.elapsed().as_secs_f64();
    let solo_total: f64 = trainers.iter().map(|trainer| trainer.solo.fastest()).sum();
    for trainer in trainers {
        trainer.progress.seconds += seconds.min(solo_total) * trainer.solo.fastest() / solo_total;
    }
}

/// The loss and the number of correct images from `[2]`.
pub(super) fn on_host(loss_and_right: TensorData) -> (f64, usize) {
    let loss_and_right = loss_and_right.try_into_vec::<f32>().expect("float32 numbers");
    (f64::from(loss_and_right[0]), loss_and_right[1] as usize)
}

impl HeadTrainer {
    /// Adds a step to the sums of the epoch; if its loss is not finite, ends the training and undoes the step before.
    pub(super) fn count(&mut self, (loss, right): (f64, usize), labels: &Labels) {
        if !loss.is_finite() {
            self.fail(&format!("the loss became {loss}"));
            return;
        }
        self.progress.running.loss += loss * labels.count as f64;
        self.progress.running.right += right;
        self.progress.running.images += labels.count;
    }
}

/// The step of one head in progress.
pub(super) struct Step<'a> {
    trainer: &'a mut HeadTrainer,
    /// The model with parameters that record gradients.
    tracked: Model,
    /// Its request to the pass shared with other heads.
    pooling: Option<Pooling>,
}

/// What an update needs of the step's forward and backward pass.
pub(super) struct BackwardPass {
    /// The features before normalisation, detached from the graph, `[B, F]`.
    raw: Tensor<2>,
    /// Gradients of the graph from the pools, or else from the parameters, to the loss.
    gradients: Gradients,
}

impl<'a> Step<'a> {
    pub(super) fn new(trainer: &'a mut HeadTrainer) -> Self {
        let tracked = trainer.model.clone().with_params(trainer.model.params().tracked());
        Self { trainer, tracked, pooling: None }
    }

    /// Runs `work` and adds its time to the head's.
    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let begun = Instant::now();
        let result = work(self);
        self.trainer.progress.seconds += begun.elapsed().as_secs_f64();
        result
    }

    /// The loss with the number of correct images, `[2]`, and the gradients, from its `pools`, `[B, M, d]` or `[B, M, d + 1]`, if the
    /// head shares a pass. Does not wait for the device.
    pub(super) fn forward_and_backward(
        &self,
        batch: &Batch,
        labels: &Labels,
        pools: Option<Tensor<3>>,
    ) -> (Tensor<1>, BackwardPass) {
        let features = match pools {
            Some(pools) => self.tracked.raw_features_of(pools, batch),
            None => self.tracked.raw_features(batch),
        }; // [B, F]
        let raw = features.clone().inner();
        let (products, bias) = self.tracked.training_products(features);
        let (loss_and_right, gradients) = loss_and_gradients(products, bias, labels);
        (loss_and_right, BackwardPass { raw, gradients })
    }

    /// Updates the parameters, given the gradient of its pooling request. Does not wait for the device.
    pub(super) fn update(&mut self, backward: BackwardPass, gradient: Option<Gradient>, rate: f64) {
        let trainer = &mut *self.trainer;
        let BackwardPass { raw, gradients: loss_gradients } = backward;
        let request =
            self.pooling.as_ref().zip(gradient).and_then(|(pooling, grad)| pooling.surrogate_loss(grad));
        let request_gradients = request.map(|request| request.backward());
        let graphs: Vec<_> = std::iter::once(&loss_gradients).chain(request_gradients.as_ref()).collect();
        trainer.last_finite = Some(trainer.model.params().clone());
        // Buffers are updated from the features before the step, as PyTorch's are.
        let observed = trainer.model.clone().observe(raw);
        let params = observed.params().clone();
        let moved = trainer.optimizer.step(params, gradients(self.tracked.params(), &graphs), rate);
        trainer.model = observed.with_params(moved);
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::model::grid::Grid;
    use crate::model::probe::head::{Config, Dims, find};

    /// The noisy plan takes hundreds of times as long as the mean.
    #[test]
    fn a_head_does_not_pay_for_the_plan_of_another() {
        let (device, dims) = (Device::flex(), Dims { grid: Grid::new(14, 14), width: 8, classes: 2 });
        let values: Vec<f32> = (0..4 * 196 * 8).map(|at| ((at * 37) % 101) as f32 / 50.0 - 1.0).collect();
        let patches = Tensor::<3>::from_data(TensorData::new(values, [4, 196, 8]), &device).autodiff();
        let batch =
            Batch { patches, cls: None, grid: dims.grid, image_seeds: (0..4).collect(), training: true };
        let mut trainers = ["gap", "gumbel-sinkhorn"].map(|id| {
            let model = Model::start(find(id).expect("a head"), &Config::default(), dims, 0, &device);
            HeadTrainer::new(id, model.expect("a head's start"))
        });
        step_all(&mut trainers, &batch, &Labels::new(&[0, 1, 0, 1], &device), |_| 1e-3);
        let [mean, noisy] = trainers.map(|trainer| trainer.progress.seconds);
        assert!(mean > 0.0 && noisy > 2.0 * mean, "{mean} {noisy}");
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::Device;

    use super::*;
    use crate::close::assert_close;
    use crate::model::train::gpus_alone::{batch, gpus_alone, trainer};
    use crate::model::train::optim::Optimizer;
    use crate::model::train::solo_steps::{SOLO_STEPS, SoloSteps};

    #[test]
    fn a_loss_that_breaks_takes_back_the_step_that_led_to_it_and_its_own() {
        for (name, device) in gpus_alone().chain([("cpu".to_owned(), Device::flex())]) {
            // In solo steps, and in joint ones.
            for steps in [0, SOLO_STEPS] {
                let (batch, labels) = batch(0, 4, &device);
                let mut trainers = [1e38, 1e-3]
                    .map(|rate| HeadTrainer { rate: Some(rate), ..trainer("attention", &device) });
                let solo = SoloSteps { images: labels.count, seconds: vec![1.0; steps] };
                trainers.iter_mut().for_each(|trainer| trainer.solo = solo.clone());
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
            let (batch, labels) = batch(0, 4, &device);
            let mut trainers = ["gap", "attention"].map(|id| trainer(id, &device));
            let mut done = vec![];
            for step in 0..=SOLO_STEPS {
                step_all_overlapping(&mut trainers, &batch, &labels, |_| 1e-3, || done.push(step));
            }
            // Not in solo steps, whose time is measured, nor on the CPU.
            assert_eq!(done, if name == "cpu" { vec![] } else { vec![SOLO_STEPS] }, "{name}");
        }
    }

    #[test]
    fn what_steps_take_together_is_shared_out_by_what_they_took_alone() {
        for (name, device) in gpus_alone() {
            let (batch, labels) = batch(0, 4, &device);
            let mut trainers = ["gap", "attention"].map(|id| trainer(id, &device));
            for _ in 0..SOLO_STEPS {
                step_all(&mut trainers, &batch, &labels, |_| 1e-3);
            }
            let before = trainers.each_ref().map(|trainer| trainer.progress.seconds);
            let solo = trainers.each_ref().map(|trainer| trainer.solo.clone());
            assert_eq!(before, solo.each_ref().map(|steps| steps.seconds.iter().sum::<f64>()), "{name}");
            step_all(&mut trainers, &batch, &labels, |_| 1e-3);
            assert_eq!(trainers.each_ref().map(|trainer| trainer.solo.clone()), solo, "{name}");
            let found = [0, 1].map(|at| trainers[at].progress.seconds - before[at]);
            let [gap, attention] = solo.map(|steps| steps.fastest());
            assert_close(&name, [found[0] / found[1]], [gap / attention], 1e-6);
        }
    }
}
