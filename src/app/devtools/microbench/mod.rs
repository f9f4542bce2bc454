//! Micro-benchmarks of everyday work: functions that measure, separate from the code that prints.
//! [`GROUPS`] lists them, one group per file.
//!
//! Workloads that are compared take turns: each of several rounds runs all of them once, and the median of
//! each counts. Other work on the machine then slows all of them alike, and their ratios stay the same.
//! Weights and tokens are seeded noise, which takes as long as real ones; no file is needed.

pub(super) mod backbone;
mod cached;
mod decode;
mod heads;
mod long;
mod lookup;
mod timing;

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::anyhow;
use burn::tensor::Device;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use self::backbone::Vit;
use crate::app::format;
use crate::app::jobs::user_error::refuse;
use crate::model::backbone::arithmetic::Arithmetic;
use crate::model::device;
use crate::model::grid::Grid;
use crate::model::probe::head::Dims;
use crate::model::train::run::Variant;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured: words from the general to the particular, with slashes between.
    pub name: String,
    pub device: String,
    pub value: f64,
    /// `s`, `images/s`, `steps/s`, `x` (times as long as another) or `MiB`.
    pub unit: &'static str,
}

/// How large the workloads are, and how often each is measured.
#[derive(Clone)]
pub struct Sizes {
    /// Images of a training step, B.
    pub images: usize,
    /// Patch tokens of an image, N.
    pub grid: Grid,
    /// Hidden size, d.
    pub width: usize,
    /// Classes, C.
    pub classes: usize,
    pub heads: Vec<Variant>,
    /// Images of one forward pass of the backbone.
    pub photos: usize,
    /// The backbone's folder; `vit` where absent.
    pub backbone: Option<PathBuf>,
    pub vit: Vit,
    /// Precision of the backbone's matrix products.
    pub arithmetic: Arithmetic,
    pub longest: usize,
    /// Rounds, of which the median counts.
    pub rounds: usize,
}

impl Sizes {
    /// The dimensions heads are built for.
    fn dims(&self) -> Dims {
        Dims { width: self.width, grid: self.grid, classes: self.classes }
    }

    /// Lower bound in bytes for a step on `images` images of `tokens` tokens: tokens, logits and a classifier.
    fn bytes(&self, images: usize, tokens: usize) -> u64 {
        let [images, tokens] = [images, tokens].map(|count| count as u64);
        let (width, classes) = (self.width as u64, self.classes as u64);
        4 * (images * tokens * width + classes * (images + width))
    }
}

/// Bytes of a process's address space: the limit where the system does not report its memory.
const ADDRESSABLE: u64 = 1 << 47;

/// Error: the caller stopped the measurement.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

/// Context of an error in the system's folder for temporary files, where measurements write theirs.
fn unwritable() -> String {
    let folder = std::env::temp_dir();
    let folder = folder.display();
    format!("benchmark files cannot be written to the temporary folder {folder}; choose another with TMPDIR")
}

/// Called after every run, with the name of the work that ran, how many runs of its group are done, and how many there are; a `Break`
/// stops the measurement with [`Stopped`].
pub type OnRun<'a> = &'a mut dyn FnMut(&str, usize, usize) -> ControlFlow<()>;

pub struct Setup<'a> {
    pub sizes: &'a Sizes,
    pub device: &'a Device,
    /// Patterns of the names of wanted figures, in which a `*` stands for any text, slashes too. Without patterns all are wanted.
    pub wanted: &'a [String],
}

/// Measured figures: name, value, unit.
pub type Measured = Vec<(String, f64, &'static str)>;

/// Workloads that are measured together.
pub struct Group {
    /// Names of all its figures.
    pub names: fn(&Sizes) -> Vec<String>,
    /// Refuses what cannot be measured: what does not fit in memory, or a backbone that does not open.
    pub check: fn(&Setup) -> anyhow::Result<()>,
    /// Measures the wanted figures, and perhaps others.
    pub measure: fn(&Setup, OnRun) -> anyhow::Result<Measured>,
}

/// Every group, in the order of the table.
pub const GROUPS: &[Group] =
    &[heads::GROUP, cached::GROUP, backbone::GROUP, decode::GROUP, lookup::GROUP, long::GROUP];

impl Setup<'_> {
    /// Measures every wanted figure; `device` is the device's name.
    pub fn run(&self, device: &str, on_run: OnRun) -> anyhow::Result<Vec<Figure>> {
        let mut figures = Vec::new();
        let wanted = |group: &&Group| (group.names)(self.sizes).iter().any(|name| self.wants(name));
        let groups: Vec<&Group> = GROUPS.iter().filter(wanted).collect();
        groups.iter().try_for_each(|group| (group.check)(self))?;
        for group in groups {
            let measured = (group.measure)(self, on_run)?;
            let own = measured.into_iter().filter(|(name, ..)| self.wants(name));
            let figure = |(name, value, unit)| Figure { name, device: device.to_owned(), value, unit };
            figures.extend(own.map(figure));
        }
        Ok(figures)
    }

    fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|pattern| format::matches_pattern(name, pattern))
    }

    fn wait(&self, work: &str) -> anyhow::Result<()> {
        let failed = |error| anyhow!("the device failed while `{work}` was measured: {error:?}");
        self.device.sync().map_err(failed)
    }
}

/// Refuses workloads of `bytes` or more, which `flags` set, where they do not fit in memory: a failed allocation ends the program.
fn check_memory(bytes: u64, flags: &str) -> anyhow::Result<()> {
    let memory = device::main_memory().unwrap_or(ADDRESSABLE);
    if bytes <= memory {
        return Ok(());
    }
    let [bytes, memory] = [bytes, memory].map(format::bytes);
    refuse!(
        "{flags}: workloads of this size take {bytes} or more, and this machine has {memory}; give smaller ones"
    )
}

/// Seeded noise in `[-1, 1)`.
fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
}

/// The grid of `n` tokens that is nearest to a square.
pub fn grid_of(n: usize) -> Grid {
    let rows = (1..=n.isqrt()).rev().find(|rows| n.is_multiple_of(*rows)).unwrap_or(1);
    Grid::new(rows, n / rows)
}
