//! The kernel of an S4 by a GPU's own kernels against the processor's operation, which works in float64. A software Vulkan
//! runs them too.

use burn::tensor::{Device, Tensor};
use ssmprobe::model::probe::s4;
use ssmprobe::model::probe::settings::Discretization;

use super::{all, parity};
use crate::gpus::gpus;
use crate::routing::reference::*;

/// What makes a kernel: A, B, C and the step size.
struct System {
    states: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    step: f64,
}

impl System {
    /// LegS; `trained` a little away from it, with an upper triangle that nobody may read.
    fn new(states: usize, step: f64, trained: bool) -> Self {
        let (mut a, mut b) = s4::hippo(states);
        if trained {
            let noise = normal(states * (states + 1), 60);
            a.iter_mut().chain(&mut b).zip(&noise).for_each(|(x, noise)| *x *= 1.0 + 0.02 * noise);
            (0..states).for_each(|n| a[n * states + n + 1..(n + 1) * states].fill(7.0));
        }
        let c = normal(states, 61).iter().map(|x| x / (states as f64).sqrt()).collect();
        Self { states, a, b, c, step }
    }

    fn on(&self, device: &Device) -> (Tensor<2>, Tensor<2>, Tensor<2>, Tensor<1>) {
        let Self { states, a, b, c, step } = self;
        let (a, b, c) = (matrix(a, *states, device), matrix(b, 1, device), matrix(c, *states, device));
        (a, b, c, vector(&[*step], device))
    }

    /// What a loss weighs the kernel of `n` steps by. The signs are those by which a longer step changes it, so that the
    /// gradient of the step, a single number, is not what is left of large ones.
    fn cotangent(&self, n: usize) -> Vec<f64> {
        let values = |step: f64| {
            let (a, b, c) = (self.a.clone(), self.b.clone(), self.c.clone());
            s4::HostKernel::new(a, b, c, step, (Discretization::Bilinear, n)).values()
        };
        let (now, longer) = (values(self.step), values(1.01 * self.step));
        let signs = now.iter().zip(&longer).map(|(now, longer)| (longer - now).signum());
        normal(n, 62).iter().zip(signs).map(|(size, sign)| size.abs() * sign).collect()
    }

    /// The kernel of `n` steps, and the gradients of A, B, C and the step, where `make` makes it.
    fn kernel(&self, n: usize, device: &Device, make: Make) -> [Vec<f64>; 5] {
        let device = &device.clone().autodiff();
        let (a, b, c, step) = self.on(device);
        let (a, b, c, step) = (a.require_grad(), b.require_grad(), c.require_grad(), step.require_grad());
        let kernel = make(&a, &b, &c, &step, (Discretization::Bilinear, n)); // [N, 1]
        let gradients = (kernel.clone() * matrix(&self.cotangent(n), 1, device)).sum().backward();
        let by = |x: &Tensor<2>| gradient(x, &gradients);
        [host(kernel), by(&a), by(&b), by(&c), gradient(&step, &gradients)]
    }
}

type Make = fn(&Tensor<2>, &Tensor<2>, &Tensor<2>, &Tensor<1>, s4::Steps) -> Tensor<2>;

#[test]
fn the_kernel_of_one_channel_and_its_gradients_equal_the_processors() {
    let of_gpu: Make = |a, b, c, step, steps| {
        s4::kernel_on_gpu(a, b, c, step, steps).expect("a GPU's own kernels take one channel")
    };
    let of_processor: Make =
        |a, b, c, step, steps| s4::kernel_channels(a.clone(), b.clone(), c.clone(), step.clone(), steps);
    let more = |few: &[usize], rest: &[usize]| [few, if all() { rest } else { &[] }].concat();
    for (name, gpu) in gpus() {
        for states in more(&[2, 16, 37, 64, 128], &[1, 256]) {
            for (step, trained) in [1e-3, 1e-2, 1e-1].into_iter().flat_map(|x| [(x, false), (x, true)]) {
                let system = System::new(states, step, trained);
                for n in more(&[1, 49, 196], &[1024]) {
                    let found = system.kernel(n, &gpu, of_gpu);
                    let expected = system.kernel(n, &Device::flex(), of_processor);
                    let start = if trained { "trained" } else { "LegS" };
                    let case = format!("S4 of S {states}, N {n}, step {step}, {start}");
                    // 256 substitutions at the longest step leave float32 1.5e-5.
                    let of_kernel = if states > 128 { 3.0 * PLAN } else { PLAN };
                    let bounds = [of_kernel, GRADIENT, GRADIENT, GRADIENT, GRADIENT];
                    for (at, what) in ["kernel", "A", "B", "C", "step"].into_iter().enumerate() {
                        let apart = apart_of_largest(&found[at], &expected[at]);
                        parity(&name, &format!("{case}, {what}"), apart, bounds[at]);
                    }
                    let above = |at: &usize| at % states > at / states;
                    assert!((0..states * states).filter(above).all(|at| found[1][at] == 0.0), "{case}");
                }
            }
        }
    }
}

#[test]
fn one_channel_by_the_bilinear_rule_is_what_a_gpus_own_kernels_take() {
    let bilinear = (Discretization::Bilinear, 49);
    for (name, gpu) in gpus() {
        let (a, b, c, step) = System::new(16, 1e-2, false).on(&gpu);
        let own = s4::kernel_on_gpu(&a, &b, &c, &step, bilinear).map(host);
        let taken = s4::kernel_channels(a.clone(), b.clone(), c.clone(), step.clone(), bilinear);
        assert_eq!(own.expect("a kernel"), host(taken), "{name}");
        let [many_b, many_c] = [Tensor::cat(vec![b.clone(); 3], 1), Tensor::cat(vec![c.clone(); 3], 0)];
        assert!(s4::kernel_on_gpu(&a, &many_b, &many_c, &step, bilinear).is_none(), "{name}");
        assert!(s4::kernel_on_gpu(&a, &b, &c, &step, (Discretization::Zoh, 49)).is_none(), "{name}");
        let (a, b, c, step) = System::new(257, 1e-2, false).on(&gpu);
        assert!(s4::kernel_on_gpu(&a, &b, &c, &step, bilinear).is_none(), "{name}");
    }
    let (a, b, c, step) = System::new(16, 1e-2, false).on(&Device::flex());
    assert!(s4::kernel_on_gpu(&a, &b, &c, &step, bilinear).is_none());
}
