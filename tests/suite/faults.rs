//! Fault injection: every step of writing a file fails in turn. The old or the new file is there, no temporary file is
//! left, the message says where and what to do, and a second run ends with the same bits.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use safetensors::SafeTensors;
use ssmprobe::app::cli;
use ssmprobe::app::jobs::extract::{self, ExtractOptions, Plan, TokenSettings};
use ssmprobe::app::jobs::run_metrics::{self, RunMetrics};
use ssmprobe::app::jobs::train::{self, Event, TrainPlan, TrainSettings, TrainSpec};
use ssmprobe::app::state::settings::{Settings, ThemeChoice};
use ssmprobe::app::state::workspace::Workspace;
use ssmprobe::model::io::atomic_file;
use ssmprobe::model::io::failpoint::{self, Failure};
use ssmprobe::model::io::temporary;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::train::TrainCursor;
use ssmprobe::model::train::run::Run;
use ssmprobe::model::{data, device};

use crate::{hub, run};

/// Faults by error number, and words of the advice for each.
const FAULTS: [(Failure, &str); 3] = [
    (Failure::Lasting(28), "free some space"), // ENOSPC
    (Failure::Once(5), "check the disk"),      // EIO
    (Failure::Once(13), "make it writable"),   // EACCES
];

/// Environment variable with the test's name in a child process that runs one test alone.
const APART: &str = "SSMPROBE_SUITE_APART";

/// Runs the test of this name in a child process, with `env`: failpoints set there affect no other test.
pub fn child(test: &str, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).env(APART, test).stdin(Stdio::null());
    // A disk in memory, where there is one: thousands of files are synced to it.
    if Path::new("/dev/shm").is_dir() {
        command.env("TMPDIR", "/dev/shm");
    }
    command.envs(env.iter().copied()).output().expect("it starts")
}

/// Whether this process is the child that runs this test alone.
pub fn is_child(test: &str) -> bool {
    std::env::var(APART).is_ok_and(|alone| alone == test)
}

/// Environment variables of a child process that is to be killed: its folder, and the file operation at which.
const DISK: &str = "SSMPROBE_SUITE_DISK";
const AT: &str = "SSMPROBE_SUITE_AT";

/// Runs `test` again in a child process that works in `disk` and is killed at file operation `at`.
pub fn killed_child(test: &str, disk: &Path, at: usize) -> Output {
    child(test, &[(DISK, &disk.display().to_string()), (AT, &at.to_string())])
}

/// In the process of [`killed_child`], its folder, after the kill is prepared; `None` in others.
pub fn disk_of_killed() -> Option<PathBuf> {
    let (disk, at) = (std::env::var(DISK).ok()?, std::env::var(AT).ok()?);
    failpoint::files(at.parse().expect("a number"), Failure::Kill);
    Some(disk.into())
}

/// Kills `test` in `disk` at these file operations, one process after the other, until one ends by itself; the number of
/// kills. Files are whole after each.
#[cfg(unix)]
pub fn kill_until_done(test: &str, disk: &Path, steps: impl Iterator<Item = usize>) -> usize {
    use std::os::unix::process::ExitStatusExt;
    for (kills, at) in steps.take(80).enumerate() {
        let Output { status, stderr, .. } = killed_child(test, disk, at);
        assert_complete(disk, &format!("killed at step {at}"));
        if status.success() {
            return kills;
        }
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.signal(), Some(6), "at step {at} it ended by itself: {stderr}");
    }
    panic!("it comes to no end")
}

/// Runs `work` in a child process, by running `test` again there.
pub fn apart(test: &str, work: impl FnOnce()) {
    if is_child(test) {
        return work();
    }
    let Output { status, stdout, stderr } = child(test, &[]);
    let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success() && said[0].contains("1 passed"), "{status}\n{}{}", said[0], said[1]);
}

/// Stride over the many steps at which something may stop or fail: `some`, or 1 with `SSMPROBE_EXHAUSTIVE=1`.
pub fn stride(some: usize) -> usize {
    if std::env::var_os("SSMPROBE_EXHAUSTIVE").is_some_and(|all| all == "1") { 1 } else { some }
}

