//! Differentiable operations whose gradient is written by hand, as nodes of burn's graph.
//!
//! An operation implements its forward pass and its vector-Jacobian product ([`CustomOp::vjp`]); [`apply`] does the
//! rest: it takes the inputs out of burn's tensors, registers a node in the autodiff graph if any of them is
//! tracked, and wraps the output.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::NoCheckpointing};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, DispatchAutodiffContext, DispatchKindConversion, DispatchTensor,
};
use burn::tensor::{Device, Tensor};

/// An operation of the backend `B` that is differentiable in its `N` inputs. What needs no gradient (tokens of a
/// frozen backbone, say) is a field of the operation instead.
pub(crate) trait CustomOp<B: Backend, const N: usize> {
    /// What the backward pass needs of the forward pass.
    type Saved: Send + Sync + 'static;

    /// The output, and what [`vjp`](Self::vjp) needs, which may be incomplete unless `keep`.
    fn forward(self, inputs: [FloatTensor<B>; N], keep: bool) -> (FloatTensor<B>, Self::Saved);

    /// The gradient of every input, given that of the output; `None` for an input that the output does not depend on, and for
    /// one whose gradient is not `wanted`, if computing it would be extra work.
    fn vjp(
        saved: &Self::Saved,
        grad_output: FloatTensor<B>,
        wanted: [bool; N],
    ) -> [Option<FloatTensor<B>>; N];
}

/// The output of `op`, tracked by autodiff if any of the `inputs` is.
///
/// # Panics
/// If an input is not a float tensor of this backend: a bug of the caller.
pub(crate) fn apply<B, O, const N: usize, const D: usize>(op: O, inputs: [DispatchTensor; N]) -> Tensor<D>
where
    B: Backend,
    O: CustomOp<B, N> + 'static,
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    let is_untracked = |input: &DispatchTensor| input.autodiff == DispatchAutodiffContext::Disabled;
    if inputs.iter().all(is_untracked) {
        return Tensor::from_primitive::<B>(op.forward(inputs.map(primitive::<B>), false).0);
    }
    let inputs = inputs.map(|input| match is_untracked(&input) {
        true => Autodiff::<B>::from_inner(primitive::<B>(input)),
        false => primitive::<Autodiff<B>>(input),
    });
    let nodes = inputs.each_ref().map(<FloatTensor<Autodiff<B>>>::node);
    let inputs = inputs.map(<FloatTensor<Autodiff<B>>>::into_primitive);
    let output = match Vjp::<O>(PhantomData).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(node) => {
            let (output, saved) = op.forward(inputs, true);
            node.finish(Saved(Arc::new(saved)), output)
        }
        OpsKind::UnTracked(node) => node.finish(op.forward(inputs, false).0),
    };
    Tensor::from_primitive::<Autodiff<B>>(output)
}

/// An input as [`apply`] takes it; in place of an absent one, a tensor of one element that the operation must not read.
pub(crate) fn optional<const D: usize>(input: Option<Tensor<D>>, device: &Device) -> DispatchTensor {
    input.unwrap_or_else(|| Tensor::empty([1; D], device)).into_dispatch()
}

/// A tensor as the backend `B` holds it.
fn primitive<B: Backend>(tensor: DispatchTensor) -> FloatTensor<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    Tensor::<1>::from_dispatch(tensor)
        .try_into_primitive::<B>()
        .expect("a float tensor of the operation's backend")
}

/// What an operation keeps for its backward pass, shared, as burn clones it.
struct Saved<T>(Arc<T>);

impl<T> Clone for Saved<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Saved<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Saved")
    }
}

struct Vjp<O>(PhantomData<fn() -> O>);

impl<O> fmt::Debug for Vjp<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<O>())
    }
}

impl<B: Backend, O: CustomOp<B, N> + 'static, const N: usize> Backward<B, N> for Vjp<O> {
    type State = Saved<O::Saved>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let grad_inputs = O::vjp(&ops.state.0, grads.consume::<B>(&ops.node), wanted);
        for (parent, gradient) in ops.parents.into_iter().zip(grad_inputs) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}
