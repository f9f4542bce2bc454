//! One training step of every head (forward, loss, backward, AdamW) beside one of GAP, in turn in the
//! same run: B 256, N 196, d 768, 1000 classes, tokens in memory.
//!
//! `cargo bench --bench heads [-- HEAD ...]`: per head the median time, that of GAP's steps in
//! between and their ratio; then, on Linux, the time of all cores together, which a busy machine disturbs
//! less, and the most memory a step took, both against GAP's. `-channel` behind an id asks for
//! channel-wise parameters; `joint` is all the paper's heads in one step beside the sum of their own.

use std::time::Instant;

use burn::tensor::{Device, Distribution, Tensor};
use ssmprobe::app::training::order::PAPER;
use ssmprobe::model::classifier::Model;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::head::{Batch, Config, Dims, HEADS, Sharing, find};
use ssmprobe::model::train::{Labels, Learner, step_all};

const IMAGES: usize = 256;
const DIMS: Dims = Dims { width: 768, grid: Grid::new(14, 14), classes: 1000 };
fn batch(device: &Device) -> Batch {
    let (n, d) = (DIMS.grid.len(), DIMS.width);
    Batch {
        patches: Tensor::random([IMAGES, n, d], Distribution::Normal(0.0, 1.0), device),
        cls: Some(Tensor::random([IMAGES, d], Distribution::Normal(0.0, 1.0), device)),
        grid: DIMS.grid,
        draws: (0..IMAGES as u64).collect(),
        training: true,
    }
}

fn learner(name: &str) -> Learner {
    let (id, sharing) = match name.strip_suffix("-channel") {
        Some(id) => (id, Sharing::Channel),
        None => (name, Sharing::Shared),
    };
    let kind = find(id).unwrap_or_else(|| panic!("no head is called `{id}`"));
    let config = Config { sharing: Some(sharing), ..Config::default() };
    Learner::new(name, Model::start(kind, &config, DIMS, 0, &Device::flex()).expect("default settings"))
}

/// A field of /proc/self/status in MB; 0 elsewhere.
fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// Time all threads of this process have computed so far, in ms, to a hundredth of a second; 0 where
/// there is no /proc.
fn computed() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or("").split(' ').collect::<Vec<_>>();
    fields.iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() * 10.0
}

/// What one step took.
struct Cost {
    milliseconds: f64,
    /// Time of all threads, in ms.
    computed: f64,
    /// Largest resident set while it ran, in MB.
    peak: f64,
}

fn step(learners: &mut [Learner], batch: &Batch, labels: &Labels) -> Cost {
    let _ = std::fs::write("/proc/self/clear_refs", "5"); // the peak starts anew
    let (begun, before) = (Instant::now(), computed());
    step_all(learners, batch, labels, 1e-3);
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    Cost { milliseconds, computed: computed() - before, peak: memory("VmHWM") }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let device = Device::flex().autodiff();
    let (batch, classes) = (batch(&device), (0..IMAGES).map(|i| i * 7 % DIMS.classes).collect::<Vec<_>>());
    let labels = Labels::new(&classes, DIMS.classes, &device);
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let names: Vec<String> = if asked.is_empty() {
        let channel = ["raster-channel", "vmamba-channel", "sinkhorn-channel"];
        HEADS.iter().map(|kind| kind.id).chain(channel).chain(["joint"]).map(str::to_owned).collect()
    } else {
        asked
    };
    println!(
        "{:<20} {:>9} {:>9} {:>7} {:>9} {:>7} {:>9} {:>7}",
        "head", "ms", "gap ms", "/ gap", "core ms", "/ gap", "MB", "/ gap"
    );
    for name in &names {
        let own: Vec<&str> = if name == "joint" { PAPER.to_vec() } else { vec![name] };
        let mut learners: Vec<Learner> = own.iter().map(|name| learner(name)).collect();
        let mut gap = [learner("gap")];
        let costs: Vec<(Cost, Cost)> = (0..9)
            .map(|_| (step(&mut gap, &batch, &labels), step(&mut learners, &batch, &labels)))
            .skip(2)
            .collect();
        let (gap_time, time) =
            (median(costs.iter().map(|c| c.0.milliseconds)), median(costs.iter().map(|c| c.1.milliseconds)));
        let (gap_peak, peak) =
            (median(costs.iter().map(|c| c.0.peak)), median(costs.iter().map(|c| c.1.peak)));
        let rounds = costs.len() as f64;
        let (gap_cores, cores) = (
            costs.iter().map(|c| c.0.computed).sum::<f64>(),
            costs.iter().map(|c| c.1.computed).sum::<f64>(),
        );
        println!(
            "{name:<20} {time:>9.1} {gap_time:>9.1} {:>7.2} {:>9.1} {:>7.2} {peak:>9.0} {:>7.2}",
            time / gap_time,
            cores / rounds,
            cores / gap_cores,
            peak / gap_peak
        );
    }
}
