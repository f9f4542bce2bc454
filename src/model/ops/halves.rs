//! Uploads float16 numbers of the host as float32 tensors. A GPU gets the float16 bits, half of the bytes, two numbers per u32
//! word, and widens them itself: through WGSL not every GPU has 16-bit types.

use burn::backend::cubecl::Device as CubeDevice;
use burn::backend::ops::IntTensorOps;
use burn::tensor::{DType, Device, TensorData};
use half::f16;
use half::slice::HalfFloatSliceExt as _;
use rayon::prelude::*;

use super::gpu::{empty_of, gpu_of, is_indexable};
use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup.
const UNITS: usize = 256;
/// Numbers per task of a host's thread.
const PART: usize = 1 << 16;

/// float16 or float32 numbers as a float32 tensor on `device`, bit for bit as the host converts them.
pub(crate) fn widened<const D: usize>(data: TensorData, device: &Device) -> Tensor<D> {
    match gpu_of(device).filter(|_| data.dtype() == DType::F16 && is_indexable(data.shape().num_elements())) {
        Some(gpu) => tensor(on_gpu(data, &gpu)),
        None => Tensor::from_data(on_host(data), device),
    }
}

/// float16 or float32 numbers as float32, on all threads.
fn on_host(data: TensorData) -> TensorData {
    let Ok(halves) = data.as_slice::<f16>() else { return data };
    let mut wide = vec![0.0; halves.len()];
    let parts = wide.par_chunks_mut(PART).zip(halves.par_chunks(PART));
    parts.for_each(|(wide, halves)| halves.convert_to_f32_slice(wide));
    TensorData::new(wide, data.shape().clone())
}

fn on_gpu(data: TensorData, gpu: &CubeDevice) -> CubeTensor {
    let (mut bytes, shape, _) = data.into_parts();
    let numbers = shape.num_elements();
    let words = numbers.div_ceil(2);
    bytes.extend_from_byte_slice(&[0; 2][..2 * (numbers % 2)]);
    let words = CubeBackend::int_from_data(TensorData::from_bytes(bytes, [words], DType::U32), gpu);
    let wide = empty_of(&words, shape, DType::F32);
    let (cubes, units) = threads(numbers, UNITS);
    widen::launch(&words.client, cubes, units, arg(&words), arg(&wide));
    wide
}

#[cube(launch)]
fn widen(words: &[u32], numbers: &mut [f32]) {
    let at = ABSOLUTE_POS;
    if at < numbers.len() {
        let half = words[at / 2] >> (u32::cast_from(at % 2) * 16);
        let (sign, magnitude) = ((half & 0x8000) << 16, half & 0x7fff);
        let mut bits = (magnitude << 13) + comptime!(112u32 << 23);
        if magnitude < 0x400 {
            // Subnormal: in steps of 2^-24.
            bits = u32::reinterpret(f32::cast_from(magnitude) * 5.960_464_5e-8);
        } else if magnitude >= 0x7c00 {
            bits += comptime!(112u32 << 23); // infinite, or NaN
        }
        numbers[at] = f32::reinterpret(sign | bits);
    }
}

#[cfg(test)]
mod gpu_tests {
    use super::*;
    use crate::gpus::gpus;

    #[test]
    fn every_float16_is_the_hosts_float32() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        for (name, gpu) in gpus() {
            for halves in [&all[..], &all[..257], &all[7..8]] {
                let found = widened::<1>(TensorData::new(halves.to_vec(), [halves.len()]), &gpu);
                let found = found.into_data().try_into_vec::<f32>().expect("float32");
                assert_eq!(found.len(), halves.len());
                for (found, half) in found.into_iter().zip(halves) {
                    let expected = half.to_f32();
                    let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
                    assert!(same, "{name}: {:#06x} is {found:e}, expected {expected:e}", half.to_bits());
                }
            }
        }
    }
}
