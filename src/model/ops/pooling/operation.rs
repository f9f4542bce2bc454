//! One head's pooling as a differentiable operation on the CPU: a [`Pass`] as a node of burn's graph.

use std::sync::Arc;

use burn::backend::Flex;
use burn::tensor::Tensor;
use burn_flex::FlexTensor;

use super::Pooling;
use super::pass::{Gradient, Pass, PoolRequest};
use super::weight_rule::WeightRule;
use crate::model::ops::cpu::{flex, from_f32, to_f32};
use crate::model::ops::custom_op::{CustomOp, apply, optional};

/// [`Pooling::pool`] for tokens `[B, N, d]` on the CPU.
pub(super) fn pool(pooling: &Pooling, tokens: &Tensor<3>) -> Tensor<3> {
    let [images, _, width] = tokens.dims();
    let op = PoolOp {
        tokens: flex(tokens.clone()),
        rule: pooling.rule.clone(),
        shape: pooling.shape(images, width),
        has_queries: pooling.queries.is_some(),
        has_gains: pooling.gains.is_some(),
    };
    let inputs = [&pooling.queries, &pooling.gains].map(|input| optional(input.clone(), &tokens.device()));
    apply(op, inputs)
}

/// The pooling of `tokens`, whose inputs are queries and gains.
struct PoolOp {
    tokens: FlexTensor,
    rule: Arc<dyn WeightRule>,
    shape: [usize; 3],
    has_queries: bool,
    has_gains: bool,
}

impl CustomOp<Flex, 2> for PoolOp {
    /// The pass, and the shapes of queries and gains.
    type Saved = (Pass, [Vec<usize>; 2]);

    fn forward(self, [queries, gains]: [FlexTensor; 2], keep: bool) -> (FlexTensor, Self::Saved) {
        let shapes = [&queries, &gains].map(|tensor| tensor.layout().shape().to_vec());
        let queries = if self.has_queries { to_f32(queries) } else { vec![] };
        let gains = if self.has_gains { to_f32(gains) } else { vec![] };
        let gains = gains.into_iter().map(f64::from).collect();
        let request = PoolRequest { queries, gains, rule: self.rule };
        let (mut pooled, pass) = Pass::forward(&self.tokens, vec![request], keep);
        (from_f32(pooled.remove(0), &self.shape), (pass, shapes))
    }

    fn vjp(
        (pass, [queries, gains]): &Self::Saved,
        grad_pooled: FlexTensor,
        _: [bool; 2],
    ) -> [Option<FlexTensor>; 2] {
        let gradient = pass.backward(&[Some(to_f32(grad_pooled))]).pop().flatten().unwrap_or_default();
        let Gradient { queries: grad_queries, gains: grad_gains } = gradient;
        let grad_gains: Vec<f32> = grad_gains.into_iter().map(|x| x as f32).collect();
        [(grad_queries, queries), (grad_gains, gains)]
            .map(|(values, shape)| (!values.is_empty()).then(|| from_f32(values, shape)))
    }
}
