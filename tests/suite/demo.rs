//! Drawn scenes as a dataset, and the bundled demo: complete, small, and with a correct AUC.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use burn::tensor::Device;
use ssmprobe::app::demo::{self, DemoInfo};
use ssmprobe::model::backbone::Backbone;
use ssmprobe::model::backbone::preprocess::Preprocessor;
use ssmprobe::model::data::image::Photo;
use ssmprobe::model::data::scenes::{self, FIRST_VAL, Scene};
use ssmprobe::model::data::{self, Split};
use ssmprobe::model::explain::localization;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::probe::head::HEADS;

use crate::close::assert_close;
use crate::faults::tree;
use crate::run::{self, assert_ends, done, root, succeeds};

fn program() -> Command {
    let mut program = run::program();
    program.env_remove(demo::ASSETS_VARIABLE);
    program
}

fn demo() -> (PathBuf, DemoInfo) {
    let folder = root().join("assets/demo");
    let about = DemoInfo::open(&folder).unwrap();
    (folder, about)
}

#[test]
#[cfg(all(unix, not(target_os = "macos")))]
fn alone_and_without_a_display_it_writes_the_demos_results() {
    let folder = tempfile::tempdir().unwrap();
    let mut alone = program();
    alone.current_dir(folder.path()).env_remove("DISPLAY").env("WAYLAND_DISPLAY", "");
    let (_, said) = succeeds(&mut alone);
    let elsewhere = "`ssmprobe demo results --out DIR` writes them elsewhere\n";
    assert!(said.starts_with("no display found: writing") && said.contains(elsewhere), "{said}");
    for backbone in ["mae", "vit"] {
        let figure = folder.path().join("demo-results").join(backbone).join("00000-compare.svg");
        assert!(std::fs::read_to_string(figure).unwrap().starts_with("<svg"));
    }
    // A window that is asked for by name and cannot be opened stays an error.
    let mut named = program();
    named.args(["open", "--demo"]).env_remove("DISPLAY").env("WAYLAND_DISPLAY", "");
    assert_ends(&mut named, 1, &["no display to open the window on", "ssmprobe open ssh://"]);
}

#[test]
fn a_folder_that_is_no_demo_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("scenes/precious.txt");
    std::fs::create_dir(own.parent().unwrap()).unwrap();
    std::fs::write(&own, "mine").unwrap();
    let mut build = program();
    assert_ends(
        build.args(["demo", "build", "--out"]).arg(folder.path()),
        2,
        &["has files but no demo.json"],
    );
    assert_eq!(std::fs::read_to_string(own).unwrap(), "mine");
}

#[test]
fn the_same_seed_gives_the_same_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, other] = ["first", "second", "other"].map(|name| folder.path().join(name));
    for (out, seed) in [(&first, "4"), (&second, "4"), (&other, "5")] {
        let sizes = ["scenes", "--train", "13", "--val", "12", "--seed", seed, "--out"];
        done(program().args(sizes).arg(out));
    }
    assert!(tree(&first) == tree(&second));
    assert!(tree(&first) != tree(&other));

    let dataset = data::open(&first).unwrap();
    assert_eq!(dataset.classes.len(), scenes::CLASSES);
    assert_eq!((dataset.count(Split::Train), dataset.count(Split::Val)), (13, 12), "masks are no images");
    assert!(dataset.notes.is_empty(), "{:?}", dataset.notes);

    // The files hold the scene as drawn.
    let scene = scenes::draw(4, FIRST_VAL + 1);
    let file = Path::new("val").join(scenes::class_name(scene.class)).join("00001.png");
    assert_eq!(Photo::open(first.join(&file)).unwrap().picture, scene.picture);
    assert_eq!(mask(&first.join("masks").join(&file)), scene.mask);
}

/// A mask from its file.
fn mask(path: &Path) -> Vec<bool> {
    Photo::open(path).unwrap().picture.rgb.chunks(3).map(|pixel| pixel[0] > 127).collect()
}

#[test]
fn a_folder_in_use_is_not_mixed_with_other_scenes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "mine").unwrap();
    assert_ends(program().args(["scenes", "--out"]).arg(folder.path()), 2, &["not empty"]);
    assert_eq!(tree(folder.path()).len(), 1);
}

#[test]
fn the_bundled_demo_is_small_and_whole() {
    let (folder, about) = demo();
    let bytes: usize = tree(&folder).values().map(Vec::len).sum();
    assert!(bytes < 25 << 20, "{bytes} bytes");
    assert_eq!(about.scenes_version, scenes::VERSION, "make the demo again");
    assert_eq!(about.images(&folder).len(), 2 * scenes::CLASSES);
    for backbone in &about.backbones {
        let ids: BTreeSet<&str> = backbone.heads.iter().map(|head| head.id.as_str()).collect();
        let all: BTreeSet<&str> = HEADS.iter().map(|kind| kind.id).collect();
        assert_eq!(ids, all, "{}", backbone.id);
    }
}

