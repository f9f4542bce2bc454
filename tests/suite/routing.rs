//! Routers and S4 against an independent float64 original (`tests/reference/routing.py`): on the
//! host to 1e-9, on float32 tensors to 1e-5, gradients to 1e-4 of the largest.

use burn::tensor::{Device, Gradients, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::SafeTensors;
use serde_json::Value;
use ssmprobe::model::head::Config;
use ssmprobe::model::router::gumbel::GumbelSinkhorn;
use ssmprobe::model::router::hard_sort::HardSort;
use ssmprobe::model::router::sinkhorn::Sinkhorn;
use ssmprobe::model::router::softsort::SoftSort;
use ssmprobe::model::router::{self, Router};
use ssmprobe::model::s4;

/// How far the host may be from the original.
const HOST: f64 = 1e-9;
/// How far float32 plans, weights and kernels may be.
const PLAN: f64 = 1e-5;
/// How far float32 gradients may be, as a share of the largest entry.
const GRADIENT: f64 = 1e-4;

/// Largest entries below this are those of a saturated plan: what is left of them is no gradient
/// that float32 could follow.
const FAINT: f64 = 1e-6;

/// The file of reference numbers.
struct Reference {
    bytes: Vec<u8>,
    cases: Value,
}

impl Reference {
    fn open() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/routing/routing.safetensors");
        let bytes = std::fs::read(path).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let cases = header.metadata().as_ref().unwrap()["cases"].clone();
        Self { cases: serde_json::from_str(&cases).unwrap(), bytes }
    }

    fn cases(&self, subject: &str) -> &[Value] {
        self.cases[subject].as_array().unwrap()
    }

    fn get(&self, name: &str) -> Vec<f64> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let view = file.tensor(name).unwrap_or_else(|_| panic!("no `{name}`"));
        view.data().chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect()
    }
}

/// The largest absolute difference; infinite where anything is not a number.
fn apart(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let difference = |(a, b): (&f64, &f64)| if a.is_finite() { (a - b).abs() } else { f64::INFINITY };
    found.iter().zip(expected).map(difference).fold(0.0, f64::max)
}

/// [`apart`] as a share of the largest expected value; below `FAINT` everything counts alike.
fn apart_of_largest(found: &[f64], expected: &[f64]) -> f64 {
    apart(found, expected) / expected.iter().fold(FAINT, |top, x| top.max(x.abs()))
}

/// Measurements that must stay below a bound; the worst is named.
struct Bound {
    what: String,
    bound: f64,
    worst: f64,
    failed: Vec<String>,
}

impl Bound {
    fn new(what: impl Into<String>, bound: f64) -> Self {
        Self { what: what.into(), bound, worst: 0.0, failed: vec![] }
    }

