//! Random draws in training and in evaluation depend on image, seed and step.

use std::collections::HashSet;
use std::ops::ControlFlow;

use burn::tensor::Device;
use ssmprobe::model::probe::BackboneMeta;
use ssmprobe::model::probe::head::scan::dynamic_order;
use ssmprobe::model::probe::head::{self, Config, Dims};
use ssmprobe::model::probe::head_output::{Form, Order};
use ssmprobe::model::probe::router::sinkhorn::noise;
use ssmprobe::model::stats::mean_and_deviation;
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::train::classifier::Model;
use ssmprobe::model::train::{Event, HeadTrainer, Labelled, Task, TrainConfig, TrainCursor, train};

use super::{GRID, RecordingSource};

const WIDTH: usize = 4;

fn values() -> Vec<f32> {
    (0..GRID.len() * WIDTH).map(|i| ((i * i * 7 + 3 * i) % 23) as f32 / 8.0 - 1.4).collect()
}

fn model(id: &str, seed: u64) -> Model {
    let config = Config { state_dim: Some(4), ..Config::default() };
    let dims = Dims { width: WIDTH, grid: GRID, classes: 3 };
    Model::start(head::find(id).expect("a head"), &config, dims, seed, &Device::flex()).expect("a model")
}

/// The losses of one image in three epochs at rate 0, so that only random draws can change them; every image has
/// the same tokens.
fn losses(id: &str, image: usize, seed: u64) -> Vec<u32> {
    let source = RecordingSource::new(GRID, WIDTH, values());
    let one = Labelled { images: vec![image], classes: vec![1] };
    let (config, device) =
        (TrainConfig { epochs: 3, batch: 1, rate: 0.0, ..TrainConfig::default() }, Device::flex());
    let task = Task {
        tokens: &source,
        train: &one,
        select: &one,
        test: &one,
        config: &config,
        device: &device,
        seed,
        redrawn: false,
    };
    let mut trainers = [HeadTrainer::new(id, model(id, 3))];
    train(&task, &mut trainers, TrainCursor::default(), &mut |_: Event| ControlFlow::Continue(()))
        .expect("tokens");
    trainers[0].progress.history.iter().map(|epoch| (epoch.loss as f32).to_bits()).collect()
}

#[test]
fn random_orders_and_noise_are_new_for_every_image_seed_and_step() {
    for id in ["random-dynamic", "gumbel-sinkhorn"] {
        let all = [(0, 0), (1, 0), (2, 0), (0, 1000), (1, 1000)].map(|(image, seed)| losses(id, image, seed));
        let distinct: HashSet<&u32> = all.iter().flatten().collect();
        assert_eq!(distinct.len(), 15, "{id}: draws that ignore image, seed or step");
        assert_eq!(losses(id, 1, 1000), all[4], "{id}: not the same again");
    }
    // Without draws, the losses are all equal.
    for id in ["raster", "sinkhorn", "random-fixed"] {
        let first = losses(id, 0, 0);
        assert!(first.iter().all(|loss| *loss == first[0]), "{id}");
        assert!(losses(id, 2, 1000) == first, "{id}");
    }
}

#[test]
fn at_evaluation_an_order_is_drawn_by_the_heads_seed_and_the_images_number() {
    let tokens = Tokens { grid: GRID, width: WIDTH, cls: None, registers: Vec::new(), patches: values() };
    let order = |id: &str, seed: u64, image: u64| {
        let backbone = BackboneMeta { hidden_size: WIDTH, ..BackboneMeta::default() };
        let probe = model(id, seed).to_probe(backbone, Vec::new(), None);
        let Form::Scan(directions) = probe.output(&tokens, image).expect("a reading").form else {
            panic!("no scan")
        };
        match &directions[0].order {
            Order::Permutation(order) => order.clone(),
            Order::Plan(_) => panic!("a plan"),
        }
    };
    let mut seen = HashSet::new();
    for (seed, image) in (0..4).flat_map(|seed| (0..25).map(move |image| (seed, image))) {
        let drawn = order("random-dynamic", seed, image);
        assert_eq!(drawn, dynamic_order(seed, image, GRID.len()));
        assert_eq!(order("random-fixed", seed, image), order("random-fixed", seed, 0));
        let mut sorted = drawn.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..GRID.len()));
        seen.insert(drawn);
    }
    assert_eq!(seen.len(), 100, "an order that was there before");
    let fixed: HashSet<Vec<usize>> = (0..20).map(|seed| order("random-fixed", seed, 0)).collect();
    assert_eq!(fixed.len(), 20, "one order for several seeds");
}

#[test]
fn every_token_stands_everywhere_as_often_as_any_other() {
    let mut counts = [[0; 4]; 4];
    for draw in 0..2400 {
        for (place, token) in dynamic_order(5, draw, 4).into_iter().enumerate() {
            counts[token][place] += 1;
        }
    }
    // 600 each, with a standard deviation of 21.
    assert!(counts.iter().flatten().all(|count| (500..=700).contains(count)), "{counts:?}");
}

#[test]
fn the_noise_of_gumbel_sinkhorn_is_standard_gumbel() {
    let noise: Vec<f64> =
        (0..40).flat_map(|image_seed| noise::table(image_seed, 16)).map(f64::from).collect();
    let (mean, deviation) = mean_and_deviation(&noise);
    // Euler's constant and pi / sqrt(6), of 10240 values: standard errors 0.013 and 0.02.
    assert!((mean - 0.577_215_664_9).abs() < 0.05, "{mean}");
    assert!((deviation.expect("many") - 1.282_549_830_2).abs() < 0.08, "{deviation:?}");
    let images: HashSet<Vec<u64>> =
        noise.chunks(256).map(|image| image.iter().map(|x| x.to_bits()).collect()).collect();
    assert_eq!(images.len(), 40, "two images with the same noise");
}
