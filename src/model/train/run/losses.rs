//! Training losses within epochs: `losses/s<seed>.safetensors`, written after every epoch.
//!
//! For every variant one float32 tensor under its name: epoch by epoch, the mean training loss of each of the `parts` equal
//! parts of an epoch ([`crate::model::train::losses`]). If the training was stopped within an epoch, or the loss was not finite,
//! the last epoch has fewer. The metadata key `ssmprobe-losses` holds JSON: `format`, `seed`,
//! `epochs` of the run, `steps` and `parts` of an epoch.

use safetensors::Dtype;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Run, RunError, write};
use crate::model::io::array::{Tensor, arrays, from_safetensors, to_safetensors_with};
use crate::model::io::{Format, atomic_file, block, if_there, null_as_nan};
use crate::model::train::losses::parts;

const KEY: &str = "ssmprobe-losses";
/// Largest file that is read, in bytes; enough for thousands of heads.
const MAX_LOSSES_BYTES: u64 = 256 << 20;

/// Training losses within epochs of one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepLosses {
    /// The seed.
    pub seed: u64,
    /// Number of points per epoch.
    pub parts: usize,
    /// Names of the variants and their points; NaN where unknown.
    #[serde(deserialize_with = "read_heads")]
    pub heads: Vec<(String, Vec<f32>)>,
}

fn read_heads<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, Vec<f32>)>, D::Error> {
    let heads = Vec::<(String, Vec<Option<f32>>)>::deserialize(from)?;
    Ok(heads.into_iter().map(|(name, points)| (name, null_as_nan(points))).collect())
}

/// The metadata of the file, as JSON.
#[derive(Serialize, Deserialize)]
struct Header {
    format: Format<1>,
    seed: u64,
    epochs: usize,
    steps: usize,
    parts: usize,
}

impl Run {
    /// Writes the losses of a seed so far, of every head's name and points.
    pub fn write_losses<'a>(
        &self,
        seed: u64,
        heads: impl Iterator<Item = (&'a str, &'a [f32])>,
    ) -> Result<(), RunError> {
        let (config, path) = (&self.manifest.config, self.losses_path(seed));
        let steps = self.manifest.dataset.train.div_ceil(config.batch.max(1));
        let header =
            Header { format: Format, seed, epochs: config.epochs, steps, parts: parts(config.epochs, steps) };
        let tensor = |(name, points): (&str, &[f32])| {
            (name.to_owned(), vec![points.len()], Dtype::F32, block::bytes(points))
        };
        let tensors: Vec<Tensor> = heads.map(tensor).collect();
        let bytes = to_safetensors_with(&tensors, KEY, &header).map_err(RunError::damaged(&path))?;
        let folder = self.folder.join("losses");
        atomic_file::make_folder(&folder).map_err(RunError::io("create", &folder))?;
        write(&path, &bytes)
    }

    /// Reads the losses of a seed; `None` if the run keeps none, or has not written them yet.
    pub fn losses(&self, seed: u64) -> Result<Option<StepLosses>, RunError> {
        let path = self.losses_path(seed);
        let bytes =
            if_there(atomic_file::read(&path, MAX_LOSSES_BYTES)).map_err(RunError::io("read", &path))?;
        bytes.map(|bytes| parse(&bytes, seed)).transpose().map_err(RunError::damaged(&path))
    }

    pub(super) fn losses_path(&self, seed: u64) -> std::path::PathBuf {
        self.folder.join(format!("losses/s{seed}.safetensors"))
    }
}

fn parse(bytes: &[u8], seed: u64) -> Result<StepLosses, String> {
    let (tensors, header): (_, Header) = from_safetensors(bytes, KEY, "it contains no losses of a run")?;
    if header.seed != seed || header.parts == 0 {
        let Header { seed: found, parts, .. } = header;
        return Err(format!("it has seed {found} and {parts} parts; expected {seed}, 1 or more"));
    }
    let heads = arrays(&tensors, "").into_iter().map(|(name, array)| (name, array.data));
    Ok(StepLosses { seed, parts: header.parts, heads: heads.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_of_the_seed_that_their_file_is_named_after() {
        let header = Header { format: Format, seed: 1, epochs: 1, steps: 1, parts: 1 };
        let bytes = to_safetensors_with(&[], KEY, &header).unwrap();
        assert_eq!(parse(&bytes, 1).unwrap().seed, 1);
        assert_eq!(parse(&bytes, 2).unwrap_err(), "it has seed 1 and 1 parts; expected 2, 1 or more");
    }
}
