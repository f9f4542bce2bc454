//! S4: a state space model with the HiPPO-LegS memory (Gu et al. 2022), read at its last step.
//!
//! S states. `A[n, k] = -sqrt((2n+1)(2k+1))` below the diagonal, `-(n+1)` on it, 0 above;
//! `B[n] = sqrt(2n+1)`. Discretised with step `dt`, the readout of the last state weights the token read `j` steps before
//! the end by the kernel `K[j] = C Abar^j Bbar`. Bilinear, `Abar = (I - dt/2 A)^-1 (I + dt/2 A)` and `Bbar = (I - dt/2 A)^-1 dt B`; with
//! the zero-order hold, `Abar = exp(dt A)` and `Bbar = A^-1 (Abar - I) B` ([`zoh`]).
//!
//! A is lower triangular with a negative diagonal, so that the spectral radius of `Abar` is below 1 by
//! construction and every solve is a forward substitution. We never diagonalise: at S = 128 the condition
//! number of the eigenvector matrix is 6e21.
//!
//! There are three implementations: [`HostKernel`] in float64 on the host, with its gradient, for explanations and for training
//! on the CPU; [`gains_on_gpu`], fused GPU kernels for one channel and the bilinear rule; [`kernel_channels_as_given`] on tensors,
//! for all else. [`gains`] picks among them. Only the lower triangle of `a` is ever read.

mod channels;
mod discrete;
mod fused;
mod gpu;
mod recurrence;
mod stable;
mod zoh;

use burn::tensor::{Tensor, TensorData};

pub use self::fused::HostKernel;
pub use self::gpu::gains as gains_on_gpu;
pub use self::stable::stable;
use crate::model::ops::cpu::on_cpu;
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::probe::settings::Discretization;

/// The discretisation rule, and the number of steps N.
pub type Steps = (Discretization, usize);

/// The initial A and B of HiPPO-LegS: `[S, S]` row-major and `[S]`.
pub fn hippo(states: usize) -> (Vec<f64>, Vec<f64>) {
    let b: Vec<f64> = (0..states).map(|n| ((2 * n + 1) as f64).sqrt()).collect();
    let entry = |at: usize| match (at / states, at % states) {
        (n, k) if n > k => -b[n] * b[k],
        (n, k) if n == k => -(n as f64 + 1.0),
        _ => 0.0,
    };
    ((0..states * states).map(entry).collect(), b)
}

/// The parameters of one S4 on a device, of d channels (1 where all share it).
pub struct System {
    /// A, `[S, S]`, of which only the lower triangle is read.
    pub a: Tensor<2>,
    /// B, `[S, d]`.
    pub b: Tensor<2>,
    /// C, `[d, S]`.
    pub c: Tensor<2>,
    /// D, `[d]`.
    pub skip: Tensor<1>,
    /// The step size `dt`, `[1]`.
    pub step: Tensor<1>,
}

/// The gain of every position `k` in each of G systems, `K[N-1-k]`, plus D at the last: `[G, N, d]`, differentiable in all parameters.
pub fn gains(systems: Vec<System>, steps: Steps) -> Tensor<3> {
    let one = |system: System| {
        let gains = gains_on_gpu(std::slice::from_ref(&system), steps);
        gains.unwrap_or_else(|| gain(system, steps).unsqueeze_dim(0))
    };
    let gains = gains_on_gpu(&systems, steps);
    gains.unwrap_or_else(|| Tensor::cat(systems.into_iter().map(one).collect(), 0))
}

/// The gain of one system, `[N, d]`, from [`kernel_channels`].
fn gain(System { a, b, c, skip, step }: System, steps: Steps) -> Tensor<2> {
    let kernel = kernel_channels(a, b, c, step, steps);
    let late = kernel.clone().narrow(0, 0, 1) + skip.unsqueeze_dim(0); // [1, d]: of the last position
    let earlier = (steps.1 > 1).then(|| kernel.narrow(0, 1, steps.1 - 1).flip([0]));
    Tensor::cat(earlier.into_iter().chain([late]).collect(), 0)
}

/// A kernel for every channel, `K[j] = C Abar^j Bbar`, `[N, d]`, differentiable in all arguments. `a`: `[S, S]` (only its lower
/// triangle is read), `b`: `[S, d]`, `c`: `[d, S]`, `step`: `[1]`.
///
/// Computed in float64 on the CPU, whatever the precision of the arguments; elsewhere [in that precision](kernel_channels_as_given).
pub fn kernel_channels(a: Tensor<2>, b: Tensor<2>, c: Tensor<2>, step: Tensor<1>, steps: Steps) -> Tensor<2> {
    match on_cpu(&a.device()) {
        true => fused::kernel(a, b, c, step, steps),
        false => kernel_channels_as_given(a, b, c, step, steps),
    }
}

