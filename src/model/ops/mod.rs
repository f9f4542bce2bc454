//! Numeric kernels for the CPU and for GPUs: SIMD loops, matrix products, and weighted sums of tokens for many heads at
//! once; and how such kernels become differentiable operations of burn.

pub mod bias;
pub mod cpu;
pub(crate) mod custom_op;
pub(crate) mod gemm;
pub(crate) mod gpu;
pub(crate) mod halves;
pub mod matmul;
pub mod pooling;
pub(crate) mod scatter;
pub mod simd;
pub(crate) mod softmax;
pub(crate) mod softplus;
pub mod standardise;
