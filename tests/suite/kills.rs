//! Failures from outside: kills, a lost device, too little memory, a folder that is removed, a clock that
//! is set back. Every written file is complete, and a run resumes to the same bits.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ssmprobe::app::jobs::extract::TokenSettings;
use ssmprobe::app::jobs::train::{self, TrainPlan, TrainSettings, TrainSpec};
use ssmprobe::app::jobs::{Event, Fetch, JobId, Request};
use ssmprobe::app::state::settings::{Settings, ThemeChoice};
use ssmprobe::app::state::workspace::Workspace;
use ssmprobe::app::worker::WorkerEnv;
use ssmprobe::model::device;
use ssmprobe::model::io::failpoint::{self, Failure};

use crate::faults::{apart, assert_complete, disk_of_killed, is_temporary, killed_child, leftovers, tree};
use crate::run::{self, fixture};
use crate::worker::{Sandbox, end, look, seen};

/// Settings of a training in the window, with its run and cache in `disk`.
fn draft(disk: &Path, data: &Path) -> TrainSettings {
    TrainSettings {
        backbone: run::backbone().display().to_string(),
        data: Some(data.to_owned()),
        heads: vec!["gap".into(), "sinkhorn".into()],
        head_settings: "sinkhorn.state_dim=8 sinkhorn.iterations=5".into(),
        epochs: 3,
        batch: 16,
        seeds: 2,
        device: "cpu".into(),
        out: Some(disk.join("run")),
        tokens: TokenSettings { cache: Some(disk.join("cache")), ..TokenSettings::default() },
        ..TrainSettings::default()
    }
}

/// Begins or resumes that training as the window does; the event that ended it.
fn train(sandbox: &mut Sandbox, job: u64, disk: &Path, data: &Path) -> Event {
    let draft = draft(disk, data);
    let request = match disk.join("run/run.json").exists() {
        true => {
            Fetch::Resume { folder: disk.join("run"), device: Some("cpu".into()), cache: draft.tokens.cache }
        }
        false => Fetch::Begin(Box::new(draft)),
    };
    let events = sandbox.job(Request::Fetch(JobId(job), request));
    events.into_iter().rfind(|event| end(event).is_some()).expect("an end")
}

/// Asserts that two trainings came to the same bits.
fn assert_same(cut: &Path, undisturbed: &Path) {
    run::assert_same_training(&cut.join("run"), &undisturbed.join("run"));
    let tokens = |disk: &Path| {
        let files = tree(&disk.join("cache")).into_iter().filter(|(name, _)| !is_temporary(name));
        files.collect::<Vec<_>>()
    };
    assert!(tokens(cut) == tokens(undisturbed), "tokens");
}

/// A dataset of scenes, and folders for two trainings beside it.
fn scenes() -> run::Sandbox {
    let scenes = run::Sandbox::new(80, 8);
    for disk in ["undisturbed", "cut"] {
        fs::create_dir(scenes.path(disk)).expect("a folder");
    }
    scenes
}

#[cfg(unix)]
#[test]
fn a_window_killed_while_it_extracts_tokens_or_trains_loses_nothing() {
    const NAME: &str = "kills::a_window_killed_while_it_extracts_tokens_or_trains_loses_nothing";
    if let Some(disk) = disk_of_killed() {
        let ended = train(&mut Sandbox::new(WorkerEnv::default()), 1, &disk, &disk.with_file_name("scenes"));
        assert!(matches!(ended, Event::Finished(_)), "{ended:?}");
        return;
    }
    apart(NAME, || killed(NAME));
}

#[cfg(unix)]
fn killed(test: &str) {
    let scenes = scenes();
    let [undisturbed, cut] = ["undisturbed", "cut"].map(|disk| scenes.path(disk));
    let Output { status, stderr, .. } = killed_child(test, &undisturbed, usize::MAX / 2);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    // First the steps of the extraction one after the other, then some of every epoch.
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let steps = (1..=12).chain(std::iter::repeat_with(|| rng.random_range(17..60)));
    let kills = crate::faults::kill_until_done(test, &cut, steps);
    assert!(kills >= 16, "only {kills} kills");
    assert_same(&cut, &undisturbed);
    assert_eq!(leftovers(&cut.join("run")), Vec::<String>::new(), "who goes on takes them away");
}