/// The bytes of every file below a folder, by relative path with slashes.
pub fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            let parts = path.strip_prefix(folder).expect("below it").iter().map(OsStr::to_string_lossy);
            let name = parts.collect::<Vec<_>>().join("/");
            match fs::read(&path) {
                _ if path.is_dir() => folders.push(path),
                Err(error) if error.kind() == ErrorKind::NotFound => {} // renamed meanwhile, by a process that writes
                bytes => drop(files.insert(name, bytes.expect("a file"))),
            }
        }
    }
    files
}

/// Whether a name is that of a temporary file, which has not been renamed to its target.
pub fn is_temporary(name: &str) -> bool {
    name.contains(".ssmprobe-")
}

/// The temporary files below a folder.
pub fn leftovers(folder: &Path) -> Vec<String> {
    tree(folder).into_keys().filter(|name| is_temporary(name)).collect()
}

/// Whether a file of a run or a cache is complete and parses, by its extension.
pub fn whole(name: &str, bytes: &[u8]) -> bool {
    let lines = || bytes.ends_with(b"\n") || bytes.is_empty();
    match Path::new(name).extension().and_then(|e| e.to_str()).unwrap_or_default() {
        "safetensors" => SafeTensors::deserialize(bytes).is_ok(),
        "json" => serde_json::from_slice::<serde_json::Value>(bytes).is_ok(),
        "jsonl" => lines() && bytes.split(|b| *b == b'\n').all(|l| l.is_empty() || whole("x.json", l)),
        "csv" => lines() && csv::Reader::from_reader(bytes).records().all(|record| record.is_ok()),
        _ => bytes.is_empty(), // locks
    }
}

/// Asserts that every file of a folder is whole; temporary ones are none of them.
pub fn assert_complete(folder: &Path, when: &str) {
    for (name, bytes) in tree(folder).iter().filter(|(name, _)| !is_temporary(name)) {
        assert!(whole(name, bytes), "{when}: {name} is torn");
    }
}

/// Work that writes files below a folder.
struct Trial<'a> {
    folder: &'a Path,
    work: &'a dyn Fn() -> anyhow::Result<()>,
    /// Whether a file may hold these bytes after a fault, though it does neither before the work nor after it.
    between: &'a dyn Fn(&str, &[u8]) -> bool,
    /// The part of a file's bytes that every run of the work reproduces.
    reproducible: &'a dyn Fn(&str, Vec<u8>) -> Vec<u8>,
}

impl Trial<'_> {
    fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        let reproducible = |(name, bytes): (String, Vec<u8>)| {
            let bytes = (self.reproducible)(&name, bytes);
            (name, bytes)
        };
        tree(self.folder).into_iter().map(reproducible).collect()
    }

    /// Lets every `stride`-th step fail with each of `faults` and checks the files after it; how many steps there are.
    fn fail_steps(&self, faults: &[(Failure, &str)], stride: usize) -> usize {
        let Self { folder, work, between, .. } = self;
        let (raw, old) = (tree(folder), self.tree());
        work().expect("undisturbed");
        let new = self.tree();
        assert_ne!(old, new, "nothing is written");
        let mut steps = 0;
        for (fault, advice) in faults {
            for at in (1..).step_by(stride) {
                fs::remove_dir_all(folder).expect("removed");
                fs::create_dir_all(folder).expect("a folder");
                for (name, bytes) in &raw {
                    let path = folder.join(name);
                    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                    fs::write(path, bytes).expect("written");
                }
                failpoint::files(at, *fault);
                let result = work();
                let fired = failpoint::none();
                let here = format!("{fault:?} at step {at}");
                let now = self.tree();
                match result {
                    // A fault that the work survives, as in a file that only spares a question, may add no file.
                    Ok(()) => {
                        assert_eq!(now.keys().filter(|name| !new.contains_key(*name)).count(), 0, "{here}");
                    }
                    Err(error) => {
                        assert!(fired, "{here}: {error:#}");
                        let said = format!("{error:#}");
                        let place = folder.display().to_string();
                        assert!(said.contains(&place) && said.contains(advice), "{here}: {said}");
                    }
                }
                assert_eq!(leftovers(folder), Vec::<String>::new(), "{here}");
                for name in old.keys() {
                    assert!(now.contains_key(name), "{here}: {name} is gone");
                }
                for (name, bytes) in &now {
                    let known = [&old, &new].iter().any(|tree| tree.get(name) == Some(bytes));
                    assert!(known || between(name, bytes), "{here}: {name} is neither the old nor the new");
                }
                if !fired {
                    steps = steps.max(at - 1);
                    break;
                }
                work().unwrap_or_else(|error| panic!("{here}, again: {error:#}"));
                assert!(self.tree() == new, "{here}: a second run ends with other files");
            }
        }
        steps
    }
}

