//! `ssmprobe dataset`, `extract`, `cache` and `train` from the command line, on drawn scenes and a tiny
//! backbone; a run that is interrupted anywhere resumes to the same bits.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ssmprobe::app::jobs::extract::TokenSettings;
use ssmprobe::app::jobs::train::{TrainSettings, smallest_difference};
use ssmprobe::model::data::scenes;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::train::run::checkpoint::Checkpoint;
use ssmprobe::model::train::run::{ProbeCheckpoint, Run, Selection, Truth};
use tempfile::TempDir;

use crate::close::assert_close;
use crate::pictures::small;
use crate::{report, skip};

/// What most tests of the program import.
pub mod prelude {
    pub use std::fs;
    pub use std::path::{Path, PathBuf};
    pub use std::process::{Command, Stdio};
    pub use std::time::{Duration, Instant};

    pub use serde_json::Value;
    pub use tempfile::TempDir;

    pub use super::{
        Sandbox, assert_ends, assert_says, backbone, done, entries, fixture, json, lines, program, root, run,
        succeeds,
    };
    pub use crate::faults::tree;
    pub(crate) use crate::skip;
}

/// A temporary folder with a dataset of drawn scenes, for caches and runs; its path has a space and a letter beyond ASCII.
pub struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    pub fn new(train: u64, val: u64) -> Self {
        let sandbox = Self { folder: TempDir::with_prefix("é b-").expect("a folder") };
        for index in 0..train + val {
            let scene = scenes::draw(3, index);
            let split = if index < train { "train" } else { "val" };
            let class = scenes::class_name(scene.class);
            let path = sandbox.data().join(split).join(class).join(format!("{index:03}.png"));
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            let side = scenes::SIDE as u32;
            image::save_buffer(&path, &scene.picture.rgb, side, side, image::ColorType::Rgb8)
                .expect("an image");
        }
        sandbox
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("scenes")
    }

    /// The settings of [`Self::train`] into the folder `run`, with the cache `cache`.
    pub fn settings(&self, epochs: usize) -> TrainSettings {
        TrainSettings {
            backbone: backbone().display().to_string(),
            data: Some(self.data()),
            heads: vec!["linear-bn".into(), "sinkhorn".into()],
            head_settings: "state_dim=8 sinkhorn.iterations=5".into(),
            epochs,
            batch: 16,
            seeds: 2,
            device: "cpu".into(),
            out: Some(self.path("run")),
            tokens: TokenSettings { cache: Some(self.path("cache")), ..TokenSettings::default() },
            ..TrainSettings::default()
        }
    }

    /// `ssmprobe VERB` with its tokens in `cache`.
    pub fn verb(&self, verb: &str, cache: &str) -> Command {
        let mut command = program();
        command.arg(verb).arg("--cache").arg(self.path(cache));
        command
    }

    /// [`Self::verb`] on this dataset with the fixture's backbone.
    pub fn on_data(&self, verb: &str, cache: &str) -> Command {
        let mut command = self.verb(verb, cache);
        command.arg("--backbone").arg(backbone()).arg("--data").arg(self.data()).args(["--device", "cpu"]);
        command
    }

    fn extract(&self, cache: &str, more: &[&str]) -> Command {
        let mut command = self.on_data("extract", cache);
        command.args(more);
        command
    }

    /// `ssmprobe train` of two heads, with two seeds unless `more` has `--seeds`; the run is `out`.
    pub fn train(&self, out: &str, epochs: usize, more: &[&str]) -> Command {
        let mut command = self.on_data("train", "cache");
        command.args(["--heads", "linear-bn,sinkhorn", "--config", "state_dim=8", "sinkhorn.iterations=5"]);
        command.args(["--epochs", &epochs.to_string(), "--batch", "16"]);
        if !more.contains(&"--seeds") {
            command.args(["--seeds", "2"]);
        }
        command.arg("--out").arg(self.path(out)).args(more);
        command
    }

    /// `ssmprobe train --resume` of a run.
    pub fn resume(&self, run: &str, more: &[&str]) -> Command {
        let mut command = self.verb("train", "cache");
        command.arg("--resume").arg("--out").arg(self.path(run)).args(more);
        command
    }

    /// `ssmprobe eval` of a run on the processor.
    pub fn eval(&self, run: &str, more: &[&str]) -> Command {
        let mut command = self.verb("eval", "cache");
        command.args(["--device", "cpu", "--run"]).arg(self.path(run)).args(more);
        command
    }
}

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ssmprobe"));
    command.stdin(Stdio::null());
    command
}

/// A command line as a shell runs it that finds the program on its path.
pub fn shell(line: &str) -> Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_ssmprobe")).parent().expect("a folder").to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&others)));
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path.expect("a path")).stdin(Stdio::null());
    command
}

/// Gives a command the Hub that this machine serves at `port`, kept in `home`, whatever the variables of who runs the
/// tests say of the Hub and of proxies.
pub fn with_hub(command: &mut Command, home: &Path, port: u16) {
    for (name, _) in std::env::vars_os() {
        let upper = name.to_string_lossy().to_uppercase();
        if ["HF_", "HUGGING", "TRANSFORMERS_"].iter().any(|start| upper.starts_with(start))
            || upper.ends_with("_PROXY")
        {
            command.env_remove(name);
        }
    }
    command.env("HF_ENDPOINT", format!("http://127.0.0.1:{port}")).env("HF_HOME", home);
}