#[test]
fn a_window_killed_while_it_exports_or_saves_has_the_old_file_or_the_new_one() {
    const NAME: &str = "kills::a_window_killed_while_it_exports_or_saves_has_the_old_file_or_the_new_one";
    let work = |disk: &Path, new: bool| {
        let scan = if new { "raster" } else { "snake" };
        let out = disk.join("figure.png").display().to_string();
        let draw = ["ssmprobe", "figures", "--width", "40", "--dpi", "40", "--scan", scan, "--out", &out];
        ssmprobe::app::cli::run(draw).expect("drawn");
        let theme = if new { ThemeChoice::Dark } else { ThemeChoice::Light };
        Settings { theme, ..Settings::default() }.save(&disk.join("settings.json")).expect("saved");
        let runs = vec![disk.join("run"); if new { 400 } else { 1 }];
        Workspace { runs, ..Workspace::default() }.save(&disk.join("w.ssmprobe")).expect("saved");
    };
    if let Some(disk) = disk_of_killed() {
        return work(&disk, true);
    }
    apart(NAME, || old_or_new(NAME, &work));
}

fn old_or_new(test: &str, work: &dyn Fn(&Path, bool)) {
    let folder = tempfile::tempdir().expect("a folder");
    work(folder.path(), true);
    let new = tree(folder.path());
    work(folder.path(), false);
    let old = tree(folder.path());
    for at in 1.. {
        work(folder.path(), false);
        let done = killed_child(test, folder.path(), at);
        let now = tree(folder.path());
        for name in old.keys() {
            let known = [&old, &new].iter().any(|tree| tree.get(name) == now.get(name));
            assert!(known, "killed at step {at}, {name} is neither the old nor the new");
        }
        if done.status.success() {
            assert!(at > 12, "only {at} steps");
            break;
        }
    }
}

#[test]
fn a_device_lost_in_an_explanation_or_a_step_ends_that_job_and_the_next_is_right() {
    apart("kills::a_device_lost_in_an_explanation_or_a_step_ends_that_job_and_the_next_is_right", || {
        let scenes = scenes();
        let mut sandbox = Sandbox::with(WorkerEnv::default(), &["sinkhorn"]);
        let [one, two] = ["images/one.png", "images/sub/two.png"].map(fixture);
        let before = seen(&sandbox.job(look(10, &one, 1))).expect("a trace");
        let lost = |ended: &Event| {
            let Event::Failed(_, fault) = ended else { panic!("it went on: {ended:?}") };
            assert!(fault.to_string().contains("the device is lost") && fault.remedy.is_some(), "{fault}");
        };
        failpoint::device(1);
        lost(sandbox.job(look(11, &two, 1)).last().expect("an end"));
        assert!(failpoint::none());
        // The backbone is opened again and gives the same trace.
        assert!(seen(&sandbox.job(look(12, &two, 1))).is_ok());
        let after = seen(&sandbox.job(look(13, &one, 1))).expect("a trace");
        assert_eq!(serde_json::to_vec(&*before).expect("JSON"), serde_json::to_vec(&*after).expect("JSON"));

        let [undisturbed, cut] = ["undisturbed", "cut"].map(|disk| scenes.path(disk));
        assert!(matches!(train(&mut sandbox, 20, &undisturbed, &scenes.data()), Event::Finished(_)));
        // In a backbone pass, in the first epoch, and in the second seed: 5 steps an epoch.
        for (job, at) in [(30, 3), (31, 4 + 3), (32, 5 * 3 + 7)] {
            failpoint::device(at);
            lost(&train(&mut sandbox, job, &cut, &scenes.data()));
            assert!(failpoint::none(), "step {at} was not reached");
            assert_complete(&cut, &format!("lost at step {at}"));
            assert_eq!(leftovers(&cut), Vec::<String>::new());
            assert!(seen(&sandbox.job(look(job + 10, &one, 1))).is_ok(), "no look after it");
        }
        assert!(matches!(train(&mut sandbox, 50, &cut, &scenes.data()), Event::Finished(_)));
        assert_same(&cut, &undisturbed);
    });
}

/// Memory limits from the least in which the program starts up to as much as a training needs.
#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_ends_with_a_message_and_whole_files() {
    apart("kills::too_little_memory_ends_with_a_message_and_whole_files", || {
        let sandbox = run::Sandbox::new(36, 12);
        run::done(&mut sandbox.train("whole", 2, &[]));
        fs::remove_dir_all(sandbox.path("cache")).expect("removed");
        let within = |megabytes: usize, inner: &Command| {
            let mut command = Command::new("sh");
            command.args(["-c", "ulimit -v $0; exec \"$@\"", &(megabytes * 1024).to_string()]);
            command.arg(inner.get_program()).args(inner.get_args()).env("RUST_BACKTRACE", "0");
            command.output().expect("it starts")
        };
        let mut version = run::program();
        version.arg("--version");
        let starts = (60..2000).step_by(2).find(|megabytes| within(*megabytes, &version).status.success());
        let (mut failures, mut last) = (0, None);
        for megabytes in (starts.expect("it starts")..4000).step_by(2) {
            let Output { status, stderr, .. } = within(megabytes, &sandbox.train("cut", 2, &["--resume"]));
            for folder in ["cut", "cache"].map(|name| sandbox.path(name)) {
                assert_complete(&folder, &format!("with {megabytes} MB"));
            }
            last = Some(megabytes);
            if status.success() {
                break;
            }
            let stderr = String::from_utf8_lossy(&stderr).into_owned();
            // An error of this program, or the allocator's message as it aborts.
            let known = ["error: ", "memory", "unavailable"].iter().any(|word| stderr.contains(word));
            assert!(known, "with {megabytes} MB it ends with {status} and says: {stderr}");
            failures += 1;
        }
        assert!(failures >= 1, "memory was never short, up to {last:?} MB");
        run::assert_same_training(&sandbox.path("whole"), &sandbox.path("cut"));
    });
}

