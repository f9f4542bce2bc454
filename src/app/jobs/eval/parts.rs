//! Evaluations divided into parts of the images: every part stores the answers for its images in one file per probe.
//! Joining adds the answers image by image, in the order of an undivided evaluation, so that all sums are equal to the
//! bit.
//!
//! ```text
//! digest   SHA-256 of the body, 32 bytes
//! body     CBOR: digest of the question, and the answers so far
//! ```

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::EvalFlags;
use crate::app::format::counted;
use crate::app::jobs::engine::Engine;
use crate::app::jobs::evaluate::{Asking, ask_some, ask_to};
use crate::app::jobs::part::{Part, part_folder};
use crate::app::jobs::{JobError, Reporter};
use crate::model::explain::evaluation::EvalSet;
use crate::model::explain::evaluation::answer::Answer;
use crate::model::explain::evaluation::evaluator::Evaluator;
use crate::model::io::{atomic_file, sha256};

/// Upper bound on the size of such a file in bytes.
const MAX_BYTES: u64 = 1 << 36;
/// Interval between writes of the answers; they are also written when done or cancelled.
const SAVE_INTERVAL: Duration = Duration::from_mins(5);
/// Size of the digest in bytes.
const DIGEST: usize = 32;

/// The stored answers of one probe for a part of the images.
pub(super) struct PartFile {
    path: PathBuf,
    /// [`question_digest`] of what the probe is evaluated on.
    question: String,
    images: Range<usize>,
}

/// The body of the file; `A` is a slice for writing and a vector for reading.
#[derive(Serialize, Deserialize)]
struct Body<A> {
    asked: String,
    answers: A,
}

/// SHA-256 of everything the answers depend on: the version, the probe's file, the tokens, the images and the flags.
pub(super) fn question_digest(
    flags: &EvalFlags,
    (probe, tokens): (&str, &str),
    (images, image_seeds): (&EvalSet, &[u64]),
) -> String {
    let EvalFlags { ablations, causal, keep_last, reading, seed, masks, .. } = flags;
    let (files, reading) = (flags.evaluation.is_some(), reading.to_string());
    let how = (ablations, causal, keep_last, reading, seed, masks, files);
    let all = (env!("CARGO_PKG_VERSION"), probe, tokens, images, image_seeds, how);
    sha256::of_bytes(&serde_json::to_vec(&all).expect("plain data serialises"))
}

impl PartFile {
    /// The file of part `part` for the probe `name`, under the folder `home`; `images` is the number of all images.
    pub(super) fn new(home: &Path, part: Part, name: &str, question: &str, images: usize) -> Self {
        let path = part_folder(home, part.index).join(format!("{name}.answers"));
        Self { path, question: question.to_owned(), images: part.range(images) }
    }

    /// Evaluates the images of this part, except those answered before an earlier stop or kill, and stores the answers.
    ///
    /// # Errors
    /// If it is cancelled (answers are stored), the probe cannot be evaluated, or the file cannot be written.
    pub(super) fn evaluate(
        &self,
        engine: &mut Engine,
        evaluator: &Evaluator<'_>,
        asking: Asking<'_>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), JobError> {
        let mut answers = match self.path.exists() {
            true => self.read().unwrap_or_else(|why| {
                reporter.warn(format!("{why:#}; its images are evaluated again"));
                Vec::new()
            }),
            false => Vec::new(),
        };
        let (mut saved, before) = (Instant::now(), answers.len());
        let result =
            ask_some(engine, evaluator, self.images.clone(), &mut answers, (asking, reporter), &mut |all| {
                if saved.elapsed() < SAVE_INTERVAL {
                    return Ok(());
                }
                saved = Instant::now();
                self.write(all)
            });
        if answers.len() > before || !self.path.exists() {
            self.write(&answers)?;
        }
        result
    }

    /// Adds the stored answers to `evaluator`, whose next image must be the first of this part. Images without a stored
    /// answer are evaluated now, with a warning.
    pub(super) fn join(
        &self,
        engine: &mut Engine,
        evaluator: &mut Evaluator<'_>,
        asking: Asking<'_>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), JobError> {
        match self.read() {
            Ok(answers) => {
                if answers.len() < self.images.len() {
                    let all = counted(self.images.len(), "image", "images");
                    let (done, path) = (answers.len(), self.path.display());
                    reporter.warn(format!("{path}: contains {done} of {all}; the others are evaluated now"));
                }
                evaluator.take(answers);
            }
            Err(why) => reporter.warn(format!("{why:#}; its images are evaluated again")),
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
            bail!("{shown}: is damaged: its digest does not match its contents");
        }
        let body: Body<Vec<Option<Answer>>> =
            ciborium::from_reader(body).with_context(|| format!("{shown}: contains no answers"))?;
        if body.asked != self.question || body.answers.len() > self.images.len() {
            bail!("{shown}: is from another evaluation, with a different probe, dataset or flag");
        }
        Ok(body.answers)
    }

    /// Writes all answers so far.
    fn write(&self, answers: &[Option<Answer>]) -> anyhow::Result<()> {
        let mut bytes = vec![0; DIGEST];
        ciborium::into_writer(&Body { asked: self.question.clone(), answers }, &mut bytes)?;
        let digest = Sha256::digest(&bytes[DIGEST..]);
        bytes[..DIGEST].copy_from_slice(&digest);
        let folder = self.path.parent().unwrap_or(&self.path);
        let written = atomic_file::make_folder(folder).and_then(|()| atomic_file::write(&self.path, &bytes));
        written.with_context(|| format!("{}: cannot be written", self.path.display()))
    }
}

/// Removes the folders of `parts` parts under `home`.
pub(super) fn remove(home: &Path, parts: usize) -> anyhow::Result<()> {
    for folder in (0..parts).map(|index| part_folder(home, index)).filter(|folder| folder.exists()) {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("{}: cannot be removed", folder.display()))?;
    }
    Ok(())
}
