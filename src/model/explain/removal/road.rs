//! Paints removed patches over from their surroundings: the noisy linear imputation of ROAD (Rong et al. 2022).
//!
//! Every removed pixel is the weighted mean of its neighbours, 1/6 for those beside it and 1/12 for those at its corners; at
//! the border, of those that exist. This is a sparse, symmetric positive definite linear system, solved by conjugate gradients
//! in float64 with a multilevel preconditioner, on pixels and on ever larger squares of them (Bramble, Pasciak and Xu 1990): a
//! hole as large as the picture takes a few dozen iterations, not hundreds. Noise (deviation 0.01) hides the smoothness.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::model::backbone::preprocess::Pixels;
use crate::model::grid::Grid;
use crate::model::stats::normal;

/// Standard deviation of the noise, in units of normalised pixels.
const NOISE: f64 = 0.01;
/// Neighbours of a pixel: offset down, offset right, weight.
const NEIGHBOURS: [(isize, isize, f64); 8] = [
    (-1, 0, 1.0 / 6.0),
    (1, 0, 1.0 / 6.0),
    (0, -1, 1.0 / 6.0),
    (0, 1, 1.0 / 6.0),
    (-1, -1, 1.0 / 12.0),
    (-1, 1, 1.0 / 12.0),
    (1, -1, 1.0 / 12.0),
    (1, 1, 1.0 / 12.0),
];
/// Convergence: squared norm of the residual, relative to that of the right-hand side.
const TOLERANCE: f64 = 1e-18;
/// Most iterations, far more than any picture needs.
const MAX_ITERATIONS: usize = 20_000;

/// Noise for every pixel of an image, `[3, H, W]`: the same whichever patches are painted.
pub fn noise(pixels: &Pixels, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    pixels.values.iter().map(|_| (NOISE * normal(&mut rng)) as f32).collect()
}

/// The picture with the patches of `grid` that are not in `left` painted over, plus `noise` `[3, H, W]` on these.
///
/// # Panics
/// If no patch is left, or the patches do not fill the picture: bugs in the caller.
pub fn paint(pixels: &Pixels, grid: Grid, left: &[usize], noise: &[f32]) -> Pixels {
    let Pixels { height, width, .. } = *pixels;
    assert!(!left.is_empty() && height % grid.rows == 0 && width % grid.cols == 0, "patches of a picture");
    let mut keeps = vec![false; grid.len()];
    left.iter().for_each(|&patch| keeps[patch] = true);
    let patch = |at: usize| at / width * grid.rows / height * grid.cols + at % width * grid.cols / width;
    let gone: Vec<usize> = (0..height * width).filter(|&at| !keeps[patch(at)]).collect();
    let plane = height * width;
    let values = |at: usize| [0, 1, 2].map(|c| f64::from(pixels.values[c * plane + at]));
    let painted = System::new(&gone, height, width, values).solve();
    let mut out = pixels.clone();
    for (&at, painted) in gone.iter().zip(painted) {
        for (c, value) in painted.into_iter().enumerate() {
            out.values[c * plane + at] = value as f32 + noise[c * plane + at];
        }
    }
    out
}

/// Red, green and blue.
type Colour = [f64; 3];

/// The linear system of the removed pixels, in compressed sparse rows.
#[derive(Default)]
struct System {
    /// Sum of the weights of the neighbours that exist.
    diagonal: Vec<f64>,
    /// Index in `links` of the first removed neighbour of every removed pixel.
    row_starts: Vec<usize>,
    /// Removed neighbours: index among the removed pixels, and weight.
    links: Vec<(u32, f64)>,
    /// Right-hand side: weighted sum of the known neighbours.
    known: Vec<Colour>,
    /// Levels of the preconditioner: squares with sides of 2, 4, 8 ... pixels.
    levels: Vec<Level>,
}

/// One level of the preconditioner: the removed pixels by the square they are in.
struct Level {
    /// Square of every removed pixel.
    square: Vec<u32>,
    /// Reciprocal of the diagonal entry of each square, the quadratic form of its indicator vector.
    inverse: Vec<f64>,
}

impl Level {
    /// The diagonal solve on the squares.
    fn solve(&self, residual: &[Colour]) -> Vec<Colour> {
        let (mut squares, mut rest) = (vec![[0.0; 3]; self.inverse.len()], residual);
        // Adding neighbours up before they are stored is faster: each addition in memory waits for the one before.
        for run in self.square.chunk_by(|one, next| one == next) {
            let (own, others) = rest.split_at(run.len());
            let mut sum = squares[run[0] as usize];
            own.iter().for_each(|r| add(&mut sum, 1.0, r));
            squares[run[0] as usize] = sum;
            rest = others;
        }
        squares.iter_mut().zip(&self.inverse).for_each(|(sum, inverse)| *sum = sum.map(|sum| inverse * sum));
        squares
    }
}

