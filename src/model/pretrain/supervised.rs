//! Learning classes from the CLS token (Dosovitskiy et al. 2021) and, so that it goes quickly and
//! tokens say what is where they are, from every patch token too (token labelling; Jiang et al. 2021).
//!
//! From CLS alone the last layer's patch tokens are never asked anything: a probe that reads them then
//! finds the class wherever attention has left it, mostly off the object.

use burn::tensor::{Device, Int, Tensor, TensorData, loss};

use super::{PATCH, PIXELS, Plan, TOKENS, encoder};
use crate::model::data::scenes::{CLASSES, Scene};
use crate::model::probe::params::{Params, Spec};

/// Share of a patch from which on its token is asked for the object's class, not for "none".
const LABELLED: f64 = 0.25;

/// The classifiers, which stay behind.
pub(super) fn specs(plan: &Plan) -> Vec<Spec> {
    let of_image = encoder::linear_specs("classifier", plan.width, CLASSES);
    let of_token = encoder::linear_specs("token_classifier", plan.width, CLASSES + 1);
    of_image.into_iter().chain(of_token).collect()
}

/// Cross-entropy of the class read from CLS plus the mean of those read from patch tokens, and the
/// share told right from CLS.
pub(super) fn supervised_loss(
    params: &Params,
    plan: &Plan,
    patches: Vec<f32>,
    scenes: &[Scene],
    device: &Device,
) -> (Tensor<1>, f32) {
    let (batch, d) = (plan.batch, plan.width);
    let pixels =
        Tensor::<2>::from_data(TensorData::new(patches, [batch * TOKENS, PIXELS]), device).autodiff();
    let x = encoder::encode(params, plan, pixels, None, batch); // [B, 1 + N, d]
    let labels = |labels: Vec<i32>| {
        let count = labels.len();
        Tensor::<1, Int>::from_data(TensorData::new(labels, [count]), device)
    };
    let entropy = |logits: Tensor<2>, labels: Tensor<1, Int>| {
        let classes = logits.dims()[1];
        loss::cross_entropy_with_logits(logits, labels.one_hot::<2>(classes).float().autodiff())
    };

    let cls = x.clone().slice([0..batch, 0..1, 0..d]);
    let logits = encoder::linear(params, "classifier", cls).reshape([batch, CLASSES]);
    let classes = labels(scenes.iter().map(|scene| scene.class as i32).collect());
    let right = logits.clone().inner().argmax(1).squeeze_dim::<1>(1).equal(classes.clone()).float().mean();

    let on = |scene: &Scene, cover: f64| if cover >= LABELLED { scene.class } else { CLASSES } as i32;
    let each = scenes.iter().flat_map(|scene| scene.cover(PATCH).into_iter().map(|cover| on(scene, cover)));
    let tokens = x.slice([0..batch, 1..1 + TOKENS, 0..d]);
    let of_tokens = encoder::linear(params, "token_classifier", tokens);
    let of_tokens = entropy(of_tokens.reshape([batch * TOKENS, CLASSES + 1]), labels(each.collect()));
    (entropy(logits, classes) + of_tokens, right.into_scalar::<f32>())
}
