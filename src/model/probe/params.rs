//! The parameters and buffers of one head, by their PyTorch names.
//!
//! A head is a pure function of its parameters and the tokens. Parameters are kept flat on the
//! device and reshaped where they are read, so one optimiser, one checkpoint and one file format
//! serve every head.

use std::ops::Deref;
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};
use indexmap::IndexMap;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use super::head::s4_layer::Kernel;
use super::s4;
use crate::model::io::array::{Array, Arrays};
use crate::model::memo::Memo;
use crate::model::ops;
use crate::model::stats;

/// The initial values of a parameter.
#[derive(Clone, Debug)]
pub enum Init {
    /// The same value everywhere.
    Constant(f32),
    /// Uniform in `[-bound, bound]`: PyTorch's default for linear layers is `1 / sqrt(fan_in)`.
    Uniform(f32),
    /// Normal with mean 0 and this standard deviation.
    Normal(f32),
    /// These values.
    Values(Vec<f32>),
}

/// The constraint on a parameter, restored after every optimiser step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// Any value.
    Free,
    /// Not trained at all (a buffer).
    Fixed,
    /// `[S, S]`, lower triangular with a negative diagonal: keeps the spectral radius below 1.
    StableTriangular,
    /// Trained as the inverse softplus of a step size within `[1e-3, 1e-1]`; files hold the step.
    StepSize,
}

/// One parameter of a head: its PyTorch name, shape, initial values and constraint.
#[derive(Clone, Debug)]
pub struct Spec {
    /// PyTorch name, as in probe files.
    pub name: String,
    /// Length of every axis.
    pub shape: Vec<usize>,
    /// Its initial values (effective ones, as files hold them).
    pub init: Init,
    /// Its constraint.
    pub constraint: Constraint,
}

impl Spec {
    /// Number of trained values: 0 for a buffer, and nothing above the diagonal of a triangular matrix.
    pub fn trained(&self) -> usize {
        match self.constraint {
            Constraint::Fixed => 0,
            Constraint::StableTriangular => self.shape[0] * (self.shape[0] + 1) / 2,
            Constraint::Free | Constraint::StepSize => self.len(),
        }
    }

    /// A free parameter.
    pub fn new(name: impl Into<String>, shape: impl Into<Vec<usize>>, init: Init) -> Self {
        Self { name: name.into(), shape: shape.into(), init, constraint: Constraint::Free }
    }

    /// The same parameter under `constraint`.
    pub fn with(self, constraint: Constraint) -> Self {
        Self { constraint, ..self }
    }

    /// Number of values.
    pub(in crate::model) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Initial values, drawn from (`seed`, `scope`, name) alone, so that a head starts the same whichever heads are trained with it.
    pub fn start(&self, seed: u64, scope: &str) -> Array {
        let mut hash = Sha256::new();
        hash.update(seed.to_le_bytes());
        hash.update(scope.as_bytes());
        hash.update([0]);
        hash.update(self.name.as_bytes());
        let mut rng = ChaCha8Rng::from_seed(hash.finalize().into());
        let data = match &self.init {
            Init::Constant(value) => vec![*value; self.len()],
            Init::Uniform(bound) => {
                (0..self.len()).map(|_| rng.random_range(-1.0..=1.0_f32) * bound).collect()
            }
            Init::Normal(deviation) => {
                (0..self.len()).map(|_| stats::normal(&mut rng) as f32 * deviation).collect()
            }
            Init::Values(values) => values.clone(),
        };
        Array::new(self.shape.clone(), data)
    }
}

/// The parameters of one head on a device. Clones, of which a training step makes several, share the specs.
#[derive(Clone)]
pub struct Params {
    specs: Arc<IndexMap<String, Spec>>,
    /// In the order of `specs`.
    values: Vec<Tensor<1>>,
}

/// The effective values of one head's parameters on the host, as files hold them, and what follows from them.
pub struct HostParams<'a> {
    pub(super) arrays: &'a Arrays,
    /// The same as tensors in float64, once a head has asked for them.
    pub(super) tensors: &'a Memo<(), Params>,
    /// Its S4 kernels for the number of tokens that is read.
    pub(super) kernels: &'a [Kernel],
}

impl Deref for HostParams<'_> {
    type Target = Arrays;

    fn deref(&self) -> &Arrays {
        self.arrays
    }
}

impl HostParams<'_> {
    /// The parameters of these `specs` in float64 on the CPU: made once, as they may be larger than the tokens of an image.
    pub fn float64(&self, specs: impl FnOnce() -> Vec<Spec>) -> Params {
        let make = || Params::from_arrays_in(specs(), self.arrays, &Device::flex(), DType::F64);
        self.tensors.get((), make)
    }
}

/// Bounds within which step sizes are kept (paper, "S4 Implementation").
pub const STEP_BOUNDS: (f64, f64) = (1e-3, 1e-1);
/// Largest diagonal entry of a state matrix: just below zero, so that memory always fades.
const STABLE_DIAGONAL: f32 = -1e-4;

/// A flat tensor's values on the host.
fn host(value: &Tensor<1>) -> Vec<f32> {
    value.to_data().convert::<f32>().try_to_vec::<f32>().expect("float32 data")
}

/// `ln(e^y - 1)`.
fn inverse_softplus(y: f64) -> f64 {
    y + (-(-y).exp_m1()).ln()
}

