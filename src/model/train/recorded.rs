//! The step of a head on a GPU, recorded once as a graph and then replayed: a GPU runs the launches of a small head in less time
//! than the host needs to submit them one by one.
//!
//! A recording reads and writes the same buffers every time: the batch it was recorded on, into which later batches are copied; the
//! head's parameters and moments, which the last launch overwrites with the updated ones; the learning rate. A loss that is not
//! finite overwrites nothing; the launch before keeps the previous parameters, from which the head is then restored.

use std::thread::{self, ThreadId};

use burn::tensor::{Device, Int, TensorData};
use burn_cubecl::cubecl::client::Graph;

use super::HeadTrainer;
use super::batches::Labels;
use super::optim::{AdamW, Optimizer};
use super::step::Step;
use crate::model::device::free_memory;
use crate::model::io::catch_panic::catch_foreign;
use crate::model::ops::gpu::multi_tensor::{STRIDE, Share, launch_each};
use crate::model::ops::gpu::prelude::*;
use crate::model::probe::head::Batch;
use crate::model::probe::params::Params;
use crate::model::train::classifier::Model;

/// Memory that a GPU is taken to have if it does not report it, in bytes.
const ASSUMED_MEMORY: u64 = 4 << 30;
/// Number of times that a step runs without effect before it is recorded, so that its kernels and buffers exist.
const WARM_UP: usize = 2;

/// A recorded step of a head.
pub(super) struct RecordedStep {
    graph: Graph,
    /// The buffers that it reads its batch from.
    batch: Batch,
    labels: Labels,
    /// The factor of the variance, the learning rate, and whether to overwrite the parameters (0 or 1), `[3]`.
    rates: CubeTensor,
    /// In place of `rates` and of a loss, for copies that always take place.
    always: CubeTensor,
    model: Model,
    optimizer: AdamW,
    /// The parameters before the last step that changed them.
    previous: Params,
    /// Its loss and the number of correct images, `[2]`.
    loss_and_right: Tensor<1>,
    /// The thread whose queue the recording belongs to.
    thread: ThreadId,
}

impl RecordedStep {
    /// Records the step of a head that has taken one before, for batches of this size, without changing the head. `None` if the GPU
    /// records none or lacks memory, if the optimiser does not support it, or if the head draws random numbers for every batch.
    pub(super) fn new(trainer: &HeadTrainer, batch: &Batch, labels: &Labels) -> Option<Self> {
        let Optimizer::AdamW(adam) = &trainer.optimizer else { return None };
        let device = trainer.model.params().iter().next()?.1.device();
        if !adam.is_recordable() || trainer.model.head().draws() || !has_room(&device) {
            return None;
        }
        let client = cube(batch.patches.clone()).client;
        let always = three_values(&device, [0.0, 0.0, 1.0]);
        let own = |value: Tensor<1>| {
            let value = contiguous(value);
            let copy = empty(&value, [value.shape().num_elements()]);
            copy_if_finite(&[(value, copy.clone())], &always, &always);
            tensor(copy)
        };
        let rates = three_values(&device, [0.0; 3]);
        let model =
            trainer.model.clone().with_params(trainer.model.params().clone().map(|_, value| own(value)));
        let previous =
            trainer.last_finite.as_ref().unwrap_or(trainer.model.params()).clone().map(|_, value| own(value));
        let optimizer = adam.clone().recorded(Some(tensor(rates.clone())), own);
        let step = || {
            let optimizer_copy = Optimizer::AdamW(optimizer.clone());
            let mut copy = HeadTrainer { optimizer: optimizer_copy, ..HeadTrainer::new("", model.clone()) };
            let mut step = Step::new(&mut copy);
            let (loss_and_right, backward) = step.forward_and_backward(batch, labels, None);
            step.update(backward, None, 0.0);
            let Optimizer::AdamW(moved) = &copy.optimizer else { unreachable!() };
            let (loss, kept) = (cube(loss_and_right.clone()), pairs(model.params(), &previous));
            let moments = moved.zip_moments(&optimizer).map(pair);
            let moved =
                pairs(copy.model.params(), model.params()).into_iter().chain(moments).filter(are_distinct);
            copy_if_finite(&kept, &loss, &rates);
            copy_if_finite(&moved.collect::<Vec<_>>(), &loss, &rates);
            loss_and_right
        };
        client.graph_prepare().ok()?;
        let recorded = catch_foreign(|| {
            let warm = (0..WARM_UP).all(|_| {
                let _loss_and_right = step();
                device.sync().is_ok()
            });
            (warm && client.start_capture().is_ok()).then(&step)
        });
        // Also if it was only prepared, or a step of it failed: otherwise the queue would go on recording.
        let graph = client.stop_capture();
        let (loss_and_right, graph) = (recorded.ok().flatten()?, graph.ok()?);
        let (batch, labels) = (batch.clone(), labels.clone());
        let optimizer = optimizer.recorded(None, |moment| moment);
        let thread = thread::current().id();
        Some(Self { graph, batch, labels, rates, always, model, optimizer, previous, loss_and_right, thread })
    }

