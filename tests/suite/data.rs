//! Small datasets of every layout in a temporary folder, and the real ones where they are installed.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ssmprobe::model::data::mat::{self, MatError, Value};
use ssmprobe::model::data::{Check, Dataset, LAYOUTS, ONE_CLASS, Split, UNSEEN, describe, open};
use ssmprobe::model::io::columns::{self, Column, Values};

use crate::real;
use crate::run::root;

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures").join(name)
}

/// A folder to build a dataset in.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }

    /// Writes a valid image whose bytes no other path has.
    fn image(&self, path: &str) -> &Self {
        let mut png = std::fs::read(fixture("images/files/one.png")).unwrap();
        png.extend(path.as_bytes()); // after the last chunk, which decoders ignore
        self.write(path, png)
    }

    fn images(&self, paths: &[&str]) -> &Self {
        for path in paths {
            self.image(path);
        }
        self
    }

    fn copy(&self, from: &str, to: &str) -> &Self {
        self.write(to, std::fs::read(fixture(from)).unwrap())
    }
}

/// Path below the root, class name and split of every sample.
fn listing(dataset: &Dataset) -> Vec<(String, &str, Split)> {
    let root = dataset.root.to_str().unwrap();
    let samples = dataset.samples.iter();
    samples
        .map(|s| {
            let name = s.source.to_string();
            let name = name.strip_prefix(root).unwrap_or(&name).trim_start_matches('/').replace('\\', "/");
            (name, dataset.classes[s.class].as_str(), s.split)
        })
        .collect()
}

/// The error of opening a folder that is no dataset.
fn why(path: &Path) -> String {
    open(path).map(|dataset| dataset.layout).unwrap_err().to_string()
}

/// One validation image has no label, which a note says.
fn assert_one_is_unlabelled(data: &Dataset) {
    let says =
        |note: &String| note.starts_with("validation images that have no label") && note.ends_with(": 1");
    assert!(data.notes.iter().any(says), "{:?}", data.notes);
}

#[test]
fn image_folders_with_splits() {
    let tree = Tree::new();
    tree.images(&[
        "train/dog/b.png",
        "train/dog/a.JPG",
        "train/cat/deep/er/x.png",
        "valid/dog/v.png",
        "Test/emu/t.png",
    ])
    .write("train/dog/notes.txt", "no image")
    .write("train/dog/.DS_Store", "hidden")
    .image("train/cat/no-ending")
    .image("Test/loose.png");
    std::fs::create_dir_all(tree.path().join("train/empty")).unwrap();
    let data = open(tree.path()).unwrap();
    assert_eq!((data.layout, data.skipped), ("folder", 1));
    assert_eq!(data.classes, ["cat", "dog", "emu"]);
    assert_eq!(
        listing(&data),
        [
            ("Test/emu/t.png".into(), "emu", Split::Test),
            ("train/cat/deep/er/x.png".into(), "cat", Split::Train),
            ("train/cat/no-ending".into(), "cat", Split::Train),
            ("train/dog/a.JPG".into(), "dog", Split::Train),
            ("train/dog/b.png".into(), "dog", Split::Train),
            ("valid/dog/v.png".into(), "dog", Split::Val),
        ]
    );
    assert_eq!(data.held_out(), Some(Split::Test));
    assert!(data.notes.iter().any(|note| note.contains("empty")), "{:?}", data.notes);
    assert!(
        data.notes.iter().any(|note| note.ends_with("outside class folders were left out: 1")),
        "{:?}",
        data.notes
    );
    let unseen = format!("no training images: 1 (emu): {UNSEEN}");
    assert!(data.notes.iter().any(|note| note.ends_with(&unseen)), "{:?}", data.notes);
    for name in ["a", "b", "c", "d", "f"] {
        std::fs::create_dir_all(tree.path().join("train").join(name)).unwrap();
    }
    let notes = open(tree.path()).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("left out: 6 (") && note.ends_with(", ...)")), "{notes:?}");
    // One folder deeper, as archives unpack; opening twice gives the same.
    let outer = Tree::new();
    std::fs::rename(tree.path(), outer.path().join("set-1.0")).unwrap();
    let nested = open(outer.path()).unwrap();
    assert_eq!((nested.name.as_str(), nested.samples.len()), ("set-1.0", 6));
    assert_eq!(nested, open(outer.path()).unwrap());
    // It is looked for among few folders alone.
    let more = |number: usize| std::fs::create_dir(outer.path().join(number.to_string())).unwrap();
    (1..16).for_each(more);
    assert_eq!(nested, open(outer.path()).unwrap());
    more(16);
    assert!(why(outer.path()).contains("not a dataset of a known layout"));
}

