//! Tensors of a GPU as their backend holds them: what kernels written by hand read and give back.

use burn::backend::Cube;
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

/// A tensor of a GPU, without its graph.
pub(crate) fn cube<const D: usize>(tensor: Tensor<D>) -> CubeTensor {
    let tensor = if tensor.device().is_autodiff() { tensor.inner() } else { tensor };
    tensor.try_into_primitive::<Cube>().expect("a tensor of a GPU")
}

/// Room for float32 numbers beside `like`, without gaps, that a kernel is to write.
pub(crate) fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D]) -> CubeTensor {
    let (client, device) = (like.client.clone(), like.device.clone());
    empty_device_contiguous_dtype(client, device, Shape::new(shape), DType::F32)
}