fn never(_: &str, _: &[u8]) -> bool {
    false
}

fn all_bytes(_: &str, bytes: Vec<u8>) -> Vec<u8> {
    bytes
}

/// [`Trial::fail_steps`] for work whose files are always the old or the new ones; at least `least` steps must fail.
fn old_or_new(folder: &Path, least: usize, work: impl Fn() -> anyhow::Result<()>) {
    let trial = Trial { folder, work: &work, between: &never, reproducible: &all_bytes };
    let steps = trial.fail_steps(&FAULTS, 1);
    assert!(steps >= least, "only {steps} steps could fail");
}

fn verb(arguments: &[&str]) -> anyhow::Result<()> {
    cli::run(std::iter::once(&"ssmprobe").chain(arguments)).map(drop)
}

#[test]
fn a_file_comes_to_its_place_only_when_its_bytes_are_on_the_disk() {
    apart("faults::a_file_comes_to_its_place_only_when_its_bytes_are_on_the_disk", || {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        // Created, written, synced, renamed: whichever step fails, the old file is kept.
        for at in 1.. {
            atomic_file::write(&path, b"old").expect("written");
            failpoint::files(at, Failure::Once(5));
            let written = atomic_file::write(&path, b"new");
            if !failpoint::none() {
                assert!(written.is_ok() && at > 4, "only {} steps could fail", at - 1);
                break;
            }
            assert_eq!(
                (written.is_err(), fs::read(&path).expect("a file")),
                (true, b"old".to_vec()),
                "step {at}"
            );
        }
        // Taken away before it is in its place, by a process that tidies the folder, it is written again.
        failpoint::files(4, Failure::Once(2));
        temporary::write_again(&path, b"newer").expect("written");
        assert!(failpoint::none() && fs::read(&path).expect("a file") == b"newer");
        // So are evaluations, in the folder of a run that a training resumes at that moment.
        let manifest = run::root().join("tests/fixtures/frozen/run/run.json");
        fs::copy(manifest, folder.path().join("run.json")).expect("copied");
        let run = Run::open(folder.path()).expect("a run");
        failpoint::files(4, Failure::Once(2));
        RunMetrics::default().write(&run).expect("written");
        assert!(failpoint::none() && folder.path().join(run_metrics::FILE).exists());
    });
}

#[test]
fn settings_workspaces_probes_and_figures_are_old_or_new() {
    apart("faults::settings_workspaces_probes_and_figures_are_old_or_new", || {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let settings = |theme| Settings { theme, ..Settings::default() };
        settings(ThemeChoice::Dark).save(&at("deep/settings.json")).expect("saved");
        old_or_new(folder.path(), 4, || Ok(settings(ThemeChoice::Light).save(&at("deep/settings.json"))?));
        // Where neither the file nor its folder exists.
        old_or_new(folder.path(), 5, || Ok(settings(ThemeChoice::Light).save(&at("new/settings.json"))?));

        let workspace = |runs: usize| Workspace { runs: vec![at("run"); runs], ..Workspace::default() };
        workspace(0).save(&at("a.ssmprobe")).expect("saved");
        old_or_new(folder.path(), 4, || Ok(workspace(400).save(&at("a.ssmprobe"))?));

        let probe =
            |name: &str| Probe::load(run::fixture(&format!("probes/{name}.safetensors"))).expect("a probe");
        let (old, new) = (probe("gap"), probe("sinkhorn"));
        old.save(at("p.safetensors")).expect("saved");
        old_or_new(folder.path(), 4, || Ok(new.save(at("p.safetensors"))?));

        for ending in ["svg", "pdf", "png", "csv", "npz"] {
            let out = at(&format!("figure.{ending}")).display().to_string();
            let draw = |scan: &str| {
                verb(&["figures", "--scan", scan, "--width", "40", "--dpi", "40", "--out", &out])
            };
            draw("snake").expect("drawn");
            old_or_new(folder.path(), 4, || draw("raster"));
        }
    });
}