#[test]
fn class_folders_are_split_by_class() {
    let tree = Tree::new();
    for class in ["a", "b", "single"] {
        for i in 0..if class == "single" { 1 } else { 10 } {
            tree.image(&format!("{class}/{i}.png"));
        }
    }
    let data = open(tree.path()).unwrap();
    assert_eq!((data.layout, data.classes.len(), data.samples.len()), ("classes", 3, 21));
    let held = |data: &Dataset, class: usize| {
        data.samples.iter().filter(|s| s.class == class && s.split == Split::Test).count()
    };
    assert_eq!([0, 1, 2].map(|class| held(&data, class)), [2, 2, 0]);
    assert_eq!(open(tree.path()).unwrap(), data);
    assert!(data.notes.iter().any(|note| note.contains("20 %") && note.contains("seed 0")));
    // A test folder alone is for testing.
    let alone = Tree::new();
    alone.images(&["val/a/1.png", "val/b/2.png"]);
    let alone = open(alone.path()).unwrap();
    assert_eq!((alone.layout, alone.count(Split::Train), alone.held_out()), ("folder", 0, Some(Split::Val)));
    assert!(alone.notes.iter().any(|note| note.contains("no training images")), "{:?}", alone.notes);
    assert!(alone.notes.iter().all(|note| !note.contains("of 1 class")), "{:?}", alone.notes);
    // A train folder alone is split likewise.
    let alone = Tree::new();
    alone.images(&["train/a/1.png", "train/a/2.png", "train/b/1.png", "train/b/2.png"]);
    let alone = open(alone.path()).unwrap();
    assert_eq!((alone.count(Split::Train), alone.count(Split::Test)), (2, 2));
    // Of one class, there is nothing to tell apart.
    let one = Tree::new();
    one.images(&["train/a/1.png", "val/a/2.png"]);
    assert_eq!(open(one.path()).unwrap().notes, [format!("all images are of 1 class: {ONE_CLASS}")]);
}

fn cub() -> Tree {
    let tree = Tree::new();
    tree.write("CUB/images.txt", "2 b/two.png\n1 a/one.png\n3 b/three.png\n")
        .write("CUB/image_class_labels.txt", "1 1\n2 7\n3 7\n")
        .write("CUB/train_test_split.txt", "1 1\n2 0\n3 1\n")
        .write("CUB/classes.txt", "1 001.Black_footed_Albatross\n7 007.Parakeet_Auklet\n")
        .images(&["CUB/images/a/one.png", "CUB/images/b/two.png", "CUB/images/b/three.png"]);
    tree
}

#[test]
fn birds() {
    let tree = cub();
    let data = open(tree.path()).unwrap();
    assert_eq!((data.layout, data.name.as_str()), ("cub", "CUB"));
    assert_eq!(
        listing(&data),
        [
            ("images/a/one.png".into(), "001.Black_footed_Albatross", Split::Train),
            ("images/b/three.png".into(), "007.Parakeet_Auklet", Split::Train),
            ("images/b/two.png".into(), "007.Parakeet_Auklet", Split::Test),
        ]
    );
    // An editor of Windows puts a byte-order mark before the first line.
    let marked = cub();
    marked.write("CUB/images.txt", "\u{feff}2 b/two.png\n1 a/one.png\n3 b/three.png\n");
    assert_eq!(listing(&open(marked.path()).unwrap()), listing(&data));
    for (file, text, says) in [
        ("train_test_split.txt", "1 1\n2 2\n3 1\n", ["line 2", "\"2\"", "1 (training)"]),
        ("train_test_split.txt", "1 1\n3 1\n", ["train_test_split.txt", "no line", "image 2"]),
        ("image_class_labels.txt", "1 1\n2 7\n3 8\n", ["line 3", "\"8\"", "classes.txt"]),
        ("images.txt", "1 ../../secret.png\n", ["line 1", "secret", "inside images/"]),
        ("images.txt", "1 /etc/passwd\n", ["line 1", "passwd", "inside images/"]),
        ("images.txt", "one a/one.png\n", ["line 1", "one a/one.png", "number"]),
        ("images.txt", "1 a/one.png\n1 b/two.png\n", ["line 2", "b/two", "once"]),
        ("images.txt", "1\n", ["line 1", "\"1\"", "value"]),
        ("images.txt", "", ["no labelled image", "CUB", "images.txt"]),
    ] {
        let tree = cub();
        tree.write(&format!("CUB/{file}"), text);
        let error = why(tree.path());
        assert!(says.iter().all(|says| error.contains(says)), "{text:?}: {error}");
    }
    let tree = cub();
    std::fs::remove_file(tree.path().join("CUB/classes.txt")).unwrap();
    assert!(why(tree.path()).contains("classes.txt: is missing"));
    let tree = cub();
    tree.write("CUB/classes.txt", [0xFF, 0xFE, 0x31]);
    assert!(why(tree.path()).contains("not UTF-8"));
}

