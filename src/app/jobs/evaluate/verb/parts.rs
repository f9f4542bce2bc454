//! Evaluations divided into parts of the images: every part stores the answers for its images in one file per probe.
//! Joining adds the answers image by image, in the order of an undivided evaluation, so that all sums are equal to the
//! bit.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::EvalFlags;
use crate::app::format::counted;
use crate::app::jobs::engine::Engine;
use crate::app::jobs::evaluate::answer_file;
use crate::app::jobs::evaluate::batches::{EvalContext, evaluate_range, evaluate_until};
use crate::app::jobs::part::{Part, part_folder};
use crate::app::jobs::{JobError, Reporter};
use crate::model::explain::evaluation::EvalSet;
use crate::model::explain::evaluation::answer::Answer;
use crate::model::explain::evaluation::evaluator::Evaluator;
use crate::model::io::{is_of_file, sha256};
use crate::model::regions::Regions;

/// Upper bound on the size of such a file in bytes.
const MAX_BYTES: u64 = 1 << 36;
/// Interval between writes of the answers; they are also written when done or cancelled.
const SAVE_INTERVAL: Duration = Duration::from_mins(5);

/// The stored answers of one probe for a part of the images.
pub(super) struct PartFile {
    path: PathBuf,
    /// [`question_of_part`] of what the probe is evaluated on.
    question: String,
    images: Range<usize>,
}

/// SHA-256 of what the answers of all parts depend on: the version, the probe's file, the tokens and the configuration of the backbone
/// that makes them, the images' names and the flags.
pub(super) fn question_digest(
    flags: &EvalFlags,
    (probe, tokens, config): (&str, &str, Option<&str>),
    (images, image_seeds): (&EvalSet, &[u64]),
) -> String {
    let EvalFlags { ablations, causal, keep_last, reading, seed, masks, .. } = flags;
    let (files, reading) = (flags.evaluation.is_some(), reading.to_string());
    let how = (ablations, causal, keep_last, reading, seed, masks, files);
    let all = (env!("CARGO_PKG_VERSION"), probe, tokens, config, images, image_seeds, how);
    sha256::of_bytes(&serde_json::to_vec(&all).expect("plain data serialises"))
}

/// SHA-256 of a part's question: that of all parts, and what is in the files of its own images and their masks.
pub(super) fn question_of_part(
    all: &str,
    images: &[Option<&Option<String>>],
    regions: &[Option<Regions>],
) -> String {
    sha256::of_bytes(&serde_json::to_vec(&(all, images, regions)).expect("plain data serialises"))
}

impl PartFile {
    /// The file of part `part` for the probe `name`, under the folder `home`; `images` is the number of all images.
    pub(super) fn new(home: &Path, part: Part, name: &str, question: String, images: usize) -> Self {
        let path = part_folder(home, part.index).join(format!("{name}.answers"));
        Self { path, question, images: part.range(images) }
    }

    /// Evaluates the images of this part, except those answered before an earlier stop or kill, and stores the answers.
    ///
    /// # Errors
    /// If it is cancelled (answers are stored), the probe cannot be evaluated, or the file cannot be written.
    pub(super) fn evaluate(
        &self,
        engine: &mut Engine,
        evaluator: &Evaluator<'_>,
        context: EvalContext<'_>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), JobError> {
        let mut answers = match self.read() {
            Ok(answers) => answers,
            Err(why) => {
                let why = unless_of_disk(why)?;
                if self.path.exists() {
                    reporter.warn(format!("{why:#}; its images are evaluated again"));
                }
                Vec::new()
            }
        };
        let (mut saved, before) = (Instant::now(), answers.len());
        let mut save = |all: &[Option<Answer>]| {
            if saved.elapsed() < SAVE_INTERVAL {
                return Ok(());
            }
            saved = Instant::now();
            self.write(all)
        };
        let (images, answered) = (self.images.clone(), &mut answers);
        let result = evaluate_range(engine, evaluator, images, answered, (context, reporter), &mut save);
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
        context: EvalContext<'_>,
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
            Err(why) => {
                reporter.warn(format!("{:#}; its images are evaluated again", unless_of_disk(why)?));
            }
        }
        evaluate_until(engine, evaluator, self.images.end, context, reporter)
    }

    fn read(&self) -> anyhow::Result<Vec<Option<Answer>>> {
        // In boxes until they are counted: an absent answer is one byte there, and in memory as large as any other.
        let answers: Option<Vec<Option<Box<Answer>>>> =
            answer_file::read(&self.path, &self.question, MAX_BYTES)?;
        let Some(answers) = answers.filter(|answers| answers.len() <= self.images.len()) else {
            let shown = self.path.display();
            bail!(
                "{shown}: is from another evaluation, with a different probe, backbone, image, mask or flag"
            );
        };
        Ok(answers.into_iter().map(|answer| answer.map(|answer| *answer)).collect())
    }

    fn write(&self, answers: &[Option<Answer>]) -> anyhow::Result<()> {
        answer_file::write(&self.path, &self.question, answers)
    }
}

/// The reason why a file cannot be used; an error if it may be whole and its disk does not give it: hours of answers would be lost.
fn unless_of_disk(why: anyhow::Error) -> anyhow::Result<anyhow::Error> {
    match why.downcast_ref::<io::Error>() {
        Some(error) if !is_of_file(error.kind()) => Err(why),
        _ => Ok(why),
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

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    #[test]
    fn answers_to_another_question_and_more_than_there_are_images_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = |question: &str, images| {
            let part = Part { index: 0, of: 1 };
            PartFile::new(folder.path(), part, "gap", question.to_owned(), images)
        };
        file("all", 3).write(&[None, None, None]).unwrap();
        assert_eq!(file("all", 3).read().unwrap(), [None, None, None]);
        for (question, images) in [("all", 2), ("others", 3)] {
            let refused = file(question, images).read().unwrap_err().to_string();
            assert!(refused.contains("gap.answers: is from another evaluation"), "{refused}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn answers_that_a_disk_does_not_give_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = PartFile::new(folder.path(), Part { index: 0, of: 1 }, "gap", "all".to_owned(), 3);
        assert!(unless_of_disk(file.read().unwrap_err()).is_ok(), "it is not there");
        file.write(&[None]).unwrap();
        crate::model::io::atomic_file::write(&file.path, b"damaged").unwrap();
        assert!(unless_of_disk(file.read().unwrap_err()).is_ok());
        std::fs::remove_file(&file.path).unwrap();
        std::os::unix::fs::symlink(&file.path, &file.path).unwrap(); // a link to itself cannot be followed
        assert!(unless_of_disk(file.read().unwrap_err()).is_err());
    }

    #[test]
    fn answers_on_tokens_of_a_changed_configuration_are_not_joined() {
        let typed = EvalFlags::augment_args(Command::new("eval")).get_matches_from(["eval"]);
        let (flags, images) = (EvalFlags::from_arg_matches(&typed).unwrap(), EvalSet::default());
        let question =
            |config: &str| question_digest(&flags, ("probe", "tokens", Some(config)), (&images, &[]));
        assert_eq!(question("epsilon 1e-6"), question("epsilon 1e-6"));
        assert_ne!(question("epsilon 1e-6"), question("epsilon 1e-5"));
    }
}
