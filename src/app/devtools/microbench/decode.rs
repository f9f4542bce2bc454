//! Decoding photographs and preprocessing them for a backbone, on every core. A backbone that is faster
//! than this waits for its images.
//!
//! `decode/rate` in images a second, for JPEGs of [`WIDTH`] x [`HEIGHT`] pixels, ImageNet's usual size, that
//! become 224 x 224.

use image::codecs::jpeg::JpegEncoder;
use image::{Rgb, RgbImage};
use rayon::prelude::*;

use super::timing::{Work, median_seconds};
use super::{Group, Measured, OnRun, Setup, noise, unwritable};
use crate::app::devtools::prelude::*;
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::data::image::Photo;

pub const GROUP: Group = Group { names: |_| vec![RATE.to_owned()], check: |_| Ok(()), measure };

const RATE: &str = "decode/rate";

/// Size of a photograph in pixels.
const WIDTH: u32 = 500;
const HEIGHT: u32 = 375;
const PHOTOS: u64 = 16;
/// Sine waves summed in each colour channel of a photograph, four parameters each.
const WAVES: usize = 6;

fn measure(setup: &Setup, on_run: OnRun) -> anyhow::Result<Measured> {
    let folder = temporary::folder().with_context(unwritable)?;
    let paths = write(folder.path()).with_context(unwritable)?;
    let preprocessor = Preprocessor::open(folder.path())?;
    let run = || {
        paths.par_iter().try_for_each(|path| {
            std::hint::black_box(preprocessor.apply(&Photo::open(path)?)?);
            Ok(())
        })
    };
    let seconds = median_seconds(&mut [Work::new(RATE, run)], setup.sizes.rounds, on_run)?[0];
    Ok(vec![(RATE.to_owned(), PHOTOS as f64 / seconds, "images/s")])
}

/// Writes the photographs and ViT's preprocessor configuration; returns the photographs' paths.
fn write(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let config = serde_json::json!({
        "image_processor_type": "ViTImageProcessor", "do_resize": true, "do_rescale": true, "do_normalize": true, "resample": 2,
        "size": {"height": 224, "width": 224}, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    });
    atomic_file::write(&folder.join("preprocessor_config.json"), config.to_string().as_bytes())?;
    (0..PHOTOS)
        .into_par_iter()
        .map(|seed| {
            let mut bytes = Vec::new();
            let photo = photo(seed);
            JpegEncoder::new_with_quality(&mut bytes, 90)
                .encode_image(&photo)
                .map_err(std::io::Error::other)?;
            let path = folder.join(format!("{seed}.jpg"));
            atomic_file::write(&path, &bytes)?;
            Ok(path)
        })
        .collect()
}

/// Sine waves of many lengths and a little noise: compresses to about as many bits a pixel as a photograph.
fn photo(seed: u64) -> RgbImage {
    let waves: Vec<f32> = noise(seed, 3 * 4 * WAVES);
    let grain = noise(seed + PHOTOS, (3 * WIDTH * HEIGHT) as usize);
    RgbImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let value = |channel: u32| {
            let own = &waves[channel as usize * 4 * WAVES..][..4 * WAVES];
            let wave = |(at, wave): (usize, &[f32])| {
                let length = 2.4_f32.powi(at as i32) / 60.0;
                let turn = length * (wave[0] * x as f32 + wave[1] * y as f32) + 6.0 * wave[2];
                wave[3] * turn.sin() / (1.0 + at as f32)
            };
            let waves: f32 = own.chunks(4).enumerate().map(wave).sum();
            let grain = grain[(3 * (y * WIDTH + x) + channel) as usize];
            (128.0 + 60.0 * waves + 6.0 * grain).clamp(0.0, 255.0) as u8
        };
        Rgb([value(0), value(1), value(2)])
    })
}