#[test]
fn cars() {
    let tree = Tree::new();
    for file in ["cars_meta.mat", "cars_train_annos.mat", "cars_test_annos.mat"] {
        tree.copy(&format!("mat/cars/{file}"), &format!("stanford/devkit/{file}"));
    }
    tree.images(&["stanford/cars_train/cars_train/00001.jpg", "stanford/cars_test/00001.jpg"]);
    let data = open(tree.path()).unwrap();
    assert_eq!((data.layout, data.samples.len(), data.count(Split::Test)), ("cars", 4, 0));
    assert_eq!(data.classes, ["AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Ford E-Séries 2009"]);
    assert!(
        data.notes.iter().any(|n| n.contains("3 test images") && n.contains("withlabels")),
        "{:?}",
        data.notes
    );
    assert_eq!(
        listing(&data)[0],
        ("cars_train/cars_train/00001.jpg".into(), "Acura RL Sedan 2012", Split::Train)
    );
    // With the labels, in torchvision's place for them.
    tree.copy("mat/cars/cars_test_annos_withlabels.mat", "stanford/cars_test_annos_withlabels.mat");
    let data = open(tree.path().join("stanford")).unwrap();
    assert_eq!(
        (data.count(Split::Train), data.count(Split::Test), data.held_out()),
        (4, 3, Some(Split::Test))
    );
    assert_eq!(listing(&data)[1], ("cars_test/00002.jpg".into(), "Ford E-Séries 2009", Split::Test));
    assert!(data.notes.is_empty(), "{:?}", data.notes);
    // The devkit alone finds images beside it, and says so if there are none.
    let kit = tree.path().join("stanford/devkit");
    let is_without_images =
        |data: &Dataset| data.notes.concat().contains("the labels are present, the images are not");
    let data = open(&kit).unwrap();
    assert_eq!(data.samples.len(), 4);
    assert!(data.samples[0].source.to_string().contains("cars_train") && !is_without_images(&data));
    std::fs::rename(tree.path().join("stanford/cars_train"), tree.path().join("stanford/away")).unwrap();
    assert!(is_without_images(&open(&kit).unwrap()));
    tree.write("stanford/devkit/cars_meta.mat", "not a mat file");
    assert!(why(tree.path()).contains("cars_meta.mat: is not a MATLAB version 5 file"));
    tree.copy("mat/kinds.mat", "stanford/devkit/cars_meta.mat");
    let error = why(tree.path());
    assert!(error.contains("no variable `class_names`") && error.contains("double"), "{error}");
}

#[test]
fn imagenet_with_the_devkit() {
    let tree = Tree::new();
    let image = |i: usize| format!("val/ILSVRC2012_val_{i:08}.JPEG");
    for i in 1..=4 {
        tree.image(&image(i));
    }
    tree.write("ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", "3\n1\n2\n");
    assert!(why(tree.path()).contains("meta.mat: is missing"));
    tree.copy("mat/imagenet/meta.mat", "ILSVRC2012_devkit_t12/data/meta.mat");
    tree.image("train/n01440764/x.JPEG");
    let data = open(tree.path()).unwrap();
    assert_eq!(data.layout, "imagenet");
    // With the devkit's words for them.
    let [tench, setter, fox] = ["tench (n01440764)", "English setter (n02100735)", "kit fox (n02119789)"];
    assert_eq!(data.classes, [tench, setter, fox]);
    assert_eq!(
        listing(&data),
        [
            ("train/n01440764/x.JPEG".into(), tench, Split::Train),
            (image(1), tench, Split::Val),
            (image(2), fox, Split::Val),
            (image(3), setter, Split::Val),
        ]
    );
    assert_one_is_unlabelled(&data);
    // With some of the images missing, classes keep their numbers.
    std::fs::remove_file(tree.path().join(image(3))).unwrap();
    let part = open(tree.path()).unwrap();
    assert_eq!(part.classes, data.classes, "n02100735 has no image");
    assert_eq!(part.samples.last().map(|sample| sample.class), Some(2));
    tree.write("ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", "3\n99\n");
    let error = why(tree.path());
    assert!(error.contains("line 2") && error.contains("\"99\"") && error.contains("meta.mat"), "{error}");
}

#[test]
fn imagenet_from_kaggle() {
    let tree = Tree::new();
    let image = |i: usize| format!("ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_{i:08}.JPEG");
    for i in 1..=2 {
        tree.image(&image(i));
    }
    let header = "ImageId,PredictionString\n";
    let rows = "ILSVRC2012_val_00000002,n01751748 111 108 370 318 \nILSVRC2012_val_00000001,n09193705 9 9 9 9 n09193705 1 1 1 1 \n";
    tree.write("LOC_val_solution.csv", format!("{header}{rows}"));
    let data = open(tree.path()).unwrap();
    let expected = [(image(1), "n09193705", Split::Val), (image(2), "n01751748", Split::Val)];
    assert_eq!(listing(&data), expected);
    assert!(data.notes.iter().any(|note| note.contains("no train folder")), "{:?}", data.notes);
    // The whole archive has boxes too, in folders that come before those of the images.
    tree.write("ILSVRC/Annotations/CLS-LOC/val/ILSVRC2012_val_00000001.xml", "<annotation>");
    tree.write("ILSVRC/Annotations/CLS-LOC/train/n01440764/n01440764_1.xml", "<annotation>");
    tree.image("ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_1.JPEG");
    let whole = open(tree.path()).unwrap();
    assert_eq!((whole.count(Split::Train), whole.count(Split::Val), whole.skipped), (1, 2, 0));
    tree.write("LOC_synset_mapping.txt", "n01751748 sea snake\nn01440764 tench, Tinca tinca\n");
    let named = open(tree.path()).unwrap();
    assert_eq!(
        named.classes,
        ["tench (n01440764)", "sea snake (n01751748)", "n09193705"],
        "one is not listed"
    );
    let classes = |data: &Dataset| data.samples.iter().map(|sample| sample.class).collect::<Vec<_>>();
    assert_eq!(classes(&named), classes(&whole));
    // In the folders below, whose list of words and labels is above them.
    for inner in ["ILSVRC", "ILSVRC/Data", "ILSVRC/Data/CLS-LOC"] {
        let part = open(tree.path().join(inner)).unwrap();
        assert_eq!((part.layout, &part.classes), ("imagenet", &named.classes), "{inner}");
        assert_eq!(classes(&part), classes(&named), "{inner}");
    }
    let val = open(tree.path().join("ILSVRC/Data/CLS-LOC/val")).unwrap();
    assert_eq!((val.count(Split::Train), val.count(Split::Val)), (0, 2));
    assert_eq!(val.classes, ["sea snake (n01751748)", "n09193705"]);
    tree.images(&[
        "ILSVRC/Data/CLS-LOC/train/n01751748/a.JPEG",
        "ILSVRC/Data/CLS-LOC/train/n01440764/a.JPEG",
    ]);
    let train = open(tree.path().join("ILSVRC/Data/CLS-LOC/train")).unwrap();
    assert_eq!((train.layout, &train.classes[..]), ("classes", &named.classes[..2]));
    tree.write("LOC_val_solution.csv", format!("{header}ILSVRC2012_val_00000002,tench\n"));
    assert!(why(tree.path()).contains("line 2"));
    // Sorted into folders as the training images are, beside boxes that are, too.
    tree.write("ILSVRC/Annotations/CLS-LOC/val/n01751748/ILSVRC2012_val_00000002.xml", "<annotation>");
    for (i, class) in [(1, "n09193705"), (2, "n01751748")] {
        let sorted = format!("ILSVRC/Data/CLS-LOC/val/{class}");
        std::fs::create_dir_all(tree.path().join(&sorted)).unwrap();
        let to = tree.path().join(format!("{sorted}/ILSVRC2012_val_{i:08}.JPEG"));
        std::fs::rename(tree.path().join(image(i)), to).unwrap();
    }
    for inner in ["", "ILSVRC", "ILSVRC/Data", "ILSVRC/Data/CLS-LOC"] {
        let sorted = open(tree.path().join(inner)).unwrap();
        assert_eq!((sorted.layout, &sorted.classes), ("folder", &named.classes), "{inner}");
        assert_eq!((sorted.count(Split::Train), sorted.count(Split::Val)), (3, 2), "{inner}");
    }
}

