//! The order test of one image through one probe (logit and margin, 9999 exchanges, best and worst): 196 tokens of 768
//! channels, 1000 classes, one memory for all channels and one a channel.
//!
//! `cargo bench --bench order_test`. To cost under 10 ms with a shared memory and under 60 ms channel-wise.

use criterion::{Criterion, criterion_group, criterion_main};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use ssmprobe::app::process_memory;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::explain::order_test::{Exchanges, order_test};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::head::{Config, Dims, Sharing, find};
use ssmprobe::model::probe::{BackboneMeta, Probe};
use ssmprobe::model::stats::normal;
use ssmprobe::model::tokens::Tokens;
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
    process_memory::keep_freed(); // as the program does
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let patches = (0..DIMS.grid.len() * DIMS.width).map(|_| normal(&mut rng) as f32).collect();
    let tokens = Tokens { grid: DIMS.grid, width: DIMS.width, cls: None, registers: Vec::new(), patches };
    let exchanges = Exchanges::new(0);
    let mut group = c.benchmark_group("order test");
    group.sample_size(20);
    for (name, sharing) in [("shared", Sharing::Shared), ("channel", Sharing::Channel)] {
        for head in ["raster", "vmamba", "sinkhorn"] {
            let probe = probe(head, sharing);
            let reading = probe.reading(&tokens, 0).expect("tokens that fit");
            let test = || order_test(&probe, Intervention::None, &reading, &tokens, (1, false), &exchanges);
            group.bench_function(format!("{head}, {name}"), |b| b.iter(test));
        }
    }
    group.finish();
}

criterion_group!(benches, tests);
criterion_main!(benches);
