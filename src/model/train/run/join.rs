//! Runs of parts of one training, put together into the run that trains everything at once, byte for byte but for
//! times: each part has some of the seeds, or some of the heads with them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::checkpoint::Checkpoint;
use super::unreadable::UNREADABLE;
use super::{Manifest, Outcome, ProbeCheckpoint, Run, RunError, StepLosses, error, write};
use crate::model::io::atomic_file;
use crate::model::probe::Probe;

/// No probe is longer, in bytes.
const MAX_PROBE_BYTES: u64 = 1 << 33;

/// What parts may differ in.
const OWN: [&str; 3] = ["seeds", "heads", "device"];

impl Run {
    /// Reads every file that a finished run has.
    ///
    /// # Errors
    /// Names the first that is absent or damaged; if it is not finished.
    pub fn check_finished(&self) -> Result<(), RunError> {
        let Manifest { seeds, heads, .. } = &self.manifest;
        if self.checkpoint()?.seeds_done < seeds.len() {
            return Err(RunError::Unfinished { folder: self.folder.clone() });
        }
        self.truth()?;
        for &seed in seeds {
            self.losses_of(seed)?;
            for head in heads {
                self.probes(&self.outcome(&head.name, seed)?)?;
            }
        }
        Ok(())
    }

    /// Puts finished `parts` together in `folder`. Killed in the middle, it does it once more; nothing of a part is
    /// changed.
    ///
    /// # Errors
    /// If a part is not finished, or damaged, or of another training; if `folder` holds another run; if the disk
    /// refuses.
    pub fn join(folder: &Path, parts: &[PathBuf]) -> Result<Self, RunError> {
        let open = |part: &PathBuf| match Self::open(part) {
            Err(RunError::Absent { folder }) => Err(RunError::Unfinished { folder }),
            run => run,
        };
        let parts = parts.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        parts.iter().try_for_each(Self::check_finished)?;
        let Some(first) = parts.first() else { return Err(RunError::Absent { folder: folder.to_owned() }) };
        let mut manifest = Manifest { seeds: Vec::new(), heads: Vec::new(), ..first.manifest.clone() };
        let truth = first.truth()?;
        for part in &parts {
            let path = || part.folder.clone();
            if let Some(field) = other(&first.manifest, &part.manifest) {
                return Err(RunError::OtherPart { folder: path(), first: first.folder.clone(), field });
            }
            if part.truth()? != truth {
                let field = "answers/truth.json".to_owned();
                return Err(RunError::OtherPart { folder: path(), first: first.folder.clone(), field });
            }
            for seed in &part.manifest.seeds {
                if !manifest.seeds.contains(seed) {
                    manifest.seeds.push(*seed);
                }
            }
            for head in &part.manifest.heads {
                if !manifest.heads.contains(head) {
                    manifest.heads.push(head.clone());
                }
            }
        }
        let run = match Self::create(folder, manifest.clone(), &truth) {
            Err(RunError::Exists { .. }) if Self::open(folder)?.manifest == manifest => Self::open(folder)?,
            other => other?,
        };
        let _claim = run.claim()?;
        run.tidy()?;
        let mut outcomes = Vec::new();
        for &seed in &run.manifest.seeds {
            let mut losses: Vec<(String, Vec<f32>)> = Vec::new();
            for part in parts.iter().filter(|part| part.manifest.seeds.contains(&seed)) {
                losses.extend(part.losses_of(seed)?.heads);
            }
            run.write_losses(seed, losses.iter().map(|(head, points)| (head.as_str(), &points[..])))?;
            for head in &run.manifest.heads {
                let has =
                    |part: &&Self| part.manifest.seeds.contains(&seed) && part.manifest.heads.contains(head);
                let part = parts.iter().find(has).ok_or_else(|| RunError::Damaged {
                    path: folder.to_owned(),
                    found: format!("no part has trained `{}` with seed {seed}", head.name),
                })?;
                let outcome = part.outcome(&head.name, seed)?;
                for (which, bytes) in part.probes(&outcome)? {
                    write(&run.probe(&head.name, seed, which), &bytes)?;
                }
                copy(&part.outcome_path(&head.name, seed), &run.outcome_path(&head.name, seed))?;
                outcomes.push(outcome);
            }
        }
        let unreadable = first.folder.join(UNREADABLE);
        if unreadable.exists() {
            copy(&unreadable, &run.folder.join(UNREADABLE))?;
        }
        run.write_tables(&outcomes)?;
        run.save(&Checkpoint { seeds_done: run.manifest.seeds.len(), ..Checkpoint::default() })?;
        Ok(run)
    }

    /// The losses of a seed, which a finished run has.
    fn losses_of(&self, seed: u64) -> Result<StepLosses, RunError> {
        self.losses(seed)?.ok_or_else(|| RunError::Damaged {
            path: self.losses_path(seed),
            found: "it is not there".to_owned(),
        })
    }

    /// The files of the probes of an outcome: none, where no epoch was finished.
    fn probes(&self, outcome: &Outcome) -> Result<Vec<(ProbeCheckpoint, Vec<u8>)>, RunError> {
        let there = ProbeCheckpoint::BOTH.into_iter().filter(|_| outcome.best_epoch.is_some());
        let read = there.map(|which| {
            let path = self.probe(&outcome.head, outcome.seed, which);
            let bytes = atomic_file::read(&path, MAX_PROBE_BYTES).map_err(error::io("read", &path))?;
            let damaged = |found: String| RunError::Damaged { path: path.clone(), found };
            Probe::load(&path).map_err(|error| damaged(error.to_string()))?;
            Ok((which, bytes))
        });
        read.collect()
    }
}

/// The first field in which the parts of a training must not differ and do.
fn other(first: &Manifest, part: &Manifest) -> Option<String> {
    let [first, part] =
        [first, part].map(|manifest| serde_json::to_value(manifest).expect("plain data serialises"));
    let (Value::Object(first), Value::Object(part)) = (&first, &part) else { return None };
    let keys = first.keys().chain(part.keys()).filter(|key| !OWN.contains(&key.as_str()));
    keys.into_iter().find(|key| first.get(*key) != part.get(*key)).cloned()
}

/// Writes what `from` holds to `to`.
fn copy(from: &Path, to: &Path) -> Result<(), RunError> {
    write(to, &atomic_file::read(from, super::MAX_JSON_BYTES).map_err(error::io("read", from))?)
}
