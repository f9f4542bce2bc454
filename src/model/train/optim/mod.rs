//! Optimisers: AdamW (Loshchilov and Hutter 2019) as PyTorch computes it, and the paper's cosine schedule; momentum; LARS.
//!
//! Moments are kept by parameter name, so that a run that was killed resumes to the same bits.

mod fused;
mod gpu;
mod momentum;

use burn::tensor::{Device, Gradients, Tensor, TensorData};
use indexmap::IndexMap;

pub use self::momentum::Momentum;
use crate::model::io::array::{Array, Arrays};
use crate::model::ops::cpu::on_cpu;
use crate::model::probe::params::{Constraint, Params, Spec};

const BETA_1: f64 = 0.9;
const BETA_2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// The paper's learning rate at `step` of `steps`: half a cosine from `start` to 0.
pub fn cosine(start: f64, step: usize, steps: usize) -> f64 {
    0.5 * start * (1.0 + (std::f64::consts::PI * step as f64 / steps.max(1) as f64).cos())
}

/// The optimiser of one head.
#[derive(Clone)]
pub enum Optimizer {
    /// AdamW.
    AdamW(AdamW),
    /// Gradient descent with momentum, or LARS.
    Momentum(Momentum),
}

impl Optimizer {
    /// One step on `params`, then a projection onto their constraints. `gradients` are in the order of `params`.
    pub fn step(&mut self, params: Params, gradients: Vec<Option<Tensor<1>>>, rate: f64) -> Params {
        match self {
            Self::AdamW(adam) => adam.step(params, gradients, rate),
            Self::Momentum(momentum) => momentum.step(params, gradients, rate),
        }
    }

    /// Its state on the host, for a checkpoint.
    pub fn to_arrays(&self) -> Arrays {
        match self {
            Self::AdamW(adam) => adam.to_arrays(),
            Self::Momentum(momentum) => momentum.to_arrays(),
        }
    }

    /// This optimiser with the state of a checkpoint; `None` if the arrays are not a complete state of it, or that of other
    /// parameters than `params`.
    pub fn restore(&self, arrays: &Arrays, params: &Params, device: &Device) -> Option<Self> {
        Some(match self {
            Self::AdamW(adam) => Self::AdamW(adam.restore(arrays, params, device)?),
            Self::Momentum(momentum) => Self::Momentum(momentum.restore(arrays, params, device)?),
        })
    }
}

/// The gradient of every parameter, if it has one. `tracked` are the parameters in the graphs; their `gradients` are added up.
pub fn gradients(tracked: &Params, gradients: &[&Gradients]) -> Vec<Option<Tensor<1>>> {
    let of = |value: &Tensor<1>| {
        gradients.iter().filter_map(|gradients| value.grad(gradients)).reduce(|sum, more| sum + more)
    };
    tracked.iter().map(|(_, value)| of(value)).collect()
}

/// A trained parameter with its value and gradient.
type Trained<'a> = (&'a Spec, Tensor<1>, Tensor<1>);

/// Replaces the values of trained parameters that have a gradient by those that `step` returns, in the same order, and projects all
/// onto their constraints. `gradients` are in the order of `params`.
fn update(
    params: Params,
    gradients: Vec<Option<Tensor<1>>>,
    step: impl FnOnce(Vec<Trained>) -> Vec<Tensor<1>>,
) -> Params {
    let mut gradients = gradients.into_iter();
    let trained: Vec<Trained> = params
        .iter()
        .filter_map(|(spec, value)| {
            let gradient = gradients.next().expect("as many gradients as parameters")?;
            (spec.constraint != Constraint::Fixed).then(|| (spec, value.clone(), gradient))
        })
        .collect();
    let names: Vec<String> = trained.iter().map(|(spec, ..)| spec.name.clone()).collect();
    let mut moved: IndexMap<String, Tensor<1>> = names.into_iter().zip(step(trained)).collect();
    params.map(|spec, value| moved.swap_remove(&spec.name).unwrap_or(value)).project()
}