impl System {
    fn new(gone: &[usize], height: usize, width: usize, values: impl Fn(usize) -> Colour) -> Self {
        let mut index = vec![u32::MAX; height * width];
        gone.iter().zip(0..).for_each(|(&at, own)| index[at] = own);
        let mut system = Self { row_starts: vec![0], ..Self::default() };
        for &at in gone {
            let (mut diagonal, mut known) = (0.0, [0.0; 3]);
            for (down, right, weight) in NEIGHBOURS {
                let row = (at / width).checked_add_signed(down).filter(|row| *row < height);
                let col = (at % width).checked_add_signed(right).filter(|col| *col < width);
                let Some((row, col)) = row.zip(col) else { continue };
                diagonal += weight;
                match index[row * width + col] {
                    u32::MAX => add(&mut known, weight, &values(row * width + col)),
                    own => system.links.push((own, weight)),
                }
            }
            system.diagonal.push(diagonal);
            system.known.push(known);
            system.row_starts.push(system.links.len());
        }
        let sides = std::iter::successors(Some(2), |side| Some(2 * side));
        let sides = sides.take_while(|side| *side < height.max(width));
        system.levels = sides.map(|side| system.level(gone, width, side)).collect();
        system
    }

    /// The level of squares with sides of `side` pixels.
    fn level(&self, gone: &[usize], width: usize, side: usize) -> Level {
        let across = width.div_ceil(side);
        let square_of = |at: &usize| (at / width / side * across + at % width / side) as u32;
        let square: Vec<u32> = gone.iter().map(square_of).collect();
        // Squares without removed pixels stay 0 and are not used.
        let mut diagonal = vec![0.0; square.iter().max().map_or(0, |last| *last as usize + 1)];
        for own in 0..gone.len() {
            let links = &self.links[self.row_starts[own]..self.row_starts[own + 1]];
            let within = links.iter().filter(|(other, _)| square[*other as usize] == square[own]);
            diagonal[square[own] as usize] +=
                self.diagonal[own] - within.map(|(_, weight)| weight).sum::<f64>();
        }
        Level { square, inverse: diagonal.into_iter().map(f64::recip).collect() }
    }

    /// Approximates `A^-1 residual`: the sum of diagonal solves on the pixels and on the squares of every level.
    fn precondition(&self, residual: &[Colour]) -> Vec<Colour> {
        let levels: Vec<_> = self.levels.iter().map(|level| (&level.square, level.solve(residual))).collect();
        let by_pixel = residual.iter().zip(&self.diagonal).enumerate();
        let solve = |(at, (r, diagonal)): (usize, (&Colour, &f64))| {
            let mut all = r.map(|r| r / diagonal);
            levels.iter().for_each(|(square, solved)| add(&mut all, 1.0, &solved[square[at] as usize]));
            all
        };
        by_pixel.map(solve).collect()
    }

    /// `A x`.
    fn apply(&self, x: &[Colour], into: &mut [Colour]) {
        for (own, into) in into.iter_mut().enumerate() {
            *into = x[own].map(|x| x * self.diagonal[own]);
            for (other, weight) in &self.links[self.row_starts[own]..self.row_starts[own + 1]] {
                add(into, -weight, &x[*other as usize]);
            }
        }
    }

    /// Solves `A x = known` by preconditioned conjugate gradients, every channel by itself.
    fn solve(&self) -> Vec<Colour> {
        let count = self.diagonal.len();
        let mut x = vec![[0.0; 3]; count];
        let mut residual = self.known.clone();
        let converged = dots(&residual, &residual).map(|norm| norm * TOLERANCE);
        let mut direction = self.precondition(&residual);
        let mut rho = dots(&residual, &direction);
        let mut product = vec![[0.0; 3]; count];
        for _ in 0..MAX_ITERATIONS {
            let norm = dots(&residual, &residual);
            if (0..3).all(|c| norm[c] <= converged[c]) {
                break;
            }
            self.apply(&direction, &mut product);
            let curvature = dots(&direction, &product);
            // A channel that has converged stays as it is.
            let alpha: Colour =
                std::array::from_fn(|c| if norm[c] <= converged[c] { 0.0 } else { rho[c] / curvature[c] });
            for own in 0..count {
                for c in 0..3 {
                    x[own][c] += alpha[c] * direction[own][c];
                    residual[own][c] -= alpha[c] * product[own][c];
                }
            }
            let preconditioned = self.precondition(&residual);
            let next = dots(&residual, &preconditioned);
            for own in 0..count {
                for c in 0..3 {
                    let beta = if rho[c] > 0.0 { next[c] / rho[c] } else { 0.0 };
                    direction[own][c] = preconditioned[own][c] + beta * direction[own][c];
                }
            }
            rho = next;
        }
        x
    }
}

fn add(to: &mut Colour, weight: f64, value: &Colour) {
    to.iter_mut().zip(value).for_each(|(to, value)| *to += weight * value);
}

/// Dot product `a . b` by channel.
fn dots(a: &[Colour], b: &[Colour]) -> Colour {
    a.iter().zip(b).fold([0.0; 3], |mut sums, (a, b)| {
        (0..3).for_each(|c| sums[c] += a[c] * b[c]);
        sums
    })
}
