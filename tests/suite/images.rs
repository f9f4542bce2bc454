//! Photographs and their preprocessing against Pillow and transformers (`tests/reference/images.py`).

use std::fs::File;
use std::path::PathBuf;

use ndarray::{Array3, ArrayView3};
use ssmprobe::model::backbone::FAMILIES;
use ssmprobe::model::backbone::preprocess::{
    Filter, PreprocessError, Preprocessor, Rect, Size, config, resample,
};
use ssmprobe::model::data::image::{ImageError, Photo};
use ssmprobe::model::trace::Picture;

use crate::close::assert_close;
use crate::run::{assert_says, root};
use crate::{npz, real};

fn fixtures() -> PathBuf {
    root().join("tests/fixtures/images")
}

fn arrays(name: &str) -> npz::Arrays {
    npz::read(File::open(fixtures().join(name)).unwrap()).unwrap()
}

/// The synthetic photograph of the generator.
pub(super) fn photo(width: usize, height: usize) -> Photo {
    let mut rgb = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let blue = if (x / 4 + y / 3) % 2 == 0 { 240 } else { (x * 13 + y * 7) % 64 };
            rgb.extend([(x * 5 + y * 3) % 256, (x * x / 7 + y * 11) % 256, blue].map(|v| v as u8));
        }
    }
    Photo { name: "synthetic".into(), picture: Picture { width, height, rgb } }
}

/// The largest difference of two pictures; `None` where they differ in size.
fn max_difference(picture: &Picture, expected: ArrayView3<u8>) -> Option<u8> {
    (expected.shape() == [picture.height, picture.width, 3] && picture.rgb.len() == expected.len())
        .then(|| picture.rgb.iter().zip(expected.iter()).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0))
}

