//! Loops over numbers: wide registers, matrix products, weighted sums of tokens for many heads at once.

pub(crate) mod gemm;
pub mod pooling;
pub mod simd;