/// A parameter's moment from a checkpoint; `None` if `name` is no trained parameter, or has another length: a step would read
/// past the moment's end.
fn moment(params: &Params, name: &str, array: &Array, device: &Device) -> Option<Tensor<1>> {
    let (spec, _) = params.iter().find(|(spec, _)| spec.name == name)?;
    let fits = spec.constraint != Constraint::Fixed && spec.len() == array.data.len();
    fits.then(|| Tensor::from_data(&array.data[..], device))
}

/// Number of parameters that have a moment after the first step.
fn trained_count(params: &Params) -> usize {
    params.iter().filter(|(spec, _)| spec.constraint != Constraint::Fixed).count()
}

fn to_host(tensor: &Tensor<1>) -> Array {
    let data = tensor.to_data().try_to_vec::<f32>().expect("float32 moments");
    Array::new([data.len()], data)
}

/// AdamW of one head. Weight decay is zero throughout (paper, "Optimization"), so none is
/// computed there; backbones are pre-trained with some.
#[derive(Clone, Default)]
pub struct AdamW {
    /// Steps taken.
    steps: u32,
    decay: f64,
    /// Mean and variance of the gradient, by parameter name.
    moments: IndexMap<String, [Tensor<1>; 2]>,
    /// The buffer from which a recorded step reads its [`Update`], `[2]` or longer.
    rates: Option<Box<Tensor<1>>>,
}

impl AdamW {
    /// Sets the weight decay: a step first multiplies every parameter of two or more dimensions by `1 - rate * decay`.
    pub fn with_decay(self, decay: f64) -> Self {
        Self { decay, ..self }
    }

    /// As [`Optimizer::step`].
    pub fn step(&mut self, params: Params, gradients: Vec<Option<Tensor<1>>>, rate: f64) -> Params {
        let common = self.next(rate);
        let rates = self.rates.clone();
        update(params, gradients, |trained| {
            let with_moments = |(spec, value, gradient): Trained| {
                let zero = || [value.zeros_like(), value.zeros_like()];
                let [mean, variance] = self.moments.swap_remove(&spec.name).unwrap_or_else(zero);
                let value = match self.decay > 0.0 && spec.shape.len() > 1 {
                    true => value * (1.0 - rate * self.decay),
                    false => value,
                };
                (spec.name.clone(), [value, gradient, mean, variance])
            };
            let (names, inputs): (Vec<_>, Vec<_>) = trained.into_iter().map(with_moments).unzip();
            let outputs = match inputs.first().map(|[value, ..]| value.device()) {
                Some(device) if !on_cpu(&device) => {
                    gpu::step(inputs, rates.map_or_else(|| common.on(&device), |rates| *rates))
                }
                _ => inputs.into_iter().map(|inputs| fused::step(inputs, &common)).collect(),
            };
            let keep = |(name, [value, mean, variance]): (String, [Tensor<1>; 3])| {
                self.moments.insert(name, [mean, variance]);
                value
            };
            names.into_iter().zip(outputs).map(keep).collect()
        })
    }

    /// Counts one more step, and returns its bias corrections and rate.
    pub(super) fn next(&mut self, rate: f64) -> Update {
        self.steps += 1;
        let correction_1 = 1.0 - BETA_1.powf(f64::from(self.steps));
        let correction_2 = 1.0 - BETA_2.powf(f64::from(self.steps));
        Update { correction: correction_2, rate: rate / correction_1 }
    }

    /// Whether its steps can be recorded: the rate must be read on the device alone, and the moments must exist.
    pub(super) fn is_recordable(&self) -> bool {
        self.decay == 0.0 && self.steps > 0
    }

    /// Replaces its moments by what `f` returns for each, and the buffer from which steps read their [`Update`] by `rates`.
    pub(super) fn recorded(
        self,
        rates: Option<Tensor<1>>,
        mut f: impl FnMut(Tensor<1>) -> Tensor<1>,
    ) -> Self {
        let moments = self.moments.into_iter().map(|(name, both)| (name, both.map(&mut f))).collect();
        Self { moments, rates: rates.map(Box::new), ..self }
    }

    /// Takes over the number of steps of another.
    pub(super) fn copy_step_count(&mut self, other: &Self) {
        self.steps = other.steps;
    }

