//! Named arrays on the host, as probe files and NPZ exports hold them, and the safetensors files that hold them.

use std::collections::HashMap;

use indexmap::IndexMap;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::block;

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

/// The same with `header`, as JSON, under `key` in the metadata.
pub(in crate::model) fn to_safetensors_with(
    tensors: &[Tensor],
    key: &str,
    header: &impl Serialize,
) -> Result<Vec<u8>, String> {
    let header = serde_json::to_string(header).map_err(|error| error.to_string())?;
    to_safetensors(tensors, HashMap::from([(key.to_owned(), header)])).map_err(|error| error.to_string())
}

/// The tensors and the header that [`to_safetensors_with`] wrote under `key`; `absent` is the error if there is no such key.
pub(in crate::model) fn from_safetensors<'a, H: DeserializeOwned>(
    bytes: &'a [u8],
    key: &str,
    absent: &str,
) -> Result<(SafeTensors<'a>, H), String> {
    let torn = |error: SafeTensorError| format!("it is not a complete file ({error})");
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(torn)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(torn)?;
    let header = metadata.metadata().as_ref().and_then(|entries| entries.get(key)).ok_or(absent)?;
    Ok((tensors, serde_json::from_str(header).map_err(|error| error.to_string())?))
}

/// The float32 tensors whose names begin with `prefix`, by the rest of their names.
pub(in crate::model) fn arrays(tensors: &SafeTensors, prefix: &str) -> Arrays {
    let own = tensors.iter().filter_map(|(name, view)| Some((name.strip_prefix(prefix)?, view)));
    own.filter(|(_, view)| view.dtype() == Dtype::F32)
        .map(|(name, view)| (name.to_owned(), Array::new(view.shape(), block::numbers(view.data()))))
        .collect()
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
