//! Small changes of a picture as the model sees it (flips, crops, noise, brightness), and where each patch
//! moves. All are seeded, so that a figure can be reproduced.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::model::grid::Grid;
use crate::model::stats::normal;
use crate::model::trace::Picture;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Perturbation {
    /// Flipped horizontally: left and right are swapped.
    FlipAcross,
    /// Flipped vertically: top and bottom are swapped.
    FlipDown,
    /// A part is cut out and enlarged bilinearly to the size of the picture.
    Crop {
        /// Side of the part as a share of the picture's, above 0 and at most 1.
        side: f64,
        /// Offset of the part as a share of the largest possible, horizontally and vertically, 0 to 1.
        at: (f64, f64),
    },
    /// Normal noise on every channel of every pixel.
    Noise {
        /// Standard deviation, in grey levels of 255.
        levels: f64,
        /// Seed of the noise.
        seed: u64,
    },
    /// Every grey level times this factor.
    Brightness(f64),
}

/// Every kind of change with its name, and the changes of that kind, drawn with `seed`.
pub fn kinds(seed: u64) -> Vec<(String, Vec<Perturbation>)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut kinds = vec![
        ("Flipped horizontally".to_owned(), vec![Perturbation::FlipAcross]),
        ("Flipped vertically".to_owned(), vec![Perturbation::FlipDown]),
    ];
    for side in [0.9, 0.75] {
        let crops = (0..4).map(|_| Perturbation::Crop { side, at: (rng.random(), rng.random()) });
        kinds.push((format!("Cropped to {:.0} %", 100.0 * side), crops.collect()));
    }
    for levels in [10.0, 25.0] {
        let noises = (0..4).map(|draw| Perturbation::Noise { levels, seed: seed.wrapping_mul(64) + draw });
        kinds.push((format!("Noise, {levels:.0} levels"), noises.collect()));
    }
    kinds.push(("Darker".to_owned(), [0.85, 0.7, 0.5].map(Perturbation::Brightness).into()));
    kinds.push(("Brighter".to_owned(), [1.15, 1.3, 1.5].map(Perturbation::Brightness).into()));
    kinds
}

impl Perturbation {
    /// The change in a few words.
    pub fn text(self) -> String {
        match self {
            Self::FlipAcross => "flipped horizontally".to_owned(),
            Self::FlipDown => "flipped vertically".to_owned(),
            Self::Crop { side, at: (x, y) } => {
                format!("{:.0} % at {:.0} %, {:.0} %", 100.0 * side, 100.0 * x, 100.0 * y)
            }
            Self::Noise { levels, seed } => format!("{levels:.0} levels, seed {seed}"),
            Self::Brightness(factor) => format!("{factor} times"),
        }
    }

    /// The changed picture, of the same size.
    pub fn picture(self, seen: &Picture) -> Picture {
        let (width, height) = (seen.width, seen.height);
        let byte = |x: usize, y: usize, c: usize| f64::from(seen.rgb[3 * (y * width + x) + c]);
        let level = |value: f64| value.round().clamp(0.0, 255.0) as u8;
        let mut rgb = Vec::with_capacity(seen.rgb.len());
        match self {
            Self::FlipAcross => {
                for row in seen.rgb.chunks_exact((3 * width).max(1)) {
                    row.chunks_exact(3).rev().for_each(|pixel| rgb.extend_from_slice(pixel));
                }
            }
            Self::FlipDown => {
                let rows = seen.rgb.chunks_exact((3 * width).max(1)).rev();
                rows.for_each(|row| rgb.extend_from_slice(row));
            }
            Self::Brightness(factor) => rgb.extend(seen.rgb.iter().map(|v| level(f64::from(*v) * factor))),
            Self::Noise { levels, seed } => {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let noisy = |v: &u8| level(f64::from(*v) + levels * normal(&mut rng));
                rgb.extend(seen.rgb.iter().map(noisy));
            }
            Self::Crop { side, at } => {
                // For the centre of a pixel: the two source pixels around it, and the weight of the second.
                let between = |t: usize, size: usize, at: f64| {
                    let last = size.saturating_sub(1) as f64;
                    let source =
                        ((t as f64 + 0.5) * side + at * (1.0 - side) * size as f64 - 0.5).clamp(0.0, last);
                    (source as usize, (source as usize + 1).min(size - 1), source.fract())
                };
                for y in 0..height {
                    let (top, bottom, down) = between(y, height, at.1);
                    for x in 0..width {
                        let (left, right, across) = between(x, width, at.0);
                        for c in 0..3 {
                            let mix = |y| byte(left, y, c) * (1.0 - across) + byte(right, y, c) * across;
                            rgb.push(level(mix(top) * (1.0 - down) + mix(bottom) * down));
                        }
                    }
                }
            }
        }
        Picture { width, height, rgb }
    }

