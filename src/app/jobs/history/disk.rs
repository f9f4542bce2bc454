//! Reads a run's folder while its training goes on, with a cheap check of whether anything changed.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use super::{About, Failure, metrics_of};
use crate::app::jobs::open::probe_files;
use crate::app::jobs::tasks::{Tasks, part_folders, plan_file};
use crate::model::io::{atomic_file, if_there};
use crate::model::train::run::{Metric, Run, RunError, StepLosses};

/// Identifies a state of a run's folder without reading a file: lengths and modification times of what a training
/// writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp(Vec<Option<(u64, SystemTime)>>);

/// Upper bound on the size of `metrics.jsonl` in bytes: some four million epochs.
const MAX_BYTES: u64 = 1 << 30;
/// Epochs for which a follower rests a second: about 20 kB on a line.
const EPOCHS_PER_SECOND: usize = 1000;
/// Losses of steps that weigh as much as an epoch.
const LOSSES_PER_EPOCH: usize = 5;
/// The longest rest, in seconds.
const MAX_REREAD_DELAY_S: usize = 30;
/// What a training writes as it goes: files, and folders of files whose names vary.
const GROWING: [&str; 5] = ["run.json", "metrics.jsonl", "losses", "answers", "probes"];

impl Stamp {
    /// The state of the folder now, and of the parts in it that are not joined yet.
    pub fn read(folder: &Path) -> Self {
        let state = |(folder, name): (&PathBuf, &str)| {
            let metadata = fs::metadata(folder.join(name)).ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        };
        let mut folders = part_folders(folder);
        folders.push(folder.to_owned());
        Self(folders.iter().flat_map(|folder| GROWING.map(|name| (folder, name))).map(state).collect())
    }
}

/// The content of a run's folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSnapshot {
    /// The run's description.
    pub about: About,
    /// All epochs so far.
    pub epochs: Vec<Metric>,
    /// Losses of the steps, for the seeds that have any.
    pub losses: Vec<StepLosses>,
    /// Heads that stopped before the end.
    pub failures: Vec<Failure>,
    /// Its probes, sorted by path, and when each was last modified.
    pub probes: Vec<(PathBuf, SystemTime)>,
    /// Its tasks, if it is divided into tasks that are not joined yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Tasks>,
    /// Whether a process trains there, if that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained: Option<bool>,
}

impl RunSnapshot {
    /// A run none of whose tasks has begun.
    pub fn waiting(folder: &Path) -> Self {
        let about = About { folder: folder.to_owned(), ..About::default() };
        Self { about, tasks: Some(Tasks::default()), ..Self::default() }
    }

    /// How long a follower leaves the folder alone after this reading: the longer, the more there is of it. Each reading is sent
    /// whole, and over a slow line everything else would wait behind them.
    pub fn reread_delay(&self) -> Duration {
        let losses = self.losses.iter().flat_map(|seed| &seed.heads).map(|(_, points)| points.len());
        let epochs = self.epochs.len() + losses.sum::<usize>() / LOSSES_PER_EPOCH;
        Duration::from_secs((epochs / EPOCHS_PER_SECOND).min(MAX_REREAD_DELAY_S) as u64)
    }

    /// Adds another part of the same training, without its probes: they become the run's when the parts are joined.
    fn join(&mut self, part: Self) {
        let Self { about, epochs, losses, failures, .. } = part;
        if self.about.heads.is_empty() {
            let folder = std::mem::take(&mut self.about.folder);
            self.about = About { folder, ..about };
        } else {
            let heads: IndexSet<String> = self.about.heads.drain(..).chain(about.heads).collect();
            self.about.heads = heads.into_iter().collect();
            self.about.seeds.extend(about.seeds);
        }
        self.about.seeds.sort_unstable();
        self.about.seeds.dedup();
        self.epochs.extend(epochs);
        self.losses.extend(losses);
        self.failures.extend(failures);
    }
}

/// Reads the run in `folder`, finished or not; if its parts are not joined yet, those that have begun.
pub fn read(folder: &Path) -> Result<RunSnapshot, RunError> {
    if !plan_file(folder).exists() || folder.join("run.json").exists() {
        return read_run(&Run::open(folder)?);
    }
    let parts: Vec<RunSnapshot> = part_folders(folder)
        .iter()
        // A part that is damaged, or being joined at this moment, counts as not begun.
        .filter_map(|part| read_run(&Run::open(part).ok()?).ok())
        .collect();
    let mut whole = RunSnapshot::waiting(folder);
    parts.into_iter().for_each(|part| whole.join(part));
    whole.about.check().map_err(RunError::damaged(&plan_file(folder)))?;
    Ok(whole)
}

