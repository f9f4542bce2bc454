//! Queries, keys and values of all heads in one launch: adds the bias to one product of width 3d, rotates queries and keys
//! by their rotary positions where there are any, and splits them into `[B, heads, T, head_dim]` each.

use burn::backend::cubecl::dtype_to_storage_type;

use super::activation::load_biased;
use super::rows::{Rows, Split, address, own_row, own_vector, vector};
use crate::model::backbone::rotary::{Rotary, Rotation};
use crate::model::ops::gpu::prelude::*;

/// Which channels of a head are rotated as a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pairs {
    /// `j` and `j + head_dim / 2`.
    Halves,
    /// `2j` and `2j + 1`.
    Neighbours,
}

/// Queries, keys and values `[B, heads, T, head_dim]` from `qkv` `[B * T, 3 d]` and its bias `[1, 3 d]` of the same type.
pub(super) fn split_heads(
    qkv: CubeTensor,
    bias: CubeTensor,
    batch: usize,
    heads: usize,
    rotation: Option<&Rotation>,
) -> [CubeTensor; 3] {
    let qkv = Rows::from_tensor(qkv);
    let (tokens, width) = (qkv.count / batch, qkv.width / 3);
    let head_dim = width / heads;
    let [query, key, value] =
        [(); 3].map(|()| Rows::empty(&qkv.tensor, [batch, heads, tokens, head_dim].into(), qkv.tensor.dtype));
    let pairs = rotation.map(|rotation| match rotation.rotary {
        Rotary::Centred { .. } => Pairs::Halves,
        Rotary::Counted { .. } => Pairs::Neighbours,
    });
    let unit = if pairs == Some(Pairs::Halves) { head_dim / 2 } else { head_dim };
    let [cos, sin] = match rotation {
        Some(Rotation { cos, sin, .. }) => {
            [cos, sin].map(|angles| Some(Rows::from_tensor(cube(angles.clone()))))
        }
        None => [None, None],
    };
    let angle_stride = cos.as_ref().map_or(0, |cos| cos.stride);
    let size = vector(&[unit, qkv.stride, query.stride, angle_stride]);
    let angle_rows = cos.as_ref().map_or(1, |cos| cos.count);
    let optional = |rows: Option<Rows>| rows.map(|rows| rows.arg()).into();
    let (split, cubes, units) = Split::new(width / size, &qkv);
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
        angle_rows,
        angle_stride / size,
        heads,
        head_dim / size,
        pairs,
        split,
        dtype_to_storage_type(qkv.tensor.dtype),
    );
    [query, key, value].map(|rows| rows.tensor)
}

/// One row per token: `heads` times `head_dim` vectors of query, key and value each. Rows of `qkv` are `qkv_stride` vectors
/// apart, of the outputs `out_stride`. The `angle_rows` rows of angles, `angle_stride` vectors apart, are repeated.
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
    qkv_stride: usize,
    out_stride: usize,
    angle_rows: usize,
    angle_stride: usize,
    #[comptime] heads: usize,
    #[comptime] head_dim: usize,
    #[comptime] pairs: Option<Pairs>,
    #[comptime] split: Split,
    #[define(F)] _dtype: ElemType,
) {
    let row = own_row(split);
    if row < rows {
        let width = comptime!(heads * head_dim);
        let qkv = &qkv[row * qkv_stride..(row + 1) * qkv_stride];
        #[unroll]
        for step in 0..comptime!(split.steps) {
            let at = own_vector(step, split);
            if at < width {
                let (head, inside) = (at / head_dim, at % head_dim);
                let place = ((row / tokens * heads + head) * tokens + row % tokens) * out_stride + inside;
                let mut q = load_biased::<F, N>(qkv, bias, at);
                let mut k = load_biased::<F, N>(qkv, bias, at + width);
                if comptime!(pairs.is_some()) {
                    let place = row % angle_rows * angle_stride + inside;
                    let cos: ComptimeOption<Vector<f32, N>> = cos.as_ref().map(|cos| cos[place]);
                    let sin: ComptimeOption<Vector<f32, N>> = sin.as_ref().map(|sin| sin[place]);
                    let (cos, sin) = (cos.unwrap_or_default(), sin.unwrap_or_default());
                    q = q * cos + partner::<F, N>(qkv, bias, at, inside, head_dim, pairs) * sin;
                    k = k * cos + partner::<F, N>(qkv, bias, at + width, inside, head_dim, pairs) * sin;
                }
                query[place] = Vector::cast_from(q);
                key[place] = Vector::cast_from(k);
                value[place] = Vector::cast_from(load_biased::<F, N>(qkv, bias, at + 2 * width));
            }
        }
    }
}

