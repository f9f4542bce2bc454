//! `L` with noise on every entry, drawn on the device: a batch of 256 images of 196 tokens has ten million entries, each with two
//! logarithms, which the host would otherwise draw and send for every step.
//!
//! ChaCha8 (Bernstein 2008) makes sixteen words from a key and a block number alone, so that a thread draws sixteen neighbouring
//! entries of the very stream that the host's generator gives.

use burn::backend::ops::IntTensorOps;
use burn::tensor::TensorData;

use super::UNITS;
use crate::model::ops::gpu::prelude::*;
use crate::model::probe::router::sinkhorn::noise::Noise;

/// Words of a block.
const BLOCK: usize = 16;
/// Words of a key.
const KEY: usize = 8;

/// `L` of scores `[B, N]` with row constants left out, as [`plans_plain`](super::super::Sinkhorn::plans_plain) has it, and the
/// noise: `[B, N, N]`.
pub(super) fn noisy_log_kernel(scores: &CubeTensor, noise: &Noise, temperature: f64) -> CubeTensor {
    let [images, n] = scores.shape().dims();
    let log_kernels = empty(scores, [images, n, n]);
    let keys = TensorData::new(noise.keys(), [images * KEY]); // of one axis: CUDA pads rows
    let keys = CubeBackend::int_from_data(keys, &scores.device);
    draw::launch(
        &scores.client,
        CubeCount::Static((n * n).div_ceil(BLOCK * UNITS) as u32, images as u32, 1),
        CubeDim::new_1d(UNITS as u32),
        arg(scores),
        arg(&keys),
        arg(&log_kernels),
        temperature as f32,
        n,
    );
    log_kernels
}

/// Images along y, a thread for each block of an image along x.
#[cube(launch)]
fn draw(scores: &[f32], keys: &[u32], log_kernels: &mut [f32], temperature: f32, #[comptime] n: usize) {
    let block = ABSOLUTE_POS_X as usize;
    let image = CUBE_POS_Y as usize;
    if block < comptime!((n * n).div_ceil(BLOCK)) {
        let words = chacha8(&keys[image * KEY..(image + 1) * KEY], u32::cast_from(block));
        let last = comptime!(n.saturating_sub(1).max(1) as f32);
        #[unroll]
        for word in 0..BLOCK {
            let at = block * BLOCK + word;
            if at < comptime!(n * n) {
                let score = scores[image * n + at / n];
                let position = f32::cast_from(at % n);
                let nearest = nearest(score, n);
                let slope = (position - nearest) / last * (2.0f32 * score - (position + nearest) / last);
                log_kernels[image * comptime!(n * n) + at] = slope / temperature + gumbel(words[word]);
            }
        }
    }
}

/// The position that a score is nearest to.
#[cube]
pub(super) fn nearest(score: f32, #[comptime] n: usize) -> f32 {
    let last = comptime!(n.saturating_sub(1).max(1) as f32);
    max(min((score * last).round(), last), 0.0f32)
}

/// `-ln(-ln u)` with `u = (word + 1/2) / 2^32`.
#[cube]
fn gumbel(word: u32) -> f32 {
    let step = comptime!(2f32.powi(-32));
    // Near 1 float32 has few digits of u, so that above 1/2 the logarithm is made of 1 - u.
    let small = word < 0x8000_0000u32;
    let part = (f32::cast_from(select(small, word, 0xffff_ffffu32 - word)) + 0.5f32) * step;
    let exponential = select(small, -part.ln(), minus_ln_of_rest(part));
    -exponential.ln()
}

/// `-ln(1 - x)` of an x from 0 to 1/2, to float32's last digits however small: `2 artanh(x / (2 - x))`.
#[cube]
fn minus_ln_of_rest(x: f32) -> f32 {
    let z = x / (2.0f32 - x); // at most 1/3: of the series seven terms count
    let square = z * z;
    let mut sum = 0.0f32;
    #[unroll]
    for term in 0..7usize {
        sum = sum * square + comptime!(1.0 / (13 - 2 * term) as f32);
    }
    2.0f32 * z * sum
}

