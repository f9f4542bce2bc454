//! Finished evaluations as files beside the token caches: a request with the same inputs, also of a later window, is answered from
//! them. A file is named by a hash of everything that decides its numbers and is in memory; the request is hashed as a whole, so that
//! no field that is added is forgotten. What takes long to look at, tokens and regions, is part of the question that a file answers:
//! it is compared where there is such a file. As with the caches, each file belongs to its writer, and all who may read it do.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use super::{EvalProbe, EvalRequest, answer_file};
use crate::app::format::file_stem;
use crate::app::jobs::ExplainSettings;
use crate::app::jobs::engine::Engine;
use crate::model::explain::evaluation::{EvalSet, Evaluation};
use crate::model::explain::intervention::Intervention;
use crate::model::io::{sha256, temporary};

/// Most bytes of all files together, and of one that is read: those not used for longest are removed.
const MAX_BYTES: u64 = 4 << 30;
/// The extension of their names.
const EXTENSION: &str = "evaluation";

/// What decides the numbers of an evaluation, besides tokens, regions and what its removal curves need.
#[derive(Serialize)]
struct Inputs<'a> {
    /// This build of the program, whose numbers may differ from those of another.
    build: &'a str,
    /// The [`request_digest`].
    request: &'a str,
    /// The key of the backbone's reader.
    reader: &'a str,
    /// Name and SHA-256 of the probe's file.
    probe: (String, &'a str),
    change: &'a Intervention,
}

/// The digest of a request: images, classes, null bands and the source of regions. It leaves out probes, whose ids mean nothing to
/// another window, removal curves, in which the file's name ends, and settings that evaluations do not use.
pub(super) fn request_digest(spec: &EvalRequest) -> Option<String> {
    let settings = ExplainSettings { rho: None, ..spec.settings.without_attributions() };
    let (subjects, stored, removals) = (Vec::new(), Vec::new(), Vec::new());
    digest(&EvalRequest { subjects, settings, removals, stored, ..spec.clone() })
}

/// The file of the evaluation of a probe, `request` being the [`request_digest`]; `None` if one of the inputs is not known.
pub(super) fn file(
    engine: &Engine,
    (spec, request): (&EvalRequest, Option<&str>),
    subject: &EvalProbe,
) -> Option<PathBuf> {
    let open = engine.backbone(subject.backbone).ok()?;
    let probe = engine.probe(subject.probe).ok()?;
    let mut name = digest(&Inputs {
        build: engine.env.build?,
        request: request?,
        reader: &open.key,
        probe: (probe.name(), &probe.fingerprint),
        change: &subject.change,
    })?;
    if !spec.removals.is_empty() {
        // Images are told apart by the tokens' key. Another device rounds the encoder's products differently.
        let encoder = spec.removals.iter().any(|mode| mode.needs_encoder()).then_some(&open.hardware);
        name += &digest(&(&spec.removals, encoder))?;
    }
    Some((engine.env.tokens)()?.join(name).with_extension(EXTENSION))
}

/// The files that may answer in place of `file`, those used last first: with removal curves it alone, and without any with the same
/// inputs, as curves only add columns.
pub(super) fn candidates(file: &Path) -> Vec<PathBuf> {
    by_last_use(file.parent().unwrap_or(file), &file_stem(file)).into_iter().map(|(.., path)| path).collect()
}

/// SHA-256 of plain data; `None` if it contains a path that is not Unicode.
pub(super) fn digest(value: &impl Serialize) -> Option<String> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).ok()?;
    Some(sha256::of_bytes(&bytes))
}

/// What a file answers: its own name, so that no other is taken for it, and the digests of tokens and regions.
fn question(path: &Path, [tokens, regions]: [&str; 2]) -> String {
    format!("{} {tokens} {regions}", file_stem(path))
}

/// The evaluation in a file, marked as used now; `None` if it is damaged, or of other images, or of tokens or regions with other
/// digests.
pub(super) fn read(path: &Path, digests: [&str; 2], images: &Arc<EvalSet>) -> Option<Evaluation> {
    let found: Evaluation = answer_file::read(path, &question(path, digests), MAX_BYTES).ok()??;
    if found.set != *images {
        return None;
    }
    // It fails where the file is another user's.
    let _ = set_used(path, SystemTime::now());
    Some(Evaluation { set: images.clone(), ..found })
}

/// Sets when a file was used last. Opened to be written, without which Windows sets no time.
fn set_used(path: &Path, time: SystemTime) -> io::Result<()> {
    File::options().append(true).open(path)?.set_modified(time)
}

