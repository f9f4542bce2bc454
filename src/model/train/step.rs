//! One step of many heads on one batch.
//!
//! Heads that pool the tokens do so together: on the CPU one [`Pass`] reads the tokens for all of them
//! and, once every head knows what its pools are owed, one more reads them for all gradients. In
//! between each head has a graph of its own, from its pools to its loss; before, one from its
//! parameters to what it asks of the tokens. A pass gives every head the same bits whoever is
//! beside it, and so does the step.

use std::time::Instant;

use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};

use super::HeadTrainer;
use super::cross_entropy::loss_and_right;
use crate::model::io::failpoint;
use crate::model::ops::cpu;
use crate::model::ops::pooling::Pooling;
use crate::model::ops::pooling::pass::{Gradient, Pass};
use crate::model::probe::head::Batch;
use crate::model::train::classifier::Model;

/// The labels of a batch on a device.
pub struct Labels {
    /// The classes, `[B]`.
    pub(super) index: Tensor<1, Int>,
    /// 1 at each image's class, else 0, `[B, C]`; on the processor, which multiplies with it.
    pub(super) target: Option<Tensor<2>>,
    count: usize,
}

impl Labels {
    /// The class of each image, out of `names` classes.
    pub fn new(classes: &[usize], names: usize, device: &Device) -> Self {
        let values: Vec<i32> = classes.iter().map(|&class| class as i32).collect();
        let index = Tensor::<1, Int>::from_data(TensorData::new(values, [classes.len()]), device);
        let target = cpu::on_cpu(device).then(|| {
            let mut target = vec![0.0_f32; classes.len() * names]; // made here: burn's one_hot reads the device to check bounds
            classes.iter().zip(target.chunks_mut(names)).for_each(|(&class, row)| row[class] = 1.0);
            Tensor::from_data(TensorData::new(target, [classes.len(), names]), device).autodiff()
        });
        Self { index, target, count: classes.len() }
    }
}

/// One step of every head that still trains, on one batch whose `patches` record gradients, at the learning rate that
/// `rate` says of each.
pub fn step_all<'a>(
    trainers: impl IntoIterator<Item = &'a mut HeadTrainer>,
    batch: &Batch,
    labels: &Labels,
    rate: impl Fn(&HeadTrainer) -> f64,
) {
    failpoint::device_step(batch.image_seeds.len());
    let begun = Instant::now();
    let together = cpu::on_cpu(&batch.patches.device());
    let mut steps: Vec<Step> = trainers
        .into_iter()
        .filter(|trainer| trainer.progress.failure.is_none())
        .map(|trainer| Step::new(trainer, batch, together))
        .collect();
    let asking = steps.iter().filter(|step| step.pooling.is_some()).count().max(1);
    let mut shared = begun.elapsed().as_secs_f64();

    let requests = steps.iter().filter_map(|step| step.pooling.as_ref()).map(Pooling::request).collect();
    let begun = Instant::now();
    let (mut pooled, pass) = match together {
        true => {
            let (pooled, pass) = Pass::forward(&cpu::flex(batch.patches.clone()), requests, true);
            (pooled.into_iter(), Some(pass))
        }
        false => (vec![].into_iter(), None),
    };
    shared += begun.elapsed().as_secs_f64();

    let mut owed = vec![];
    for step in &mut steps {
        let pooled = step.pooling.is_some().then(|| pooled.next().expect("an answer to every ask"));
        let cotangent = step.timed(|step| step.loss(batch, labels, pooled));
        if step.pooling.is_some() {
            owed.push(cotangent);
        }
    }

    let begun = Instant::now();
    let mut gradients = pass.map(|pass| pass.backward(&owed)).unwrap_or_default().into_iter();
    shared += begun.elapsed().as_secs_f64();

    for mut step in steps {
        let gradient = step.pooling.is_some().then(|| gradients.next().flatten()).flatten();
        if step.pooling.is_some() {
            step.trainer.progress.seconds += shared / asking as f64;
        }
        let rate = rate(step.trainer);
        step.timed(|step| step.update(labels, gradient, rate));
    }
}

/// A head within a step.
struct Step<'a> {
    trainer: &'a mut HeadTrainer,
    /// The model with parameters that record their gradients.
    tracked: Model,
    /// What it asks of a pass shared with others.
    pooling: Option<Pooling>,
    /// The features it found, before they are normalised, without their graph.
    raw: Option<Tensor<2>>,
    /// Its loss, and the gradients of what lies behind the pass.
    outcome: Option<(f64, usize, Gradients)>,
}

impl<'a> Step<'a> {
    fn new(trainer: &'a mut HeadTrainer, batch: &Batch, together: bool) -> Self {
        let tracked = trainer.model.clone().with_params(trainer.model.params().tracked());
        let pooling = if together { tracked.head().pooling(tracked.params(), batch) } else { None };
        Self { trainer, tracked, pooling, raw: None, outcome: None }
    }

    /// Runs `work` on the head's own time.
    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let begun = Instant::now();
        let result = work(self);
        self.trainer.progress.seconds += begun.elapsed().as_secs_f64();
        result
    }

    /// From what the pass gave, `[B, M, d or d + 1]`, to the loss and back; returns the gradient of what the pass
    /// gave.
    fn loss(&mut self, batch: &Batch, labels: &Labels, pooled: Option<Vec<f32>>) -> Option<Vec<f32>> {
        let pooled = pooled.map(|pooled| {
            let [images, _, width] = batch.patches.dims();
            let asked = self.pooling.as_ref().expect("only who requests gets an answer");
            let pooled = TensorData::new(pooled, asked.shape(images, width));
            Tensor::<3>::from_data(pooled, &batch.patches.device()).require_grad()
        });
        let raw = match pooled.clone() {
            Some(pooled) => self.tracked.raw_features_of(pooled, batch),
            None => self.tracked.raw_features(batch),
        }; // [B, F]
        self.raw = Some(raw.clone().inner());
        let told = loss_and_right(self.tracked.training_logits(raw), labels);
        let gradients = told.clone().backward();
        // The one time that a step waits for its device.
        let told = told.inner().into_data().try_into_vec::<f32>().expect("float32 numbers");
        let (value, right) = (f64::from(told[0]), told[1] as usize);
        let cotangent = pooled.and_then(|pooled| pooled.grad(&gradients));
        self.outcome = Some((value, right, gradients));
        cotangent.filter(|_| value.is_finite()).map(cpu::host)
    }

    /// Moves the parameters; a loss that is not finite takes back the step that led to it.
    fn update(&mut self, labels: &Labels, gradient: Option<Gradient>, rate: f64) {
        let (value, right, behind) = self.outcome.take().expect("a loss comes before an update");
        let trainer = &mut *self.trainer;
        if !value.is_finite() {
            trainer.fail(&format!("the loss became {value}"));
            return;
        }
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
        trainer.progress.running.loss += value * labels.count as f64;
        trainer.progress.running.right += right;
        trainer.progress.running.images += labels.count;
    }
}
