//! S4 kernels on the CPU as one operation with its own gradient, in float64: [`Recurrence`] for one
//! channel, [`Channels`] for many.

use burn::backend::Flex;
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;

use super::Steps;
use super::channels::Channels;
use super::discrete::Discrete;
use super::recurrence::Recurrence;
use crate::model::ops::cpu::{from_f64, to_f64};
use crate::model::ops::custom_op::{CustomOp, apply};

/// [`super::kernel_channels`] on the CPU.
pub(super) fn kernel(a: Tensor<2>, b: Tensor<2>, c: Tensor<2>, step: Tensor<1>, steps: Steps) -> Tensor<2> {
    let inputs = [a.into_dispatch(), b.into_dispatch(), c.into_dispatch(), step.into_dispatch()];
    apply(S4KernelOp { steps }, inputs)
}

/// The kernel as a function of A, B, C and the step size.
struct S4KernelOp {
    steps: Steps,
}

impl CustomOp<Flex, 4> for S4KernelOp {
    type Saved = (HostKernel, DType);

    fn forward(self, inputs: [FlexTensor; 4], _: bool) -> (FlexTensor, Self::Saved) {
        let dtype = inputs[0].dtype();
        let [a, b, c, step] = inputs.map(to_f64);
        let kernel = HostKernel::new(a, b, c, step[0], self.steps);
        (from_f64(kernel.values(), &[self.steps.1, kernel.channels], dtype), (kernel, dtype))
    }

    fn vjp((kernel, dtype): &Self::Saved, grad_kernel: FlexTensor, _: [bool; 4]) -> [Option<FlexTensor>; 4] {
        let Gradients { a, b, c, step } = kernel.vjp(&to_f64(grad_kernel));
        let (states, channels) = (a.len().isqrt(), kernel.channels);
        let a = from_f64(a, &[states, states], *dtype);
        let b = from_f64(b, &[states, channels], *dtype);
        let c = from_f64(c, &[channels, states], *dtype);
        [a, b, c, from_f64(vec![step], &[1], *dtype)].map(Some)
    }
}

/// The gradients of a kernel's inputs: `a` `[S, S]`, `b` `[S, d]`, `c` `[d, S]` and the step size.
pub(super) struct Gradients {
    pub a: Vec<f64>,
    pub b: Vec<f64>,
    pub c: Vec<f64>,
    pub step: f64,
}

/// A kernel on the host in float64, with what its gradient needs.
pub struct HostKernel {
    channels: usize,
    /// Spectral radius of `Abar`.
    pub radius: f64,
    method: Method,
}

enum Method {
    One(Recurrence),
    Many(Channels),
}

impl HostKernel {
    /// The kernel of `n` steps. `a`: `[S, S]` row-major (only its lower triangle is read), `b`: `[S, d]`, `c`: `[d, S]`.
    pub fn new(a: Vec<f64>, b: Vec<f64>, c: Vec<f64>, step: f64, (rule, n): Steps) -> Self {
        let channels = b.len() / a.len().isqrt();
        let system = Discrete::new(a, b, step, rule);
        let radius = system.radius();
        let method = match channels {
            1 => Method::One(Recurrence::new(system, c, n)),
            _ => Method::Many(Channels::new(system, &c, n)),
        };
        Self { channels, radius, method }
    }

    /// The kernel, `[N, d]`: row `j` is `K[j]`, the weight of the token read `j` steps before the end.
    pub fn values(&self) -> Vec<f64> {
        match &self.method {
            Method::One(method) => method.kernel(),
            Method::Many(method) => method.kernel(),
        }
    }

    fn vjp(&self, grad_kernel: &[f64]) -> Gradients {
        match &self.method {
            Method::One(method) => method.vjp(grad_kernel),
            Method::Many(method) => method.vjp(grad_kernel),
        }
    }
}
