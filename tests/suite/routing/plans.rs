//! Plans, token weights and their gradients against the original.

use burn::tensor::{Device, Tensor};
use serde_json::Value;
use ssmprobe::model::ops::matmul::PreciseMatmul as _;
use ssmprobe::model::probe::router::Router;

use super::reference::*;

fn rows_of(case: &Value, plan: &[f64]) -> Vec<f64> {
    let n = count(case, "n");
    let rows = case["rows"].as_array().unwrap().iter().map(|r| r.as_u64().unwrap() as usize);
    rows.flat_map(|r| plan[r * n..(r + 1) * n].to_vec()).collect()
}

#[test]
pub fn plans_on_the_host_match_the_original() {
    let reference = Reference::open();
    let mut bound = Bound::new("plans on the host", HOST);
    let mut training = Bound::new("images routed for training", PLAN);
    for case in reference.cases("plans") {
        let name = text(case, "name");
        let [scores, gain, cotangent] = inputs(&reference, case);
        let router = router_of(case);
        let plan = router.plan(&scores);
        bound.record(name, apart(&rows_of(case, &plan.share), &reference.get(&format!("{name}/rows"))));
        let weights = reference.get(&format!("{name}/weights"));
        bound.record(name, apart(&product(&plan.share, &gain), &weights));
        let routed = router.route(&scores, None); // as in training: in float32 where that uses it
        training.record(name, apart(&routed.weights(&gain), &weights));
        let table = routed.plan();
        training.record(name, apart(&rows_of(case, &table), &reference.get(&format!("{name}/rows"))));
        let columns = reference.get(&format!("{name}/columns"));
        bound.record(name, apart(&product_left(&cotangent, &plan.share), &columns));
    }
}

#[test]
pub fn plans_on_tensors_match_the_original() {
    let reference = Reference::open();
    let device = Device::flex();
    let mut bound = Bound::new("plans on tensors", PLAN);
    for case in reference.cases("plans") {
        let name = text(case, "name");
        let [scores, ..] = inputs(&reference, case);
        let router = router_of(case);
        let batch = matrix(&scores, scores.len(), &device);
        let plan = host(router.plans(batch.clone(), None));
        bound.record(name, apart(&rows_of(case, &plan), &reference.get(&format!("{name}/rows"))));
        if case["router"] == "sinkhorn" {
            let plain = host(sinkhorn_of(case).plans_plain(batch, None));
            bound.record(name, apart(&plain, &router.plan(&scores).share));
        }
        bound.record(name, apart(&plan, &router.plan(&scores).share));
    }
}

/// Weights of `plain` or the router's own path, with gradients, for every plan case.
fn check_weights(what: &str, weights: impl Fn(&dyn Router, &Value, Tensor<2>, Tensor<1>) -> Tensor<2>) {
    let reference = Reference::open();
    let device = training_device();
    let mut forward = Bound::new(format!("{what}, token weights"), PLAN);
    let mut by_scores = Bound::new(format!("{what}, gradients by scores"), GRADIENT);
    let mut by_gain = Bound::new(format!("{what}, gradients by gain"), GRADIENT);
    for case in reference.cases("plans") {
        let name = text(case, "name");
        let [scores, gain, cotangent] = inputs(&reference, case);
        let scores = matrix(&scores, scores.len(), &device).require_grad();
        let gain = vector(&gain, &device).require_grad();
        let found = weights(&*router_of(case), case, scores.clone(), gain.clone()); // [1, N]
        let gradients = (found.clone() * matrix(&cotangent, cotangent.len(), &device)).sum().backward();
        forward.record(name, apart(&host(found), &reference.get(&format!("{name}/weights"))));
        let ds = reference.get(&format!("{name}/ds"));
        by_scores.record(name, apart_of_largest(&gradient(&scores, &gradients), &ds));
        let dq = reference.get(&format!("{name}/dq"));
        by_gain.record(name, apart_of_largest(&gradient(&gain, &gradients), &dq));
    }
}

#[test]
pub fn token_weights_and_gradients_match_the_original() {
    check_weights("the routers' own path", |router, _, scores, gain| {
        router.token_weights(scores, gain, None)
    });
}

#[test]
pub fn plain_token_weights_and_gradients_match_the_original() {
    check_weights("the plain path", |router, case, scores, gain| {
        let plans = match case["router"].as_str() {
            Some("sinkhorn") => sinkhorn_of(case).plans_plain(scores, None),
            _ => router.plans(scores, None),
        };
        plans.precise_matmul(gain.reshape([1, -1, 1])).squeeze_dim(2)
    });
}

#[test]
pub fn gradients_through_plans_match_the_original() {
    check_weights("plans", |router, _, scores, gain| {
        router.plans(scores, None).precise_matmul(gain.reshape([1, -1, 1])).squeeze_dim(2)
    });
}
