//! S4 kernels on the CPU as one operation with its own gradient, in float64: [`Recurrence`] for one
//! channel, [`Channels`] for many.

use std::fmt;
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Tensor, TensorData};
use burn_flex::FlexTensor;

use super::channels::Channels;
use super::discrete::Discrete;
use super::recurrence::Recurrence;

/// [`super::kernel_channels`] on the CPU.
pub(super) fn kernel(a: Tensor<2>, b: Tensor<2>, c: Tensor<2>, step: Tensor<1>, n: usize) -> Tensor<2> {
    let (a, b, c, step) = (a.into_dispatch(), b.into_dispatch(), c.into_dispatch(), step.into_dispatch());
    Tensor::from_dispatch(<Dispatch as S4KernelOp>::kernel(a, b, c, step, n))
}

#[backend_extension(Autodiff, Flex)]
trait S4KernelOp: Backend {
    fn kernel(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        step: FloatTensor<Self>,
        n: usize,
    ) -> FloatTensor<Self>;
}

impl S4KernelOp for Flex {
    fn kernel(a: FlexTensor, b: FlexTensor, c: FlexTensor, step: FlexTensor, n: usize) -> FlexTensor {
        let dtype = a.dtype();
        let kernel = Kernel::new([a, b, c, step], n);
        tensor(kernel.values(), &[n, kernel.channels], dtype)
    }
}

impl<S: CheckpointStrategy> S4KernelOp for Autodiff<Flex, S> {
    fn kernel(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        step: FloatTensor<Self>,
        n: usize,
    ) -> FloatTensor<Self> {
        let given = [a, b, c, step];
        let nodes = given.each_ref().map(<FloatTensor<Self>>::node);
        let [a, b, c, step] = given.map(<FloatTensor<Self>>::into_primitive);
        match BackFromKernel.prepare::<S>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let dtype = a.dtype();
                let kernel = Kernel::new([a, b, c, step], n);
                let values = tensor(kernel.values(), &[n, kernel.channels], dtype);
                prep.finish(Arc::new(Forward { kernel, dtype }), values)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::kernel(a, b, c, step, n)),
        }
    }
}

/// What the way back needs.
struct Forward {
    kernel: Kernel,
    dtype: DType,
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forward({} channels)", self.kernel.channels)
    }
}

/// The gradient of a kernel.
#[derive(Debug)]
struct BackFromKernel;

impl Backward<Flex, 4> for BackFromKernel {
    type State = Arc<Forward>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut grads::Gradients, _: &mut Checkpointer) {
        let cotangent = values(grads.consume::<Flex>(&ops.node));
        let Forward { kernel, dtype } = &*ops.state;
        let Gradients { a, b, c, step } = kernel.back(&cotangent);
        let (states, channels) = (a.len().isqrt(), kernel.channels);
        let shapes: [&[usize]; 4] = [&[states, states], &[states, channels], &[channels, states], &[1]];
        for ((node, values), shape) in ops.parents.into_iter().zip([a, b, c, vec![step]]).zip(shapes) {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, tensor(values, shape, *dtype));
            }
        }
    }
}

/// The gradients of what makes a kernel, each in its shape.
pub(super) struct Gradients {
    pub a: Vec<f64>,
    pub b: Vec<f64>,
    pub c: Vec<f64>,
    pub step: f64,
}

/// A kernel, and what its way back needs.
struct Kernel {
    channels: usize,
    made: Made,
}

/// How it was made.
enum Made {
    One(Recurrence),
    Many(Channels),
}

impl Kernel {
    fn new([a, b, c, step]: [FlexTensor; 4], n: usize) -> Self {
        let [a, b, c, step] = [a, b, c, step].map(values);
        let channels = b.len() / a.len().isqrt();
        let system = Discrete::new(a, b, step[0]);
        let made = match channels {
            1 => Made::One(Recurrence::new(system, c, n)),
            _ => Made::Many(Channels::new(system, &c, n)),
        };
        Self { channels, made }
    }

    /// `[N, d]`.
    fn values(&self) -> Vec<f64> {
        match &self.made {
            Made::One(made) => made.kernel(),
            Made::Many(made) => made.kernel(),
        }
    }

    fn back(&self, by_kernel: &[f64]) -> Gradients {
        match &self.made {
            Made::One(made) => made.back(by_kernel),
            Made::Many(made) => made.back(by_kernel),
        }
    }
}

fn values(tensor: FlexTensor) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn tensor(values: Vec<f64>, shape: &[usize], dtype: DType) -> FlexTensor {
    FlexTensor::from_data(TensorData::new::<f64, _>(values, shape.to_vec()).convert_dtype(dtype))
}
