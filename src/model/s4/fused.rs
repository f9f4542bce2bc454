//! The kernel of one channel on the CPU as one operation with its own gradient, in float64.
//!
//! One channel has a state of S values, so that N dependent steps cost less than starting the products
//! they could be folded into. With `M = I - dt/2 A` and `X = M^-1`: `Abar = 2 X - I`, `x_0 = dt X B`,
//! `x_{j+1} = Abar x_j`, `K[j] = C x_j`. Back, with `y_j` what state `j` is owed:
//! `y_j = dK[j] C + Abar^T y_{j+1}`, `dAbar = sum_j y_{j+1} x_j^T`, `dX = 2 dAbar + y_0 (dt B)^T` and
//! `dM = -X^T dX X^T`.

use std::fmt;
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Tensor, TensorData};
use burn_flex::FlexTensor;

use super::solve;
use crate::model::product::Matrix;
use crate::model::vectorise::{multiply_add, vectorised};

/// [`super::kernel`] on the CPU.
pub(super) fn kernel(a: Tensor<2>, b: Tensor<1>, c: Tensor<1>, step: Tensor<1>, n: usize) -> Tensor<1> {
    let (a, b, c, step) = (a.into_dispatch(), b.into_dispatch(), c.into_dispatch(), step.into_dispatch());
    Tensor::from_dispatch(<Dispatch as Remembering>::kernel(a, b, c, step, n))
}

#[backend_extension(Autodiff, Flex)]
trait Remembering: Backend {
    fn kernel(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        step: FloatTensor<Self>,
        n: usize,
    ) -> FloatTensor<Self>;
}

impl Remembering for Flex {
    fn kernel(a: FlexTensor, b: FlexTensor, c: FlexTensor, step: FlexTensor, n: usize) -> FlexTensor {
        let dtype = a.dtype();
        tensor(Recurrence::new([a, b, c, step], n).kernel(), &[n], dtype)
    }
}

impl<S: CheckpointStrategy> Remembering for Autodiff<Flex, S> {
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
                let recurrence = Recurrence::new([a, b, c, step], n);
                let kernel = tensor(recurrence.kernel(), &[n], dtype);
                prep.finish(Arc::new(Forward { recurrence, dtype }), kernel)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::kernel(a, b, c, step, n)),
        }
    }
}

/// What the way back needs.
struct Forward {
    recurrence: Recurrence,
    dtype: DType,
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forward({} states)", self.recurrence.states)
    }
}

/// The gradient of a kernel.
#[derive(Debug)]
struct BackFromKernel;

impl Backward<Flex, 4> for BackFromKernel {
    type State = Arc<Forward>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = values(grads.consume::<Flex>(&ops.node));
        let Forward { recurrence, dtype } = &*ops.state;
        let states = recurrence.states;
        let shapes: [&[usize]; 4] = [&[states, states], &[states], &[states], &[1]];
        for ((node, values), shape) in ops.parents.into_iter().zip(recurrence.back(&cotangent)).zip(shapes) {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, tensor(values, shape, *dtype));
            }
        }
    }
}

/// The states an impulse goes through.
struct Recurrence {
    states: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    step: f64,
    /// `X`, `[S, S]`, lower triangular.
    inverse: Vec<f64>,
    /// `Abar`, `[S, S]`, row by row.
    transition: Vec<f64>,
    /// `x_j`, `[N, S]`.
    path: Vec<f64>,
}