#[test]
fn a_folder_that_goes_between_two_files_ends_with_its_name_and_a_second_run_is_right() {
    apart("kills::a_folder_that_goes_between_two_files_ends_with_its_name_and_a_second_run_is_right", gone);
}

fn gone() {
    let scenes = scenes();
    let [undisturbed, cut] = ["undisturbed", "cut"].map(|disk| scenes.path(disk));
    let go = |disk: &Path, gone: &str, mut left: isize| {
        let plan = TrainPlan::new(draft(disk, &scenes.data()), run::backbone()).expect("a plan");
        let spec = TrainSpec { plan, out: disk.join("run"), resume: true };
        train::run(device::choose, &spec, &mut |event| {
            let counts = match event {
                train::Event::Extract { .. } => gone == "cache",
                train::Event::Epoch { .. } => true,
                _ => false,
            };
            left -= isize::from(counts);
            if counts && left == 0 {
                // Renamed first, in one step, as a thread may be writing there.
                let away = disk.with_file_name("away");
                fs::rename(disk.join(gone), &away).expect("moved");
                fs::remove_dir_all(away).expect("removed");
            }
            ControlFlow::Continue(())
        })
        .map(drop)
    };
    go(&undisturbed, "", 0).expect("undisturbed");
    for (gone, at, named) in [("cache", 1, "cache/"), ("run", 2, "run/"), ("run/state", 4, "run/state/")] {
        let error = go(&cut, gone, at).expect_err("its folder is gone");
        let message = format!("{:#}", anyhow::Error::from(error));
        assert!(
            message.contains(named) && message.contains("its folder does not exist"),
            "{gone}: {message}"
        );
        assert_complete(&cut, gone);
        assert_eq!(leftovers(&cut), Vec::<String>::new());
    }
    // Without `state` the run begins anew.
    go(&cut, "", 0).expect("a second run");
    assert_same(&cut, &undisturbed);
}

#[test]
fn a_clock_that_is_set_back_changes_nothing() {
    apart("kills::a_clock_that_is_set_back_changes_nothing", || {
        let scenes = scenes();
        let [undisturbed, cut] = ["undisturbed", "cut"].map(|disk| scenes.path(disk));
        let mut sandbox = Sandbox::new(WorkerEnv::default());
        // Images modified in the future: no other tokens may be taken for theirs.
        let ahead = SystemTime::now() + Duration::from_hours(24 * 365 * 60);
        let all_ahead = |folder: &Path| {
            for name in tree(folder).into_keys() {
                let file = fs::File::options().write(true).open(folder.join(name)).expect("a file");
                file.set_modified(ahead).expect("a time");
            }
        };
        all_ahead(&scenes.data());
        assert!(matches!(train(&mut sandbox, 1, &undisturbed, &scenes.data()), Event::Finished(_)));
        // Fails in the middle, with temporary files as after a kill; then all files are dated in the future.
        failpoint::files(120, Failure::Lasting(28));
        assert!(matches!(train(&mut sandbox, 2, &cut, &scenes.data()), Event::Failed(..)));
        assert!(failpoint::none());
        let left = ["run/.ssmprobe-left", "run/state/.ssmprobe-left"].map(|name| cut.join(name));
        left.iter().for_each(|path| fs::write(path, "torn").expect("written"));
        let cache = &run::entries(&cut.join("cache"))[0];
        fs::write(cache.join(".ssmprobe-left"), "torn").expect("written");
        all_ahead(&cut);
        assert!(matches!(train(&mut sandbox, 3, &cut, &scenes.data()), Event::Finished(_)));
        assert_eq!(leftovers(&cut), Vec::<String>::new());
        assert_same(&cut, &undisturbed);
        // The history of a run whose files are dated in the future is read.
        let snapshot = ssmprobe::app::jobs::history::disk::read(&cut.join("run")).expect("a run");
        assert_eq!((snapshot.epochs.len(), snapshot.probes.len()), (12, 8));
    });
}
