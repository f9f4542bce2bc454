//! A picture of 256 colours as PNG (RFC 2083): the palette, then one byte for each pixel. Versions of one photograph with
//! different palettes differ in their first [`HEAD`] bytes only; a pixel takes a third of its three bytes as RGB.

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

/// Bytes before the pixels: signature, header chunk and palette chunk of 256 colours.
pub const HEAD: usize = 8 + (12 + 13) + (12 + 3 * 256);

/// The bytes of the PNG: `levels` are indices into `palette` in rows of `width` pixels.
pub fn png(width: usize, levels: &[u8], palette: &[[u8; 3]]) -> Vec<u8> {
    let height = levels.len() / width.max(1);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    // Bit depth 8, colour type 3 (palette), deflate, adaptive filters, not interlaced.
    let sizes = [width as u32, height as u32].map(u32::to_be_bytes).concat();
    chunk(&mut file, *b"IHDR", &[&sizes[..], &[8, 3, 0, 0, 0]].concat());
    chunk(&mut file, *b"PLTE", palette.as_flattened());
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&filtered(width, levels)).expect("memory takes every byte");
    chunk(&mut file, *b"IDAT", &packed.finish().expect("memory takes every byte"));
    chunk(&mut file, *b"IEND", &[]);
    file
}

/// Appends a chunk of a PNG: length, type, data, CRC.
pub(super) fn chunk(file: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let mut crc = Crc::new();
    for part in [&kind[..], data] {
        crc.update(part);
        file.extend(part);
    }
    file.extend(crc.sum().to_be_bytes());
}

/// The rows after filtering, each by the one of the five PNG filters with the smallest sum of absolute differences.
fn filtered(width: usize, levels: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(levels.len() + levels.len() / width.max(1));
    let mut above = vec![0; width];
    for row in levels.chunks_exact(width.max(1)) {
        let left = |x: usize| if x > 0 { row[x - 1] } else { 0 };
        let corner = |x: usize| if x > 0 { above[x - 1] } else { 0 };
        let predicted = |filter: u8, x: usize| match filter {
            0 => 0,
            1 => left(x),
            2 => above[x],
            3 => u8::midpoint(left(x), above[x]),
            _ => paeth(left(x), above[x], corner(x)),
        };
        let rows = (0..=4).map(|filter| {
            let rest: Vec<u8> = (0..width).map(|x| row[x].wrapping_sub(predicted(filter, x))).collect();
            (rest.iter().map(|&v| u64::from(v.cast_signed().unsigned_abs())).sum::<u64>(), filter, rest)
        });
        let (_, filter, rest) = rows.min_by_key(|(sum, _, _)| *sum).expect("five filters");
        out.push(filter);
        out.extend(rest);
        above.copy_from_slice(row);
    }
    out
}

/// The Paeth predictor: the neighbour nearest to left + above - corner.
fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let [a, b, c] = [left, above, corner].map(i16::from);
    let distance = |v: i16| (a + b - c - v).abs();
    if distance(a) <= distance(b) && distance(a) <= distance(c) {
        left
    } else if distance(b) <= distance(c) {
        above
    } else {
        corner
    }
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
