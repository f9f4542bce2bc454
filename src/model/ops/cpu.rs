//! Tensors of the CPU as the values they hold: what loops written by hand read and give back.

use burn::backend::Flex;
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_flex::FlexTensor;

/// Whether the CPU's own operations take tensors of this device.
pub fn on_cpu(device: &Device) -> bool {
    device.clone().without_autodiff() == Device::flex()
}

/// A tensor of the CPU as its backend holds it, without its graph.
pub fn flex<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    tensor.without_autodiff().try_into_primitive::<Flex>().expect("a tensor of the CPU")
}

/// The values of a tensor of the CPU, in float32.
pub fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    to_f32(flex(tensor))
}

/// A copy of the values, in float32.
pub(crate) fn to_f32(tensor: FlexTensor) -> Vec<f32> {
    tensor.into_data().convert::<f32>().try_to_vec().expect("float32 values")
}

/// A copy of the values, in float64.
pub(crate) fn to_f64(tensor: FlexTensor) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// The values of a contiguous tensor of float32.
///
/// # Panics
/// If it is not one: a bug of the caller.
pub(crate) fn as_f32(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().expect("contiguous float32 values")
}

pub(crate) fn from_f32(values: Vec<f32>, shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new::<f32, _>(values, shape.to_vec()))
}

pub(crate) fn from_f64(values: Vec<f64>, shape: &[usize], dtype: DType) -> FlexTensor {
    FlexTensor::from_data(TensorData::new::<f64, _>(values, shape.to_vec()).convert_dtype(dtype))
}
