//! The images that are trained on, that pick the best epoch and that are reported: disjoint, split class by class, and
//! reproducible.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use ssmprobe::app::jobs::train::{Event, Parts};
use ssmprobe::model::data::{Split, hold_out};
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::train::Labelled;
use ssmprobe::model::train::run::{Run, Selection, Truth};

use super::Sandbox;

fn count(part: &Labelled, class: usize) -> usize {
    part.classes.iter().filter(|other| **other == class).count()
}

fn set(part: &Labelled) -> BTreeSet<usize> {
    part.images.iter().copied().collect()
}

#[test]
fn a_share_of_every_class_of_train_picks_the_best_epoch_and_nothing_else_moves() {
    let dataset = Sandbox::new().dataset();
    let whole = Parts::divide(&dataset, None).expect("parts");
    assert_eq!((whole.selection, whole.select.images.len()), (Selection::Val, 13));
    // Of classes of 10, 9 and 7 images: the share, rounded, at least one and never all.
    for (share, expected) in [(0.3, [3, 3, 2]), (0.5, [5, 5, 4]), (0.01, [1, 1, 1]), (0.99, [9, 8, 6])] {
        let parts = Parts::divide(&dataset, Some(share)).expect("parts");
        assert_eq!([0, 1, 2].map(|class| count(&parts.select, class)), expected, "{share}");
        assert_eq!(parts.test, whole.test, "{share}");
        assert_eq!(parts.selection, Selection::PartOfTrain(share));
        assert!(set(&parts.train).is_disjoint(&set(&parts.select)), "{share}");
        let both: BTreeSet<usize> = set(&parts.train).union(&set(&parts.select)).copied().collect();
        assert_eq!(both, set(&whole.train), "{share}");
        for part in [&parts.train, &parts.select] {
            let own = |(image, class): (&usize, &usize)| {
                let sample = &dataset.samples[*image];
                sample.class == *class && sample.split == Split::Train
            };
            assert!(part.images.iter().zip(&part.classes).all(own), "{share}: another image's class");
        }
        assert_eq!(Parts::divide(&dataset, Some(share)).expect("parts"), parts, "not the same again");
    }
    let of = |split: Split| {
        let own = dataset.samples.iter().enumerate().filter(|(_, sample)| sample.split == split);
        own.map(|(image, _)| image).collect::<BTreeSet<_>>()
    };
    let splits = [&whole.train, &whole.select, &whole.test].map(set);
    assert_eq!(splits, [Split::Train, Split::Val, Split::Test].map(of));
}

#[test]
fn without_validation_images_the_test_images_pick_and_that_is_said() {
    let mut dataset = Sandbox::new().dataset();
    dataset.samples.retain(|sample| sample.split != Split::Val);
    let parts = Parts::divide(&dataset, None).expect("parts");
    assert_eq!((parts.selection, &parts.select), (Selection::Test, &parts.test));
    assert!(parts.selection.warning().is_some_and(|warning| warning.contains("flatters")));
    assert!(Selection::Val.warning().is_none() && Selection::PartOfTrain(0.1).warning().is_none());
}

#[test]
fn what_is_held_out_depends_on_the_seed_and_every_image_has_its_turn() {
    let classes: Vec<usize> = (0..40).map(|image| image % 4 / 2).collect();
    let mut times = vec![0; 40];
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let out = hold_out(&classes, 0.25, seed);
        assert_eq!(out, hold_out(&classes, 0.25, seed));
        for class in [0, 1] {
            assert_eq!((0..40).filter(|&i| out[i] && classes[i] == class).count(), 5);
        }
        times.iter_mut().zip(&out).for_each(|(times, out)| *times += usize::from(*out));
        seen.insert(out);
    }
    assert!(seen.len() > 290, "{} ways to hold out of 300 seeds", seen.len());
    // 75 expected, with a standard deviation of 7.5.
    assert!(times.iter().all(|times| (45..=105).contains(times)), "{times:?}");
}

#[test]
fn what_is_set_aside_is_not_trained_on() {
    let dataset = Sandbox::new().dataset();
    let parts = Parts::divide(&dataset, Some(0.3)).expect("parts");
    let (aside, test) = (set(&parts.select), set(&parts.test));
    // Tokens so large that a single step on one of them would have a loss beyond all others.
    let large = |image: usize, tokens: Tokens| {
        let scale = if aside.contains(&image) || test.contains(&image) { 3000.0 } else { 1.0 };
        Tokens { patches: tokens.patches.iter().map(|x| x.clamp(-10.0, 10.0) * scale).collect(), ..tokens }
    };
    let sandbox = Sandbox::with(large);
    let mut plan = sandbox.train_plan(&["gap"]);
    (plan.settings.selection, plan.settings.rate) = (Some(0.3), 1e-6);
    let mut losses = Vec::new();
    let summary = sandbox.train(&plan, "run", &mut |event| {
        if let Event::Step { trainers, .. } = event {
            losses.extend(trainers[0].progress.running.loss());
        }
        ControlFlow::Continue(())
    });
    let data = &summary.run.manifest.dataset;
    assert_eq!((data.train, data.select, data.test), (18, 8, 13));
    assert_eq!(losses.len(), 2 * 4 * 3, "two seeds, four epochs of 18 images in batches of 8");
    assert!(losses.iter().all(|loss| *loss < 5.0), "{losses:?}");
}

#[test]
fn parts_with_the_same_head_and_seed_or_other_test_images_are_not_joined() {
    let sandbox = Sandbox::new();
    let mut plan = sandbox.train_plan(&["gap"]);
    let mut one = sandbox.trained(&plan, "one");
    plan.settings.first_seed = 1;
    let other = sandbox.trained(&plan, "other");
    let parts = [one.folder(), other.folder()].map(std::path::Path::to_owned);
    let error = Run::join(&sandbox.path("whole"), &parts).expect_err("both have seed 1").to_string();
    assert!(error.contains("other and ") && error.contains("one both trained `gap` with seed 1"), "{error}");
    // Nor are those that were tested on other images.
    one.set_seeds(&[0]).expect("written");
    let (truth, path) = (other.truth().expect("test images"), other.folder().join("answers/truth.json"));
    let elsewhere = Truth { images: vec!["elsewhere.png".to_owned(); truth.images.len()], ..truth.clone() };
    let write =
        |truth: &Truth| std::fs::write(&path, serde_json::to_vec(truth).expect("JSON")).expect("written");
    write(&elsewhere);
    let error = Run::join(&sandbox.path("whole"), &parts).expect_err("other images").to_string();
    assert!(error.contains("they differ in `answers/truth.json`"), "{error}");
    assert!(!sandbox.path("whole").exists());
    write(&truth);
    one.keep_unreadable(&[3]).expect("written");
    let whole = Run::join(&sandbox.path("whole"), &parts).expect("they are of one training");
    assert_eq!((&*whole.manifest.seeds, whole.unreadable()), (&[0, 1, 2][..], Some(vec![3])));
}
