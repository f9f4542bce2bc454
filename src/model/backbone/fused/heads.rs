//! Queries, keys and values of all heads in one launch: from one product of width 3d the bias added, queries and keys
//! turned by their rotary positions where there are any, each laid out as `[B, heads, T, part]`.

use burn::backend::cubecl::dtype_to_storage_type;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::activation::sum;
use super::rows::{Rows, Split, address, own_row, own_vector, vector};
use crate::model::ops::gpu::arg;

/// Which channels of a head are turned as a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pairs {
    /// `j` and `j + part / 2`.
    Halves,
    /// `2j` and `2j + 1`.
    Neighbours,
}

/// Cosine and sine of every angle, `[1 or B, 1, T, part]` in float32, the sine negative in the first channel of a pair.
pub(super) struct Angles {
    pub cos: CubeTensor,
    pub sin: CubeTensor,
    pub pairs: Pairs,
}

/// Of `qkv` `[B * T, 3 d]` and its bias `[1, 3 d]`, in the same numbers.
pub(super) fn split_heads(
    qkv: CubeTensor,
    bias: CubeTensor,
    batch: usize,
    heads: usize,
    angles: Option<Angles>,
) -> [CubeTensor; 3] {
    let qkv = Rows::of(qkv);
    let (tokens, width) = (qkv.count / batch, qkv.width / 3);
    let part = width / heads;
    let [query, key, value] =
        [(); 3].map(|()| Rows::empty(&qkv.tensor, [batch, heads, tokens, part].into(), qkv.tensor.dtype));
    let pairs = angles.as_ref().map(|angles| angles.pairs);
    let whole = if pairs == Some(Pairs::Halves) { part / 2 } else { part };
    let [cos, sin] = match angles {
        Some(Angles { cos, sin, .. }) => [cos, sin].map(|angles| Some(Rows::of(angles))),
        None => [None, None],
    };
    let angle_stride = cos.as_ref().map_or(0, |cos| cos.stride);
    let size = vector(&[whole, qkv.stride, query.stride, angle_stride]);
    let turned = cos.as_ref().map_or(1, |cos| cos.count);
    let optional = |rows: Option<Rows>| rows.map(|rows| rows.arg()).into();
    let split = Split::new(width / size, &qkv.tensor);
    let (cubes, units) = split.launch(qkv.count);
    split_rows::launch(
        &qkv.tensor.client,
        cubes,
        units,
        address(&[&qkv, &query]),
        size,
        qkv.arg(),
        arg(&bias),
        optional(cos),
        optional(sin),
        query.arg(),
        key.arg(),
        value.arg(),
        qkv.count,
        tokens,
        qkv.stride / size,
        query.stride / size,
        turned,
        angle_stride / size,
        heads,
        part / size,
        pairs,
        split,
        dtype_to_storage_type(qkv.tensor.dtype),
    );
    [query, key, value].map(|rows| rows.tensor)
}