#[test]
fn the_probes_of_the_bundled_demo_are_of_its_backbones() {
    let (folder, about) = demo();
    for about in &about.backbones {
        let backbone = Backbone::open(&about.folder(&folder), &Device::flex()).unwrap();
        for head in &about.heads {
            let probe = Probe::load(about.probe(&folder, &head.id)).unwrap();
            assert_eq!(
                probe.meta.backbone.fingerprint.as_deref(),
                Some(backbone.fingerprint()),
                "{}",
                head.id
            );
        }
    }
}

#[test]
fn the_auc_that_the_demo_tells_is_that_of_its_probe_on_its_scenes() {
    let (folder, about) = demo();
    let device = Device::flex();
    let backbone = about.backbones.iter().find(|backbone| backbone.id == "mae").unwrap();
    let probe = Probe::load(backbone.probe(&folder, "sinkhorn")).unwrap();
    let preprocessor = Preprocessor::open(backbone.folder(&folder)).unwrap();
    // The bundled files are the first of the scenes on which the AUC was measured.
    let scene = |number: u64| scenes::draw(about.scenes.seed, FIRST_VAL + number);
    let files = about.images(&folder);
    assert_eq!(files.len(), 2 * scenes::CLASSES);
    for (number, path) in files.iter().enumerate() {
        let file = path.strip_prefix(folder.join("scenes")).unwrap();
        let mask = mask(&folder.join("scenes/masks").join(file));
        let picture = Photo::open(path).unwrap().picture;
        assert_eq!(Scene { picture, mask, class: number % scenes::CLASSES }, scene(number as u64));
    }
    let encoder = Backbone::open(&backbone.folder(&folder), &device).unwrap();
    let mut aucs = Vec::new();
    let all: Vec<Scene> = (0..about.auc_scenes).map(scene).collect();
    for scenes in all.chunks(60) {
        let pixels = |scene: &Scene| {
            let photo = Photo { name: "scene".into(), picture: scene.picture.clone() };
            preprocessor.apply(&photo).unwrap()
        };
        let tokens = encoder.forward(&scenes.iter().map(pixels).collect::<Vec<_>>()).unwrap();
        aucs.extend(scenes.iter().zip(&tokens).map(|(scene, tokens)| {
            localization::weight_auc(&probe.output(tokens, 0).unwrap(), &scene.cover(8)).unwrap()
        }));
    }
    let stated = backbone.heads.iter().find(|head| head.id == "sinkhorn").unwrap().auc.unwrap();
    assert_eq!(aucs.len(), 240);
    // The stated AUC is of tokens stored in float16.
    assert_close("AUC", aucs.iter().sum::<f64>() / 240.0, stated, 1e-4);
}

#[test]
fn results_of_the_demo_are_written_without_a_display() {
    let out = tempfile::tempdir().unwrap();
    let mut command = program();
    done(command.args(["demo", "results", "--scenes", "1", "--out"]).arg(out.path()));
    let written = tree(out.path());
    for backbone in ["mae", "vit"] {
        let file = |name: &str| String::from_utf8(written[&format!("{backbone}/{name}")].clone()).unwrap();
        let summary = file("summary.csv");
        assert_eq!(summary.lines().count(), 1 + HEADS.len(), "{summary}");
        let compare = file("00000-compare.svg");
        assert!(compare.contains("<svg") && compare.len() > 5000);
        assert!(written.contains_key(&format!("{backbone}/00000-sinkhorn-assignment.svg")));
    }
}

#[test]
fn a_demo_that_is_elsewhere_or_nowhere() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = program();
    command
        .env(demo::ASSETS_VARIABLE, empty.path())
        .args(["demo", "results", "--out"])
        .arg(empty.path().join("x"));
    assert_ends(&mut command, 1, &["demo build", demo::ASSETS_VARIABLE]);
}

#[test]
fn a_demo_is_built_and_built_again_to_the_same_bytes() {
    let out = tempfile::tempdir().unwrap();
    let build = || {
        let settings =
            "demo build --mae-steps 2 --vit-steps 2 --layers 1 --train 24 --val 24 --epochs 1 --batch 12";
        done(program().args(settings.split(' ')).arg("--out").arg(out.path()));
        tree(out.path())
    };
    let first = build();
    std::fs::remove_dir_all(out.path().join("vit")).unwrap(); // made again; the other is kept
    let second = build();
    assert!(first == second);
    let about = DemoInfo::open(out.path()).unwrap();
    assert_eq!(about.backbones.len(), 2);
    assert!(about.backbones.iter().all(|backbone| backbone.heads.len() == HEADS.len()));
}
