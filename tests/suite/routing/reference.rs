//! The file of reference values, and the tolerances.

use burn::tensor::{Device, Gradients, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::SafeTensors;
use serde_json::Value;
use ssmprobe::model::probe::head::Config;
use ssmprobe::model::probe::router::sinkhorn::Sinkhorn;
use ssmprobe::model::probe::router::{self, Router};

use crate::close::distance;

/// Largest absolute difference of the host's float64 values.
pub(super) const HOST: f64 = 1e-9;
/// Largest absolute difference of float32 plans, weights and kernels.
pub const PLAN: f64 = 1e-5;
/// Largest difference of float32 gradients, as a share of the largest entry.
pub const GRADIENT: f64 = 1e-4;

/// Gradients whose largest entry is below this are of a saturated plan, and too small for float32 to
/// reproduce.
pub(super) const FAINT: f64 = 1e-6;

/// The file of reference numbers.
pub(super) struct Reference {
    bytes: Vec<u8>,
    cases: Value,
}

impl Reference {
    pub(super) fn open() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/routing/routing.safetensors");
        let bytes = std::fs::read(path).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let cases = header.metadata().as_ref().unwrap()["cases"].clone();
        Self { cases: serde_json::from_str(&cases).unwrap(), bytes }
    }

    pub(super) fn cases(&self, subject: &str) -> &[Value] {
        self.cases[subject].as_array().unwrap()
    }

    pub(super) fn get(&self, name: &str) -> Vec<f64> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let view = file.tensor(name).unwrap_or_else(|_| panic!("no `{name}`"));
        view.data().chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect()
    }
}

/// The largest absolute difference; panics where anything is not a number.
#[track_caller]
pub fn apart(found: &[f64], expected: &[f64]) -> f64 {
    distance("values", found, expected)
}

/// [`apart`] as a share of the largest expected value, or of `FAINT` if that is larger.
#[track_caller]
pub fn apart_of_largest(found: &[f64], expected: &[f64]) -> f64 {
    apart(found, expected) / expected.iter().fold(FAINT, |top, x| top.max(x.abs()))
}

/// Errors that must stay below a bound; the worst is reported.
pub(super) struct Bound {
    what: String,
    bound: f64,
    worst: f64,
    recorded: usize,
    failed: Vec<String>,
}

impl Bound {
    pub(super) fn new(what: impl Into<String>, bound: f64) -> Self {
        Self { what: what.into(), bound, worst: 0.0, recorded: 0, failed: vec![] }
    }

    pub(super) fn record(&mut self, case: &str, error: f64) {
        self.recorded += 1;
        self.worst = self.worst.max(error);
        if error.is_nan() || error > self.bound {
            self.failed.push(format!("{case}: {error:.2e}"));
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        println!("{}: {:.2e} (at most {:.0e})", self.what, self.worst, self.bound);
        if !std::thread::panicking() {
            assert!(self.recorded > 0, "{}: nothing was measured", self.what);
            assert!(
                self.failed.is_empty(),
                "{} beyond {:.0e}:\n{}",
                self.what,
                self.bound,
                self.failed.join("\n")
            );
        }
    }
}

pub(super) fn training_device() -> Device {
    Device::flex().autodiff()
}

pub fn vector(values: &[f64], device: &Device) -> Tensor<1> {
    let single = values.iter().map(|&x| x as f32).collect();
    Tensor::from_data(TensorData::new::<f32, _>(single, [values.len()]), device)
}

pub fn matrix(values: &[f64], cols: usize, device: &Device) -> Tensor<2> {
    vector(values, device).reshape([values.len() / cols, cols])
}

pub fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f32>().map(f64::from).collect()
}

pub fn gradient<const D: usize>(tensor: &Tensor<D>, gradients: &Gradients) -> Vec<f64> {
    host(tensor.grad(gradients).expect("a gradient"))
}

/// The learned router of a case, built as from a probe file.
pub(super) fn router_of(case: &Value) -> Box<dyn Router> {
    let config = &case["config"];
    let config = Config {
        temperature: config["tau"].as_f64(),
        iterations: config["iterations"].as_u64().map(|x| x as usize),
        power: config["power"].as_u64().map(|x| x as u32),
        ..Config::default()
    };
    let kind = router::find(case["router"].as_str().unwrap()).unwrap();
    (kind.build)(&config).unwrap()
}

pub(super) fn sinkhorn_of(case: &Value) -> Sinkhorn {
    let config = &case["config"];
    let iterations = count(config, "iterations");
    Sinkhorn { temperature: config["tau"].as_f64().unwrap(), iterations, noisy: false }
}

pub(super) fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap()
}

pub(super) fn count(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap() as usize
}

/// Scores, gain and cotangent of a plan case.
pub(super) fn inputs(reference: &Reference, case: &Value) -> [Vec<f64>; 3] {
    let n = count(case, "n");
    let scores = reference.get(&format!("scores/{n}/{}", text(case, "kind")));
    [scores, reference.get(&format!("gain/{n}")), reference.get(&format!("cotangent/{n}"))]
}

pub(super) fn product(plan: &[f64], right: &[f64]) -> Vec<f64> {
    plan.chunks(right.len()).map(|row| row.iter().zip(right).map(|(p, q)| p * q).sum()).collect()
}

pub(super) fn product_left(left: &[f64], plan: &[f64]) -> Vec<f64> {
    let n = left.len();
    (0..n).map(|k| (0..n).map(|i| left[i] * plan[i * n + k]).sum()).collect()
}

/// Seeded standard normal values (Box and Muller).
pub fn normal(count: usize, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut uniform = || (rng.random::<f64>(), 1.0 - rng.random::<f64>());
    (0..count)
        .map(|_| {
            let (angle, radius) = uniform();
            (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
        })
        .collect()
}
