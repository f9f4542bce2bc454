//! Pooling on the CPU against the same pooling by elementary operations: values and gradients for
//! every head that pools, at sizes that fill no SIMD register and at long sequences; and that neither
//! the number of threads nor other requests change a bit.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::ops::cpu::{flex, host};
use ssmprobe::model::ops::pooling::Pooling;
use ssmprobe::model::ops::pooling::pass::{Gradient, Pass, PoolRequest};
use ssmprobe::model::ops::pooling::weight_rule::{AttentionWeights, FixedWeights};
use ssmprobe::model::probe::head::{Batch, Config, Dims, HEADS, HeadSpec};
use ssmprobe::model::probe::router::ROUTERS;
use ssmprobe::model::probe::router::channelwise::{Channelwise, Order};
use ssmprobe::model::probe::router::learned_weights::ContentWeights;
use ssmprobe::model::train::classifier::Model;

use crate::close::assert_close;

fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| rng.random_range(-1.5..1.5)).collect()
}

fn batch(images: usize, grid: Grid, width: usize, device: &Device) -> Batch {
    let data = TensorData::new(values(images * grid.len() * width, 1), [images, grid.len(), width]);
    Batch {
        patches: Tensor::from_data(data, device),
        cls: None,
        grid,
        image_seeds: (10..10 + images as u64).collect(),
        training: true,
    }
}

fn model(kind: &'static HeadSpec, grid: Grid, width: usize, device: &Device) -> Model {
    let config = Config { state_dim: Some(8), k: Some(3), ..Config::default() };
    let model = Model::start(kind, &config, Dims { width, grid, classes: 3 }, 5, device).unwrap();
    let tracked = model.params().tracked();
    model.with_params(tracked)
}

/// The pooled tokens, then the gradient of every parameter of their product with a random cotangent; `None` without pooling.
fn read(model: &Model, batch: &Batch, pool: fn(&Pooling, &Tensor<3>) -> Tensor<3>) -> Option<Vec<Vec<f32>>> {
    let pooling = model.head().pooling(model.params(), batch)?;
    let pooled = pool(&pooling, &batch.patches);
    let (count, dims) = (pooled.dims().iter().product(), pooled.dims());
    let mut all = vec![host(pooled.clone())];
    if pooling.queries.is_none() && pooling.gains.is_none() {
        return Some(all); // it has no trained parameters
    }
    let cotangent = Tensor::<3>::from_data(TensorData::new(values(count, 2), dims), &batch.patches.device());
    let gradients = (pooled * cotangent).sum().backward();
    all.extend(model.params().iter().filter_map(|(_, value)| value.grad(&gradients)).map(host));
    assert!(all.len() > 1, "nothing has a gradient");
    Some(all)
}

#[test]
pub fn every_pooling_and_its_gradients_are_those_of_elementary_operations() {
    let mut compared = 0;
    for (images, grid, width) in [(3, Grid::new(1, 2), 5), (2, Grid::new(3, 3), 24), (3, Grid::new(5, 7), 17)]
    {
        let batch = batch(images, grid, width, &Device::flex());
        let batch = Batch { patches: batch.patches.clone().autodiff(), ..batch };
        for kind in HEADS.iter() {
            let model = model(kind, grid, width, &Device::flex());
            let Some(found) = read(&model, &batch, Pooling::pool) else { continue };
            let expected = read(&model, &batch, Pooling::pool_plain).expect("it pools");
            assert_eq!(found.len(), expected.len(), "{}", kind.id);
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let largest = expected.iter().fold(1e-2_f32, |largest, x| largest.max(x.abs()));
                let tolerance = if at == 0 { 1e-5 } else { 1e-4 } * f64::from(largest);
                let name = format!("{} {} tensor {at}", kind.id, grid.len());
                assert_close(name, found, expected, tolerance);
            }
            compared += 1;
        }
    }
    assert!(compared >= 3 * 15, "only {compared} poolings were compared");
}

/// The tokens pooled with a weight per channel, then the gradients of the gain and of a learned query.
pub fn read_channels(
    order: &Order,
    [images, n, width]: [usize; 3],
    device: &Device,
    pool: PoolChannels,
) -> Vec<Vec<f32>> {
    let device = device.clone().autodiff();
    let matrix = |shape: [usize; 2], seed| {
        Tensor::<2>::from_data(TensorData::new(values(shape[0] * shape[1], seed), shape), &device)
    };
    let tokens = TensorData::new(values(images * n * width, 3), [images, n, width]);
    let tokens = Tensor::<3>::from_data(tokens, &device);
    let gain = matrix([n, width], 2).require_grad();
    let learned = matches!(order, Order::Learned { .. });
    let query = learned.then(|| matrix([1, width], 1).require_grad());
    let channelwise = Channelwise { query: query.clone(), gain: gain.clone(), order: order.clone() };
    let pooled = pool(&channelwise, &tokens);
    let gradients = (pooled.clone() * matrix([images, width], 4)).sum().backward();
    let host_of = |tensor: Tensor<2>| tensor.into_data().try_to_vec::<f32>().expect("float32");
    // With a single token, the query may have no gradient.
    let grad_query = query.map(|query| query.grad(&gradients).map_or_else(|| vec![0.0; width], host_of));
    let grad_gain = host_of(gain.grad(&gradients).expect("a gradient"));
    [host_of(pooled), grad_gain].into_iter().chain(grad_query).collect()
}

