//! A named tensor on the host: what probe files and NPZ exports hold.

use std::collections::HashMap;

use indexmap::IndexMap;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError};

/// A dense row-major float32 array on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Length of every axis; empty for a scalar.
    pub shape: Vec<usize>,
    /// Row-major values; as many as the product of `shape`.
    pub data: Vec<f32>,
}

/// Arrays by name, in the order they were written.
pub type Arrays = IndexMap<String, Array>;

/// A tensor of a file: its name, shape, type and little-endian bytes.
pub(in crate::model) type Tensor = (String, Vec<usize>, Dtype, Vec<u8>);

/// The bytes of a safetensors file.
pub(in crate::model) fn to_safetensors(
    tensors: &[Tensor],
    metadata: HashMap<String, String>,
) -> Result<Vec<u8>, SafeTensorError> {
    let views = tensors.iter().map(|(name, shape, dtype, bytes)| {
        TensorView::new(*dtype, shape.clone(), bytes).map(|view| (name, view))
    });
    safetensors::serialize(views.collect::<Result<Vec<_>, _>>()?, Some(metadata))
}

impl Array {
    /// Wraps `data` in `shape`.
    ///
    /// # Panics
    /// If the number of values is not the product of `shape`: a bug of the caller.
    pub fn new(shape: impl Into<Vec<usize>>, data: Vec<f32>) -> Self {
        let shape = shape.into();
        assert_eq!(
            shape.iter().product::<usize>(),
            data.len(),
            "an array of shape {shape:?} cannot hold {} values",
            data.len()
        );
        Self { shape, data }
    }

    /// The values in float64, for the exact computations of an explanation.
    pub fn to_f64(&self) -> Vec<f64> {
        self.data.iter().map(|&x| f64::from(x)).collect()
    }
}
