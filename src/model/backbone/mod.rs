//! Frozen vision backbones: from pixels to patch tokens.

pub mod weights;
