//! Evaluations cut into parts of the images: every part stores the answers for its images in a file per probe, and joining
//! them adds these image by image, in the order of an evaluation that is not cut, so that all sums are equal bit for
//! bit.
//!
//! ```text
//! digest   SHA-256 of all that follows, 32 bytes
//! body     CBOR: what was asked, and the answers so far
//! ```

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::EvalFlags;
use crate::app::jobs::engine::Engine;
use crate::app::jobs::evaluate::{Asking, ask_some, ask_to};
use crate::app::jobs::part::{Part, part_folder};
use crate::app::jobs::{JobError, Reporter};
use crate::model::explain::evaluation::EvalSet;
use crate::model::explain::evaluation::answer::Answer;
use crate::model::explain::evaluation::evaluator::Evaluator;
use crate::model::io::{atomic_file, sha256};

/// Upper bound of such a file in bytes.
const MAX_BYTES: u64 = 1 << 36;
/// Interval between writes of the answers; they are also written when done or cancelled.
const SAVE: Duration = Duration::from_mins(5);
/// Bytes of the digest.
const DIGEST: usize = 32;

/// The stored answers of one probe for a part of the images.
pub(super) struct PartFile {
    path: PathBuf,
    asked: String,
    images: Range<usize>,
}

/// The body, as it is written and as it is read.
#[derive(Serialize, Deserialize)]
struct Body<A> {
    asked: String,
    answers: A,
}

/// A short digest of everything the answers depend on: the probe's file, the tokens, the images and the flags.
pub(super) fn question(
    flags: &EvalFlags,
    (probe, tokens): (&str, &str),
    (images, draws): (&EvalSet, &[u64]),
) -> String {
    let EvalFlags { ablations, causal, keep_last, reading, seed, masks, .. } = flags;
    let (files, reading) = (flags.evaluation.is_some(), reading.to_string());
    let how = (ablations, causal, keep_last, reading, seed, masks, files);
    let all = (env!("CARGO_PKG_VERSION"), probe, tokens, images, draws, how);
    sha256::of_bytes(&serde_json::to_vec(&all).expect("plain data serialises"))
}

impl PartFile {
    /// That of the probe called `name`, in the folder of the tasks.
    pub(super) fn new(home: &Path, part: Part, name: &str, asked: &str, images: usize) -> Self {
        let path = part_folder(home, part.index).join(format!("{name}.answers"));
        Self { path, asked: asked.to_owned(), images: part.range(images) }
    }

    /// Evaluates the images of this part, except those already answered before a stop or kill.
    ///
    /// # Errors
    /// If it is cancelled (answers are kept), the probe cannot be evaluated, or the file cannot be written.
    pub(super) fn ask(
        &self,
        engine: &mut Engine,
        evaluator: &Evaluator<'_>,
        asking: Asking<'_>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), JobError> {
        let mut answers = match self.path.exists() {
            true => self.read().unwrap_or_else(|why| {
                reporter.warn(format!("{why:#}; its images are asked about again"));
                Vec::new()
            }),
            false => Vec::new(),
        };
        let (mut saved, before) = (Instant::now(), answers.len());
        let ended =
            ask_some(engine, evaluator, self.images.clone(), &mut answers, (asking, reporter), &mut |all| {
                if saved.elapsed() < SAVE {
                    return Ok(());
                }
                saved = Instant::now();
                self.write(all)
            });
        if answers.len() > before || !self.path.exists() {
            self.write(&answers).map_err(JobError::Failed)?;
        }
        ended
    }

    /// Lets `evaluator`, which has come to the first of its images, take in what was found about them; those of which
    /// nothing is known are asked about now, and that is told.
    ///
    /// # Errors
    /// If it was ended, or the probe cannot be asked.
    pub(super) fn take(
        &self,
        engine: &mut Engine,
        evaluator: &mut Evaluator<'_>,
        asking: Asking<'_>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), JobError> {
        match self.read() {
            Ok(answers) => {
                if answers.len() < self.images.len() {
                    let (done, all, path) = (answers.len(), self.images.len(), self.path.display());
                    reporter.warn(format!(
                        "{path}: holds {done} of {all} images; the others are asked about now"
                    ));
                }
                evaluator.take(answers);
            }
            Err(why) => reporter.warn(format!("{why:#}; its images are asked about again")),
        }
        ask_to(engine, evaluator, self.images.end, asking, reporter)
    }

    /// The answers stored so far.
    fn read(&self) -> anyhow::Result<Vec<Option<Answer>>> {
        let shown = self.path.display();
        let bytes =
            atomic_file::read(&self.path, MAX_BYTES).with_context(|| format!("{shown}: cannot be read"))?;
        let Some((digest, body)) = bytes.split_at_checked(DIGEST) else {
            bail!("{shown}: has {} bytes, expected more than {DIGEST}", bytes.len());
        };
        if Sha256::digest(body).as_slice() != digest {
            bail!("{shown}: is damaged: its bytes have another digest than it says");
        }
        let body: Body<Vec<Option<Answer>>> =
            ciborium::from_reader(body).with_context(|| format!("{shown}: holds no answers"))?;
        if body.asked != self.asked || body.answers.len() > self.images.len() {
            bail!("{shown}: was asked something else, with another probe, dataset or flag");
        }
        Ok(body.answers)
    }

    fn write(&self, answers: &[Option<Answer>]) -> anyhow::Result<()> {
        let mut bytes = vec![0; DIGEST];
        ciborium::into_writer(&Body { asked: self.asked.clone(), answers }, &mut bytes)?;
        let digest = Sha256::digest(&bytes[DIGEST..]);
        bytes[..DIGEST].copy_from_slice(&digest);
        let folder = self.path.parent().unwrap_or(&self.path);
        let written = atomic_file::make_folder(folder).and_then(|()| atomic_file::write(&self.path, &bytes));
        written.with_context(|| format!("{}: cannot be written", self.path.display()))
    }
}

/// Removes the files of `parts` parts.
///
/// # Errors
/// If a file cannot be removed.
pub(super) fn remove(home: &Path, parts: usize) -> anyhow::Result<()> {
    for folder in (0..parts).map(|index| part_folder(home, index)).filter(|folder| folder.exists()) {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("{}: cannot be removed", folder.display()))?;
    }
    Ok(())
}