    /// The batch with contiguous tensors, as a recording requires.
    pub(super) fn contiguous(batch: &Batch) -> Batch {
        let (patches, cls) =
            (tensor(contiguous(batch.patches.clone())), batch.cls.clone().map(|cls| tensor(contiguous(cls))));
        Batch { patches, cls, ..batch.clone() }.tracked()
    }

    /// Copies a batch into the buffers that the recording reads, and returns these; `None` if the batch has another shape, if the
    /// recording is another thread's, or if the batch could not be allocated.
    pub(super) fn load_batch(&self, batch: &Batch, labels: &Labels) -> Option<(Batch, Labels)> {
        if self.batch.patches.dims() != batch.patches.dims() || self.thread != thread::current().id() {
            return None;
        }
        let tokens = (contiguous(batch.patches.clone()), cube(self.batch.patches.clone()));
        let cls = batch
            .cls
            .iter()
            .zip(&self.batch.cls)
            .map(|(from, to)| (contiguous(from.clone()), cube(to.clone())));
        let classes = (classes(labels), classes(&self.labels));
        let moved: Vec<Pair> = [tokens, classes].into_iter().chain(cls).filter(are_distinct).collect();
        copy_if_finite(&moved, &self.always, &self.always);
        // A batch that did not fit the GPU's memory is not copied, and a replay would use the previous batch.
        let handles = moved.iter().map(|(_, to)| &to.handle);
        if !moved.is_empty() && self.rates.client.check(handles).is_err() {
            return None;
        }
        let image_seeds = batch.image_seeds.clone();
        Some((Batch { image_seeds, ..self.batch.clone() }, self.labels.clone()))
    }

    /// Copies the state of `trainer` into the buffers of the recording, where they differ, and makes `trainer` use these buffers.
    pub(super) fn adopt(&mut self, trainer: &mut HeadTrainer) {
        let Optimizer::AdamW(adam) = &trainer.optimizer else {
            unreachable!("only steps of AdamW are recorded")
        };
        let moments = adam.zip_moments(&self.optimizer).map(pair);
        let params = pairs(trainer.model.params(), self.model.params()).into_iter();
        let previous = trainer.last_finite.as_ref().map(|last_finite| pairs(last_finite, &self.previous));
        for moved in [previous.unwrap_or_default(), params.chain(moments).collect()] {
            let moved: Vec<Pair> = moved.into_iter().filter(are_distinct).collect();
            copy_if_finite(&moved, &self.always, &self.always);
        }
        self.optimizer.copy_step_count(adam);
        trainer.model = self.model.clone();
        trainer.last_finite = Some(self.previous.clone());
        trainer.optimizer = Optimizer::AdamW(self.optimizer.clone());
    }

