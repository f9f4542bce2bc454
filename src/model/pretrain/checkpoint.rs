//! The checkpoint from which a stopped or killed pre-training resumes: one safetensors file of its parameters (`params/NAME`) and
//! optimiser state (`adam/NAME`), in float32, with the number of steps done and the position of the masks' random generator in
//! the metadata. No float is converted to decimal digits.

use burn::tensor::Device;
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use super::{Plan, Pretraining};
use crate::model::io::array::{Tensor, arrays, from_safetensors, to_safetensors_with};
use crate::model::io::{Format, block};

const KEY: &str = "ssmprobe-pretraining";
const PARAMS: &str = "params/";
const ADAM: &str = "adam/";

/// The metadata of the file, as JSON.
#[derive(Serialize, Deserialize)]
struct Header {
    format: Format<1>,
    step: usize,
    /// Word position of the masks' generator, as a string: JSON readers would round the number.
    masks: String,
}

impl Pretraining {
    /// The bytes of a checkpoint file, with all that the next step depends on.
    pub fn save(&self) -> Result<Vec<u8>, String> {
        let mut tensors: Vec<Tensor> = Vec::new();
        for (prefix, arrays) in [(PARAMS, self.params.to_trained()), (ADAM, self.adam.to_arrays())] {
            let named = arrays.into_iter().map(|(name, array)| {
                (format!("{prefix}{name}"), array.shape, Dtype::F32, block::bytes(&array.data))
            });
            tensors.extend(named);
        }
        let masks = self.masks.get_word_pos().to_string();
        to_safetensors_with(&tensors, KEY, &Header { format: Format, step: self.step, masks })
    }

    /// The pre-training of `plan` that [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// A message, if the bytes are truncated, of a plan with other sizes, or not a checkpoint of a pre-training.
    pub fn restore(plan: &Plan, device: &Device, bytes: &[u8]) -> Result<Self, String> {
        let (tensors, Header { format: Format, step, masks }) =
            from_safetensors(bytes, KEY, "it is not a pre-training checkpoint")?;
        if step > plan.steps {
            return Err(format!("it is at step {step}, but the pre-training has {} steps", plan.steps));
        }
        let mut restored = Self::start(plan, device);
        let masks: u128 = masks.parse().map_err(|_| format!("`masks` is {masks:?}, expected a number"))?;
        restored.masks.set_word_pos(masks);
        restored.step = step;
        let params = restored.params.restore(&arrays(&tensors, PARAMS), device);
        restored.params = params.ok_or("its parameters are from a backbone of another size")?;
        let adam = restored.adam.restore(&arrays(&tensors, ADAM), &restored.params, device);
        restored.adam = adam.ok_or("its optimiser is from a backbone of another size")?;
        Ok(restored)
    }
}