/// As [`read`], for a run that is already open.
pub fn read_run(run: &Run) -> Result<RunSnapshot, RunError> {
    let folder = run.folder();
    let mut epochs = metrics(&folder.join("metrics.jsonl"))?;
    if epochs.is_empty() {
        epochs = metrics_of(&run.outcomes()?); // the folder may have been copied without the file
    }
    let about = About::from_run(run);
    let (mut failures, mut done) = (Vec::new(), HashMap::<(&str, u64), usize>::new());
    for Metric { head, seed, .. } in epochs.iter().filter(|metric| metric.epoch.step.is_none()) {
        *done.entry((head.as_str(), *seed)).or_default() += 1;
    }
    for (head, seed) in about.heads.iter().flat_map(|head| about.seeds.iter().map(move |seed| (head, *seed)))
    {
        if done.get(&(head.as_str(), seed)).is_some_and(|done| *done >= about.epochs) {
            continue;
        }
        // Outcome files are large, as they hold every answer: only those of unfinished heads are read.
        if let Some(why) = run.outcome(head, seed).ok().and_then(|outcome| outcome.failure) {
            failures.push(Failure { head: head.clone(), seed, why });
        }
    }
    let losses = about.seeds.iter().filter_map(|seed| run.losses(*seed).transpose());
    let losses = losses.collect::<Result<_, _>>()?;
    Ok(RunSnapshot { about, epochs, losses, failures, probes: probes(folder), tasks: None, trained: None })
}

/// The lines of a run's `metrics.jsonl`; empty if there is no such file yet.
pub fn metrics(path: &Path) -> Result<Vec<Metric>, RunError> {
    let bytes = if_there(atomic_file::read(path, MAX_BYTES)).map_err(RunError::io("read", path))?;
    let parse = |(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            RunError::damaged(path)(format!("line {} is not an epoch of a head ({error})", number + 1))
        })
    };
    String::from_utf8_lossy(&bytes.unwrap_or_default()).lines().enumerate().map(parse).collect()
}

/// The probes of a run, sorted by path, with their modification times.
pub fn probes(folder: &Path) -> Vec<(PathBuf, SystemTime)> {
    let probe = |path: PathBuf| {
        let changed = path.metadata().ok()?.modified().ok()?;
        Some((path, changed))
    };
    probe_files(&folder.join("probes")).unwrap_or_default().into_iter().filter_map(probe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::train::Epoch;

    #[test]
    fn a_folder_without_a_run_and_a_damaged_one_are_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("is not a run"));
        let path = folder.path().join("metrics.jsonl");
        assert_eq!(metrics(&path).unwrap(), []);
        let before = Stamp::read(folder.path());
        crate::model::io::atomic_file::write(&path, b"{}\n").unwrap();
        assert_ne!(Stamp::read(folder.path()), before);
        let error = metrics(&path).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("metrics.jsonl"), "{error}");
        crate::model::io::atomic_file::write(&folder.path().join("run.json"), b"{\"format\": 2}").unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("run.json: `format` is 2; this program reads 1"), "{error}");
    }

    #[test]
    fn why_a_head_broke_is_known_after_epochs_that_it_finished() {
        let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/stopped");
        let folder = tempfile::tempdir().unwrap();
        atomic_file::make_folder(&folder.path().join("answers")).unwrap();
        for name in ["run.json", "metrics.jsonl", "answers/sinkhorn-s0.json"] {
            let text = fs::read_to_string(frozen.join(name)).unwrap();
            let broken = text.replace(r#""failure": null"#, r#""failure": "the loss is not finite""#);
            atomic_file::write(&folder.path().join(name), broken.as_bytes()).unwrap();
        }
        let found = read(folder.path()).unwrap().failures;
        let whys: Vec<(&str, &str)> = found.iter().map(|one| (&*one.head, &*one.why)).collect();
        assert_eq!(whys, [("sinkhorn", "the loss is not finite")]);
    }

    #[test]
    fn a_long_run_is_read_more_seldom() {
        let epoch = Epoch { epoch: 1, step: None, loss: 0.5, train: 1.0, select: 1.0, test: 1.0 };
        let of = |epochs: usize, losses: usize| RunSnapshot {
            epochs: vec![Metric { head: "gap".into(), seed: 0, epoch: epoch.clone() }; epochs],
            losses: vec![StepLosses { seed: 0, parts: 1, heads: vec![("gap".into(), vec![0.5; losses])] }],
            ..RunSnapshot::default()
        };
        let seconds = |epochs, losses| of(epochs, losses).reread_delay().as_secs();
        assert_eq!(
            [seconds(999, 0), seconds(7000, 0), seconds(0, 10_000), seconds(90_000, 0)],
            [0, 7, 2, 30]
        );
    }

    #[test]
    fn a_file_written_again_with_as_many_bytes_is_noticed() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("metrics.jsonl");
        crate::model::io::atomic_file::write(&path, b"12").unwrap();
        let touch = |seconds: u64| {
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            Stamp::read(folder.path())
        };
        let before = touch(1_000_000);
        assert!(before == touch(1_000_000));
        assert!(before != touch(1_000_001));
    }
}