impl Recurrence {
    fn new([a, b, c, step]: [FlexTensor; 4], n: usize) -> Self {
        let [a, b, c, step] = [a, b, c, step].map(values);
        let (states, step) = (b.len(), step[0]);
        let (mut implicit, mut inverse) = (vec![0.0; states * states], vec![0.0; states * states]);
        for row in 0..states {
            (0..=row).for_each(|k| implicit[row * states + k] = -0.5 * step * a[row * states + k]);
            implicit[row * (states + 1)] += 1.0;
            inverse[row * (states + 1)] = 1.0;
        }
        solve(&implicit, &mut inverse, states, |k| k + 1);
        let mut transition: Vec<f64> = inverse.iter().map(|x| 2.0 * x).collect();
        (0..states).for_each(|row| transition[row * (states + 1)] -= 1.0);
        let columns: Vec<f64> =
            (0..states * states).map(|at| transition[at % states * states + at / states]).collect();
        let mut path = vec![0.0; n * states];
        if n > 0 {
            let first = &mut path[..states]; // x_0
            for (row, x) in first.iter_mut().enumerate() {
                *x = step * (0..=row).map(|k| inverse[row * states + k] * b[k]).sum::<f64>();
            }
        }
        for at in 1..n {
            let (before, after) = path[(at - 1) * states..].split_at_mut(states);
            let after = &mut after[..states];
            for (k, &x) in before.iter().enumerate() {
                add(x, &columns[k * states + k..(k + 1) * states], &mut after[k..]);
            }
        }
        Self { states, a, b, c, step, inverse, transition, path }
    }

    /// `K`, `[N]`.
    fn kernel(&self) -> Vec<f64> {
        self.path.chunks(self.states).map(|x| x.iter().zip(&self.c).map(|(x, c)| x * c).sum()).collect()
    }

    /// The gradients of `A`, `B`, `C` and the step, given that of the kernel.
    fn back(&self, by_kernel: &[f64]) -> [Vec<f64>; 4] {
        let (states, n) = (self.states, by_kernel.len());
        let table = || vec![0.0; states * states];
        let (mut by_c, mut owed) = (vec![0.0; states], vec![0.0; n * states]);
        for j in (0..n).rev() {
            add(by_kernel[j], &self.path[j * states..(j + 1) * states], &mut by_c);
            let (own, later) = owed[j * states..].split_at_mut(states);
            add(by_kernel[j], &self.c, own);
            for (row, &y) in later.iter().take(states).enumerate() {
                add(y, &self.transition[row * states..=row * (states + 1)], &mut own[..=row]);
            }
        }
        let (first, later) = owed.split_at(states);
        let mut by_transition = table();
        let path = Matrix::new(&self.path[..later.len()], states);
        Matrix::new(later, states).transposed().times(path, &mut by_transition);
        let mut by_inverse: Vec<f64> = by_transition.iter().map(|x| 2.0 * x).collect();
        for (row, &y) in first.iter().enumerate() {
            add(y * self.step, &self.b, &mut by_inverse[row * states..(row + 1) * states]);
        }
        let transposed = Matrix::new(&self.inverse, states).transposed();
        let (mut half, mut whole) = (table(), table());
        transposed.times(Matrix::new(&by_inverse, states), &mut half);
        Matrix::new(&half, states).times(transposed, &mut whole); // X^T dX X^T = -dM
        let mut impulse = vec![0.0; states]; // X^T y_0
        transposed.times(Matrix::new(first, 1), &mut impulse);
        let mut by_step: f64 = impulse.iter().zip(&self.b).map(|(x, b)| x * b).sum();
        let mut by_a = table();
        for row in 0..states {
            for at in row * states..=row * (states + 1) {
                by_a[at] = 0.5 * self.step * whole[at];
                by_step += 0.5 * self.a[at] * whole[at];
            }
        }
        let by_b = impulse.into_iter().map(|x| x * self.step).collect();
        [by_a, by_b, by_c, vec![by_step]]
    }
}

vectorised! {
    /// `into += factor values`.
    fn add<const FUSED: bool>(factor: f64, values: &[f64], into: &mut [f64]) {
        for (into, &x) in into.iter_mut().zip(values) {
            *into = multiply_add::<FUSED, f64>(factor, x, *into);
        }
    }
}

fn values(tensor: FlexTensor) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn tensor(values: Vec<f64>, shape: &[usize], dtype: DType) -> FlexTensor {
    FlexTensor::from_data(TensorData::new::<f64, _>(values, shape.to_vec()).convert_dtype(dtype))
}
