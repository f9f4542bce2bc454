//! Results of a run's probes, stored in its folder as they come.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::EvaluatedProbe;
use crate::app::jobs::run_metrics::{ProbeMetrics, RunMetrics};
use crate::model::explain::baselines::Baseline;
use crate::model::train::run::{Run, RunError};

/// Results whose storing takes less than this are stored after every probe.
const QUICK: Duration = Duration::from_secs(1);
/// Storing results that takes longer is repeated after this many times as long.
const STORE_SHARE: u32 = 10;

/// Stores results at once, so that a kill or a full disk after hours costs one probe. The file is written whole; where it has
/// grown large, that takes a tenth of the time at most.
pub(super) struct RunResults<'a> {
    /// Without a run, nothing is stored.
    run: Option<&'a Run>,
    /// Identifies the files of the evaluated images, if they are known.
    image_files: Option<String>,
    /// What is not stored yet.
    unstored: RunMetrics,
    /// Whether nothing was stored yet.
    is_first: bool,
    /// When results were stored last.
    stored: Instant,
    /// How long that took.
    took: Duration,
}

impl<'a> RunResults<'a> {
    pub fn new(run: Option<&'a Run>, image_files: Option<String>) -> Self {
        Self {
            run,
            image_files,
            unstored: RunMetrics::default(),
            is_first: true,
            stored: Instant::now(),
            took: Duration::ZERO,
        }
    }

    /// Adds the results of a probe, whose random draws were seeded with `draws`; those of a probe of no run are not kept.
    pub fn add(&mut self, answer: &EvaluatedProbe, draws: u64) -> Result<(), RunError> {
        let EvaluatedProbe { file, sha256, metrics } = answer;
        let Some((head, seed, which)) = file.of.clone() else { return Ok(()) };
        let metrics = metrics.clone();
        let (file, image_files) = (Some(sha256.clone()), self.image_files.clone());
        let probe = ProbeMetrics { head, seed, which, file, image_files, draws: Some(draws), metrics };
        self.unstored.probes.push(probe);
        if is_due(self.stored.elapsed(), self.took) {
            self.store()?;
        }
        Ok(())
    }

    /// Replaces the run's baselines on the same tokens, if there are any.
    pub fn set_baselines(&mut self, baselines: Vec<Baseline>) {
        let of_images = |baseline| Baseline { image_files: self.image_files.clone(), ..baseline };
        self.unstored.baselines = baselines.into_iter().map(of_images).collect();
    }

    /// Stores what is not stored yet; returns the run's file.
    pub fn store(&mut self) -> Result<Option<PathBuf>, RunError> {
        let Some(run) = self.run else { return Ok(None) };
        let begun = Instant::now();
        let path = self.unstored.clone().keep(run, self.is_first)?; // where that fails it is tried again at the end
        (self.unstored, self.is_first) = (RunMetrics::default(), false);
        (self.stored, self.took) = (Instant::now(), begun.elapsed());
        Ok(Some(path))
    }
}

impl Drop for RunResults<'_> {
    /// Stores the rest where the job ends with an error, which is the one to tell.
    fn drop(&mut self) {
        if !self.unstored.probes.is_empty() {
            let _ = self.store();
        }
    }
}

/// Whether results are stored again: the last time was `since` ago, and `took` this long.
fn is_due(since: Duration, took: Duration) -> bool {
    took < QUICK || since >= STORE_SHARE * took
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::run_metrics;

    #[test]
    fn results_are_stored_at_once_until_that_takes_long() {
        let seconds = Duration::from_secs;
        assert!(is_due(Duration::ZERO, Duration::from_millis(20)));
        assert!(!is_due(seconds(60), seconds(8)) && is_due(seconds(80), seconds(8)));
    }

    #[test]
    fn results_that_a_disk_refused_for_a_moment_are_stored_at_the_end() {
        let frozen = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/run");
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(frozen.join("run.json"), folder.path().join("run.json")).unwrap();
        let run = Run::open(folder.path()).unwrap();
        let mut results = RunResults::new(Some(&run), None);
        results.unstored = run_metrics::read(&Run::open(&frozen).unwrap()).unwrap().unwrap();
        let probes = results.unstored.probes.len();
        let in_the_way = folder.path().join(run_metrics::FILE);
        std::fs::create_dir(&in_the_way).unwrap();
        assert!(results.store().is_err());
        std::fs::remove_dir(&in_the_way).unwrap();
        drop(results);
        assert_eq!(run_metrics::read(&run).unwrap().map(|stored| stored.probes.len()), Some(probes));
    }
}
