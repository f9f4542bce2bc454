//! The loss on the CPU: one pass over the images, in parallel.

use burn::backend::Flex;
use burn::tensor::{Int, Tensor};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::Root;
use crate::model::ops::cpu::{as_f32, flex, from_f32};
use crate::model::ops::custom_op::CustomOp;
use crate::model::ops::simd::{add, exp_single, largest, sum, vectorised};

/// Minimum number of logits per parallel task.
const TASK: usize = 1 << 13;
/// Logits below the largest by more than this have no weight: their gradients would be subnormal, which many processors are slow at.
const NEGLIGIBLE: f32 = -80.0;

/// The loss and the number of correct images, `[2]`; and the gradient of the loss with respect to the logits, `[B, C]`.
pub(super) fn pass(
    products: Tensor<2>,
    bias: Tensor<1>,
    classes: Tensor<1, Int>,
) -> (FlexTensor, Root<FlexTensor>) {
    let shape @ [images, count] = products.dims();
    let (products, bias) = (flex(products).to_contiguous(), flex(bias).to_contiguous());
    let classes: Vec<usize> = classes.into_data().iter::<i64>().map(|class| class as usize).collect();
    let mut logits = as_f32(&products).to_vec(); // which the pass replaces by their gradients
    let each = logits.par_chunks_mut(count).zip(&classes).with_min_len(TASK.div_ceil(count));
    let outcomes: Vec<(f32, bool)> =
        each.map(|(logits, &class)| image(logits, as_f32(&bias), class, 1.0 / images as f32)).collect();
    // Added up in one order, whatever the number of threads.
    let loss = outcomes.iter().map(|(loss, _)| f64::from(*loss)).sum::<f64>() / images as f64;
    let right = outcomes.iter().filter(|(_, right)| *right).count();
    (from_f32(vec![loss as f32, right as f32], &[2]), Root { grad_logits: from_f32(logits, &shape) })
}

vectorised! {
    /// Adds the bias to the logits of an image, and replaces them by the gradients of `share` times its loss. Returns its loss, and
    /// whether the first of the largest logits is that of its class.
    fn image<const FUSED: bool>(logits: &mut [f32], bias: &[f32], class: usize, share: f32) -> (f32, bool) {
        add(bias, logits);
        let (largest, class_logit) = (largest(logits), logits[class]);
        let right = class_logit == largest && logits[..class].iter().all(|&logit| logit < largest);
        for logit in logits.iter_mut() {
            let below = *logit - largest;
            *logit = if below < NEGLIGIBLE { 0.0 } else { exp_single::<FUSED>(below) };
        }
        let total = sum(logits);
        let scale = share / total;
        logits.iter_mut().for_each(|weight| *weight *= scale);
        logits[class] -= share;
        (total.ln() + largest - class_logit, right)
    }
}

impl CustomOp<Flex, 2> for Root<FlexTensor> {
    /// The gradient with respect to the logits.
    type Saved = FlexTensor;

    fn forward(self, _: [FlexTensor; 2], _: bool) -> (FlexTensor, FlexTensor) {
        (from_f32(vec![0.0], &[1]), self.grad_logits)
    }

    fn vjp(grad_logits: &FlexTensor, _: FlexTensor, _: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let count = grad_logits.layout().shape()[1];
        let mut grad_bias = vec![0.0; count];
        as_f32(grad_logits).chunks_exact(count).for_each(|row| add(row, &mut grad_bias));
        [Some(grad_logits.clone()), Some(from_f32(grad_bias, &[count]))]
    }
}
