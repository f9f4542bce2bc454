//! Annotated regions in every layout: the patches they cover, errors, and the real annotations of CUB and Stanford Cars.

use ssmprobe::app::process_memory;
use ssmprobe::model::annotations::{Annotations, RegionSet};
use ssmprobe::model::backbone::preprocess::{Filter, Preprocessor, Size};
use ssmprobe::model::data;
use ssmprobe::model::data::image::{Photo, dimensions};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::regions::{Region, Regions, members};

use crate::close::assert_close;
use crate::faults;
use crate::real;
use crate::run::prelude::*;

/// Four by four patches of 8 pixels.
const GRID: Grid = Grid::new(4, 4);
/// Images are wider than high.
const WIDE: u32 = 64;
const HIGH: u32 = 48;

/// The shorter edge becomes 32 pixels and a square is cut: 64 x 48 pixels become 42 x 32, of which columns 5 to 37 stay.
fn preprocessor() -> Preprocessor {
    let resize = Some((Size::Shortest(32), Filter::Bilinear));
    Preprocessor { resize, crop: Some((32, 32)), cut: None, rescale: None, normalise: None }
}

fn write(path: PathBuf, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, bytes).expect("written");
}

fn photo(path: PathBuf, width: u32, height: u32) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    image::RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, 9]))
        .save(path)
        .expect("saved");
}

fn grey(path: PathBuf, (width, height): (u32, u32), value: impl Fn(u32, u32) -> u8) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    image::GrayImage::from_fn(width, height, |x, y| image::Luma([value(x, y)])).save(path).expect("saved");
}

/// Writes a PNG with a palette, which the image crate cannot, of `bits` per pixel.
fn indexed(
    path: PathBuf,
    (width, height): (u32, u32),
    bits: png::BitDepth,
    palette: &[[u8; 3]],
    index: impl Fn(u32, u32) -> u8,
) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let mut encoder = png::Encoder::new(fs::File::create(path).expect("a file"), width, height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(bits);
    encoder.set_palette(palette.as_flattened());
    let per_byte = 8 / bits as u32;
    let byte = |y: u32, first: u32| {
        let pixels =
            (first..width.min(first + per_byte)).map(|x| index(x, y) << (8 - bits as u32 * (x - first + 1)));
        pixels.fold(0, |byte, pixel| byte | pixel)
    };
    let bytes: Vec<u8> = (0..height)
        .flat_map(|y| (0..width).step_by(per_byte as usize).map(move |first| (y, first)))
        .map(|(y, first)| byte(y, first))
        .collect();
    encoder.write_header().and_then(|mut writer| writer.write_image_data(&bytes)).expect("written");
}

/// Three birds in CUB's layout: boxes of all three, parts of two, masks of two.
fn cub(root: &Path) {
    let at = |name: &str| root.join(name);
    write(at("classes.txt"), "1 001.Crane\n2 002.Heron\n");
    write(at("images.txt"), "1 001.Crane/a.png\n2 001.Crane/b.png\n3 002.Heron/c.png\n");
    write(at("image_class_labels.txt"), "1 1\n2 1\n3 2\n");
    write(at("train_test_split.txt"), "1 1\n2 0\n3 0\n");
    write(
        at("bounding_boxes.txt"),
        "1 16.0 12.0 24.0 24.0\n2 0.0 0.0 64.0 48.0\n3 8.0 6.0 40.0 30.0\n4 1.0 1.0 9.0 9.0\n",
    );
    write(at("parts/parts.txt"), "1 back\n2 left eye\n3 tail\n");
    write(
        at("parts/part_locs.txt"),
        "1 1 10.0 12.0 1\n1 2 40.0 30.0 1\n1 3 0.0 0.0 0\n2 1 5.0 40.0 1\n2 2 0.0 0.0 0\n2 3 63.0 47.0 1\n",
    );
    for name in ["001.Crane/a", "001.Crane/b", "002.Heron/c"] {
        photo(at("images").join(format!("{name}.png")), WIDE, HIGH);
    }
    // Grey levels count the votes of five annotators, as in CUB's masks: 51 is one vote.
    grey(at("segmentations/001.Crane/a.png"), (WIDE, HIGH), |x, _| if x < 32 { 255 } else { 51 });
    grey(at("segmentations/001.Crane/b.png"), (WIDE, HIGH), |_, _| 0);
}

fn read(annotations: &Annotations, image: &Path) -> Regions {
    annotations.of_image(image, &preprocessor(), GRID).expect("read").expect("something marked")
}