/// Block `counter` of the generator with this key.
#[cube]
fn chacha8(key: &[u32], counter: u32) -> Array<u32> {
    let mut start = Array::<u32>::new(BLOCK);
    start[0] = 0x6170_7865u32;
    start[1] = 0x3320_646eu32;
    start[2] = 0x7962_2d32u32;
    start[3] = 0x6b20_6574u32;
    #[unroll]
    for word in 0..KEY {
        start[comptime!(4 + word)] = key[word];
    }
    start[12] = counter;
    #[unroll]
    for word in 13..BLOCK {
        start[word] = 0u32;
    }
    let mut state = Array::<u32>::new(BLOCK);
    #[unroll]
    for word in 0..BLOCK {
        state[word] = start[word];
    }
    for _ in 0..4usize {
        #[unroll]
        for column in 0..4usize {
            quarter_round(&mut state, column, 4 + column, 8 + column, 12 + column);
        }
        #[unroll]
        for column in 0..4usize {
            let (b, c, d) = comptime!(((column + 1) % 4, (column + 2) % 4, (column + 3) % 4));
            quarter_round(&mut state, column, 4 + b, 8 + c, 12 + d);
        }
    }
    #[unroll]
    for word in 0..BLOCK {
        state[word] += start[word];
    }
    state
}

#[cube]
fn quarter_round(
    state: &mut Array<u32>,
    #[comptime] a: usize,
    #[comptime] b: usize,
    #[comptime] c: usize,
    #[comptime] d: usize,
) {
    state[a] += state[b];
    state[d] = rotate(state[d] ^ state[a], 16u32);
    state[c] += state[d];
    state[b] = rotate(state[b] ^ state[c], 12u32);
    state[a] += state[b];
    state[d] = rotate(state[d] ^ state[a], 8u32);
    state[c] += state[d];
    state[b] = rotate(state[b] ^ state[c], 7u32);
}

#[cube]
fn rotate(word: u32, #[comptime] by: u32) -> u32 {
    (word << by) | (word >> comptime!(32 - by))
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::Tensor;
    use burn_cubecl::kernel::into_contiguous;

    use super::*;
    use crate::gpus::gpus;
    use crate::model::ops::gpu::{cube, tensor};
    use crate::model::probe::router::sinkhorn::noise::table;

    #[test]
    fn a_device_draws_what_the_host_draws() {
        let (images, n) = (3, 301); // the last block of an image is not full
        let noise = Noise { image_seeds: vec![0, 1, u64::MAX - 5] };
        let score = |image: usize, i: usize| ((i * 37 + image * 11) % 101) as f32 / 50.0 - 0.5;
        for (name, device) in gpus() {
            let scores: Vec<f32> = (0..images * n).map(|at| score(at / n, at % n)).collect();
            let scores = Tensor::<2>::from_data(TensorData::new(scores, [images, n]), &device);
            let scores = into_contiguous(cube(scores));
            let found = noisy_log_kernel(&scores, &noise, 0.7);
            let found = tensor::<3>(found).into_data().try_into_vec::<f32>().expect("float32");
            for (image, found) in found.chunks(n * n).enumerate() {
                for (at, (found, drawn)) in found.iter().zip(table(noise.image_seeds[image], n)).enumerate() {
                    let score = f64::from(score(image, at / n));
                    let place = |k: f64| k / (n - 1) as f64;
                    let nearest = place((score * (n - 1) as f64).round().clamp(0.0, (n - 1) as f64));
                    let here = place((at % n) as f64);
                    let cost = ((score - nearest).powi(2) - (score - here).powi(2)) / 0.7;
                    let apart = (f64::from(*found) - cost - f64::from(drawn)).abs();
                    assert!(
                        apart < 3e-6 * f64::from(1.0 + drawn.abs()),
                        "{name}: image {image}, entry {at}: {apart:e}"
                    );
                }
            }
        }
    }
}
