//! Finished evaluations as files beside the token caches: a request with the same inputs, also of a later window, is answered from
//! them. A file is named by a hash of everything that decides its numbers and is in memory; the request is hashed as a whole, so that
//! no field that is added is forgotten. What takes long to look at, tokens and regions, is part of the question that a file answers:
//! it is compared where there is such a file.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use super::{EvalProbe, EvalRequest, answer_file};
use crate::app::jobs::engine::Engine;
use crate::model::explain::evaluation::{EvalSet, Evaluation};
use crate::model::explain::intervention::Intervention;
use crate::model::io::{sha256, temporary};

/// Most bytes of all files together, and of one that is read: those not used for longest are removed.
const MAX_BYTES: u64 = 4 << 30;
/// Their folder, in that of all token caches.
const FOLDER: &str = "evaluations";
/// The extension of their names.
const EXTENSION: &str = "evaluation";

/// What decides the numbers of an evaluation, besides tokens and regions.
#[derive(Serialize)]
struct Inputs<'a> {
    /// This build of the program, whose numbers may differ from those of another.
    build: &'a str,
    /// The digest of the [`request`].
    request: &'a str,
    /// The key of the backbone's reader.
    reader: &'a str,
    /// Name and SHA-256 of the probe's file.
    probe: (String, &'a str),
    change: &'a Intervention,
}

/// The digest of a request: images, classes, null bands, the source of regions and modes of removal curves. Without probes, whose
/// ids mean nothing to another window, and attributions, which evaluations have none of.
pub(super) fn request(spec: &EvalRequest) -> Option<String> {
    let settings = spec.settings.without_attributions();
    digest(&EvalRequest { subjects: Vec::new(), stored: Vec::new(), settings, ..spec.clone() })
}

/// The file of the evaluation of a probe, `request` being the digest of its [`request`]; `None` if one of the inputs is not known, or
/// if removal curves need the encoder, whose numbers depend on the device.
pub(super) fn file(
    engine: &Engine,
    (spec, request): (&EvalRequest, Option<&str>),
    subject: &EvalProbe,
) -> Option<PathBuf> {
    let open = engine.backbone(subject.backbone).ok()?;
    let probe = engine.probe(subject.probe).ok()?;
    if spec.removals.iter().any(|mode| mode.needs_encoder()) {
        return None;
    }
    let name = digest(&Inputs {
        build: engine.env.build?,
        request: request?,
        reader: &open.key,
        probe: (probe.name(), &probe.fingerprint),
        change: &subject.change,
    })?;
    Some((engine.env.tokens)()?.join(FOLDER).join(name).with_extension(EXTENSION))
}

/// SHA-256 of plain data; `None` if it contains a path that is not Unicode.
pub(super) fn digest(value: &impl Serialize) -> Option<String> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).ok()?;
    Some(sha256::of_bytes(&bytes))
}

/// What a file answers: its own name, so that no other is taken for it, and the digests of tokens and regions.
fn question(path: &Path, [tokens, regions]: [&str; 2]) -> String {
    format!("{} {tokens} {regions}", path.file_stem().unwrap_or_default().display())
}

/// The evaluation in a file, which is named after its `images` too, marked as used now; `None` if it is damaged, or of tokens or
/// regions with other digests.
pub(super) fn read(path: &Path, digests: [&str; 2], images: &Arc<EvalSet>) -> Option<Evaluation> {
    let (asked, found): (_, Evaluation) = answer_file::read(path, MAX_BYTES).ok()?;
    let is_same = asked == question(path, digests);
    // It fails where nothing can be written, and so nothing is removed.
    let _ = set_used(path, SystemTime::now());
    is_same.then(|| Evaluation { asked: images.clone(), ..found })
}

/// Sets when a file was used last. Opened to be written, without which Windows sets no time.
fn set_used(path: &Path, time: SystemTime) -> io::Result<()> {
    File::options().append(true).open(path)?.set_modified(time)
}

/// Writes an evaluation to its file, and removes others if all take more than [`MAX_BYTES`].
pub(super) fn keep(path: &Path, digests: [&str; 2], evaluation: &Evaluation) -> anyhow::Result<()> {
    answer_file::write(path, &question(path, digests), evaluation, MAX_BYTES)?;
    remove_oldest(path.parent().unwrap_or(path), MAX_BYTES);
    Ok(())
}

/// Removes all evaluations below the folder of all token caches; how many bytes they took.
pub fn clear(root: &Path) -> u64 {
    remove_oldest(&root.join(FOLDER), 0)
}

/// Removes the evaluations in a folder that were not used for longest, so that the rest takes at most `max_bytes`; how many bytes they
/// took. Also removes what killed processes have left.
fn remove_oldest(folder: &Path, max_bytes: u64) -> u64 {
    let _ = temporary::tidy(folder, temporary::LEFT_AFTER); // it fails in a folder that is not there, or another user's
    let file = |entry: io::Result<fs::DirEntry>| {
        let entry =
            entry.ok().filter(|entry| entry.path().extension().is_some_and(|end| end == EXTENSION))?;
        let metadata = entry.metadata().ok()?;
        Some((metadata.modified().ok()?, metadata.len(), entry.path()))
    };
    let mut files: Vec<_> = fs::read_dir(folder).into_iter().flatten().filter_map(file).collect();
    files.sort_by_key(|(used, ..)| Reverse(*used));
    let (mut total, mut freed) = (0, 0);
    for (_, length, path) in files {
        total += length;
        // It fails if another process has just removed it.
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
        let evaluation = Evaluation { asked: images.clone(), grid, ..Evaluation::default() };
        keep(&own, ["tokens", "regions"], &evaluation).unwrap();
        assert_eq!(read(&own, ["tokens", "regions"], &images), Some(evaluation));
        for digests in [["others", "regions"], ["tokens", "others"]] {
            assert_eq!(read(&own, digests, &images), None, "{digests:?}");
        }
        fs::copy(&own, &other).unwrap();
        assert_eq!(read(&other, ["tokens", "regions"], &images), None, "the file of another");
        let mut damaged = fs::read(&own).unwrap();
        *damaged.last_mut().unwrap() ^= 1;
        atomic_file::write(&own, &damaged).unwrap();
        assert_eq!(read(&own, ["tokens", "regions"], &images), None, "a bit is flipped");
    }
}