#[track_caller]
fn region<'a>(regions: &'a Regions, name: &str) -> &'a Region {
    let found = regions.list.iter().find(|region| region.name == name);
    found.unwrap_or_else(|| {
        panic!("no {name} among {:?}", regions.list.iter().map(|r| &r.name).collect::<Vec<_>>())
    })
}

/// The tokens of a region.
fn tokens(regions: &Regions, name: &str) -> Vec<usize> {
    let inside = members(&region(regions, name).cover);
    (0..inside.len()).filter(|i| inside[*i]).collect()
}

#[test]
fn masks_parts_and_boxes_of_cub_lie_on_the_patches_of_the_cropped_image() {
    let folder = TempDir::new().expect("a folder");
    let root = folder.path().join("CUB_200_2011");
    cub(&root);
    let dataset = data::open(&root).expect("a dataset");
    assert_eq!(dataset.layout, "cub");
    let annotations = Annotations::of_dataset(&root).expect("lists").expect("annotations");
    assert_eq!((annotations.marked(), annotations.unlisted), (3, 1), "image 4 is not listed");
    let image = |name: &str| root.join("images").join(name);
    // The same from the image alone, from its dataset, and with the dataset's folder given.
    assert_eq!(Annotations::beside(&image("001.Crane/a.png")), Some(root.clone()));
    let a = read(&annotations, &image("001.Crane/a.png"));
    assert_eq!(read(&Annotations::open(&root).expect("annotations"), &image("001.Crane/a.png")), a);
    let names: Vec<&str> = a.list.iter().map(|region| region.name.as_str()).collect();
    assert_eq!(names, ["object", "bounding box", "back", "left eye"], "the tail is not visible");
    // (10, 12) becomes (1.6, 8), where the second row begins, (40, 30) becomes (21.3, 20).
    assert_eq!((tokens(&a, "back"), tokens(&a, "left eye")), (vec![4], vec![10]));
    // In the crop, the box spans columns 5.5 to 21.25 and rows 8 to 24.
    let across = [0.3125, 1.0, 0.65625, 0.0];
    let expected =
        (0..16).map(|i| if [1, 2].contains(&(i / 4)) { across[i % 4] } else { 0.0 }).collect::<Vec<_>>();
    assert_close("the box", region(&a, "bounding box").cover.clone(), expected, 1e-12);
    // The left half of the mask ends at 16 of the crop; one vote of five beyond it.
    let object = &region(&a, "object").cover;
    assert_eq!(&a.object, object);
    for row in 0..4 {
        assert_close("inside", object[4 * row], 1.0, 1e-9);
        assert_close("outside", object[4 * row + 3], 0.2, 1e-9);
    }
    assert_eq!(tokens(&a, "object"), [0, 1, 4, 5, 8, 9, 12, 13]);
    // (5, 40) is cut off, (63, 47) too; the mask of b is empty.
    let b = read(&annotations, &image("001.Crane/b.png"));
    assert_eq!((b.cropped.join(", "), b.empty.join(", ")), ("back, tail".to_owned(), "object".to_owned()));
    assert_eq!(tokens(&b, "bounding box").len(), 16);
    let c = read(&annotations, &image("002.Heron/c.png"));
    assert_eq!(c.list.len(), 1, "a box alone");
    assert_eq!(c.object, region(&c, "bounding box").cover, "which is then the object");
    // An image that was resized and its annotations not: b and its box of 64 x 48, and the tail at (63, 47).
    let warnings = |width, height| {
        photo(image("001.Crane/b.png"), width, height);
        grey(root.join("segmentations/001.Crane/b.png"), (width, height), |_, _| 255);
        let mut set = RegionSet::default();
        set.read(&annotations, &[Some(&image("001.Crane/b.png"))], &preprocessor(), GRID);
        set.warnings(true).concat()
    };
    assert!(!warnings(63, 47).contains("smaller"), "a pixel is none");
    assert_says(
        warnings(56, 42),
        &["an image is smaller than its marks: bounding box, tail of ", "b.png; if images were resized"],
    );
    // One among a hundred is a slip.
    let (b, c) = (image("001.Crane/b.png"), image("002.Heron/c.png"));
    let hundred: Vec<Option<&Path>> = [&b].into_iter().chain([&c; 99]).map(|file| Some(&**file)).collect();
    let mut set = RegionSet::default();
    set.read(&annotations, &hundred, &preprocessor(), GRID);
    assert!(set.known() == 100 && !set.warnings(true).concat().contains("smaller"));
}