/// For every channel of a vector, the value of the other channel of its pair; `inside` is the vector's index in its head.
#[cube]
fn partner<F: Float, N: Size>(
    qkv: &[Vector<F, N>],
    bias: &[Vector<F, N>],
    at: usize,
    inside: usize,
    #[comptime] head_dim: usize,
    #[comptime] pairs: Option<Pairs>,
) -> Vector<f32, N> {
    if comptime!(pairs == Some(Pairs::Halves)) {
        let half = comptime!(head_dim / 2);
        let partner = if inside < half { at + half } else { at - half };
        load_biased::<F, N>(qkv, bias, partner)
    } else {
        let own = load_biased::<F, N>(qkv, bias, at);
        let mut partner = Vector::<f32, N>::empty();
        #[unroll]
        for lane in 0..N::value() {
            partner.insert(lane, own.extract(comptime!(lane ^ 1)));
        }
        partner
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{DType, Device, Tensor, TensorData};

    use super::super::check::{close, get, halves, put, random, spaced};
    use super::*;
    use crate::gpus::gpus;
    use crate::model::grid::Grid;
    use crate::model::ops::gpu::tensor;

    const CENTRED: Rotary = Rotary::Centred { base: 100.0 };
    const COUNTED: Rotary = Rotary::Counted { base: 10_000.0, reference: 4 };

    /// Queries, keys or values (`which` 0 to 2) of biased `qkv` `[B T, 3 d]` as `[B, heads, T, head_dim]`; a rotation applies to
    /// the tokens of its grid, after one CLS token.
    fn part_of(
        qkv: &[f64],
        which: usize,
        [batch, heads, tokens, head_dim]: [usize; 4],
        rotation: Option<(Rotary, Grid)>,
    ) -> Vec<f64> {
        let at = |image: usize, head: usize, token: usize, channel: usize| {
            let value = |channel: usize| {
                qkv[((image * tokens + token) * 3 + which) * heads * head_dim + head * head_dim + channel]
            };
            let Some((rotary, grid)) = rotation.filter(|_| which < 2 && token > 0) else {
                return value(channel);
            };
            let (angle, is_first) = rotary.angle(token - 1, grid, channel, head_dim);
            let partner = if rotary == CENTRED { (channel + head_dim / 2) % head_dim } else { channel ^ 1 };
            let sine = if is_first { -angle.sin() } else { angle.sin() };
            value(channel) * angle.cos() + value(partner) * sine
        };
        let mut all = Vec::with_capacity(batch * heads * tokens * head_dim);
        for i in 0..batch * heads * tokens * head_dim {
            let (line, channel) = (i / head_dim, i % head_dim);
            let (head, token) = (line / tokens, line % tokens);
            all.push(at(head / heads, head % heads, token, channel));
        }
        all
    }

    /// The largest difference from float64 for inputs of type `dtype`.
    fn check(name: &str, device: &Device, dtype: DType, most: f64) -> f64 {
        let (grid, [batch, heads]) = (Grid::new(2, 3), [2, 3]);
        let tokens = 1 + grid.len();
        let plain = [1, 3, 6, 64].map(|head_dim| (head_dim, None));
        let centred = [4, 12, 64].map(|head_dim| (head_dim, Some(CENTRED)));
        let counted = [4, 12, 64].map(|head_dim| (head_dim, Some(COUNTED)));
        let mut worst = 0.0_f64;
        for (head_dim, rotary) in plain.into_iter().chain(centred).chain(counted) {
            let width = 3 * heads * head_dim;
            let values = random(batch * tokens * width, 0);
            let (qkv, exact) = put(&values, [batch * tokens, width], device, dtype);
            let (bias, biases) = put(&random(width, 1), [1, width], device, dtype);
            let exact: Vec<f64> = exact.iter().zip(biases.iter().cycle()).map(|(x, b)| x + b).collect();
            let rotation = rotary.map(|rotary| Rotation::new(grid, 1, head_dim, rotary, device));
            let found = split_heads(qkv, bias, batch, heads, rotation.as_ref()).map(get);
            for (which, found) in found.iter().enumerate() {
                let shape = [batch, heads, tokens, head_dim];
                let expected = part_of(&exact, which, shape, rotary.map(|rotary| (rotary, grid)));
                let what = format!("{which} of {head_dim} channels, {rotary:?}, {dtype:?} on {name}");
                worst = worst.max(close(&what, found, &expected, most));
            }
        }
        worst
    }

    #[test]
    fn every_head_gets_its_channels_rotated() {
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
        let (head_dim, batch) = (8, 2);
        for (name, device) in gpus() {
            let all = Rotation::new(Grid::new(2, 2), 0, head_dim, CENTRED, &device);
            let chosen = Tensor::from_data(TensorData::new(vec![0_i32, 3, 2, 1], [4]), &device);
            let (qkv, _) = put(&random(4 * 3 * head_dim, 0), [4, 3 * head_dim], &device, DType::F32);
            let (bias, _) = put(&random(3 * head_dim, 1), [1, 3 * head_dim], &device, DType::F32);
            let rotation = all.select(&chosen, batch);
            let [together, ..] = split_heads(qkv.clone(), bias.clone(), batch, 1, Some(&rotation)).map(get);
            for image in 0..batch {
                let (first, last) = (2 * image, 2 * (image + 1));
                let own = cube(tensor::<2>(qkv.clone()).slice_dim(0, first..last));
                let rotation = all.select(&chosen.clone().slice_dim(0, first..last), 1);
                let [alone, ..] = split_heads(own, bias.clone(), 1, 1, Some(&rotation)).map(get);
                close(&name, &together[first * head_dim..last * head_dim], &alone, 0.0);
            }
        }
    }

    #[test]
    fn rows_may_lie_further_apart_than_they_are_long() {
        for (name, device) in gpus() {
            for head_dim in [3, 4] {
                let (qkv, exact) = spaced(6, 3 * 2 * head_dim, &device);
                let (bias, _) = put(&vec![0.0; 3 * 2 * head_dim], [1, 3 * 2 * head_dim], &device, DType::F32);
                let found = split_heads(qkv, bias, 2, 2, None).map(get);
                for (which, found) in found.iter().enumerate() {
                    close(&name, found, &part_of(&exact, which, [2, 2, 3, head_dim], None), 0.0);
                }
            }
        }
    }
}
