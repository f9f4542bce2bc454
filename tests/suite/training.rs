//! The training protocol: every head can learn, heads do not influence each other, and a run that was
//! interrupted resumes to the same bits.

use std::ops::ControlFlow;

use burn::tensor::Device;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ssmprobe::model::backbone::order::MaeOrder;
use ssmprobe::model::backbone::token_spec::TokenSpec;
use ssmprobe::model::data::token_cache::{TokenCache, TokenSource, Writer};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::hand_order::HandOrder;
use ssmprobe::model::order_file;
use ssmprobe::model::probe::head::{Config, Dims, HEADS, HeadSpec, Sharing, find};
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::train::classifier::Model;
use ssmprobe::model::train::run::Selection;
use ssmprobe::model::train::{Event, HeadTrainer, Labelled, Task, TrainConfig, TrainCursor, train};
use tempfile::TempDir;

use crate::ablation::token_key;
use crate::report;

const CLASSES: usize = 4;
const IMAGES: usize = 8;
const WIDTH: usize = 24;
const GRID: Grid = Grid::new(3, 3);

/// Eight images of random tokens, and the folder that they are in.
fn cache() -> (TempDir, Vec<TokenCache>) {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut values = |n: usize| (0..n).map(|_| rng.random_range(-1.5..1.5)).collect::<Vec<f32>>();
    let mut writer = Writer::open(folder.path(), token_key(), IMAGES).unwrap();
    for _ in 0..IMAGES {
        let (cls, patches) = (Some(values(WIDTH)), values(GRID.len() * WIDTH));
        let tokens = Tokens { grid: GRID, width: WIDTH, cls, registers: Vec::new(), patches };
        writer.push(Some(tokens), None).unwrap();
    }
    (folder, vec![writer.finish().unwrap()])
}

/// The images with their classes.
fn labelled() -> Labelled {
    Labelled { images: (0..IMAGES).collect(), classes: (0..IMAGES).map(|image| image % CLASSES).collect() }
}

fn trainer(kind: &'static HeadSpec, device: &Device) -> HeadTrainer {
    let dims = Dims { width: WIDTH, grid: GRID, classes: CLASSES };
    let config = Config { state_dim: Some(8), k: Some(3), ..Config::default() };
    HeadTrainer::new(kind.id, Model::start(kind, &config, dims, 3, device).unwrap())
}

