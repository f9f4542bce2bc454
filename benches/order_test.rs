//! The order test of one image through one probe (logit and margin, 9999 exchanges, best and worst): 196 tokens of 768
//! channels, 1000 classes, with parameters shared by all channels and channel-wise. Then one edit of a hand-made order of
//! 1024 tokens, with everything recomputed after it.
//!
//! `cargo bench --bench order_test`. Targets: 10 ms with shared parameters, 60 ms channel-wise; an edit in less than a
//! frame, 16 ms.

use criterion::{Criterion, criterion_group, criterion_main};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use ssmprobe::app::process_memory;
use ssmprobe::model::explain::image_reading::ImageReading;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::explain::null_model::NullBands;
use ssmprobe::model::explain::order_test::{Exchanges, order_test};
use ssmprobe::model::explain::{Question, explain};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::hand_order::HandOrder;
use ssmprobe::model::probe::head::{Config, Dims, Sharing, find};
use ssmprobe::model::probe::{BackboneMeta, Probe};
use ssmprobe::model::stats::normal;
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::trace::Picture;
use ssmprobe::model::train::classifier::Model;

const DIMS: Dims = Dims { width: 768, grid: Grid::new(14, 14), classes: 1000 };

fn probe(head: &str, sharing: Sharing) -> Probe {
    let kind = find(head).unwrap_or_else(|| panic!("no head is called `{head}`"));
    let config = Config { sharing: Some(sharing), ..Config::default() };
    let model =
        Model::start(kind, &config, DIMS, 0, &burn::tensor::Device::flex()).expect("default settings");
    model.to_probe(BackboneMeta { hidden_size: DIMS.width, ..BackboneMeta::default() }, Vec::new(), None)
}

fn tests(c: &mut Criterion) {
    process_memory::keep_freed_memory(); // as the program does
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let patches = (0..DIMS.grid.len() * DIMS.width).map(|_| normal(&mut rng) as f32).collect();
    let tokens = Tokens { grid: DIMS.grid, width: DIMS.width, cls: None, registers: Vec::new(), patches };
    let exchanges = Exchanges::new(0);
    let mut group = c.benchmark_group("order test");
    group.sample_size(20);
    for (name, sharing) in [("shared", Sharing::Shared), ("channel", Sharing::Channel)] {
        for head in ["raster", "vmamba", "sinkhorn"] {
            let probe = probe(head, sharing);
            let reading = ImageReading::new(&probe, Intervention::None, &tokens, 0).expect("tokens that fit");
            // Another class every time: results of a class that was tested before are cached.
            let mut class = 0;
            let mut test = || {
                class = (class + 1) % DIMS.classes;
                order_test(&reading, (class, false), &exchanges)
            };
            group.bench_function(format!("{head}, {name}"), |b| b.iter(&mut test));
        }
    }
    group.finish();
    edits(c);
}

/// One token moved among 1024: logits of 1000 classes, margin, evidence and the order test.
fn edits(c: &mut Criterion) {
    let dims = Dims { grid: Grid::new(32, 32), ..DIMS };
    let n = dims.grid.len();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let patches = (0..n * dims.width).map(|_| normal(&mut rng) as f32).collect();
    let tokens = Tokens { grid: dims.grid, width: dims.width, cls: None, registers: Vec::new(), patches };
    let raster = HandOrder::new((0..n as u32).collect::<Vec<_>>()).expect("an order");
    let nulls = NullBands::new(2, 0);
    let mut group = c.benchmark_group("edit of an order");
    group.sample_size(20);
    for (name, sharing) in [("shared", Sharing::Shared), ("channel", Sharing::Channel)] {
        let probe = probe("raster", sharing);
        let question = Question { class: Some(1), nulls: Some(&nulls), ..Question::default() };
        let change = Intervention::Order(raster.clone());
        let read = explain(&probe, change, &tokens, Picture::default(), question).expect("a trace");
        let (trace, reading) = (read.0, read.1.expect("a kernel by position"));
        let mut step = 0;
        let mut edit = || {
            step = (step + 1) % n;
            reading.trace(&trace, &raster.with_moved(&[step], n - 1 - step))
        };
        group.bench_function(format!("1024 tokens, {name}"), |b| b.iter(&mut edit));
    }
    group.finish();
}

criterion_group!(benches, tests);
criterion_main!(benches);