#[test]
fn tiny_imagenet() {
    let tree = Tree::new();
    tree.images(&[
        "train/n02012849/images/n02012849_0.JPEG",
        "val/images/val_1.JPEG",
        "val/images/val_0.JPEG",
    ]);
    tree.images(&["val/images/val_2.JPEG", "test/images/test_0.JPEG"]);
    tree.write(
        "val/val_annotations.txt",
        "val_0.JPEG\tn03126707\t0\t32\t44\t62\nval_1.JPEG\tn02012849\t1\t1\t2\t2\n",
    );
    tree.write("words.txt", "n02012849\tcrane\nn03126707\tcrane, hoist\n");
    let data = open(tree.path()).unwrap();
    let [bird, hoist] = ["crane (n02012849)", "crane (n03126707)"];
    assert_eq!((data.layout, &data.classes[..]), ("imagenet", &[bird, hoist].map(str::to_owned)[..]));
    let expected = [
        ("train/n02012849/images/n02012849_0.JPEG".into(), bird, Split::Train),
        ("val/images/val_0.JPEG".into(), hoist, Split::Val),
        ("val/images/val_1.JPEG".into(), bird, Split::Val),
    ];
    assert_eq!(listing(&data), expected);
    assert_one_is_unlabelled(&data);
    // The folder of all datasets is none, whose training images would be those of another.
    let all = Tree::new();
    all.write("tiny/val/val_annotations.txt", "val_0.JPEG\tn03126707\n").image("tiny/val/images/val_0.JPEG");
    all.images(&["birds/train/crane/0.png", "birds/train/finch/0.png", "birds/val/crane/0.png"]);
    let own = open(all.path()).unwrap();
    assert_eq!((own.classes, own.samples.len()), (vec!["n03126707".to_owned()], 1));
    tree.write("val/val_annotations.txt", "val_0.JPEG\ttench\n");
    assert!(why(tree.path()).contains("val_annotations.txt, line 1"), "{}", why(tree.path()));
    // Once its images are sorted, as many scripts do, it is a plain folder.
    std::fs::remove_dir_all(tree.path().join("val/images")).unwrap();
    tree.image("val/n02012849/val_1.JPEG");
    assert_eq!(open(tree.path()).unwrap().layout, "folder");
}

/// Tiny ImageNet has more words than classes, and tabs before them.
#[test]
fn wordnet_ids_get_the_words_of_a_list_in_the_folder_or_above_it() {
    let tree = Tree::new();
    tree.images(&["train/n02012849/0.png", "train/n03126707/0.png", "train/finch/0.png"]);
    let classes = || open(tree.path()).map(|data| (data.classes, data.notes)).unwrap();
    assert_eq!(classes().0, ["finch", "n02012849", "n03126707"]);
    tree.write("words.txt", "n00001740\tentity\nn02012849\tcrane\r\nn03126707\tcrane, hoist\nfinch bird\n\n");
    assert_eq!(classes().0, ["finch", "crane (n02012849)", "crane (n03126707)"]);
    tree.write("words.txt", b"n02012849\tgr\xfcn".as_slice());
    let (kept, notes) = classes();
    assert_eq!(kept, ["finch", "n02012849", "n03126707"]);
    let told = |note: &String| note.contains("words.txt") && note.contains("UTF-8");
    assert!(notes.iter().any(told), "{notes:?}");
    tree.write("words.txt", "").write("README.txt", b"gr\xfcn".as_slice());
    assert!(!classes().1.iter().any(|note| note.contains("README.txt")), "it is about something else");
    // Of ImageNet-A and its like, and of a table below such a list.
    tree.write("README.txt", "Natural adversarial examples\n\nn02012849 crane\nn03126707 hoist\n");
    assert_eq!(classes().0, ["finch", "crane (n02012849)", "hoist (n03126707)"]);
    std::fs::remove_file(tree.path().join("words.txt")).unwrap();
    tree.write("lists/of/few.csv", "path,label\na.png,n02012849\nb.png,n02012849\n");
    let table = open(tree.path().join("lists/of/few.csv")).unwrap();
    assert_eq!(table.classes, ["crane (n02012849)"]);
}

