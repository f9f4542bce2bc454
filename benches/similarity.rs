//! The images nearest to one among 50,000 of 196 tokens (target: 50 ms), beside a baseline without precomputed vectors:
//! every cosine (or rank correlation) one after the other in float64. Then what is computed once: the vectors ready for
//! comparison, and the map of all images.
//!
//! `cargo bench --bench similarity`.

use criterion::{Criterion, criterion_group, criterion_main};
use half::f16;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ssmprobe::app::process_memory;
use ssmprobe::model::explain::evaluation::similarity::{ImageSpace, Similarity};
use ssmprobe::model::explain::evaluation::spearman;
use ssmprobe::model::explain::evaluation::vectors::TokenVectors;
use ssmprobe::model::grid::Grid;

const IMAGES: usize = 50_000;
const GRID: Grid = Grid::new(14, 14);
/// Number of nearest images searched for, as many as are shown.
const COUNT: usize = 100;

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let product =
        |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    product(a, b) / (product(a, a) * product(b, b)).sqrt()
}

/// Baseline: the images nearest to the first, compared one by one.
fn peer(vectors: &[Vec<f32>], similarity: impl Fn(&[f32], &[f32]) -> f64) -> Vec<usize> {
    let mut found: Vec<(f64, usize)> =
        vectors[1..].iter().enumerate().map(|(at, other)| (similarity(&vectors[0], other), at + 1)).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    found.into_iter().take(COUNT).map(|(_, at)| at).collect()
}

fn nearest(c: &mut Criterion) {
    process_memory::keep_freed_memory(); // as the program does
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let values: Vec<f16> = (0..IMAGES * GRID.len()).map(|_| f16::from_f32(rng.random::<f32>())).collect();
    let wide: Vec<Vec<f32>> =
        values.chunks(GRID.len()).map(|row| row.iter().map(|value| value.to_f32()).collect()).collect();
    let vectors = TokenVectors::new(values);
    let mut group = c.benchmark_group("50,000 images of 196 tokens");
    group.sample_size(10);
    for similarity in Similarity::ALL {
        let name = similarity.id();
        let space = ImageSpace::new(&vectors, GRID, similarity);
        let rank = |a: &[f32], b: &[f32]| spearman(a, b).unwrap_or(f64::NAN);
        let brute = || match similarity {
            Similarity::Cosine => peer(&wide, cosine),
            Similarity::Spearman => peer(&wide, rank),
        };
        let found = space.nearest(0, COUNT, false);
        let same = brute().iter().zip(&found).filter(|(a, b)| **a == b.0).count();
        // Similarities of random vectors are nearly equal: in float32 a few neighbours change places.
        assert!(same > COUNT * 9 / 10, "{name}: {same} of {COUNT} are the peer's");
        group.bench_function(format!("nearest, {name}"), |b| b.iter(|| space.nearest(0, COUNT, false)));
        group.bench_function(format!("nearest or flipped, {name}"), |b| {
            b.iter(|| space.nearest(0, COUNT, true));
        });
        group.bench_function(format!("nearest, {name}, peer"), |b| b.iter(brute));
        group.bench_function(format!("made ready with its map, {name}"), |b| {
            b.iter(|| ImageSpace::new(&vectors, GRID, similarity));
        });
    }
    group.finish();
}

criterion_group!(benches, nearest);
criterion_main!(benches);