pub type PoolChannels = fn(&Channelwise, &Tensor<3>) -> Tensor<2>;

#[test]
pub fn a_weight_for_every_channel_and_its_gradients_are_those_of_elementary_operations() {
    for shape in [[3, 1, 5], [3, 2, 5], [19, 7, 24], [2, 9, 17], [19, 3, 40]] {
        let [images, n, _] = shape;
        let backwards = (0..images * n).map(|at| n - 1 - at % n).collect();
        let mut orders = vec![("fixed", Order::Fixed), ("permuted", Order::Permuted(Arc::new(backwards)))];
        for kind in ROUTERS {
            for image_seeds in [None, Some((0..images as u64).collect())] {
                let router = Arc::from((kind.build)(&Config::default()).expect("defaults are right"));
                orders.push((kind.id, Order::Learned { router, image_seeds }));
            }
        }
        for (name, order) in orders {
            let found = read_channels(&order, shape, &Device::flex(), Channelwise::pool);
            let expected = read_channels(&order, shape, &Device::flex(), Channelwise::pool_plain);
            assert_eq!(found.len(), expected.len());
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let largest = expected.iter().fold(1.0_f32, |largest, x| largest.max(x.abs()));
                let tolerance = if at == 0 { 1e-5 } else { 1e-4 } * f64::from(largest);
                assert_close(format!("{name} {shape:?} tensor {at}"), found, expected, tolerance);
            }
        }
    }
}

#[test]
fn threads_and_neighbours_change_no_bit() {
    let (images, n, width) = (7, 13, 37);
    let tokens = || {
        let data = TensorData::new(values(images * n * width, 3), [images, n, width]);
        flex(Tensor::<3>::from_data(data, &Device::flex()))
    };
    let gains: Vec<f64> = values(n, 4).into_iter().map(f64::from).collect();
    let requests = || {
        vec![
            PoolRequest {
                queries: values(width, 5),
                gains: vec![],
                rule: Arc::new(ContentWeights { best: None }),
            },
            PoolRequest { queries: vec![], gains: gains.clone(), rule: Arc::new(FixedWeights) },
            PoolRequest {
                queries: values(5 * width, 6),
                gains: vec![],
                rule: Arc::new(AttentionWeights { queries: 5, scale: 0.3 }),
            },
        ]
    };
    let run = |requests: Vec<PoolRequest>, threads: usize| -> (Vec<Vec<f32>>, Vec<Option<Gradient>>) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (pooled, pass) = Pass::forward(&tokens(), requests, true);
            let gradients = pass.backward(&pooled.iter().cloned().map(Some).collect::<Vec<_>>());
            (pooled, gradients)
        })
    };
    let together = run(requests(), 1);
    assert!(together.1.iter().all(Option::is_some));
    assert_eq!(together, run(requests(), 3));
    for (at, request) in requests().into_iter().enumerate() {
        let (pooled, gradients) = run(vec![request], 2);
        assert_eq!((&pooled[0], &gradients[0]), (&together.0[at], &together.1[at]), "ask {at}");
    }
}

#[test]
fn tokens_in_float16_are_read_as_they_are() {
    let (images, n, width) = (3, 11, 20);
    let data = TensorData::new(values(images * n * width, 3), [images, n, width]);
    let half = Tensor::<3>::from_data(data, &Device::flex()).cast(burn::tensor::DType::F16);
    let whole = half.clone().cast(burn::tensor::DType::F32);
    let run = |tokens: Tensor<3>| {
        let rule = Arc::new(AttentionWeights { queries: 2, scale: 1.0 });
        let (pooled, pass) = Pass::forward(
            &flex(tokens),
            vec![PoolRequest { queries: values(2 * width, 5), gains: vec![], rule }],
            true,
        );
        let gradients = pass.backward(&[Some(pooled[0].clone())]);
        (pooled, gradients)
    };
    assert_eq!(run(half), run(whole));
}

#[test]
fn long_sequences_train() {
    let (width, mut trained) = (16, 0);
    for (grid, only) in [(Grid::new(64, 64), None), (Grid::new(128, 128), Some("sinkhorn"))] {
        let batch = batch(1, grid, width, &Device::flex());
        let batch = Batch { patches: batch.patches.clone().autodiff(), ..batch };
        for kind in HEADS.iter() {
            // Gumbel noise on every entry needs the memory of a whole plan.
            if only.is_some_and(|only| only != kind.id) || kind.id == "gumbel-sinkhorn" {
                continue;
            }
            let model = model(kind, grid, width, &Device::flex());
            let Some(found) = read(&model, &batch, Pooling::pool) else { continue };
            assert!(found.iter().flatten().all(|x| x.is_finite()), "{} {}", kind.id, grid.len());
            trained += 1;
        }
    }
    assert!(trained >= 15, "only {trained} heads were trained");
}
