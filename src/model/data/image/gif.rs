//! The first frame of a GIF on its canvas, as Pillow renders it: pixels outside the frame have the
//! colour of the transparent index, or of index 0.

use gif::{ColorOutput, DecodeOptions, MemoryLimit};
use image::RgbImage;

use super::{BYTE_LIMIT, DecodeFailure, check_size, rgb_image};

pub(super) fn decode(bytes: &[u8]) -> Result<RgbImage, DecodeFailure> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    options.set_memory_limit(MemoryLimit::Bytes(BYTE_LIMIT.try_into().expect("it is not 0")));
    let mut decoder = options.read_info(bytes).map_err(DecodeFailure::broken)?;
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    let frame = decoder.read_next_frame().map_err(DecodeFailure::broken)?;
    let frame = frame.ok_or_else(|| DecodeFailure::Broken("it has no frames".into()))?.clone();
    // A frame larger than the canvas enlarges it.
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let (across, down) = (usize::from(frame.width), usize::from(frame.height));
    let (width, height) = (width.max(left + across), height.max(top + down));
    check_size(width as u64, height as u64)?;
    check_size(across as u64, down as u64)?;
    let palette = frame.palette.as_deref().or(decoder.global_palette());
    let colour = |index: u8| match palette {
        Some(palette) => palette.as_chunks::<3>().0.get(usize::from(index)).copied().unwrap_or_default(),
        None => [index; 3],
    };
    let ground = colour(frame.transparent.unwrap_or(0));
    let mut rgb = ground.repeat(width * height);
    for (y, line) in frame.buffer.chunks_exact(across).enumerate() {
        let to = ((top + y) * width + left) * 3;
        for (to, index) in rgb[to..to + across * 3].chunks_exact_mut(3).zip(line) {
            to.copy_from_slice(&colour(*index));
        }
    }
    rgb_image(width as u32, height as u32, rgb)
}
