//! The step of a head on a GPU, recorded once and then asked for as a whole: a GPU runs a small head's launches in less time than
//! the host needs to ask for them one by one.
//!
//! What is recorded reads and writes the same memory every time: the batch it was recorded on, where those that follow are put;
//! the head's parameters and moments, which a last launch of the recording moves; the rate. A loss that is not finite moves nothing,
//! and the parameters that led to it are undone from a copy that the launch before keeps.

use std::thread::{self, ThreadId};

use burn::backend::{Cube, TensorMetadata};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::client::Graph;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::HeadTrainer;
use super::batches::Labels;
use super::optim::{AdamW, Optimizer};
use super::step::Step;
use crate::model::device::free_memory;
use crate::model::io::catch_panic::guard;
use crate::model::ops::gpu::multi_tensor::{STRIDE, Share, launch_each};
use crate::model::ops::gpu::{arg, cube, empty, tensor};
use crate::model::probe::head::Batch;
use crate::model::probe::params::Params;
use crate::model::train::classifier::Model;

/// Memory of a GPU that does not say how much it has, in bytes.
const SOME: u64 = 4 << 30;
/// Times that a step is taken without effect before it is recorded: what it asks for then lies ready.
const WARM_UP: usize = 2;

/// A step of a head that a GPU keeps.
pub(super) struct RecordedStep {
    graph: Graph,
    /// What it reads.
    batch: Batch,
    labels: Labels,
    /// What the variance is multiplied with, the rate, and whether anything is moved, `[3]`.
    rates: CubeTensor,
    /// The same of what moves always.
    always: CubeTensor,
    model: Model,
    optimizer: AdamW,
    /// The parameters before the last step that moved them.
    before: Params,
    /// Its loss and how many images are right, `[2]`.
    told: Tensor<1>,
    /// A recording belongs to the queue of its thread.
    thread: ThreadId,
}

impl RecordedStep {
    /// That of a head that stepped before, on batches of this size; none where a GPU keeps none or has no room, or the head draws
    /// something for every batch. Nothing of the head is moved.
    pub(super) fn new(trainer: &HeadTrainer, batch: &Batch, labels: &Labels) -> Option<Self> {
        let Optimizer::AdamW(adam) = &trainer.optimizer else { return None };
        let device = trainer.model.params().iter().next()?.1.device();
        if !adam.can_be_recorded() || trainer.model.head().draws() || !has_room(&device) {
            return None;
        }
        let client = cube(batch.patches.clone()).client;
        let always = flags(&device, [0.0, 0.0, 1.0]);
        let own = |value: Tensor<1>| {
            let value = dense(value);
            let copy = empty(&value, [value.shape().num_elements()]);
            put(&[(value, copy.clone())], &always, &always);
            tensor(copy)
        };
        let rates = flags(&device, [0.0; 3]);
        let model =
            trainer.model.clone().with_params(trainer.model.params().clone().map(|_, value| own(value)));
        let before =
            trainer.last_finite.as_ref().unwrap_or(trainer.model.params()).clone().map(|_, value| own(value));
        let optimizer = adam.clone().recorded(Some(tensor(rates.clone())), own);
        let step = || {
            let mut copy = HeadTrainer::new("", model.clone()).with(Optimizer::AdamW(optimizer.clone()));
            let mut step = Step::new(&mut copy);
            step.begin(batch, labels, None);
            let told = step.take_told();
            step.update(None, 0.0);
            let Optimizer::AdamW(moved) = &copy.optimizer else { unreachable!() };
            let (flag, kept) = (cube(told.clone()), pairs(model.params(), &before));
            let moments = moved.beside(&optimizer).map(pair);
            let moved = pairs(copy.model.params(), model.params()).into_iter().chain(moments).filter(differ);
            put(&kept, &flag, &rates);
            put(&moved.collect::<Vec<_>>(), &flag, &rates);
            told
        };
        client.graph_prepare().ok()?;
        let told = guard(|| {
            let warm = (0..WARM_UP).all(|_| {
                let _told = step();
                device.sync().is_ok()
            });
            (warm && client.start_capture().is_ok()).then(&step)
        });
        // Also where it was only prepared, or a step of it broke: the queue would go on recording.
        let graph = client.stop_capture();
        let (told, graph) = (told.ok().flatten()?, graph.ok()?);
        let (batch, labels) = (batch.clone(), labels.clone());
        let optimizer = optimizer.recorded(None, |moment| moment);
        let thread = thread::current().id();
        Some(Self { graph, batch, labels, rates, always, model, optimizer, before, told, thread })
    }

