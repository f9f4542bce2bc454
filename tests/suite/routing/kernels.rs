//! S4 kernels, and the whole path from the scorer to the readout, against the original.

use burn::tensor::Tensor;
use serde_json::Value;
use ssmprobe::model::ops::matmul::PreciseMatmul as _;
use ssmprobe::model::probe::settings::Discretization;
use ssmprobe::model::probe::{router, s4};

use super::reference::*;

#[test]
pub fn kernels_on_the_host_match_the_original() {
    let reference = Reference::open();
    let mut bound = Bound::new("kernels on the host", HOST);
    for case in reference.cases("kernels") {
        let name = text(case, "name");
        let (b, c) = (reference.get(&format!("{name}/b")), reference.get(&format!("{name}/c")));
        let kernel = s4::HostKernel::new(transition(&reference, case), b, c, step(case), steps(case));
        let expected = reference.get(&format!("{name}/kernel"));
        bound.record(name, apart_of_largest(&kernel.values(), &expected));
        bound.record(name, apart(&[kernel.radius], &reference.get(&format!("{name}/radius"))));
    }
}

/// A of a kernel case: the case's own if it was trained, otherwise HiPPO's, rounded to float32.
fn transition(reference: &Reference, case: &Value) -> Vec<f64> {
    if case["trained"].as_bool().unwrap() {
        return reference.get(&format!("{}/a", text(case, "name")));
    }
    s4::hippo(count(case, "states")).0.into_iter().map(|x| f64::from(x as f32)).collect()
}

/// The step of a kernel case, a float32 value.
fn step(case: &Value) -> f64 {
    f64::from(case["step"].as_f64().unwrap() as f32)
}

/// The discretisation rule and the number of steps of a kernel case.
fn steps(case: &Value) -> s4::Steps {
    let rule = match case["hold"].as_bool() {
        Some(true) => Discretization::Zoh,
        _ => Discretization::Bilinear,
    };
    (rule, count(case, "n"))
}

#[test]
pub fn kernels_on_tensors_and_their_gradients_match_the_original() {
    check_kernels("kernels on tensors", [PLAN, GRADIENT], s4::kernel_channels);
}

#[test]
pub fn kernels_in_float32_and_their_gradients_match_the_original() {
    // With 256 states and the longest step, the zero-order hold is off by 1.2e-4, the bilinear rule by half of that.
    check_kernels("kernels in float32", [3e-5, 1.5 * GRADIENT], s4::kernel_channels_as_given);
}

type Kernel = fn(Tensor<2>, Tensor<2>, Tensor<2>, Tensor<1>, s4::Steps) -> Tensor<2>;

fn check_kernels(what: &str, bounds: [f64; 2], of_channels: Kernel) {
    let reference = Reference::open();
    let device = training_device();
    let mut forward = Bound::new(what, bounds[0]);
    let mut backward = Bound::new(format!("gradients of {what}"), bounds[1]);
    for case in reference.cases("kernels") {
        let name = text(case, "name");
        let (states, d) = (count(case, "states"), count(case, "channels"));
        let get = |key: &str| reference.get(&format!("{name}/{key}"));
        let a = matrix(&transition(&reference, case), states, &device).require_grad();
        let b = matrix(&get("b"), d, &device).require_grad();
        let c = matrix(&get("c"), states, &device).require_grad();
        let dt = vector(&[step(case)], &device).require_grad();
        let kernel = of_channels(a.clone(), b.clone(), c.clone(), dt.clone(), steps(case)); // [N, d]
        let gradients = (kernel.clone() * matrix(&get("cotangent"), d, &device)).sum().backward();
        forward.record(name, apart_of_largest(&host(kernel), &get("kernel")));
        let da = gradient(&a, &gradients);
        let probe = get("probe");
        let diagonal: Vec<f64> = (0..states).map(|i| da[i * states + i]).collect();
        assert!((0..states * states).all(|at| at % states <= at / states || da[at] == 0.0), "{name}");
        backward.record(&format!("{name} A v"), apart_of_largest(&product(&da, &probe), &get("da_probe")));
        backward
            .record(&format!("{name} v A"), apart_of_largest(&product_left(&probe, &da), &get("probe_da")));
        backward.record(&format!("{name} diagonal"), apart_of_largest(&diagonal, &get("da_diagonal")));
        backward.record(&format!("{name} B"), apart_of_largest(&gradient(&b, &gradients), &get("db")));
        backward.record(&format!("{name} C"), apart_of_largest(&gradient(&c, &gradients), &get("dc")));
        backward.record(&format!("{name} step"), apart_of_largest(&gradient(&dt, &gradients), &get("dstep")));
    }
}

#[test]
pub fn readouts_and_their_gradients_match_the_original() {
    let reference = Reference::open();
    let device = training_device();
    let mut forward = Bound::new("readouts", PLAN);
    let mut backward = Bound::new("gradients of readouts", GRADIENT);
    for case in reference.cases("readouts") {
        let name = text(case, "name");
        let (n, d, states) = (count(case, "n"), count(case, "d"), count(case, "states"));
        let get = |key: &str| reference.get(&format!("{name}/{key}"));
        let tokens = matrix(&get("tokens"), d, &device); // [N, d]
        let a = matrix(&get("a"), states, &device).require_grad();
        let [w, b, c, skip, dt] =
            ["w", "b", "c", "d", "step"].map(|key| vector(&get(key), &device).require_grad());
        let scores = tokens.clone().precise_matmul(w.clone().unsqueeze_dim(1)).transpose(); // [1, N]
        let system = s4::System {
            a: a.clone(),
            b: b.clone().unsqueeze_dim(1),
            c: c.clone().unsqueeze_dim(0),
            skip: skip.clone(),
            step: dt.clone(),
        };
        let gain = s4::gains(vec![system], (Discretization::Bilinear, n)).reshape([n]);
        let weights = router_of(case).token_weights(router::standardise_batch(scores), gain, None); // [1, N]
        let readout = weights.precise_matmul(tokens); // [1, d]
        let gradients = (readout.clone() * matrix(&get("cotangent"), d, &device)).sum().backward();
        forward.record(name, apart_of_largest(&host(readout), &get("z")));
        backward.record(name, apart_of_largest(&gradient(&a, &gradients), &get("grad_a")));
        for (key, parameter) in [("w", &w), ("b", &b), ("c", &c), ("d", &skip), ("step", &dt)] {
            let found = gradient(parameter, &gradients);
            backward.record(&format!("{name} {key}"), apart_of_largest(&found, &get(&format!("grad_{key}"))));
        }
    }
}