    /// Replays the step for an [adopted](Self::adopt) head; returns its loss and the number of correct images, `[2]`, on the device.
    pub(super) fn replay(&self, trainer: &mut HeadTrainer, rate: f64) -> Tensor<1> {
        let Optimizer::AdamW(adam) = &mut trainer.optimizer else {
            unreachable!("only steps of AdamW are recorded")
        };
        let [correction, rate] = adam.next(rate).to_f32();
        let (rates, ..) = TensorData::from([correction, rate, 1.0]).into_parts();
        self.rates.client.write(&self.rates.handle, rates);
        // SAFETY: the buffers that the step reads and writes are held here, and only this thread, as `load_batch` has checked, uses them.
        #[expect(unsafe_code, reason = "a recording names its buffers by address")]
        unsafe { self.graph.replay() }.expect("a step that was recorded");
        self.loss_and_right.clone()
    }
}

/// Whether at most a quarter of the GPU's memory is reserved: recordings keep their buffers, and other steps need as much again.
fn has_room(device: &Device) -> bool {
    let all = free_memory(device).and_then(|memory| memory.all).unwrap_or(ASSUMED_MEMORY);
    device.memory_pool_usage().is_some_and(|usage| 4 * usage.bytes_reserved <= all)
}

/// A tensor of three values, `[3]`.
fn three_values(device: &Device, numbers: [f32; 3]) -> CubeTensor {
    cube(Tensor::<1>::from_data(TensorData::from(numbers), device))
}

fn classes(labels: &Labels) -> CubeTensor {
    let index: Tensor<1, Int> = labels.index.clone();
    into_contiguous(index.try_into_primitive::<Cube>().expect("classes where the logits are"))
}

fn contiguous<const D: usize>(value: Tensor<D>) -> CubeTensor {
    into_contiguous(cube(value))
}

/// The source and the destination of a copy.
type Pair = (CubeTensor, CubeTensor);

fn pair((from, to): (&Tensor<1>, &Tensor<1>)) -> Pair {
    (contiguous(from.clone()), cube(to.clone()))
}

fn pairs(from: &Params, to: &Params) -> Vec<Pair> {
    from.iter().zip(to.iter()).map(|((_, from), (_, to))| pair((from, to))).collect()
}

/// Whether they are different buffers.
fn are_distinct((from, to): &Pair) -> bool {
    let place = |tensor: &CubeTensor| {
        (tensor.handle.memory.clone().binding().id(), tensor.handle.offset_start.unwrap_or(0))
    };
    place(from) != place(to)
}

/// Copies buffers of any 32-bit type, if the first value of `loss` is finite and the third of `rates` is not 0.
fn copy_if_finite(pairs: &[Pair], loss: &CubeTensor, rates: &CubeTensor) {
    launch_each(
        &loss.client,
        pairs,
        [2, 2],
        |(from, _)| from.shape().num_elements(),
        |(from, to), share| AssignmentLaunch::new(arg(from), arg(to), share),
        |cubes, units, pairs| assign::launch(&loss.client, cubes, units, pairs, arg(loss), arg(rates)),
    );
}

#[derive(CubeType, CubeLaunch)]
struct Assignment {
    from: Box<[u32]>,
    to: Box<[u32]>,
    share: Share,
}

/// The kernel of [`copy_if_finite`]. `loss` and `rates` are the bits of float32 values; not finite if all exponent bits are set.
#[cube(launch)]
fn assign(assignments: &mut Sequence<Assignment>, loss: &[u32], rates: &[u32]) {
    if (loss[0] & 0x7f80_0000) != 0x7f80_0000 && rates[2] != 0 {
        #[unroll]
        for index in 0..assignments.len() {
            let assignment = assignments.index_mut(index);
            if assignment.share.is_own() {
                let (first, end) = assignment.share.numbers(assignment.to.len());
                for at in range_stepped(first, end, STRIDE) {
                    assignment.to[at] = assignment.from[at];
                }
            }
        }
    }
}

