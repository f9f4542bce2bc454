//! Learning classes from the CLS token (Dosovitskiy et al. 2021).

use burn::tensor::{Device, Int, Tensor, TensorData, loss};

use super::{PIXELS, Plan, TOKENS, encoder};
use crate::model::params::{Params, Spec};
use crate::model::scenes::{CLASSES, Scene};

/// The classifier, which stays behind.
pub(super) fn specs(plan: &Plan) -> Vec<Spec> {
    encoder::linear_specs("classifier", plan.width, CLASSES).into()
}

/// Cross-entropy of the class read from CLS, and the share told right.
pub(super) fn supervised_loss(
    params: &Params,
    plan: &Plan,
    patches: Vec<f32>,
    scenes: &[Scene],
    device: &Device,
) -> (Tensor<1>, f32) {
    let batch = plan.batch;
    let pixels =
        Tensor::<2>::from_data(TensorData::new(patches, [batch * TOKENS, PIXELS]), device).autodiff();
    let x = encoder::encode(params, plan, pixels, None, batch); // [B, 1 + N, d]
    let cls = x.slice([0..batch, 0..1, 0..plan.width]).reshape([batch, plan.width]);
    let logits = cls.matmul(params.get::<2>("classifier.weight").transpose())
        + params.get::<1>("classifier.bias").unsqueeze(); // [B, C]
    let labels: Vec<i32> = scenes.iter().map(|scene| scene.class as i32).collect();
    let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [batch]), device);
    let right = logits.clone().inner().argmax(1).squeeze_dim::<1>(1).equal(labels.clone()).float().mean();
    let target = labels.one_hot::<2>(CLASSES).float().autodiff();
    (loss::cross_entropy_with_logits(logits, target), right.into_scalar::<f32>())
}