/// The folder of this repository: `CARGO_MANIFEST_DIR` at run time, if set, otherwise that of the build.
pub fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// A file or folder of the fixture that `inspect` and most other tests read: a backbone, probes and images.
pub fn fixture(path: &str) -> PathBuf {
    root().join("tests/fixtures/inspect").join(path)
}

pub fn backbone() -> PathBuf {
    fixture("backbone")
}

/// The fixture's probe files.
pub fn probes() -> Vec<PathBuf> {
    let paths = entries(&fixture("probes"));
    assert!(paths.len() >= 10);
    paths
}

/// `ssmprobe inspect` on the processor with the fixture's backbone and so many draws for the null bands.
pub fn inspect(draws: usize) -> Command {
    let mut command = program();
    command.args(["inspect", "--device", "cpu", "--null-draws", &draws.to_string()]);
    command.arg("--backbone").arg(backbone());
    command
}

/// Runs a command; its exit code, standard output and standard error.
pub fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

/// Runs a command that must succeed; its standard output and standard error.
#[track_caller]
pub fn succeeds(command: &mut Command) -> (String, String) {
    let (code, stdout, stderr) = run(command);
    assert_eq!(code, 0, "{stderr}");
    (stdout, stderr)
}

/// Runs a command that must succeed; its standard output.
#[track_caller]
pub fn done(command: &mut Command) -> String {
    succeeds(command).0
}

/// Runs a command that must end with this code and say all these words on standard error.
#[track_caller]
pub fn assert_ends(command: &mut Command, code: i32, words: &[&str]) {
    let (found, _, stderr) = run(command);
    let says_all = words.iter().all(|words| stderr.contains(words));
    assert!(found == code && says_all, "{command:?}: {found}: {stderr}");
}

/// Panics unless a text, such as an error, has all these words.
#[track_caller]
pub fn assert_says(text: impl Display, words: &[&str]) {
    let text = text.to_string();
    assert!(words.iter().all(|words| text.contains(words)), "{text}\n  does not say all of {words:?}");
}

pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON document per line")).collect()
}

/// What a JSON file holds.
#[track_caller]
pub fn json<T: DeserializeOwned>(path: impl AsRef<Path>) -> T {
    let path = path.as_ref();
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What lies in a folder, sorted.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// Every file of a folder by name, with its bytes.
pub fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    entries(folder).iter().map(|path| (name(path), fs::read(path).expect("a file"))).collect()
}

/// The cells of a column of a CSV file.
pub fn column(table: &Path, name: &str) -> Vec<String> {
    let mut table = csv::Reader::from_path(table).expect("a table");
    let at = table.headers().expect("a header").iter().position(|header| header == name);
    let at = at.unwrap_or_else(|| panic!("no column {name}"));
    table.records().map(|row| row.expect("a row")[at].to_owned()).collect()
}

/// `results.csv` without its times, and `metrics.jsonl`.
pub fn tables(run: &Path) -> (Vec<Vec<String>>, String) {
    let mut table = csv::Reader::from_path(run.join("results.csv")).expect("a table");
    let header: Vec<String> = table.headers().expect("a header").iter().map(str::to_owned).collect();
    assert_eq!(header, ["head", "seed", "best", "last", "best_epoch", "parameters", "seconds"]);
    let rows = table.records().map(|row| {
        let row = row.expect("a row");
        assert!(row[6].parse::<f64>().expect("seconds") >= 0.0);
        row.iter().take(6).map(str::to_owned).collect()
    });
    (rows.collect(), fs::read_to_string(run.join("metrics.jsonl")).expect("metrics"))
}

/// Asserts that two runs have the same probes, losses and tables.
#[track_caller]
pub fn assert_same_training(run: &Path, expected: &Path) {
    for kind in ["probes", "losses"] {
        let [found, expected] = [run, expected].map(|run| files(&run.join(kind)));
        assert!(!found.is_empty() && found == expected, "{}: other {kind}", run.display());
    }
    assert!(tables(run) == tables(expected), "{}: other tables", run.display());
}

