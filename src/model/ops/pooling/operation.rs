//! One head's pooling as an operation of the CPU with its own gradient: a [`Pass`] in burn's graph.

use std::fmt;
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;

use super::pass::{Gradient, Pass, PoolRequest};
use super::weight_rule::WeightRule;
use super::{Pooling, tensor};

/// [`Pooling::pool`] for tokens `[B, N, d]` on the CPU.
pub(super) fn pool(pooling: &Pooling, tokens: &Tensor<3>) -> Tensor<3> {
    // An operation takes tensors or none at all: one nobody reads stands for those that are absent.
    let nothing = || Tensor::<2>::zeros([1, 1], (&tokens.device(), tokens.dtype()));
    let [images, _, width] = tokens.dims();
    let task = Task {
        route: pooling.route.clone(),
        shape: pooling.shape(images, width),
        has_queries: pooling.queries.is_some(),
        has_gains: pooling.gains.is_some(),
    };
    let queries = pooling.queries.clone().unwrap_or_else(nothing).into_dispatch();
    let gains = pooling.gains.clone().unwrap_or_else(nothing).into_dispatch();
    Tensor::from_dispatch(<Dispatch as PoolOp>::pool(queries, gains, tokens.clone().into_dispatch(), task))
}

/// What to do.
pub(super) struct Task {
    route: Arc<dyn WeightRule>,
    /// Of what comes out.
    shape: [usize; 3],
    has_queries: bool,
    has_gains: bool,
}

impl Task {
    fn run(
        self,
        queries: FlexTensor,
        gains: FlexTensor,
        tokens: &FlexTensor,
        keep: bool,
    ) -> (FlexTensor, Pass) {
        let queries = if self.has_queries { values(queries) } else { vec![] };
        let gains = if self.has_gains { values(gains) } else { vec![] };
        let ask =
            PoolRequest { queries, gains: gains.into_iter().map(f64::from).collect(), route: self.route };
        let (mut pooled, pass) = Pass::forward(tokens, vec![ask], keep);
        (tensor(pooled.remove(0), &self.shape), pass)
    }
}

#[backend_extension(Autodiff, Flex)]
trait PoolOp: Backend {
    fn pool(
        queries: FloatTensor<Self>,
        gains: FloatTensor<Self>,
        tokens: FloatTensor<Self>,
        task: Task,
    ) -> FloatTensor<Self>;
}

impl PoolOp for Flex {
    fn pool(queries: FlexTensor, gains: FlexTensor, tokens: FlexTensor, task: Task) -> FlexTensor {
        task.run(queries, gains, &tokens, false).0
    }
}

impl<C: CheckpointStrategy> PoolOp for Autodiff<Flex, C> {
    fn pool(
        queries: FloatTensor<Self>,
        gains: FloatTensor<Self>,
        tokens: FloatTensor<Self>,
        task: Task,
    ) -> FloatTensor<Self> {
        let (queries_node, gains_node) = (queries.node(), gains.node());
        let (queries, gains) = (queries.into_primitive(), gains.into_primitive());
        let tokens = tokens.into_primitive();
        match BackFromPooled.prepare::<C>([queries_node, gains_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let shapes = [&queries, &gains].map(|tensor| tensor.layout().shape().to_vec());
                let (pooled, pass) = task.run(queries, gains, &tokens, true);
                prep.finish(Arc::new(Forward { pass, shapes }), pooled)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::pool(queries, gains, tokens, task)),
        }
    }
}

/// What the way back needs.
struct Forward {
    pass: Pass,
    /// Of queries and gains.
    shapes: [Vec<usize>; 2],
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forward")
    }
}

/// The gradient of pooled tokens.
#[derive(Debug)]
struct BackFromPooled;

impl Backward<Flex, 2> for BackFromPooled {
    type State = Arc<Forward>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = values(grads.consume::<Flex>(&ops.node));
        let Forward { pass, shapes } = &*ops.state;
        let Some(Some(Gradient { queries, gains })) = pass.backward(&[Some(cotangent)]).pop() else { return };
        let gains = gains.into_iter().map(|x| x as f32).collect();
        for ((node, values), shape) in ops.parents.into_iter().zip([queries, gains]).zip(shapes) {
            if let (Some(node), false) = (node, values.is_empty()) {
                grads.register::<Flex>(node.id, tensor(values, shape));
            }
        }
    }
}

/// A tensor's values.
pub(super) fn values(tensor: FlexTensor) -> Vec<f32> {
    tensor.into_data().convert::<f32>().try_to_vec().expect("float32 values")
}
