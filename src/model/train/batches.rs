//! The batches of an epoch and their labels, on the device.

use std::iter;

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::redraw::{Pass, redraw};
use super::{Task, TrainCursor};
use crate::model::data::token_cache::{Rows, TokenSourceError};
use crate::model::ops::cpu::{flex, on_cpu};
use crate::model::ops::halves::widened;
use crate::model::probe::head::Batch;
use crate::model::stats::shuffled;

/// The labels of a batch on a device.
#[derive(Clone)]
pub struct Labels {
    /// The classes, `[B]`.
    pub(super) index: Tensor<1, Int>,
    /// B.
    pub(super) count: usize,
}

impl Labels {
    /// Labels from the class of each image.
    pub fn new(classes: &[usize], device: &Device) -> Self {
        let values: Vec<i32> = classes.iter().map(|&class| class as i32).collect();
        Self { index: Tensor::from_data(&values[..], device), count: classes.len() }
    }
}

/// The order of the training images in one epoch, a function of seed and epoch.
pub(super) fn epoch_order(images: usize, seed: u64, epoch: usize) -> Vec<usize> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(epoch as u64);
    shuffled(images, &mut rng)
}

/// The tokens of a step's images at one layer.
pub(super) struct LayerBatch {
    /// Index of the layer among the task's, from 0.
    pub layer: usize,
    /// Whether this is the step's last layer.
    pub is_last: bool,
    pub batch: Batch,
}

/// The batches of an epoch in this `order` from `position` on, each step's layers one after the other. A batch is sent to the
/// device when the iterator reaches it, not before.
pub(super) fn layer_batches<'a>(
    task: &'a Task,
    order: &'a [usize],
    position: TrainCursor,
) -> impl Iterator<Item = Result<LayerBatch, TokenSourceError>> + 'a {
    let size = task.config.batch;
    let steps = order.chunks(size).map(|chunk| chunk.iter().map(|&i| task.train.images[i]).collect());
    let steps: Vec<Vec<usize>> = steps.skip(position.step).collect();
    let mut tokens = task.tokens.read_changed(steps.clone(), task.device, position.epoch, task.seed);
    let first = position.epoch * order.len().div_ceil(size) + position.step;
    steps.into_iter().zip(first..).flat_map(move |(images, done)| {
        let layers = tokens.next().expect("a batch for every step");
        layers.map_or_else(
            |error| Box::new(iter::once(Err(error))) as Box<dyn Iterator<Item = _>>,
            |layers| {
                let last = layers.len() - 1;
                Box::new(layers.enumerate().map(move |(layer, rows)| {
                    let batch = batch_of(task, rows, &images, Pass::Step(done));
                    Ok(LayerBatch { layer, is_last: layer == last, batch })
                }))
            },
        )
    })
}

/// The tokens of `images` on the device; in a training step the batch records gradients, and its image seeds depend on the step.
pub(super) fn batch_of(task: &Task, mut rows: Rows, images: &[usize], pass: Pass) -> Batch {
    let (tokens, device) = (task.tokens, task.device);
    let (grid, width) = (tokens.grid(), tokens.width());
    if task.redrawn {
        let token = width * rows.patches.dtype().size();
        TensorData::with_bytes_mut([&mut rows.patches], |mut bytes| {
            redraw(bytes[0], [grid.len(), token], images, task.seed, pass);
        });
    }
    let step = match pass {
        Pass::Step(done) => Some(done as u64),
        Pass::Evaluation(_) => None,
    };
    device.staging(iter::once(&mut rows.patches)); // into page-locked memory, which a GPU reads by DMA, unless they are there
    let patches = match on_cpu(device) {
        true => {
            let precision = rows.patches.dtype();
            Tensor::from_data(rows.patches, (device, precision))
        }
        false => widened::<3>(rows.patches, device),
    };
    let cls = rows.cls.map(|cls| Tensor::<2>::from_data(TensorData::new(cls, [images.len(), width]), device));
    // Seeds of different steps are far apart, and differ from those of an evaluation.
    let salt = step.map_or(0, |step| (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ task.seed);
    let image_seeds = images.iter().map(|&image| (image as u64).wrapping_add(salt)).collect();
    let batch = Batch { patches, cls, grid, image_seeds, training: false };
    if step.is_some() { batch.tracked() } else { batch }
}

/// Returns the memory of a batch on the CPU to the source of its tokens.
pub(super) fn give_back(task: &Task, batch: Batch) {
    if on_cpu(task.device) {
        let patches = flex(batch.patches);
        if patches.is_unique() {
            task.tokens.take_back(patches.into_data().into_parts().0);
        }
    }
}

#[cfg(test)]
mod gpu_tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::close::assert_close;
    use crate::model::data::token_cache::{Batches, LayerRows, TokenSource};
    use crate::model::grid::Grid;
    use crate::model::train::gpus_alone::{DIMS, gpus_alone, trainer};
    use crate::model::train::{Event, Labelled, TrainConfig, train};

    /// Tokens of two layers whose values differ by image, layer and position.
    struct TwoLayers;

    impl TokenSource for TwoLayers {
        fn grid(&self) -> Grid {
            DIMS.grid
        }

        fn width(&self) -> usize {
            DIMS.width
        }

        fn readable(&self, _: usize) -> bool {
            true
        }

        fn read(&self, batches: Vec<Vec<usize>>, _: &Device) -> Batches<'_> {
            let value =
                |layer: usize, image: usize, at: usize| ((image * 37 + layer * 53 + at * 11) % 101) as f32;
            Box::new(batches.into_iter().map(move |images| {
                let rows = move |layer| {
                    let of = |&image: &usize| (0..48).map(move |at| value(layer, image, at) / 50.0 - 1.0);
                    let values: Vec<f32> = images.iter().flat_map(of).collect();
                    Rows { patches: TensorData::new(values, [images.len(), 6, 8]), cls: None }
                };
                Ok(Box::new((0..2).map(rows)) as LayerRows)
            }))
        }
    }

    /// The losses by epoch of two heads, one at each layer.
    fn losses(device: &Device) -> Vec<f64> {
        let images =
            Labelled { images: (0..10).collect(), classes: (0..10).map(|image| image % 4).collect() };
        let evaluate_every = Some(2);
        let config =
            TrainConfig { epochs: 4, batch: 4, rate: 1e-2, evaluate_every, ..TrainConfig::default() };
        let [train_on, select, test] = [&images; 3];
        let task = Task {
            tokens: &TwoLayers,
            train: train_on,
            select,
            test,
            config: &config,
            device,
            seed: 0,
            redrawn: false,
        };
        let mut trainers = ["gap", "attention"].map(|id| trainer(id, device));
        trainers[1].layer = 1;
        let go_on = &mut |_: Event| ControlFlow::Continue(());
        train(&task, &mut trainers, TrainCursor::default(), go_on).expect("tokens for every batch");
        trainers.iter().flat_map(|trainer| trainer.progress.history.iter().map(|epoch| epoch.loss)).collect()
    }

    #[test]
    fn batches_that_are_sent_ahead_come_in_their_order() {
        let expected = losses(&Device::flex());
        assert_eq!(expected.len(), 8);
        for (name, gpu) in gpus_alone() {
            assert_close(&name, losses(&gpu), expected.clone(), 1e-4);
        }
    }
}