#[test]
fn a_mask_lies_on_the_tokens_of_images_that_are_read_at_another_size() {
    // Of 48 x 48 pixels the last patch of 8 x 8 is the object; the backbone's own size is 32.
    let folder = TempDir::new().expect("a folder");
    let (root, size) = (folder.path(), (48, 48));
    photo(root.join("val/bird/a.png"), 48, 48);
    grey(root.join("masks/val/bird/a.png"), size, |x, y| if x >= 40 && y >= 40 { 255 } else { 0 });
    let backbone = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/inspect/backbone");
    let preprocessor = Preprocessor::open(backbone).expect("a file").with_size(48).expect("a size");
    let annotations = Annotations::of_dataset(root).expect("read").expect("masks");
    let image = root.join("val/bird/a.png");
    let found = annotations.of_image(&image, &preprocessor, Grid::new(6, 6)).expect("read").expect("a mask");
    let mut expected = vec![0.0; 36];
    expected[35] = 1.0;
    assert_eq!((&found.object, &found.list[0].cover), (&expected, &expected));
    assert_eq!(Annotations::beside(&image), Some(root.to_owned()));
    assert_eq!(Annotations::beside(&root.join("val/bird/b.png")), None);
    fs::rename(root.join("masks/val/bird/a.png"), root.join("masks/val/bird/a.PNG")).expect("renamed");
    assert_eq!(Annotations::beside(&image), Some(root.to_owned()), "in capitals");
    let again = annotations.of_image(&image, &preprocessor, Grid::new(6, 6)).expect("read");
    assert_eq!(again, Some(found));
    // A folder of masks outside the dataset, opened by itself.
    let other = folder.path().join("elsewhere");
    grey(other.join("bird/a.png"), size, |_, y| if y < 24 { 255 } else { 0 });
    let found = Annotations::open(&other).expect("masks").of_image(&image, &preprocessor, Grid::new(2, 1));
    assert_eq!(found.expect("read").expect("a mask").object, [1.0, 0.0]);
}