#[cfg(test)]
mod gpu_tests {
    use super::*;
    use crate::model::train::gpus_alone::{batch, gpus_alone, trainer};
    use crate::model::train::solo_steps::{SOLO_STEPS, SoloSteps};
    use crate::model::train::step_all;

    #[test]
    fn a_step_that_breaks_is_not_recorded_and_another_one_is() {
        for (name, device) in gpus_alone() {
            let (batch, labels) = batch(0, 5, &device);
            let mut trainers = ["cls", "attention"].map(|id| trainer(id, &device));
            step_all(&mut trainers, &batch, &labels, |_| 1e-2);
            let [cls, attention] = &trainers;
            let without = Batch { cls: None, ..batch.clone() };
            assert!(RecordedStep::new(cls, &without, &labels).is_none(), "{name}");
            assert!(RecordedStep::new(attention, &batch, &labels).is_some(), "{name}");
        }
    }

    #[test]
    fn a_recorded_step_is_to_the_bit_the_one_that_is_asked_for_launch_by_launch() {
        let heads =
            ["gap", "cls", "attention", "raster", "sinkhorn", "random-dynamic", "gumbel-sinkhorn", "abmilp"];
        for (name, device) in gpus_alone() {
            let trained = |recorded: bool| {
                let seconds = if recorded { vec![] } else { vec![1.0; SOLO_STEPS] };
                let solo = SoloSteps { images: 5, seconds };
                let mut trainers = heads.map(|id| HeadTrainer { solo: solo.clone(), ..trainer(id, &device) });
                // The last batch of an epoch is smaller, and a resumed training may begin with it.
                for (step, images) in (0..).zip([3, 5, 3, 5, 5, 3, 5, 5]) {
                    let (batch, labels) = batch(step, images, &device);
                    step_all(&mut trainers, &batch, &labels, |_| 1e-2 / (step + 1) as f64);
                }
                trainers
            };
            for (found, expected) in trained(true).iter().zip(&trained(false)) {
                let head = format!("{} on {name}", found.name);
                // Vulkan records no step that uploads data to the GPU.
                let (is, may) = (found.recorded.is_some(), !found.model.head().draws());
                assert!(is == may || may && !name.starts_with("cuda") && found.name != "attention", "{head}");
                let images = |recorded: &RecordedStep| recorded.labels.count;
                assert!(found.recorded.as_deref().is_none_or(|recorded| images(recorded) == 5), "{head}");
                assert!(expected.recorded.is_none(), "{head}");
                assert_eq!(found.model.params().to_trained(), expected.model.params().to_trained(), "{head}");
                assert_eq!(found.optimizer.to_arrays(), expected.optimizer.to_arrays(), "{head}");
                assert_eq!(found.progress.running, expected.progress.running, "{head}");
                let before =
                    |trainer: &HeadTrainer| trainer.last_finite.as_ref().expect("a step before").to_trained();
                assert_eq!(before(found), before(expected), "{head}");
            }
        }
    }

    #[test]
    fn a_batch_that_a_gpu_has_no_room_for_is_not_trained_on_as_the_one_before_it() {
        for (name, device) in gpus_alone() {
            let mut trainers = [trainer("attention", &device)];
            let mut step = |step: u64, patches: Option<Tensor<3>>| {
                let (batch, labels) = batch(step, 5, &device);
                let patches = patches.unwrap_or_else(|| batch.patches.clone().inner());
                let batch = Batch { patches, ..batch }.tracked();
                let result = catch_foreign(|| step_all(&mut trainers, &batch, &labels, |_| 1e-2));
                (result.is_ok(), trainers[0].recorded.is_some(), trainers[0].progress.running.images)
            };
            assert_eq!([0, 1].map(|at| step(at, None)), [(true, false, 5), (true, true, 10)], "{name}");
            let lost = Tensor::<1>::zeros([1_usize << 42], &device).slice(0..240).reshape([5, 6, 8]);
            assert_eq!(step(2, Some(lost)), (false, true, 10), "{name}");
        }
    }
}
