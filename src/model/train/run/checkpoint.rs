//! The checkpoint from which a killed run resumes: one safetensors file, written atomically.
//!
//! Per variant: float32 tensors `<variant>/<part>/<name>` with the parts `params`, `good` (the last finite parameters), `adam` (the
//! state of the optimiser, whichever it is) and `best`; in float64 `history` `[epochs, 5]`, `running` `[4]` and, after evaluations
//! within epochs, `between` `[n, 6]`; predictions `answers` and `best-answers` in unsigned 32 bits; and the losses of steps,
//! `losses` in float32 and `since` `[3]` in float64, which checkpoints of earlier versions lack. No float is converted to decimal
//! digits.

use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use super::{Run, RunError, write};
use crate::model::io::array::{Tensor, arrays, from_safetensors, to_safetensors_with};
use crate::model::io::{Format, atomic_file, block, if_there};
use crate::model::train::losses::Losses;
use crate::model::train::{Epoch, HeadProgress, Running, Saved, Snapshot, TrainCursor};

const KEY: &str = "ssmprobe-state";
/// Largest checkpoint, in bytes; those of all heads on the widest backbones have some gigabytes.
const MAX_CHECKPOINT_BYTES: u64 = 1 << 36;

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// Number of the manifest's seeds that are done.
    pub seeds_done: usize,
    /// Position in the training of the next seed.
    pub position: TrainCursor,
    /// Its heads by name; empty before a seed's first step.
    pub trainers: Vec<(String, Saved)>,
}

/// The metadata of the file, as JSON.
#[derive(Serialize, Deserialize)]
struct Header {
    format: Format<1>,
    seeds_done: usize,
    position: TrainCursor,
    #[serde(rename = "learners")]
    trainers: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    best: Option<usize>,
    failure: Option<String>,
}

impl Run {
    /// Reads the checkpoint; the state before the first step if there is none yet.
    pub fn checkpoint(&self) -> Result<Checkpoint, RunError> {
        let path = self.checkpoint_path();
        match if_there(atomic_file::read(&path, MAX_CHECKPOINT_BYTES)).map_err(RunError::io("read", &path))? {
            Some(bytes) => parse(&bytes).map_err(RunError::damaged(&path)),
            None => Ok(Checkpoint::default()),
        }
    }

    /// Replaces the run's checkpoint by this one.
    pub fn save(&self, checkpoint: &Checkpoint) -> Result<(), RunError> {
        let path = self.checkpoint_path();
        let bytes = serialise(checkpoint).map_err(RunError::damaged(&path))?;
        write(&path, &bytes)
    }
}

fn serialise(checkpoint: &Checkpoint) -> Result<Vec<u8>, String> {
    let mut tensors: Vec<Tensor> = Vec::new();
    let mut trainers = Vec::new();
    for (name, saved) in &checkpoint.trainers {
        let Saved { params, last_finite, optimizer, progress } = saved;
        let HeadProgress { history, between, best, predictions, failure, running, losses, seconds } =
            progress;
        let best = best.as_ref();
        let mut add = |part: &str, shape: &[usize], dtype: Dtype, bytes: Vec<u8>| {
            tensors.push((format!("{name}/{part}"), shape.to_vec(), dtype, bytes));
        };
        let groups = [("params", Some(params)), ("good", Some(last_finite)), ("adam", Some(optimizer))];
        for (part, arrays) in groups.into_iter().chain([("best", best.map(|best| &best.arrays))]) {
            for (key, array) in arrays.into_iter().flatten() {
                add(&format!("{part}/{key}"), &array.shape, Dtype::F32, block::bytes(&array.data));
            }
        }
        let rows: Vec<f64> =
            history.iter().flat_map(|e| [e.epoch as f64, e.loss, e.train, e.select, e.test]).collect();
        add("history", &[history.len(), 5], Dtype::F64, block::bytes(&rows));
        if !between.is_empty() {
            let step = |e: &Epoch| e.step.unwrap_or(0) as f64;
            let rows: Vec<f64> = between
                .iter()
                .flat_map(|e| [e.epoch as f64, step(e), e.loss, e.train, e.select, e.test])
                .collect();
            add("between", &[between.len(), 6], Dtype::F64, block::bytes(&rows));
        }
        let [loss, right, images] = running.to_values();
        add("running", &[4], Dtype::F64, block::bytes(&[loss, right, images, *seconds]));
        add("losses", &[losses.points.len()], Dtype::F32, block::bytes(&losses.points));
        add("since", &[3], Dtype::F64, block::bytes(&losses.since.to_values()));
        add("answers", &[predictions.len()], Dtype::U32, block::bytes(predictions));
        if let Some(best) = best {
            add("best-answers", &[best.predictions.len()], Dtype::U32, block::bytes(&best.predictions));
        }
        let failure = failure.clone();
        trainers.push(Entry { name: name.clone(), best: best.map(|best| best.epoch), failure });
    }
    let Checkpoint { seeds_done, position, .. } = *checkpoint;
    let header = Header { format: Format, seeds_done, position, trainers };
    to_safetensors_with(&tensors, KEY, &header)
}