    fn see(&mut self, case: &str, error: f64) {
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

fn training_device() -> Device {
    Device::flex().autodiff()
}

fn vector(values: &[f64], device: &Device) -> Tensor<1> {
    let single = values.iter().map(|&x| x as f32).collect();
    Tensor::from_data(TensorData::new::<f32, _>(single, [values.len()]), device)
}

fn matrix(values: &[f64], cols: usize, device: &Device) -> Tensor<2> {
    vector(values, device).reshape([values.len() / cols, cols])
}

fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f32>().map(f64::from).collect()
}

fn gradient<const D: usize>(tensor: &Tensor<D>, gradients: &Gradients) -> Vec<f64> {
    host(tensor.grad(gradients).expect("a gradient"))
}

/// The learned router of a case, built as from a probe file.
fn router_of(case: &Value) -> Box<dyn Router> {
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

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap()
}

fn count(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap() as usize
}

/// Scores, gain and cotangent of a plan case.
fn inputs(reference: &Reference, case: &Value) -> [Vec<f64>; 3] {
    let n = count(case, "n");
    let scores = reference.get(&format!("scores/{n}/{}", text(case, "kind")));
    [scores, reference.get(&format!("gain/{n}")), reference.get(&format!("cotangent/{n}"))]
}

fn rows_of(case: &Value, plan: &[f64]) -> Vec<f64> {
    let n = count(case, "n");
    let rows = case["rows"].as_array().unwrap().iter().map(|r| r.as_u64().unwrap() as usize);
    rows.flat_map(|r| plan[r * n..(r + 1) * n].to_vec()).collect()
}

fn product(plan: &[f64], right: &[f64]) -> Vec<f64> {
    plan.chunks(right.len()).map(|row| row.iter().zip(right).map(|(p, q)| p * q).sum()).collect()
}

fn product_left(left: &[f64], plan: &[f64]) -> Vec<f64> {
    let n = left.len();
    (0..n).map(|k| (0..n).map(|i| left[i] * plan[i * n + k]).sum()).collect()
}

#[test]
fn plans_on_the_host_match_the_original() {
    let reference = Reference::open();
    let mut bound = Bound::new("plans on the host", HOST);
    for case in reference.cases("plans") {
        let name = text(case, "name");
        let [scores, gain, cotangent] = inputs(&reference, case);
        let router = router_of(case);
        let plan = router.plan(&scores);
        bound.see(name, apart(&rows_of(case, &plan.share), &reference.get(&format!("{name}/rows"))));
        let weights = reference.get(&format!("{name}/weights"));
        bound.see(name, apart(&product(&plan.share, &gain), &weights));
        bound.see(name, apart(&router.token_weights_host(&scores, &gain), &weights));
        let columns = reference.get(&format!("{name}/columns"));
        bound.see(name, apart(&product_left(&cotangent, &plan.share), &columns));
    }
}

#[test]
fn plans_on_tensors_match_the_original() {
    let reference = Reference::open();
    let device = Device::flex();
    let mut bound = Bound::new("plans on tensors", PLAN);
    for case in reference.cases("plans") {
        let name = text(case, "name");
        let [scores, ..] = inputs(&reference, case);
        let router = router_of(case);
        let plan = host(router.plans(matrix(&scores, scores.len(), &device)));
        bound.see(name, apart(&rows_of(case, &plan), &reference.get(&format!("{name}/rows"))));
        bound.see(name, apart(&plan, &router.plan(&scores).share));
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
        forward.see(name, apart(&host(found), &reference.get(&format!("{name}/weights"))));
        let ds = reference.get(&format!("{name}/ds"));
        by_scores.see(name, apart_of_largest(&gradient(&scores, &gradients), &ds));
        let dq = reference.get(&format!("{name}/dq"));
        by_gain.see(name, apart_of_largest(&gradient(&gain, &gradients), &dq));
    }
}

#[test]
fn token_weights_and_gradients_match_the_original() {
    check_weights("the routers' own path", |router, _, scores, gain| router.token_weights(scores, gain));
}

#[test]
fn plain_token_weights_and_gradients_match_the_original() {
    check_weights("the plain path", |router, _, scores, gain| {
        router.plans(scores).matmul(gain.reshape([1, -1, 1])).squeeze_dim(2)
    });
}

#[test]
fn kernels_on_the_host_match_the_original() {
    let reference = Reference::open();
    let mut bound = Bound::new("kernels on the host", HOST);
    for case in reference.cases("kernels") {
        let name = text(case, "name");
        let (states, d, n) = (count(case, "states"), count(case, "channels"), count(case, "n"));
        let system = s4::System::new(&transition(&reference, case), states, step(case));
        let (b, c) = (reference.get(&format!("{name}/b")), reference.get(&format!("{name}/c")));
        let expected = reference.get(&format!("{name}/kernel"));
        bound.see(name, apart_of_largest(&system.kernel_channels(&b, &c, d, n), &expected));
        bound.see(name, apart(&[system.radius()], &reference.get(&format!("{name}/radius"))));
        if d == 1 {
            bound.see(name, apart_of_largest(&system.kernel(&b, &c, n), &expected));
        }
    }
}

/// A of a kernel case: its own where trained, else HiPPO's, in float32 values.
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

#[test]
fn kernels_on_tensors_and_their_gradients_match_the_original() {
    check_kernels("kernels on tensors", [PLAN, GRADIENT], s4::kernel_channels);
}

#[test]
fn kernels_in_float32_and_their_gradients_match_the_original() {
    check_kernels("kernels in float32", [3e-5, GRADIENT], s4::kernel_channels_as_given);
}

type Kernel = fn(Tensor<2>, Tensor<2>, Tensor<2>, Tensor<1>, usize) -> Tensor<2>;

fn check_kernels(what: &str, bounds: [f64; 2], of_channels: Kernel) {
    let reference = Reference::open();
    let device = training_device();
    let mut forward = Bound::new(what, bounds[0]);
    let mut backward = Bound::new(format!("gradients of {what}"), bounds[1]);
    for case in reference.cases("kernels") {
        let name = text(case, "name");
        let (states, d, n) = (count(case, "states"), count(case, "channels"), count(case, "n"));
        let get = |key: &str| reference.get(&format!("{name}/{key}"));
        let a = matrix(&transition(&reference, case), states, &device).require_grad();
        let b = matrix(&get("b"), d, &device).require_grad();
        let c = matrix(&get("c"), states, &device).require_grad();
        let dt = vector(&[step(case)], &device).require_grad();
        let kernel = of_channels(a.clone(), b.clone(), c.clone(), dt.clone(), n); // [N, d]
        let gradients = (kernel.clone() * matrix(&get("cotangent"), d, &device)).sum().backward();
        forward.see(name, apart_of_largest(&host(kernel), &get("kernel")));
        if d == 1 {
            let shared =
                s4::kernel(a.clone(), b.clone().squeeze_dim(1), c.clone().squeeze_dim(0), dt.clone(), n);
            forward.see(name, apart_of_largest(&host(shared), &get("kernel")));
        }
        let da = gradient(&a, &gradients);
        let probe = get("probe");
        let diagonal: Vec<f64> = (0..states).map(|i| da[i * states + i]).collect();
        assert!((0..states * states).all(|at| at % states <= at / states || da[at] == 0.0), "{name}");
        backward.see(&format!("{name} A v"), apart_of_largest(&product(&da, &probe), &get("da_probe")));
        backward.see(&format!("{name} v A"), apart_of_largest(&product_left(&probe, &da), &get("probe_da")));
        backward.see(&format!("{name} diagonal"), apart_of_largest(&diagonal, &get("da_diagonal")));
        backward.see(&format!("{name} B"), apart_of_largest(&gradient(&b, &gradients), &get("db")));
        backward.see(&format!("{name} C"), apart_of_largest(&gradient(&c, &gradients), &get("dc")));
        backward.see(&format!("{name} step"), apart_of_largest(&gradient(&dt, &gradients), &get("dstep")));
    }
}

#[test]
fn readouts_and_their_gradients_match_the_original() {
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
        let scores = tokens.clone().matmul(w.clone().unsqueeze_dim(1)).transpose(); // [1, N]
        let kernel = s4::kernel(a.clone(), b.clone(), c.clone(), dt.clone(), n); // [N]
        let last = (0..n).map(|k| f64::from(u8::from(k + 1 == n))).collect::<Vec<_>>();
        let gain = kernel.flip([0]) + skip.clone() * vector(&last, &device); // [N]
        let weights = router_of(case).token_weights(router::standardise_batch(scores), gain); // [1, N]
        let readout = weights.matmul(tokens); // [1, d]
        let gradients = (readout.clone() * matrix(&get("cotangent"), d, &device)).sum().backward();
        forward.see(name, apart_of_largest(&host(readout), &get("z")));
        backward.see(name, apart_of_largest(&gradient(&a, &gradients), &get("grad_a")));
        for (key, parameter) in [("w", &w), ("b", &b), ("c", &c), ("d", &skip), ("step", &dt)] {
            let found = gradient(parameter, &gradients);
            backward.see(&format!("{name} {key}"), apart_of_largest(&found, &get(&format!("grad_{key}"))));
        }
    }
}