/// Trains the heads of `kinds` together; with `cut`, stops after so many steps and resumes from what a checkpoint would
/// hold. If `redrawn`, the tokens of every image have another order in every epoch.
fn run(
    tokens: &dyn TokenSource,
    kinds: &[&'static HeadSpec],
    config: &TrainConfig,
    cut: Option<usize>,
    redrawn: bool,
) -> Vec<HeadTrainer> {
    let device = Device::flex();
    let all = labelled();
    let task =
        Task { tokens, train: &all, select: &all, test: &all, config, device: &device, seed: 3, redrawn };
    let mut trainers: Vec<HeadTrainer> = kinds.iter().map(|kind| trainer(kind, &device)).collect();
    let mut steps = 0;
    let mut stop = |event: Event| {
        steps += usize::from(matches!(event, Event::Step { .. }));
        if Some(steps) == cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let position = train(&task, &mut trainers, TrainCursor::default(), &mut stop).unwrap();
    if cut.is_some() {
        let saved: Vec<_> = trainers.iter().map(HeadTrainer::save).collect();
        let fresh = kinds.iter().map(|kind| trainer(kind, &device));
        let mut trainers: Vec<HeadTrainer> =
            fresh.zip(saved).map(|(fresh, saved)| fresh.restore(saved, &device).unwrap()).collect();
        train(&task, &mut trainers, position, &mut |_| ControlFlow::Continue(())).unwrap();
        return trainers;
    }
    trainers
}

#[test]
fn every_head_overfits_eight_images() {
    let (_folder, tokens) = cache();
    let kinds: Vec<&HeadSpec> = HEADS.iter().collect();
    let config = TrainConfig { epochs: 150, batch: 8, rate: 2e-2, ..TrainConfig::default() };
    let mut names = Vec::new();
    for trainer in run(&tokens, &kinds, &config, None, false) {
        assert_eq!(trainer.progress.failure, None, "{}", trainer.name);
        assert!(trainer.progress.history.iter().all(|epoch| epoch.loss.is_finite()), "{}", trainer.name);
        let reached: Vec<f64> = trainer.progress.history.iter().map(|epoch| epoch.train).collect();
        assert!(reached.contains(&100.0), "{} reaches {reached:?} %", trainer.name);
        names.push(trainer.name);
    }
    assert_eq!(names, HEADS.iter().map(|kind| kind.id).collect::<Vec<_>>());
}

/// A head in the order 0, 1, 2, ... of a file equals raster to the bit; in another order it does not.
#[test]
fn a_head_in_the_order_of_a_file_is_trained_as_any_scan() {
    let (folder, tokens) = cache();
    let device = Device::flex();
    let all = labelled();
    let config = TrainConfig { epochs: 4, batch: 3, rate: 1e-2, ..TrainConfig::default() };
    let task = Task {
        tokens: &tokens,
        train: &all,
        select: &all,
        test: &all,
        config: &config,
        device: &device,
        seed: 3,
        redrawn: false,
    };
    let n = GRID.len() as u32;
    let file = |name: &str, order: Vec<u32>| {
        let path = folder.path().join(name);
        order_file::write(&path, &HandOrder::new(order).unwrap()).unwrap();
        Some(order_file::read(&path).unwrap())
    };
    for sharing in [Sharing::Shared, Sharing::Channel] {
        let trained = |id: &str, order: Option<HandOrder>| {
            let dims = Dims { width: WIDTH, grid: GRID, classes: CLASSES };
            let config = Config { state_dim: Some(8), sharing: Some(sharing), order, ..Config::default() };
            let model = Model::start(find(id).unwrap(), &config, dims, 3, &device).unwrap();
            let mut trainers = vec![HeadTrainer::new(id, model)];
            train(&task, &mut trainers, TrainCursor::default(), &mut |_| ControlFlow::Continue(())).unwrap();
            let trainer = trainers.remove(0);
            let mut arrays = trainer.model.params().to_arrays();
            let order = arrays.shift_remove("order").map(|order| order.data);
            let losses: Vec<f64> = trainer.progress.history.iter().map(|epoch| epoch.loss).collect();
            (arrays, losses, order)
        };
        let raster = trained("raster", None);
        let same = trained("order", file("raster.npz", (0..n).collect()));
        assert_eq!((&same.0, &same.1), (&raster.0, &raster.1), "{sharing:?}");
        let reversed: Vec<u32> = (0..n).rev().collect();
        let other = trained("order", file("reversed.csv", reversed.clone()));
        assert_ne!((&other.0, &other.1), (&raster.0, &raster.1), "{sharing:?}");
        assert_eq!(
            other.2,
            Some(reversed.iter().map(|&i| i as f32).collect()),
            "it is no parameter that is trained"
        );
    }
}

/// Asserts that two trainings of a head ended with the same bits.
#[track_caller]
fn assert_same(one: &HeadTrainer, other: &HeadTrainer, what: &str) {
    let name = &one.name;
    assert_eq!(one.progress.history, other.progress.history, "{name} {what}");
    assert_eq!(one.progress.predictions, other.progress.predictions, "{name} {what}");
    assert_eq!(one.progress.best, other.progress.best, "{name} {what}");
    assert_eq!(one.model.params().to_arrays(), other.model.params().to_arrays(), "{name} {what}");
}

/// Redrawn orders change heads that read in an order, and no others; a stopped training resumes to the same bits.
#[test]
fn tokens_redrawn_at_every_pass_have_no_order_left() {
    let (_folder, tokens) = cache();
    let kinds = ["gap", "sinkhorn", "raster", "random-fixed"].map(|id| find(id).unwrap());
    let config =
        TrainConfig { epochs: 3, batch: 3, rate: 1e-2, evaluate_every: Some(2), ..TrainConfig::default() };
    let losses = |trainers: &[HeadTrainer]| -> Vec<Vec<f64>> {
        trainers.iter().map(|one| one.progress.history.iter().map(|epoch| epoch.loss).collect()).collect()
    };
    let [kept, redrawn] = [false, true].map(|redrawn| run(&tokens, &kinds, &config, None, redrawn));
    let (before, after) = (losses(&kept), losses(&redrawn));
    for (head, (before, after)) in kinds.iter().zip(before.iter().zip(&after)) {
        let apart = before.iter().zip(after).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let is_in_order = head.id == "raster" || head.id == "random-fixed";
        assert!(if is_in_order { apart > 1e-3 } else { apart < 1e-4 }, "{}: {apart}", head.id);
    }
    for cut in [1, 4, 8] {
        let again = run(&tokens, &kinds, &config, Some(cut), true);
        redrawn.iter().zip(&again).for_each(|(one, other)| assert_same(one, other, "cut"));
    }
    // In a run, where its tokens say so.
    let mut manifest = report::manifest("mae", "birds", &["raster"], 1, Selection::Test);
    for mae_order in [MaeOrder::Kept, MaeOrder::Shuffled(0), MaeOrder::Redrawn] {
        manifest.tokens.layer = TokenSpec { mae_order, ..TokenSpec::default() }.name();
        assert_eq!(manifest.redraws(), mae_order == MaeOrder::Redrawn);
    }
}

#[test]
fn heads_trained_together_or_alone_and_cut_anywhere_end_with_the_same_bits() {
    let (_folder, tokens) = cache();
    let kinds: Vec<&HeadSpec> = HEADS.iter().collect();
    let config = TrainConfig { epochs: 3, batch: 3, rate: 1e-2, ..TrainConfig::default() };
    let together = run(&tokens, &kinds, &config, None, false);
    let cut = run(&tokens, &kinds, &config, Some(5), false);
    assert_eq!((together.len(), cut.len()), (HEADS.len(), HEADS.len()));
    for ((kind, joint), cut) in kinds.iter().zip(&together).zip(&cut) {
        let alone = run(&tokens, &[kind], &config, None, false);
        assert_same(joint, &alone[0], "alone");
        assert_same(joint, cut, "cut");
    }
}

#[test]
fn a_head_that_breaks_at_any_step_stops_with_its_last_good_values() {
    let (_folder, tokens) = cache();
    let kinds = ["gap", "attention"].map(|id| find(id).unwrap());
    for (epochs, batch, rate, broken) in [(4, 2, 1e38, "loss"), (1, 8, f64::INFINITY, "parameter")] {
        let config = TrainConfig { epochs, batch, rate, ..TrainConfig::default() };
        let trainers = run(&tokens, &kinds, &config, None, false);
        assert_eq!(trainers.len(), 2);
        for HeadTrainer { name, progress, model, .. } in &trainers {
            let why = progress.failure.as_deref().unwrap_or_default();
            assert!(why.contains(&format!("{broken} became")), "{name}: {why}");
            assert!(model.params().are_finite(), "{name}");
            // The last step of a training may break it too.
            let none = progress.best.is_none() && progress.predictions.is_empty();
            assert!(none || epochs > 1, "{name}");
        }
    }
}
