//! Heads on float64 tensors on the CPU, for explanations that reuse the formulas of training.

use burn::tensor::{DType, Device, Tensor, TensorData};

use super::{Batch, Dims, Head};
use crate::model::io::array::Arrays;
use crate::model::probe::head_output::{Form, HeadOutput};
use crate::model::probe::params::Params;
use crate::model::tokens::Tokens;

/// The parameters of a head and a batch of this one image, both in float64 on the CPU.
pub fn inputs(head: &dyn Head, params: &Arrays, tokens: &Tokens) -> (Params, Batch) {
    let device = Device::flex();
    let dims = Dims { width: tokens.width, grid: tokens.grid, classes: 1 };
    let params = Params::from_arrays_in(head.specs(&dims), params, &device, DType::F64);
    let shape = [1, tokens.grid.len(), tokens.width];
    let patches = Tensor::<3>::from_data(TensorData::new(tokens.patches.clone(), shape), &device);
    let patches = patches.cast(DType::F64);
    (params, Batch { patches, cls: None, grid: tokens.grid, image_seeds: vec![0], training: false })
}

/// The values of a float64 tensor.
pub fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().try_to_vec::<f64>().expect("float64 in, float64 out")
}

/// The output of a head that is not linear in the tokens: [`Head::features`] of one image, and the reason `why` there is no exact
/// evidence.
pub fn opaque(head: &dyn Head, params: &Arrays, tokens: &Tokens, why: &'static str) -> HeadOutput {
    let (params, batch) = inputs(head, params, tokens);
    let features = host(head.features(&params, &batch));
    HeadOutput { scores: None, form: Form::Opaque { features, why } }
}