#[test]
fn scenes_inspect_eval_and_report_are_old_or_new() {
    apart("faults::scenes_inspect_eval_and_report_are_old_or_new", || {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out").display().to_string();
        let place = |path: PathBuf| path.display().to_string();
        let (backbone, image) = (place(run::fixture("backbone")), place(run::fixture("images/one.png")));
        let probe = place(run::fixture("probes/sinkhorn.safetensors"));
        let inspect = |class: &str| {
            let fixed =
                ["inspect", "--backbone", &backbone, "--probe", &probe, "--image", &image, "--out", &out];
            let more =
                ["--class", class, "--device", "cpu", "--null-draws", "4", "--save-traces", "--stability"];
            verb(&[&fixed[..], &more].concat())
        };
        inspect("1").expect("explained");
        // Summary, arrays, trace, JSON and stability, each of four steps.
        old_or_new(folder.path(), 20, || inspect("0"));

        let sandbox = run::Sandbox::new(24, 12);
        run::done(&mut sandbox.train("run", 1, &["--seeds", "1"]));
        let (cache, trained) = (place(sandbox.path("cache")), sandbox.path("run"));
        let (ran, evaluations) = (place(trained.clone()), place(trained.join("evaluations")));
        let judge = |seed: &str, more: &[&str]| {
            let fixed =
                ["eval", "--run", &ran, "--cache", &cache, "--device", "cpu", "--evaluation", &evaluations];
            verb(&[&fixed[..], &["--seed", seed], more].concat())
        };
        judge("1", &[]).expect("judged");
        // What has been evaluated is stored probe by probe.
        let partly = Cell::new(0);
        let between = |name: &str, bytes: &[u8]| {
            let is_evaluation = name == "evaluation.json";
            partly.set(partly.get() + usize::from(is_evaluation));
            is_evaluation && whole(name, bytes)
        };
        let work = || judge("2", &["--ablations"]);
        let trial = Trial { folder: &trained, work: &work, between: &between, reproducible: &all_bytes };
        let steps = trial.fail_steps(&FAULTS, 1);
        assert!(
            steps >= 16 && partly.get() > 0,
            "only {steps} steps could fail, {} after a probe",
            partly.get()
        );

        let tables = place(trained.join("tables"));
        let report = |more: &[&str]| verb(&[&["report", &ran, "--out", &tables][..], more].concat());
        report(&["--table", "main", "--format", "csv"]).expect("reported");
        old_or_new(&trained, 12, || report(&["--table", "main"]));

        let scenes = sandbox.path("drawn");
        fs::create_dir(&scenes).expect("a folder");
        let inside = scenes.join("set");
        let draw = || {
            // `scenes` writes into a new or empty folder, so a second try removes the first one's.
            if inside.exists() {
                fs::remove_dir_all(&inside)?;
            }
            let drawn = verb(&["scenes", "--train", "2", "--val", "1", "--out", &place(inside.clone())]);
            assert!(drawn.is_ok() || !inside.exists(), "some of the scenes are left");
            drawn
        };
        old_or_new(&scenes, 28, draw);
    });
}

