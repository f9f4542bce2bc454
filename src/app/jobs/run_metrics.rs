//! Evaluations of a run's probes by `ssmprobe eval`: `evaluation.json` in the run's folder.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::backbone::token_spec::TokenSpec;
use crate::model::explain::baselines::Baseline;
use crate::model::explain::evaluation::metrics::Metrics;
use crate::model::explain::stability::OTHER_SEEDS;
use crate::model::io::{atomic_file, if_there, sha256, temporary};
use crate::model::train::run::{ProbeCheckpoint, Run, RunError};

/// The file's name in a run's folder.
pub const FILE: &str = "evaluation.json";
/// Largest file that is read, in bytes: removal curves of 50,000 images are 8 MB a probe and mode.
const MAX_BYTES: u64 = 1 << 33;

/// All evaluations of a run so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunMetrics {
    /// One entry a probe.
    pub probes: Vec<ProbeMetrics>,
    /// Baselines on the same tokens.
    #[serde(default, rename = "anchors")] // its first name, which files keep
    pub baselines: Vec<Baseline>,
}

/// The evaluation of one probe on the run's test images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeMetrics {
    /// Name of the head variant.
    pub head: String,
    /// Its seed.
    pub seed: u64,
    /// Which of its two probes.
    #[serde(with = "CheckpointName")]
    pub which: ProbeCheckpoint,
    /// SHA-256 of the probe file: a resumed training writes another one. Absent in files of earlier versions.
    #[serde(default)]
    pub file: Option<String>,
    /// SHA-256 of the digests of the images' files. Absent if one is not known, and in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_files: Option<String>,
    /// Seed of random draws.
    #[serde(default)]
    pub draws: Option<u64>,
    /// The metrics.
    #[serde(rename = "evaluation")]
    pub metrics: Metrics,
}

/// A [`ProbeCheckpoint`] as files name it; messages name it otherwise.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ProbeCheckpoint", rename_all = "lowercase")]
enum CheckpointName {
    Best,
    Last,
}

impl ProbeMetrics {
    /// Whether the probe's file has changed since.
    pub fn is_stale(&self, run: &Run) -> bool {
        let Some(evaluated) = &self.file else { return false };
        let now = sha256::of_file(&run.probe_path(&self.head, self.seed, self.which));
        now.is_ok_and(|now| now != *evaluated)
    }

    /// Whether it is known to be of other images than those of these files.
    pub fn has_other_images(&self, files: &str) -> bool {
        self.image_files.as_deref().is_some_and(|own| own != files)
    }

    /// Keeps what an `old` evaluation of the same probe measured and this one did not, where both are of the same file,
    /// draws and images.
    fn keep_from(&mut self, old: Self) {
        let has_others = old.image_files.as_deref().is_some_and(|files| self.has_other_images(files));
        let (new, older) = (&mut self.metrics, old.metrics);
        let same = (&self.file, self.draws, new.images) == (&old.file, old.draws, older.images);
        if !same || self.file.is_none() || has_others {
            return;
        }
        if new.ablations.is_empty() {
            new.ablations = older.ablations;
        }
        if new.stability.is_empty() {
            new.stability = older.stability;
        }
        // Regions of other masks replace these; where none are known now, they stay.
        if new.masks == 0 {
            (new.masks, new.localization, new.regions) = (older.masks, older.localization, older.regions);
        }
        add_others(&mut new.removals, older.removals, |heights| heights.mode);
        add_others(&mut new.last, older.last, |kept| kept.tokens);
    }
}

/// Adds those of `older` with a key that none of `new` has, and sorts all by key.
fn add_others<T, K: Ord>(new: &mut Vec<T>, older: Vec<T>, key: impl Fn(&T) -> K) {
    let is_other = |old: &T| new.iter().all(|own| key(own) != key(old));
    let others: Vec<T> = older.into_iter().filter(is_other).collect();
    new.extend(others);
    new.sort_by_key(key);
}

impl RunMetrics {
    /// Adds newer evaluations, which replace those of the same probe or baseline; what they did not measure again stays.
    pub fn merge(&mut self, newer: Self) {
        for probe in newer.probes {
            let same = |old: &ProbeMetrics| {
                (&old.head, old.seed, old.which) == (&probe.head, probe.seed, probe.which)
            };
            match self.probes.iter().position(same) {
                Some(at) => {
                    let old = std::mem::replace(&mut self.probes[at], probe);
                    self.probes[at].keep_from(old);
                }
                None => self.probes.push(probe),
            }
        }
        // Each layer of a run has its own baselines.
        self.baselines.retain(|old| newer.baselines.iter().all(|new| new.layer != old.layer));
        self.baselines.extend(newer.baselines);
        // Earlier versions did not record the layer: such baselines count only if there are no others.
        let is_known = |baseline: &Baseline| baseline.layer.is_some();
        if self.baselines.iter().any(is_known) {
            self.baselines.retain(is_known);
        }
    }

