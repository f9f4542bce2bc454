//! Learning classes from the CLS token (Dosovitskiy et al. 2021) and, where it is known what lies on each patch, so that it
//! goes quickly and tokens say what is where they are, from every patch token too (token labelling; Jiang et al. 2021).
//!
//! From CLS alone, as photographs have it, the last layer's patch tokens are never asked anything: a probe that reads them then
//! finds the class wherever attention has left it, mostly off the object.

use burn::tensor::{Device, Int, Tensor, TensorData, loss};

use super::{Batch, Plan, encoder};
use crate::model::probe::params::{Params, Spec};

/// The classifiers, which stay behind.
pub(super) fn specs(plan: &Plan) -> Vec<Spec> {
    let classes = plan.recipe.classes;
    let mut specs: Vec<Spec> = encoder::linear_specs("classifier", plan.width, classes).into();
    if plan.recipe.labels_tokens {
        specs.extend(encoder::linear_specs("token_classifier", plan.width, classes + 1));
    }
    specs
}

/// Cross-entropy of the class read from CLS plus, where they are known, the mean of those read from patch tokens, and the
/// share told right from CLS.
pub(super) fn supervised_loss(
    params: &Params,
    plan: &Plan,
    batch: Batch,
    device: &Device,
) -> (Tensor<1>, f32) {
    let (classes, tokens, d) = (plan.recipe.classes, plan.tokens(), plan.width);
    let images = batch.classes.len();
    let pixels = TensorData::new(batch.patches, [images * tokens, plan.pixels()]);
    let pixels = Tensor::<2>::from_data(pixels, device).autodiff();
    let x = encoder::encode(params, plan, pixels, None, images); // [B, 1 + N, d]
    let labels = |labels: &[usize]| {
        let labels: Vec<i32> = labels.iter().map(|&class| class as i32).collect();
        let count = labels.len();
        Tensor::<1, Int>::from_data(TensorData::new(labels, [count]), device)
    };
    let entropy = |logits: Tensor<2>, labels: Tensor<1, Int>| {
        let classes = logits.dims()[1];
        loss::cross_entropy_with_logits(logits, labels.one_hot::<2>(classes).float().autodiff())
    };

    let cls = x.clone().slice([0..images, 0..1, 0..d]);
    let logits = encoder::linear(params, "classifier", cls).reshape([images, classes]);
    let truth = labels(&batch.classes);
    let right = logits.clone().inner().argmax(1).squeeze_dim::<1>(1).equal(truth.clone()).float().mean();
    let right = right.into_scalar::<f32>();
    let of_image = entropy(logits, truth);
    if !plan.recipe.labels_tokens {
        return (of_image, right);
    }
    let of_tokens = x.slice([0..images, 1..1 + tokens, 0..d]);
    let of_tokens = encoder::linear(params, "token_classifier", of_tokens);
    let of_tokens = of_tokens.reshape([images * tokens, classes + 1]);
    (of_image + entropy(of_tokens, labels(&batch.token_classes)), right)
}