fn parse(bytes: &[u8]) -> Result<Checkpoint, String> {
    let (tensors, header): (_, Header) = from_safetensors(bytes, KEY, "it is not a checkpoint of a run")?;
    let trainers = header.trainers.into_iter().map(|entry| {
        let name = entry.name.clone();
        Ok((name, saved(&tensors, entry)?))
    });
    let trainers = trainers.collect::<Result<Vec<(String, Saved)>, String>>()?;
    // The next step allocates memory for the losses of all epochs before it. In the last one all heads may have failed.
    let at = header.position.epoch;
    let done = trainers.iter().map(|(_, saved)| saved.progress.history.len()).max().unwrap_or(0);
    if at > done + 1 {
        return Err(format!("it goes on after epoch {at}, and its heads have finished {done}"));
    }
    Ok(Checkpoint { seeds_done: header.seeds_done, position: header.position, trainers })
}

fn saved(tensors: &SafeTensors, entry: Entry) -> Result<Saved, String> {
    let Entry { name, best, failure } = entry;
    let view = |part: &str, dtype: Dtype| {
        let key = format!("{name}/{part}");
        let view = tensors.tensor(&key).map_err(|error| error.to_string())?;
        match view.dtype() == dtype {
            true => Ok(view.data()),
            false => Err(format!("`{key}` is {:?}, expected {dtype:?}", view.dtype())),
        }
    };
    let doubles = |part: &str| view(part, Dtype::F64).map(block::numbers::<f64>);
    let indices = |part: &str| view(part, Dtype::U32).map(block::numbers::<u32>);
    let group = |part: &str| arrays(tensors, &format!("{name}/{part}/"));
    let has = |part: &str| tensors.tensor(&format!("{name}/{part}")).is_ok();
    let epoch = |epoch: f64, step: Option<usize>, [loss, train, select, test]: [f64; 4]| {
        let epoch = epoch as usize;
        Epoch { epoch, step, loss, train, select, test }
    };
    let history = doubles("history")?;
    let history = history.as_chunks::<5>().0.iter().map(|&[at, rest @ ..]| epoch(at, None, rest));
    let history: Vec<Epoch> = history.collect();
    let between = if has("between") { doubles("between")? } else { Vec::new() };
    let between = between.as_chunks::<6>().0.iter();
    let between = between.map(|&[at, step, rest @ ..]| epoch(at, Some(step as usize), rest));
    let running = doubles("running")?;
    let &[loss, right, images, seconds] =
        running.as_array::<4>().ok_or_else(|| format!("`{name}/running` does not have 4 values"))?;
    let mut losses = Losses::default();
    if has("losses") {
        let since = doubles("since")?;
        let since = since.as_array::<3>().ok_or_else(|| format!("`{name}/since` does not have 3 values"))?;
        let points = block::numbers(view("losses", Dtype::F32)?);
        losses = Losses { points, since: Running::from_values(*since) };
    }
    let best = best.map(|epoch| -> Result<Snapshot, String> {
        if epoch >= history.len() {
            return Err(format!("`{name}` was best in epoch {epoch} of {}", history.len()));
        }
        Ok(Snapshot { epoch, arrays: group("best"), predictions: indices("best-answers")? })
    });
    let progress = HeadProgress {
        best: best.transpose()?,
        predictions: indices("answers")?,
        history,
        between: between.collect(),
        failure,
        running: Running::from_values([loss, right, images]),
        losses,
        seconds,
    };
    let (params, last_finite, optimizer) = (group("params"), group("good"), group("adam"));
    Ok(Saved { params, last_finite, optimizer, progress })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::io::array::{Array, Arrays};

    fn some(values: &[f32]) -> Arrays {
        Arrays::from([("s4.0.A".to_owned(), Array::new([values.len()], values.to_vec()))])
    }

    #[test]
    fn a_checkpoint_comes_back_to_the_bit() {
        let third = 1.0 / 3.0;
        let epoch = Epoch {
            epoch: 1,
            step: None,
            loss: 0.1 + 0.2,
            train: third * 100.0,
            select: third,
            test: 2.0 * third,
        };
        let progress = HeadProgress {
            between: vec![Epoch { step: Some(5), loss: third, ..epoch.clone() }],
            history: vec![epoch],
            best: Some(Snapshot { epoch: 0, arrays: some(&[3.0]), predictions: vec![4, 0] }),
            predictions: vec![7],
            failure: Some("the loss became NaN".to_owned()),
            running: Running::from_values([third, 5.0, 9.0]),
            losses: Losses {
                points: vec![0.1, third as f32],
                since: Running::from_values([third, 1.0, 2.0]),
            },
            seconds: 0.7,
        };
        let params = some(&[1.0, f32::MIN_POSITIVE]);
        let saved = Saved { params, last_finite: some(&[0.1]), optimizer: some(&[-0.0]), progress };
        let fresh = Saved::default();
        let trainers = vec![("sinkhorn".to_owned(), saved), ("gap".to_owned(), fresh)];
        let checkpoint = Checkpoint { seeds_done: 2, position: TrainCursor { epoch: 1, step: 3 }, trainers };
        let bytes = serialise(&checkpoint).unwrap();
        assert_eq!(parse(&bytes).unwrap(), checkpoint);
        assert_eq!(serialise(&parse(&bytes).unwrap()).unwrap(), bytes);
        assert!(parse(&bytes[..bytes.len() - 1]).is_err());
        let refused = |wrong: &Checkpoint| parse(&serialise(wrong).unwrap()).unwrap_err();
        let mut wrong = Checkpoint { position: TrainCursor { epoch: 1 << 40, step: 3 }, ..checkpoint };
        let why = "it goes on after epoch 1099511627776, and its heads have finished 1";
        assert_eq!(refused(&wrong), why);
        wrong.trainers[0].1.progress.best.as_mut().unwrap().epoch = 1;
        assert_eq!(refused(&wrong), "`sinkhorn` was best in epoch 1 of 1");
    }
}
