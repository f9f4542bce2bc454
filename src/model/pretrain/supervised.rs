//! Supervised classification from the CLS token (Dosovitskiy et al. 2021) and, if the class of each patch is known, from every
//! patch token too (token labelling; Jiang et al. 2021): that trains faster, and tokens represent what is at their position.
//!
//! From CLS alone, as for photographs, the loss does not depend on the last layer's patch tokens: a probe that reads them then
//! finds the class wherever attention has put it, mostly off the object.

use burn::tensor::{Device, Int, Tensor, TensorData, loss};

use super::{Batch, Plan, encoder};
use crate::model::probe::params::{Params, Spec};

/// The parameters of the classifiers, which are not part of the backbone.
pub(super) fn specs(plan: &Plan) -> Vec<Spec> {
    let classes = plan.recipe.classes;
    let mut specs: Vec<Spec> = encoder::linear_specs("classifier", plan.width, classes).into();
    if plan.recipe.labels_tokens {
        specs.extend(encoder::linear_specs("token_classifier", plan.width, classes + 1));
    }
    specs
}

/// Cross-entropy of the CLS token's logits, plus, with token labelling, the mean cross-entropy of the patch tokens' logits; and
/// the share of images classified correctly from CLS, 0 to 1, `[1]`.
pub(super) fn supervised_loss(
    params: &Params,
    plan: &Plan,
    batch: Batch,
    device: &Device,
) -> (Tensor<1>, Tensor<1>) {
    let (classes, tokens, d) = (plan.recipe.classes, plan.tokens(), plan.width);
    let images = batch.classes.len();
    let pixels = TensorData::new(batch.patches, [images * tokens, plan.pixels()]);
    let pixels = Tensor::<2>::from_data(pixels, device).autodiff();
    let x = encoder::encode(params, plan, pixels, None, images); // [B, 1 + N, d]
    let labels = |labels: &[usize]| {
        let labels: Vec<i32> = labels.iter().map(|&class| class as i32).collect();
        Tensor::<1, Int>::from_data(&labels[..], device)
    };
    let entropy = |logits: Tensor<2>, labels: Tensor<1, Int>| {
        let classes = logits.dims()[1];
        loss::cross_entropy_with_logits(logits, labels.one_hot::<2>(classes).float().autodiff())
    };

    let cls = x.clone().slice([0..images, 0..1, 0..d]);
    let logits = encoder::linear(params, "classifier", cls).reshape([images, classes]);
    let truth = labels(&batch.classes);
    let right = logits.clone().inner().argmax(1).squeeze_dim::<1>(1).equal(truth.clone()).float().mean();
    let image_loss = entropy(logits, truth);
    if !plan.recipe.labels_tokens {
        return (image_loss, right);
    }
    let patches = x.slice([0..images, 1..1 + tokens, 0..d]);
    let logits = encoder::linear(params, "token_classifier", patches);
    let logits = logits.reshape([images * tokens, classes + 1]);
    (image_loss + entropy(logits, labels(&batch.token_classes)), right)
}
