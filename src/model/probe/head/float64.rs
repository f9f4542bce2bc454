//! Heads on float64 tensors on the CPU, for explanations that reuse the formulas of training.

use burn::tensor::{DType, Device, Tensor, TensorData};

use super::{Batch, Dims, Head};
use crate::model::probe::head_output::{Form, HeadOutput};
use crate::model::probe::params::{HostParams, Params};
use crate::model::tokens::Tokens;

/// The parameters of a head and a batch of this one image, both in float64 on the CPU.
pub fn inputs(head: &dyn Head, params: &HostParams<'_>, tokens: &Tokens) -> (Params, Batch) {
    let device = Device::flex();
    let dims = Dims { width: tokens.width, grid: tokens.grid, classes: 1 };
    let params = params.float64(|| head.specs(&dims));
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
pub fn opaque(head: &dyn Head, params: &HostParams<'_>, tokens: &Tokens, why: &'static str) -> HeadOutput {
    let (params, batch) = inputs(head, params, tokens);
    let features = host(head.features(&params, &batch));
    HeadOutput { scores: None, form: Form::Opaque { features, why } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grid::Grid;
    use crate::model::io::array::Arrays;
    use crate::model::memo::Memo;
    use crate::model::probe::head::{Config, find};

    #[test]
    fn parameters_are_made_once_for_all_images() {
        let head = find("deepsets").expect("a head").build(&Config::default()).expect("its defaults");
        let tokens = |n: usize| Tokens {
            grid: Grid::new(1, n),
            width: 8,
            patches: (0..8 * n).map(|at| (at % 5) as f32).collect(),
            cls: None,
            registers: Vec::new(),
        };
        let dims = Dims { width: 8, grid: Grid::new(1, 2), classes: 1 };
        let mut arrays = Params::start(head.specs(&dims), 0, "deepsets", &Device::flex()).to_arrays();
        let tensors = Memo::new(1);
        let output = |arrays: &Arrays, tokens: &Tokens| {
            opaque(&*head, &HostParams { arrays, tensors: &tensors, kernels: &[] }, tokens, "")
        };
        let (first, longer) = (output(&arrays, &tokens(2)), output(&arrays, &tokens(3)));
        arrays.clear();
        assert_eq!((output(&arrays, &tokens(2)), output(&arrays, &tokens(3))), (first, longer));
    }
}
