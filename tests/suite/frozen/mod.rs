//! Compatibility with files of an earlier version, one small file of every kind in `tests/fixtures/frozen`: this version
//! reads them, computes the same from them, and writes the same again: numbers to the bit (double precision to 1e-14, what
//! is trained to 1e-4), pictures to the byte. `scripts/freeze` writes the folder; its README says when.

mod compare;
mod kinds;

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use ssmprobe::app::jobs::extract::TokenSettings;
use ssmprobe::app::jobs::train::{self, Event, TrainPlan, TrainSettings, TrainSpec};
use ssmprobe::model::data::scenes;
use ssmprobe::model::device;
use ssmprobe::model::train::run::Run;
use tempfile::TempDir;

use self::compare::Slack;
use crate::run::{backbone, done, json, lines, program, root};

/// Environment variable with the source revision; where it is set, a step replaces its frozen files by new ones.
const FREEZE: &str = "SSMPROBE_FREEZE";
/// Placeholder in frozen files for the folder in which they were made.
const DESK: &str = "DESK";
/// Tolerance for numbers on a processor with other vector instructions, which round differently: float32 tokens of the
/// backbone change scores by 2e-6, steps of AdamW by 1.4e-5 (measured with AVX2 and, emulated, without).
const ELSEWHERE: f64 = 1e-4;
/// Tolerance for numbers in double precision on any processor: matrix products are split by the size of its caches, so sums
/// round differently in the last digits. Neighbouring float32 numbers are farther apart than this.
const ROUNDING: f64 = 1e-14;

/// How one group of the frozen files was made.
#[derive(Clone, Serialize, Deserialize)]
struct Step {
    /// The program's version and source revision.
    program: String,
    /// The instructions it computed with.
    processor: String,
    /// Whether it trains: a training adds up in another order since, as it would on another processor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    trains: bool,
    /// Arguments of the program's runs, in a folder with the files of earlier steps, the backbone and the images.
    commands: Vec<String>,
    /// A folder that is copied before the runs, and the copy's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copy: Option<[String; 2]>,
    /// The files and folders that the step writes.
    writes: Vec<String>,
    /// Suffix of the paths that are frozen among them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    only: String,
}

fn frozen(name: &str) -> PathBuf {
    root().join("tests/fixtures/frozen").join(name)
}

fn manifest() -> IndexMap<String, Step> {
    json(frozen("manifest.json"))
}

/// The vector instructions on which numbers depend: those that `model::vectorise` and its peers use here.
fn processor() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let has = |all: &[bool]| all.iter().all(|has| *has);
        let wide = [is_x86_feature_detected!("avx2"), is_x86_feature_detected!("fma")];
        let widest = [
            is_x86_feature_detected!("avx512f"),
            is_x86_feature_detected!("avx512dq"),
            is_x86_feature_detected!("avx512vl"),
        ];
        let level = match (has(&wide), has(&widest)) {
            (true, true) => "AVX-512",
            (true, false) => "AVX2",
            _ => "baseline",
        };
        format!("x86_64, {level}")
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::env::consts::ARCH.to_owned()
}

/// Every file below `folder`, sorted, or `folder` itself where it is a file.
fn walk(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_owned()];
    }
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flat_map(|entry| walk(&entry.expect("an entry").path())).collect();
    paths.sort();
    paths
}

/// Copies the file `from` to `to`; in text files, `old` is replaced by `new`.
fn copy(from: &Path, to: &Path, [old, new]: [&str; 2]) {
    fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
    let bytes = fs::read(from).expect("a file");
    let is_text =
        ["json", "ssmprobe", "csv"].iter().any(|ending| from.extension().is_some_and(|e| e == *ending));
    match String::from_utf8(bytes) {
        Ok(text) if is_text => fs::write(to, text.replace(old, new)),
        Ok(text) => fs::write(to, text),
        Err(binary) => fs::write(to, binary.into_bytes()),
    }
    .expect("written");
}

/// A folder with all frozen files, the backbone, and the images with their original modification times.
pub fn sandbox() -> TempDir {
    let sandbox = TempDir::new().expect("a folder");
    let place = sandbox.path().to_str().expect("text");
    for (from, name) in [(frozen(""), ""), (backbone(), "backbone")] {
        for path in walk(&from) {
            let below = path.strip_prefix(&from).expect("below");
            let to = sandbox.path().join(name).join(below);
            copy(&path, &to, [DESK, place]);
            if below.starts_with("data") {
                let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_750_000_000);
                File::options()
                    .write(true)
                    .open(&to)
                    .and_then(|file| file.set_modified(then))
                    .expect("its time");
            }
        }
    }
    sandbox
}

