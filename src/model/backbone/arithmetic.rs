//! The precision of a backbone's matrix products.
//!
//! In 16 bits, weights and matrix products are float16 or bfloat16; the residual stream, layer norms and
//! softmax stay float32, as in PyTorch's autocast. That takes half the memory, is several times faster
//! on GPUs with matrix units, and gives tokens accurate to two or three digits. Float16 has 11 bits of
//! precision and a maximum of 65,504; bfloat16 has 8 bits and the range of float32.

use std::str::FromStr;

use burn::tensor::{DType, Device};
use serde::{Deserialize, Serialize};

use super::BackboneError;

listed! {
    /// The precision of a backbone's matrix products.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Arithmetic {
        /// Float32 throughout.
        #[default]
        Float32: "float32";
        /// Products in float16.
        Float16: "float16";
        /// Products in bfloat16.
        Bfloat16: "bfloat16";
    }
}

impl FromStr for Arithmetic {
    type Err = String;

    /// The one of this name.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::find(text).ok_or_else(|| "expected float32, float16 or bfloat16".into())
    }
}

impl Arithmetic {
    /// The type of weights and matrix products.
    pub(super) const fn dtype(self) -> DType {
        match self {
            Self::Float32 => DType::F32,
            Self::Float16 => DType::F16,
            Self::Bfloat16 => DType::BF16,
        }
    }

    /// Whether the device supports it; the CPU is used with float32 alone, which is its fastest.
    pub fn on(self, device: &Device) -> bool {
        self == Self::Float32 || (*device != Device::flex() && device.supports_dtype(self.dtype()))
    }

    /// Fails if the device does not support it; the error lists what it supports.
    pub fn check(self, device: &Device) -> Result<(), BackboneError> {
        if self.on(device) {
            return Ok(());
        }
        let there =
            Self::ALL.into_iter().filter(|other| other.on(device)).map(Self::name).collect::<Vec<_>>();
        let device = device.identity().map_or_else(|| "the CPU".into(), |device| device.name);
        Err(BackboneError::Arithmetic { wanted: self.name(), device, there: there.join(", ") })
    }
}