#[test]
fn gradients_match_finite_differences_on_the_host() {
    let reference = Reference::open();
    let mut bound = Bound::new("gradients against finite differences", 1e-6);
    for case in reference.cases("plans").iter().filter(|case| count(case, "n") == 9) {
        let name = text(case, "name");
        let [scores, gain, cotangent] = inputs(&reference, case);
        let router = router_of(case);
        let loss = |scores: &[f64]| -> f64 {
            let weights = router.token_weights_host(scores, &gain);
            weights.iter().zip(&cotangent).map(|(w, c)| w * c).sum()
        };
        let difference = |i: usize| {
            let at = |offset: f64| {
                let mut moved = scores.clone();
                moved[i] += offset;
                loss(&moved)
            };
            let h = 1e-5; // fourth order: the error is some h^4 / tau^4
            (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h)
        };
        let found: Vec<f64> = (0..scores.len()).map(difference).collect();
        bound.see(name, apart_of_largest(&found, &reference.get(&format!("{name}/ds"))));
    }
}

#[test]
fn a_batch_is_its_images() {
    let device = Device::flex();
    let scores = normal(3 * 50, 5);
    let gain = normal(50, 6);
    for kind in router::ROUTERS {
        let router = (kind.build)(&Config::default()).unwrap();
        let batch = router.token_weights(matrix(&scores, 50, &device), vector(&gain, &device));
        let one_by_one: Vec<f64> =
            scores.chunks(50).flat_map(|scores| router.token_weights_host(scores, &gain)).collect();
        assert!(apart(&host(batch), &one_by_one) < PLAN, "{}", kind.id);
    }
}

