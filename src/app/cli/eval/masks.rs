//! Masks beside a dataset: `masks/<path of the image>.png`, white is the object. A mask goes through
//! the same resizing and cropping as its image, so it lies on the tokens as the image does.

use std::path::PathBuf;

use rayon::prelude::*;

use crate::app::jobs::extract::ExtractOptions;
use crate::app::jobs::tokens::preprocessor;
use crate::model::data::image::Photo;
use crate::model::data::{Dataset, MASKS, Source};
use crate::model::explain::localization::cover;
use crate::model::grid::Grid;

/// How much of every patch the objects cover.
pub struct Masks {
    /// For each image, `[N]`, where there is a mask; empty where there is none at all.
    pub covers: Vec<Option<Vec<f64>>>,
    /// Masks that could not be read.
    pub warning: Option<String>,
}

/// The masks of `images`, where those can be read, as `wanted` prepares them.
pub fn covers(
    dataset: &Dataset,
    images: &[Option<usize>],
    wanted: &ExtractOptions,
    grid: Grid,
) -> anyhow::Result<Masks> {
    if !dataset.root.join(MASKS).is_dir() {
        return Ok(Masks { covers: Vec::new(), warning: None });
    }
    let preprocessor = preprocessor(&wanted.backbone, wanted.tokens.taking.size)?;
    let read = |image: &Option<usize>| -> Result<Option<Vec<f64>>, String> {
        let path = image.and_then(|image| place(dataset, image)).filter(|path| path.exists());
        let Some(path) = path else { return Ok(None) };
        let mask = Photo::open(&path).map_err(|error| error.to_string())?;
        let seen = preprocessor.picture(&mask).map_err(|error| error.to_string())?;
        Ok(Some(cover(&seen, grid)))
    };
    let read: Vec<Result<Option<Vec<f64>>, String>> = images.par_iter().map(read).collect();
    let broken: Vec<&String> = read.iter().filter_map(|mask| mask.as_ref().err()).collect();
    let warning =
        broken.first().map(|why| format!("{} masks cannot be read; the first: {why}", broken.len()));
    Ok(Masks { covers: read.into_iter().map(Result::unwrap_or_default).collect(), warning })
}

/// Where the mask of an image would be.
fn place(dataset: &Dataset, image: usize) -> Option<PathBuf> {
    let Source::File(path) = &dataset.samples[image].source else { return None };
    let within = path.strip_prefix(&dataset.root).ok()?;
    Some(dataset.root.join(MASKS).join(within).with_extension("png"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::extract::TokenSettings;
    use crate::model::backbone::token_spec::TokenSpec;
    use crate::model::data::{Sample, Split};

    #[test]
    fn a_mask_lies_on_the_tokens_of_images_that_are_read_at_another_size() {
        // Of 48 x 48 pixels the last patch of 8 x 8 is the object; the backbone's own size is 32.
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let mask = root.join(MASKS).join("val/bird/a.png");
        std::fs::create_dir_all(mask.parent().unwrap()).unwrap();
        let inside = |x, y| image::Luma([if x >= 40 && y >= 40 { 255_u8 } else { 0 }]);
        image::GrayImage::from_fn(48, 48, inside).save(mask).unwrap();
        let sample =
            Sample { source: Source::File(root.join("val/bird/a.jpg")), class: 0, split: Split::Val };
        let dataset = Dataset {
            name: "birds".to_owned(),
            root: root.clone(),
            layout: "folder",
            classes: vec!["bird".to_owned()],
            samples: vec![sample],
            skipped: 0,
            notes: Vec::new(),
        };
        let backbone = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/inspect/backbone");
        let taking = TokenSpec { size: Some(48), ..TokenSpec::default() };
        let tokens = TokenSettings { taking, ..TokenSettings::default() };
        let wanted = ExtractOptions { backbone: backbone.into(), tokens };
        let found = covers(&dataset, &[Some(0), None], &wanted, Grid::new(6, 6)).unwrap();
        assert_eq!(found.warning, None);
        let mut expected = vec![0.0; 36];
        expected[35] = 1.0;
        assert_eq!(found.covers, [Some(expected), None]);
    }
}