#[test]
fn a_run_holds_what_it_says_and_its_probes_are_read() {
    let sandbox = Sandbox::new(36, 12);
    fs::write(sandbox.data().join("train/disc-dots/broken.png"), "no picture").expect("a file");
    let stdout = done(&mut sandbox.train("run", 2, &["--json"]));
    let events = lines(&stdout);
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().expect("an event")).collect();
    let epochs = ["epoch"; 8];
    assert_eq!(kinds, [&["plan", "unreadable"][..], &epochs, &["end"]].concat());
    let (plan, end) = (&events[0], events.last().expect("an end"));
    assert_eq!((&plan["images"], &plan["steps"]), (&49.into(), &12.into()));
    assert_eq!(plan["smallest_difference"], json!(smallest_difference(12, 2)));
    assert_eq!((&end["finished"], end["results"].as_array().map(Vec::len)), (&true.into(), Some(4)));

    let folder = sandbox.path("run");
    let run_ = Run::open(&folder).expect("a run");
    let manifest = &run_.manifest;
    let data = &manifest.dataset;
    assert_eq!((data.train, data.select, data.test, data.unreadable), (36, 12, 12, 1));
    assert_eq!((data.classes.len(), manifest.seeds.len(), manifest.heads.len()), (12, 2, 2));
    assert!(manifest.warning.as_deref().is_some_and(|warning| warning.contains("flatters")));
    let (rows, metrics) = tables(&folder);
    let names: Vec<[&str; 2]> = rows.iter().map(|row| [row[0].as_str(), row[1].as_str()]).collect();
    assert_eq!(names, [["linear-bn", "0"], ["sinkhorn", "0"], ["linear-bn", "1"], ["sinkhorn", "1"]]);
    assert_eq!(lines(&metrics).len(), 8);
    let (truth, outcomes) = (run_.truth().expect("truth"), run_.outcomes().expect("outcomes"));
    assert!(truth.images[0].starts_with("val"), "{}", truth.images[0]);
    assert_eq!((truth.images.len(), outcomes.len()), (12, 4));
    for (outcome, row) in outcomes.iter().zip(&rows) {
        for (which, cell) in ProbeCheckpoint::ALL.into_iter().zip([&row[2], &row[3]]) {
            let right = outcome.correct(&truth, which).into_iter().filter(|right| *right).count();
            assert_eq!(format!("{:.3}", 100.0 * right as f64 / 12.0), *cell, "{} {which:?}", outcome.head);
            let probe = Probe::load(run_.probe_path(&outcome.head, outcome.seed, which)).expect("a probe");
            assert_eq!((&probe.meta.head, &probe.meta.classes), (&outcome.head, &data.classes));
        }
    }
    // The loss of an epoch is the mean of its steps' losses: 36 images in batches of 16.
    for outcome in &outcomes {
        let losses = run_.losses(outcome.seed).expect("losses").expect("some");
        let (_, points) = losses.heads.iter().find(|(head, _)| *head == outcome.head).expect("the head");
        assert_eq!((losses.parts, points.len()), (3, 6));
        let mean = |steps: &[f32]| {
            steps.iter().zip([16.0, 16.0, 4.0]).map(|(loss, n)| f64::from(*loss) * n).sum::<f64>() / 36.0
        };
        let means: Vec<f64> = points.chunks(3).map(mean).collect();
        let losses: Vec<f64> = outcome.epochs.iter().map(|epoch| epoch.loss).collect();
        assert_close(&outcome.head, losses, means, 1e-5);
    }
    let mut inspect = inspect(4);
    inspect
        .arg("--image")
        .arg(sandbox.data().join("val"))
        .arg("--out")
        .arg(sandbox.path("seen"))
        .arg("--probe");
    done(inspect.args(ProbeCheckpoint::ALL.map(|which| run_.probe_path("sinkhorn", 1, which))));

    // A head trained alone has the same bytes as beside others.
    let mut alone = sandbox.on_data("train", "cache");
    alone.args(["--heads", "sinkhorn", "--config", "state_dim=8", "iterations=5", "--epochs", "2"]);
    done(alone.args(["--batch", "16", "--out"]).arg(sandbox.path("alone")));
    let alone = files(&sandbox.path("alone/probes"));
    assert_eq!(alone.len(), 2);
    for (name, bytes) in alone {
        assert!(bytes == fs::read(folder.join("probes").join(&name)).expect("the same probe"), "{name}");
    }

    // A run is not overwritten, and not resumed with other settings.
    assert_ends(&mut sandbox.train("run", 2, &[]), 2, &["--resume"]);
    assert_ends(&mut sandbox.train("run", 3, &["--resume"]), 2, &["`protocol.epochs`: 2 there, 3 now"]);
    // Nor without its dataset, which has moved.
    let elsewhere = sandbox.path("elsewhere");
    fs::rename(sandbox.data(), &elsewhere).expect("moved");
    let words = ["the dataset it names cannot be opened", "`--data DIR`", "no such file"];
    assert_ends(&mut sandbox.resume("run", &[]), 1, &words);
    fs::rename(&elsewhere, sandbox.data()).expect("moved back");
    let before = files(&folder.join("probes"));
    done(&mut sandbox.train("run", 2, &["--resume"]));
    assert!(before == files(&folder.join("probes")));
    // One of single images, which a head with batch normalisation may not begin any more, goes on.
    let (manifest, text) =
        (folder.join("run.json"), fs::read_to_string(folder.join("run.json")).expect("text"));
    assert!(text.contains("\"batch\": 16"));
    fs::write(manifest, text.replace("\"batch\": 16", "\"batch\": 1")).expect("written");
    done(&mut sandbox.resume("run", &[]));
}

#[test]
fn a_damaged_checkpoint_is_an_error_that_names_it() {
    let folder = TempDir::new().expect("a folder");
    let manifest = report::manifest("tiny", "birds", &["gap"], 1, Selection::Test);
    let run = Run::create(&folder.path().join("run"), manifest, &Truth::default()).expect("a run");
    assert_eq!(run.checkpoint().expect("none yet"), Checkpoint::default());
    let path = run.folder().join("state/checkpoint.safetensors");
    let whole = Checkpoint { seeds_done: 1, ..Checkpoint::default() };
    run.save(&whole).expect("saved");
    assert_eq!(run.checkpoint().expect("a checkpoint"), whole);
    let bytes = fs::read(&path).expect("a file");
    for damaged in [&bytes[..bytes.len() - 1], b"", b"no checkpoint"] {
        fs::write(&path, damaged).expect("written");
        assert_says(run.checkpoint().expect_err("it would begin anew"), &["checkpoint.safetensors"]);
    }
}

