//! Exports a training to TensorBoard: the numbers of `metrics.jsonl` as event files, `DIR/RUN/<head>-s<seed>/`. A step
//! there is an epoch, or a training step if heads are also evaluated within epochs.
//!
//! A file holds only what `metrics.jsonl` holds: missing events are appended, and events that disagree (a kill came between
//! two files, or a seed was trained anew) are cut off. So resuming a run duplicates no step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;

use crate::app::jobs::history::disk;
use crate::app::jobs::user_error::refuse;
use crate::model::io::{atomic_file, if_there, tfrecord};
use crate::model::train::TrainConfig;
use crate::model::train::run::{Manifest, Metric, Run};

/// The name of every event file: TensorBoard looks for `tfevents` in it.
const FILE: &str = "events.out.tfevents.0.ssmprobe";
/// Upper bound of an event file in bytes: room for a million epochs.
const MAX_BYTES: u64 = 1 << 30;
/// Length in bytes of the wall time at the start of every event.
const TIME: usize = 9;

/// Writes the metrics of a run as event files.
pub struct TensorBoard {
    folder: PathBuf,
    /// Number of events and bytes of every file checked or written so far.
    written: BTreeMap<PathBuf, (usize, u64)>,
}

impl TensorBoard {
    /// The event files of the run called `name`, in its own folder below `all`.
    ///
    /// # Errors
    /// If that folder cannot be made or read, or if a training that does not `resume` finds events of another.
    pub fn open(all: &Path, name: &str, resume: bool) -> anyhow::Result<Self> {
        let folder = all.join(name);
        let shown = folder.display();
        atomic_file::make_folder(&folder)
            .with_context(|| format!("--tensorboard {shown}: cannot be created"))?;
        let inside = std::fs::read_dir(&folder).with_context(|| format!("--tensorboard {shown}"))?;
        if !resume && inside.flatten().any(|entry| entry.path().join(FILE).exists()) {
            refuse!(
                "--tensorboard {}: {shown} has the events of another run; give another folder, or remove it",
                all.display()
            );
        }
        Ok(Self { folder, written: BTreeMap::new() })
    }

    /// Brings the event files up to date with `metrics.jsonl` in the folder `run`.
    pub fn write(&mut self, run: &Path) -> anyhow::Result<()> {
        let manifest = Run::open(run)?.manifest;
        let mut heads: BTreeMap<(String, u64), Vec<Metric>> = BTreeMap::new();
        for metric in disk::metrics(&run.join("metrics.jsonl"))? {
            heads.entry((metric.head.clone(), metric.seed)).or_default().push(metric);
        }
        // Names of others, in a run that somebody else has made, may lead to another folder.
        heads.retain(|(head, _), _| manifest.heads.iter().any(|own| own.name == *head));
        for ((head, seed), epochs) in heads {
            let path = self.folder.join(format!("{head}-s{seed}")).join(FILE);
            self.update(&path, &events(&manifest, &head, &epochs))
                .with_context(|| format!("{}: cannot be written", path.display()))?;
        }
        Ok(())
    }

    fn update(&mut self, path: &Path, events: &[Vec<u8>]) -> anyhow::Result<()> {
        let (there, length, whole) = match self.written.get(path) {
            Some((events, length)) => (*events, *length, true),
            None => found(path, events)?,
        };
        let new: Vec<u8> = events[there..].iter().flat_map(|event| tfrecord::frame(event)).collect();
        if !new.is_empty() || !whole {
            atomic_file::make_folder(path.parent().expect("below the folder of the run"))?;
            tfrecord::append(path, length, &new)?;
        }
        self.written.insert(path.to_owned(), (events.len(), length + new.len() as u64));
        Ok(())
    }
}

/// The events of a head's file: the version, then one per metric with its numbers and the learning rate at the start of
/// its epoch; for a metric within an epoch, the rate of that step.
fn events(manifest: &Manifest, head: &str, epochs: &[Metric]) -> Vec<Vec<u8>> {
    let TrainConfig { epochs: all, batch, rate, protocol, evaluate_every, .. } = manifest.config;
    let own = manifest.heads.iter().find(|variant| variant.name == head).and_then(|variant| variant.rate);
    let steps = manifest.dataset.train.div_ceil(batch);
    let one = |Metric { epoch, .. }: &Metric| {
        let begun = epoch.step.unwrap_or((epoch.epoch - 1) * steps);
        let step = match evaluate_every {
            None => epoch.epoch,
            Some(_) => epoch.step.unwrap_or(epoch.epoch * steps),
        };
        let scalars = [
            ("loss", epoch.loss),
            ("accuracy/train", epoch.train),
            ("accuracy/select", epoch.select),
            ("accuracy/test", epoch.test),
            ("rate", protocol.rate(own.unwrap_or(rate), begun, steps, all)),
        ];
        let mut summary = Vec::new();
        for (tag, value) in scalars {
            let mut one = Vec::new();
            field(&mut one, 1, tag.as_bytes());
            one.push(2 << 3 | FOUR_BYTES);
            one.extend((value as f32).to_le_bytes());
            field(&mut summary, 1, &one);
        }
        let mut event = now();
        event.push(2 << 3);
        varint(&mut event, step as u64);
        field(&mut event, 5, &summary);
        event
    };
    let mut version = now();
    field(&mut version, 3, b"brain.Event:2");
    std::iter::once(version).chain(epochs.iter().map(one)).collect()
}

/// How many of `events` the file at `path` begins with (wall times aside), the bytes they take, and whether the file ends
/// after them.
fn found(path: &Path, events: &[Vec<u8>]) -> std::io::Result<(usize, u64, bool)> {
    let bytes = if_there(atomic_file::read(path, MAX_BYTES))?.unwrap_or_default();
    let there = tfrecord::records(&bytes);
    let pairs = there.iter().zip(events);
    let same = pairs.take_while(|(one, event)| one.get(TIME..) == event.get(TIME..)).count();
    let length = tfrecord::framed(&there[..same]);
    Ok((same, length, length == bytes.len() as u64))
}

// Protobuf, as far as an `Event` of TensorFlow needs it: 1 wall_time, 2 step, 3 file_version, 5 summary; a summary's value
// has 1 tag, 2 simple_value.
const EIGHT_BYTES: u8 = 1;
const LENGTH: u8 = 2;
const FOUR_BYTES: u8 = 5;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | LENGTH);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

/// The beginning of an event: its wall time, now.
fn now() -> Vec<u8> {
    let seconds = SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |time| time.as_secs_f64());
    [&[1 << 3 | EIGHT_BYTES][..], &seconds.to_le_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_the_run_does_not_have_gets_no_file() {
        let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/stopped");
        let folder = tempfile::tempdir().unwrap();
        let [run, events, other] = ["run", "events", "other-s0"].map(|name| folder.path().join(name));
        atomic_file::make_folder(&run).unwrap();
        std::fs::copy(frozen.join("run.json"), run.join("run.json")).unwrap();
        let own = disk::metrics(&frozen.join("metrics.jsonl")).unwrap().remove(0);
        let lines = [own.clone(), Metric { head: "../../other".to_owned(), ..own.clone() }]
            .map(|metric| serde_json::to_string(&metric).unwrap());
        atomic_file::write(&run.join("metrics.jsonl"), lines.join("\n").as_bytes()).unwrap();
        TensorBoard::open(&events, "run", false).unwrap().write(&run).unwrap();
        assert!(events.join("run").join(format!("{}-s{}", own.head, own.seed)).join(FILE).exists());
        assert!(!other.exists());
    }
}
