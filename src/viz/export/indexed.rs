//! A picture of 256 colours as PNG: the palette, then one byte for each pixel. Versions of one photograph with
//! different palettes differ in their first [`HEAD`] bytes only; a pixel takes a third of its three bytes as RGB.

use png::{ColorType, Compression, Encoder};

/// Bytes before the pixels: signature, header chunk and palette chunk of 256 colours.
pub const HEAD: usize = 8 + (12 + 13) + (12 + 3 * 256);

/// The bytes of the PNG: `levels` are indices into `palette` in rows of `width` pixels.
pub fn png(width: usize, levels: &[u8], palette: &[[u8; 3]]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width as u32, (levels.len() / width) as u32);
    encoder.set_color(ColorType::Indexed);
    encoder.set_palette(palette.as_flattened());
    encoder.set_compression(Compression::High);
    let written = encoder.write_header().and_then(|mut file| file.write_image_data(levels));
    written.expect("one level for each pixel, and memory takes every byte");
    file
}

#[cfg(test)]
mod tests {
    use super::{HEAD, png};

    #[test]
    fn a_decoder_reads_the_pixels_and_shades_differ_in_their_head_alone() {
        let (width, height) = (37, 23);
        let levels: Vec<u8> = (0..width * height).map(|i| (i * i / 7 + i % 5) as u8).collect();
        let palettes = [0_u8, 40].map(|by| (0..=255_u8).map(|v| [v, v / 2 + by, by]).collect::<Vec<_>>());
        let files = palettes.each_ref().map(|palette| png(width, &levels, palette));
        for (file, palette) in files.iter().zip(&palettes) {
            let read = image::load_from_memory(file).unwrap().to_rgb8();
            assert_eq!(read.dimensions(), (width as u32, height as u32));
            let pixels: Vec<[u8; 3]> = read.pixels().map(|p| p.0).collect();
            assert_eq!(pixels, levels.iter().map(|&level| palette[usize::from(level)]).collect::<Vec<_>>());
        }
        assert!(files[0][HEAD..] == files[1][HEAD..] && files[0][..HEAD] != files[1][..HEAD]);
        assert_eq!(&files[0][HEAD + 4..HEAD + 8], b"IDAT");
        assert_eq!(HEAD % 3, 0, "base64 has the same characters then");
    }
}