    /// Its moments, each with that of `other` for the same parameter.
    pub(super) fn zip_moments<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'a Tensor<1>, &'a Tensor<1>)> {
        self.moments.iter().flat_map(|(name, both)| both.iter().zip(&other.moments[name]))
    }

    /// Its state on the host, for a checkpoint: `<name>.mean`, `<name>.variance` and `steps`.
    pub fn to_arrays(&self) -> Arrays {
        let mut arrays = Arrays::new();
        for (name, [mean, variance]) in &self.moments {
            arrays.insert(format!("{name}.mean"), to_host(mean));
            arrays.insert(format!("{name}.variance"), to_host(variance));
        }
        arrays.insert("steps".to_owned(), Array::new([1], vec![self.steps as f32]));
        arrays
    }

    /// As [`Optimizer::restore`].
    pub fn restore(&self, arrays: &Arrays, params: &Params, device: &Device) -> Option<Self> {
        let steps = *arrays.get("steps")?.data.first()? as u32;
        let mut moments = IndexMap::new();
        for (key, mean) in arrays {
            if let Some(name) = key.strip_suffix(".mean") {
                let tensor = |array| moment(params, name, array, device);
                let variance = arrays.get(&format!("{name}.variance"))?;
                moments.insert(name.to_owned(), [tensor(mean)?, tensor(variance)?]);
            }
        }
        let expected = if steps == 0 { 0 } else { trained_count(params) };
        (moments.len() == expected).then_some(Self { steps, moments, decay: self.decay, rates: None })
    }
}

/// The numbers that a step uses for all parameters.
pub(super) struct Update {
    /// `1 - beta_2^t`, which the variance is divided by.
    correction: f64,
    /// The learning rate over `1 - beta_1^t`.
    rate: f64,
}

impl Update {
    /// As the GPU kernel reads it: the factor of the variance, `1 / correction`, and the rate.
    pub(super) fn to_f32(&self) -> [f32; 2] {
        [(1.0 / self.correction) as f32, self.rate as f32]
    }

    /// The same on a device, `[2]`.
    fn on(&self, device: &Device) -> Tensor<1> {
        Tensor::from_data(TensorData::from(self.to_f32()), device)
    }
}

