//! What `ssmprobe eval` found out about a run's probes: `evaluation.json` in the run's folder.

use std::io::ErrorKind;

use serde::{Deserialize, Serialize};

use crate::model::anchors::Anchor;
use crate::model::evaluation::Evaluation;
use crate::model::run::{Run, RunError};
use crate::model::whole;

/// The file's name in a run's folder.
pub const FILE: &str = "evaluation.json";

/// Everything that was asked so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluations {
    /// Probe by probe.
    pub probes: Vec<Evaluated>,
    /// Anchors on the same tokens.
    #[serde(default)]
    pub anchors: Vec<Anchor>,
}

/// One probe on the run's test images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// Name of the variant.
    pub head: String,
    /// Its seed.
    pub seed: u64,
    /// `best` or `last`.
    pub which: String,
    /// What came out.
    pub evaluation: Evaluation,
}

impl Evaluations {
    /// Takes in what is newer: a probe or an anchor that was asked again replaces what it said.
    pub fn merge(&mut self, newer: Self) {
        for probe in newer.probes {
            let same = |old: &Evaluated| {
                (&old.head, old.seed, &old.which) == (&probe.head, probe.seed, &probe.which)
            };
            match self.probes.iter().position(same) {
                Some(at) => {
                    let old = std::mem::replace(&mut self.probes[at], probe);
                    // Ablations that were not asked again stay.
                    let new = &mut self.probes[at].evaluation;
                    if new.ablations.is_empty() {
                        new.ablations = old.evaluation.ablations;
                    }
                }
                None => self.probes.push(probe),
            }
        }
        if !newer.anchors.is_empty() {
            self.anchors = newer.anchors;
        }
    }

    /// Writes it into the run's folder, whole or not at all.
    pub fn write(&self, run: &Run) -> std::io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        whole::write(&run.folder().join(FILE), &bytes)
    }
}

/// What is in the run's folder; `None` where nothing was asked yet.
pub fn read(run: &Run) -> Result<Option<Evaluations>, RunError> {
    let path = run.folder().join(FILE);
    match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RunError::Io { what: "read", path, source }),
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| RunError::Damaged { path, found: error.to_string() }),
    }
}
