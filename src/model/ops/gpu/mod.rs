//! What kernels written by hand share: primitives of GPU tensors, and whether kernels support them; reductions within a workgroup
//! ([`fold`]); sums of [`columns`]; one launch over tensors of different lengths ([`multi_tensor`]); host memory for uploads
//! ([`page_locked()`]).

#[cfg(test)]
pub(crate) mod check;
pub(crate) mod columns;
pub(crate) mod fold;
pub(crate) mod multi_tensor;
mod page_locked;

use burn::backend::cubecl::Device as CubeDevice;
use burn::backend::{Cube, DispatchDevice};
use burn::tensor::{DType, Device, Shape, Tensor};
use burn_cubecl::cubecl::prelude::{BufferArg, Const, CubeCount, CubeDim, Vector};
use burn_cubecl::cubecl::server::CopyDescriptor;
use burn_cubecl::kernel::into_contiguous_aligned;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

pub(crate) use self::page_locked::page_locked;

/// What most files with kernels import.
pub(crate) mod prelude {
    pub(crate) use burn::backend::{Cube, TensorMetadata, ops::FloatTensorOps};
    pub(crate) use burn::tensor::Tensor;
    pub(crate) use burn_cubecl::cubecl::{self, prelude::*};
    pub(crate) use burn_cubecl::kernel::into_contiguous;
    pub(crate) use burn_cubecl::{CubeBackend, tensor::CubeTensor};

    pub(crate) use super::fold::{Fold, fold};
    pub(crate) use super::{VECTOR_SIZE, Vec4, arg, cube, empty, supports, tensor, threads, workgroups};
    pub(crate) use crate::model::ops::custom_op::{CustomOp, apply};
}

/// Numbers of a vector: 16 bytes, the most that a thread reads at once.
pub(crate) const VECTOR_SIZE: usize = 4;
/// Four neighbouring numbers, read and written with one instruction.
pub(crate) type Vec4 = Vector<f32, Const<VECTOR_SIZE>>;

/// Most workgroups of a launch along one axis.
const MAX_WORKGROUPS_PER_AXIS: usize = 65_535;

/// A tensor of a GPU as its backend's primitive, detached from the autodiff graph.
pub(crate) fn cube<const D: usize>(tensor: Tensor<D>) -> CubeTensor {
    tensor.without_autodiff().try_into_primitive::<Cube>().expect("a tensor of a GPU")
}

/// The inverse of [`cube`].
pub(crate) fn tensor<const D: usize>(primitive: CubeTensor) -> Tensor<D> {
    Tensor::from_primitive::<Cube>(primitive)
}

/// A contiguous, uninitialised float32 tensor on the device of `like`, for a kernel to write.
pub(crate) fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D]) -> CubeTensor {
    empty_of(like, shape, DType::F32)
}

/// [`empty`] for other types of numbers.
pub(crate) fn empty_of(like: &CubeTensor, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape.into(), dtype)
}

/// The tensor as an argument of a kernel.
pub(crate) fn arg(tensor: &CubeTensor) -> BufferArg {
    tensor.clone().into_buffer_arg()
}

/// Numbers per read of a tensor whose lines have a number every `along`: four if every line holds whole vectors and begins at a
/// multiple of one, else one. `lengths` are that of a line and the strides between lines.
pub(crate) fn read_size(tensor: &CubeTensor, along: usize, lengths: &[usize]) -> usize {
    let is_aligned = along == 1
        && lengths.iter().all(|length| length.is_multiple_of(VECTOR_SIZE))
        && tensor.handle.offset_start.unwrap_or(0).is_multiple_of(16);
    if is_aligned { VECTOR_SIZE } else { 1 }
}

/// Describes the copy of a tensor from its GPU to the host.
pub(crate) fn copy_to_host<const D: usize>(tensor: Tensor<D>) -> CopyDescriptor {
    let tensor = into_contiguous_aligned(cube(tensor));
    let (shape, strides) = (tensor.meta.shape().clone(), tensor.meta.strides().clone());
    let size = tensor.elem_size();
    CopyDescriptor::new(tensor.handle.binding(), shape, strides, size)
}

/// A launch of `count` workgroups, along two axes where one is too short: it may then have a few more, which must do no harm.
pub(crate) fn workgroups(count: usize) -> CubeCount {
    let down = count.div_ceil(MAX_WORKGROUPS_PER_AXIS);
    CubeCount::Static(count.div_ceil(down.max(1)) as u32, down as u32, 1)
}

/// A launch of one thread per entry, `units` threads per workgroup.
pub(crate) fn threads(entries: usize, units: usize) -> (CubeCount, CubeDim) {
    (workgroups(entries.div_ceil(units)), CubeDim::new_1d(units as u32))
}

/// A bound for sigmoids' arguments: below it they are negligible, and `exp` of its negative is still finite.
pub(crate) const FLAT: f32 = -80.0;

/// The GPU that holds a tensor; none if it is on the CPU.
pub(crate) fn gpu<const D: usize>(tensor: &Tensor<D>) -> Option<CubeDevice> {
    gpu_of(&tensor.device())
}

/// The GPU behind a device; none for the CPU.
pub(crate) fn gpu_of(device: &Device) -> Option<CubeDevice> {
    match device.clone().without_autodiff().as_dispatch() {
        DispatchDevice::Cube(gpu) => Some(gpu.clone()),
        _ => None,
    }
}

/// Whether kernels can index this many numbers: their indices have 32 bits.
pub(crate) fn is_indexable(numbers: usize) -> bool {
    numbers < 1 << 32
}

/// Most buffers of a kernel, except for those of an S4.
const MAX_BUFFERS: u32 = 8;

/// Whether kernels of `units` threads per workgroup and `rounds` iterations of loops support a tensor: float32, on a GPU that can run
/// them, and small enough to index. Mesa's software Vulkan silently stops the loops of a shader after 65,535 iterations in all.
pub(crate) fn supports<const D: usize>(tensor: &Tensor<D>, units: usize, rounds: usize) -> bool {
    let Some(gpu) = gpu(tensor) else { return false };
    let client = gpu.client();
    let properties = client.properties();
    let hardware = &properties.hardware;
    let fits = hardware.max_units_per_cube as usize >= units && hardware.max_bindings >= MAX_BUFFERS;
    let ends_loops = rounds >= 65_000 && properties.identity.name.contains("llvmpipe");
    tensor.dtype() == DType::F32 && is_indexable(tensor.shape().num_elements()) && fits && !ends_loops
}

#[cfg(test)]
mod gpu_tests {
    use super::*;
    use crate::gpus::gpus;

    #[test]
    fn only_tensors_with_indices_of_32_bits_are_supported() {
        for (name, gpu) in gpus() {
            let is_supported = |columns: usize| {
                supports(&Tensor::<2>::zeros([1, 1], &gpu).expand([1 << 16, columns]), 256, 1)
            };
            assert_eq!([(1 << 16) - 1, 1 << 16].map(is_supported), [true, false], "{name}");
        }
    }
}
