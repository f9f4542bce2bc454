//! Frozen vision backbones: from pixels to patch tokens.

pub mod hub;
pub mod weights;