#[test]
fn decoding_equals_pillow() {
    let expected = arrays("decoded.npz");
    let mut wrong = Vec::new();
    assert!(expected.len() > 70, "{}", expected.len());
    for (name, npy) in &expected {
        let pixels: Array3<u8> = npz::array(npy).unwrap();
        // JPEG is equal to the bit as well; lossy WebP is read by another decoder.
        let lossy = name == "lossy.webp";
        match Photo::open(fixtures().join("files").join(name)) {
            Err(error) => wrong.push(error.to_string()),
            Ok(photo) => match max_difference(&photo.picture, pixels.view()) {
                None => wrong.push(format!("{name}: size {}x{}", photo.width(), photo.height())),
                Some(by) if by > if lossy { 3 } else { 0 } => wrong.push(format!("{name}: {by} apart")),
                Some(_) => {}
            },
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A little-endian TIFF of one strip, `bits` per pixel packed from the high bits on; a palette unless `map` is empty.
fn packed_tiff(width: u16, bits: u16, photometric: u16, rows: &[&[u8]], map: &[u16]) -> Vec<u8> {
    strip_tiff([width, rows.len() as u16], [bits, 1, photometric, 1], &rows.concat(), map, &[])
}

/// A little-endian TIFF of one strip; `kind` is its bits, compression, photometric interpretation and samples, `more` are
/// further tags of one number.
fn strip_tiff(
    [width, height]: [u16; 2],
    [bits, compression, photometric, samples]: [u16; 4],
    strip: &[u8],
    map: &[u16],
    more: &[(u16, u16)],
) -> Vec<u8> {
    let mut tags: Vec<(u16, u16, u32, u32)> = [
        (256, 3, 1, width.into()),
        (257, 3, 1, height.into()),
        (258, 3, 1, bits.into()),
        (259, 3, 1, compression.into()),
        (262, 3, 1, photometric.into()),
        (273, 4, 1, 8),
        (277, 3, 1, samples.into()),
        (278, 3, 1, height.into()),
        (279, 4, 1, strip.len() as u32),
        (320, 3, map.len() as u32, 8 + strip.len() as u32 + strip.len() as u32 % 2),
    ]
    .into_iter()
    .filter(|tag| tag.0 != 320 || !map.is_empty())
    .chain(more.iter().map(|&(tag, value)| (tag, 3, 1, value.into())))
    .collect();
    tags.sort_unstable();
    let mut file = b"II*\0".to_vec();
    let pad = strip.len() % 2;
    file.extend((8 + strip.len() as u32 + pad as u32 + 2 * map.len() as u32).to_le_bytes());
    file.extend(strip);
    file.resize(file.len() + pad, 0);
    map.iter().for_each(|entry| file.extend(entry.to_le_bytes()));
    file.extend((tags.len() as u16).to_le_bytes());
    for (tag, kind, count, value) in tags {
        file.extend(tag.to_le_bytes());
        file.extend(kind.to_le_bytes());
        file.extend(count.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file.extend([0; 4]);
    file
}

/// TIFF 6.0, section 3: the first pixel of a byte lies in its high bits, and every row begins with a byte.
#[test]
fn tiff_pixels_of_less_than_a_byte_come_from_its_high_bits() {
    let grey = |file: &[u8]| -> Vec<u8> {
        let photo = Photo::decode("hand.tiff", file).unwrap();
        photo.picture.rgb.chunks_exact(3).map(|pixel| pixel[0]).collect()
    };
    let four = packed_tiff(3, 4, 1, &[&[0x0f, 0x50], &[0xa1, 0x20]], &[]);
    assert_eq!(grey(&four), [0, 255, 85, 170, 17, 34]);
    let two = packed_tiff(5, 2, 1, &[&[0b0001_1011, 0b0100_0000]], &[]);
    assert_eq!(grey(&two), [0, 85, 170, 255, 85]);
    let reds: Vec<u16> = (0..16).map(|i| i * 0x1000).collect();
    let palette = packed_tiff(2, 4, 3, &[&[0x3e]], &[reds, vec![0; 32]].concat());
    assert_eq!(grey(&palette), [0x30, 0xe0]);
}

#[test]
fn jpeg_data_within_a_tiff_has_the_pixels_of_a_jpeg_file() {
    for (name, photometric) in [("q75-s2.jpg", 6), ("rgb.jpg", 2), ("grey.jpg", 1)] {
        let jpeg = std::fs::read(fixtures().join("files").join(name)).unwrap();
        let expected = Photo::decode(name, &jpeg).unwrap().picture;
        let size = [expected.width as u16, expected.height as u16];
        let samples = if photometric == 1 { 1 } else { 3 };
        let tiff = strip_tiff(size, [8, 7, photometric, samples], &jpeg, &[], &[]);
        assert_eq!(Photo::decode("map.tiff", &tiff).unwrap().picture, expected, "{name}");
        // The header of the strip decides how much is decoded.
        let small = strip_tiff([size[0], 1], [8, 7, photometric, samples], &jpeg, &[], &[]);
        assert!(refused("small.tiff", &small).contains("a strip or tile is 45 x 35 pixels, not 45 x 1"));
        let cut = strip_tiff(size, [8, 7, photometric, samples], &jpeg[..jpeg.len() / 2], &[], &[]);
        assert!(refused("cut.tiff", &cut).contains("TIFF"));
    }
}

#[test]
fn big_tiff_is_read_and_colours_are_divided_by_their_alpha() {
    let rgb: Vec<u8> = (0..5 * 4 * 3).map(|i| i * 4).collect();
    let mut big = std::io::Cursor::new(Vec::new());
    let mut encoder = tiff::encoder::TiffEncoder::new_big(&mut big).unwrap();
    encoder.write_image::<tiff::encoder::colortype::RGB8>(5, 4, &rgb).unwrap();
    assert_eq!(Photo::decode("big.tif", big.get_ref()).unwrap().picture.rgb, rgb);
    // As Pillow divides: rounded down, at most 255, and black where nothing is seen.
    let pixels = [[72, 72, 81, 182], [9, 9, 9, 255], [200, 10, 0, 100], [7, 7, 7, 0]].concat();
    let divided = strip_tiff([2, 2], [8, 1, 2, 4], &pixels, &[], &[(338, 1)]);
    let expected = [[100, 100, 113], [9, 9, 9], [255, 25, 0], [0, 0, 0]].concat();
    assert_eq!(Photo::decode("alpha.tif", &divided).unwrap().picture.rgb, expected);
    let plain = strip_tiff([2, 2], [8, 1, 2, 4], &pixels, &[], &[(338, 2)]);
    assert_eq!(Photo::decode("plain.tif", &plain).unwrap().picture.rgb[..3], [72, 72, 81]);
}

#[test]
fn images_of_a_kind_that_is_not_read_are_told_apart_from_broken_ones() {
    let tiff = |bits, more: &[(u16, u16)]| strip_tiff([1, 1], [bits, 1, 1, 1], &[0; 8], &[], more);
    for (file, why) in [
        (tiff(32, &[(339, 3)]), "floating-point"),
        (tiff(16, &[(339, 2)]), "signed"),
        (tiff(32, &[]), "Gray(32)"),
        (tiff(8, &[(254, 1)]), "thumbnail"),
        (strip_tiff([1, 1], [16, 1, 1, 13], &[0; 26], &[], &[]), "num_samples: 13"),
    ] {
        assert_says(refused("scan.tif", &file), &[why, "convert it to grey or RGB of 8 bits"]);
    }
    let mut jpeg = std::fs::read(fixtures().join("files/grey.jpg")).unwrap();
    let at = jpeg.windows(2).position(|w| w == [0xFF, 0xC0]).unwrap();
    jpeg[at + 4] = 12; // bits per sample
    assert!(refused("scan.jpg", &jpeg).contains("JPEG images of this kind are not read"));
    let dicom = [&[0; 128][..], b"DICM\x02\0"].concat();
    let others: [(&[u8], &str); 6] = [
        (&dicom[..], "a DICOM file"),
        (b"\xFF\x0A\0\0", "a JPEG XL image"),
        (b"\0\0\0\x0CjP  \r\n", "a JPEG 2000 image"),
        (b"\0\0\0\x18ftypcrx \0\0", "a raw photograph"),
        (b"\0\0\0\x18ftypmsf1\0\0", "a HEIC image"),
        (b"\0\0\0\x18ftypisom\0\0", "a video"),
    ];
    for (file, what) in others {
        assert_says(refused("scan", file), &[&format!("is {what}; expected a JPEG, PNG")]);
    }
}

#[test]
fn where_exif_and_xmp_disagree_exif_turns_the_picture() {
    // As in Pillow, which reads XMP only if EXIF has no orientation.
    let read = |name: &str| std::fs::read(fixtures().join("files").join(name)).unwrap();
    let xmp = read("turn-xmp.jpg");
    let at = xmp.windows(2).position(|pair| pair == [0xFF, 0xE1]).expect("its XMP");
    let length = 2 + usize::from(u16::from_be_bytes([xmp[at + 2], xmp[at + 3]]));
    for turn in ["turn1.jpg", "turn3.jpg", "turn8.jpg"] {
        let exif = read(turn);
        let both = [&exif[..at], &xmp[at..at + length], &exif[at..]].concat();
        let [alone, both] = [exif, both].map(|bytes| Photo::decode(turn, &bytes).unwrap().picture);
        assert_eq!(both, alone, "{turn}");
    }
}

#[test]
fn resizing_equals_pillow_to_the_bit() {
    let expected = arrays("resized.npz");
    assert!(expected.len() > 20, "{}", expected.len());
    for (name, npy) in &expected {
        let pixels: Array3<u8> = npz::array(npy).unwrap();
        let numbers: Vec<usize> = name.split(['x', '-']).map(|number| number.parse().unwrap()).collect();
        let [width, height, to_width, to_height, filter] = numbers[..] else { panic!("{name}") };
        let source = photo(width, height).picture;
        let filter = Filter::from_number(filter as u64).unwrap();
        let whole = resample::resize(&source, (to_width, to_height), 0..to_width, 0..to_height, filter);
        assert_eq!(max_difference(&whole, pixels.view()), Some(0), "{name}");
        // A window that is resized alone has the same pixels.
        let (cols, rows) = (to_width / 3..to_width - to_width / 4, to_height / 4..to_height);
        let part = resample::resize(&source, (to_width, to_height), cols.clone(), rows.clone(), filter);
        let cut = pixels.slice(ndarray::s![rows, cols, ..]);
        assert_eq!(max_difference(&part, cut), Some(0), "{name}");
    }
}

#[test]
fn processing_equals_transformers() {
    let mut seen = 0;
    for (name, npy) in &arrays("processed.npz") {
        let values: Array3<f32> = npz::array(npy).unwrap();
        let (case, label) = name.split_once('/').unwrap();
        let text = std::fs::read(fixtures().join("processed").join(format!("{case}.json"))).unwrap();
        let preprocessor = config::parse(case, &text, None).unwrap();
        let photo = match label {
            "wide" => photo(64, 37),
            "tall" => photo(29, 50),
            _ => photo(33, 33),
        };
        let pixels = preprocessor.apply(&photo).unwrap();
        assert_eq!(values.shape(), [3, pixels.height, pixels.width], "{name}");
        let theirs: Vec<f32> = values.iter().copied().collect();
        // DINOv3 alone does not round to bytes after resizing: at most one grey level apart.
        let limit = if case == "dinov3" { 1.0 / 255.0 / 0.224 } else { 1e-6 };
        assert_close(name, &pixels.values, &theirs, limit);
        // Undoing the normalisation gives exactly the picture that was normalised.
        assert_eq!(preprocessor.seen(&pixels), preprocessor.picture(&photo).unwrap(), "{name}");
        if let Some(output) = preprocessor.output() {
            assert_eq!(output, (pixels.height, pixels.width), "{name}");
        }
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn the_model_type_settles_a_file_without_a_type() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    assert_says(Preprocessor::open(folder.path()).unwrap_err(), &["preprocessor_config.json", "Hub"]);
    write("preprocessor_config.json", "{\"size\": 20}");
    assert_says(Preprocessor::open(folder.path()).unwrap_err(), &["`image_processor_type` is missing"]);
    write("config.json", "{\"model_type\": \"dinov2\"}");
    let dino = Preprocessor::open(folder.path()).unwrap();
    assert_eq!(dino.resize, Some((Size::Shortest(20), Filter::Bicubic)));
    write("config.json", "{\"model_type\": \"vit_mae\"}");
    let mae = Preprocessor::open(folder.path()).unwrap();
    assert_eq!(mae.resize, Some((Size::Exact { height: 20, width: 20 }, Filter::Bilinear)));
    assert_ne!(mae.key(), dino.key());
    // Since transformers 5, CLIP's image processor is a field of `processor_config.json`.
    write("processor_config.json", r#"{"processor_class": "CLIPProcessor"}"#);
    assert_eq!(Preprocessor::open(folder.path()).unwrap(), mae);
    let both = r#"{"image_processor": {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 30}}}"#;
    write("processor_config.json", both);
    let clip = Preprocessor::open(folder.path()).unwrap();
    assert_eq!(clip.resize, Some((Size::Shortest(30), Filter::Bicubic)));
    std::fs::remove_file(folder.path().join("processor_config.json")).unwrap();
    for family in FAMILIES {
        write("config.json", &format!("{{\"model_type\": \"{}\"}}", family.model_type));
        let opened = Preprocessor::open(folder.path());
        assert!(opened.is_ok_and(|opened| opened.normalise.is_some()), "{}", family.name);
    }
}

#[test]
fn what_is_not_supported_names_its_field() {
    let vit = r#""image_processor_type": "ViTImageProcessor""#;
    for (field, rest) in [
        ("size", r#""size": 0"#),
        ("size", r#""size": -3"#),
        ("size", r#""size": {"longest_edge": 30}"#),
        ("size", r#""size": {"height": 30}"#),
        ("size", r#""size": 100000000"#),
        ("size", r#""size": null"#),
        ("crop_size", r#""do_center_crop": true"#),
        ("crop_size", r#""do_center_crop": true, "crop_size": {"shortest_edge": 3}"#),
        ("resample", r#""resample": 6"#),
        ("resample", r#""resample": "bicubic""#),
        ("do_resize", r#""do_resize": "yes""#),
        ("do_pad", r#""do_pad": true"#),
        ("rescale_factor", r#""rescale_factor": 0"#),
        ("rescale_factor", r#""rescale_factor": "1/255""#),
        ("image_mean", r#""image_mean": [0.5, 0.5]"#),
        ("image_std", r#""image_std": [0.5, 0, 0.5]"#),
    ] {
        let text = format!("{{{vit}, {rest}}}");
        let error = config::parse("here.json", text.as_bytes(), None).unwrap_err().to_string();
        assert!(error.contains(&format!("here.json: `{field}`")), "{rest}: {error}");
    }
    let other = br#"{"image_processor_type": "SamImageProcessor"}"#;
    let error = config::parse("here.json", other, Some("vit")).unwrap_err().to_string();
    assert!(error.contains("SamImageProcessor") && error.contains("BeitImageProcessor"), "{error}");
    for text in ["", "[]", "{", "3", "\u{0}", r#"{"image_std": [0.5, 1e999, 0.5]}"#] {
        assert!(matches!(config::parse("x", text.as_bytes(), None), Err(PreprocessError::Json { .. })));
    }
}

fn dino() -> Preprocessor {
    let text = std::fs::read(fixtures().join("processed/dinov2.json")).unwrap();
    config::parse("dinov2", &text, None).unwrap()
}

#[test]
fn another_size_keeps_the_proportions() {
    let small = dino().with_size(196).unwrap();
    assert_eq!(small.resize, Some((Size::Shortest(224), Filter::Bicubic)));
    assert_eq!((small.crop, small.output()), (Some((196, 196)), Some((196, 196))));
    assert_ne!(small.key(), dino().key());
    assert_eq!(small.with_size(224).unwrap(), dino());
    let vit = config::parse("x", br#"{"image_processor_type": "ViTImageProcessor"}"#, None).unwrap();
    assert_eq!(vit.with_size(98).unwrap().output(), Some((98, 98)));
    assert!(dino().with_size(0).is_err());
    assert!(dino().with_size(1 << 40).is_err());
    let raw = Preprocessor { resize: None, crop: None, cut: None, rescale: None, normalise: None };
    assert!(raw.with_size(20).unwrap_err().to_string().contains("do_resize"));
}

#[test]
fn a_patch_lies_where_it_was_cut() {
    // 512 x 300 becomes 436 x 256, of which the crop removes 106 pixels on the left and 16 above.
    let (x, y) = (512.0 / 436.0, 300.0 / 256.0);
    let rect = Rect { x: (28.0 + 106.0) * x, y: (14.0 + 16.0) * y, width: 14.0 * x, height: 14.0 * y };
    let (patch, size) = dino().prepared_rect("photo", (512, 300), rect).unwrap();
    assert_close("patch", [patch.x, patch.y, patch.width, patch.height], [28.0, 14.0, 14.0, 14.0], 1e-9);
    assert_eq!(size, (224, 224));
    // A white spot at the middle of that rectangle is seen in that patch and in no other.
    let (width, height) = (512, 300);
    let mut spot = Picture { width, height, rgb: vec![0; width * height * 3] };
    let (cx, cy) = ((rect.x + rect.width / 2.0) as usize, (rect.y + rect.height / 2.0) as usize);
    for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        spot.rgb[((cy + dy) * width + cx + dx) * 3..][..3].fill(255);
    }
    let seen = dino().picture(&Photo { name: "spot".into(), picture: spot }).unwrap();
    for (i, _) in seen.rgb.iter().enumerate().filter(|(_, v)| **v > 100) {
        let (row, col) = (i / 3 / seen.width / 14, i / 3 % seen.width / 14);
        assert_eq!((row, col), (1, 2));
    }
    assert!(seen.rgb.iter().any(|v| *v > 100));
    // Where the crop is larger than the picture, its first patch begins outside.
    let text = std::fs::read(fixtures().join("processed/padded.json")).unwrap();
    let padded = config::parse("padded", &text, None).unwrap();
    let rect = Rect { x: -2.0, y: -10.0, width: 5.0, height: 5.0 };
    let (patch, _) = padded.prepared_rect("photo", (21, 21), rect).unwrap();
    assert_eq!((patch.x, patch.y, patch.width), (0.0, 0.0, 5.0));
}

#[test]
fn thin_photographs_are_bounded() {
    // Its resized form would be 256 x 2,560,000; only the crop is computed.
    let pixels = dino().apply(&photo(1, 10_000)).unwrap();
    assert_eq!((pixels.height, pixels.width), (224, 224));
    let uncropped = Preprocessor { crop: None, ..dino() };
    assert_says(uncropped.apply(&photo(1, 10_000)).unwrap_err(), &["1 x 10000", "2560000"]);
    let within = Preprocessor {
        resize: Some((Size::Within { height: 10, width: 10 }, Filter::Bilinear)),
        ..uncropped
    };
    assert!(matches!(within.apply(&photo(1, 10_000)), Err(PreprocessError::Shape { to_width: 0, .. })));
    let none = Photo { name: "none".into(), picture: Picture::default() };
    assert!(matches!(dino().apply(&none), Err(PreprocessError::Shape { .. })));
}

fn refused(name: &str, bytes: &[u8]) -> String {
    let error = Photo::decode(name, bytes).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(name), "{text}");
    text
}

#[test]
fn hostile_files_are_refused_by_name() {
    assert!(refused("empty.png", b"").contains("empty file"));
    assert!(refused("notes.png", b"just some notes\n").contains("text (\"just some notes"));
    assert!(refused("page.jpg", b"%PDF-1.7 ...").contains("PDF"));
    assert!(refused("pointer.jpg", b"version https://git-lfs.github.com/spec/v1\n").contains("Git LFS"));
    assert!(refused("noise.jpg", &[7, 0, 200, 13, 9, 9]).contains("07, 00, c8"));
    assert!(refused("photo.heic", b"\0\0\0\x18ftypheic\0\0\0\0").contains("HEIC"));
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Photo::open(folder.path()), Err(ImageError::NoFile { found: "a folder", .. })));
    let error = Photo::open(folder.path().join("absent.png")).unwrap_err();
    assert!(matches!(error, ImageError::Read { .. }) && error.to_string().contains("absent.png"));
}

#[test]
fn bombs_are_refused_by_their_header() {
    let read = |name: &str| std::fs::read(fixtures().join("files").join(name)).unwrap();
    let bomb = |bytes: &[u8]| match Photo::decode("bomb", bytes) {
        Err(ImageError::TooLarge { width, height, .. }) => (width, height),
        other => panic!("{:?}", other.map(|photo| photo.width()).map_err(|error| error.to_string())),
    };
    let mut png = read("rgb.png");
    png[16..24].copy_from_slice(&[0, 0, 0xEA, 0x60, 0, 0, 0xEA, 0x60]);
    let mut crc = flate2::Crc::new();
    crc.update(&png[12..29]);
    png[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    assert_eq!(bomb(&png), (60_000, 60_000));
    assert_says(Photo::decode("bomb", &png).unwrap_err(), &["60000 x 60000"]);
    let mut jpeg = read("grey.jpg");
    let at = jpeg.windows(2).position(|w| w == [0xFF, 0xC0]).unwrap();
    jpeg[at + 5..at + 9].copy_from_slice(&[0xEA, 0x60, 0xEA, 0x60]);
    assert_eq!(bomb(&jpeg), (60_000, 60_000));
    let mut bmp = read("rgb.bmp");
    bmp[18..26].copy_from_slice(&[0x60, 0xEA, 0, 0, 0x60, 0xEA, 0, 0]);
    assert_eq!(bomb(&bmp), (60_000, 60_000));
    let mut gif = read("palette.gif");
    gif[6..10].copy_from_slice(&[0x60, 0xEA, 0x60, 0xEA]);
    assert_eq!(bomb(&gif), (60_000, 60_000));
}

#[test]
fn a_gif_whose_frame_is_empty_is_refused() {
    // A canvas of 10 x 10, and on it an interlaced frame of 0 x 0 with two colours.
    let mut gif = b"GIF89a\x0a\0\x0a\0\0\0\0".to_vec();
    gif.extend(b",\0\0\0\0\0\0\0\0\xc0\0\0\0\xff\xff\xff\x02\x02\x4c\x01\0;");
    assert!(refused("empty.gif", &gif).contains("0 x 0 pixels"));
}

#[test]
fn a_jpeg_of_endless_scans_is_refused() {
    let bytes = std::fs::read(fixtures().join("files/progressive.jpg")).unwrap();
    let at = bytes.windows(2).rposition(|pair| pair == [0xFF, 0xDA]).unwrap();
    let scan = &bytes[at..bytes.len() - 2];
    let many = [&bytes[..at], &scan.repeat(600), &[0xFF, 0xD9]].concat();
    assert!(refused("scans.jpg", &many).contains("scans"));
}

/// Every file cut short at many places.
#[test]
fn half_a_file_is_not_taken_for_a_whole_one() {
    let (mut refused_whole, mut files) = (Vec::new(), 0);
    for entry in std::fs::read_dir(fixtures().join("files")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = std::fs::read(&path).unwrap();
        files += 1;
        for k in 0..12 {
            let cut = bytes.len() * k / 24;
            if Photo::decode(name.as_str(), &bytes[..cut]).is_ok() {
                refused_whole.push(format!("{name} at {cut} of {}", bytes.len()));
            }
        }
    }
    assert!(files > 70, "{files} files");
    assert!(refused_whole.is_empty(), "half a file was taken for a whole one:\n{}", refused_whole.join("\n"));
}

/// Real photographs decode, and their normalised pixels give back the cropped picture.
#[test]
fn real_photographs_are_read() {
    let Some(photos) = real::data("imagenette10/val") else { return };
    let Some(backbone) = real::data("vit-tiny-patch16-224") else { return };
    let preprocessor = Preprocessor::open(&backbone).unwrap();
    let mut count = 0;
    for class in std::fs::read_dir(&photos).unwrap() {
        for file in std::fs::read_dir(class.unwrap().path()).unwrap().take(4) {
            let photo = Photo::open(file.unwrap().path()).unwrap();
            let pixels = preprocessor.apply(&photo).unwrap();
            assert_eq!((pixels.height, pixels.width), (224, 224));
            assert!(pixels.values.iter().all(|v| (-1.0..=1.0).contains(v)));
            assert_eq!(preprocessor.seen(&pixels), preprocessor.picture(&photo).unwrap());
            count += 1;
        }
    }
    assert!(count >= 20, "{count}");
}
