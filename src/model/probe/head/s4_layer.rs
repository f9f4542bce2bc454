//! The S4 of a head: its parameters by name, and the gain of each position of the sequence.
//!
//! Each direction g has a group of parameters `s4.g`: `A` `[S, S]`, `B`, `C`, `D` and the step `dt` `[1]`.
//! Shared: `B` `[S]`, `C` `[S]`, `D` `[1]`, all trained. Channel-wise: `B` `[S, d]`, `C` `[d, S]`,
//! `D` `[d]`, and `A` a buffer. A and B start at HiPPO-LegS, `C` normal with standard deviation
//! `1 / sqrt(S)` (so that the kernel starts at the same scale for any S), `D` at 0, `dt` at 5e-2.
//!
//! The gain of position `k` is `K[N-1-k]`, with `D` added at the last: the features are
//! `z = sum_k gain[k] * routed[k]`.

use burn::tensor::Tensor;

use super::cost::Counts;
use super::{Config, ConfigError, Discretization, Sharing};
use crate::model::io::array::Arrays;
use crate::model::probe::head_output::{Direction, Gain, Order};
use crate::model::probe::params::{Constraint, Init, Params, Spec};
use crate::model::probe::s4::{self, HostKernel, System};
use crate::model::probe::settings::within;

/// Step size at the start (paper, "S4 Implementation").
const STEP: f32 = 5e-2;
/// Largest number of states: A is stored densely, `[S, S]`, for every direction.
const MAX_STATES: usize = 1024;

/// The kernel of one S4 for sequences of N tokens, in float64, which is the same for all images.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// `K[j]`, `j` steps before the end, `[N]` or `[N, d]`, without `D`.
    pub values: Vec<f64>,
    /// The gain by position, `D` included at the last.
    pub gain: Gain,
    /// Spectral radius of `Abar`.
    pub radius: f64,
}

/// The S4 of one or more directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct S4Layer {
    /// Number of states, S.
    pub states: usize,
    /// Whether the channels share it.
    pub sharing: Sharing,
    /// The discretisation rule.
    pub discretization: Discretization,
    /// Number of independent groups of parameters, G, one per direction.
    pub groups: usize,
}

impl S4Layer {
    /// The S4 of the settings for `groups` directions; fails where a setting is out of range.
    pub(super) fn new(config: &Config, groups: usize) -> Result<Self, ConfigError> {
        let states = config.state_dim.unwrap_or(128);
        let states = within("state_dim", states, 1..=MAX_STATES, "a whole number from 1 to 1024")?;
        let (sharing, rule) = (config.sharing.unwrap_or_default(), config.discretization.unwrap_or_default());
        Ok(Self { states, sharing, discretization: rule, groups })
    }

    /// `others` with its settings, defaults filled in; the discretisation rule only where it is not the default.
    pub(super) fn settings(&self, others: Config) -> Config {
        let rule = Some(self.discretization).filter(|rule| *rule != Discretization::default());
        let (state_dim, sharing) = (Some(self.states), Some(self.sharing));
        Config { state_dim, sharing, discretization: rule, ..others }
    }

    /// The parameters of all groups.
    pub fn specs(&self, width: usize) -> Vec<Spec> {
        let s = self.states;
        let (a, b) = s4::hippo(s);
        let a = Init::Values(a.iter().map(|&x| x as f32).collect());
        let c = Init::Normal(1.0 / (s as f32).sqrt());
        let (constraint, of_b, of_c, channels) = match self.sharing {
            Sharing::Shared => (Constraint::StableTriangular, vec![s], vec![s], 1),
            Sharing::Channel => (Constraint::Fixed, vec![s, width], vec![width, s], width),
        };
        let b: Vec<f32> = b.iter().flat_map(|&b| std::iter::repeat_n(b as f32, channels)).collect();
        let group = |g: usize| {
            let name = |letter: &str| format!("s4.{g}.{letter}");
            [
                Spec::new(name("A"), [s, s], a.clone()).with(constraint),
                Spec::new(name("B"), of_b.clone(), Init::Values(b.clone())),
                Spec::new(name("C"), of_c.clone(), c.clone()),
                Spec::new(name("D"), [channels], Init::Constant(0.0)),
                Spec::new(name("dt"), [1], Init::Constant(STEP)).with(Constraint::StepSize),
            ]
        };
        (0..self.groups).flat_map(group).collect()
    }

    /// The gain of every position, for a single group: `[N, 1]` shared, `[N, d]` channel-wise.
    pub fn gain(&self, params: &Params, n: usize) -> Tensor<2> {
        self.gains(params, n).squeeze_dim(0)
    }

    /// The gains of every position in all groups: `[G, N, 1]` shared, `[G, N, d]` channel-wise.
    pub fn gains(&self, params: &Params, n: usize) -> Tensor<3> {
        let system = |g: usize| {
            let name = |letter: &str| format!("s4.{g}.{letter}");
            let (b, c) = match self.sharing {
                Sharing::Shared => {
                    let (b, c) = (params.get::<1>(&name("B")), params.get::<1>(&name("C")));
                    (b.unsqueeze_dim(1), c.unsqueeze_dim(0))
                }
                Sharing::Channel => (params.get(&name("B")), params.get(&name("C"))),
            };
            let (a, skip) = (params.get(&name("A")), params.get(&name("D")));
            System { a, b, c, skip, step: params.step_size(&name("dt")) }
        };
        s4::gains((0..self.groups).map(system).collect(), (self.discretization, n))
    }

    /// Its [`Head::counts`](super::Head::counts) for all groups: the kernel from the states, and the sum over positions. The states
    /// that follow an impulse are not counted, being the same for all images.
    pub(super) fn counts(&self, n: u64, d: u64) -> Counts {
        let channels = match self.sharing {
            Sharing::Shared => 1,
            Sharing::Channel => d,
        };
        Counts::formulas(self.groups as u64 * n * (self.states as u64 * channels + d))
    }

    /// The kernels of all groups in float64.
    pub fn kernels(&self, params: &Arrays, n: usize) -> Vec<Kernel> {
        (0..self.groups).map(|g| self.kernel(params, g, n)).collect()
    }

    /// The kernel of group `g` in float64.
    fn kernel(&self, params: &Arrays, g: usize, n: usize) -> Kernel {
        let value = |letter: &str| params[&format!("s4.{g}.{letter}")].to_f64();
        let (skip, step) = (value("D"), value("dt")[0]);
        let kernel = HostKernel::new(value("A"), value("B"), value("C"), step, (self.discretization, n));
        let (width, values) = (skip.len(), kernel.values());
        let mut gain: Vec<f64> = values.chunks_exact(width).rev().flatten().copied().collect();
        gain[(n - 1) * width..].iter_mut().zip(&skip).for_each(|(q, d)| *q += d);
        let gain = match self.sharing {
            Sharing::Shared => Gain::Shared(gain),
            Sharing::Channel => Gain::Channel(gain),
        };
        Kernel { values, gain, radius: kernel.radius }
    }
}

impl Kernel {
    /// The direction that reads in this order with this kernel.
    pub fn direction(&self, order: Order) -> Direction {
        let Self { values, gain, radius } = self.clone();
        Direction { order, gain, kernel: values, radius: Some(radius) }
    }
}
