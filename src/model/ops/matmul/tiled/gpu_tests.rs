//! Tiled products against those in float64, on every GPU.

use burn::tensor::{Device, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::{PreciseMatmul as _, shape_of};
use super::*;
use crate::close::assert_close_to_largest;
use crate::gpus::gpus;
use crate::model::ops::gpu::{cube, empty_of, tensor};

/// Largest error of a number, relative to the largest one.
const TOLERANCE: f64 = 5e-6;

/// Random numbers.
fn draw(shape: [usize; 4], rng: &mut ChaCha8Rng) -> TensorData {
    let values = (0..shape.iter().product()).map(|_| rng.random_range(-1.0_f32..1.5));
    TensorData::new(values.collect::<Vec<_>>(), shape)
}

/// A factor of these numbers, as a transposed view if `transposed`.
fn factor(data: &TensorData, transposed: bool, device: &Device, dtype: DType) -> Tensor<4> {
    let factor = Tensor::<4>::from_data(data.clone(), (device, dtype));
    if transposed { factor.swap_dims(2, 3) } else { factor }
}

/// The product in float64, on the CPU.
fn exact(factors: &[TensorData; 2], transposed: [bool; 2]) -> Vec<f64> {
    let [left, right] = [0, 1].map(|at| factor(&factors[at], transposed[at], &Device::flex(), DType::F64));
    left.precise_matmul(right).into_data().iter::<f64>().collect()
}

/// The product by the kernel, with its own tiling or a given one.
fn computed<const D: usize>(left: &CubeTensor, right: &CubeTensor, tiling: Option<Tiling>) -> Vec<f64> {
    let product = empty_of(left, shape_of(left, right), DType::F32);
    match tiling {
        Some(tiling) => {
            let problem = Problem::new(left, right).expect("factors that are supported");
            Problem { tiling, ..problem }.launch(&product);
        }
        None => multiply(left, right, &product).expect("factors that are supported"),
    }
    tensor::<D>(product).into_data().iter::<f64>().collect()
}

/// A name, the shapes of the factors in memory, and which of them are transposed.
type Case = (&'static str, [usize; 4], [usize; 4], [bool; 2]);

#[test]
fn products_agree_with_float64() {
    let cases: [Case; 15] = [
        ("a layer", [1, 1, 256, 768], [1, 1, 768, 1000], [false, false]),
        ("of tokens", [1, 1, 256, 200], [1, 1, 152, 200], [false, true]),
        ("of a weight", [1, 1, 196, 128], [1, 1, 196, 252], [true, false]),
        ("of both transposed", [1, 1, 132, 72], [1, 1, 68, 132], [true, true]),
        ("less than a tile", [1, 1, 3, 5], [1, 1, 5, 7], [false, false]),
        ("odd", [1, 1, 130, 70], [1, 1, 70, 33], [false, false]),
        ("odd and transposed", [1, 1, 70, 130], [1, 1, 33, 70], [true, true]),
        ("odd, one transposed", [1, 1, 70, 131], [1, 1, 70, 66], [true, false]),
        ("of one shared", [1, 3, 40, 20], [1, 1, 20, 36], [false, false]),
        ("of another shared", [1, 1, 33, 40], [1, 3, 40, 70], [false, false]),
        ("of two axes", [2, 3, 40, 20], [2, 1, 24, 20], [false, true]),
        ("of two axes, either shared", [2, 1, 9, 20], [1, 3, 20, 24], [false, false]),
        ("of single terms", [1, 2, 9, 1], [1, 2, 1, 70], [false, false]),
        ("of long sums", [1, 1, 20, 1500], [1, 1, 1500, 24], [false, false]),
        ("of long sums, odd", [1, 2, 1501, 19], [1, 2, 23, 1501], [true, true]),
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for (what, left, right, transposed) in cases {
        let factors = [left, right].map(|shape| draw(shape, &mut rng));
        let expected = exact(&factors, transposed);
        for (name, device) in gpus() {
            let [left, right] =
                [0, 1].map(|at| cube(factor(&factors[at], transposed[at], &device, DType::F32)));
            assert!(supports(&left, &right), "{what} on {name}");
            let found = computed::<4>(&left, &right, None);
            assert_close_to_largest(format!("{what} on {name}"), found, expected.clone(), TOLERANCE);
        }
    }
}

#[test]
fn products_are_right_for_every_tiling() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    for (columns, transposed) in [(92, [false, false]), (92, [true, true]), (91, [false, true])] {
        let shapes = [[2, 1, 150, 100], [1, 3, 100, columns]];
        let factors = [0, 1].map(|at| {
            let [outer, middle, rows, columns] = shapes[at];
            let turned = if transposed[at] { [columns, rows] } else { [rows, columns] };
            draw([outer, middle, turned[0], turned[1]], &mut rng)
        });
        let expected = exact(&factors, transposed);
        for (name, device) in gpus() {
            let [left, right] =
                [0, 1].map(|at| cube(factor(&factors[at], transposed[at], &device, DType::F32)));
            let problem = Problem::new(&left, &right).expect("factors that are supported");
            for at in 0..8 {
                let tiling = Tiling { rows: 1 + at % 2, columns: 1 + at / 2 % 2, parts: 1 + at / 4 * 2 };
                if problem.fits(tiling) {
                    let found = computed::<4>(&left, &right, Some(tiling));
                    let what = format!("{columns} columns, {transposed:?}, {tiling:?} on {name}");
                    assert_close_to_largest(what, found, expected.clone(), TOLERANCE);
                }
            }
        }
    }
}

#[test]
fn long_sums_of_few_numbers_are_made_in_parts_and_a_narrow_product_of_narrow_tiles() {
    for (name, device) in gpus() {
        let tiling = |rows: usize, inner: usize, columns: usize| {
            let [left, right] = [[rows, inner], [inner, columns]]
                .map(|shape| cube(Tensor::<2>::zeros([1, 1], &device).expand(shape)));
            Problem::new(&left, &right).expect("factors that are supported").tiling
        };
        assert!(tiling(64, 1024, 64).parts > 1, "{name}");
        assert_eq!(tiling(64, 256, 64).parts, 1, "{name}");
        assert_eq!(tiling(50_176, 768, 60).columns, 1, "{name}");
    }
}

#[test]
fn nan_and_infinity_stay_in_their_rows() {
    let [rows, inner, columns] = [70, 33, 20];
    for (name, device) in gpus() {
        let mut values = vec![0.5_f32; rows * inner];
        values[3 * inner + 5] = f32::NAN;
        values[10 * inner + inner - 1] = f32::INFINITY;
        values[rows * inner - 1] = f32::NEG_INFINITY; // in the last row, which is repeated for rows past the end
        let left = Tensor::<2>::from_data(TensorData::new(values, [rows, inner]), &device);
        let right = Tensor::<2>::ones([inner, columns], &device);
        let found = computed::<2>(&cube(left), &cube(right), None);
        for (row, found) in found.chunks(columns).enumerate() {
            let is_right = |x: f64| match row {
                3 => x.is_nan(),
                10 => x == f64::INFINITY,
                69 => x == f64::NEG_INFINITY,
                _ => x == 16.5,
            };
            assert!(found.iter().all(|x| is_right(*x)), "row {row} on {name}: {found:?}");
        }
    }
}

#[test]
fn only_products_with_indices_of_32_bits_are_supported() {
    for (name, device) in gpus() {
        let of = |shape: [usize; 2]| cube(Tensor::<2>::zeros([1, 1], &device).expand(shape));
        assert!(supports(&of([40, 30]), &of([30, 20])), "{name}");
        assert!(!supports(&of([1 << 16, 1]), &of([1, 1 << 16])), "{name}");
    }
}