/// A row a token: `heads` times `part` vectors of each of three, `from` vectors apart; written `to` vectors apart. `turned`
/// rows of angles, `angle` vectors apart, over and over.
#[cube(launch, address_type = "dynamic")]
fn split_rows<F: Float, N: Size>(
    qkv: &[Vector<F, N>],
    bias: &[Vector<F, N>],
    cos: ComptimeOption<&[Vector<f32, N>]>,
    sin: ComptimeOption<&[Vector<f32, N>]>,
    query: &mut [Vector<F, N>],
    key: &mut [Vector<F, N>],
    value: &mut [Vector<F, N>],
    rows: usize,
    tokens: usize,
    from: usize,
    to: usize,
    turned: usize,
    angle: usize,
    #[comptime] heads: usize,
    #[comptime] part: usize,
    #[comptime] pairs: Option<Pairs>,
    #[comptime] split: Split,
    #[define(F)] _dtype: ElemType,
) {
    let row = own_row(split);
    if row < rows {
        let width = comptime!(heads * part);
        let qkv = &qkv[row * from..(row + 1) * from];
        #[unroll]
        for step in 0..comptime!(split.steps) {
            let at = own_vector(step, split);
            if at < width {
                let (head, inside) = (at / part, at % part);
                let place = ((row / tokens * heads + head) * tokens + row % tokens) * to + inside;
                let mut q = sum::<F, N>(qkv, bias, at);
                let mut k = sum::<F, N>(qkv, bias, at + width);
                if comptime!(pairs.is_some()) {
                    let place = row % turned * angle + inside;
                    let cos: ComptimeOption<Vector<f32, N>> = cos.as_ref().map(|cos| cos[place]);
                    let sin: ComptimeOption<Vector<f32, N>> = sin.as_ref().map(|sin| sin[place]);
                    let (cos, sin) = (cos.unwrap_or_default(), sin.unwrap_or_default());
                    q = q * cos + other::<F, N>(qkv, bias, at, inside, part, pairs) * sin;
                    k = k * cos + other::<F, N>(qkv, bias, at + width, inside, part, pairs) * sin;
                }
                query[place] = Vector::cast_from(q);
                key[place] = Vector::cast_from(k);
                value[place] = Vector::cast_from(sum::<F, N>(qkv, bias, at + 2 * width));
            }
        }
    }
}

