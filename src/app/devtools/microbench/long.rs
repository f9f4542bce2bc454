//! Growing sequence lengths: a training step of the `sinkhorn` head, router and S4, and its memory.
//!
//! `sinkhorn/n-<N>` in seconds for [`IMAGES`] images, `sinkhorn/n-<N>/memory` the process's peak memory.

use super::heads::{Step, peak};
use super::timing::{Work, median_seconds};
use super::{Group, Measured, OnRun, Setup, Sizes, check_memory, grid_of};
use crate::app::process_memory;
use crate::model::ops::cpu::on_cpu;
use crate::model::probe::head::{Config, Dims};
use crate::model::train::run::Variant;

pub const GROUP: Group = Group { names, check, measure };

/// Images of a step.
const IMAGES: usize = 8;
/// Tokens of images of 224, 256, 384, 512, 768 and 1024 pixels in patches of 16.
const LENGTHS: [usize; 6] = [196, 256, 576, 1024, 2304, 4096];

/// The lengths up to [`Sizes::longest`].
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

fn wanted(setup: &Setup) -> Vec<usize> {
    let wanted = |n: &usize| [step_name(*n), memory_name(*n)].iter().any(|name| setup.wants(name));
    lengths(setup.sizes).into_iter().filter(wanted).collect()
}

fn check(setup: &Setup) -> anyhow::Result<()> {
    let longest = wanted(setup).into_iter().max().unwrap_or(0);
    check_memory(setup.sizes.bytes(IMAGES, longest), "--longest, --width and --classes")
}

fn measure(setup: &Setup, on_run: OnRun) -> anyhow::Result<Measured> {
    let mut measured = Measured::new();
    let head = Variant::new("sinkhorn", "sinkhorn", Config::default());
    for n in wanted(setup) {
        let step = Step::new(setup, IMAGES, Dims { grid: grid_of(n), ..setup.sizes.dims() });
        let mut trainers = [step.trainer(&head)?];
        let is_peak_reset = on_cpu(setup.device) && process_memory::reset_peak();
        let rounds = setup.sizes.rounds.min(3);
        let run = || step.run(&mut trainers, &head.name);
        let seconds = median_seconds(&mut [Work::new(step_name(n), run)], rounds, on_run)?[0];
        measured.push((step_name(n), seconds, "s"));
        measured.extend(peak(memory_name(n)).filter(|_| is_peak_reset));
    }
    Ok(measured)
}