#[test]
fn an_evaluation_that_cannot_be_stored_is_refused_before_tokens_are_extracted() {
    apart("faults::an_evaluation_that_cannot_be_stored_is_refused_before_tokens_are_extracted", || {
        let sandbox = run::Sandbox::new(24, 12);
        run::done(&mut sandbox.train("run", 1, &["--seeds", "1"]));
        let [ran, cache] = ["run", "other"].map(|name| sandbox.path(name).display().to_string());
        failpoint::files(1, Failure::Once(13));
        let refused = verb(&["eval", "--run", &ran, "--cache", &cache, "--device", "cpu"]);
        assert!(failpoint::none());
        let said = format!("{:#}", refused.expect_err("nothing can be written"));
        assert!(said.contains("--run") && said.contains("make it writable"), "{said}");
        assert!(!sandbox.path("other").exists(), "tokens were taken");
    });
}

/// A run's file without the times in it.
fn without_times(name: &str, bytes: Vec<u8>) -> Vec<u8> {
    let (table, answers) = (name.ends_with("results.csv"), name.contains("answers/"));
    if !table && !answers {
        return bytes;
    }
    let text = String::from_utf8(bytes).expect("text");
    let lines = text.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("\"seconds\""));
    let cut = |line: &str| line.rsplit_once(',').map_or(line.to_owned(), |(rest, _)| format!("{rest}\n"));
    lines.map(|line| if table { cut(line) } else { line.to_owned() }).collect::<String>().into_bytes()
}

#[test]
fn a_training_that_met_a_fault_anywhere_goes_on_to_the_same_bits() {
    apart("faults::a_training_that_met_a_fault_anywhere_goes_on_to_the_same_bits", || {
        let sandbox = run::Sandbox::new(24, 8);
        let folder = sandbox.path("work");
        fs::create_dir(&folder).expect("a folder");
        let place = |path: PathBuf| path.display().to_string();
        let (backbone, data) = (place(run::backbone()), place(sandbox.data()));
        let (out, cache) = (place(folder.join("run")), place(folder.join("cache")));
        let train = || {
            let fixed = ["train", "--resume", "--backbone", &backbone, "--data", &data, "--out", &out];
            let more = [
                "--cache",
                &cache,
                "--heads",
                "gap,raster",
                "--config",
                "raster.state_dim=4",
                "--epochs",
                "2",
            ];
            verb(&[&fixed[..], &more, &["--batch", "16", "--device", "cpu", "--seeds", "2"]].concat())
        };
        let trial = Trial { folder: &folder, work: &train, between: &whole, reproducible: &without_times };
        let steps = trial.fail_steps(&FAULTS[..1], stride(3));
        assert!(steps > 100, "only {steps} steps could fail");
        fs::remove_dir_all(&folder).expect("removed");
        fs::create_dir(&folder).expect("a folder");
        trial.fail_steps(&FAULTS[1..], stride(12));
    });
}

#[test]
fn a_disk_that_fails_for_a_moment_ends_no_training_and_one_that_refuses_costs_no_epoch() {
    const NAME: &str =
        "faults::a_disk_that_fails_for_a_moment_ends_no_training_and_one_that_refuses_costs_no_epoch";
    apart(NAME, || {
        let sandbox = run::Sandbox::new(24, 8);
        // The fault is that of the first file after the first epoch.
        let train = |out: &str, mut fault: Option<Failure>| {
            let settings = TrainSettings { seeds: 1, ..sandbox.settings(3) };
            let plan = TrainPlan::new(settings, run::backbone()).expect("a plan");
            let spec = TrainSpec { plan, out: sandbox.path(out), resume: true };
            let mut waits = Vec::new();
            let end = train::run(device::choose, &spec, &mut |event| {
                match event {
                    Event::Epoch { .. } => {
                        fault.take().into_iter().for_each(|fault| failpoint::files(1, fault));
                    }
                    Event::Waiting { why, first } => waits.push((why.waited_for(), first)),
                    _ => {}
                }
                ControlFlow::Continue(())
            });
            failpoint::none();
            (end.map(|summary| summary.finished).map_err(|error| error.to_string()), waits)
        };
        assert_eq!(train("whole", None), (Ok(true), Vec::new()));
        let (end, waits) = train("hiccup", Some(Failure::Once(5)));
        let [(why, true)] = &waits[..] else { panic!("{waits:?}") };
        assert!(end == Ok(true) && why.contains("metrics.jsonl: cannot write it"), "{end:?}, {why}");
        run::assert_same_training(&sandbox.path("hiccup"), &sandbox.path("whole"));
        for (out, fault, advice, waited, saved) in [
            ("refused", Failure::Once(13), "make it writable", 0, 2),
            ("full", Failure::Lasting(28), "free some space", 1, 1),
        ] {
            let (end, waits) = train(out, Some(fault));
            let why = end.expect_err("its files cannot be written");
            assert!(
                why.contains("metrics.jsonl") && why.contains(advice) && why.contains("--resume"),
                "{why}"
            );
            let run = Run::open(&sandbox.path(out)).expect("a run");
            let position = run.checkpoint().expect("a checkpoint").position;
            assert_eq!((waits.len(), position), (waited, TrainCursor { epoch: saved, step: 0 }), "{out}");
            assert_eq!(train(out, None), (Ok(true), Vec::new()));
            run::assert_same_training(&sandbox.path(out), &sandbox.path("whole"));
        }
    });
}