/// Runs `make` in a copy of the frozen folder and compares the new files with the frozen ones; with [`FREEZE`], replaces those.
fn step(name: &str, make: impl FnOnce(&Path, &Step)) {
    let mut steps = manifest();
    let step = steps[name].clone();
    let sandbox = sandbox();
    let remove = |path: PathBuf| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    step.writes.iter().for_each(|path| remove(sandbox.path().join(path)).unwrap_or_default());
    if let Some([from, to]) = &step.copy {
        let from = sandbox.path().join(from);
        for path in walk(&from) {
            copy(&path, &sandbox.path().join(to).join(path.strip_prefix(&from).expect("below")), ["", ""]);
        }
    }
    make(sandbox.path(), &step);
    let written = |root: &Path| -> Vec<PathBuf> {
        let all = step.writes.iter().flat_map(|path| walk(&root.join(path)));
        all.filter(|path| path.to_string_lossy().ends_with(&step.only)).collect()
    };
    if let Ok(revision) = std::env::var(FREEZE) {
        let place = sandbox.path().to_str().expect("text");
        step.writes.iter().for_each(|path| remove(frozen(path)).unwrap_or_default());
        for path in
            written(sandbox.path()).into_iter().filter(|path| path.extension().is_some_and(|e| e != "lock"))
        {
            let to = frozen("").join(path.strip_prefix(sandbox.path()).expect("below"));
            copy(&path, &to, [place, DESK]);
            let kept = String::from_utf8_lossy(&fs::read(&to).expect("a file")).into_owned();
            assert!(!kept.contains(place), "{} says where it was made", to.display());
        }
        let now = &mut steps[name];
        now.program = format!("ssmprobe {} ({revision})", env!("CARGO_PKG_VERSION"));
        now.processor = processor();
        fs::write(frozen("manifest.json"), serde_json::to_string_pretty(&steps).expect("JSON") + "\n")
            .expect("written");
        return;
    }
    let exact = step.processor == processor() && !step.trains;
    let slack = Slack(if exact { ROUNDING } else { ELSEWHERE });
    let old = written(&frozen(""));
    assert!(!old.is_empty(), "nothing is frozen of {name}");
    let differences: Vec<String> = old
        .iter()
        .filter_map(|old| {
            let name = old.strip_prefix(frozen("")).expect("below");
            let new = sandbox.path().join(name);
            if new.is_file() {
                copy(&new, &new, [sandbox.path().to_str().expect("text"), DESK]);
            }
            Some(format!("{}: {}", name.display(), slack.difference(old, &new)?))
        })
        .collect();
    let count = differences.len();
    assert!(count == 0, "{count} of {} files differ\n{}", old.len(), differences.join("\n"));
}

/// Runs the commands of a step in the folder `sandbox`.
fn commands(sandbox: &Path, step: &Step) {
    for command in &step.commands {
        done(program().current_dir(sandbox).args(command.split_whitespace()));
    }
}

/// Small pictures of three classes of scenes and the masks of their objects; each pixel is the mean of a square.
#[test]
fn pictures() {
    const SIDE: usize = 16;
    const SQUARE: usize = scenes::SIDE / SIDE;
    step("pictures", |sandbox, _| {
        let few = (0..).filter(|index| (index % scenes::CLASSES as u64).is_multiple_of(4));
        for (at, index) in few.take(36).enumerate() {
            let scene = scenes::draw(5, index);
            let mean = |value: &dyn Fn(usize) -> usize, pixel: usize| {
                let corner = pixel / SIDE * SQUARE * scenes::SIDE + pixel % SIDE * SQUARE;
                let square = (0..SQUARE * SQUARE).map(|i| corner + i / SQUARE * scenes::SIDE + i % SQUARE);
                (square.map(value).sum::<usize>() / (SQUARE * SQUARE)) as u8
            };
            let colour = |i: usize| mean(&|pixel| scene.picture.rgb[3 * pixel + i % 3] as usize, i / 3);
            let mask =
                |i: usize| if mean(&|pixel| 255 * usize::from(scene.mask[pixel]), i) > 127 { 255 } else { 0 };
            let class = scenes::class_name(scene.class);
            let save = |folder: &str, pixels: Vec<u8>, kind| {
                let path = sandbox.join(format!("data/{folder}/{class}/{at:02}.png"));
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                image::save_buffer(&path, &pixels, SIDE as u32, SIDE as u32, kind).expect("an image");
            };
            let split = if at < 24 { "train" } else { "val" };
            save(split, (0..3 * SIDE * SIDE).map(colour).collect(), image::ColorType::Rgb8);
            if at >= 24 {
                save("masks/val", (0..SIDE * SIDE).map(mask).collect(), image::ColorType::L8);
            }
        }
    });
}

