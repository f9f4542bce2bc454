//! Routers and S4 against an independent float64 original (`tests/reference/routing.py`): on the
//! host to 1e-9, on float32 tensors to 1e-5, gradients to 1e-4 of the largest.

mod kernels;
mod plans;
mod properties;
pub mod reference;

/// The tests that every SIMD level must pass.
pub fn all_that_needs_no_gpu() {
    plans::plans_on_the_host_match_the_original();
    plans::plans_on_tensors_match_the_original();
    plans::token_weights_and_gradients_match_the_original();
    plans::plain_token_weights_and_gradients_match_the_original();
    plans::gradients_through_plans_match_the_original();
    kernels::kernels_on_the_host_match_the_original();
    kernels::kernels_on_tensors_and_their_gradients_match_the_original();
    kernels::kernels_in_float32_and_their_gradients_match_the_original();
    kernels::readouts_and_their_gradients_match_the_original();
}