/// For every channel of a vector the other of its pair; `inside` is the vector's place in its head.
#[cube]
fn other<F: Float, N: Size>(
    qkv: &[Vector<F, N>],
    bias: &[Vector<F, N>],
    at: usize,
    inside: usize,
    #[comptime] part: usize,
    #[comptime] pairs: Option<Pairs>,
) -> Vector<f32, N> {
    if comptime!(pairs == Some(Pairs::Halves)) {
        let half = comptime!(part / 2);
        let other = if inside < half { at + half } else { at - half };
        sum::<F, N>(qkv, bias, other)
    } else {
        let own = sum::<F, N>(qkv, bias, at);
        let mut other = Vector::<f32, N>::empty();
        #[unroll]
        for lane in 0..N::value() {
            other.insert(lane, own.extract(comptime!(lane ^ 1)));
        }
        other
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{DType, Device, Tensor, TensorData};

    use super::super::check::{close, get, halves, put, random, spaced};
    use super::super::{cube, tensor};
    use super::*;
    use crate::gpus::gpus;
    use crate::model::backbone::rotary::{Rotary, Rotation};
    use crate::model::grid::Grid;

    const CENTRED: Rotary = Rotary::Centred { base: 100.0 };
    const COUNTED: Rotary = Rotary::Counted { base: 10_000.0, reference: 4 };

    fn angles(rotation: &Rotation) -> Angles {
        let Rotation { cos, sin, rotary } = rotation;
        let pairs = if *rotary == CENTRED { Pairs::Halves } else { Pairs::Neighbours };
        Angles { cos: cube(cos.clone()), sin: cube(sin.clone()), pairs }
    }

    /// Part `which` of biased `qkv` `[B T, 3 d]` as `[B, heads, T, part]`, turned where there is a rotation of one token and those
    /// of a grid.
    fn part_of(
        qkv: &[f64],
        which: usize,
        [batch, heads, tokens, part]: [usize; 4],
        rotation: Option<(Rotary, Grid)>,
    ) -> Vec<f64> {
        let at = |image: usize, head: usize, token: usize, channel: usize| {
            let value = |channel: usize| {
                qkv[((image * tokens + token) * 3 + which) * heads * part + head * part + channel]
            };
            let Some((rotary, grid)) = rotation.filter(|_| which < 2 && token > 0) else {
                return value(channel);
            };
            let (angle, is_first) = rotary.angle(token - 1, grid, channel, part);
            let other = if rotary == CENTRED { (channel + part / 2) % part } else { channel ^ 1 };
            let sine = if is_first { -angle.sin() } else { angle.sin() };
            value(channel) * angle.cos() + value(other) * sine
        };
        let mut all = Vec::with_capacity(batch * heads * tokens * part);
        for i in 0..batch * heads * tokens * part {
            let (line, channel) = (i / part, i % part);
            let (head, token) = (line / tokens, line % tokens);
            all.push(at(head / heads, head % heads, token, channel));
        }
        all
    }

    /// The largest difference in some numbers.
    fn check(name: &str, device: &Device, dtype: DType, most: f64) -> f64 {
        let (grid, [batch, heads]) = (Grid::new(2, 3), [2, 3]);
        let tokens = 1 + grid.len();
        let plain = [1, 3, 6, 64].map(|part| (part, None));
        let centred = [4, 12, 64].map(|part| (part, Some(CENTRED)));
        let counted = [4, 12, 64].map(|part| (part, Some(COUNTED)));
        let mut worst = 0.0_f64;
        for (part, rotary) in plain.into_iter().chain(centred).chain(counted) {
            let width = 3 * heads * part;
            let values = random(batch * tokens * width, 0);
            let (qkv, exact) = put(&values, [batch * tokens, width], device, dtype);
            let (bias, biases) = put(&random(width, 1), [1, width], device, dtype);
            let exact: Vec<f64> = exact.iter().zip(biases.iter().cycle()).map(|(x, b)| x + b).collect();
            let rotation = rotary.map(|rotary| angles(&Rotation::new(grid, 1, part, rotary, device)));
            let found = split_heads(qkv, bias, batch, heads, rotation).map(get);
            for (which, found) in found.iter().enumerate() {
                let shape = [batch, heads, tokens, part];
                let expected = part_of(&exact, which, shape, rotary.map(|rotary| (rotary, grid)));
                let what = format!("{which} of {part} channels, {rotary:?}, {dtype:?} on {name}");
                worst = worst.max(close(&what, found, &expected, most));
            }
        }
        worst
    }

    #[test]
    fn every_head_gets_its_channels_turned() {
        for (name, device) in gpus() {
            let most = check(&name, &device, DType::F32, 1e-6);
            println!("parity {name}: heads: {most:.1e} (at most 1e-6)");
            for (dtype, unit) in halves(&name, &device) {
                check(&name, &device, dtype, 4.0 * unit);
            }
        }
    }

    #[test]
    fn every_image_may_have_its_own_angles() {
        let (part, batch) = (8, 2);
        for (name, device) in gpus() {
            let all = Rotation::new(Grid::new(2, 2), 0, part, CENTRED, &device);
            let chosen = Tensor::from_data(TensorData::new(vec![0_i32, 3, 2, 1], [4]), &device);
            let (qkv, _) = put(&random(4 * 3 * part, 0), [4, 3 * part], &device, DType::F32);
            let (bias, _) = put(&random(3 * part, 1), [1, 3 * part], &device, DType::F32);
            let angles_of = |rows: &Tensor<1, burn::tensor::Int>, batch| angles(&all.select(rows, batch));
            let turned = split_heads(qkv.clone(), bias.clone(), batch, 1, Some(angles_of(&chosen, batch)));
            let [together, ..] = turned.map(get);
            for image in 0..batch {
                let (first, last) = (2 * image, 2 * (image + 1));
                let own = cube(tensor::<2>(qkv.clone()).slice_dim(0, first..last));
                let chosen = chosen.clone().slice_dim(0, first..last);
                let [alone, ..] = split_heads(own, bias.clone(), 1, 1, Some(angles_of(&chosen, 1))).map(get);
                close(&name, &together[first * part..last * part], &alone, 0.0);
            }
        }
    }

    #[test]
    fn rows_may_lie_further_apart_than_they_are_long() {
        for (name, device) in gpus() {
            for part in [3, 4] {
                let (qkv, exact) = spaced(6, 3 * 2 * part, &device);
                let (bias, _) = put(&vec![0.0; 3 * 2 * part], [1, 3 * 2 * part], &device, DType::F32);
                let found = split_heads(qkv, bias, 2, 2, None).map(get);
                for (which, found) in found.iter().enumerate() {
                    close(&name, found, &part_of(&exact, which, [2, 2, 3, part], None), 0.0);
                }
            }
        }
    }
}
