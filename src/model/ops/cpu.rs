//! Conversions between tensors of the CPU and slices of values, for kernels written by hand.

use burn::backend::Flex;
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_flex::FlexTensor;

/// Whether this is burn's CPU device (flex), whose tensors the CPU's kernels take.
pub fn on_cpu(device: &Device) -> bool {
    device.clone().without_autodiff() == Device::flex()
}

/// A tensor of the CPU as its backend's primitive, detached from the autodiff graph; panics if it is on another device.
pub fn flex<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    tensor.without_autodiff().try_into_primitive::<Flex>().expect("a tensor of the CPU")
}

/// A copy of the values of a tensor of the CPU, row-major, in float32.
pub fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    to_f32(flex(tensor))
}

/// A copy of the values, in float32.
pub(crate) fn to_f32(tensor: FlexTensor) -> Vec<f32> {
    // A shared tensor's `into_data` would copy twice.
    let convert = || tensor.clone().into_data().convert::<f32>().try_into_vec().expect("float32 values");
    tensor.as_slice().map_or_else(convert, <[f32]>::to_vec)
}

/// A copy of the values, in float64.
pub(crate) fn to_f64(tensor: FlexTensor) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// The values of a contiguous tensor of float32.
///
/// # Panics
/// If it is not contiguous, or not float32: a bug of the caller.
pub(crate) fn as_f32(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().expect("contiguous float32 values")
}

pub(crate) fn from_f32(values: Vec<f32>, shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new::<f32, _>(values, shape.to_vec()))
}

pub(crate) fn from_f64(values: Vec<f64>, shape: &[usize], dtype: DType) -> FlexTensor {
    FlexTensor::from_data(TensorData::new::<f64, _>(values, shape.to_vec()).convert_dtype(dtype))
}
