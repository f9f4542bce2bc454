//! The two products of a pooling, for a few tokens at a time: the scores of tokens, and weighted sums of them.
//!
//! The order of every sum is fixed: [`dots`] sums the channels of each dot product in the same lanes, whatever
//! other queries there are, and [`add_weighted`] adds the tokens one after the other. So one more query or one
//! more pool changes no bit of the others.

use crate::model::ops::simd::{Real, vectorised};

/// Tokens processed together: 8 rows of 768 channels fit the L1 cache.
pub(super) const ROWS: usize = 8;
/// Channels processed together in vector registers.
const LANES: usize = 16;

vectorised! {
    /// `into[q * ROWS + i] = queries[q] . tokens[i]` for up to [`ROWS`] tokens of `width` channels.
    pub(super) fn dots<const FUSED: bool>(tokens: &[f32], queries: &[f32], width: usize, into: &mut [f32]) {
        let rows = rows(tokens, width);
        for (query, into) in queries.chunks_exact(width).zip(into.chunks_exact_mut(ROWS)) {
            into.copy_from_slice(&dot_with_rows::<FUSED>(query, rows));
        }
    }
}

/// The dot products of one vector with each of [`ROWS`] rows.
#[inline(always)]
fn dot_with_rows<const FUSED: bool>(vector: &[f32], rows: [&[f32]; ROWS]) -> [f32; ROWS] {
    let (vector, vector_rest) = vector.as_chunks::<LANES>();
    let mut sums = [[0.0_f32; LANES]; ROWS];
    for (x, rows) in vector.iter().zip(zip_blocks(rows)) {
        // The loop over lanes is the outer one: otherwise the compiler gathers across rows.
        for lane in 0..LANES {
            for i in 0..ROWS {
                sums[i][lane] = f32::multiply_add::<FUSED>(x[lane], rows[i][lane], sums[i][lane]);
            }
        }
    }
    for (sums, row) in sums.iter_mut().zip(rows) {
        let rest = row.as_chunks::<LANES>().1;
        for ((sum, &x), &y) in sums.iter_mut().zip(vector_rest).zip(rest) {
            *sum = f32::multiply_add::<FUSED>(x, y, *sum);
        }
    }
    sums.map(sum_lanes)
}

/// The whole blocks of [`LANES`] channels, of all rows in step: zipped, so that the loop checks no bounds.
#[inline(always)]
fn zip_blocks(rows: [&[f32]; ROWS]) -> impl Iterator<Item = [&[f32; LANES]; ROWS]> {
    let [a, b, c, d, e, f, g, h] = rows.map(|row| row.as_chunks::<LANES>().0.iter());
    let (left, right) = (a.zip(b).zip(c.zip(d)), e.zip(f).zip(g.zip(h)));
    left.zip(right).map(|(((a, b), (c, d)), ((e, f), (g, h)))| [a, b, c, d, e, f, g, h])
}

/// [`ROWS`] tokens; where there are fewer, the last is repeated.
#[inline(always)]
fn rows(tokens: &[f32], width: usize) -> [&[f32]; ROWS] {
    let last = tokens.len() / width - 1;
    std::array::from_fn(|i| &tokens[i.min(last) * width..][..width])
}

/// The sum of the lanes, by pairwise halving.
#[inline(always)]
fn sum_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        (0..half).for_each(|lane| lanes[lane] += lanes[lane + half]);
        half /= 2;
    }
    lanes[0]
}

vectorised! {
    /// `sums[m] += sum_i weights[m * ROWS + i] tokens[i]` for up to [`ROWS`] tokens of `width` channels;
    /// where there are fewer, the other weights have to be 0.
    pub(super) fn add_weighted<const FUSED: bool>(tokens: &[f32], weights: &[f32], width: usize, sums: &mut [f32]) {
        let rows = rows(tokens, width);
        for (weights, sums) in weights.as_chunks::<ROWS>().0.iter().zip(sums.chunks_exact_mut(width)) {
            let (blocks, rest) = sums.as_chunks_mut::<LANES>();
            let done = blocks.len() * LANES;
            for (sum, rows) in blocks.iter_mut().zip(zip_blocks(rows)) {
                for lane in 0..LANES {
                    for i in 0..ROWS {
                        sum[lane] = f32::multiply_add::<FUSED>(weights[i], rows[i][lane], sum[lane]);
                    }
                }
            }
            for (i, row) in rows.iter().enumerate() {
                for (sum, &x) in rest.iter_mut().zip(&row[done..]) {
                    *sum = f32::multiply_add::<FUSED>(weights[i], x, *sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some values between -1 and 1.
    fn values(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 37 + seed * 101) % 211) as f32 / 105.0 - 1.0).collect()
    }

    #[test]
    fn dots_and_sums_are_right_for_any_number_of_tokens_queries_and_channels() {
        for width in [1, 15, 16, 24, 97] {
            for rows in 1..=ROWS {
                for count in [1, 3, 4, 9] {
                    let (tokens, queries) = (values(rows * width, 1), values(count * width, 2));
                    let mut found = vec![0.0; count * ROWS];
                    dots(&tokens, &queries, width, &mut found);
                    let mut weights = values(count * ROWS, 3);
                    weights.chunks_mut(ROWS).for_each(|weights| weights[rows..].fill(0.0));
                    let mut sums = vec![0.5; count * width];
                    add_weighted(&tokens, &weights, width, &mut sums);
                    for q in 0..count {
                        for i in 0..rows {
                            let dot: f32 =
                                (0..width).map(|c| tokens[i * width + c] * queries[q * width + c]).sum();
                            assert!((found[q * ROWS + i] - dot).abs() < 1e-4, "{width} {rows} {count}");
                        }
                        for c in 0..width {
                            let sum: f32 =
                                (0..rows).map(|i| weights[q * ROWS + i] * tokens[i * width + c]).sum();
                            assert!((sums[q * width + c] - 0.5 - sum).abs() < 1e-4, "{width} {rows} {count}");
                        }
                    }
                }
            }
        }
    }
}