    /// Forgets how the orders of a head agree over its seeds, one of which was trained again.
    fn forget_other_seeds(&mut self, head: &str, which: ProbeCheckpoint) {
        for probe in self.probes.iter_mut().filter(|probe| probe.head == head && probe.which == which) {
            probe.metrics.stability.retain(|kind| kind.name != OTHER_SEEDS);
        }
    }

    /// Removes probes whose file has changed since; returns a note on each.
    pub fn drop_stale(&mut self, run: &Run) -> Vec<String> {
        let stale: Vec<ProbeMetrics> = self.probes.extract_if(.., |probe| probe.is_stale(run)).collect();
        stale.iter().for_each(|probe| self.forget_other_seeds(&probe.head, probe.which));
        let note =
            |probe: &ProbeMetrics| format!("{}, seed {} ({})", probe.head, probe.seed, probe.which.name());
        stale.iter().map(note).collect()
    }

    /// Merges it into the file in the run's folder; returns the file's path. The `first` time of an evaluation, what the file has of a
    /// probe that was trained again is dropped, and what its other seeds agreed in: this evaluation may measure some of them only.
    pub fn keep(self, run: &Run, first: bool) -> Result<PathBuf, RunError> {
        let _lock = run.evaluation_lock()?;
        let mut all = read(run)?.unwrap_or_default();
        if first {
            all.drop_stale(run);
        }
        all.merge(self);
        // Who was asked first, and by whom, changes nothing.
        let place = |probe: &ProbeMetrics| {
            let head = run.manifest.heads.iter().position(|head| head.name == probe.head);
            let seed = run.manifest.seeds.iter().position(|seed| *seed == probe.seed);
            (probe.which, head, seed)
        };
        all.probes.sort_by_key(place);
        let path = run.folder().join(FILE);
        all.write(run).map_err(RunError::io("write", &path))?;
        Ok(path)
    }

    /// Writes it into the run's folder, atomically.
    pub fn write(&self, run: &Run) -> std::io::Result<()> {
        // Indented, most of the file would be blanks: it has numbers of every image.
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        temporary::write_again(&run.folder().join(FILE), &bytes) // a training may begin there meanwhile
    }
}

