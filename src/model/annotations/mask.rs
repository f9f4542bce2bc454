//! A mask of an image: a PNG of the image's size. With a palette every index is the label of a region, except 0 (background) and
//! 255 (void, an undecided border). In grey the brightness is the share of the pixel that is the object; but if there are greys
//! besides 0 and 255, each of them at most 50 or named, they are labels too, with 8 or 16 bits per pixel. `names.txt` beside the
//! masks (number, name) gives the names of labels: ADE20K has 150.

use std::collections::HashMap;
use std::io::Cursor;
use std::iter;
use std::path::Path;

use ::image::codecs::png::PngDecoder;
use ::image::{DynamicImage, GrayImage};

use super::{FIRST_NUMBER, OBJECT, OBJECT_NUMBER};
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::data::DataError;
use crate::model::data::cub::list;
use crate::model::data::image::{self, Photo};
use crate::model::grid::Grid;
use crate::model::picture::Picture;
use crate::model::regions::{Region, Regions, cover};

/// Largest grey that is a label without a name: averages of five people's votes on an object start above it.
const MAX_LABEL: u8 = 50;
/// The label of undecided pixels.
const VOID: u8 = 255;
const NAMES: &str = "names.txt";

/// Whether a file may be a mask.
pub(super) fn is_mask(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"))
}

/// The names of the labels of the masks in a folder, from `names.txt`; empty without it.
pub(super) fn names(folder: &Path) -> Result<HashMap<u8, String>, DataError> {
    let file = folder.join(NAMES);
    if !file.is_file() {
        return Ok(HashMap::new());
    }
    let named = |(number, (line, name)): (u64, (usize, String))| {
        let known = u8::try_from(number).ok().filter(|label| ![0, VOID].contains(label));
        let label =
            known.ok_or_else(|| DataError::line(&file, line, &number.to_string(), "a label from 1 to 254"));
        Ok((label?, name))
    };
    list(&file)?.into_iter().map(named).collect()
}

/// Number, name and picture of each region of a mask, white where the region is: made one by one, as a mask of a few kilobytes may
/// have 254, each with the pixels of the image.
type Layers = Box<dyn Iterator<Item = (u32, String, Photo)>>;

/// Reads the mask of an image of `size`, width and height.
pub(super) fn read(path: &Path, size: (usize, usize), names: &HashMap<u8, String>) -> Result<Layers, String> {
    let shown = path.display().to_string();
    let bytes = image::read(path).map_err(|error| error.to_string())?;
    let mut photo = Photo::decode(&*shown, &bytes).map_err(|error| error.to_string())?;
    let own = (photo.width(), photo.height());
    if own != size {
        return Err(format!(
            "{shown}: is {} x {} pixels, but its image is {} x {}; expected a mask of the image's size: \
             resize it (nearest-neighbour, so that no labels are mixed)",
            own.0, own.1, size.0, size.1
        ));
    }
    // Decoding as a photograph keeps the upper 8 of 16 bits, in which small labels are 0.
    let deep = greys_of_16_bits(&bytes).unwrap_or_default();
    if !deep.is_empty() && deep.iter().all(|&grey| grey <= 255 || grey == u16::MAX) {
        photo.picture.rgb = deep.iter().flat_map(|&grey| [grey as u8; 3]).collect();
    } else if deep.iter().any(|grey| !grey.is_multiple_of(257))
        && matches!(greys(&photo.picture, names), Greys::Labels(_))
    {
        return Err(format!(
            "{shown}: has 16 bits per pixel and greys up to {}; expected labels from 1 to {MAX_LABEL}, or \
             white (65535) where the object is: save it with 8 bits or with a palette",
            deep.iter().filter(|grey| **grey != u16::MAX).max().unwrap_or(&0)
        ));
    }
    if has_hidden_colours(&bytes) {
        return Err(format!(
            "{shown}: has transparent pixels that are not black, and transparency is not read; save it in grey \
             (white is the object) or with a palette"
        ));
    }
    let labels = match (indices(&bytes), greys(&photo.picture, names)) {
        (Some(indices), _) => indices,
        (None, Greys::Labels(labels)) => labels,
        (None, Greys::Shares) => {
            return Ok(Box::new(iter::once((OBJECT_NUMBER, OBJECT.to_owned(), photo))));
        }
        (None, Greys::Coloured) => {
            return Err(format!(
                "{shown}: is in colour without a palette; save it in grey (white is the object) or with a palette"
            ));
        }
    };
    let mut known: Vec<u8> = labels.iter().copied().filter(|label| ![0, VOID].contains(label)).collect();
    known.sort_unstable();
    known.dedup();
    let name_of = |label: u8| names.get(&label).cloned().unwrap_or_else(|| format!("region {label}"));
    let mut regions: Vec<(u32, String, Option<u8>)> =
        known.iter().map(|&label| (FIRST_NUMBER + u32::from(label), name_of(label), Some(label))).collect();
    if regions.is_empty() {
        // It is unknown which label the empty mask would have.
        regions.push((OBJECT_NUMBER, OBJECT.to_owned(), None));
    }
    Ok(Box::new(regions.into_iter().map(move |(number, name, label)| {
        let white = labels.iter().flat_map(|&own| [if Some(own) == label { 255 } else { 0 }; 3]).collect();
        let picture = Picture { width: own.0, height: own.1, rgb: white };
        (number, name, Photo { name: shown.clone(), picture })
    })))
}

