//! `ssmprobe pretrain` from the command line: on a few drawn pictures, killed and stopped anywhere, and what it refuses.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ssmprobe::model::backbone::Backbone;
use ssmprobe::model::backbone::preprocess::Preprocessor;
use ssmprobe::model::data::image::Photo;

use crate::faults::{apart, disk_of_killed, leftovers};
use crate::run::prelude::*;

/// Two classes, horizontal and vertical stripes, each of 9 training pictures and one test picture of 20 x 16 pixels.
fn pictures(folder: &Path) -> PathBuf {
    let data = folder.join("pictures");
    for (class, name) in ["across", "down"].into_iter().enumerate() {
        for i in 0..10_usize {
            let value = |at: usize| {
                let (x, y, channel) = (at / 3 % 20, at / 60, at % 3);
                let stripe = if class == 0 { y } else { x } / (2 + i % 3) % 2;
                (60 + 150 * stripe + 9 * i * channel + x) as u8
            };
            let rgb: Vec<u8> = (0..20 * 16 * 3).map(value).collect();
            let path = data.join(if i < 9 { "train" } else { "test" }).join(name).join(format!("{i}.png"));
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            image::save_buffer(&path, &rgb, 20, 16, image::ColorType::Rgb8).expect("an image");
        }
    }
    data
}

/// The arguments of a small pre-training, 3 steps per epoch.
fn words(folder: &Path, out: &str, more: &[&str]) -> Vec<String> {
    let text = |path: PathBuf| path.display().to_string();
    let own =
        ["pretrain", "--size", "16", "--layers", "1", "--width", "32", "--batch", "7", "--device", "cpu"];
    let data =
        ["--data".to_owned(), text(folder.join("pictures")), "--out".to_owned(), text(folder.join(out))];
    own.map(str::to_owned).into_iter().chain(data).chain(more.iter().map(|word| (*word).to_owned())).collect()
}

fn pretrain(folder: &Path, out: &str, more: &[&str]) -> Command {
    let mut command = program();
    command.args(words(folder, out, more));
    command
}

/// The lines of the log without their speeds.
fn log(folder: &Path) -> Vec<Value> {
    let mut all = lines(&fs::read_to_string(folder.join("metrics.jsonl")).expect("a log"));
    for line in &mut all {
        let rate = line.as_object_mut().expect("a line").shift_remove("images_per_second");
        assert!(rate.and_then(|rate| rate.as_f64()).is_some_and(|rate| rate > 0.0));
    }
    all
}

/// Asserts that two pre-trainings ended with the same bits.
fn assert_same(cut: &Path, undisturbed: &Path) {
    for name in ["model.safetensors", "config.json", "state/checkpoint.safetensors"] {
        let [cut, other] = [cut, undisturbed].map(|folder| fs::read(folder.join(name)).expect("a file"));
        assert!(cut == other, "{name}");
    }
}

#[test]
fn what_is_pretrained_is_a_backbone_that_probes_are_trained_on() {
    let sandbox = TempDir::new().expect("a folder");
    let data = pictures(sandbox.path());
    fs::write(data.join("train/down/torn.png"), "no picture").expect("a file");
    for objective in ["masked", "supervised"] {
        let more =
            ["--objective", objective, "--epochs", "7", "--checkpoint-every", "2", "--augment", "crop"];
        let (stdout, stderr) = succeeds(&mut pretrain(sandbox.path(), objective, &more));
        assert!(
            stdout.contains("step 21, loss") && (objective == "masked" || stdout.contains("% correct")),
            "{stdout}"
        );
        assert_eq!(stderr.matches("torn.png").count(), 1, "said once: {stderr}");
        assert!(stderr.contains("19 images of 2 classes, 16 tokens each"), "{stderr}");
        let out = sandbox.path().join(objective);
        let log = log(&out);
        let steps: Vec<u64> = log.iter().map(|line| line["step"].as_u64().expect("a step")).collect();
        assert_eq!(steps, (1..=10).map(|i| 2 * i).chain([21]).collect::<Vec<_>>());
        assert_eq!(log[0].get("accuracy").is_some(), objective == "supervised");
        let config: Value = json(out.join("config.json"));
        assert_eq!((&config["patch_size"], &config["image_size"]), (&4.into(), &16.into()));
        // It accepts a picture of any size.
        let backbone = Backbone::open(&out, &burn::tensor::Device::flex()).expect("a backbone");
        let photo = Photo::open(data.join("train/across/3.png")).expect("a picture");
        let pixels = Preprocessor::open(&out).expect("a preprocessor").apply(&photo).expect("pixels");
        let tokens = backbone.forward(&[pixels]).expect("tokens").remove(0);
        assert_eq!((tokens.patches.len(), tokens.cls.map(|cls| cls.len())), (16 * 32, Some(32)));
        let mut train = program();
        train
            .args(["train", "--heads", "gap,raster", "--epochs", "2", "--device", "cpu", "--backbone"])
            .arg(&out);
        train.arg("--data").arg(&data).arg("--cache").arg(sandbox.path().join("cache"));
        done(train.arg("--out").arg(sandbox.path().join(format!("{objective}-run"))));
    }
}

