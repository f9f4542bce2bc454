//! Pillow's resampling, to the bit: an antialiased convolution whose support grows with the scale
//! (Keys 1981 for the cubic, a = -0.5), one pass along the rows and one along the columns, each rounded
//! to 8 bits, weights in fixed point with 22 bits. Only the requested window of the resized picture is computed, so that a
//! very narrow image, whose resized form would be enormous, costs no more than its crop.

use std::f64::consts::PI;
use std::ops::Range;

use rayon::prelude::*;

use crate::model::picture::Picture;

/// Fractional bits of a weight: 32, less 8 of the result, less 2 for overshoot.
const PRECISION: u32 = 22;
/// One half, added so that the shift by [`PRECISION`] rounds.
const HALF: i32 = 1 << (PRECISION - 1);

listed! {
    /// The filters, in Pillow's numbering.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Filter {
        /// 0: the pixel under the centre.
        Nearest: "nearest";
        /// 1: sinc windowed by sinc, radius 3.
        Lanczos: "lanczos";
        /// 2: triangle, radius 1.
        Bilinear: "bilinear";
        /// 3: cubic, radius 2.
        Bicubic: "bicubic";
        /// 4: mean, radius 1/2.
        Box: "box";
        /// 5: sinc windowed by a Hamming window, radius 1.
        Hamming: "hamming";
    }
}

impl Filter {
    /// The filter with Pillow's number.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    fn radius(self) -> f64 {
        match self {
            Self::Nearest | Self::Box => 0.5,
            Self::Bilinear | Self::Hamming => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        let sinc = |x: f64| if x == 0.0 { 1.0 } else { (x * PI).sin() / (x * PI) };
        let r = x.abs();
        match self {
            Self::Nearest | Self::Box => f64::from(x > -0.5 && x <= 0.5),
            Self::Bilinear => (1.0 - r).max(0.0),
            Self::Hamming if r < 1.0 => sinc(r) * (0.54 + 0.46 * (r * PI).cos()),
            Self::Bicubic if r < 1.0 => (1.5 * r - 2.5) * r * r + 1.0,
            Self::Bicubic if r < 2.0 => (((r - 5.0) * r + 8.0) * r - 4.0) * -0.5,
            Self::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            _ => 0.0,
        }
    }
}

/// The weights of one output pixel; they apply to input pixels from `first` on.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

/// The weights of output pixels `window` when a line of `from` pixels is resized to `to`.
fn taps(from: usize, to: usize, window: Range<usize>, filter: Filter) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let radius = filter.radius() * stretch;
    let one = |at: usize| {
        let centre = (at as f64 + 0.5) * scale;
        // Casts truncate towards zero and saturate at zero, which equals Pillow's rounding and clamping.
        let first = (centre - radius + 0.5) as usize;
        let last = ((centre + radius + 0.5) as usize).min(from);
        let raw: Vec<f64> =
            (first..last).map(|i| filter.weight((i as f64 - centre + 0.5) * (1.0 / stretch))).collect();
        let sum: f64 = raw.iter().sum();
        let fixed = |w: &f64| {
            let w = if sum == 0.0 { *w } else { w / sum } * f64::from(1u32 << PRECISION);
            (w + 0.5f64.copysign(w)) as i32
        };
        Taps { first, weights: raw.iter().map(fixed).collect() }
    };
    window.into_par_iter().map(one).collect()
}

fn clip(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}