/// Each label of a mask, a palette index or a small grey level, is a region of its own; 0 and 255 are none.
#[test]
fn labels_of_a_mask_are_regions() {
    let folder = TempDir::new().expect("a folder");
    let (images, masks) = (folder.path().join("images"), folder.path().join("labels"));
    let size = (32, 32);
    for name in ["palette", "shared", "greys", "deep", "ones", "soft"] {
        photo(images.join(format!("{name}.png")), 32, 32);
    }
    // Quarters with the labels 3, 7, 0 (none) and 255 (undecided).
    let quarter = |x: u32, y: u32| [[3, 7], [0, 255]][(y / 16) as usize][(x / 16) as usize];
    // Labels may share a colour.
    let palette: Vec<[u8; 3]> = (0..=255_u8).map(|i| [i.wrapping_mul(37), i / 16, 0]).collect();
    let shared = [[200, 0, 0]; 16];
    indexed(masks.join("palette.png"), size, png::BitDepth::Eight, &palette, quarter);
    // One byte holds the last pixel of label 3 and the first of label 7.
    let left = |x: u32, y: u32| quarter((x + 1).min(31), y) % 255;
    indexed(masks.join("shared.png"), size, png::BitDepth::Four, &shared, left);
    grey(masks.join("greys.png"), size, quarter);
    let deep = |name: &str, times: u16| {
        let grey = |x: u32, y: u32| image::Luma([u16::from(quarter(x, y)) * times]);
        image::ImageBuffer::from_fn(32, 32, grey).save(masks.join(name)).expect("saved");
    };
    deep("deep.png", 1);
    grey(masks.join("ones.png"), size, |x, _| u8::from(x < 8));
    grey(masks.join("soft.png"), size, |x, _| if x < 16 { 128 } else { 0 });
    write(masks.join("names.txt"), "3 head\n");
    let annotations = Annotations::open(&masks).expect("masks");
    for name in ["palette", "shared", "greys", "deep"] {
        let found = read(&annotations, &images.join(format!("{name}.png")));
        let names: Vec<&str> = found.list.iter().map(|region| region.name.as_str()).collect();
        assert_eq!(names, ["head", "region 7"], "{name}");
        assert_eq!(tokens(&found, "head"), [0, 1, 4, 5], "{name}");
        assert_eq!(tokens(&found, "region 7"), [2, 3, 6, 7], "{name}");
        let half: Vec<f64> = (0..16).map(|i| f64::from(u8::from(i < 8))).collect();
        assert_eq!(found.object, half, "all of them are the object");
    }
    let shared = read(&annotations, &images.join("shared.png"));
    assert_close("a column of eight", region(&shared, "region 7").cover[1], 0.125, 1e-9);
    assert_eq!(tokens(&read(&annotations, &images.join("ones.png")), "region 1"), [0, 4, 8, 12]);
    // A mask without labels is empty, whatever the palette's colour of index 0.
    indexed(masks.join("ones.png"), size, png::BitDepth::Eight, &palette, |_, _| 0);
    let none = read(&annotations, &images.join("ones.png"));
    assert_eq!((none.empty.join(", "), tokens(&none, "object")), ("object".to_owned(), vec![]));
    let soft = read(&annotations, &images.join("soft.png"));
    assert_close("half", region(&soft, "object").cover[0], 128.0 / 255.0, 1e-9);
    // Shares among labels are told, as ADE20K's masks with a label above 50 are read so without names.
    let files = ["palette", "soft"].map(|name| images.join(format!("{name}.png")));
    let mut mixed = RegionSet::default();
    mixed.read(&annotations, &files.each_ref().map(|file| Some(file.as_path())), &preprocessor(), GRID);
    let said = mixed.warnings(false).concat();
    assert!(
        said.ends_with("soft.png; if its greys are labels, name them in `names.txt` beside the masks"),
        "{said}"
    );
    // Greys above 50 are labels where they have names, beside others up to 50.
    write(masks.join("names.txt"), "3 head\n128 river\n");
    grey(masks.join("soft.png"), size, |x, _| if x < 16 { 128 } else { 7 });
    let named = Annotations::open(&masks).expect("masks");
    let river = read(&named, &images.join("soft.png"));
    assert_eq!(tokens(&river, "river"), [0, 1, 4, 5, 8, 9, 12, 13]);
    deep("soft.png", 4);
    let why = annotations.of_image(&images.join("soft.png"), &preprocessor(), GRID).expect_err("no label");
    assert!(why.contains("soft.png: has 16 bits per pixel and greys up to 1020; expected labels"), "{why}");
    // What is transparent has any colour in a cut-out; black is the background, visible or not.
    let cut_out = |hidden: u8| {
        let pixel = |x: u32, _: u32| image::LumaA(if x < 16 { [255, 255] } else { [hidden, 0] });
        image::GrayAlphaImage::from_fn(32, 32, pixel).save(masks.join("soft.png")).expect("saved");
        annotations.of_image(&images.join("soft.png"), &preprocessor(), GRID)
    };
    assert_says(
        cut_out(255).expect_err("hidden white"),
        &["soft.png: has transparent pixels", "save it in grey"],
    );
    let found = cut_out(0).expect("read").expect("a mask");
    assert_eq!(tokens(&found, "object"), [0, 1, 4, 5, 8, 9, 12, 13]);
    write(masks.join("names.txt"), "256 head\n");
    let why = Annotations::open(&masks).expect_err("no label").to_string();
    assert!(why.contains("names.txt, line 1") && why.contains("a label from 1 to 254"), "{why}");
}

#[test]
fn the_pictures_of_many_labels_are_not_all_in_memory() {
    faults::apart("annotations::the_pictures_of_many_labels_are_not_all_in_memory", || {
        let folder = TempDir::new().expect("a folder");
        let (image, masks, side) = (folder.path().join("a.png"), folder.path().join("labels"), 762);
        photo(image.clone(), side, side);
        let label = |x: u32, _: u32| (x / 3 + 1) as u8; // 1 to 254
        indexed(masks.join("a.png"), (side, side), png::BitDepth::Eight, &[[0; 3]; 255], label);
        let annotations = Annotations::open(&masks).expect("masks");
        if !process_memory::reset_peak() {
            return crate::skip::because("this system forgets no peak");
        }
        let before = process_memory::resident().expect("memory");
        assert_eq!(read(&annotations, &image).list.len(), 254);
        let taken = process_memory::peak().expect("memory").saturating_sub(before);
        assert!(taken < 100 << 20, "{taken} bytes; all pictures together take 440 MB");
    });
}

