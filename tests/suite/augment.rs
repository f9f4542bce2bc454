//! Augmentation draws anew in every epoch: the same with any number of threads, never for the images heads are tested
//! on, and with a warning where a protocol asks for it and the run goes without.

use std::path::Path;

use burn::tensor::Device;
use serde_json::Value;
use ssmprobe::app::jobs::extract::{ExtractOptions, Plan, TokenSettings};
use ssmprobe::model::backbone::preprocess::augment::Augmentation;
use ssmprobe::model::data;
use ssmprobe::model::data::token_cache::{Batches, TokenSource};
use ssmprobe::model::train::protocol::Protocol;

use crate::run::{Sandbox, assert_ends, backbone, done, files, json, lines, program, run, succeeds, tables};

/// The patch tokens of every batch.
fn patches(batches: Batches) -> Vec<Vec<f32>> {
    batches
        .flat_map(|layers| {
            layers.expect("tokens").map(|rows| rows.patches.try_into_vec::<f32>().expect("float32"))
        })
        .collect()
}

#[test]
fn what_is_trained_on_is_changed_anew_in_every_epoch_and_what_is_asked_about_never() {
    let sandbox = Sandbox::new(6, 2);
    let dataset = data::open(sandbox.data()).expect("a dataset");
    let tokens = TokenSettings { cache: Some(sandbox.path("none")), ..TokenSettings::default() };
    let plan = Plan::new(ExtractOptions::new(backbone(), tokens), &dataset).expect("a plan");
    let source = |augmentation| {
        let change = (augmentation, Protocol::MaeLinprobe.crop());
        plan.recompute(&dataset, &Device::flex(), Vec::new(), change).expect("a backbone")
    };
    let (plain, wanted) = (source(Augmentation::None), || vec![vec![3, 0, 5], vec![1]]);
    let own = patches(plain.read(wanted(), &Device::flex()));
    assert!(own[0][..own[1].len()] != own[1][..], "images that differ");
    assert_eq!(patches(plain.read_changed(wanted(), &Device::flex(), 0, 0)), own);
    for augmentation in [Augmentation::Shift, Augmentation::Crop] {
        let changed = source(augmentation);
        assert_eq!(patches(changed.read(wanted(), &Device::flex())), own, "{augmentation}: evaluated");
        let epochs: Vec<_> = [(0, 0), (1, 0), (0, 1)]
            .map(|(epoch, seed)| patches(changed.read_changed(wanted(), &Device::flex(), epoch, seed)))
            .into();
        assert!(epochs.iter().all(|one| *one != own), "{augmentation}");
        assert!(epochs[0] != epochs[1] && epochs[0] != epochs[2], "{augmentation}: another epoch or seed");
        // An image's augmentation does not depend on its place in the epoch, so a resumed epoch is the same.
        let alone = patches(changed.read_changed(vec![vec![1], vec![5]], &Device::flex(), 1, 0));
        assert_eq!(alone[0], epochs[1][1]);
        assert_eq!(alone[1][..], epochs[1][0][2 * alone[1].len()..]);
    }
}

fn manifest(run: &Path) -> Value {
    json(run.join("run.json"))
}

#[test]
fn crops_give_the_same_bits_with_any_number_of_threads_and_a_run_without_them_says_so() {
    let sandbox = Sandbox::new(24, 12);
    let protocol = ["--protocol", "dinov2-linear", "--rate", "0.01", "--seeds", "1"];
    let crop = [&protocol[..], &["--augment", "crop"]].concat();
    for (name, threads) in [("one", "1"), ("three", "3")] {
        let mut train = sandbox.train(name, 3, &[&crop[..], &["--json"]].concat());
        let (stdout, stderr) = succeeds(train.env("RAYON_NUM_THREADS", threads));
        assert!(lines(&stdout)[0]["left_out"].is_null() && stderr.contains("not cached"), "{stderr}");
    }
    assert!(!sandbox.path("cache").exists(), "tokens were kept");
    let [one, three] = ["one", "three"].map(|name| sandbox.path(name));
    assert!(files(&one.join("probes")) == files(&three.join("probes")));
    assert!(tables(&one) == tables(&three));
    assert_eq!(
        (&manifest(&one)["protocol"]["augment"], &manifest(&one)["recompute"]),
        (&"crop".into(), &true.into())
    );
    let missing = |text: &str| {
        text.contains("dinov2-linear trains on a random crop") && text.contains("use --augment crop for it")
    };
    assert!(!missing(manifest(&one)["warning"].as_str().expect("of the test images")));
    // A complete cache is not used in place of augmented images.
    let (code, _, stderr) = run(&mut sandbox.train("plain", 3, &protocol));
    assert!(code == 0 && missing(&stderr), "{stderr}");
    assert!(missing(manifest(&sandbox.path("plain"))["warning"].as_str().expect("what is not done")));
    done(&mut sandbox.train("beside", 3, &crop));
    assert!(files(&sandbox.path("beside/probes")) == files(&one.join("probes")));
    assert!(files(&sandbox.path("plain/probes")) != files(&one.join("probes")));
    // A run is resumed with its own augmentation or not at all.
    let mut more = sandbox.resume("one", &["--seeds", "2", "--augment", "shift"]);
    assert_ends(&mut more, 2, &["protocol.augment", "shift"]);
    assert_ends(&mut sandbox.train("bad", 3, &["--augment", "zoom"]), 2, &["expected none, shift or crop"]);
    // The report says it too.
    let said = done(program().arg("report").arg(&one));
    assert!(said.contains("augment crop"), "{said}");
}