/// The window `cols` x `rows` of `picture` resized to `to` = (width, height). The window must lie within
/// `to`, and neither `picture` nor `to` may be empty.
pub fn resize(
    picture: &Picture,
    to: (usize, usize),
    cols: Range<usize>,
    rows: Range<usize>,
    filter: Filter,
) -> Picture {
    let (width, height) = (cols.len(), rows.len());
    if filter == Filter::Nearest || to == (picture.width, picture.height) {
        let mut out = vec![0; width * height * 3];
        let xs = nearest(picture.width, to.0, cols);
        let ys = nearest(picture.height, to.1, rows);
        for (y, line) in ys.iter().zip(out.chunks_exact_mut(width * 3)) {
            for (x, pixel) in xs.iter().zip(line.chunks_exact_mut(3)) {
                let at = (y * picture.width + x) * 3;
                pixel.copy_from_slice(&picture.rgb[at..at + 3]);
            }
        }
        return Picture { width, height, rgb: out };
    }
    let across = taps(picture.width, to.0, cols, filter);
    let down = taps(picture.height, to.1, rows, filter);
    // The order of the passes is Pillow's (since version 12) and affects rounding. It also bounds the
    // intermediate picture by the larger of the input and the output.
    let (less_wide, less_high) = (picture.width.saturating_sub(to.0), picture.height.saturating_sub(to.1));
    if less_high > 2 * less_wide {
        let cols = span(&across);
        let middle = pass_down(picture, 0, &down, cols.clone());
        pass_across(&middle, cols.start, &across, 0..height)
    } else {
        let rows = span(&down);
        let middle = pass_across(picture, 0, &across, rows.clone());
        pass_down(&middle, rows.start, &down, 0..width)
    }
}

/// The range of input pixels that any of the taps reads.
fn span(taps: &[Taps]) -> Range<usize> {
    let first = taps.iter().map(|t| t.first).min().unwrap_or(0);
    first..taps.iter().map(|t| t.first + t.weights.len()).max().unwrap_or(first)
}

/// Resizes `rows` of a picture horizontally; its first column is column `left` in the coordinates of the taps.
fn pass_across(picture: &Picture, left: usize, taps: &[Taps], rows: Range<usize>) -> Picture {
    let mut rgb = vec![0; rows.len() * taps.len() * 3];
    rgb.par_chunks_exact_mut(taps.len() * 3).enumerate().for_each(|(y, line)| {
        let at = (rows.start + y) * picture.width * 3;
        let source = &picture.rgb[at..at + picture.width * 3];
        for (taps, pixel) in taps.iter().zip(line.chunks_exact_mut(3)) {
            let mut sum = [HALF; 3];
            for (w, from) in taps.weights.iter().zip(source[(taps.first - left) * 3..].chunks_exact(3)) {
                for c in 0..3 {
                    sum[c] += w * i32::from(from[c]);
                }
            }
            pixel.copy_from_slice(&sum.map(clip));
        }
    });
    Picture { width: taps.len(), height: rows.len(), rgb }
}

/// Resizes `cols` of a picture vertically; its first row is row `top` in the coordinates of the taps.
fn pass_down(picture: &Picture, top: usize, taps: &[Taps], cols: Range<usize>) -> Picture {
    let mut rgb = vec![0; taps.len() * cols.len() * 3];
    rgb.par_chunks_exact_mut(cols.len() * 3).zip(taps).for_each(|(line, taps)| {
        let mut sums = vec![HALF; line.len()];
        for (y, w) in (taps.first - top..).zip(&taps.weights) {
            let at = (y * picture.width + cols.start) * 3;
            for (sum, from) in sums.iter_mut().zip(&picture.rgb[at..at + line.len()]) {
                *sum += w * i32::from(*from);
            }
        }
        for (to, sum) in line.iter_mut().zip(sums) {
            *to = clip(sum);
        }
    });
    Picture { width: cols.len(), height: taps.len(), rgb }
}

/// The input pixels of output pixels `window` when a line of `from` pixels is resized to `to`. The step is
/// accumulated, not multiplied, as in Pillow: its rounding errors decide ties.
fn nearest(from: usize, to: usize, window: Range<usize>) -> Vec<usize> {
    let step = from as f64 / to as f64;
    let mut at = 0.5 * step;
    let mut out = Vec::with_capacity(window.len());
    for x in 0..window.end {
        if x >= window.start {
            out.push((at as usize).min(from - 1));
        }
        at += step;
    }
    out
}
