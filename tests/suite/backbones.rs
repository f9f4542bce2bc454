//! Backbones against transformers, EVA-02 against float64 PyTorch, stage by stage (`tests/reference/backbones.py`).

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use rayon::prelude::*;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};
use ssmprobe::model::backbone::config::Config;
use ssmprobe::model::backbone::order::MaeOrder;
use ssmprobe::model::backbone::preprocess::Pixels;
use ssmprobe::model::backbone::{Backbone, BackboneError, FAMILIES, keys};
use ssmprobe::model::io::array::{Array, Arrays};
use ssmprobe::model::tokens::Tokens;

use crate::close::distance;
use crate::real;

/// Largest difference to transformers that counts as equal.
pub const TOLERANCE: f32 = 1e-4;

/// Fixture folders with the (height, width) of their images, the size that the model is built for first.
pub const CASES: &[(&str, &[(usize, usize)])] = &[
    ("vit", &[(16, 16), (24, 12)]),
    ("vit-no-bias", &[(16, 16)]),
    ("vit-mae", &[(16, 16), (20, 28)]),
    ("beit", &[(16, 16), (24, 12)]),
    ("beit-shared", &[(16, 16), (12, 24)]),
    ("beit-oblong", &[(12, 20), (16, 16)]),
    ("dinov2", &[(16, 16), (24, 20), (12, 8)]),
    ("dinov2-swiglu", &[(16, 16)]),
    ("dinov2-registers", &[(16, 16), (24, 20), (12, 8)]),
    ("dinov3", &[(16, 16), (24, 20), (12, 8)]),
    ("dinov3-gated", &[(16, 16), (12, 8)]),
    ("clip", &[(16, 16), (24, 12)]),
    ("clip-vision", &[(16, 16)]),
    ("siglip", &[(16, 16), (24, 12)]),
    ("siglip-vision", &[(16, 16)]),
    ("ijepa", &[(16, 16), (24, 12)]),
    ("data2vec", &[(16, 16), (24, 12)]),
    ("deit", &[(16, 16), (24, 12)]),
    ("vit-msn", &[(16, 16), (24, 12)]),
    ("vit-pooler", &[(16, 16)]),
    ("eva02", &[(16, 16), (24, 12)]),
    ("eva02-norms", &[(16, 16), (12, 24), (24, 20)]),
];

pub fn fixtures() -> PathBuf {
    crate::run::root().join("tests/fixtures/backbones")
}

pub fn read(path: &Path) -> Arrays {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let array = |view: &TensorView| {
        let values = view.data().chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap()));
        Array::new(view.shape(), values.collect())
    };
    file.iter().map(|(name, view)| (name.to_owned(), array(&view))).collect()
}

/// Element `i`, in [-1, 1), of the array with this seed, as `tests/reference/backbones.py` generates it.
fn hashed(seed: u32, i: usize) -> f64 {
    let mut x = (i as u32).wrapping_mul(0x9E37_79B1).wrapping_add(seed);
    x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
    x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
    f64::from(x ^ (x >> 16)) / 2_f64.powi(31) - 1.0
}

