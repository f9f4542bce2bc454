//! Scenes as a labelled dataset on disk: an ImageFolder `train/<class>/00000.png`, `val/...`, the
//! objects' masks `masks/<split>/<class>/<same name>`, and the settings in `scenes.json`.
//!
//! A file is named by its index in its split, so names are unique there. The same settings yield the same bytes.

use std::io;
use std::path::{Path, PathBuf};

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{CLASSES, FIRST_VAL, SIDE, Scene, VERSION, class_name, draw};
use crate::model::data::MASKS;
use crate::model::io::atomic_file;

/// Largest number of scenes of a split: file names have five digits.
pub const MAX_SCENES: u64 = 100_000;

/// A set of scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// Seed of all scenes.
    pub seed: u64,
    /// Scenes for training.
    pub train: u64,
    /// Scenes for validation.
    pub val: u64,
}

/// The contents of `scenes.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Version of the generator, [`VERSION`].
    pub version: u32,
    /// Side of the pictures in pixels.
    pub side: usize,
    /// Seed and sizes.
    #[serde(flatten)]
    pub set: Set,
    /// Names of the classes; scene `index` has class `index % CLASSES`.
    pub classes: Vec<String>,
}

/// Why a set could not be written.
#[expect(missing_docs, reason = "the message says what its fields are")]
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be written")]
pub struct SceneError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Where a scene is stored, relative to the set's folder, and which scene it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SceneFile {
    /// `train` or `val`.
    pub split: &'static str,
    /// Index of the scene, as [`draw`] takes it.
    pub index: u64,
    /// `<split>/<class>/<number>.png`; below `masks`, its mask.
    pub file: PathBuf,
}

impl Set {
    /// Every scene of the set, training first.
    pub fn places(&self) -> impl Iterator<Item = SceneFile> {
        let split = |name: &'static str, first: u64, count: u64| {
            (0..count).map(move |number| {
                let class = class_name((number % CLASSES as u64) as usize);
                let file = [name, &class, &format!("{number:05}.png")].iter().collect();
                SceneFile { split: name, index: first + number, file }
            })
        };
        split("train", 0, self.train).chain(split("val", FIRST_VAL, self.val))
    }

    /// Writes the set to `folder`, new or empty, as a whole; calls `on_scene` after every scene drawn, from several threads.
    pub fn write(&self, folder: &Path, on_scene: &(dyn Fn() + Sync)) -> Result<(), SceneError> {
        atomic_file::write_folder(folder, |inside| self.fill(inside, on_scene))
            .map_err(|source| SceneError { path: folder.to_owned(), source })
    }

    fn fill(&self, folder: &Path, on_scene: &(dyn Fn() + Sync)) -> io::Result<()> {
        let masks = folder.join(MASKS);
        let splits = [("train", self.train), ("val", self.val)];
        for (split, _) in splits.into_iter().filter(|(_, count)| *count > 0) {
            for class in (0..CLASSES).map(class_name) {
                for root in [folder, &masks] {
                    atomic_file::make_folder(&root.join(split).join(&class))?;
                }
            }
        }
        self.places().collect::<Vec<_>>().into_par_iter().try_for_each(|place| {
            let scene = draw(self.seed, place.index);
            let Scene { picture, mask, .. } = &scene;
            let grey: Vec<u8> = mask.iter().map(|&inside| if inside { 255 } else { 0 }).collect();
            png(&folder.join(&place.file), &picture.rgb, ExtendedColorType::Rgb8)?;
            png(&masks.join(&place.file), &grey, ExtendedColorType::L8)?;
            on_scene();
            io::Result::Ok(())
        })?;
        let classes = (0..CLASSES).map(class_name).collect();
        let about = About { version: VERSION, side: SIDE, set: *self, classes };
        let text = serde_json::to_string_pretty(&about).expect("plain data serialises") + "\n";
        atomic_file::write(&folder.join("scenes.json"), text.as_bytes())
    }
}

fn png(path: &Path, bytes: &[u8], colour: ExtendedColorType) -> io::Result<()> {
    let mut file = Vec::new();
    let encoder = PngEncoder::new_with_quality(&mut file, CompressionType::Best, FilterType::Adaptive);
    encoder.write_image(bytes, SIDE as u32, SIDE as u32, colour).map_err(io::Error::other)?;
    atomic_file::write(path, &file)
}
