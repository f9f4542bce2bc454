//! Times of routing: plans on the host, forward and backward pass of token weights, S4 kernels.
//!
//! `cargo bench --bench routing`; 196 tokens, the paper's settings, batches of 256. Plain tensors keep the matrices of
//! every iteration for the backward pass: they run on 16 images.

use std::hint::black_box;
use std::time::Duration;

use burn::tensor::{Device, Tensor, TensorData};
use criterion::{Criterion, criterion_group, criterion_main};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ssmprobe::app::process_memory;
use ssmprobe::model::ops::matmul::PreciseMatmul as _;
use ssmprobe::model::probe::head::Config;
use ssmprobe::model::probe::router::sinkhorn::Sinkhorn;
use ssmprobe::model::probe::router::{ROUTERS, Router, standardise};
use ssmprobe::model::probe::s4;
use ssmprobe::model::probe::settings::Discretization;

const TOKENS: usize = 196;
const STEPS: s4::Steps = (Discretization::Bilinear, TOKENS);
const STATES: usize = 128;

/// Standardised, nearly normal values from a fixed seed, in place of scores and parameters.
fn values(count: usize) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let normal = |rng: &mut ChaCha8Rng| (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
    standardise(&(0..count).map(|_| normal(&mut rng)).collect::<Vec<_>>())
}

fn tensor<const D: usize>(values: &[f64], shape: [usize; D], device: &Device) -> Tensor<D> {
    let values = values.iter().map(|&x| x as f32).collect();
    Tensor::from_data(TensorData::new::<f32, _>(values, shape), device)
}

fn plans_on_the_host(c: &mut Criterion) {
    process_memory::keep_freed_memory(); // as the program does
    let scores = values(TOKENS);
    let mut group = c.benchmark_group("plan of one image");
    for kind in ROUTERS {
        let router = (kind.build)(&Config::default()).expect("default settings are valid");
        group.bench_function(kind.id, |b| b.iter(|| router.plan(black_box(&scores))));
    }
    let cold = Sinkhorn { temperature: 0.001, ..Sinkhorn::default() };
    group.bench_function("sinkhorn in the log domain", |b| b.iter(|| cold.plan(black_box(&scores))));
    let gain = values(TOKENS);
    group.bench_function("sinkhorn, token weights only", |b| {
        b.iter(|| Sinkhorn::default().route(black_box(&scores), None).weights(&gain));
    });
    group.finish();
}

/// Token weights from scores `[B, N]` and gains `[N]`.
type Weights = fn(&Sinkhorn, Tensor<2>, Tensor<1>) -> Tensor<2>;

fn token_weights(c: &mut Criterion) {
    let device = Device::flex();
    let gain = tensor(&values(TOKENS), [TOKENS], &device);
    let mut group = c.benchmark_group("token weights");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    fn weigh(plans: Tensor<3>, gain: Tensor<1>) -> Tensor<2> {
        plans.precise_matmul(gain.reshape([1, -1, 1])).squeeze_dim(2)
    }
    let paths: [(&str, usize, Weights); 3] = [
        ("one operation, 256 images", 256, |sinkhorn, scores, gain| {
            sinkhorn.token_weights(scores, gain, None)
        }),
        ("through plans, 256 images", 256, |sinkhorn, scores, gain| {
            weigh(sinkhorn.plans(scores, None), gain)
        }),
        ("plain tensors, 16 images", 16, |sinkhorn, scores, gain| {
            weigh(sinkhorn.plans_plain(scores, None), gain)
        }),
    ];
    for (name, images, weights) in paths {
        let scores = tensor(&values(images * TOKENS), [images, TOKENS], &device);
        group.bench_function(format!("{name}, forward"), |b| {
            b.iter(|| weights(&Sinkhorn::default(), scores.clone(), gain.clone()).into_data());
        });
        let device = device.clone().autodiff();
        let scores = Tensor::<2>::from_data(scores.to_data(), &device).require_grad();
        let gain = Tensor::<1>::from_data(gain.to_data(), &device).require_grad();
        group.bench_function(format!("{name}, forward and backward"), |b| {
            b.iter(|| {
                let weights = weights(&Sinkhorn::default(), scores.clone(), gain.clone());
                scores.grad(&weights.sum().backward()).map(Tensor::into_data)
            });
        });
    }
    group.finish();
}

fn kernels(c: &mut Criterion) {
    let (a, b) = s4::hippo(STATES);
    let output = values(STATES);
    let mut group = c.benchmark_group("S4 kernel");
    group.sample_size(20);
    group.bench_function("host", |bench| {
        bench.iter(|| s4::HostKernel::new(a.clone(), b.clone(), output.clone(), 0.05, STEPS).values());
    });
    let channels = 768;
    let (many_b, many_c) = (values(STATES * channels), values(STATES * channels));
    group.bench_function("host, 768 channels", |bench| {
        bench.iter(|| s4::HostKernel::new(a.clone(), many_b.clone(), many_c.clone(), 0.05, STEPS).values());
    });
    let device = Device::flex().autodiff();
    let a = tensor(&a, [STATES, STATES], &device).require_grad();
    let b = tensor(&b, [STATES, 1], &device).require_grad();
    let output = tensor(&output, [1, STATES], &device).require_grad();
    let step = tensor(&[0.05], [1], &device).require_grad();
    group.bench_function("tensors, forward and backward", |bench| {
        bench.iter(|| {
            let kernel = s4::kernel_channels(a.clone(), b.clone(), output.clone(), step.clone(), STEPS);
            a.grad(&kernel.sum().backward()).map(Tensor::into_data)
        });
    });
    let b = tensor(&many_b, [STATES, channels], &device).require_grad();
    let output = tensor(&many_c, [channels, STATES], &device).require_grad();
    group.bench_function("tensors, 768 channels, forward and backward", |bench| {
        bench.iter(|| {
            let kernel = s4::kernel_channels(a.clone(), b.clone(), output.clone(), step.clone(), STEPS);
            b.grad(&kernel.sum().backward()).map(Tensor::into_data)
        });
    });
    group.finish();
}

criterion_group!(benches, plans_on_the_host, token_weights, kernels);
criterion_main!(benches);