/// Writes an evaluation to its file, and removes others if all take more than [`MAX_BYTES`].
pub(super) fn write(path: &Path, digests: [&str; 2], evaluation: &Evaluation) -> anyhow::Result<()> {
    answer_file::write(path, &question(path, digests), evaluation)?;
    remove_oldest(path.parent().unwrap_or(path), MAX_BYTES);
    Ok(())
}

/// Removes all evaluations in the folder of all token caches; how many bytes they took.
pub fn clear(root: &Path) -> u64 {
    remove_oldest(root, 0)
}

/// For each evaluation in `folder` whose name starts with `begin`: when it was last used, its size in bytes and its path; the
/// most recently used first.
fn by_last_use(folder: &Path, begin: &str) -> Vec<(SystemTime, u64, PathBuf)> {
    let file = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok().filter(|entry| entry.file_name().to_string_lossy().starts_with(begin))?;
        let path = entry.path();
        let metadata =
            path.extension().filter(|end| *end == EXTENSION).and_then(|_| entry.metadata().ok())?;
        Some((metadata.modified().ok()?, metadata.len(), path))
    };
    let mut files: Vec<_> = fs::read_dir(folder).into_iter().flatten().filter_map(file).collect();
    files.sort_by_key(|(used, ..)| Reverse(*used));
    files
}

/// Removes the least recently used evaluations of a folder, so that the rest takes at most `max_bytes`; returns how many bytes they
/// took. Also removes what killed processes have left.
fn remove_oldest(folder: &Path, max_bytes: u64) -> u64 {
    let _ = temporary::tidy(folder, temporary::LEFT_AFTER); // it fails in a folder that is not there, or another user's
    let (mut total, mut freed) = (0, 0);
    for (_, length, path) in by_last_use(folder, "") {
        total += length;
        // It fails if another process has just removed it, or where it is another user's.
        if total > max_bytes && fs::remove_file(path).is_ok() {
            freed += length;
        }
    }
    freed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::io::atomic_file;

    #[test]
    fn evaluations_not_used_for_longest_make_room_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let names = ["a.evaluation", "b.evaluation", "c.evaluation", "other"];
        for (age, name) in [2, 0, 1, 9, 2].into_iter().zip(names.into_iter().chain([".ssmprobe-killed"])) {
            atomic_file::write(&at(name), &[0; 10]).unwrap();
            set_used(&at(name), SystemTime::now() - Duration::from_hours(age)).unwrap();
        }
        assert_eq!(remove_oldest(folder.path(), 30), 0);
        assert!(names.iter().all(|name| at(name).exists()) && !at(".ssmprobe-killed").exists());
        assert_eq!(remove_oldest(folder.path(), 29), 10);
        assert_eq!(names.map(|name| at(name).exists()), [false, true, true, true]);
        assert_eq!(remove_oldest(folder.path(), 10), 10);
        assert_eq!(names.map(|name| at(name).exists()), [false, true, false, true]);
        assert_eq!((remove_oldest(folder.path(), 0), clear(folder.path())), (10, 0));
    }

    #[test]
    fn a_file_answers_its_own_question_alone() {
        let root = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| root.path().join(name).with_extension(EXTENSION));
        let images = Arc::new(EvalSet { dataset: "birds".into(), ..EvalSet::default() });
        let grid = crate::model::grid::Grid::new(1, 2);
        let evaluation = Evaluation { set: images.clone(), grid, ..Evaluation::default() };
        write(&own, ["tokens", "regions"], &evaluation).unwrap();
        let long_ago = SystemTime::now() - Duration::from_hours(9);
        set_used(&own, long_ago).unwrap();
        assert_eq!(read(&own, ["tokens", "regions"], &images), Some(evaluation));
        assert!(own.metadata().unwrap().modified().unwrap() > long_ago, "it has been used now");
        for digests in [["others", "regions"], ["tokens", "others"]] {
            assert_eq!(read(&own, digests, &images), None, "{digests:?}");
        }
        let others = Arc::new(EvalSet { dataset: "fish".into(), ..EvalSet::default() });
        assert_eq!(read(&own, ["tokens", "regions"], &others), None, "of other images");
        fs::copy(&own, &other).unwrap();
        assert_eq!(read(&other, ["tokens", "regions"], &images), None, "the file of another");
        let mut damaged = fs::read(&own).unwrap();
        *damaged.last_mut().unwrap() ^= 1;
        atomic_file::write(&own, &damaged).unwrap();
        assert_eq!(read(&own, ["tokens", "regions"], &images), None, "a bit is flipped");
    }
}
