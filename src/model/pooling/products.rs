//! The two products of a pooling, for a few tokens at a time: what every token scores, and what
//! weighted tokens sum to.
//!
//! `T` holds some rows of `[N, d]`. [`dots`] adds no order of its own: every dot product runs over its
//! channels in the same lanes, whatever stands beside it; [`add_weighted`] takes the tokens one after
//! the other. So one more query or one more pool changes no bit of the others.

use crate::model::vectorise::{multiply_add_32, vectorised};

/// Tokens taken together: 8 rows of 768 channels stay in the first cache.
pub(super) const ROWS: usize = 8;
/// Channels that go through the registers together.
const LANES: usize = 16;
/// Tokens, and queries, of one tile of dot products.
const TILE: usize = 4;

vectorised! {
    /// `into[q * ROWS + i] = queries[q] . tokens[i]` for up to [`ROWS`] tokens of `width` channels.
    pub(super) fn dots<const FUSED: bool>(tokens: &[f32], queries: &[f32], width: usize, into: &mut [f32]) {
        let rows = tokens.len() / width;
        let row = |i: usize| &tokens[i * width..(i + 1) * width];
        let query = |q: usize| &queries[q * width..(q + 1) * width];
        let count = queries.len() / width;
        for i in (0..rows).step_by(TILE) {
            // A tile at the end repeats its last token: what it finds there is overwritten alike.
            let at: [usize; TILE] = std::array::from_fn(|t| (i + t).min(rows - 1));
            let mut q = 0;
            while q + TILE <= count {
                let found = tile::<FUSED, TILE>(at.map(row), std::array::from_fn(|t| query(q + t)));
                for (t, found) in found.iter().enumerate() {
                    (0..TILE).for_each(|i| into[(q + t) * ROWS + at[i]] = found[i]);
                }
                q += TILE;
            }
            while q < count {
                let [found] = tile::<FUSED, 1>(at.map(row), [query(q)]);
                (0..TILE).for_each(|i| into[q * ROWS + at[i]] = found[i]);
                q += 1;
            }
        }
    }
}

/// The dot products of some queries with [`TILE`] tokens.
#[inline(always)]
fn tile<const FUSED: bool, const Q: usize>(tokens: [&[f32]; TILE], queries: [&[f32]; Q]) -> [[f32; TILE]; Q] {
    let mut sums = [[[0.0_f32; LANES]; TILE]; Q];
    let (tokens, token_rests) = split(tokens);
    let (queries, query_rests) = split(queries);
    for block in 0..tokens[0].len() {
        for q in 0..Q {
            for t in 0..TILE {
                for lane in 0..LANES {
                    let sum = &mut sums[q][t][lane];
                    *sum = multiply_add_32::<FUSED>(tokens[t][block][lane], queries[q][block][lane], *sum);
                }
            }
        }
    }
    for q in 0..Q {
        for t in 0..TILE {
            for (lane, (&x, &y)) in token_rests[t].iter().zip(query_rests[q]).enumerate() {
                sums[q][t][lane] = multiply_add_32::<FUSED>(x, y, sums[q][t][lane]);
            }
        }
    }
    sums.map(|row| row.map(total))
}

/// Every vector in whole blocks of lanes, all as many, and what is left of it.
#[inline(always)]
fn split<const V: usize>(vectors: [&[f32]; V]) -> ([&[[f32; LANES]]; V], [&[f32]; V]) {
    let blocks = vectors[0].len() / LANES;
    (vectors.map(|v| &v.as_chunks().0[..blocks]), vectors.map(|v| v.as_chunks::<LANES>().1))
}

/// The sum of the lanes, in pairs.
#[inline(always)]
fn total(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        (0..half).for_each(|lane| lanes[lane] += lanes[lane + half]);
        half /= 2;
    }
    lanes[0]
}

vectorised! {
    /// `sums[m] += sum_i weights[m * ROWS + i] tokens[i]` for up to [`ROWS`] tokens of `width` channels.
    pub(super) fn add_weighted<const FUSED: bool>(tokens: &[f32], weights: &[f32], width: usize, sums: &mut [f32]) {
        for (weights, sums) in weights.chunks(ROWS).zip(sums.chunks_mut(width)) {
            let (blocks, rest) = sums.as_chunks_mut::<LANES>();
            for (block, sum) in blocks.iter_mut().enumerate() {
                for (token, &weight) in tokens.chunks_exact(width).zip(weights) {
                    let token = &token.as_chunks::<LANES>().0[block];
                    (0..LANES).for_each(|lane| {
                        sum[lane] = multiply_add_32::<FUSED>(weight, token[lane], sum[lane]);
                    });
                }
            }
            let done = blocks.len() * LANES;
            for (token, &weight) in tokens.chunks_exact(width).zip(weights) {
                let token = &token[done..];
                rest.iter_mut().zip(token).for_each(|(sum, &x)| *sum = multiply_add_32::<FUSED>(weight, x, *sum));
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
                    let weights = values(count * ROWS, 3);
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

    #[test]
    fn what_stands_beside_a_query_changes_no_bit_of_it() {
        let (width, rows, count) = (83, 7, 6);
        let (tokens, queries) = (values(rows * width, 1), values(count * width, 2));
        let mut together = vec![0.0; count * ROWS];
        dots(&tokens, &queries, width, &mut together);
        for q in 0..count {
            let mut alone = vec![0.0; ROWS];
            dots(&tokens, &queries[q * width..(q + 1) * width], width, &mut alone);
            assert_eq!(alone[..rows], together[q * ROWS..q * ROWS + rows]);
        }
    }
}