#[cfg(unix)]
#[test]
fn killed_anywhere_a_pretraining_goes_on_to_the_same_bits() {
    const NAME: &str = "pretrain::killed_anywhere_a_pretraining_goes_on_to_the_same_bits";
    let more = ["--epochs", "8", "--checkpoint-every", "2", "--resume"];
    if let Some(disk) = disk_of_killed() {
        let words = words(
            disk.parent().expect("a folder"),
            &disk.file_name().expect("a name").to_string_lossy(),
            &more,
        );
        let words = ["ssmprobe".to_owned()].into_iter().chain(words);
        ssmprobe::app::cli::run(words).expect("pre-trained");
        return;
    }
    apart(NAME, || {
        let sandbox = TempDir::new().expect("a folder");
        pictures(sandbox.path());
        done(&mut pretrain(sandbox.path(), "undisturbed", &more));
        let cut = sandbox.path().join("cut");
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let steps = (1..=9).chain(std::iter::repeat_with(|| rng.random_range(8..30)));
        let kills = crate::faults::kill_until_done(NAME, &cut, steps);
        assert!(kills >= 12, "only {kills} kills");
        let undisturbed = sandbox.path().join("undisturbed");
        assert_same(&cut, &undisturbed);
        assert_eq!(log(&cut), log(&undisturbed));
        assert_eq!(leftovers(&cut), Vec::<String>::new(), "who goes on takes them away");
    });
}

/// Ctrl-C saves after a step; the folder alone suffices to resume.
#[cfg(target_os = "linux")]
#[test]
fn a_stopped_pretraining_is_kept_and_goes_on() {
    use crate::interrupts::{interrupt, start, stopped, until};
    use crate::preload::{hold, library, release};
    let sandbox = TempDir::new().expect("a folder");
    let Some(library) = library(sandbox.path()) else { return };
    pictures(sandbox.path());
    let more = ["--epochs", "4", "--objective", "supervised"];
    done(&mut pretrain(sandbox.path(), "undisturbed", &more));
    let cut = sandbox.path().join("cut");
    let training = pretrain(sandbox.path(), "cut", &more);
    let mut child = start(&mut hold(&library, training, "cut/state/checkpoint.safetensors"));
    until("a checkpoint", || cut.join("state/checkpoint.safetensors").exists());
    let mut resume = pretrain(sandbox.path(), "cut", &["--resume"]);
    assert_ends(&mut resume, 1, &["is in use by another training process"]);
    interrupt(&mut child);
    release(&library);
    let stderr = stopped(child);
    let resumes = format!("`ssmprobe pretrain --resume --out {}` resumes it", cut.display());
    assert!(stderr.contains(&resumes) && !cut.join("model.safetensors").exists(), "{stderr}");
    let [data, elsewhere] = ["pictures", "elsewhere"].map(|name| sandbox.path().join(name));
    let mut again = program();
    again.args(["pretrain", "--resume", "--out"]).arg(&cut);
    fs::rename(&data, &elsewhere).expect("moved");
    assert_ends(&mut again, 1, &["the dataset it names cannot be opened", "`--data DIR`"]);
    fs::rename(&elsewhere, &data).expect("moved back");
    done(&mut again);
    assert_same(&cut, &sandbox.path().join("undisturbed"));
    // A finished pre-training stays unchanged.
    let before = tree(&cut);
    let mut again = program();
    done(again.args(["pretrain", "--resume", "--out"]).arg(&cut));
    assert!(before == tree(&cut));
}

