//! Gradient descent with momentum as PyTorch computes it (`v = 0.9 v + g`, `x = x - r v`), and LARS (You, Gitman and Ginsburg
//! 2017) as linear probes use it since MoCo v3: the same, but the gradient of every parameter of two or more dimensions is first
//! scaled by `0.001 |x| / |g|`, unless either norm is 0. No weight decay: the protocols here have none.

use burn::tensor::{Device, Tensor};
use indexmap::IndexMap;

use super::{Trained, moment, to_host, trained_count, update};
use crate::model::io::array::{Array, Arrays};
use crate::model::probe::params::Params;

const MOMENTUM: f64 = 0.9;
const TRUST_COEFFICIENT: f32 = 1e-3;

/// The optimiser of one head.
#[derive(Clone)]
pub struct Momentum {
    /// Whether gradients are scaled as in LARS.
    is_lars: bool,
    velocities: IndexMap<String, Tensor<1>>,
}

impl Momentum {
    /// Plain gradient descent with momentum.
    pub fn sgd() -> Self {
        Self { is_lars: false, velocities: IndexMap::new() }
    }

    /// LARS.
    pub fn lars() -> Self {
        Self { is_lars: true, ..Self::sgd() }
    }

    /// As [`Optimizer::step`](super::Optimizer::step).
    pub fn step(&mut self, params: Params, gradients: Vec<Option<Tensor<1>>>, rate: f64) -> Params {
        let mut step = |(spec, value, gradient): Trained| {
            let scaled = match self.is_lars && spec.shape.len() > 1 {
                true => scale(&value, &gradient) * gradient,
                false => gradient,
            };
            let velocity = match self.velocities.swap_remove(&spec.name) {
                Some(velocity) => velocity * MOMENTUM + scaled,
                None => scaled,
            };
            self.velocities.insert(spec.name.clone(), velocity.clone());
            value - velocity * rate
        };
        update(params, gradients, |trained| trained.into_iter().map(&mut step).collect())
    }

    /// Its state on the host, for a checkpoint: `<name>.velocity`.
    pub fn to_arrays(&self) -> Arrays {
        self.velocities
            .iter()
            .map(|(name, velocity)| (format!("{name}.velocity"), to_host(velocity)))
            .collect()
    }

    /// As [`Optimizer::restore`](super::Optimizer::restore).
    pub fn restore(&self, arrays: &Arrays, params: &Params, device: &Device) -> Option<Self> {
        let velocity = |(key, array): (&String, &Array)| {
            let name = key.strip_suffix(".velocity")?;
            Some((name.to_owned(), moment(params, name, array, device)?))
        };
        let velocities: IndexMap<_, _> = arrays.iter().map(velocity).collect::<Option<_>>()?;
        let is_complete = velocities.is_empty() || velocities.len() == trained_count(params);
        is_complete.then_some(Self { is_lars: self.is_lars, velocities })
    }
}

/// LARS's factor of a parameter's gradient, `[1]`, on the device.
fn scale(value: &Tensor<1>, gradient: &Tensor<1>) -> Tensor<1> {
    let [value, gradient] = [value, gradient].map(|x| x.clone().square().sum().sqrt());
    let one = value.clone().equal_scalar(0.0).bool_or(gradient.clone().equal_scalar(0.0));
    (value * TRUST_COEFFICIENT / gradient).mask_fill(one, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::{AdamW, Optimizer, gradients};
    use super::*;
    use crate::close::assert_close;
    use crate::model::probe::params::{Init, Spec};
    use crate::model::train::protocol::Protocol;

    /// Six steps on f(x) = sum x^4 / 4 of a matrix, a vector and a matrix of zeros beside float64 PyTorch
    /// (`tests/reference/optim.py`), whose third and fourth step a checkpoint lies between.
    #[test]
    fn six_steps_are_those_of_the_reference() {
        let theirs = include_str!("../../../../tests/fixtures/optim/protocols.json");
        let theirs: serde_json::Value = serde_json::from_str(theirs).unwrap();
        let device = Device::flex();
        for (protocol, key) in [(Protocol::Dinov2Linear, "sgd"), (Protocol::MaeLinprobe, "lars")] {
            let values = |name: &str, shape: &[usize], values: Vec<f32>| {
                Spec::new(name, shape.to_vec(), Init::Values(values))
            };
            let specs = vec![
                values("matrix", &[2, 3], vec![1.0, -2.0, 0.5, 0.25, -1.5, 3.0]),
                values("vector", &[3], vec![1.0, -2.0, 0.5]),
                values("zeros", &[2, 2], vec![0.0; 4]),
            ];
            let mut params = Params::start(specs, 0, "test", &device);
            let mut optimizer = protocol.optimizer();
            for (step, expected) in theirs[key].as_array().unwrap().iter().enumerate() {
                if step == 3 {
                    let again =
                        protocol.optimizer().restore(&optimizer.to_arrays(), &params, &device).unwrap();
                    assert_eq!(again.to_arrays(), optimizer.to_arrays());
                    optimizer = again;
                }
                let tracked = params.tracked();
                let loss = tracked.get::<2>("matrix").powi_scalar(4).sum()
                    + tracked.get::<1>("vector").powi_scalar(4).sum()
                    + tracked.get::<2>("zeros").powi_scalar(4).sum();
                let gradients = gradients(&tracked, &[&(loss / 4.0).backward()]);
                params = optimizer.step(params, gradients, [0.1, 0.05, 0.1, 0.2, 0.01, 0.1][step]);
                for (name, array) in params.to_arrays() {
                    let expected: Vec<f64> =
                        expected[&name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
                    let found: Vec<f64> = array.data.iter().map(|x| f64::from(*x)).collect();
                    assert_close(format!("{key}, step {step}, {name}"), found, expected, 1e-6);
                }
            }
            let other = Optimizer::AdamW(AdamW::default());
            assert!(other.restore(&optimizer.to_arrays(), &params, &device).is_none());
        }
    }

    /// The formula would keep weights that start at 0 there.
    #[test]
    fn gradients_of_zeros_are_not_scaled() {
        let of = |values: [f32; 2]| Tensor::<1>::from_data(&values[..], &Device::flex());
        let factor = |value, gradient| scale(&of(value), &of(gradient)).into_scalar::<f32>();
        assert_eq!((factor([0.0; 2], [3.0, 4.0]), factor([3.0, 4.0], [0.0; 2])), (1.0, 1.0));
        assert!((factor([3.0, 4.0], [0.0, 2.0]) - 2.5e-3).abs() < 1e-8);
    }
}