/// [`kernel_channels`] in the precision of its arguments.
///
/// With `m` about `sqrt(N)`, `K[a m + b] = (C Abar^(a m)) (Abar^b Bbar)`: both factors are computed
/// by doubling, so that the number of launches grows with `log N`. Where A is dissipative, as LegS is, `|Abar| <= 1`
/// and no power grows. Measured in float32 at N = 196, as a share of the largest entry, for
/// S = 1 ... 256 and steps 1e-3 ... 1e-1: kernels to 1e-5 (2.2e-5 at S = 2 and step 1e-3, where Abar
/// is so near I that the 1 takes up most digits of float32), gradients to 6e-5; with the zero-order hold gradients to 1.2e-4.
pub fn kernel_channels_as_given(
    a: Tensor<2>,
    b: Tensor<2>,
    c: Tensor<2>,
    step: Tensor<1>,
    (rule, n): Steps,
) -> Tensor<2> {
    let [_, d] = b.dims();
    let step = step.unsqueeze_dim::<2>(1); // [1, 1]
    let scaled = a * step.clone(); // [S, S]
    // Abar, and the matrix by which dt B is multiplied to give Bbar.
    let (mut power, input) = match rule {
        Discretization::Bilinear => {
            let inverse = inverse_of_implicit(scaled);
            // I + dt/2 A = 2 I - (I - dt/2 A).
            (inverse.clone() * 2.0 - mask(&inverse, |n, k| n == k), inverse)
        }
        Discretization::Zoh => zoh::on_tensors(scaled),
    };
    let square = |power: Tensor<2>| power.clone().precise_matmul(power);
    let small = ((n.max(1) as f64).sqrt().ceil() as usize).next_power_of_two();
    let large = n.div_ceil(small).next_power_of_two();
    let mut right_factors = input.precise_matmul(b * step).unsqueeze_dim::<3>(0); // [b, S, d]: Abar^b Bbar
    while right_factors.dims()[0] < small {
        let later = power.clone().unsqueeze_dim::<3>(0).precise_matmul(right_factors.clone());
        right_factors = Tensor::cat(vec![right_factors, later], 0);
        power = square(power);
    }
    let mut left_factors = c.unsqueeze_dim::<3>(0); // [a, d, S]: C Abar^(a m)
    while left_factors.dims()[0] < large {
        let earlier = left_factors.clone().precise_matmul(power.clone().unsqueeze_dim::<3>(0));
        left_factors = Tensor::cat(vec![left_factors, earlier], 0);
        power = square(power);
    }
    let kernel = left_factors.swap_dims(0, 1).precise_matmul(right_factors.permute([2, 1, 0])); // [d, a, b]
    kernel.reshape([d, large * small]).narrow(1, 0, n).transpose() // [N, d]
}

/// `(I - dt/2 A)^-1`, `[S, S]`, from the lower triangle of `dt A`, in `log2 S` levels: given the
/// inverses `X` of the diagonal blocks of one size, those of twice the size are `X - X M X`, where `M`
/// holds the entries that couple the two halves of each block.
fn inverse_of_implicit(a: Tensor<2>) -> Tensor<2> {
    let [states, _] = a.dims();
    let implicit = a * -0.5; // [S, S]: without I
    let diagonal = mask(&implicit, |n, k| n == k);
    let mut inverse = diagonal.clone() / (implicit.clone() * diagonal + 1.0); // [S, S]
    let mut size = 1;
    while size < states {
        let couples = |n: usize, k: usize| n / (2 * size) == k / (2 * size) && n / size > k / size;
        let coupling = implicit.clone() * mask(&implicit, couples);
        inverse = inverse.clone() - inverse.clone().precise_matmul(coupling).precise_matmul(inverse);
        size *= 2;
    }
    inverse
}

/// 1 where `holds(row, column)`, else 0: `[S, S]`, on the device and in the type of `like`.
fn mask(like: &Tensor<2>, holds: impl Fn(usize, usize) -> bool) -> Tensor<2> {
    let [states, _] = like.dims();
    let data = (0..states * states).map(|at| f32::from(holds(at / states, at % states))).collect();
    let data = TensorData::new::<f32, _>(data, [states, states]);
    Tensor::from_data(data, (&like.device(), like.dtype()))
}
