//! Routers and S4 against an independent float64 original (`tests/reference/routing.py`): on the
//! host to 1e-9, on float32 tensors to 1e-5, gradients to 1e-4 of the largest.

mod gpu;
mod kernels;
mod plans;
mod properties;
mod reference;