    /// A batch as one is recorded on: of tensors without gaps between their rows.
    pub(super) fn dense(batch: &Batch) -> Batch {
        let (patches, cls) =
            (tensor(dense(batch.patches.clone())), batch.cls.clone().map(|cls| tensor(dense(cls))));
        Batch { patches, cls, ..batch.clone() }.tracked()
    }

    /// Puts a batch where it reads its own, if it takes such; to be asked for by this thread.
    pub(super) fn place(&self, batch: &Batch, labels: &Labels) -> Option<(Batch, Labels)> {
        if self.batch.patches.dims() != batch.patches.dims() || self.thread != thread::current().id() {
            return None;
        }
        let tokens = (dense(batch.patches.clone()), cube(self.batch.patches.clone()));
        let cls =
            batch.cls.iter().zip(&self.batch.cls).map(|(from, to)| (dense(from.clone()), cube(to.clone())));
        let classes = (classes(labels), classes(&self.labels));
        let moved: Vec<Pair> = [tokens, classes].into_iter().chain(cls).filter(differ).collect();
        put(&moved, &self.always, &self.always);
        // For a batch that the GPU had no room for nothing is copied, and what is recorded would take the one before it.
        let handles = moved.iter().map(|(_, to)| &to.handle);
        if !moved.is_empty() && self.rates.client.check(handles).is_err() {
            return None;
        }
        let image_seeds = batch.image_seeds.clone();
        Some((Batch { image_seeds, ..self.batch.clone() }, self.labels.clone()))
    }

    /// Takes over the head as it stands, where it was moved otherwise since, and lets it stand in its memory.
    pub(super) fn take_over(&mut self, trainer: &mut HeadTrainer) {
        let Optimizer::AdamW(adam) = &trainer.optimizer else {
            unreachable!("only steps of AdamW are recorded")
        };
        let moments = adam.beside(&self.optimizer).map(pair);
        let params = pairs(trainer.model.params(), self.model.params()).into_iter();
        let before =
            trainer.last_finite.as_ref().map(|before| pairs(before, &self.before)).unwrap_or_default();
        for moved in [before, params.chain(moments).collect()] {
            put(&moved.into_iter().filter(differ).collect::<Vec<_>>(), &self.always, &self.always);
        }
        self.optimizer.count_as(adam);
        trainer.model = self.model.clone();
        trainer.last_finite = Some(self.before.clone());
        trainer.optimizer = Optimizer::AdamW(self.optimizer.clone());
    }

    /// Asks for the step of a head that stands in its memory; its loss and how many images are right, `[2]`.
    pub(super) fn replay(&self, trainer: &mut HeadTrainer, rate: f64) -> Tensor<1> {
        let Optimizer::AdamW(adam) = &mut trainer.optimizer else {
            unreachable!("only steps of AdamW are recorded")
        };
        let [correction, rate] = adam.next(rate).numbers();
        let (rates, ..) = TensorData::from([correction, rate, 1.0]).into_parts();
        self.rates.client.write(&self.rates.handle, rates);
        #[expect(
            unsafe_code,
            reason = "all that it reads and writes is held here, and asked for by this thread alone"
        )]
        unsafe { self.graph.replay() }.expect("a step that was recorded");
        self.told.clone()
    }
}

/// Whether three quarters of the GPU's memory are left: a recording keeps all that its step computes in, and as much again must be
/// there for a step that is not recorded.
fn has_room(device: &Device) -> bool {
    let all = free_memory(device).and_then(|memory| memory.all).unwrap_or(SOME);
    device.memory_pool_usage().is_some_and(|usage| 4 * usage.bytes_reserved <= all)
}

/// Three numbers on a device.
fn flags(device: &Device, numbers: [f32; 3]) -> CubeTensor {
    cube(Tensor::<1>::from_data(TensorData::from(numbers), device))
}

fn classes(labels: &Labels) -> CubeTensor {
    let index: Tensor<1, Int> = labels.index.clone();
    into_contiguous(index.try_into_primitive::<Cube>().expect("classes where the logits are"))
}

fn dense<const D: usize>(value: Tensor<D>) -> CubeTensor {
    into_contiguous(cube(value))
}

/// From where to where.
type Pair = (CubeTensor, CubeTensor);

fn pair((from, to): (&Tensor<1>, &Tensor<1>)) -> Pair {
    (dense(from.clone()), cube(to.clone()))
}

fn pairs(from: &Params, to: &Params) -> Vec<Pair> {
    from.iter().zip(to.iter()).map(|((_, from), (_, to))| pair((from, to))).collect()
}

