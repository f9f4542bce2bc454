//! One training step (forward, loss, backward, AdamW) of every head, and of all of them on one pass of
//! tokens.
//!
//! `head/<id>/step` in seconds, `head/<id>/vs-gap` that time divided by GAP's, `head/<id>/memory` the
//! process's peak memory while only this head trains; `heads/joint/step` and its rate.

use burn::tensor::{Device, Tensor, TensorData};

use super::timing::{Work, median_seconds};
use super::{Group, Measured, OnRun, Setup, Sizes, check_memory, noise};
use crate::app::process_memory;
use crate::model::ops::cpu::on_cpu;
use crate::model::probe::head::{self, Batch, Config, Dims};
use crate::model::train::classifier::Model;
use crate::model::train::run::Variant;
use crate::model::train::{HeadTrainer, Labels, TrainConfig, step_all};

pub const GROUP: Group = Group { names, check, measure };

const JOINT: &str = "heads/joint/step";
const JOINT_RATE: &str = "heads/joint/rate";

fn name(head: &Variant, what: &str) -> String {
    format!("head/{}/{what}", head.name)
}

fn names(sizes: &Sizes) -> Vec<String> {
    let own = |head: &Variant| ["step", "vs-gap", "memory"].map(|what| name(head, what));
    let mut names: Vec<String> = sizes.heads.iter().flat_map(own).collect();
    names.extend([JOINT, JOINT_RATE].map(str::to_owned));
    names
}

fn check(setup: &Setup) -> anyhow::Result<()> {
    let Sizes { images, grid, .. } = *setup.sizes;
    check_memory(setup.sizes.bytes(images, grid.len()), "--batch, --tokens, --width and --classes")
}

/// One batch with its labels, and the dimensions of the heads that train on it.
pub struct Step<'a> {
    setup: &'a Setup<'a>,
    dims: Dims,
    batch: Batch,
    labels: Labels,
}

impl<'a> Step<'a> {
    /// A step on `images` images whose tokens are seeded noise.
    pub fn new(setup: &'a Setup, images: usize, dims: Dims) -> Self {
        let Dims { grid, width, classes } = dims;
        let n = grid.len();
        let patches = TensorData::new(noise(1, images * n * width), [images, n, width]);
        let cls = TensorData::new(noise(2, images * width), [images, width]);
        let batch = Batch {
            patches: Tensor::<3>::from_data(patches, setup.device).autodiff(),
            cls: Some(Tensor::<2>::from_data(cls, setup.device).autodiff()),
            grid,
            image_seeds: (0..images as u64).collect(),
            training: true,
        };
        let answers: Vec<usize> = (0..images).map(|image| image * 7 % classes).collect();
        Self { setup, dims, batch, labels: Labels::new(&answers, setup.device) }
    }

    /// A trainer of a head with its initial parameters.
    pub fn trainer(&self, head: &Variant) -> anyhow::Result<HeadTrainer> {
        trainer(head, self.dims, self.setup.device)
    }

    fn trainers(&self, heads: &[Variant]) -> anyhow::Result<Vec<HeadTrainer>> {
        heads.iter().map(|head| self.trainer(head)).collect()
    }

    /// One training step of all `trainers`, until the device has finished it.
    pub fn run(&self, trainers: &mut [HeadTrainer], work: &str) -> anyhow::Result<()> {
        step_all(trainers, &self.batch, &self.labels, |_| TrainConfig::default().rate);
        self.setup.wait(work)
    }
}

/// A trainer of a head with its initial parameters.
pub fn trainer(head: &Variant, dims: Dims, device: &Device) -> anyhow::Result<HeadTrainer> {
    let kind = head::find(&head.head).expect("only listed heads are measured");
    Ok(HeadTrainer::new(&*head.name, Model::start(kind, &head.config, dims, 0, device)?))
}

/// The process's peak memory as a figure called `name`; `None` where the system does not report it.
pub fn peak(name: String) -> Option<(String, f64, &'static str)> {
    process_memory::peak().map(|peak| (name, peak as f64 / f64::from(1 << 20), "MiB"))
}

fn measure(setup: &Setup, on_run: OnRun) -> anyhow::Result<Measured> {
    let step = Step::new(setup, setup.sizes.images, setup.sizes.dims());
    let heads = &setup.sizes.heads;
    let wants = |head: &Variant, what| setup.wants(&name(head, what));
    let mut measured = Measured::new();

    // Memory first: what the timed workloads leave behind in the allocator would count.
    let mut peaks = Vec::new();
    for head in heads.iter().filter(|head| on_cpu(setup.device) && wants(head, "memory")) {
        let mut trainers = vec![step.trainer(head)?];
        if process_memory::reset_peak() {
            let mut works = [Work::new(name(head, "memory"), || step.run(&mut trainers, &head.name))];
            median_seconds(&mut works, 1, on_run)?;
            peaks.extend(peak(name(head, "memory")));
        }
    }

    let gap = Variant::new("gap", "gap", Config::default());
    let mut timed: Vec<Variant> =
        heads.iter().filter(|head| wants(head, "step") || wants(head, "vs-gap")).cloned().collect();
    if timed.iter().any(|head| wants(head, "vs-gap")) && !timed.contains(&gap) {
        timed.insert(0, gap.clone());
    }
    let mut alone = step.trainers(&timed)?;
    let step = &step;
    let works = timed
        .iter()
        .zip(alone.chunks_mut(1))
        .map(|(head, own)| Work::new(name(head, "step"), move || step.run(own, &head.name)));
    let mut works: Vec<Work> = works.collect();
    if [JOINT, JOINT_RATE].iter().any(|name| setup.wants(name)) {
        let mut together = step.trainers(heads)?;
        works.push(Work::new(JOINT, move || step.run(&mut together, JOINT)));
    }
    let seconds = median_seconds(&mut works, setup.sizes.rounds, on_run)?;
    let of_gap = timed.iter().position(|head| *head == gap).map(|at| seconds[at]);
    for (head, &seconds) in timed.iter().zip(&seconds) {
        measured.push((name(head, "step"), seconds, "s"));
        measured.extend(of_gap.map(|gap| (name(head, "vs-gap"), seconds / gap, "x")));
    }
    measured.extend(peaks);
    if let Some(&joint) = seconds.get(timed.len()) {
        measured.extend([(JOINT.to_owned(), joint, "s"), (JOINT_RATE.to_owned(), 1.0 / joint, "steps/s")]);
    }
    Ok(measured)
}
