//! Writes an imported checkpoint as a folder of the Hub's layout, one tensor at a time, so that it needs no more memory
//! than the largest tensor.

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::layout::{Source, Target};
use super::{Original, OriginalError};
use crate::model::io::{atomic_file, block};

impl Original {
    /// Writes the folder atomically; an empty one may exist already.
    pub fn write(&self, folder: &Path) -> Result<(), OriginalError> {
        let written = atomic_file::write_folder(folder, |inside| {
            let text = |value: &Value| format!("{value:#}\n").into_bytes();
            atomic_file::write(&inside.join("config.json"), &text(&self.config))?;
            atomic_file::write(&inside.join("preprocessor_config.json"), &text(&self.preprocessor))?;
            atomic_file::write_with(&inside.join("model.safetensors"), |file| self.write_weights(file))
        });
        written.map_err(|error| match error {
            OriginalError::Io(source) => OriginalError::Write { path: folder.to_owned(), source },
            other => other,
        })
    }

    /// Writes `model.safetensors` only: the length of the header, the header, the values.
    ///
    /// # Errors
    /// If a value is NaN or infinite, or writing fails.
    pub fn write_weights(&self, file: &mut impl Write) -> Result<(), OriginalError> {
        let mut header = Map::new();
        header.insert("__metadata__".into(), json!({"format": "pt"}));
        let mut end = 0;
        for Target { name, shape, .. } in &self.targets {
            let start = end;
            end += 4 * shape.iter().product::<usize>();
            let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, end]});
            header.insert(name.clone(), entry);
        }
        let mut header = Value::Object(header).to_string();
        while !header.len().is_multiple_of(8) {
            header.push(' '); // the values begin at a multiple of eight bytes
        }
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        for target in &self.targets {
            file.write_all(&block::bytes(&self.values(target)?))?;
        }
        Ok(())
    }

    /// The values of a tensor; the shape of its source must have been checked.
    fn values(&self, target: &Target) -> Result<Vec<f32>, OriginalError> {
        let read = |name: &str| self.weights.values(&format!("{}{name}", self.prefix));
        let len = target.shape.iter().product();
        Ok(match &target.source {
            Source::Whole(name) => read(name)?,
            Source::Part(name, part, _) => read(name)?[part * len..(part + 1) * len].to_vec(),
            Source::Positions(name, zeros) => {
                let zeros = vec![0.0; zeros * target.shape[2]];
                [zeros, read(name)?].concat()
            }
            Source::Ones => vec![1.0; len],
        })
    }
}
