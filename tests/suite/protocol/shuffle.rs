//! The order of training images: every one once per epoch, in another order for every epoch and seed, and
//! reproducible.

use std::collections::HashSet;
use std::ops::ControlFlow;

use burn::tensor::Device;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::head::{self, Config, Dims};
use ssmprobe::model::train::classifier::Model;
use ssmprobe::model::train::{Event, HeadTrainer, Labelled, Task, TrainConfig, TrainCursor, train};

use super::RecordingSource;

/// An image that is not trained on.
const HELD_OUT: usize = 9;

/// The batches of images of every epoch, from `from` on.
pub(super) fn batches(
    images: &[usize],
    [batch, epochs]: [usize; 2],
    seed: u64,
    from: TrainCursor,
) -> Vec<Vec<Vec<usize>>> {
    let (grid, device) = (Grid::new(1, 2), Device::flex());
    let labelled = |images: &[usize]| Labelled {
        images: images.to_vec(),
        classes: images.iter().map(|image| image % 2).collect(),
    };
    let (train_on, held_out) = (labelled(images), labelled(&[HELD_OUT]));
    let source = RecordingSource::new(grid, 1, vec![0.5, 0.25]);
    let config = TrainConfig { epochs, batch, rate: 1e-3, ..TrainConfig::default() };
    let task = Task {
        tokens: &source,
        train: &train_on,
        select: &held_out,
        test: &held_out,
        config: &config,
        device: &device,
        seed,
        redrawn: false,
    };
    let dims = Dims { width: 1, grid, classes: 2 };
    let model = Model::start(head::find("gap").expect("a head"), &Config::default(), dims, 0, &device);
    let mut trainers = [HeadTrainer::new("gap", model.expect("a model"))];
    train(&task, &mut trainers, from, &mut |_: Event| ControlFlow::Continue(())).expect("tokens");
    let calls = source.calls.into_inner();
    calls.into_iter().filter(|call| call.concat() != [HELD_OUT]).collect()
}

fn orders(images: &[usize], epochs: usize, seed: u64) -> Vec<Vec<usize>> {
    let epochs = batches(images, [images.len(), epochs], seed, TrainCursor::default());
    epochs.iter().map(|batches| batches.concat()).collect()
}

#[test]
fn every_image_is_trained_on_once_an_epoch_in_batches_of_the_size_asked_for() {
    let images: Vec<usize> = (0..26).map(|i| 3 * i + 100).collect();
    let epochs = batches(&images, [8, 5], 7, TrainCursor::default());
    assert_eq!(epochs.len(), 5);
    for epoch in &epochs {
        assert_eq!(epoch.iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 8, 2]);
        let mut seen = epoch.concat();
        seen.sort_unstable();
        assert_eq!(seen, images);
    }
}

#[test]
fn orders_differ_in_every_epoch_and_seed_and_come_again() {
    let images: Vec<usize> = (0..26).map(|i| 3 * i + 100).collect();
    let all: Vec<Vec<usize>> = (0..6).flat_map(|seed| orders(&images, 6, seed)).collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 36, "orders that are there twice");
    assert!(all.iter().all(|order| *order != images), "an order that is none");
    assert_eq!(orders(&images, 6, 4), all[24..30]);
    // An epoch is shuffled the same whatever the number of epochs.
    assert_eq!(orders(&images, 2, 4), all[24..26]);
}

#[test]
fn every_image_comes_first_as_often_as_any_other() {
    let images: Vec<usize> = (0..6).map(|i| i + 100).collect();
    let mut first = [0; 6];
    for order in orders(&images, 600, 3) {
        first[order[0] - 100] += 1;
    }
    // 100 each, with a standard deviation of 9.1.
    assert!(first.iter().all(|count| (60..=140).contains(count)), "{first:?}");
}

#[test]
fn who_goes_on_in_the_middle_of_an_epoch_meets_the_rest_of_its_order() {
    let images: Vec<usize> = (0..26).map(|i| 3 * i + 100).collect();
    let whole = batches(&images, [8, 5], 7, TrainCursor::default());
    let rest = batches(&images, [8, 5], 7, TrainCursor { epoch: 2, step: 3 });
    assert_eq!(rest, [vec![whole[2][3].clone()], whole[3].clone(), whole[4].clone()]);
}
