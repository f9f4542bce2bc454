//! Longer and longer sequences: a training step of Sinkhorn behind the shared S4, and its memory.
//!
//! `sinkhorn/n-<N>` in seconds for [`IMAGES`] images, `sinkhorn/n-<N>/memory` the process's peak.

use burn::tensor::{Tensor, TensorData};

use super::timing::{Work, in_turn};
use super::{Bench, BenchError, Group, Measured, Sizes, Tell, grid_of, noise};
use crate::app::process_memory;
use crate::model::probe::head::{self, Batch, Config, Dims};
use crate::model::train::classifier::Model;
use crate::model::train::{HeadTrainer, Labels, TrainConfig, step_all};

pub const GROUP: Group = Group { what: "long sequences", names, measure };

/// Images of a step.
const IMAGES: usize = 8;
/// Tokens of images of 224, 256, 384, 512, 768 and 1024 pixels in patches of 16.
const LENGTHS: [usize; 6] = [196, 256, 576, 1024, 2304, 4096];

/// The lengths up to the longest that is asked for.
pub fn lengths(sizes: &Sizes) -> Vec<usize> {
    LENGTHS.into_iter().filter(|&n| n <= sizes.longest).collect()
}

fn step_name(n: usize) -> String {
    format!("sinkhorn/n-{n}")
}

fn memory_name(n: usize) -> String {
    format!("sinkhorn/n-{n}/memory")
}

fn names(sizes: &Sizes) -> Vec<String> {
    lengths(sizes).into_iter().flat_map(|n| [step_name(n), memory_name(n)]).collect()
}

fn measure(bench: &Bench, tell: Tell) -> Result<Measured, BenchError> {
    let mut measured = Measured::new();
    let kind = head::find("sinkhorn").expect("the list of heads has sinkhorn");
    let wanted = |n: &usize| [step_name(*n), memory_name(*n)].iter().any(|name| bench.wanted.holds(name));
    for n in lengths(bench.sizes).into_iter().filter(wanted) {
        let dims = Dims { grid: grid_of(n), ..bench.sizes.dims() };
        let model = Model::start(kind, &Config::default(), dims, 0, bench.device)?;
        let mut learners = [HeadTrainer::new(kind.id, model)];
        let data = TensorData::new(noise(5, IMAGES * n * dims.width), [IMAGES, n, dims.width]);
        let batch = Batch {
            patches: Tensor::<3>::from_data(data, bench.device).autodiff(),
            cls: None,
            grid: dims.grid,
            draws: (0..IMAGES as u64).collect(),
            training: true,
        };
        let answers: Vec<usize> = (0..IMAGES).map(|image| image % dims.classes).collect();
        let labels = Labels::new(&answers, dims.classes, bench.device);
        let forgotten = bench.on_host && process_memory::forget_peak();
        let run = || {
            step_all(&mut learners, &batch, &labels, TrainConfig::default().rate);
            bench.wait(kind.id)
        };
        let rounds = bench.sizes.rounds.min(3);
        let seconds = in_turn(&mut [Work::new(step_name(n), run)], rounds, tell)?[0];
        measured.push((step_name(n), seconds, "s"));
        measured.extend(
            process_memory::peak()
                .filter(|_| forgotten)
                .map(|peak| (memory_name(n), peak as f64 / f64::from(1 << 20), "MiB")),
        );
    }
    Ok(measured)
}
