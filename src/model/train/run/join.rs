//! Joins the runs of the parts of one training, each with some of its seeds or heads, into a run with the same bytes as one that
//! trained everything at once, except for times.

use std::path::{Path, PathBuf};

use indexmap::IndexSet;
use serde_json::Value;

use super::checkpoint::Checkpoint;
use super::{Manifest, Outcome, ProbeCheckpoint, Run, RunError, RunLock, StepLosses, UNREADABLE, write};
use crate::model::data::synsets;
use crate::model::io::atomic_file;
use crate::model::probe::{MAX_FILE_BYTES, Probe};

/// Fields of the manifest in which parts may differ.
const PART_FIELDS: [&str; 3] = ["seeds", "heads", "device"];

impl Run {
    /// Checks that the run is finished, by reading every file of a finished run.
    ///
    /// # Errors
    /// If it is not finished; names the first file that is absent or damaged.
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

    /// Joins finished `parts` into a run in `folder`, leaving the parts unchanged. If killed, it may be repeated.
    ///
    /// # Errors
    /// If a part is not finished, damaged, of another training, or overlaps another; if `folder` holds another run or cannot be written.
    pub fn join(folder: &Path, parts: &[PathBuf]) -> Result<Self, RunError> {
        let open = |part: &PathBuf| match Self::open(part) {
            Err(RunError::Absent { folder }) => Err(RunError::Unfinished { folder }),
            run => run,
        };
        let parts = parts.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        parts.iter().try_for_each(Self::check_finished)?;
        let Some(first) = parts.first() else { return Err(RunError::Absent { folder: folder.to_owned() }) };
        let seeds: IndexSet<u64> = parts.iter().flat_map(|part| &part.manifest.seeds).copied().collect();
        let seeds = seeds.into_iter().collect();
        let mut manifest = Manifest { seeds, heads: Vec::new(), ..first.manifest.clone() };
        let truth = first.truth()?;
        for (at, part) in parts.iter().enumerate() {
            parts[..at].iter().try_for_each(|other| refuse_overlap(part, other))?;
            let field = match differing_field(&first.manifest, &part.manifest) {
                None if part.truth()? != truth => Some("answers/truth.json".to_owned()),
                field => field,
            };
            if let Some(field) = field {
                let (folder, first) = (part.folder.clone(), first.folder.clone());
                return Err(RunError::OtherPart { folder, first, field });
            }
            for head in &part.manifest.heads {
                if !manifest.heads.contains(head) {
                    manifest.heads.push(head.clone());
                }
            }
        }
        let lock = RunLock::take(folder)?;
        let run = match Self::create(folder, manifest.clone(), &truth) {
            Err(RunError::Exists { .. }) if is_of_parts(&Self::open(folder)?.manifest, &manifest) => {
                Self::open(folder)?
            }
            created => created?,
        };
        run.tidy()?;
        let mut outcomes = Vec::new();
        for &seed in &run.manifest.seeds {
            let mut losses: Vec<(String, Vec<f32>)> = Vec::new();
            for part in parts.iter().filter(|part| part.manifest.seeds.contains(&seed)) {
                losses.extend(part.losses_of(seed)?.heads);
            }
            run.write_losses(seed, losses.iter().map(|(head, points)| (head.as_str(), &points[..])))?;
            for head in &run.manifest.heads {
                lock.beat()?;
                let has =
                    |part: &&Self| part.manifest.seeds.contains(&seed) && part.manifest.heads.contains(head);
                let missing =
                    || RunError::damaged(folder)(format!("no part trained `{}` with seed {seed}", head.name));
                let part = parts.iter().find(has).ok_or_else(missing)?;
                let outcome = part.outcome(&head.name, seed)?;
                for (which, bytes) in part.probes(&outcome)? {
                    write(&run.probe_path(&head.name, seed, which), &bytes)?;
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

    /// The losses of a seed; an error if they are absent, as a finished run has them.
    fn losses_of(&self, seed: u64) -> Result<StepLosses, RunError> {
        self.losses(seed)?.ok_or_else(|| RunError::damaged(&self.losses_path(seed))("it is missing"))
    }

    /// The bytes of an outcome's probe files, after checking them; none if no epoch was finished.
    fn probes(&self, outcome: &Outcome) -> Result<Vec<(ProbeCheckpoint, Vec<u8>)>, RunError> {
        let written = ProbeCheckpoint::ALL.into_iter().filter(|_| outcome.best_epoch.is_some());
        let files = written.map(|which| {
            let path = self.probe_path(&outcome.head, outcome.seed, which);
            let bytes = atomic_file::read(&path, MAX_FILE_BYTES).map_err(RunError::io("read", &path))?;
            Probe::parse(&bytes, &path).map_err(RunError::damaged(&path))?;
            Ok((which, bytes))
        });
        files.collect()
    }
}

/// An error if two runs have both trained a head with the same seed.
fn refuse_overlap(run: &Run, other: &Run) -> Result<(), RunError> {
    let [Manifest { seeds, heads, .. }, others] = [run, other].map(|run| &run.manifest);
    let seed = seeds.iter().find(|seed| others.seeds.contains(seed));
    let head = heads.iter().find(|head| others.heads.iter().any(|own| own.name == head.name));
    let Some((&seed, head)) = seed.zip(head) else { return Ok(()) };
    let [folder, other] = [run, other].map(|run| run.folder.clone());
    Err(RunError::SamePart { folder, other, head: head.name.clone(), seed })
}

/// The first field in which two manifests differ though parts of one training must not.
fn differing_field(first: &Manifest, part: &Manifest) -> Option<String> {
    let [first, part] = [first, part].map(|manifest| {
        let mut manifest = manifest.clone();
        // A list of words for WordNet ids may have been put into the dataset's folder while parts were trained.
        manifest.dataset.classes.iter_mut().for_each(|class| *class = synsets::id(class).to_owned());
        serde_json::to_value(manifest).expect("plain data serialises")
    });
    let (Value::Object(first), Value::Object(part)) = (&first, &part) else { return None };
    let mut keys = first.keys().chain(part.keys()).filter(|key| !PART_FIELDS.contains(&key.as_str()));
    keys.find(|key| first.get(*key) != part.get(*key)).cloned()
}

/// Whether a run was begun by a join of the same parts, though the first may since have been trained again on another device.
fn is_of_parts(begun: &Manifest, manifest: &Manifest) -> bool {
    let same = (&begun.seeds, &begun.heads) == (&manifest.seeds, &manifest.heads);
    same && differing_field(begun, manifest).is_none()
}

/// Copies the file `from` to `to`.
fn copy(from: &Path, to: &Path) -> Result<(), RunError> {
    write(to, &atomic_file::read(from, super::MAX_JSON_BYTES).map_err(RunError::io("read", from))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_one_training_where_some_have_words_for_their_classes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/stopped");
        let of_class = |class: &str| {
            let mut manifest = Run::open(&folder).unwrap().manifest;
            manifest.dataset.classes = vec![class.to_owned()];
            manifest
        };
        let before = of_class("n02012849");
        assert_eq!(differing_field(&before, &of_class("crane (n02012849)")), None);
        let other = differing_field(&before, &of_class("crane (n03126707)"));
        assert_eq!(other.as_deref(), Some("dataset"));
        let device = |device: &str| Manifest { device: device.to_owned(), ..before.clone() };
        assert!(is_of_parts(&device("cpu"), &device("cuda")), "a join that was killed is repeated");
        assert!(!is_of_parts(&before, &Manifest { seeds: vec![9], ..before.clone() }));
    }
}
