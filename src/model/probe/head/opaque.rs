//! Readings of heads that are not linear in the tokens: their own features on the CPU, in float64,
//! and why there is no exact evidence.

use burn::tensor::{DType, Device, Tensor, TensorData};

use super::{Batch, Dims, Head};
use crate::model::io::array::Arrays;
use crate::model::probe::head_output::{Form, HeadOutput};
use crate::model::probe::params::Params;
use crate::model::tokens::Tokens;

/// One image through [`Head::features`] as a batch of one.
pub fn reading(head: &dyn Head, params: &Arrays, tokens: &Tokens, why: &'static str) -> HeadOutput {
    let device = Device::flex();
    let dims = Dims { width: tokens.width, grid: tokens.grid, classes: 1 };
    let params = Params::from_arrays_in(head.specs(&dims), params, &device, DType::F64);
    let shape = [1, tokens.grid.len(), tokens.width];
    let patches = Tensor::<3>::from_data(TensorData::new(tokens.patches.clone(), shape), &device);
    let patches = patches.cast(DType::F64);
    let batch = Batch { patches, cls: None, grid: tokens.grid, image_seeds: vec![0], training: false };
    let features = head.features(&params, &batch).into_data();
    let features = features.try_to_vec::<f64>().expect("float64 in, float64 out");
    HeadOutput { scores: None, form: Form::Opaque { features, why } }
}