#[test]
fn what_is_missing_or_broken_is_named_and_counted_and_nothing_else_is_lost() {
    let folder = TempDir::new().expect("a folder");
    let (images, masks) = (folder.path().join("images"), folder.path().join("masks"));
    let all = ["good", "none", "none2", "size", "colour", "torn", "empty", "beyond"];
    let files: Vec<PathBuf> = all.iter().map(|name| images.join(format!("{name}.png"))).collect();
    files.iter().for_each(|file| photo(file.clone(), WIDE, HIGH));
    let size = (WIDE, HIGH);
    let left = |x: u32, _: u32| if x < 32 { 255 } else { 0 };
    grey(masks.join("good.png"), size, left);
    grey(masks.join("size.png"), (HIGH, HIGH), left);
    photo(masks.join("colour.png"), WIDE, HIGH);
    write(masks.join("torn.png"), &fs::read(masks.join("good.png")).expect("bytes")[..60]);
    grey(masks.join("empty.png"), size, |_, _| 0);
    grey(masks.join("beyond.png"), size, |x, _| if x < 4 { 255 } else { 0 });
    let annotations = Annotations::open(&masks).expect("masks");
    let mut set = RegionSet::default();
    let paths: Vec<Option<&Path>> = files.iter().map(|file| Some(file.as_path())).chain([None]).collect();
    // In two parts, as a job reads them.
    set.read(&annotations, &paths[..3], &preprocessor(), GRID);
    set.read(&annotations, &paths[3..], &preprocessor(), GRID);
    let there: Vec<bool> = set.of.iter().map(Option::is_some).collect();
    assert_eq!(there, [true, false, false, false, false, false, true, true, false]);
    assert_eq!(set.known(), 3);
    let warnings = set.warnings(false);
    let [missing, broken, empty, beyond] = &warnings[..] else { panic!("{warnings:#?}") };
    assert!(
        missing.starts_with("2 images have no mask or mark; the first: ") && missing.ends_with("none.png")
    );
    assert!(
        broken.starts_with("3 masks cannot be used; the first: ") && broken.contains("size.png"),
        "{broken}"
    );
    assert_says(broken, &["is 48 x 48 pixels, but its image is 64 x 48", "resize it"]);
    assert!(empty.contains("a mask is empty: object of") && empty.ends_with("empty.png"), "{empty}");
    assert!(beyond.contains("lies beyond the crop: object of") && beyond.ends_with("beyond.png"), "{beyond}");
    let why =
        |name: &str| annotations.of_image(&images.join(name), &preprocessor(), GRID).expect_err("broken");
    assert!(why("colour.png").contains("is in colour without a palette; save it"), "{}", why("colour.png"));
    assert!(why("torn.png").contains("torn.png"), "{}", why("torn.png"));
    // Where no image has a mask, none is missing, unless the folder of masks was named.
    let mut none = RegionSet::default();
    none.read(&annotations, &paths[1..2], &preprocessor(), GRID);
    assert!(none.warnings(false).is_empty());
    assert!(none.warnings(true)[0].starts_with("an image has no mask or mark: "));
    // Nothing is said of a mask that an image has twice, but of one that two images have.
    let again = images.join("more/good.png");
    photo(again.clone(), WIDE, HIGH);
    let mut twice = RegionSet::default();
    twice.read(&annotations, &[paths[0]; 2], &preprocessor(), GRID);
    assert!(twice.warnings(true).is_empty());
    twice.read(&annotations, &[Some(&again)], &preprocessor(), GRID);
    let warnings = twice.warnings(true);
    let [shared] = &warnings[..] else { panic!("{warnings:#?}") };
    assert!(shared.starts_with("a mask is that of two images: "), "{shared}");
    assert_says(
        shared,
        &["masks/good.png of ", "images/good.png and ", "images/more/good.png; put masks into"],
    );
    // A path that is no folder, or a folder without masks, is refused.
    for (path, said) in [
        (folder.path().join("absent"), "is not a folder"),
        (folder.path().join("texts"), "contains no masks"),
    ] {
        if said.starts_with("contains") {
            write(path.join("a.txt"), "no mask");
        }
        assert_says(Annotations::open(&path).expect_err("no masks"), &[said]);
    }
}