#[test]
fn scenes_and_their_masks() {
    step("scenes", commands);
}

#[test]
fn tokens() {
    step("tokens", |sandbox, step| {
        commands(sandbox, step);
        // The frozen cache is found complete.
        let kept = sandbox.join("kept");
        for path in walk(&frozen("tokens")) {
            copy(&path, &kept.join(path.strip_prefix(frozen("tokens")).expect("below")), ["", ""]);
        }
        let plan = step.commands[0].replace("--cache tokens", "--cache kept --plan --json");
        if std::env::var(FREEZE).is_err() {
            let plan = lines(&done(program().current_dir(sandbox).args(plan.split_whitespace())));
            assert_eq!((&plan[0]["images"], &plan[0]["done"]), (&36.into(), &36.into()));
        }
    });
}

#[test]
fn probes_of_every_head() {
    step("heads", commands);
}

#[test]
fn a_run() {
    step("run", commands);
}

#[test]
fn a_run_that_keeps_no_tokens() {
    step("recomputed", commands);
}

#[test]
fn evaluations() {
    step("evaluation", commands);
}

#[test]
fn sweeps() {
    step("sweeps", commands);
}

#[test]
fn layers_and_rates() {
    step("layers", commands);
}

#[test]
fn tables_of_a_report() {
    step("tables", commands);
}

#[test]
fn a_stopped_run() {
    step("stopped", |sandbox, _| {
        let settings = TrainSettings {
            backbone: sandbox.join("backbone").display().to_string(),
            data: Some(sandbox.join("data")),
            heads: ["linear-bn", "sinkhorn"].map(str::to_owned).into(),
            head_settings: "state_dim=4".into(),
            epochs: 3,
            batch: 8,
            seeds: 1,
            device: "cpu".into(),
            tokens: TokenSettings { cache: Some(sandbox.join("tokens")), ..TokenSettings::default() },
            ..TrainSettings::default()
        };
        let plan = TrainPlan::new(settings, sandbox.join("backbone")).expect("a plan");
        let spec = TrainSpec { plan, out: sandbox.join("stopped"), resume: false };
        let end = train::run(device::choose, &spec, &mut |event| match event {
            Event::Epoch { position, .. } if position.epoch == 2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        assert!(!end.expect("a training").finished);
    });
}

#[test]
fn a_stopped_run_goes_on_to_the_same_numbers() {
    step("resumed", |sandbox, step| {
        let checkpoint =
            Run::open(&sandbox.join("resumed")).and_then(|run| run.checkpoint()).expect("a checkpoint");
        assert_eq!((checkpoint.position.epoch, checkpoint.trainers.len()), (2, 2));
        commands(sandbox, step);
    });
}

#[test]
fn explanations_traces_and_stabilities() {
    step("explained", commands);
}

#[test]
fn figures() {
    step("figures", commands);
}

#[test]
fn attributions_and_removal_curves() {
    step("attributed", commands);
}

#[test]
fn figures_of_attributions_and_differences() {
    step("attributed_figures", commands);
}

/// The left and the right half of each object are its regions.
#[test]
fn regions_and_images_that_are_alike() {
    step("marked", |sandbox, step| {
        let masks = sandbox.join("data/masks");
        for path in walk(&masks) {
            let mut halves = image::open(&path).expect("a mask").to_luma8();
            for (x, _, pixel) in halves.enumerate_pixels_mut() {
                pixel.0[0] = u8::from(pixel.0[0] > 127) * (1 + u8::from(x > 7));
            }
            let to = sandbox.join("halves").join(path.strip_prefix(&masks).expect("below"));
            fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            halves.save(&to).expect("written");
        }
        commands(sandbox, step);
    });
}

/// The run's `evaluation.json` after an evaluation with removal curves.
#[test]
fn removal_curves_of_a_run() {
    step("removals", |sandbox, step| {
        commands(sandbox, step);
        copy(&sandbox.join("run/evaluation.json"), &sandbox.join("removals/evaluation.json"), ["", ""]);
    });
}

/// The run's `evaluation.json` after an evaluation with stability and with the last tokens kept.
#[test]
fn stability_of_a_run() {
    step("stable", |sandbox, step| {
        commands(sandbox, step);
        copy(&sandbox.join("run/evaluation.json"), &sandbox.join("stable/evaluation.json"), ["", ""]);
    });
}

#[test]
fn tables_of_orders_and_removal_curves() {
    step("removal_tables", |sandbox, step| {
        copy(&sandbox.join("removals/evaluation.json"), &sandbox.join("run/evaluation.json"), ["", ""]);
        commands(sandbox, step);
    });
}