/// Ctrl-C saves between two steps; the folder alone suffices to resume.
#[cfg(target_os = "linux")]
#[test]
fn a_stopped_run_keeps_its_probes_and_goes_on() {
    use crate::interrupts::{end, interrupt, start, until};
    use crate::preload::{hold, library, release};
    let sandbox = Sandbox::new(36, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    done(&mut sandbox.train("whole", 4, &[]));
    let cut = sandbox.train("cut", 4, &[]);
    let mut child = start(&mut hold(&library, cut, "cut/state/checkpoint.safetensors"));
    until("a checkpoint", || sandbox.path("cut/state/checkpoint.safetensors").exists());
    let mut resume = sandbox.train("cut", 4, &["--resume"]);
    assert_ends(&mut resume, 1, &["cut is in use by another training process"]);
    interrupt(&mut child);
    release(&library);
    assert_eq!(end(child).0, Some(130));
    let kept = files(&sandbox.path("cut/probes"));
    assert_eq!(kept.len(), 4, "both probes of both heads of the first seed");
    assert_resumes_to_the_same(&sandbox);
}

/// Resumes the run `cut` and asserts that it ends with the same bits as `whole`.
#[cfg(target_os = "linux")]
pub fn assert_resumes_to_the_same(sandbox: &Sandbox) {
    done(&mut sandbox.resume("cut", &[]));
    assert_same_training(&sandbox.path("whole"), &sandbox.path("cut"));
}

#[test]
fn an_extraction_goes_on_after_its_last_shard_and_stays_within_its_limit() {
    let sandbox = Sandbox::new(120, 24);
    let small = ["--cache-limit", "0.0001"];
    assert_ends(&mut sandbox.extract("small", &small), 1, &["--cache-limit", "144 images"]);
    assert!(!sandbox.path("small").exists());
    let plan = lines(&done(&mut sandbox.extract("small", &["--plan", "--json"])));
    assert_eq!((&plan[0]["images"], &plan[0]["bytes"]), (&144.into(), &(144 * 17 * 24 * 2).into()));

    let whole = &lines(&done(&mut sandbox.extract("whole", &["--json"])))[0];
    assert_eq!((&whole["done"], &whole["unreadable"]), (&144.into(), &0.into()));
    let name = Path::new(whole["cache"].as_str().expect("a path")).file_name().expect("a name").to_owned();
    let (whole, cut) = (sandbox.path("whole").join(&name), sandbox.path("cut").join(&name));
    // As after a kill: the manifest and two whole shards.
    fs::create_dir_all(&cut).expect("a folder");
    let shards = ["tokens-000000", "tokens-000001"];
    let shards = shards.iter().flat_map(|shard| [format!("{shard}.safetensors"), format!("{shard}.json")]);
    for file in shards.chain(["manifest.json".to_owned()]) {
        fs::copy(whole.join(&file), cut.join(&file)).expect("a copy");
    }
    let again = &lines(&done(&mut sandbox.extract("cut", &["--plan", "--json"])))[0];
    assert_eq!((&again["done"], &again["bytes_missing"]), (&128.into(), &(16 * 17 * 24 * 2).into()));
    done(&mut sandbox.extract("cut", &[]));
    assert!(files(&whole) == files(&cut));

    let list = |cache: &str| -> Value {
        let mut command = program();
        command.args(["cache", "list", "--json", "--cache"]).arg(sandbox.path(cache));
        serde_json::from_str(&done(&mut command)).expect("JSON")
    };
    let listed = list("cut");
    assert_eq!(
        (&listed["caches"][0]["about"]["done"], listed["caches"].as_array().map(Vec::len)),
        (&144.into(), Some(1))
    );
    assert_eq!(
        listed["caches"][0]["about"]["names"],
        serde_json::json!({"dataset": "scenes", "backbone": "backbone"})
    );
    assert_says(
        done(program().args(["cache", "list", "--cache"]).arg(sandbox.path("cut"))),
        &["  scenes through backbone, layer last, 144 of 144 images, ", ", written "],
    );
    fs::write(cut.join("manifest.json"), "{}").expect("a file");
    let shown = done(program().args(["cache", "list", "--cache"]).arg(sandbox.path("cut")));
    assert!(shown.contains("  without a manifest that this version can read, written "), "{shown}");
    fs::write(sandbox.path("cut").join("mine.txt"), "kept").expect("a file");
    let stored = sandbox.path("cut").join("a.evaluation");
    fs::write(&stored, "answers").expect("a file");
    let mut clear = program();
    done(clear.args(["cache", "clear", "--all", "--cache"]).arg(sandbox.path("cut")));
    assert!(!cut.exists() && !stored.exists() && sandbox.path("cut").join("mine.txt").exists());
    // Each cache that cannot be removed is named, not the first alone.
    let [one, other] = ["a", "b"].map(|digit| digit.repeat(24));
    for name in [&one, &other] {
        fs::create_dir(sandbox.path("cut").join(name)).expect("a folder");
        fs::write(sandbox.path("cut").join(name).join("mine.txt"), "kept").expect("a file");
    }
    let mut clear = program();
    assert_ends(
        clear.args(["cache", "clear", "--all", "--cache"]).arg(sandbox.path("cut")),
        1,
        &[&one, &other],
    );
}

#[test]
fn caches_are_removed_by_names_of_which_each_fits_one() {
    let folder = TempDir::new().expect("a folder");
    let names = ["aa", "ab", "b0"].map(|start| folder.path().join(format!("{start:0<24}")));
    names.iter().for_each(|name| fs::create_dir(name).expect("a folder"));
    let shown = done(program().args(["cache", "list", "--cache"]).arg(folder.path()));
    assert_eq!(shown.matches("  empty, or not readable by this user").count(), names.len(), "{shown}");
    let clear = |names: &[&str]| {
        let mut clear = program();
        clear.args(["cache", "clear", "--cache"]).arg(folder.path()).args(names);
        clear
    };
    let refused =
        [(&["a"][..], "2 caches begin with a; give a longer"), (&["ab", "c"], "no cache is named c;")];
    for (asked, why) in refused {
        assert_ends(&mut clear(asked), 2, &[why]);
        assert_eq!(entries(folder.path()), names, "{asked:?}");
    }
    assert_ends(&mut clear(&["ab", "b"]), 0, &["2 caches removed"]);
    assert_eq!(entries(folder.path()), names[..1]);
}

/// A disk that has room for one shard and no further file, in a mount of this test's own.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_stops_with_a_message_and_goes_on_once_there_is_room() {
    let sandbox = Sandbox::new(120, 24);
    let disk = sandbox.path("disk");
    fs::create_dir(&disk).expect("a folder");
    let inner = sandbox.extract("disk", &[]);
    // Five inodes: the folder, the cache's, its manifest, a shard and its record; then more inodes, then a listing.
    let script = r#"disk=$1; shift; mount -t tmpfs -o size=16m,nr_inodes=5 none "$disk" || exit 77
        "$@" || { echo "rc $?" >&2; ls "$disk"/* >&2; mount -o remount,nr_inodes=100 "$disk" && "$@"; }
        ls "$disk"/*"#;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(&disk);
    command.arg(inner.get_program()).args(inner.get_args()).env("LC_ALL", "C");
    let Ok(Output { status, stdout, stderr }) = command.output() else {
        return skip::because("there is no unshare");
    };
    let (listed, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if status.code() == Some(77) || stderr.starts_with("unshare: ") {
        return skip::because(format!("no mount of one's own is allowed here ({})", stderr.trim()));
    }
    assert!(status.success(), "{stderr}");
    let expected =
        ["tokens-000001.safetensors: cannot write it", "can be resumed", "No space left on device", "rc 1\n"];
    assert!(expected.iter().all(|part| stderr.contains(part)), "{stderr}");
    let first = stderr.split("rc 1").nth(1).unwrap_or_default();
    assert!(
        first.contains("tokens-000000")
            && !first.split("tokens: ").next().unwrap_or_default().contains("tokens-000001"),
        "{stderr}"
    );
    assert!(stderr.contains("64 already cached") && listed.contains("tokens-000002"), "{stderr} {listed}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_no_file_can_record_is_refused_before_any_work() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new(6, 3);
    let odd = sandbox.path("").join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    fs::rename(sandbox.data(), &odd).expect("renamed");
    let mut train = sandbox.verb("train", "cache");
    train.args(["--heads", "gap", "--device", "cpu", "--out"]).arg(sandbox.path("run"));
    train.arg("--backbone").arg(backbone()).arg("--data").arg(&odd);
    assert_ends(&mut train, 2, &["is not valid Unicode"]);
    assert!(!sandbox.path("run").exists() && !sandbox.path("cache").exists());
    // Elsewhere such a path is shown as far as it can be.
    fs::rename(&odd, sandbox.data()).expect("renamed");
    let (cache, run) = (odd.join("tokens"), odd.join("run"));
    let mut extract = program();
    extract.args(["extract", "--json", "--device", "cpu", "--backbone"]).arg(backbone());
    done(extract.arg("--data").arg(sandbox.data()).arg("--cache").arg(&cache));
    done(program().args(["cache", "list", "--json", "--cache"]).arg(&cache));
    let mut train = sandbox.on_data("train", "cache");
    done(train.args(["--heads", "gap", "--epochs", "1", "--json", "--out"]).arg(&run));
    let mut eval = sandbox.verb("eval", "cache");
    done(eval.args(["--device", "cpu", "--json", "--run"]).arg(&run));
}

/// A file size limit plays the full disk.
#[cfg(unix)]
#[test]
fn a_disk_that_refuses_stops_with_a_message_and_a_usable_cache() {
    let sandbox = Sandbox::new(48, 12);
    let inner = sandbox.extract("cache", &[]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 20; exec \"$0\" \"$@\""]);
    command.arg(inner.get_program()).args(inner.get_args());
    assert_ends(&mut command, 1, &["tokens-000000", "can be resumed"]);
    let cache = files(&entries(&sandbox.path("cache"))[0]);
    assert_eq!(cache.keys().collect::<Vec<_>>(), ["manifest.json"], "nothing half-written is left");
    done(&mut sandbox.extract("cache", &[]));
    assert_eq!(lines(&done(&mut sandbox.extract("cache", &["--plan", "--json"])))[0]["done"], 60);
}

#[test]
fn the_best_epoch_is_picked_on_a_part_of_train_and_broken_heads_stop() {
    let sandbox = Sandbox::new(36, 12);
    done(&mut sandbox.train("honest", 2, &["--select-split", "0.34"]));
    let honest = Run::open(&sandbox.path("honest")).expect("a run").manifest;
    assert_eq!((honest.dataset.train, honest.dataset.select, honest.dataset.test), (24, 12, 12));
    assert_eq!(honest.warning, None);
    // So large a rate gives one head a loss that is not finite at once; the other continues alone.
    let stopped = "sinkhorn with seed 1 stopped: the loss became";
    let few = "note: each head is trained for 9 steps only";
    assert_ends(&mut sandbox.train("broken", 3, &["--rate", "1e30"]), 0, &[stopped, few]);
    let outcomes = Run::open(&sandbox.path("broken")).and_then(|run| run.outcomes()).expect("outcomes");
    let epochs: Vec<usize> = outcomes.iter().map(|outcome| outcome.epochs.len()).collect();
    assert_eq!(epochs, [3, 0, 3, 0]);
    let mut alone = sandbox.on_data("train", "cache");
    alone.arg("--out").arg(sandbox.path("lost"));
    assert_ends(alone.args(["--heads", "sinkhorn", "--rate", "1e30"]), 1, &["sinkhorn with seed 0 stopped"]);
    assert_ends(&mut sandbox.train("wrong", 2, &["--config", "colour=red"]), 2, &["colour"]);
    assert!(!sandbox.path("wrong").exists());
}

/// A file in place of a folder is refused before a backbone runs, also for root, whom permissions do not stop.
#[test]
fn a_folder_that_cannot_be_written_is_refused_before_tokens_are_extracted() {
    let sandbox = Sandbox::new(24, 12);
    let file = sandbox.path("file");
    fs::write(&file, "").expect("a file");
    for (out, more) in [("file", &[][..]), ("file/run", &[]), ("file", &["--resume"])] {
        let named = format!("--out {}", sandbox.path(out).display());
        assert_ends(&mut sandbox.train(out, 1, more), 2, &[&named, "file is a file, expected a folder"]);
    }
    assert!(!sandbox.path("cache").exists(), "tokens were taken");
    done(&mut sandbox.train("run", 1, &["--seeds", "1"]));
    fs::write(sandbox.path("run/evaluation"), "").expect("a file");
    let name = file.to_str().expect("text");
    for (more, flag) in [(["--evaluation", name], "--evaluation"), (["--part", "1/2"], "--run")] {
        let mut eval = sandbox.verb("eval", "other");
        eval.args(["--device", "cpu", "--run"]).arg(sandbox.path("run")).args(more);
        assert_ends(&mut eval, 2, &[flag, "expected a folder"]);
    }
    assert!(!sandbox.path("other").exists(), "tokens were taken");
}

#[test]
fn a_file_where_a_folder_is_expected_is_called_one() {
    let folder = TempDir::new().expect("a folder");
    let place = |path: PathBuf| path.display().to_string();
    let [run_, scenes] = ["docs/runs/scenes-mae", "assets/demo/scenes"].map(|part| place(root().join(part)));
    let file = place(folder.path().join("file"));
    let [backbone, probe, photo] = ["backbone", "probes/gap.safetensors", "images/one.png"]
        .map(|part| place(root().join("tests/fixtures/inspect").join(part)));
    fs::write(&file, "").expect("a file");
    let inspect =
        ["inspect", "--device", "cpu", "--backbone", &backbone, "--probe", &probe, "--image", &photo];
    for words in [
        &["report", &file][..],
        &["eval", "--run", &file],
        &["jobs", &file],
        &["scenes", "--out", &file],
        &["report", &run_, "--table", "cost", "--out", &file],
        &["cache", "list", "--cache", &file],
        &["extract", "--plan", "--backbone", &backbone, "--data", &scenes, "--cache", &file],
        &["demo", "build", "--out", &file],
        &["figures", "--scan", "raster", "--out", &format!("{file}/scan.svg")],
        &["pretrain", "--objective", "masked", "--data", &run_, "--out", &file],
        &[&inspect[..], &["--out", &file]].concat()[..],
    ] {
        let (found, _, stderr) = run(program().args(words));
        let advised = ["resumed", "check the disk", "not empty", "holds no", "has no", "is not a run"]
            .iter()
            .any(|word| stderr.contains(word));
        assert!(
            found == 2 && stderr.contains("is a file, expected a folder") && !advised,
            "{words:?}: {stderr}"
        );
    }
    assert_ends(program().args(["cache", "clear"]), 2, &["--all"]);
    assert_ends(program().args(["cache", "clear", ""]), 2, &["[NAME]"]);
}

#[test]
fn a_folder_that_is_no_backbone_is_refused_as_other_wrong_words_are() {
    let folder = TempDir::new().expect("a folder");
    let place = |path: PathBuf| path.display().to_string();
    let [none, out] = [folder.path().to_owned(), folder.path().join("out")].map(place);
    let [scenes, probe] = ["assets/demo/scenes", "tests/fixtures/inspect/probes/gap.safetensors"]
        .map(|part| place(root().join(part)));
    for (verb, more) in [
        ("inspect", &["--probe", &probe, "--image", &scenes, "--out", &out][..]),
        ("extract", &["--plan", "--data", &scenes]),
        ("eval", &["--probe", &probe, "--data", &scenes]),
    ] {
        let mut command = program();
        command.args([verb, "--device", "cpu", "--backbone", &none]).args(more);
        assert_ends(&mut command, 2, &["a backbone folder needs the config.json"]);
    }
}

#[test]
fn what_the_window_cannot_open_or_show_is_refused_before_it_opens() {
    for (words, why) in [
        (&["nope"][..], "nope: no such file or folder"),
        (&["hf:a/b/c.safetensors", "nope.ssmprobe"], "nope.ssmprobe: no such file or folder"),
        (&["--data", "nope"], "--data nope: no such file or folder"),
        (&["--backbone", "./nope"], "folder ./nope does not exist"),
        (&["--backbone", "nope"], "is neither a folder nor a Hugging Face Hub id"),
        (&["--pane", "bogus"], "no such pane; expected one of photo, "),
        (&["--pane", "library"], ", compare, gallery, tokens, stability, "),
    ] {
        let mut open = program();
        open.arg("open").args(words).env_remove("DISPLAY").env("WAYLAND_DISPLAY", "");
        assert_ends(&mut open, 2, &[why]);
    }
}

#[test]
fn a_dataset_is_described() {
    let sandbox = Sandbox::new(24, 12);
    let image = |split: &str, name: &str| sandbox.data().join(split).join("disc-dots").join(name);
    fs::write(image("train", "broken.png"), "no picture").expect("a file");
    let twins = entries(&sandbox.data().join("train/disc-dots"));
    fs::copy(&twins[0], image("val", "twin.png")).expect("a copy");
    let mut command = program();
    let found: Value =
        serde_json::from_str(&done(command.args(["dataset", "--json"]).arg(sandbox.data()))).expect("JSON");
    assert_eq!(found["splits"], serde_json::json!({"train": 25, "val": 13, "test": 0}));
    assert_eq!((&found["layout"], found["classes"].as_array().map(Vec::len)), (&"folder".into(), Some(12)));
    let of = |key: &str| found[key].as_array().cloned().expect("a list");
    assert!(of("unreadable")[0]["image"].as_str().is_some_and(|image| image.ends_with("broken.png")));
    assert!(of("in_train_and_held_out")[0][1].as_str().is_some_and(|image| image.ends_with("twin.png")));
    assert_eq!((of("unreadable").len(), of("in_train_and_held_out").len()), (1, 1));
    let mut command = program();
    let text = done(command.arg("dataset").arg(sandbox.data()));
    assert!(text.contains("12 classes, 25 train, 13 val, 0 test") && text.contains("1 unreadable"), "{text}");
    let list = done(program().args(["dataset", "--list"]).arg(sandbox.data()));
    let rows: Vec<&str> = list.lines().collect();
    assert_eq!((rows.len(), rows[0]), (1 + 25 + 13, "image,class,split"));
    assert!(rows[1].starts_with("train/") && rows[38].ends_with(",val"), "{list}");
    assert!(rows.contains(&"val/disc-dots/twin.png,disc-dots,val"), "{list}");
    for number in 0..20 {
        fs::copy(&twins[0], image("val", &format!("twin{number}.png"))).expect("a copy");
    }
    let text = done(program().arg("dataset").arg(sandbox.data()));
    assert!(text.contains("  and 1 more pair (`--json` lists all)"), "{text}");
}

#[test]
fn images_that_are_trained_on_and_tested_on_are_warned_of() {
    let sandbox = Sandbox::new(24, 12);
    let one = entries(&entries(&sandbox.data().join("train"))[0])[0].clone();
    fs::copy(&one, entries(&sandbox.data().join("val"))[0].join("twin.png")).expect("a copy");
    let text = done(program().arg("dataset").arg(sandbox.data()));
    assert!(text.contains("1 in both") && text.contains("remove one image of each pair"), "{text}");
    let expected = "warning: 1 image is in both the training and the held-out part, which makes accuracies too high; \
                    the first: train/";
    // No tokens cached, tokens extracted now, and tokens cached before.
    for (out, more) in [("first", &["--recompute"][..]), ("second", &[]), ("third", &["--seeds", "1"])] {
        assert_ends(&mut sandbox.train(out, 1, more), 0, &[expected, "twin.png; remove one"]);
    }
}

#[test]
fn what_the_command_line_names_and_is_not_there_is_wrong_usage_whatever_the_verb() {
    let sandbox = Sandbox::new(24, 12);
    fs::write(sandbox.path("survey"), small::evaluation().to_json().expect("JSON")).expect("a file");
    fs::write(sandbox.path("causal"), serde_json::to_vec(&small::removal()).expect("JSON")).expect("a file");
    let gap = root().join("assets/demo/probes/mae/gap.safetensors");
    let (mae, run_of_scenes) = (root().join("assets/demo/mae"), root().join("docs/runs/scenes-mae"));
    let train = "train --backbone MAE --heads gap --cache cache --device cpu --out run --data";
    let extract = "extract --backbone MAE --cache cache --device cpu --data";
    let eval = "eval --backbone MAE --cache cache --device cpu --data";
    let inspect = "inspect --backbone MAE --image scenes --device cpu --out out --probe";
    for (verb, rest, expected) in [
        ("figures --figure photo --out a.svg", "--trace none", "cannot read none"),
        ("figures --out a.svg", "--causal none", "cannot read none"),
        ("figures --out a.svg --causal causal", "--mode foo", "--mode foo: the file has"),
        (
            "figures --out a.svg --causal causal",
            "--quantity foo",
            "'--quantity <NAME>': expected one of logit",
        ),
        ("figures --out a.svg --causal causal", "--ranking foo", "--ranking foo: not found"),
        ("figures --out a.svg --evaluation survey", "--figure foo", "--figure foo: an evaluation has no"),
        ("figures --out a.svg --evaluation survey --figure scatter", "--measure foo", "--measure foo: "),
        ("figures --out a.svg --evaluation survey --figure scatter", "--against foo", "--against foo: "),
        ("figures --scan snake", "--out a.bmp", "use .svg"),
        ("similar --image a", "--evaluation none", "cannot read none"),
        ("similar --image a", "--evaluation scenes", "it is a folder or a pipe"),
        ("similar --evaluation survey", "--image none", "--image none: survey has no such image"),
        ("dataset", "none", "none: cannot be read: no such file or folder"),
        (extract, "none", "none: cannot be read"),
        (extract, "scenes --size 13", "does not divide into patches"),
        (extract, "scenes --layers 1,1", "layer 1 is requested twice"),
        (train, "none", "none: cannot be read"),
        (train, "MAE", "not a dataset of a known layout"),
        (train, "scenes --size 13", "does not divide into patches"),
        (train, "scenes --layers 1,1", "--layers: 1 is given twice"),
        (train, "scenes --layers 1,9 --select-split 0.3", "layer 9 requested"),
        (train, "scenes --rates 0.1,0.2", "--select-split 0.1"),
        (train, "scenes --protocol mae-linprobe --epochs 1", "warms up for 10 epochs"),
        (
            "train --backbone MAE --heads linear-bn --cache cache --device cpu --out run --data",
            "scenes --batch 1",
            "--batch 1: linear-bn normalises its features over the images of a step",
        ),
        (
            "train --backbone MAE --heads gap --cache cache --device cpu --out scenes --data",
            "scenes",
            "--out scenes: the run cannot be written there: it is the folder of the dataset",
        ),
        (eval, "none --probe GAP", "none: cannot be read"),
        (eval, "scenes --probe GAP --split test", "has no test images (24 train, 12 val, 0 test)"),
        (eval, "scenes --probe none", "0 of 1 probe can be evaluated"),
        (eval, "scenes --probe GAP --masks none", "none: is not a folder"),
        (inspect, "hf:foo", "is not a file on the Hugging Face Hub"),
        (extract, "scenes --submit local --tasks 2 --gpus 1", "only Slurm uses --partition"),
        (extract, "scenes --submit local --tasks 2 --part 1/2", "a --part or --join of its own"),
        (extract, "scenes --submit local --tasks 2 --plan", "leave out --on and --plan"),
        (extract, "scenes --submit local --tasks 2 --on local", "leave out --on and --plan"),
        (inspect, "none", "--probe none: no such file or folder"),
        (inspect, "GAP --masks none", "none: is not a folder"),
        (inspect, "GAP --size 13", "does not divide into patches"),
        (inspect, "GAP --arithmetic float16", "does not support float16"),
        ("import --as mae", "none out", "none: no such file or folder"),
        ("import --as timm", "org/name out", "`hf download org/name --local-dir DIR`"),
        ("import --as dinov2-linear --backbone ./none", "causal out", "folder ./none does not exist"),
        ("import --as dinov2-linear --backbone MAE", "GAP out", "already a probe, with the head `gap`"),
        ("report RUN --html a.html", "--notes none", "--notes none: no such file"),
        ("report RUN", "--html scenes", "--html scenes: is a folder"),
        ("report RUN", "--against none", "no run has such a head; choose one of "),
    ] {
        let mut command = program();
        for word in verb.split(' ').chain(rest.split(' ')) {
            match word {
                "MAE" => command.arg(&mae),
                "GAP" => command.arg(&gap),
                "RUN" => command.arg(&run_of_scenes),
                word => command.arg(word),
            };
        }
        assert_ends(command.current_dir(sandbox.path("")), 2, &[expected]);
    }
    for made in ["a.svg", "a.bmp", "a.html", "cache", "run", "out"] {
        assert!(!sandbox.path(made).exists(), "{made} is there");
    }
}

#[test]
fn a_training_on_one_class_is_warned_of() {
    let sandbox = Sandbox::new(24, 12);
    for split in ["train", "val"] {
        for folder in entries(&sandbox.data().join(split)) {
            if !folder.ends_with(scenes::class_name(0)) {
                fs::remove_dir_all(folder).expect("a folder");
            }
        }
    }
    let (_, stderr) = succeeds(&mut sandbox.train("run", 1, &["--seeds", "1"]));
    assert_says(stderr, &["note: all images are of 1 class: every probe trained on it is right"]);
}

#[test]
fn a_training_says_what_to_do_with_its_run_and_a_part_of_one_does_not() {
    let sandbox = Sandbox::new(24, 12);
    for (out, part, says) in [("whole", &[][..], true), ("parts", &["--part", "1/2"], false)] {
        let (_, stderr) = succeeds(&mut sandbox.train(out, 1, part));
        assert!(stderr.contains("the run is in "), "{stderr}");
        let next = ["`ssmprobe report ", "`ssmprobe open "].map(|next| stderr.contains(next));
        assert_eq!(next, [says; 2], "{stderr}");
    }
}
