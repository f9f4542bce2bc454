//! Tensors of a GPU as their backend holds them: what kernels written by hand read and give back; what threads have, [`fold`]ed.

pub(crate) mod fold;

use burn::backend::{Cube, DispatchDevice};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::cubecl::prelude::BufferArg;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

/// A tensor of a GPU, without its graph.
pub(crate) fn cube<const D: usize>(tensor: Tensor<D>) -> CubeTensor {
    let tensor = if tensor.device().is_autodiff() { tensor.inner() } else { tensor };
    tensor.try_into_primitive::<Cube>().expect("a tensor of a GPU")
}

/// The way back of [`cube`].
pub(crate) fn tensor<const D: usize>(primitive: CubeTensor) -> Tensor<D> {
    Tensor::from_primitive::<Cube>(primitive)
}

/// Room for float32 numbers beside `like`, without gaps, that a kernel is to write.
pub(crate) fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D]) -> CubeTensor {
    let (client, device) = (like.client.clone(), like.device.clone());
    empty_device_contiguous_dtype(client, device, Shape::new(shape), DType::F32)
}

/// As an argument of a kernel.
pub(crate) fn arg(tensor: &CubeTensor) -> BufferArg {
    tensor.clone().into_buffer_arg()
}

/// Whether kernels of so many threads a workgroup and so many rounds of a loop take a tensor: float32 on a GPU that runs them to
/// their end. Mesa's software Vulkan quietly ends every loop of a shader after 65,535 rounds in all.
pub(crate) fn takes<const D: usize>(tensor: &Tensor<D>, units: usize, rounds: usize) -> bool {
    let device = tensor.device().without_autodiff();
    let DispatchDevice::Cube(cube) = device.as_dispatch() else { return false };
    let client = cube.client();
    let properties = client.properties();
    let has_units = properties.hardware.max_units_per_cube as usize >= units;
    let ends_loops = rounds >= 65_000 && properties.identity.name.contains("llvmpipe");
    tensor.dtype() == DType::F32 && has_units && !ends_loops
}