#[test]
fn the_two_sinkhorn_paths_agree_at_any_temperature_and_score() {
    let device = training_device();
    for (temperature, far) in [(0.1, 3.0), (0.003, 14.0), (0.1, 200.0), (0.05, 14.0), (10.0, -1e4)] {
        let sinkhorn = Sinkhorn { temperature, iterations: 20 };
        let mut scores = normal(40, 7);
        scores[11] = far;
        let gain = vector(&normal(40, 8), &device);
        let both = [Sinkhorn::token_weights, Sinkhorn::token_weights_plain].map(|path| {
            let scores = matrix(&scores, 40, &device).require_grad();
            let weights = path(&sinkhorn, scores.clone(), gain.clone());
            let loss = (weights.clone() * matrix(&normal(40, 9), 40, &device)).sum();
            (host(weights), gradient(&scores, &loss.backward()))
        });
        let case = format!("temperature {temperature}, a score at {far}");
        assert!(apart(&both[0].0, &both[1].0) < PLAN, "{case}: {:.1e}", apart(&both[0].0, &both[1].0));
        let gradients = apart_of_largest(&both[1].1, &both[0].1);
        assert!(gradients < GRADIENT, "gradients at {case}: {gradients:.1e}");
    }
}

#[test]
fn random_scores_spread_as_published() {
    let draws = 40;
    let (mut coverage, mut entropy, mut sharpest) = (0.0, 0.0, 0.0);
    for seed in 0..draws {
        let n = 196;
        let plan = Sinkhorn::default().plan(&router::standardise(&normal(n, seed)));
        let mut histogram = vec![0.0; n];
        let mut tops: Vec<f64> = (0..n)
            .map(|i| {
                let (place, top) = plan
                    .row(i)
                    .iter()
                    .enumerate()
                    .fold((0, -1.0), |best, (k, &share)| if share > best.1 { (k, share) } else { best });
                histogram[place] += 1.0 / n as f64;
                top
            })
            .collect();
        tops.sort_by(f64::total_cmp);
        let at = 0.95 * (n - 1) as f64;
        sharpest += tops[at as usize] + at.fract() * (tops[at as usize + 1] - tops[at as usize]);
        coverage += histogram.iter().filter(|&&share| share > 0.0).count() as f64 / n as f64;
        let terms = histogram.iter().filter(|&&share| share > 0.0).map(|share| -share * share.ln());
        entropy += terms.sum::<f64>() / (n as f64).ln();
    }
    let [coverage, entropy, sharpest] = [coverage, entropy, sharpest].map(|sum| sum / draws as f64);
    println!("coverage {coverage:.3}, entropy {entropy:.3}, row_max_p95 {sharpest:.4}");
    assert!((coverage - 0.61).abs() < 0.015, "coverage {coverage}");
    assert!((entropy - 0.88).abs() < 0.01, "entropy {entropy}");
    assert!((sharpest - 0.051).abs() < 0.002, "row_max_p95 {sharpest}");
}