/// A malformed line is named by its number, whatever is wrong with it.
#[test]
fn a_broken_line_of_cub_is_named() {
    for (file, line, said) in [
        ("bounding_boxes.txt", "1 16.0 12.0 24.0", "an image, x, y, width and height"),
        ("bounding_boxes.txt", "1 16.0 12.0 0.0 24.0", "an image, x, y, width and height"),
        ("bounding_boxes.txt", "1 16.0 12.0 24.0 24.0 7.0", "an image, x, y, width and height"),
        ("parts/part_locs.txt", "1 9 10.0 10.0 1", "a part of parts.txt"),
        ("parts/part_locs.txt", "1 1.5 10.0 10.0 1", "a part of parts.txt"),
        ("parts/part_locs.txt", "1 1 10.0 NaN 1", "a part of parts.txt"),
        ("parts/part_locs.txt", "1 1 10.0 10.0 2", "1 (visible) or 0"),
        ("parts/part_locs.txt", "1.5 1 10.0 10.0 1", "an image"),
    ] {
        let folder = TempDir::new().expect("a folder");
        cub(folder.path());
        let before = fs::read_to_string(folder.path().join(file)).expect("a list");
        let count = before.lines().count();
        write(folder.path().join(file), format!("{before}{line}\n"));
        let why = Annotations::of_dataset(folder.path()).expect_err(line).to_string();
        let place = format!("{}, line {}", Path::new(file).display(), count + 1);
        assert!(why.contains(&place) && why.contains(said) && why.contains(line), "{why}");
    }
}

/// The size read from a photograph's header is that of the decoded image, also where its orientation tag turns it.
#[test]
fn the_size_of_every_image_is_that_of_its_pixels() {
    let folder = root().join("tests/fixtures/images/files");
    let mut turned = 0;
    for entry in fs::read_dir(folder).expect("the fixtures") {
        let path = entry.expect("an entry").path();
        let Ok(photo) = Photo::open(&path) else { continue };
        let found = dimensions(&path).expect("a size");
        assert_eq!(found, (photo.width(), photo.height()), "{}", path.display());
        turned += usize::from(path.to_string_lossy().contains("turn"));
    }
    assert!(turned > 8);
}

#[test]
fn every_part_and_box_of_the_real_cub_is_read() {
    let Some(root) = real::data("annotations/CUB_200_2011_full") else { return };
    let annotations = Annotations::of_dataset(&root).expect("lists").expect("annotations");
    assert_eq!((annotations.marked(), annotations.unlisted), (11_788, 0));
    let counts = annotations.counts();
    assert_eq!(counts["bounding box"], 11_788);
    let parts = fs::read_to_string(root.join("parts/part_locs.txt")).expect("a list");
    assert_eq!(parts.lines().count(), 11_788 * 15);
    let names = fs::read_to_string(root.join("parts/parts.txt")).expect("a list");
    for line in names.lines() {
        let (number, name) = line.split_once(' ').expect("a number and a name");
        let visible = parts.lines().filter(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            words[1] == number && words[4] == "1"
        });
        assert_eq!(counts[name], visible.count(), "{name}");
    }
    assert_eq!(counts.len(), 16);
}

#[test]
fn every_box_of_the_real_cars_is_read() {
    let Some(root) = real::data("annotations/stanford_cars") else { return };
    let annotations = Annotations::of_dataset(&root).expect("lists").expect("annotations");
    assert_eq!((annotations.marked(), annotations.counts()["bounding box"]), (8_144 + 8_041, 16_185));
}

/// The boxes of real photographs lie in them, and every bird has a patch.
#[test]
fn every_bird_of_the_real_photographs_has_a_patch() {
    let Some(root) = real::data("cub50/CUB_200_2011") else { return };
    let dataset = data::open(&root).expect("a dataset");
    let annotations = Annotations::of_dataset(&root).expect("lists").expect("annotations");
    assert_eq!(annotations.marked(), dataset.samples.len());
    let files: Vec<&Path> = dataset.samples.iter().step_by(7).map(|sample| &*sample.source.path).collect();
    let paths: Vec<Option<&Path>> = files.iter().copied().map(Some).collect();
    let mut set = RegionSet::default();
    let preprocessor = Preprocessor {
        resize: Some((Size::Shortest(224), Filter::Bicubic)),
        crop: Some((224, 224)),
        ..preprocessor()
    };
    set.read(&annotations, &paths, &preprocessor, Grid::new(14, 14));
    assert_eq!((set.warnings(true), set.of.len()), (Vec::new(), files.len()));
    for (file, regions) in files.iter().zip(&set.of) {
        let cover = &regions.as_ref().expect("a box").object;
        let share = cover.iter().sum::<f64>() / 196.0;
        assert!(
            members(cover).contains(&true) && (0.005..=1.0).contains(&share),
            "{}: {share}",
            file.display()
        );
    }
}
