//! The gains of S4s: a GPU's own kernels against the processor's operation in float64. A software Vulkan runs them too.

use burn::tensor::{Device, Tensor};
use ssmprobe::model::ops::cpu::on_cpu;
use ssmprobe::model::probe::s4::{self, System};
use ssmprobe::model::probe::settings::Discretization;

use super::{Parity, all};
use crate::gpus::gpus;
use crate::routing::reference::*;
use crate::skip;

/// The parameters of an S4 of one channel: A (S x S), B, C and the step size; D is 0.3.
struct Values {
    states: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    step: f64,
}

impl Values {
    /// HiPPO-LegS; `trained` is a little away from it, with values above the diagonal of A that nothing may read.
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

    fn on(&self, device: &Device) -> System {
        let Self { states, a, b, c, step } = self;
        let (a, b, c) = (matrix(a, *states, device), matrix(b, 1, device), matrix(c, *states, device));
        System { a, b, c, skip: vector(&[0.3], device), step: vector(&[*step], device) }
    }

    /// The cotangent of the gain of `n` positions. Its signs are those of the gain's change with a longer step, so that the
    /// gradient of the step, a single number, is not a small difference of large terms.
    fn cotangent(&self, n: usize) -> Vec<f64> {
        let values = |step: f64| {
            let (a, b, c) = (self.a.clone(), self.b.clone(), self.c.clone());
            s4::HostKernel::new(a, b, c, step, (Discretization::Bilinear, n)).values()
        };
        let (now, longer) = (values(self.step), values(1.01 * self.step));
        let signs = now.iter().zip(&longer).map(|(now, longer)| (longer - now).signum()).rev();
        normal(n, 62).iter().zip(signs).map(|(size, sign)| size.abs() * sign).collect()
    }

    /// The gain of `n` positions, and the gradients of A, B, C, D and the step.
    fn gain(&self, n: usize, device: &Device) -> [Vec<f64>; 6] {
        gains(&[self], n, device).expect("a GPU's own kernels take one channel").remove(0)
    }
}

/// [`Values::gain`] of several systems in one call: on a GPU by its own kernels, on the processor by its operation. `None` where the
/// kernels would need more buffers than the GPU binds at once.
fn gains(of: &[&Values], n: usize, device: &Device) -> Option<Vec<[Vec<f64>; 6]>> {
    let steps = (Discretization::Bilinear, n);
    let systems: Vec<System> = of.iter().map(|values| values.on(&device.clone().autodiff())).collect();
    let tracked = systems.into_iter().map(|System { a, b, c, skip, step }| {
        let [a, b, c] = [a, b, c].map(Tensor::require_grad);
        let [skip, step] = [skip, step].map(Tensor::require_grad);
        System { a, b, c, skip, step }
    });
    let tracked: Vec<System> = tracked.collect();
    let copies = tracked.iter().map(|System { a, b, c, skip, step }| {
        let ([a, b, c], [skip, step]) = ([a, b, c].map(Clone::clone), [skip, step].map(Clone::clone));
        System { a, b, c, skip, step }
    });
    let copies: Vec<System> = copies.collect();
    let made = match on_cpu(device) {
        true => s4::gains(copies, steps),
        false => s4::gains_on_gpu(&copies, steps)?,
    }; // [G, N, 1]
    let cotangent = of.iter().flat_map(|values| values.cotangent(n)).collect::<Vec<_>>();
    let cotangent = matrix(&cotangent, 1, &device.clone().autodiff()).reshape([of.len(), n, 1]);
    let gradients = (made.clone() * cotangent).sum().backward();
    let made = host(made.reshape([of.len(), n]));
    let each = tracked.iter().zip(made.chunks(n)).map(|(System { a, b, c, skip, step }, gain)| {
        let [grad_a, grad_b, grad_c] = [a, b, c].map(|x| gradient(x, &gradients));
        let [grad_skip, grad_step] = [skip, step].map(|x| gradient(x, &gradients));
        [gain.to_vec(), grad_a, grad_b, grad_c, grad_skip, grad_step]
    });
    Some(each.collect())
}