#[test]
fn what_cannot_be_pretrained_is_refused_in_words() {
    let sandbox = TempDir::new().expect("a folder");
    let data = pictures(sandbox.path());
    let ends = |out: &str, more: &[&str], code: i32, expected: &str| {
        assert_ends(&mut pretrain(sandbox.path(), out, more), code, &[expected]);
    };
    for (more, expected) in [
        (&["--split", "val"][..], "no such images (18 train, 0 val, 2 test)"),
        (&["--split", "all"], "expected train, val or test"),
        (&["--objective", "contrastive"], "possible values: masked, supervised"),
        (&["--augment", "colour"], "expected none, shift or crop"),
        (&["--patch", "5"], "--patch 5: expected a divisor of --size 16"),
        (&["--patch", "16"], "one patch has no order"),
        (&["--width", "48"], "--width 48: expected a multiple of 32"),
        (&["--layers", "65"], "--layers 65: expected 1 to 64"),
        (&["--epochs", "3", "--warm-up", "3"], "--warm-up 3: expected less than --epochs 3"),
        (&["--mask-ratio", "1"], "a number between 0 and 1"),
        (&["--weight-decay=-1"], "a number from 0 to 1"),
        (&["--rate", "0"], "a number above 0"),
        (&["--device", "abacus"], "abacus"),
    ] {
        // No flag is given twice.
        let mut command = program();
        let base = ["pretrain", "--size=16", "--batch=7"];
        let unless = |flag: &str, word: &'static str| (!more.contains(&flag)).then_some(word);
        command.args(base).args(unless("--layers", "--layers=1")).args(unless("--width", "--width=32"));
        command.args(unless("--device", "--device=cpu")).args(more);
        command.arg("--data").arg(&data).arg("--out").arg(sandbox.path().join("none"));
        assert_ends(&mut command, 2, &[expected]);
        assert!(!sandbox.path().join("none").exists(), "{more:?}");
    }
    // Main memory is known on Linux only.
    if cfg!(target_os = "linux") {
        let mut huge = program();
        huge.args(["pretrain", "--size=1024", "--patch=1", "--layers=64", "--device=cpu", "--data"])
            .arg(&data);
        assert_ends(
            huge.arg("--out").arg(sandbox.path().join("none")),
            2,
            &["; give a larger --patch", "and this machine has "],
        );
        assert!(!sandbox.path().join("none").exists());
    }
    let mut resume = program();
    resume.args(["pretrain", "--resume", "--out"]).arg(sandbox.path().join("none"));
    assert_ends(&mut resume, 2, &["has nothing to resume"]);

    // Its one step overflows, which no loss of a later step can show.
    let mut last = program();
    last.args([
        "pretrain",
        "--size=16",
        "--layers=1",
        "--width=32",
        "--batch=18",
        "--epochs=1",
        "--rate=1e60",
    ]);
    last.args(["--device=cpu", "--data"]).arg(&data).arg("--out").arg(sandbox.path().join("broken"));
    assert_ends(
        &mut last,
        1,
        &["step 1: the weights became infinite or NaN; start again with a lower --rate"],
    );
    assert!(!sandbox.path().join("broken/model.safetensors").exists());

    done(&mut pretrain(sandbox.path(), "done", &["--epochs", "2"]));
    ends("done", &["--epochs", "2"], 2, "--resume");
    let epochs = "`settings.epochs` is 2 in the pre-training started there, not 3";
    ends("done", &["--epochs", "3", "--resume"], 2, epochs);
    ends("done", &["--epochs", "2", "--seed", "1", "--resume"], 2, "`settings.seed` is 0");
    fs::create_dir(sandbox.path().join("other")).expect("a folder");
    fs::write(sandbox.path().join("other/run.json"), "{}").expect("a file");
    ends("other", &["--resume"], 2, "no pretraining.json, so it is not an earlier pre-training");

    let checkpoint = sandbox.path().join("done/state/checkpoint.safetensors");
    let bytes = fs::read(&checkpoint).expect("a checkpoint");
    fs::write(&checkpoint, &bytes[..bytes.len() / 2]).expect("written");
    let torn = "checkpoint.safetensors: it is not a complete file";
    ends("done", &["--epochs", "2", "--resume"], 1, torn);
    fs::write(&checkpoint, &bytes).expect("written");
    // One more picture makes another dataset.
    fs::copy(data.join("train/down/1.png"), data.join("train/down/more.png")).expect("a copy");
    ends("done", &["--epochs", "2", "--resume"], 2, "an image was added");
    for class in entries(&data.join("train")) {
        for file in entries(&class) {
            fs::write(file, "no picture").expect("written");
        }
    }
    ends("torn", &["--epochs", "2"], 1, "step 1: no image can be read");
    for split in ["train", "test"] {
        fs::remove_dir_all(data.join(split).join("down")).expect("removed");
    }
    ends("one", &["--objective", "supervised"], 2, "of 1 class, expected at least two");
}

/// As where locks do not reach from one machine to another.
#[cfg(unix)]
#[test]
fn who_pretrains_on_another_machine_is_watched_which_is_said_and_left_to_it() {
    use ssmprobe::model::io::atomic_file;

    use crate::interrupts::{end, start};
    let sandbox = TempDir::new().expect("a folder");
    pictures(sandbox.path());
    done(&mut pretrain(sandbox.path(), "out", &["--epochs", "1"]));
    let owner = sandbox.path().join("out/state/owner.json");
    let beat = |beats: u64| {
        let text = format!(r#"{{"host": "elsewhere", "boot": "b", "process": 7, "beats": {beats}}}"#);
        atomic_file::write(&owner, text.as_bytes()).expect("a file");
    };
    beat(0);
    let mut child = start(&mut pretrain(sandbox.path(), "out", &["--epochs", "1", "--resume"]));
    let mut beats = 0;
    while child.try_wait().expect("a child").is_none() {
        beats += 1;
        beat(beats);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let (code, stderr) = end(child);
    assert!(
        code == Some(1) && stderr.contains("elsewhere was the last machine to pre-train in "),
        "{code:?} {stderr}"
    );
    assert!(stderr.contains("in use by another training process on elsewhere"), "{stderr}");
}