/// The seed of a named array: the 32-bit FNV-1a hash of its name.
fn seed(name: &str) -> u32 {
    name.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

pub fn image(k: usize, height: usize, width: usize) -> Pixels {
    let seed = seed(&format!("image.{k}"));
    let values = (0..3 * height * width).map(|i| hashed(seed, i) as f32).collect();
    Pixels { height, width, values }
}

/// All tokens, in the order of transformers: CLS, registers, patches.
pub fn flat(tokens: &Tokens) -> Vec<f32> {
    [tokens.cls.as_deref().unwrap_or_default(), &tokens.registers, &tokens.patches].concat()
}

/// The largest absolute difference; panics where lengths differ or a number is NaN.
#[track_caller]
pub fn difference(a: &[f32], b: &[f32]) -> f32 {
    distance("tokens", a, b) as f32
}

/// Compares every stage of one case with the reference on one device.
fn check(case: &str, sizes: &[(usize, usize)], device: &Device) {
    let mut worst: f32 = 0.0;
    let folder = fixtures().join(case);
    let expected = read(&folder.join("stages.safetensors"));
    let backbone = Backbone::open(&folder, device).unwrap_or_else(|error| panic!("{case}: {error}"));
    let layers: Vec<usize> = (0..=backbone.layers()).collect();
    for &(height, width) in sizes {
        let images = [image(0, height, width), image(1, height, width)];
        let stages = backbone.forward_layers(&images, &layers, false).unwrap();
        let last = backbone.forward(&images).unwrap();
        assert_eq!((stages.len(), last.len()), (images.len(), images.len()));
        for (k, (stages, last)) in stages.iter().zip(&last).enumerate() {
            assert_eq!(stages.len(), layers.len());
            let stages = stages.iter().enumerate().map(|(l, tokens)| (l.to_string(), tokens));
            for (stage, tokens) in stages.chain([("last".to_owned(), last)]) {
                let array = &expected[&format!("{height}x{width}.{stage}")]; // [2, T, d]
                assert_eq!(backbone.config().prefix_tokens() + tokens.grid.len(), array.shape[1]);
                let (d, registers) = (backbone.width(), backbone.config().registers);
                let lengths = (tokens.registers.len(), tokens.patches.len());
                assert_eq!(lengths, (registers * d, tokens.grid.len() * d), "{case}");
                assert_eq!(backbone.width(), array.shape[2]);
                let len = array.data.len() / 2;
                let error = difference(&flat(tokens), &array.data[k * len..(k + 1) * len]);
                worst = worst.max(error);
                assert!(error <= TOLERANCE, "{case}, {height}x{width}, image {k}, stage {stage}: {error}");
            }
        }
    }
    println!("{case}: {worst:.1e} apart at most");
}

#[test]
pub fn every_stage_of_every_family_equals_transformers() {
    for (case, sizes) in CASES {
        check(case, sizes, &Device::flex());
    }
    for family in FAMILIES {
        let covered = |case: &&(&str, _)| {
            Config::open(&fixtures().join(case.0)).unwrap().family.model_type == family.model_type
        };
        assert!(CASES.iter().any(|case| covered(&case)), "no case for {}", family.name);
    }
}

/// An encoder over some of the patches gives what transformers give when nothing attends to the others.
#[test]
pub fn patches_that_are_left_are_read_as_if_there_were_no_others() {
    for (case, sizes) in CASES {
        let folder = fixtures().join(case);
        let expected = read(&folder.join("left.safetensors"));
        let backbone =
            Backbone::open(&folder, &Device::flex()).unwrap_or_else(|error| panic!("{case}: {error}"));
        for &(height, width) in *sizes {
            let pixels = image(0, height, width);
            let n = backbone.grid(height, width).unwrap().len();
            let some: Vec<usize> = (0..n).filter(|i| i % 3 != 1).collect();
            let sets = [some.clone(), (n - some.len()..n).collect(), vec![n / 2], (0..n).collect()];
            let sets: Vec<&[usize]> = sets.iter().map(Vec::as_slice).collect();
            let found = backbone.forward_subset(&pixels, &sets, backbone.layers()).unwrap();
            for (at, tokens) in found[..3].iter().enumerate() {
                let array = &expected[&format!("{height}x{width}.{at}")]; // [prefix + n, d]
                assert_eq!(tokens.grid.len(), sets[at].len());
                assert_eq!(array.shape[0], backbone.config().prefix_tokens() + sets[at].len());
                let error = difference(&flat(tokens), &array.data);
                assert!(error <= TOLERANCE, "{case}, {height}x{width}, set {at}: {error}");
            }
            let whole = backbone.forward(&[pixels]).unwrap().remove(0);
            let error = difference(&flat(&found[3]), &flat(&whole));
            assert!(error <= 1e-5, "{case}, {height}x{width}, all patches: {error}");
        }
    }
}

#[test]
fn a_shuffled_backbone_says_why_no_patch_can_leave() {
    let backbone = Backbone::open(&fixtures().join("vit-mae"), &Device::flex()).unwrap();
    assert_eq!(backbone.why_no_subset(), None);
    let why = backbone.with_mae_order(MaeOrder::Shuffled(0)).why_no_subset();
    assert!(why.is_some_and(|why| why.contains("shuffled order")), "{why:?}");
}

#[test]
fn images_of_several_sizes_come_back_in_their_order() {
    let backbone = Backbone::open(&fixtures().join("dinov2"), &Device::flex()).unwrap();
    let images = [image(0, 16, 16), image(1, 16, 16), image(2, 12, 8), image(3, 16, 16)];
    let together = backbone.forward(&images).unwrap();
    assert_eq!(together.len(), 4);
    for (image, tokens) in images.iter().zip(&together) {
        let alone = backbone.forward(std::slice::from_ref(image)).unwrap().remove(0);
        assert_eq!(tokens.grid, alone.grid);
        assert!(difference(&flat(tokens), &flat(&alone)) <= 1e-5);
    }
    assert!(backbone.forward(&[]).unwrap().is_empty());
}

#[test]
fn mae_shuffles_its_tokens_as_transformers_when_asked_to() {
    let folder = fixtures().join("vit-mae");
    let expected = read(&folder.join("stages.safetensors"));
    let device = Device::flex();
    let image = image(0, 16, 16);
    let kept =
        Backbone::open(&folder, &device).unwrap().forward(std::slice::from_ref(&image)).unwrap().remove(0);

    // Transformers returns the same tokens in the order of its noise.
    let order = expected["shuffled.order"].data.iter().map(|&i| i as usize);
    let by_noise: Vec<f32> = order.flat_map(|i| kept.patch(i).to_vec()).collect();
    let all = [kept.cls.as_deref().unwrap(), &by_noise].concat();
    assert!(difference(&all, &expected["shuffled.last"].data) <= TOLERANCE);

    let shuffled = |seed| {
        let backbone = Backbone::open(&folder, &device).unwrap().with_mae_order(MaeOrder::Shuffled(seed));
        backbone.forward(std::slice::from_ref(&image)).unwrap().remove(0)
    };
    let order = MaeOrder::Shuffled(7).permutation(16, &image);
    let (first, again, other) = (shuffled(7), shuffled(7), shuffled(8));
    assert_eq!(first, again);
    assert_ne!(first.patches, other.patches);
    assert_ne!(first.patches, kept.patches);
    assert_eq!(first.cls, kept.cls);
    for (k, &i) in order.iter().enumerate() {
        assert_eq!(first.patch(k), kept.patch(i));
    }
    // The order depends on the seed and the pixels alone: the same in any batch, another for another image.
    let other = self::image(1, 16, 16);
    assert_ne!(MaeOrder::Shuffled(7).permutation(16, &other), order);
    let backbone = Backbone::open(&folder, &device).unwrap().with_mae_order(MaeOrder::Shuffled(7));
    let both = backbone.forward(&[other, image.clone()]).unwrap();
    assert!(difference(&both[1].patches, &first.patches) <= TOLERANCE);
}

/// Positions depend on rows and columns, not on how many patches there are.
#[test]
fn a_grid_turned_on_its_side_has_positions_of_its_own() {
    let (upright, lying) = (image(0, 24, 12), image(0, 12, 24));
    for case in ["vit", "beit", "dinov3"] {
        let open = || Backbone::open(&fixtures().join(case), &Device::flex()).unwrap();
        let backbone = open();
        backbone.forward(std::slice::from_ref(&upright)).unwrap();
        let after = backbone.forward(std::slice::from_ref(&lying)).unwrap();
        assert_eq!(after, open().forward(std::slice::from_ref(&lying)).unwrap(), "{case}");
    }
}

/// The largest difference of some tokens of one image to a fixture, whose `index` counts tokens from CLS on.
fn check_picked(backbone: &Backbone, fixture: &str) -> f32 {
    let expected = read(&fixtures().join(fixture));
    let tokens = flat(&backbone.forward(&[image(0, 224, 224)]).unwrap()[0]);
    let d = backbone.width();
    let picked = expected["index"].data.iter().map(|&i| i as usize);
    let picked: Vec<f32> = picked.flat_map(|i| tokens[i * d..(i + 1) * d].to_vec()).collect();
    difference(&picked, &expected["tokens"].data)
}

/// Writes a ViT-B/16 whose weights are generated by [`hashed`].
fn write_base(folder: &Path) {
    std::fs::write(folder.join("config.json"), r#"{"model_type": "vit"}"#).unwrap();
    let config = Config::open(folder).unwrap();
    let value = |(name, shape): (String, Vec<usize>)| {
        let (offset, scale) = if name.contains("layernorm") && name.ends_with("weight") {
            (1.0, 0.1)
        } else if name.ends_with("bias") {
            (0.0, 0.05)
        } else if name.starts_with("embeddings.") && !name.contains("projection") {
            (0.0, 0.5)
        } else {
            (0.0, (3.0 / shape[1..].iter().product::<usize>() as f64).sqrt())
        };
        let seed = seed(&name);
        let bytes = (0..shape.iter().product::<usize>())
            .flat_map(|i| ((offset + scale * hashed(seed, i)) as f32).to_le_bytes());
        (name, shape, bytes.collect::<Vec<u8>>())
    };
    let weights: Vec<_> = keys::expected(&config, "").into_par_iter().map(value).collect();
    let views = weights.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    serialize_to_file(views, None, &folder.join("model.safetensors")).unwrap();
}

#[test]
fn a_base_size_vit_equals_transformers() {
    let folder = tempfile::tempdir().unwrap();
    write_base(folder.path());
    let backbone = Backbone::open(folder.path(), &Device::flex()).unwrap();
    let error = check_picked(&backbone, "vit-base.safetensors");
    assert!(error <= TOLERANCE, "{error}");
}

#[test]
fn a_real_vit_equals_transformers() {
    let Some(folder) = real::data("vit-tiny-patch16-224") else { return };
    let backbone = Backbone::open(&folder, &Device::flex()).unwrap();
    assert_eq!((backbone.id(), backbone.width()), ("vit-tiny-patch16-224", 192));
    let error = check_picked(&backbone, "vit-tiny.safetensors");
    assert!(error <= TOLERANCE, "{error}");
}

#[test]
fn what_cannot_be_read_is_said_with_what_can() {
    let device = Device::flex();
    let backbone = Backbone::open(&fixtures().join("dinov2"), &device).unwrap();
    let message = backbone.forward(&[image(0, 16, 17)]).unwrap_err().to_string();
    assert!(message.contains("16 x 17") && message.contains("4 x 4"), "{message}");
    let many = Pixels { height: 4 * 10_000, width: 4, values: Vec::new() };
    assert!(matches!(backbone.forward(&[many]), Err(BackboneError::Patches { patches: 10_000, .. })));
    let error = backbone.forward_layers(&[image(0, 16, 16)], &[3], false).unwrap_err();
    assert!(matches!(error, BackboneError::Layer { layer: 3, layers: 2 }));

    let folder = tempfile::tempdir().unwrap();
    let message = |config: &str| {
        std::fs::write(folder.path().join("config.json"), config).unwrap();
        Backbone::open(folder.path(), &device).map(|_| ()).unwrap_err().to_string()
    };
    for (config, words) in [
        ("[1]", ["config.json", "another type of value"]),
        ("{", ["config.json", "JSON"]),
        ("{}", ["`model_type` is absent", "vit_mae, beit, dinov2"]),
        (r#"{"architecture": "vit_tiny", "pretrained_cfg": {}}"#, ["is timm's", "ssmprobe import"]),
        (r#"{"model_type": "resnet"}"#, ["`model_type` is \"resnet\"", "dinov3_vit, eva02, clip, "]),
        (
            r#"{"model_type": "clip", "vision_config": {"hidden_size": -3}}"#,
            ["`vision_config.hidden_size` is -3", "1 to 16384"],
        ),
        (r#"{"model_type": "siglip", "vision_config": 7}"#, ["`vision_config` is 7", "an object"]),
        (r#"{"model_type": "dinov3_vit", "hidden_size": 12}"#, ["`num_attention_heads` is absent", "rotary"]),
        (r#"{"model_type": "eva02", "hidden_size": 24}"#, ["`num_attention_heads` is absent", "rotary"]),
        (
            r#"{"model_type": "eva02", "rope_reference_size": 0}"#,
            ["`rope_reference_size` is 0", "1 to 16384"],
        ),
        (r#"{"model_type": "vit", "hidden_act": "mish"}"#, ["`hidden_act` is \"mish\"", "gelu, "]),
        (r#"{"model_type": "vit", "hidden_size": -3}"#, ["`hidden_size` is -3", "1 to 16384"]),
        (r#"{"model_type": "vit", "num_hidden_layers": 1e12}"#, ["`num_hidden_layers`", "1 to 512"]),
        (r#"{"model_type": "vit", "num_attention_heads": 7}"#, ["`num_attention_heads` is 7", "768"]),
        (r#"{"model_type": "vit", "num_channels": 1}"#, ["`num_channels` is 1", "3 (red"]),
        (r#"{"model_type": "vit", "image_size": [224, 8]}"#, ["`image_size` is [224,8]", "[16, 16]"]),
        (r#"{"model_type": "vit", "patch_size": [8]}"#, ["`patch_size` is [8]", "[height, width]"]),
        (r#"{"model_type": "dinov2", "mlp_ratio": 1e30}"#, ["`mlp_ratio`", "64"]),
        (
            r#"{"model_type": "dinov2", "hidden_size": 12, "mlp_ratio": 0.05}"#,
            ["`mlp_ratio` is 0.05", "one unit"],
        ),
        (r#"{"model_type": "beit", "use_mean_pooling": 1}"#, ["`use_mean_pooling` is 1", "true, false"]),
    ] {
        let message = message(config);
        assert!(words.iter().all(|word| message.contains(word)), "{config}: {message}");
    }

    // A file that belongs to another configuration: every key at fault is named.
    std::fs::copy(fixtures().join("vit/model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    let config = std::fs::read_to_string(fixtures().join("vit/config.json")).unwrap();
    let message = message(&config.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"));
    assert!(message.contains("vit.encoder.layer.1.output.dense.weight"), "{message}");
    assert!(!message.contains("classifier"), "{message}");
}