/// Whether they do not lie at the same place.
fn differ((from, to): &Pair) -> bool {
    let place =
        |of: &CubeTensor| (of.handle.memory.clone().binding().id(), of.handle.offset_start.unwrap_or(0));
    place(from) != place(to)
}

/// Copies numbers of any kind of 32 bits, where the first of `told` is finite and the third of `rates` is not 0.
fn put(pairs: &[Pair], told: &CubeTensor, rates: &CubeTensor) {
    launch_each(
        &told.client,
        pairs,
        [2, 2],
        |(from, _)| from.shape().num_elements(),
        |(from, to), share| AssignmentLaunch::new(arg(from), arg(to), share),
        |cubes, units, pairs| assign::launch(&told.client, cubes, units, pairs, arg(told), arg(rates)),
    );
}

#[derive(CubeType, CubeLaunch)]
struct Assignment {
    from: Box<[u32]>,
    to: Box<[u32]>,
    share: Share,
}

#[cube(launch)]
fn assign(assignments: &mut Sequence<Assignment>, told: &[u32], rates: &[u32]) {
    if (told[0] & 0x7f80_0000) != 0x7f80_0000 && rates[2] != 0 {
        #[unroll]
        for index in 0..assignments.len() {
            let of = assignments.index_mut(index);
            if of.share.is_own() {
                let (first, end) = of.share.numbers(of.to.len());
                for at in range_stepped(first, end, STRIDE) {
                    of.to[at] = of.from[at];
                }
            }
        }
    }
}

#[cfg(test)]
mod gpu_tests {
    use super::*;
    use crate::model::grid::Grid;
    use crate::model::probe::head::{Config, Dims, find};
    use crate::model::train::alone::{Alone, STEPS};
    use crate::model::train::gpus_alone::gpus_alone;
    use crate::model::train::step_all;

    const DIMS: Dims = Dims { grid: Grid::new(2, 3), width: 8, classes: 4 };

    /// The batch of a step, of so many images.
    fn batch(step: u64, images: usize, device: &Device) -> (Batch, Labels) {
        let value = |at: usize| ((at * 37 + 11 * step as usize) % 101) as f32 / 50.0 - 1.0;
        let patches = TensorData::new((0..images * 48).map(value).collect(), [images, 6, 8]);
        let cls = TensorData::new((0..images * 8).map(value).collect(), [images, 8]);
        let image_seeds = (0..images as u64).map(|image| 10 * step + image).collect();
        let (patches, cls) = (Tensor::<3>::from_data(patches, device), Tensor::<2>::from_data(cls, device));
        let batch = Batch { patches, cls: Some(cls), grid: DIMS.grid, image_seeds, training: false };
        let classes: Vec<usize> = (0..images).map(|image| (image + step as usize) % 4).collect();
        (batch.tracked(), Labels::new(&classes, 4, device))
    }

    fn trainer(id: &str, device: &Device) -> HeadTrainer {
        let model = Model::start(find(id).expect("a head"), &Config::default(), DIMS, 0, device);
        HeadTrainer::new(id, model.expect("a head's start"))
    }

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
                let seconds = if recorded { vec![] } else { vec![1.0; STEPS] };
                let alone = Alone { images: 5, seconds };
                let mut trainers =
                    heads.map(|id| HeadTrainer { alone: alone.clone(), ..trainer(id, &device) });
                // The last of an epoch is smaller, and a training that goes on may begin with it.
                for (step, images) in (0..).zip([3, 5, 3, 5, 5, 3, 5, 5]) {
                    let (batch, labels) = batch(step, images, &device);
                    step_all(&mut trainers, &batch, &labels, |_| 1e-2 / (step + 1) as f64);
                }
                trainers
            };
            for (found, expected) in trained(true).iter().zip(&trained(false)) {
                let head = format!("{} on {name}", found.name);
                // Vulkan records no step that sends something to the GPU.
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
                let result = guard(|| step_all(&mut trainers, &batch, &labels, |_| 1e-2));
                (result.is_ok(), trainers[0].recorded.is_some(), trainers[0].progress.running.images)
            };
            assert_eq!([0, 1].map(|at| step(at, None)), [(true, false, 5), (true, true, 10)], "{name}");
            let lost = Tensor::<1>::zeros([1_usize << 42], &device).slice(0..240).reshape([5, 6, 8]);
            assert_eq!(step(2, Some(lost)), (false, true, 10), "{name}");
        }
    }
}