#[test]
fn hard_sort_is_a_permutation_with_the_gradient_of_softsort() {
    let device = training_device();
    let scores = [0.5, -1.0, 0.5, 2.0]; // a tie: by index
    let plan = HardSort::default().plan(&scores);
    let places: Vec<usize> = (0..4).map(|i| plan.row(i).iter().position(|&x| x == 1.0).unwrap()).collect();
    assert_eq!(places, [1, 0, 2, 3]);
    let scores = normal(30, 1);
    let cotangent = matrix(&normal(900, 2), 30, &device).unsqueeze_dim::<3>(0);
    let run = |router: &dyn Router| {
        let scores = matrix(&scores, 30, &device).require_grad();
        let plans = router.plans(scores.clone());
        (host(plans.clone()), gradient(&scores, &(plans * cotangent.clone()).sum().backward()))
    };
    let hard = run(&HardSort { temperature: 0.3 });
    assert_eq!(hard.0, HardSort::default().plan(&scores).share);
    assert_eq!(hard.1, run(&SoftSort { power: 1, temperature: 0.3 }).1);
}

#[test]
fn gumbel_noise_is_seeded_and_only_for_training() {
    let device = training_device();
    let scores = matrix(&normal(60, 3), 30, &device).require_grad();
    let router = GumbelSinkhorn::default();
    let plain = host(Sinkhorn::default().plans(scores.clone()));
    assert_eq!(host(router.plans(scores.clone())), plain);
    let drawn = router.training_plans(scores.clone(), &[1, 2]);
    assert_eq!(host(drawn.clone()), host(router.training_plans(scores.clone(), &[1, 2])));
    let other = host(router.training_plans(scores.clone(), &[1, 3]));
    assert_eq!(host(drawn.clone())[..900], other[..900]);
    assert!(apart(&host(drawn.clone())[900..], &other[900..]) > 0.01);
    assert!(apart(&host(drawn.clone()), &plain) > 0.01);
    let columns = host(drawn.clone().sum_dim(1));
    assert!(apart(&columns, &vec![1.0; 60]) < PLAN);
    let gain = vector(&normal(30, 4), &device);
    let weights = router.training_token_weights(scores.clone(), gain.clone(), &[1, 2]);
    assert!(apart(&host(weights), &host(drawn.clone().matmul(gain.reshape([1, -1, 1])))) < PLAN);
    let moved = gradient(&scores, &drawn.slice([0..2, 0..30, 29..30]).sum().backward());
    assert!(moved.iter().all(|x| x.is_finite()));
    let silent = GumbelSinkhorn { noise: 0.0, ..router };
    assert_eq!(host(silent.training_plans(scores, &[1, 2])), plain);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let build = |id: &str, config: Config| (router::find(id).unwrap().build)(&config).err().unwrap();
    let refused = build("sinkhorn", Config { temperature: Some(0.0), ..Config::default() });
    assert_eq!(refused.to_string(), "config field `temperature` is 0; expected a number from 1e-4 to 1e4");
    let nan = build("neuralsort", Config { temperature: Some(f64::NAN), ..Config::default() });
    assert_eq!(nan.field, "temperature");
    assert_eq!(build("sinkhorn", Config { iterations: Some(0), ..Config::default() }).field, "iterations");
    assert_eq!(build("softsort", Config { power: Some(3), ..Config::default() }).field, "power");
    assert!(router::find("raster").is_none());
}

/// Seeded standard normal values (Box and Muller).
fn normal(count: usize, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut uniform = || (rng.random::<f64>(), 1.0 - rng.random::<f64>());
    (0..count)
        .map(|_| {
            let (angle, radius) = uniform();
            (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
        })
        .collect()
}
