//! Images that are nearly black because their 16 bits per channel hold fewer, as those of microscopes and scanners with 12 bits do.

use super::Dataset;
use super::image::brightest_of_16_bits;

/// Images that are looked at, spread over all.
const IMAGES: usize = 3;
/// Brightest values below this, one of more than 12 bits, are too dark for a photograph.
const DARK: u16 = 1 << 12;

/// A note if the images that are looked at have 16 bits and are all dark; `None` for a dataset without images. Only files whose
/// names are those of formats with so many bits are read.
pub(super) fn note(dataset: &Dataset) -> Option<String> {
    let last = dataset.samples.len().checked_sub(1)?;
    let brightest = |at: usize| {
        let source = &dataset.samples[at * last / (IMAGES - 1)].source;
        let ending = source.path.extension()?.to_str()?.to_ascii_lowercase();
        let is_deep = ["png", "tif", "tiff"].contains(&ending.as_str());
        Some((brightest_of_16_bits(&is_deep.then(|| source.bytes().ok())??)?, source.to_string()))
    };
    let (value, name) = (0..IMAGES).filter_map(brightest).max()?;
    (value < DARK).then(|| {
        format!(
            "16-bit images are nearly black, as their values use fewer bits: the brightest value of {name} is {value} of 65535; \
             multiply them so that the brightest is near 65535"
        )
    })
}