#[test]
fn names_that_look_alike_and_images_that_are_nearly_black_are_told() {
    let tree = Tree::new();
    let deep = |brightest: u16| {
        let image = image::ImageBuffer::from_fn(8, 8, |x, _| {
            image::Luma([if x == 7 { brightest } else { brightest / 8 * x as u16 }])
        });
        let mut png = Cursor::new(Vec::new());
        image::DynamicImage::ImageLuma16(image).write_to(&mut png, image::ImageFormat::Png).unwrap();
        png.into_inner()
    };
    tree.write("a.png", deep(4095)).write("b.png", deep(900)).write("c.png", deep(65535));
    let notes = |rows: &str| {
        tree.write("list.csv", format!("path,label,split\n{rows}"));
        open(tree.path().join("list.csv")).unwrap().notes.join("; ")
    };
    let said = notes("a.png,caf\u{e9},train\nb.png,cafe\u{301},test\n");
    assert!(said.contains(r#""caf\u{e9}" and "cafe\u{301}"; give both the same name"#), "{said}");
    assert!(said.contains("a.png is 4095 of 65535"), "{said}");
    tree.write("d.png", deep(4096));
    assert!(!notes("d.png,cat,train\nd.png,dog,test\n").contains("black"), "it takes more than 12 bits");
    let said = notes("a.png,cat,train\nb.png,cat,test\nc.png,dog,train\nc.png,dog,test\n");
    assert!(!said.contains("black") && !said.contains("alike"), "{said}");
}

#[test]
fn folders_of_images_that_have_several_classes_are_told_from_classes() {
    let told = |files: &[&str]| {
        let tree = Tree::new();
        tree.images(files);
        let notes = open(tree.path()).unwrap().notes;
        notes
            .into_iter()
            .find(|note| note.contains("read as classes, which they are not"))
            .unwrap_or_default()
    };
    let voc = told(&["JPEGImages/a.jpg", "SegmentationClass/a.png", "Annotations/a.xml"]);
    assert!(voc.contains("of PASCAL VOC") && voc.contains("the columns path, label and split"), "{voc}");
    let years = ["VOC2007/JPEGImages/a.jpg", "VOC2007/ImageSets/Main/a.txt", "VOC2012/JPEGImages/a.jpg"];
    assert!(told(&years).contains("of PASCAL VOC"));
    let coco = ["train2017/a.jpg", "val2017/a.jpg", "annotations/instances_val2017.json"];
    assert!(told(&coco).contains("of COCO"));
    let untrained = ["test2017/a.jpg", "val2017/a.jpg", "annotations/instances_val2017.json"];
    assert!(told(&untrained).contains("of COCO"));
    assert_eq!(told(&["JPEGImages/a.png", "SegmentationClass/a.png"]), "");
}

#[test]
fn tables() {
    let tree = Tree::new();
    tree.images(&["im/a.png", "im/b, c.png", "im/d.png"]);
    tree.write(
        "list.csv",
        "\u{feff}Path, Label ,split\nim/a.png,10,train\n\"im/b, c.png\",2,validation\nim/d.png,10,test\n",
    );
    let data = open(tree.path()).unwrap();
    assert_eq!((data.layout, data.classes.clone()), ("table", vec!["2".to_owned(), "10".to_owned()]));
    assert_eq!(
        listing(&data),
        [
            ("im/a.png".into(), "10", Split::Train),
            ("im/b, c.png".into(), "2", Split::Val),
            ("im/d.png".into(), "10", Split::Test),
        ]
    );
    assert_eq!(open(tree.path().join("list.csv")).unwrap().samples, data.samples);
    let rows: String = (0..10).map(|i| format!("im/{i}.png\tbird\n")).collect();
    tree.write("more.tsv", format!("path\tlabel\n{rows}"));
    let data = open(tree.path().join("more.tsv")).unwrap();
    assert_eq!((data.count(Split::Train), data.count(Split::Test)), (8, 2));
    // A split column of `train` alone holds nothing out, so the images are split as in every other layout.
    let rows: String = (0..10).map(|i| format!("im/{i}.png\tbird\ttrain\n")).collect();
    tree.write("more.tsv", format!("path\tlabel\tsplit\n{rows}"));
    let split = open(tree.path().join("more.tsv")).unwrap();
    assert_eq!(split.samples, data.samples);
    assert!(split.notes.iter().any(|note| note.contains("no split of its own")), "{:?}", split.notes);
    // Of Excel where the decimal sign is a comma, of Windows, and with a line twice.
    tree.write("more.tsv", "path;label;note\nim\\a.png;\"a; b\";1,5\nim\\d.png;c;2\nim/a.png;c;3\n");
    let data = open(tree.path().join("more.tsv")).unwrap();
    assert_eq!(data.classes, ["a; b", "c"]);
    assert_eq!(data.name_of_image(2), "im/d.png");
    assert!(data.notes.iter().any(|note| note.contains("more than once: 1")), "{:?}", data.notes);
    // Its split may be told by another column.
    assert!(
        data.notes.iter().any(|note| note.starts_with("columns that were not read: note;")),
        "{:?}",
        data.notes
    );
    tree.write("more.tsv", "path,label,note,split\nim/a.png,a,1,train\nim/d.png,c,2,test\n");
    let data = open(tree.path().join("more.tsv")).unwrap();
    assert!(data.notes.iter().all(|note| !note.contains("not read")), "{:?}", data.notes);
    // Two tables in one folder are ambiguous.
    assert!(
        why(tree.path()).contains("known layout")
            && why(tree.path()).contains("other files: list.csv, more.tsv)")
    );
    // Archives, and what `datasets` writes besides Parquet.
    tree.write("birds.tar.gz", "").write("disk/dataset_dict.json", "{}").write("arrow/data.arrow", "");
    assert!(why(&tree.path().join("birds.tar.gz")).contains("(it is an archive: unpack it)"));
    for folder in ["disk", "arrow"] {
        let why = why(&tree.path().join(folder));
        assert!(why.contains("such as train.parquet with to_parquet, not save_to_disk)"), "{why}");
    }
    // As the Hub has them.
    tree.write("hub/metadata.csv", "file_name,label\nd.png,cat\n").image("hub/d.png");
    assert_eq!(listing(&open(tree.path().join("hub")).unwrap()), [("d.png".into(), "cat", Split::Train)]);
    // Without a column of splits, folders of their names say which is which, if every image lies in one.
    let parted = [("test/b.png".into(), "cat", Split::Test), ("train/a.png".into(), "cat", Split::Train)];
    tree.write("one/metadata.csv", "file_name,label\ntrain/a.png,cat\ntest/b.png,cat\n");
    tree.write("each/train/metadata.csv", "file_name,label\na.png,cat\n");
    tree.write("each/test/metadata.csv", "file_name,label\nb.png,cat\n");
    for name in ["one", "each"] {
        let data = open(tree.path().join(name)).unwrap();
        assert_eq!(
            (listing(&data), &*data.name),
            (parted.to_vec(), if name == "one" { "metadata" } else { name })
        );
    }
    tree.write("one/metadata.csv", "file_name,label\ntrain/a.png,cat\ntest/b.png,cat\nc.png,cat\n");
    let notes = open(tree.path().join("one")).unwrap().notes;
    assert!(notes.iter().any(|note| note.starts_with("no split of its own")), "{notes:?}");
    for (text, says) in [
        ("file,class\na,b\n", ["line 1", "the columns path (or file_name) and label"]),
        ("path,label,split\na.png,b,later\n", ["line 2", "train, val or test"]),
        ("path,label\n,b\n", ["line 2", "a path"]),
        ("path,label\na.png\n", ["found record with 1 fields", "has 2 fields"]),
        ("path,label\n", ["no labelled image", "label"]),
    ] {
        let tree = Tree::new();
        tree.write("t.csv", text);
        // The only table of a folder is the folder's dataset, unless it has other columns.
        let folder =
            if text.starts_with("path") { says } else { ["known layout", "label and optionally split"] };
        for (path, says) in [(tree.path().join("t.csv"), says), (tree.path().to_owned(), folder)] {
            let error = why(&path);
            assert!(says.iter().all(|says| error.contains(says)), "{text:?}: {error}");
        }
    }
    // Recognising a table reads no more than its first line.
    let tree = Tree::new();
    tree.write("t.csv", "path,label\n");
    std::fs::File::options().write(true).open(tree.path().join("t.csv")).unwrap().set_len(1 << 40).unwrap();
    assert!(why(tree.path()).contains("too large for a list"), "{}", why(tree.path()));
}

#[test]
fn raw_photographs_beside_pictures_are_left_out() {
    let tree = Tree::new();
    tree.images(&["a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg"]).write("a/1.NEF", b"MM\0*\0\0\0\x08");
    let data = open(tree.path()).unwrap();
    assert_eq!((data.samples.len(), data.skipped), (4, 1));
    let text = describe(&data, Check::Lists, &|_, _| ControlFlow::Continue(())).to_string();
    assert!(text.contains("files that are not JPEG, PNG, WebP, BMP, TIFF or GIF were left out: 1"), "{text}");
}

#[test]
fn masks_beside_the_classes_are_no_class() {
    let tree = Tree::new();
    tree.images(&["a/1.png", "a/2.png", "b/1.png", "b/2.png", "masks/a/1.png", "masks/b/2.png"]);
    let data = open(tree.path()).unwrap();
    assert_eq!((data.classes, data.samples.len()), (vec!["a".to_owned(), "b".to_owned()], 4));
    tree.images(&["c/masks/1.png", "c/gloves/1.png"]);
    assert_eq!(open(tree.path().join("c")).unwrap().classes, ["gloves", "masks"]);
}

/// As unpacked from an archive with names in Shift-JIS.
#[cfg(target_os = "linux")]
#[test]
fn names_of_classes_that_are_no_text_are_refused_and_not_merged() {
    use std::os::unix::ffi::OsStrExt as _;
    let tree = Tree::new();
    tree.images(&["dog/1.png", "dog/2.png", "cat/1.png", "cat/2.png"]);
    let dog = tree.path().join(std::ffi::OsStr::from_bytes(b"\x8c\xa2"));
    std::fs::rename(tree.path().join("dog"), dog).unwrap();
    assert!(why(tree.path()).contains("is not UTF-8 text; rename it"), "{}", why(tree.path()));
}

#[test]
fn tables_of_results_within_a_dataset_are_no_images_of_it() {
    let tree = Tree::new();
    let words = Values::Text(vec![Some("a.png".to_owned()); 50]);
    let results = columns::parquet(&[Column::new("image", words.clone()), Column::new("class", words)], &[]);
    let results = results.unwrap();
    tree.images(&["train/bee/a.png", "train/ant/b.png", "test/ant/c.png"]).write("out/gap.parquet", &results);
    let data = open(tree.path()).unwrap();
    assert_eq!((data.layout, data.samples.len()), ("folder", 3));
    let hub = "parquet/hub/data/test-00000-of-00001.parquet";
    let tree = Tree::new();
    tree.write("a/gap.parquet", &results).write("data/gap.parquet", &results).copy(hub, "data/test.parquet");
    assert_eq!(open(tree.path()).unwrap().samples.len(), 5);
    assert!(why(&tree.path().join("a/gap.parquet")).contains("no image column"));
}

#[test]
fn what_is_no_dataset_is_told_what_would_be() {
    let tree = Tree::new();
    tree.write("readme.txt", "hello");
    let error = why(tree.path());
    for layout in LAYOUTS {
        assert!(error.contains(layout.what), "{error}");
    }
    assert!(why(&tree.path().join("absent")).contains("absent: cannot be read"));
    assert!(why(&tree.path().join("readme.txt")).contains("known layout (it is a file)"));
    tree.image("only/one.png");
    let alone = "known layout (images directly in it: 0, folders: 1, other files: readme.txt)";
    assert!(why(tree.path()).contains(alone), "one class is nothing to learn");
    assert!(why(&tree.path().join("only")).contains("images directly in it: 1, folders: 0"));
    tree.write("train/empty/readme.txt", "");
    assert!(why(tree.path()).contains("no labelled image"));
}

#[test]
fn a_report_counts_finds_twins_and_broken_files() {
    let tree = Tree::new();
    tree.images(&["train/a/1.png", "train/a/2.png", "train/b/3.png", "test/a/4.png", "test/b/5.png"]);
    let twin = std::fs::read(tree.path().join("train/b/3.png")).unwrap();
    tree.write("test/a/twin.png", twin).write("train/b/fake.png", "text").write("train/b/x.txt", "text");
    let broken = &std::fs::read(fixture("images/files/rgb.png")).unwrap()[..200];
    tree.write("train/a/broken.png", broken);
    let data = open(tree.path()).unwrap();
    let go = |_, _| ControlFlow::Continue(());
    let report = describe(&data, Check::Pixels, &go);
    assert_eq!(report.counts, [[3, 0, 2], [2, 0, 1]]);
    assert_eq!((report.skipped, report.checked), (1, 8));
    let names: Vec<_> = report.unreadable.iter().map(|(i, _)| data.samples[*i].source.to_string()).collect();
    assert!(
        names[0].ends_with("broken.png") && names[1].ends_with("fake.png") && names.len() == 2,
        "{names:?}"
    );
    assert_eq!(report.leaked.len(), 3, "all have the same pixels");
    let text = report.to_string();
    assert!(text.contains("2 classes, 5 train, 0 val, 3 test"), "{text}");
    assert!(text.contains("2 unreadable, 3 in both"), "{text}");
    // `Check::Bytes` reads no pixels: the truncated file begins as an image does.
    let bytes = describe(&data, Check::Bytes, &go);
    assert_eq!(bytes.unreadable.len(), 1);
    let said = "checked by their first bytes (`--check pixels` decodes them): 8, 1 unreadable, 1 in both";
    assert!(text.contains("images checked: 8") && bytes.to_string().contains(said), "{bytes}");
    let [(train, test)] = bytes.leaked[..] else { panic!("{:?}", bytes.leaked) };
    assert!(data.samples[train].source.to_string().ends_with("3.png"));
    assert!(data.samples[test].source.to_string().ends_with("twin.png"));
    assert_eq!(describe(&data, Check::Lists, &go).checked, 0);
    // On one thread, as every thread checks the image that it has begun.
    let thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let stopped = thread.install(|| describe(&data, Check::Bytes, &|_, _| ControlFlow::Break(())));
    assert!(stopped.checked < 8, "{}", stopped.checked);
    // The same bytes in rows of another length are another picture.
    let tree = Tree::new();
    for (name, width, height) in [("train/a/1.png", 2, 8), ("test/a/2.png", 4, 4)] {
        let mut png = Cursor::new(Vec::new());
        let grey = image::GrayImage::from_pixel(width, height, image::Luma([7]));
        grey.write_to(&mut png, image::ImageFormat::Png).unwrap();
        tree.write(name, png.into_inner());
    }
    let report = describe(&open(tree.path()).unwrap(), Check::Pixels, &go);
    assert_eq!((report.checked, report.leaked.len()), (2, 0));
}

#[test]
fn matlab_files_of_every_kind() {
    let read = |name: &str| mat::read(&std::fs::read(fixture("mat").join(name)).unwrap()).unwrap();
    for name in ["kinds.mat", "kinds-plain.mat"] {
        let variables = read(name);
        let get = |name: &str| &variables.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!(get("double"), &Value::Numbers(vec![1.5, -2.0, 1e300]));
        assert_eq!(get("single").number(), Some(0.25));
        assert_eq!(get("empty"), &Value::Numbers(vec![]));
        assert_eq!(get("int8"), &Value::Numbers(vec![-128.0, 127.0]));
        assert_eq!(get("int16").number(), Some(-300.0));
        assert_eq!(get("uint32").number(), Some(4e9));
        assert_eq!(get("int64").number(), Some(-5.0));
        assert_eq!(get("truth"), &Value::Numbers(vec![1.0, 0.0]));
        assert_eq!(get("text").text(), Some("Grüße, 車"));
        assert_eq!(get("lines").text(), Some("ab\ncd"));
        assert_eq!(get("matrix"), &Value::Numbers(vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
        assert_eq!(get("complex").number(), Some(1.0));
        let Value::Cells(cells) = get("nested") else { panic!("{:?}", get("nested")) };
        assert_eq!(cells[1].text(), Some("flat"));
        assert_eq!(cells[0], Value::Cells(vec![Value::Text("deep".into()), Value::Numbers(vec![7.0])]));
    }
    assert_eq!(read("big-endian.mat"), [("big".into(), Value::Numbers(vec![-7.0, 300.0]))]);
}

#[test]
fn hostile_matlab_files() {
    assert_eq!(mat::read(b""), Err(MatError::Kind("its header is different")));
    assert!(mat::read(b"\x89HDF\r\n\x1a\n").unwrap_err().to_string().contains("-v7"));
    // A decompression bomb: 300 MiB of zeros, compressed.
    let mut packed = Vec::new();
    let bomb = std::io::Read::take(std::io::repeat(0), 300 << 20);
    let mut encoder =
        flate2::read::ZlibEncoder::new(std::io::BufReader::new(bomb), flate2::Compression::fast());
    std::io::Read::read_to_end(&mut encoder, &mut packed).unwrap();
    let mut file = std::fs::read(fixture("mat/kinds.mat")).unwrap()[..128].to_vec();
    file.extend([15, 0, 0, 0]);
    file.extend((packed.len() as u32).to_le_bytes());
    file.extend(packed);
    assert_eq!(mat::read(&file), Err(MatError::Bomb));
    // Cell arrays nested 200 deep.
    let mut inner = Vec::new();
    for _ in 0..200 {
        let mut array = Vec::new();
        for (kind, data) in
            [(6u32, &[1u8, 0, 0, 0, 0, 0, 0, 0][..]), (5, &[1, 0, 0, 0, 1, 0, 0, 0]), (1, &[])]
        {
            array.extend(kind.to_le_bytes());
            array.extend((data.len() as u32).to_le_bytes());
            array.extend(data);
        }
        array.extend(&inner);
        inner = [&14u32.to_le_bytes()[..], &(array.len() as u32).to_le_bytes(), &array].concat();
    }
    let deep = [&file[..128], &inner].concat();
    assert_eq!(mat::read(&deep), Err(MatError::Broken("arrays are nested too deeply")));
}

#[test]
fn the_real_datasets() {
    if let Some(path) = real::data("imagenette10") {
        let data = open(path).unwrap();
        let counts = (data.classes.len(), data.count(Split::Train), data.count(Split::Val));
        assert_eq!((data.layout, counts), ("folder", (10, 1000, 500)));
        let report = describe(&data, Check::Bytes, &|_, _| ControlFlow::Continue(()));
        assert_eq!((report.checked, report.unreadable.len()), (1500, 0));
    }
    if let Some(path) = real::data("cub50") {
        let data = open(path).unwrap();
        let counts = (data.classes.len(), data.count(Split::Train), data.count(Split::Test));
        assert_eq!((data.layout, counts), ("cub", (50, 1500, 1389)));
        assert!(data.samples.iter().all(|sample| sample.source.bytes().is_ok()));
    }
    if let Some(path) = real::data("annotations/CUB_200_2011_full") {
        let data = open(path).unwrap();
        assert_eq!(
            (data.classes.len(), data.count(Split::Train), data.count(Split::Test)),
            (200, 5994, 5794)
        );
        assert!(data.notes.iter().any(|note| note.contains("missing")));
    }
    if let Some(path) = real::data("annotations/stanford_cars") {
        let data = open(path).unwrap();
        assert_eq!((data.classes.len(), data.count(Split::Train), data.count(Split::Test)), (196, 8144, 0));
        assert_eq!(data.classes[0], "AM General Hummer SUV 2000");
        assert_eq!(data.classes[data.samples[0].class], "Audi TTS Coupe 2012");
        assert!(data.notes.iter().any(|note| note.contains("8041 test images")), "{:?}", data.notes);
    }
}
