//! Loops over numbers: wide registers, matrix products, weighted sums of tokens for many heads at once; and how
//! such loops become operations of burn with a gradient of their own.

pub mod bias;
pub mod cpu;
pub(crate) mod custom_op;
pub(crate) mod gemm;
pub(crate) mod gpu;
pub(crate) mod halves;
pub mod matmul;
pub(crate) mod place;
pub mod pooling;
pub mod simd;
pub(crate) mod softmax;
pub(crate) mod softplus;
pub mod standardise;