    /// For every patch of the changed picture, the patch of the original that shows the same thing.
    pub fn source_patches(self, grid: Grid) -> Vec<usize> {
        let Grid { rows, cols } = grid;
        let source = |i: usize| {
            let (row, col) = (i / cols, i % cols);
            match self {
                Self::FlipAcross => row * cols + (cols - 1 - col),
                Self::FlipDown => (rows - 1 - row) * cols + col,
                Self::Noise { .. } | Self::Brightness(_) => i,
                Self::Crop { side, at } => {
                    let cell = |t: usize, count: usize, at: f64| {
                        let middle = (t as f64 + 0.5) * side + at * (1.0 - side) * count as f64;
                        (middle as usize).min(count - 1)
                    };
                    cell(row, rows, at.1) * cols + cell(col, cols, at.0)
                }
            }
        };
        (0..grid.len()).map(source).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::stats::mean_and_deviation;

    /// A picture in which the grey level of every pixel is the number of its patch.
    fn numbered(grid: Grid, side: usize) -> Picture {
        let (width, height) = (grid.cols * side, grid.rows * side);
        let level = |at: usize| ((at / width / side) * grid.cols + at % width / side) as u8;
        Picture { width, height, rgb: (0..width * height).flat_map(|at| [level(at); 3]).collect() }
    }

    #[test]
    fn a_patch_shows_what_its_place_says() {
        let grid = Grid::new(3, 4);
        let seen = numbered(grid, 8);
        // The upper right quarter: rows 0 to 1.5, columns 2 to 4.
        let corner = Perturbation::Crop { side: 0.5, at: (1.0, 0.0) };
        assert_eq!(corner.source_patches(grid), [2, 2, 3, 3, 2, 2, 3, 3, 6, 6, 7, 7]);
        let turned = [Perturbation::FlipAcross, Perturbation::FlipDown];
        for change in turned.into_iter().chain([Perturbation::Brightness(1.0), corner]) {
            let (changed, places) = (change.picture(&seen), change.source_patches(grid));
            for (i, place) in places.iter().enumerate() {
                let (x, y) = (i % 4 * 8 + 4, i / 4 * 8 + 4);
                assert_eq!(usize::from(changed.rgb[3 * (y * 32 + x)]), *place, "{change:?}");
            }
        }
        // Half of it, from the middle: rows 0.75 to 2.25, columns 1 to 3.
        let crop = Perturbation::Crop { side: 0.5, at: (0.5, 0.5) };
        assert_eq!(crop.source_patches(grid), [5, 5, 6, 6, 5, 5, 6, 6, 9, 9, 10, 10]);
        let middle = crop.picture(&seen).rgb[3 * (12 * 32 + 4)];
        assert_eq!(middle, 5);
    }

    #[test]
    fn noise_has_its_deviation_and_brightness_its_factor() {
        let grey = |level: u8| Picture { width: 64, height: 48, rgb: vec![level; 3 * 64 * 48] };
        for levels in [10.0, 25.0] {
            let noisy = Perturbation::Noise { levels, seed: 3 }.picture(&grey(128));
            let added: Vec<f64> = noisy.rgb.iter().map(|value| f64::from(*value) - 128.0).collect();
            let (mean, deviation) = mean_and_deviation(&added);
            let ratio = deviation.unwrap() / levels;
            // Six standard errors of 9216 draws.
            assert!(mean.abs() < 0.06 * levels && (0.95..1.05).contains(&ratio), "{levels}: {mean}, {ratio}");
        }
        let made = |change: Perturbation| change.picture(&grey(100)).rgb[0];
        assert_eq!([0.7, 1.5, 3.0].map(|factor| made(Perturbation::Brightness(factor))), [70, 150, 255]);
        for (name, darker) in [("Darker", true), ("Brighter", false)] {
            let (_, changes) = kinds(0).into_iter().find(|(own, _)| own == name).unwrap();
            assert!(changes.into_iter().all(|change| (made(change) < 100) == darker), "{name}");
        }
    }

    #[test]
    fn a_crop_of_all_and_no_brightness_change_nothing_and_noise_is_seeded() {
        let seen = numbered(Grid::new(3, 4), 8);
        let whole = Perturbation::Crop { side: 1.0, at: (0.3, 0.9) };
        assert_eq!(whole.picture(&seen), seen);
        assert_eq!(whole.source_patches(Grid::new(3, 4)), (0..12).collect::<Vec<_>>());
        let noise = |seed| Perturbation::Noise { levels: 10.0, seed }.picture(&seen);
        assert_eq!(noise(1), noise(1));
        assert_ne!(noise(1), noise(2));
        for (name, changes) in kinds(0) {
            assert!(!changes.is_empty(), "{name}");
            for (at, change) in changes.iter().enumerate() {
                assert!(!changes[..at].contains(change), "{name}: {} twice", change.text());
            }
        }
        let noises = |seed| -> Vec<Perturbation> {
            let all = kinds(seed).into_iter().flat_map(|(_, changes)| changes);
            all.filter(|change| matches!(change, Perturbation::Noise { .. })).collect()
        };
        let next = noises(1);
        assert!(noises(0).iter().all(|noise| !next.contains(noise)), "seeds have draws of their own");
        let crop = Perturbation::Crop { side: 0.75, at: (0.25, 1.0) };
        assert_eq!(crop.text(), "75 % at 25 %, 100 %", "from the left, from the top");
    }
}