/// One step in tensor operations, on any device, as the reference for the CPU loop and the GPU kernel.
#[cfg(test)]
fn plain_step([value, gradient, mean, variance]: [Tensor<1>; 4], update: &Update) -> [Tensor<1>; 3] {
    let mean = mean * BETA_1 + gradient.clone() * (1.0 - BETA_1);
    let variance = variance * BETA_2 + gradient.square() * (1.0 - BETA_2);
    let spread = (variance.clone() / update.correction).sqrt() + EPSILON;
    [value - mean.clone() / spread * update.rate, mean, variance]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::probe::params::{Init, Spec};
    use crate::model::train::protocol::Protocol;

    /// Three steps on f(x) = sum x^4 / 4 beside PyTorch's in float64 (`tests/reference/optim.py`): `AdamW([x],
    /// lr=0.1, weight_decay=0)` under `CosineAnnealingLR(T_max=3)`.
    #[test]
    fn three_steps_are_those_of_pytorch() {
        let theirs = include_str!("../../../../tests/fixtures/optim/steps.json");
        let theirs: [[f64; 3]; 3] = serde_json::from_str(theirs).unwrap();
        let device = Device::flex();
        let spec = Spec::new("x", [3], Init::Values(vec![1.0, -2.0, 0.5]));
        let mut params = Params::start(vec![spec], 0, "test", &device);
        let mut adam = AdamW::default();
        for (step, expected) in theirs.iter().enumerate() {
            let tracked = params.tracked();
            let loss = tracked.get::<1>("x").powi_scalar(4).sum() / 4.0;
            params = adam.step(params, gradients(&tracked, &[&loss.backward()]), cosine(0.1, step, 3));
            for (found, expected) in params.to_arrays()["x"].data.iter().zip(expected) {
                assert!((f64::from(*found) - expected).abs() < 3e-7, "step {step}: {found} {expected}");
            }
        }
    }

    /// However far a step leads, a step size stays within 1e-3 and 0.1, and a state matrix triangular with a
    /// diagonal below 0 (paper, "S4 Implementation").
    #[test]
    fn a_step_restores_the_constraints() {
        let device = Device::flex();
        let size = |name: &str| Spec::new(name, [1], Init::Values(vec![-4.0])).with(Constraint::StepSize);
        let a = Spec::new("a", [2, 2], Init::Values(vec![-1.0, 0.0, 0.5, -1.0]));
        let specs = vec![size("long"), size("short"), a.with(Constraint::StableTriangular)];
        let params = Params::start(specs, 0, "test", &device);
        let tracked = params.tracked();
        let loss = tracked.get::<1>("short") - tracked.get::<1>("long");
        let loss = loss.sum() - tracked.get::<2>("a").sum();
        let params = AdamW::default().step(params, gradients(&tracked, &[&loss.backward()]), 10.0);
        let arrays = params.to_arrays();
        let near = |name: &str, expected: f32| assert!((arrays[name].data[0] / expected - 1.0).abs() < 1e-5);
        near("long", 0.1);
        near("short", 1e-3);
        let [first, above, below, last] = arrays["a"].data[..] else { unreachable!("four entries") };
        assert_eq!((first, above, last), (-1e-4, 0.0, -1e-4));
        assert!((below - 10.5).abs() < 1e-4, "{below}");
    }

    /// At a bound the gradient is that of the softplus: a step the other way leaves it, by the rate.
    #[test]
    fn a_step_size_leaves_its_bounds_again() {
        let size = |name: &str, start| Spec::new(name, [1], Init::Constant(start)).with(Constraint::StepSize);
        let specs = vec![size("long", 0.1), size("short", 1e-3)];
        let params = Params::start(specs, 0, "test", &Device::flex()).project();
        let tracked = params.tracked();
        let loss = (tracked.step_size("long") - tracked.step_size("short")).sum();
        let params = AdamW::default().step(params, gradients(&tracked, &[&loss.backward()]), 0.1);
        // softplus(ln(e^y - 1) - 0.1) of y = 0.1, and of y = 0.001 with + 0.1.
        for (name, expected) in [("long", 0.090_902_8), ("short", 1.105_113e-3)] {
            let found = f64::from(params.to_arrays()[name].data[0]);
            assert!((found / expected - 1.0).abs() < 1e-4, "{name}: {found}");
        }
    }

    /// A step would read past the end of a moment that is shorter than its parameter; without moments, a parameter's next step would be
    /// as its first.
    #[test]
    fn a_state_that_is_not_of_these_parameters_is_refused() {
        let device = Device::flex();
        let start = |name: &str, count: usize, constraint| {
            let x = Spec::new(name, [count], Init::Constant(1.0)).with(constraint);
            Params::start(vec![x, Spec::new("y", [3], Init::Constant(1.0))], 0, "test", &device)
        };
        let own = start("x", 3, Constraint::Free);
        let tracked = own.tracked();
        let loss = (tracked.get::<1>("x") * tracked.get::<1>("y")).sum();
        let gradients = gradients(&tracked, &[&loss.backward()]);
        for protocol in [Protocol::Paper, Protocol::Dinov2Linear] {
            let mut optimizer = protocol.optimizer();
            let unused = optimizer.to_arrays();
            optimizer.step(own.clone(), gradients.clone(), 0.1);
            let fits = |state: &Arrays, params: &Params| optimizer.restore(state, params, &device).is_some();
            let mut state = optimizer.to_arrays();
            assert!(fits(&unused, &own), "before the first step");
            assert!(fits(&state, &own));
            assert!(!fits(&state, &start("x", 4, Constraint::Free)), "another length");
            assert!(!fits(&state, &start("z", 3, Constraint::Free)), "another name");
            assert!(!fits(&state, &start("x", 3, Constraint::Fixed)), "no trained one");
            state.retain(|name, _| !name.starts_with("y."));
            assert!(!fits(&state, &own), "a parameter without moments");
        }
    }
}
