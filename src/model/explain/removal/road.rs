//! Painting patches over from what lies around them: the noisy linear imputation of ROAD (Rong et al. 2022).
//!
//! Every pixel that is gone is the weighted mean of its neighbours, those beside it 1/6 each and those at its corners 1/12
//! each; at the border those that are there. That is a sparse linear system, symmetric and positive definite, which is solved
//! by conjugate gradients in float64, preconditioned on pixels and on ever larger squares of them (Bramble, Pasciak and Xu 1990):
//! a hole as large as the picture takes a few dozen iterations and not hundreds. Noise of standard deviation 0.01 on what was painted hides that it is smooth.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::model::backbone::preprocess::Pixels;
use crate::model::grid::Grid;
use crate::model::stats::normal;

/// Deviation of the noise, on normalised pixels.
const NOISE: f64 = 0.01;
/// Neighbours beside a pixel, and at its corners: down, right, weight.
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
/// Where the solution is good enough: the squared residual as a share of the right-hand side's.
const GOOD: f64 = 1e-18;
/// Most iterations: far more than any picture needs.
const MAX_ITERATIONS: usize = 20_000;

/// Noise for every pixel of an image, the same for all that is painted on it.
pub fn noise(pixels: &Pixels, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    pixels.values.iter().map(|_| (NOISE * normal(&mut rng)) as f32).collect()
}

/// The picture with the patches of `grid` that are not `left` painted over, `noise` `[3, H, W]` on top.
///
/// # Panics
/// If no patch is left, or the patches do not fill the picture: bugs of the caller.
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

/// What every pixel that is gone must be.
struct System {
    /// Sum of the weights of the neighbours that are there.
    diagonal: Vec<f64>,
    /// Of every one that is gone, where its neighbours that are gone, too, begin in `links`.
    begins: Vec<usize>,
    links: Vec<(u32, f64)>,
    /// What the neighbours that are known add up to.
    known: Vec<Colour>,
    /// Squares of 2, 4, 8 ... pixels.
    levels: Vec<Level>,
}

/// Pixels that are gone by the square they lie in.
struct Level {
    /// The square of each.
    square: Vec<u32>,
    /// What a square counts if all of it changes alike.
    diagonal: Vec<f64>,
}

impl System {
    fn new(gone: &[usize], height: usize, width: usize, values: impl Fn(usize) -> Colour) -> Self {
        let mut index = vec![u32::MAX; height * width];
        gone.iter().zip(0..).for_each(|(&at, own)| index[at] = own);
        let (diagonal, links, known, levels) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut system = Self { diagonal, begins: vec![0], links, known, levels };
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
            system.begins.push(system.links.len());
        }
        let sides = std::iter::successors(Some(2), |side| Some(2 * side));
        let sides = sides.take_while(|side| *side < height.max(width));
        system.levels = sides.map(|side| system.level(gone, width, side)).collect();
        system
    }

    /// Squares of `side` pixels.
    fn level(&self, gone: &[usize], width: usize, side: usize) -> Level {
        let across = width.div_ceil(side);
        let place = |at: &usize| (at / width / side * across + at % width / side) as u32;
        let square: Vec<u32> = gone.iter().map(place).collect();
        // Those with nothing gone stay 0: nobody asks for them.
        let mut diagonal = vec![0.0; square.iter().max().map_or(0, |last| *last as usize + 1)];
        for own in 0..gone.len() {
            let links = &self.links[self.begins[own]..self.begins[own + 1]];
            let within = links.iter().filter(|(other, _)| square[*other as usize] == square[own]);
            diagonal[square[own] as usize] +=
                self.diagonal[own] - within.map(|(_, weight)| weight).sum::<f64>();
        }
        Level { square, diagonal }
    }

    /// About `A^-1 residual`: on every pixel by itself, and on every square of every size.
    fn precondition(&self, residual: &[Colour]) -> Vec<Colour> {
        let by_pixel = residual.iter().zip(&self.diagonal);
        let mut all: Vec<Colour> = by_pixel.map(|(r, diagonal)| r.map(|r| r / diagonal)).collect();
        for Level { square, diagonal } in &self.levels {
            let mut sums = vec![[0.0; 3]; diagonal.len()];
            square.iter().zip(residual).for_each(|(at, r)| add(&mut sums[*at as usize], 1.0, r));
            let squares = square.iter().zip(&mut all);
            squares.for_each(|(at, all)| add(all, 1.0 / diagonal[*at as usize], &sums[*at as usize]));
        }
        all
    }

    /// `A x`.
    fn apply(&self, x: &[Colour], into: &mut [Colour]) {
        for (own, into) in into.iter_mut().enumerate() {
            *into = x[own].map(|x| x * self.diagonal[own]);
            for (other, weight) in &self.links[self.begins[own]..self.begins[own + 1]] {
                add(into, -weight, &x[*other as usize]);
            }
        }
    }

    /// Conjugate gradients, every channel by itself.
    fn solve(&self) -> Vec<Colour> {
        let count = self.diagonal.len();
        let mut x = vec![[0.0; 3]; count];
        let mut residual = self.known.clone();
        let enough = dots(&residual, &residual).map(|norm| norm * GOOD);
        let mut way = self.precondition(&residual);
        let mut slope = dots(&residual, &way);
        let mut image = vec![[0.0; 3]; count];
        for _ in 0..MAX_ITERATIONS {
            let left = dots(&residual, &residual);
            if (0..3).all(|c| left[c] <= enough[c]) {
                break;
            }
            self.apply(&way, &mut image);
            let bend = dots(&way, &image);
            // A channel that is done stays.
            let step: Colour =
                std::array::from_fn(|c| if left[c] <= enough[c] { 0.0 } else { slope[c] / bend[c] });
            for own in 0..count {
                for c in 0..3 {
                    x[own][c] += step[c] * way[own][c];
                    residual[own][c] -= step[c] * image[own][c];
                }
            }
            let downhill = self.precondition(&residual);
            let next = dots(&residual, &downhill);
            for own in 0..count {
                for c in 0..3 {
                    let turn = if slope[c] > 0.0 { next[c] / slope[c] } else { 0.0 };
                    way[own][c] = downhill[own][c] + turn * way[own][c];
                }
            }
            slope = next;
        }
        x
    }
}

fn add(to: &mut Colour, weight: f64, value: &Colour) {
    to.iter_mut().zip(value).for_each(|(to, value)| *to += weight * value);
}

/// `a . b` of every channel.
fn dots(a: &[Colour], b: &[Colour]) -> Colour {
    a.iter().zip(b).fold([0.0; 3], |mut sums, (a, b)| {
        (0..3).for_each(|c| sums[c] += a[c] * b[c]);
        sums
    })
}