/// Adds the cover of every layer to `found`, on the patches of the picture that `preprocessor` makes of the mask.
pub(super) fn add_regions(
    layers: Layers,
    preprocessor: &Preprocessor,
    grid: Grid,
    found: &mut Regions,
) -> Result<(), String> {
    for (number, name, photo) in layers {
        let prepared = preprocessor.picture(&photo).map_err(|error| error.to_string())?;
        let cover = cover(&prepared, grid);
        if photo.picture.rgb.iter().all(|&v| v == 0) {
            found.empty.push(name.clone());
        } else if cover.iter().all(|&c| c == 0.0) {
            found.cropped.push(name.clone());
        }
        found.list.push(Region { number, name, cover });
    }
    Ok(())
}

/// The content of a mask without a palette.
enum Greys {
    /// The label of every pixel.
    Labels(Vec<u8>),
    /// The share of every pixel that is the object.
    Shares,
    /// Colours, which are neither.
    Coloured,
}

fn greys(mask: &Picture, names: &HashMap<u8, String>) -> Greys {
    let grey = |p: &[u8]| (p[0] == p[1] && p[1] == p[2]).then_some(p[0]);
    let Some(greys) = mask.rgb.chunks_exact(3).map(grey).collect::<Option<Vec<u8>>>() else {
        return Greys::Coloured;
    };
    let between = || greys.iter().filter(|grey| ![0, VOID].contains(grey));
    let is_label = |grey: &u8| *grey <= MAX_LABEL || names.contains_key(grey);
    match between().next().is_some() && between().all(is_label) {
        true => Greys::Labels(greys),
        false => Greys::Shares,
    }
}

/// The greys of a PNG of 16-bit grey (PNG specification, section 11.2.1); `None` for others.
fn greys_of_16_bits(png: &[u8]) -> Option<Vec<u16>> {
    const DEPTH_AND_COLOUR_TYPE: [u8; 2] = [16, 0];
    png.get(24..26).filter(|head| **head == DEPTH_AND_COLOUR_TYPE)?;
    let mut decoder = PngDecoder::new(Cursor::new(png)).ok()?;
    let orientation = image::orientation_of(&mut decoder);
    let mut picture = DynamicImage::from_decoder(decoder).ok()?;
    picture.apply_orientation(orientation); // as photographs are
    match picture {
        DynamicImage::ImageLuma16(greys) => Some(greys.into_raw()),
        _ => None,
    }
}

/// Whether a PNG with an alpha channel has invisible pixels that are not black. In a cut-out, whose object is what is opaque, they
/// have any colour: with white ones, all of the picture would be the object.
fn has_hidden_colours(png: &[u8]) -> bool {
    const WITH_ALPHA: [u8; 2] = [4, 6];
    if !png.get(25).is_some_and(|colour_type| WITH_ALPHA.contains(colour_type)) {
        return false;
    }
    let picture = PngDecoder::new(Cursor::new(png)).and_then(DynamicImage::from_decoder);
    picture.is_ok_and(|picture| {
        picture.to_rgba8().pixels().any(|pixel| pixel.0[3] == 0 && pixel.0[..3] != [0; 3])
    })
}

/// The index of every pixel of a PNG with a palette; `None` for others.
fn indices(png: &[u8]) -> Option<Vec<u8>> {
    let orientation = image::orientation_of(&mut PngDecoder::new(Cursor::new(png)).ok()?);
    let mut reader = png::Decoder::new(Cursor::new(png)).read_info().ok()?;
    if reader.info().color_type != png::ColorType::Indexed {
        return None;
    }
    let mut rows = vec![0; reader.output_buffer_size()?];
    let frame = reader.next_frame(&mut rows).ok()?;
    let (width, bits) = (frame.width as usize, frame.bit_depth as usize);
    // The first pixel is in the highest bits of a byte.
    let index = move |row: &[u8], x: usize| row[x * bits / 8] << (x * bits % 8) >> (8 - bits);
    let indices =
        rows.chunks_exact(frame.line_size).flat_map(|row| (0..width).map(move |x| index(row, x))).collect();
    let mut picture = DynamicImage::ImageLuma8(GrayImage::from_raw(frame.width, frame.height, indices)?);
    picture.apply_orientation(orientation); // as photographs are
    Some(picture.into_luma8().into_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_turned_as_photographs_are() {
        let mut png = Vec::new();
        let mut info = png::Info::with_size(3, 2);
        (info.color_type, info.bit_depth) = (png::ColorType::Indexed, png::BitDepth::Eight);
        info.palette = Some(vec![0; 3 * 7].into());
        // TIFF with one entry: orientation (0x112), one u16, 6: a quarter turn clockwise.
        info.exif_metadata =
            Some(b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"[..].into());
        let mut writer = png::Encoder::with_info(&mut png, info).unwrap().write_header().unwrap();
        writer.write_image_data(&[1, 2, 3, 4, 5, 6]).unwrap();
        writer.finish().unwrap();
        assert_eq!(indices(&png), Some(vec![4, 1, 5, 2, 6, 3]));
    }
}