/// Reads the file in the run's folder, without regions of shuffled tokens; `None` if there is none.
pub fn read(run: &Run) -> Result<Option<RunMetrics>, RunError> {
    let path = run.folder().join(FILE);
    let bytes = if_there(atomic_file::read(&path, MAX_BYTES)).map_err(RunError::io("read", &path))?;
    let damaged = |found: String| RunError::Evaluation { path: path.clone(), found };
    let metrics = bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose();
    let mut metrics: Option<RunMetrics> = metrics.map_err(|error| damaged(error.to_string()))?;
    // It becomes the name of a file.
    let mut heads = metrics.iter().flat_map(|all| &all.probes).map(|probe| &probe.head);
    if let Some(head) = heads.find(|head| head.contains(['/', '\\'])) {
        return Err(damaged(format!("`{head}` names no head: those of the run have no slash")));
    }
    // Earlier versions took shuffled tokens for those of the patches at their places.
    if TokenSpec::is_shuffled(&run.manifest.tokens.layer) {
        for ProbeMetrics { metrics, .. } in metrics.iter_mut().flat_map(|all| &mut all.probes) {
            (metrics.masks, metrics.localization, metrics.regions) = (0, None, None);
        }
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::model::explain::evaluation::stability::StabilitySummary;

    #[test]
    fn an_evaluation_is_of_the_best_epoch_or_the_last() {
        let frozen = include_str!("../../../tests/fixtures/frozen/run/evaluation.json");
        let odd = frozen.replace(r#""which": "best""#, r#""which": "first""#);
        let refused = serde_json::from_str::<RunMetrics>(&odd).unwrap_err().to_string();
        assert!(refused.contains("unknown variant `first`, expected `best` or `last`"), "{refused}");
    }

    /// What a frozen run has of its probes, and a copy of the run without that, which lies in the folder.
    fn apart() -> (RunMetrics, Run, TempDir) {
        let frozen = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/run");
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(frozen.join("run.json"), folder.path().join("run.json")).unwrap();
        let metrics = read(&Run::open(&frozen).unwrap()).unwrap().unwrap();
        (metrics, Run::open(folder.path()).unwrap(), folder)
    }

    #[test]
    fn a_head_whose_name_leads_to_another_file_is_refused() {
        let (mut metrics, run, _folder) = apart();
        metrics.probes[1].head = "../../other".to_owned();
        metrics.write(&run).unwrap();
        let refused = read(&run).unwrap_err().to_string();
        assert!(refused.contains("evaluation.json: `../../other` names no head"), "{refused}");
    }

    #[test]
    fn probes_are_stored_in_the_order_of_the_run_whichever_was_evaluated_first() {
        let (RunMetrics { probes: best, .. }, run, _folder) = apart();
        let last = best.iter().map(|probe| ProbeMetrics { which: ProbeCheckpoint::Last, ..probe.clone() });
        let probes: Vec<ProbeMetrics> = best.iter().cloned().chain(last).collect();
        for probe in probes.iter().rev() {
            RunMetrics { probes: vec![probe.clone()], baselines: Vec::new() }.keep(&run, true).unwrap();
        }
        let order = |probes: Vec<ProbeMetrics>| {
            probes.into_iter().map(|probe| (probe.which, probe.head, probe.seed)).collect::<Vec<_>>()
        };
        assert_eq!(order(read(&run).unwrap().unwrap().probes), order(probes));
    }

    #[test]
    fn how_seeds_agree_is_forgotten_once_one_of_them_was_trained_again() {
        let probe = |seed: u64, file: &str, kinds: &[&str]| {
            let kind = |name: &&str| {
                let name = (*name).to_owned();
                StabilitySummary { name, mean: 0.5, spread: None, images: 1, null: (-0.1, 0.1) }
            };
            let metrics =
                Metrics { images: 1, stability: kinds.iter().map(kind).collect(), ..Metrics::default() };
            let (head, which) = ("sinkhorn".to_owned(), ProbeCheckpoint::Best);
            let file = Some(sha256::of_bytes(file.as_bytes()));
            ProbeMetrics { head, seed, which, file, image_files: None, draws: Some(0), metrics }
        };
        let frozen = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/run");
        let both = ["Darker", OTHER_SEEDS];
        // Of three seeds the second is trained again, or none; then come evaluations of some, one after the other.
        let kinds_after = |file: &str, evaluations: &[&[(u64, &[&str])]]| -> Vec<usize> {
            let folder = tempfile::tempdir().unwrap();
            std::fs::copy(frozen.join("run.json"), folder.path().join("run.json")).unwrap();
            let run = Run::open(folder.path()).unwrap();
            std::fs::create_dir(folder.path().join("probes")).unwrap();
            for (seed, content) in [(0, "a"), (1, file), (2, "c")] {
                std::fs::write(run.probe_path("sinkhorn", seed, ProbeCheckpoint::Best), content).unwrap();
            }
            let now = |seed: u64| ["a", file, "c"][seed as usize];
            let before = [(0, "a"), (1, "b"), (2, "c")].map(|(seed, file)| probe(seed, file, &both));
            RunMetrics { probes: before.into(), baselines: Vec::new() }.write(&run).unwrap();
            for (at, (seed, kinds)) in evaluations.iter().flat_map(|newer| newer.iter().enumerate()) {
                let probes = vec![probe(*seed, now(*seed), kinds)];
                RunMetrics { probes, baselines: Vec::new() }.keep(&run, at == 0).unwrap();
            }
            let mut all = read(&run).unwrap().unwrap().probes;
            all.sort_by_key(|probe| probe.seed);
            all.iter().map(|probe| probe.metrics.stability.len()).collect()
        };
        assert_eq!(kinds_after("b", &[&[(1, &[])]]), [2, 2, 2], "its file is the same");
        assert_eq!(kinds_after("new", &[&[(1, &[])]]), [1, 0, 1]);
        assert_eq!(
            kinds_after("new", &[&[(0, &both), (1, &both), (2, &both)]]),
            [2, 2, 2],
            "all are measured again"
        );
        assert_eq!(kinds_after("new", &[&[(0, &both), (1, &both)]]), [2, 2, 1], "one is not");
        let without = kinds_after("new", &[&[(0, &both), (2, &both)], &[(0, &both)]]);
        assert_eq!(without, [2, 2], "the second is never evaluated again");
    }
}