#[test]
fn a_disk_that_fails_for_a_moment_ends_no_extraction() {
    apart("faults::a_disk_that_fails_for_a_moment_ends_no_extraction", || {
        let sandbox = run::Sandbox::new(70, 24);
        let dataset = data::open(sandbox.data()).expect("a dataset");
        fs::write(&*dataset.samples[3].source.path, b"broken").expect("written");
        let device = device::choose("cpu").expect("a processor").device;
        // The fault comes at this file step after the first batch; returns whether it came, how often it was waited for, and the files.
        let extract = |cache: &str, mut fault: Option<usize>| {
            let tokens = TokenSettings { cache: Some(sandbox.path(cache)), ..TokenSettings::default() };
            let plan = Plan::new(ExtractOptions::new(run::backbone(), tokens), &dataset).expect("a plan");
            let (mut waits, mut unreadable) = (0, Vec::new());
            let end = plan.run(&dataset, &device, &mut |event| {
                match event {
                    extract::Event::Progress(_) => {
                        fault.take().into_iter().for_each(|at| failpoint::files(at, Failure::Once(5)));
                    }
                    extract::Event::Waiting { why, first } => {
                        assert!(first && why.waited_for().contains("tokens-00"), "{why}");
                        waits += 1;
                    }
                    extract::Event::Unreadable { sample, .. } => unreadable.push(sample),
                    _ => {}
                }
                ControlFlow::Continue(())
            });
            let fired = failpoint::none();
            end.expect("tokens");
            assert_eq!(unreadable, [3], "an image that is read again is reported once");
            (fired, waits, tree(&sandbox.path(cache)))
        };
        let (_, _, whole) = extract("whole", None);
        // Past the manifest, which may be written by then: the first shard and its record.
        for at in 5..13 {
            let (fired, waits, found) = extract(&format!("cut-{at}"), Some(at));
            assert_eq!((fired, waits), (true, 1), "at step {at}");
            assert!(found == whole, "other tokens after a fault at step {at}");
        }
    });
}

#[test]
fn a_download_that_met_a_fault_goes_on_and_is_whole() {
    apart("faults::a_download_that_met_a_fault_goes_on_and_is_whole", || {
        let cache = tempfile::tempdir().expect("a folder");
        let (server, content) = hub::usual_hub();
        let fetch = || {
            let client = hub::client(&server, cache.path());
            Ok(client.resolve("org/name", &mut |_| ControlFlow::Continue(())).map(drop)?)
        };
        // The part of a file that has arrived may stay, and the download is resumed from it.
        let begun = |name: &str, bytes: &[u8]| {
            name.ends_with(".incomplete") && content.iter().any(|whole| whole.starts_with(bytes))
        };
        let trial = Trial { folder: cache.path(), work: &fetch, between: &begun, reproducible: &all_bytes };
        let steps = trial.fail_steps(&FAULTS, 1);
        assert!(steps >= 20, "only {steps} steps could fail");
    });
}