/// `ln(1 + e^x)` without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

impl Params {
    /// Fresh parameters, drawn from `seed` and `scope` (the head's id).
    pub fn start(specs: Vec<Spec>, seed: u64, scope: &str, device: &Device) -> Self {
        let arrays = specs.iter().map(|s| (s.name.clone(), s.start(seed, scope))).collect();
        Self::from_arrays(specs, &arrays, device)
    }

    /// Parameters with the effective values `arrays`, as files hold them.
    ///
    /// # Panics
    /// If a parameter is missing or has another shape: [`super`] checks both before.
    pub fn from_arrays(specs: Vec<Spec>, arrays: &Arrays, device: &Device) -> Self {
        Self::from_arrays_in(specs, arrays, device, DType::F32)
    }

    /// [`from_arrays`](Self::from_arrays) with another type than float32.
    pub fn from_arrays_in(specs: Vec<Spec>, arrays: &Arrays, device: &Device, dtype: DType) -> Self {
        let value = |spec: &Spec| {
            let array = &arrays[&spec.name];
            assert_eq!(array.shape, spec.shape, "parameter {}", spec.name);
            let mut data = array.to_f64();
            if spec.constraint == Constraint::StepSize {
                let (low, high) = STEP_BOUNDS;
                data.iter_mut().for_each(|x| *x = inverse_softplus(x.clamp(low, high)));
            }
            let data = TensorData::new(data, [spec.len()]).convert_dtype(dtype);
            Tensor::from_data(data, (device, dtype))
        };
        let values = specs.iter().map(value).collect();
        let specs = specs.into_iter().map(|spec| (spec.name.clone(), spec)).collect();
        Self { specs: Arc::new(specs), values }
    }

    /// The parameter `name` in its shape.
    ///
    /// # Panics
    /// If the head has no such parameter or it has another rank: a bug of the head.
    pub fn get<const D: usize>(&self, name: &str) -> Tensor<D> {
        let (at, _, spec) = self.specs.get_full(name).expect("a parameter of the head");
        let shape: [usize; D] = spec.shape[..].try_into().expect("the rank of the parameter");
        self.values[at].clone().reshape(shape)
    }

    /// The step size behind a [`Constraint::StepSize`] parameter, `[1]`.
    pub fn step_size(&self, name: &str) -> Tensor<1> {
        ops::softplus::softplus(self.get(name))
    }

    /// All parameters, flat, in order of their specs.
    pub fn iter(&self) -> impl Iterator<Item = (&Spec, &Tensor<1>)> {
        self.specs.values().zip(&self.values)
    }

    /// Replaces every value by `f(spec, value)`.
    pub fn map(self, mut f: impl FnMut(&Spec, Tensor<1>) -> Tensor<1>) -> Self {
        let Self { specs, values } = self;
        let values = specs.values().zip(values).map(|(spec, value)| f(spec, value)).collect();
        Self { specs, values }
    }

    /// A copy whose trained values record a gradient.
    pub fn tracked(&self) -> Self {
        self.clone().map(|spec, value| match spec.constraint {
            Constraint::Fixed => value.autodiff(),
            _ => value.autodiff().require_grad(),
        })
    }

    /// Projects every value onto its constraint; to be called after each optimiser step.
    pub fn project(self) -> Self {
        self.map(|spec, value| match spec.constraint {
            Constraint::Free | Constraint::Fixed => value,
            Constraint::StepSize => {
                let (low, high) = STEP_BOUNDS;
                value.clamp(inverse_softplus(low), inverse_softplus(high))
            }
            Constraint::StableTriangular => {
                let n = spec.shape[0];
                s4::stable(value.reshape([n, n]), STABLE_DIAGONAL).reshape([n * n])
            }
        })
    }

    /// Whether no value is NaN or infinite.
    pub fn are_finite(&self) -> bool {
        self.values.iter().all(|value| host(value).iter().all(|x| x.is_finite()))
    }

    /// Effective values on the host, as files hold them.
    pub fn to_arrays(&self) -> Arrays {
        self.iter()
            .map(|(spec, value)| {
                let mut data = host(value);
                if spec.constraint == Constraint::StepSize {
                    for x in &mut data {
                        *x = softplus(f64::from(*x)) as f32;
                    }
                }
                (spec.name.clone(), Array::new(spec.shape.clone(), data))
            })
            .collect()
    }

    /// Values as they are trained, bit for bit, each as `[len]`; [`restore`](Self::restore) takes them.
    pub fn to_trained(&self) -> Arrays {
        self.iter().map(|(spec, value)| (spec.name.clone(), Array::new([spec.len()], host(value)))).collect()
    }

    /// These parameters with the values of [`to_trained`](Self::to_trained); `None` if one is
    /// missing or has another length.
    pub fn restore(self, arrays: &Arrays, device: &Device) -> Option<Self> {
        let fits =
            self.iter().all(|(spec, _)| arrays.get(&spec.name).is_some_and(|a| a.data.len() == spec.len()));
        fits.then(|| {
            self.map(|spec, _| {
                let data = arrays[&spec.name].data.clone();
                Tensor::from_data(TensorData::new(data, [spec.len()]), device)
            })
        })
    }

    /// Number of trained values.
    pub fn count(&self) -> usize {
        self.iter().map(|(spec, _)| spec.trained()).sum()
    }
}
