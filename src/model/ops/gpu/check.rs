//! Compares an operation on GPUs with the same one on the processor, for tests.

use std::fmt::Display;

use burn::tensor::{DType, Device, TensorData};

use crate::close::assert_close_to_largest;

/// Asserts that `results`, such as values and gradients, are on each of `gpus`, in float32, what they are on the processor, in float64.
/// They are computed on a device that tracks gradients, in the type of numbers given with it. `shares` are the allowed differences of
/// each result, relative to its largest number.
#[track_caller]
pub(crate) fn assert_like_processor(
    gpus: impl Iterator<Item = (String, Device)>,
    what: impl Display,
    shares: &[f64],
    results: impl Fn(&Device, DType) -> Vec<TensorData>,
) {
    let numbers = |device: Device, dtype: DType| -> Vec<Vec<f64>> {
        results(&device.autodiff(), dtype).iter().map(|data| data.iter().collect()).collect()
    };
    let expected = numbers(Device::flex(), DType::F64);
    for (name, gpu) in gpus {
        let found = numbers(gpu, DType::F32);
        assert_eq!([found.len(), expected.len()], [shares.len(); 2], "{what} on {name}");
        for ((found, expected), share) in found.iter().zip(&expected).zip(shares) {
            assert_close_to_largest(format!("{what} on {name}"), found, expected, *share);
        }
    }
}