#[test]
fn the_gain_of_one_channel_and_its_gradients_equal_the_processors() {
    let mut parity = Parity::default();
    let more = |few: &[usize], rest: &[usize]| [few, if all() { rest } else { &[] }].concat();
    for (name, gpu) in gpus() {
        for states in more(&[2, 16, 37, 64, 128], &[1, 256]) {
            for (step, trained) in [1e-3, 1e-2, 1e-1].into_iter().flat_map(|x| [(x, false), (x, true)]) {
                let system = Values::new(states, step, trained);
                for n in more(&[1, 49, 196], &[1024]) {
                    let (found, expected) = (system.gain(n, &gpu), system.gain(n, &Device::flex()));
                    let start = if trained { "trained" } else { "LegS" };
                    let case = format!("S4 of S {states}, N {n}, step {step}, {start}");
                    // 256 substitutions at the longest step leave a float32 error of 1.5e-5.
                    let of_gain = if states > 128 { 3.0 * PLAN } else { PLAN };
                    let bounds = [of_gain, GRADIENT, GRADIENT, GRADIENT, GRADIENT, GRADIENT];
                    for (at, what) in ["gain", "A", "B", "C", "D", "step"].into_iter().enumerate() {
                        let apart = apart_of_largest(&found[at], &expected[at]);
                        parity.check(&name, &format!("{case}, {what}"), apart, bounds[at]);
                    }
                    let above = |at: &usize| at % states > at / states;
                    assert!((0..states * states).filter(above).all(|at| found[1][at] == 0.0), "{case}");
                }
            }
        }
    }
}

#[test]
fn systems_that_are_made_at_once_are_each_to_the_bit_what_they_are_alone() {
    let (states, n) = (37, 49);
    let [few, long, trained] = [(1e-3, false), (1e-1, false), (2e-2, true)]
        .map(|(step, trained)| Values::new(states, step, trained));
    for (name, gpu) in gpus() {
        for systems in [vec![&trained, &long], vec![&long, &trained, &few, &long]] {
            let alone: Vec<_> = systems.iter().map(|system| system.gain(n, &gpu)).collect();
            match gains(&systems, n, &gpu) {
                Some(together) => assert_eq!(together, alone, "{} on {name}", systems.len()),
                None => skip::because(format!("{name} binds too few buffers for {} systems", systems.len())),
            }
        }
    }
}

#[test]
fn one_channel_by_the_bilinear_rule_is_what_a_gpus_own_kernels_take() {
    let bilinear = (Discretization::Bilinear, 49);
    let own = |system: System, steps| s4::gains_on_gpu(&[system], steps);
    for (name, gpu) in gpus() {
        let few = || Values::new(16, 1e-2, false).on(&gpu);
        let found = own(few(), bilinear).expect("gains").reshape([1, 49]);
        assert_eq!(host(found), host(s4::gains(vec![few()], bilinear).reshape([1, 49])), "{name}");
        let System { a, b, c, skip, step } = few();
        let (b, c) = (Tensor::cat(vec![b; 3], 1), Tensor::cat(vec![c; 3], 0));
        let many = System { a, b, c, skip: Tensor::cat(vec![skip; 3], 0), step };
        assert!(own(many, bilinear).is_none(), "{name}");
        assert!(own(few(), (Discretization::Zoh, 49)).is_none(), "{name}");
        assert!(own(Values::new(257, 1e-2, false).on(&gpu), bilinear).is_none(), "{name}");
        // The kernels take as many systems as a scan has directions; three are computed one by one.
        assert!(s4::gains_on_gpu(&[few(), few(), few()], bilinear).is_none(), "{name}");
        assert_eq!(s4::gains(vec![few(), few(), few()], bilinear).dims(), [3, 49, 1], "{name}");
    }
    assert!(own(Values::new(16, 1e-2, false).on(&Device::flex()), bilinear).is_none());
}
