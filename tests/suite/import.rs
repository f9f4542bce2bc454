//! Checkpoints of other projects (`tests/reference/originals.py`): the folder that `ssmprobe import` makes of each gives
//! the tokens of the original, stage by stage, the probe it makes of a head the logits; tensors that fit nowhere are an error that names them, and nothing is written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize_to_file};
use ssmprobe::model::backbone::Backbone;
use ssmprobe::model::backbone::config::{Activation, Config};
use ssmprobe::model::backbone::original::project::{PROJECTS, Scale, find};
use ssmprobe::model::backbone::original::{ImportOptions, Original};
use ssmprobe::model::backbone::preprocess::{Filter, Preprocessor, Size};
use ssmprobe::model::backbone::token_spec::Trained;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::original::{HEAD_PROJECTS, HeadError, read as read_head};
use ssmprobe::model::probe::{BackboneMeta, Probe, original};
use ssmprobe::model::tokens::Tokens;

use super::backbones::{difference, flat, image, read};
use super::close::assert_close;
use super::heads::logits_of;
use super::run::{assert_ends, assert_says, done, entries, json, program, root};

/// Largest difference to the original that counts as equal, as a share of the largest number of a stage, or of 1.
const TOLERANCE: f32 = 1e-5;

/// Every case: its fixture folder, its project, the model type it becomes, and the message about tensors left out.
const CASES: &[(&str, &str, &str, &str)] = &[
    ("mae", "mae", "vit_mae", "left out: 7 of decoder_*, 1 of mask_token"),
    ("timm", "timm", "vit", "left out: 2 of head.*"),
    ("timm-registers", "timm", "dinov2_with_registers", ""),
    ("timm-deit", "timm", "deit", "left out: 2 of head.*, 2 of head_dist.*"),
    ("dino", "dino", "vit", "left out: 3 of head.*"),
    ("dinov2", "dinov2", "dinov2", ""),
    ("dinov2-registers", "dinov2", "dinov2_with_registers", "left out: 2 of dino_head.*, 2 of ibot_head.*"),
    ("mocov3", "mocov3", "vit", "left out: 4 of head.*, 34 of momentum_encoder.*, 1 of predictor.*"),
    ("beit", "beit", "beit", "left out: 1 of integers, not weights, 2 of lm_head.*"),
    ("beit-tuned", "beit", "beit", "left out: 2 of fc_norm.*, 2 of head.*, 2 of integers, not weights"),
    ("timm-eva02", "timm", "eva02", "left out: 2 of fc_norm.*, 2 of head.*"),
    ("timm-eva02-norms", "timm", "eva02", ""),
    ("eva02", "eva02", "eva02", "left out: 4 of .attn.rope.*, 2 of lm_head.*, 1 of mask_token, 2 of rope.*"),
    (
        "eva02-clip",
        "eva02",
        "eva02",
        "left out: 4 of .attn.rope.*, 2 of head.*, 1 of logit_scale, 2 of rope.*, 2 of text.*",
    ),
];

fn fixtures() -> PathBuf {
    root().join("tests/fixtures/originals")
}

/// The checkpoint of a case.
fn checkpoint(case: &str) -> PathBuf {
    let folder = fixtures().join(case);
    let file = folder.join("checkpoint.pth");
    if file.is_file() { file } else { folder.join("checkpoint.safetensors") }
}

/// What the fixtures do not hold: the number of heads, as nobody published a model of their width, and the normalisation.
fn options() -> ImportOptions {
    ImportOptions { heads: Some(3), scale: Some(Scale::Half), ..ImportOptions::default() }
}

fn open(path: &Path, project: &str) -> Result<Original, String> {
    Original::open(path, find(project).unwrap(), &options()).map_err(|error| error.to_string())
}

#[test]
fn an_imported_checkpoint_gives_the_tokens_of_the_original() {
    for (case, project, model_type, left_out) in CASES {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("backbone");
        let original = open(&checkpoint(case), project).unwrap_or_else(|error| panic!("{case}: {error}"));
        let message = original.notes.get(2).map_or("", String::as_str);
        assert_eq!(message, *left_out, "{case}: {:?}", original.notes);
        original.write(&out).unwrap();
        let backbone =
            Backbone::open(&out, &Device::flex()).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(backbone.model_type(), *model_type, "{case}");
        let expected = read(&fixtures().join(case).join("tokens.safetensors"));
        let layers: Vec<usize> = (0..=backbone.layers()).collect();
        let mut worst = 0.0_f32;
        for (height, width) in [(16, 16), (24, 12)] {
            let images = [image(0, height, width), image(1, height, width)];
            let stages = backbone.forward_layers(&images, &layers, false).unwrap();
            let last = backbone.forward(&images).unwrap();
            for (k, (stages, last)) in stages.iter().zip(&last).enumerate() {
                let stages = stages.iter().enumerate().map(|(l, tokens)| (l.to_string(), tokens));
                for (stage, tokens) in stages.chain([("last".to_owned(), last)]) {
                    let array = &expected[&format!("{height}x{width}.{stage}")]; // [2, T, d]
                    let len = array.data.len() / 2;
                    let error = difference(&flat(tokens), &array.data[k * len..(k + 1) * len]);
                    let size = array.data.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
                    assert!(
                        error <= TOLERANCE * size,
                        "{case}, {height}x{width}, image {k}, stage {stage}: {error}"
                    );
                    worst = worst.max(error);
                }
            }
        }
        println!("{case}: {worst:.1e} apart at most");
        let preprocessor = Preprocessor::open(&out).unwrap();
        assert_eq!(preprocessor.crop, Some((16, 16)), "{case}");
        let shortest = if *case == "eva02-clip" { 16 } else { 18 };
        assert_eq!(preprocessor.resize.map(|(size, _)| size), Some(Size::Shortest(shortest)), "{case}");
    }
    for project in PROJECTS {
        assert!(CASES.iter().any(|case| case.1 == project.id), "no case of {}", project.name);
    }
}

#[test]
fn a_checkpoint_of_another_project_is_refused_with_the_names_that_do_not_fit() {
    for (case, project, words) in [
        ("mae", "dino", &["8 unused", "decoder_embed.weight", "mask_token", "weights of DINO"][..]),
        ("dinov2", "mae", &["unused", "blocks.0.ls1.gamma", "weights of MAE"]),
        ("timm", "dinov2", &["missing", "blocks.0.ls1.gamma"]),
        ("beit-tuned", "mae", &["missing", "norm.weight", "unused", "blocks.0.attn.q_bias"]),
        ("timm", "beit", &["missing", "blocks.0.attn.q_bias", "unused", "blocks.0.attn.qkv.bias"]),
        (
            "timm",
            "eva02",
            &["unused", "blocks.0.attn.qkv.bias", "blocks.0.mlp.fc1.weight", "weights of EVA-02"],
        ),
        ("timm-eva02", "mae", &["missing", "norm.weight", "unused", "blocks.0.attn.q_bias", "misshapen"]),
        ("eva02", "timm", &["unused", "rope.freqs_cos", "lm_head.weight"]),
        ("timm-eva02-norms", "dinov2", &["missing", "blocks.0.ls1.gamma", "unused", "weights of DINOv2"]),
    ] {
        let error = open(&checkpoint(case), project).map(|_| ()).expect_err(&format!("{case} as {project}"));
        assert!(words.iter().all(|word| error.contains(word)), "{case} as {project}: {error}");
    }
    // Of all pairs, only projects whose encoders have the same names and shapes accept each other's.
    let accepted = |case: &str, project: &str| match case {
        "timm" => matches!(project, "mae" | "dino" | "mocov3"),
        "dino" => matches!(project, "mae" | "timm" | "mocov3"),
        "timm-registers" => project == "dinov2",
        "dinov2" | "beit-tuned" => project == "timm",
        "timm-eva02" | "timm-eva02-norms" => project == "eva02",
        _ => false,
    };
    for (case, own, ..) in CASES {
        for project in PROJECTS.iter().map(|project| project.id) {
            let opened = open(&checkpoint(case), project).map(|_| ());
            let expected = project == *own || accepted(case, project);
            assert_eq!(opened.is_ok(), expected, "{case} as {project}: {opened:?}");
        }
    }
    let hub = root().join("tests/fixtures/backbones/vit/model.safetensors");
    assert_says(open(&hub, "mae").unwrap_err(), &["patch_embed.proj.weight", "need no import"]);
    assert_says(open(&root().join("tests/fixtures/backbones/vit"), "mae").unwrap_err(), &["need no import"]);
}

/// The tensors of the timm fixture, shape and bytes.
fn tensors() -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    tensors_of("timm")
}

/// The tensors of a fixture that is a safetensors file.
fn tensors_of(case: &str) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(checkpoint(case)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter().map(|(name, view)| (name.to_owned(), (view.shape().to_vec(), view.data().to_vec()))).collect()
}

fn save(tensors: &BTreeMap<String, (Vec<usize>, Vec<u8>)>, path: &Path) {
    let views = tensors.iter().map(|(name, (shape, bytes))| {
        (name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("as many bytes as the shape says"))
    });
    serialize_to_file(views.collect::<Vec<_>>(), None, path).unwrap();
}

#[test]
fn a_tensor_of_another_shape_is_an_error_that_names_it_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vit.safetensors");
    let whole = tensors();
    for name in whole.keys().filter(|name| !name.starts_with("head.")) {
        let (shape, bytes) = &whole[name];
        let count = bytes.len() / 4;
        let mut longer = shape.clone();
        longer[0] += 1;
        let shapes = [
            vec![count],
            vec![1, 1, 1, 1, count],
            shape.iter().copied().chain([1]).collect(),
            vec![0],
            vec![],
            longer,
            vec![7, 7],
        ];
        for other in shapes.into_iter().filter(|other| other != shape) {
            let mut changed = whole.clone();
            let bytes = vec![0; 4 * other.iter().product::<usize>()];
            changed.insert(name.clone(), (other.clone(), bytes));
            save(&changed, &path);
            let error = open(&path, "timm").map(|_| ()).expect_err(&format!("{name} {other:?}"));
            // Sizes are taken from these tensors, so another tensor may be named in their place.
            let first = [
                "patch_embed.proj.weight",
                "pos_embed",
                "blocks.0.mlp.fc1.weight",
                "blocks.0.mlp.fc2.weight",
            ];
            let named = error.contains(name.as_str()) || first.contains(&name.as_str());
            assert!(named && error.contains("vit.safetensors"), "{name} {other:?}: {error}");
        }
        let mut fewer = whole.clone();
        fewer.remove(name);
        save(&fewer, &path);
        let error = open(&path, "timm").map(|_| ()).expect_err(name);
        assert!(error.contains(name.as_str()) || name == "pos_embed", "{name}: {error}");
    }
}

#[test]
fn rotary_positions_of_eva02_are_those_that_were_saved_or_published() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("eva.safetensors");
    let whole = tensors_of("eva02");
    let rope_message = |tensors: &BTreeMap<_, _>| {
        save(tensors, &path);
        open(&path, "eva02").map(|original| original.notes[1].clone())
    };
    assert!(rope_message(&whole).unwrap().contains("relative to 16 x 16 patches (rope.freqs_cos)"));
    let clip = open(&checkpoint("eva02-clip"), "eva02").unwrap();
    assert!(clip.notes[1].contains("relative to 4 x 4 patches (rope.freqs_cos)"), "{:?}", clip.notes);
    let mut none = whole.clone();
    none.retain(|name, _| !name.contains("rope."));
    assert!(rope_message(&none).unwrap().contains("relative to 16 x 16 patches (as published)"));
    // Positions of no known grid, of more patches than the model has, and for heads of another width.
    let (shape, bytes) = whole["rope.freqs_cos"].clone();
    assert_eq!(shape, [16, 8]);
    let half = |bytes: &[u8]| -> Vec<u8> {
        let cosine = |x: &[u8]| f32::from_le_bytes(x.try_into().unwrap());
        bytes.chunks_exact(4).flat_map(|x| (cosine(x).acos() / 2.0).cos().to_le_bytes()).collect()
    };
    for (shape, bytes) in [
        (vec![16, 8], half(&bytes)),
        (vec![32, 8], [bytes.clone(), bytes.clone()].concat()),
        (vec![32, 4], bytes),
    ] {
        let mut changed = whole.clone();
        changed.insert("rope.freqs_cos".into(), (shape.clone(), bytes));
        let error = rope_message(&changed).unwrap_err();
        let words = ["eva.safetensors", "rope.freqs_cos", "4 x 4", "16 x 16", &format!("{shape:?}")];
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

/// timm's `vit_*_rope_ape_*` have the tensors of a ViT with layer scale, and rotary positions besides.
#[test]
fn rotary_positions_that_no_tensor_tells_are_told_by_the_name_of_the_layer_scale() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vit.safetensors");
    let with_scales = |names: [&str; 2]| {
        let mut scaled = tensors();
        let blocks: Vec<String> =
            scaled.keys().filter_map(|name| Some(name.strip_suffix("norm1.bias")?.to_owned())).collect();
        for name in blocks.iter().flat_map(|block| names.map(|name| format!("{block}{name}"))) {
            scaled.insert(name, (vec![24], vec![0; 4 * 24]));
        }
        save(&scaled, &path);
        ["timm", "dinov2"].map(|project| open(&path, project).map(|original| original.notes))
    };
    for opened in with_scales(["ls1.gamma", "ls2.gamma"]) {
        opened.unwrap();
    }
    for error in with_scales(["gamma_1", "gamma_2"]).map(Result::unwrap_err) {
        assert!(error.contains("blocks.0.gamma_1") && error.contains("rotary positions"), "{error}");
    }
}

#[test]
fn a_checkpoint_that_is_cut_short_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    for case in ["mae", "timm"] {
        let (whole, path) = (fs::read(checkpoint(case)).unwrap(), folder.path().join("cut"));
        for part in 1..40 {
            fs::write(&path, &whole[..whole.len() * part / 40]).unwrap();
            let error = open(&path, case).map(|_| ()).expect_err(case);
            assert!(error.contains("damaged"), "{case}, {part} of 40: {error}");
        }
    }
}

#[test]
fn what_no_shape_says_is_asked_for() {
    let open = |path: &Path, project: &str, options: &ImportOptions| {
        Original::open(path, find(project).unwrap(), options).map(|_| ()).map_err(|error| error.to_string())
    };
    let none = ImportOptions::default();
    assert_says(open(&checkpoint("mae"), "mae", &none).unwrap_err(), &["--heads", "width 24"]);
    let error = open(&checkpoint("timm"), "timm", &ImportOptions { scale: None, ..options() }).unwrap_err();
    assert!(error.contains("--normalize"), "{error}");
    let error = open(&checkpoint("beit"), "beit", &none).unwrap_err(); // it could be BEiT v2
    assert!(error.contains("--normalize imagenet (DeiT, BEiT v2), half (Google's ViT, BEiT)"), "{error}");
    // Its tables of relative biases have a column for each head.
    open(&checkpoint("beit"), "beit", &ImportOptions { heads: None, ..options() }).unwrap();
    let error = open(&checkpoint("mae"), "mae", &ImportOptions { heads: Some(5), ..options() }).unwrap_err();
    assert!(error.contains("invalid backbone description"), "{error}");
    // An oblong image: 15 patches and CLS.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oblong.safetensors");
    let mut oblong = tensors();
    oblong.insert("pos_embed".into(), (vec![1, 16, 24], vec![0; 4 * 16 * 24]));
    save(&oblong, &path);
    open(&path, "timm", &options()).unwrap(); // 16 patches without CLS
    let image = |image| ImportOptions { image: Some(image), ..options() };
    let (mut import, out) = (program(), folder.path().join("oblong"));
    import.arg("import").arg(&path).arg(&out).args(["--as", "timm", "--heads", "3", "--normalize", "half"]);
    done(import.args(["--image-size", "12x20"]));
    assert_eq!(json::<serde_json::Value>(out.join("config.json"))["image_size"], serde_json::json!([12, 20]));
    let exact = (Size::Exact { height: 12, width: 20 }, Filter::Bicubic);
    assert_eq!(Preprocessor::open(&out).unwrap().resize, Some(exact));
    oblong.insert("pos_embed".into(), (vec![1, 13, 24], vec![0; 4 * 13 * 24]));
    save(&oblong, &path);
    assert_says(open(&path, "timm", &options()).unwrap_err(), &["13 positions", "--image-size"]);
    open(&path, "timm", &image([12, 16])).unwrap();
    for wrong in [[12, 20], [13, 16], [4, 4]] {
        assert_says(open(&path, "timm", &image(wrong)).unwrap_err(), &["do not fit"]);
    }
    // A prefix of no encoder, and a file of several encoders without a prefix.
    let prefix = |prefix: &str| ImportOptions { prefix: Some(prefix.to_owned()), ..options() };
    let error = open(&checkpoint("mocov3"), "mocov3", &prefix("encoder.")).unwrap_err();
    assert!(error.contains("module.momentum_encoder.") && error.contains("--prefix"), "{error}");
    assert_says(open(&checkpoint("mocov3"), "timm", &options()).unwrap_err(), &["its encoders are under"]);
    let error = open(&checkpoint("timm"), "timm", &prefix("encoder.")).unwrap_err();
    assert!(error.contains("--prefix encoder.: its only encoder is under no prefix"), "{error}");
    // The other encoders are left out once one is chosen, also one around it; what belongs to none is not.
    let names = ["student.", "teacher.ema.", ""];
    let whole = tensors();
    let mut several = BTreeMap::new();
    for under in names {
        several.extend(whole.iter().map(|(name, tensor)| (format!("{under}{name}"), tensor.clone())));
    }
    save(&several, &path);
    for under in names {
        Original::open(&path, find("timm").unwrap(), &prefix(under))
            .unwrap_or_else(|error| panic!("{under:?}: {error}"));
    }
    several.retain(|name, _| name.starts_with("student.") || name.starts_with("teacher."));
    save(&several, &path);
    let error = open(&path, "timm", &options()).unwrap_err();
    assert!(error.contains("student., teacher.ema.: choose one with --prefix"), "{error}");
    let notes = Original::open(&path, find("timm").unwrap(), &prefix("student.")).unwrap().notes;
    assert_eq!(notes[2], format!("left out: 2 of head.*, {} of teacher.ema.*", whole.len()));
    several.insert("other.weight".into(), (vec![1], vec![0; 4]));
    save(&several, &path);
    let error = open(&path, "timm", &prefix("student.")).unwrap_err();
    assert!(
        error.contains("1 unused: other.weight") && error.contains("save the state dict without"),
        "{error}"
    );
    save(&BTreeMap::new(), &path);
    let error = open(&path, "timm", &options()).unwrap_err();
    assert!(error.ends_with("; it contains no tensor"), "{error}");
    let key = |key: &str| ImportOptions { key: Some(key.to_owned()), ..options() };
    let notes = |options| Original::open(&checkpoint("dino"), find("dino").unwrap(), &options).unwrap().notes;
    assert!(!notes(key("student")).concat().contains("--key"), "{:?}", notes(key("student")));
    assert_eq!(notes(options()).last().unwrap(), "not read: student; --key chooses such a model");
    let error = open(&checkpoint("timm"), "timm", &key("model_ema")).unwrap_err();
    assert!(error.contains("leave out --key"), "{error}");
    let mut tuned = tensors();
    for part in ["weight", "bias"] {
        let norm = tuned.remove(&format!("norm.{part}")).expect("a final norm");
        tuned.insert(format!("fc_norm.{part}"), norm);
    }
    save(&tuned, &path);
    let error = open(&path, "timm", &options()).unwrap_err();
    assert!(error.contains("2 missing: norm.bias, norm.weight; a ViT that was fine-tuned"), "{error}");
    // MAE's own fine-tuning gives such models.
    assert_says(open(&path, "mae", &options()).unwrap_err(), &["2 unused", "; a ViT that was fine-tuned"]);
    let error = open(&checkpoint("dino"), "dino", &key("ema")).unwrap_err();
    assert!(error.contains("under ema") && error.contains("student, teacher, epoch, args; "), "{error}");
    assert!(error.ends_with("`ssmprobe import --key student` reads the tensors there"), "{error}");
}

#[test]
fn of_images_larger_than_usual_nothing_is_cropped_but_by_dinov2_which_is_evaluated_on_smaller_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vit.safetensors");
    for (project, side, edge, shortest) in
        [("mae", 224, 224, 256), ("mae", 336, 336, 336), ("dinov2", 336, 224, 256)]
    {
        let rows = 1 + (side / 4) * (side / 4);
        let mut larger = tensors();
        larger.insert("pos_embed".into(), (vec![1, rows, 24], vec![0; 4 * 24 * rows]));
        if project == "dinov2" {
            let scales = (0..2).flat_map(|block| [1, 2].map(|at| format!("blocks.{block}.ls{at}.gamma")));
            larger.extend(scales.map(|name| (name, (vec![24], vec![0; 4 * 24]))));
            larger.insert("mask_token".into(), (vec![1, 24], vec![0; 4 * 24]));
        }
        save(&larger, &path);
        let out = folder.path().join(format!("{project}-{side}"));
        open(&path, project).unwrap().write(&out).unwrap();
        let Preprocessor { resize, crop, .. } = Preprocessor::open(&out).unwrap();
        assert_eq!(
            (crop, resize.map(|(size, _)| size)),
            (Some((edge, edge)), Some(Size::Shortest(shortest))),
            "{project}, {side}"
        );
    }
}

#[test]
fn images_are_normalised_and_resized_as_the_project_does() {
    let folder = tempfile::tempdir().unwrap();
    let imagenet = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    let clip = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]);
    let all = [
        ("mae", Filter::Bicubic, imagenet),
        ("dino", Filter::Bicubic, imagenet),
        ("dinov2", Filter::Bicubic, imagenet),
        ("mocov3", Filter::Bilinear, imagenet),
        ("eva02", Filter::Bicubic, clip),
    ];
    for (project, filter, statistics) in all {
        let out = folder.path().join(project);
        let own = ImportOptions { scale: None, ..options() };
        Original::open(&checkpoint(project), find(project).unwrap(), &own).unwrap().write(&out).unwrap();
        let Preprocessor { resize, normalise, .. } = Preprocessor::open(&out).unwrap();
        assert_eq!((resize.map(|(_, own)| own), normalise), (Some(filter), Some(statistics)), "{project}");
    }
    assert_eq!(PROJECTS.iter().filter(|project| project.scale.is_some()).count(), all.len());
}

/// DINO's ViT-S and MoCo v3's differ in nothing else that shapes show.
#[test]
fn there_are_as_many_attention_heads_as_published_for_the_width() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.safetensors");
    for (project, width, heads) in [("timm", 192, 3), ("dino", 384, 6), ("mocov3", 384, 12), ("mae", 768, 12)]
    {
        let mut wide = tensors();
        for (shape, bytes) in wide.values_mut() {
            for size in shape.iter_mut().filter(|size| matches!(**size, 24 | 72)) {
                *size *= width / 24;
            }
            *bytes = vec![0; 4 * shape.iter().product::<usize>()];
        }
        save(&wide, &path);
        let own = ImportOptions { heads: None, ..options() };
        let notes = Original::open(&path, find(project).unwrap(), &own).unwrap().notes;
        assert!(
            notes[1].starts_with(&format!("{heads} attention heads (as published")),
            "{project}: {notes:?}"
        );
    }
}

#[test]
fn a_model_of_timm_is_read_as_the_configuration_beside_its_weights_says() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    save(&tensors(), &at("model.safetensors"));
    let open =
        |scale| Original::open(folder.path(), find("timm").unwrap(), &ImportOptions { scale, ..options() });
    for side in [32, 16] {
        // There is no configuration, or that of a model of other images.
        assert_says(open(None).map(|_| ()).unwrap_err(), &["is not in the weights: give --normalize"]);
        let config = format!(
            r#"{{"architecture": "vit", "pretrained_cfg": {{"input_size": [3, {side}, {side}], "crop_pct": 0.9,
                "interpolation": "bilinear", "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}}}}"#
        );
        fs::write(at("config.json"), config).unwrap();
    }
    for (scale, mean) in [(None, [0.1, 0.2, 0.3]), (Some(Scale::Half), [0.5; 3])] {
        let out = at(&format!("{scale:?}"));
        open(scale).unwrap().write(&out).unwrap();
        let preprocessor = Preprocessor::open(&out).unwrap();
        assert_eq!(preprocessor.resize, Some((Size::Shortest(17), Filter::Bilinear)));
        assert_eq!((preprocessor.crop, preprocessor.normalise.unwrap().0), (Some((16, 16)), mean));
    }
    let config = fs::read_to_string(at("config.json")).unwrap();
    fs::write(at("config.json"), config.replace("bilinear", "lanczos")).unwrap();
    open(None).unwrap().write(&at("lanczos")).unwrap();
    let preprocessor = Preprocessor::open(at("lanczos")).unwrap();
    assert_eq!(preprocessor.resize, Some((Size::Shortest(17), Filter::Lanczos)));
    fs::write(at("config.json"), config.replace("bilinear", "random")).unwrap();
    let error = open(None).map(|_| ()).unwrap_err();
    assert_says(error, &["config.json: its interpolation is \"random\", expected nearest, lanczos,"]);
    fs::write(at("config.json"), config.replace("0.9,", r#"0.9, "crop_mode": "border","#)).unwrap();
    let error = open(None).map(|_| ()).unwrap_err();
    assert_says(error, &["config.json: its crop_mode is \"border\"", "not padded", "write center"]);
    // With a configuration of transformers, the weights' names are not the expected ones.
    fs::write(at("config.json"), r#"{"model_type": "vit"}"#).unwrap();
    let error = Backbone::open(folder.path(), &Device::flex()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("missing: ") && error.contains("ssmprobe import"), "{error}");
}

#[test]
fn arguments_of_a_timm_model_are_used_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    save(&tensors(), &at("model.safetensors"));
    let open = |heads, args: &str| {
        let config = format!(
            r#"{{"architecture": "vit", "model_args": {args}, "pretrained_cfg": {{"input_size": [3, 16, 16], "crop_pct": 0.9,
                "interpolation": "bilinear", "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}}}}"#
        );
        fs::write(at("config.json"), config).unwrap();
        let options = ImportOptions { heads, ..ImportOptions::default() };
        Original::open(folder.path(), find("timm").unwrap(), &options).map_err(|error| error.to_string())
    };
    let own = r#"{"num_heads": 6, "act_layer": "gelu_tanh", "norm_layer": null, "num_classes": 10, "img_size": 16}"#;
    for (given, heads, how) in [(None, 6, "config.json beside the weights"), (Some(3), 3, "as given")] {
        let original = open(given, own).unwrap();
        assert!(original.notes[1].contains(how), "{:?}", original.notes);
        original.write(&at(how)).unwrap();
        let config = Config::open(&at(how)).unwrap();
        assert_eq!((config.heads, config.activation), (heads, Activation::GeluTanh));
    }
    for (args, name) in [
        (r#"{"act_layer": "mish"}"#, "act_layer"),
        (r#"{"norm_layer": "rmsnorm"}"#, "norm_layer"),
        (r#"{"num_heads": [3, 6]}"#, "num_heads"),
        (r#"{"qkv_bias": true, "use_rot_pos_emb": false}"#, "use_rot_pos_emb"),
    ] {
        let error = open(Some(3), args).map(|_| ()).unwrap_err();
        assert!(error.contains("config.json") && error.contains(name), "{args}: {error}");
    }
    // That of another model, as of larger images, says nothing of this one.
    assert_says(
        open(None, r#"{"num_heads": 6, "img_size": 32}"#).map(|_| ()).unwrap_err(),
        &["give --heads"],
    );
}

#[test]
fn layers_that_are_normalised_after_attention_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("eva.safetensors");
    let patches = ("patch_embed.proj.weight".to_owned(), (vec![1792, 3, 1, 1], vec![0; 4 * 3 * 1792]));
    let mut saved: BTreeMap<String, (Vec<usize>, Vec<u8>)> =
        (0..64).map(|block| (format!("blocks.{block}.norm1.weight"), (vec![1], vec![0; 4]))).collect();
    saved.extend([patches]);
    save(&saved, &path);
    for project in ["beit", "timm", "eva02"] {
        let error = open(&path, project).map(|_| ()).expect_err(project);
        assert!(error.contains("EVA-02-CLIP-E"), "{project}: {error}");
    }
}

#[test]
fn the_verb_writes_a_whole_folder_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("made/backbone");
    let import = |path: &Path, rest: &[&str]| {
        let mut command = program();
        command.arg("import").arg(path).args(rest).arg(&out);
        command
    };
    assert_ends(&mut import(&checkpoint("mae"), &["--as", "mae"]), 1, &["--heads"]);
    assert!(!out.exists());
    assert_ends(&mut import(&checkpoint("mae"), &["--as", "vit"]), 2, &["mocov3"]);
    // A NaN is found only while the folder is written.
    let mut broken = tensors();
    let bytes = &mut broken.get_mut("blocks.1.mlp.fc2.weight").unwrap().1;
    bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    let path = folder.path().join("broken.safetensors");
    save(&broken, &path);
    let flags = ["--as", "timm", "--heads", "3", "--normalize", "half"];
    assert_ends(&mut import(&path, &flags), 1, &["blocks.1.mlp.fc2.weight", "NaN"]);
    let left = fs::read_dir(folder.path().join("made")).map_or(0, Iterator::count);
    assert_eq!((out.exists(), left), (false, 0));
    fs::create_dir_all(&out).unwrap();
    let stdout = done(&mut import(&checkpoint("mae"), &["--as", "mae", "--heads", "3"]));
    assert!(stdout.contains("MAE, under \"model\": 2 layers of width 24, patches of 4 x 4"), "{stdout}");
    assert!(stdout.contains("left out: 7 of decoder_*"), "{stdout}");
    let names = ["config.json", "model.safetensors", "preprocessor_config.json"];
    assert_eq!(entries(&out), names.map(|name| out.join(name)));
    assert_ends(&mut import(&checkpoint("mae"), &["--as", "mae", "--heads", "3"]), 2, &["not empty"]);
}

/// Every case of a head: its fixture folder, its project, and the head that it becomes.
const HEADS: &[(&str, &str, &str)] = &[
    ("ep", "ep", "efficient"),
    ("ep-narrow", "ep", "efficient"),
    ("dinov2-linear", "dinov2-linear", "cls-mean"),
    ("dinov2-linear-cls", "dinov2-linear", "cls"),
    ("dinov2-linear4", "dinov2-linear", "cls-mean"),
    ("dinov2-linear4-cls", "dinov2-linear", "cls"),
];

fn open_head(path: &Path, project: &str, width: usize) -> Result<(Probe, Vec<String>), HeadError> {
    let backbone = BackboneMeta { hidden_size: width, ..BackboneMeta::default() };
    read_head(path, original::find(project).unwrap(), backbone, None, None)
}

#[test]
fn an_imported_head_gives_the_logits_of_the_original() {
    let folder = tempfile::tempdir().unwrap();
    for (case, project, head) in HEADS {
        let (probe, messages) = open_head(&fixtures().join(case).join("head.pth"), project, 24).unwrap();
        assert!(!messages.is_empty());
        let file = folder.path().join(format!("{case}.safetensors"));
        probe.save(&file).unwrap();
        let probe = Probe::load(&file).unwrap();
        assert_eq!(probe.meta.head, *head);
        let expected = read(&fixtures().join(case).join("expected.safetensors"));
        let width = expected["cls"].shape[1];
        assert_eq!(probe.meta.backbone.hidden_size, width);
        for k in 0..2 {
            let of = |name: &str, len: usize| expected[name].data[k * len..(k + 1) * len].to_vec();
            let (cls, patches) = (Some(of("cls", width)), of("patches", 16 * width));
            let tokens = Tokens { grid: Grid::new(4, 4), width, cls, registers: Vec::new(), patches };
            let logits = logits_of(&probe, &tokens, 0);
            let target = of("logits", 5);
            let size = target.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
            assert_close(format!("{case}, image {k}"), logits, target, 1e-6 * f64::from(size));
        }
    }
    for project in HEAD_PROJECTS {
        assert!(HEADS.iter().any(|case| case.1 == project.id), "no case of {}", project.name);
    }
}

/// From the image to the logits: the imported backbone concatenates the layers that the imported head names.
#[test]
fn a_head_of_four_layers_reads_the_tokens_that_its_file_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    for case in ["dinov2-linear4", "dinov2-linear4-cls"] {
        let (probe, _) = open_head(&fixtures().join(case).join("head.pth"), "dinov2-linear", 24).unwrap();
        let token_spec = Trained::from_training(probe.meta.training.as_ref()).expect("it says so").token_spec;
        assert_eq!((token_spec.name().as_str(), token_spec.joined()), ("last, 4 blocks", 4));
        let out = folder.path().join(case);
        open(&checkpoint("dinov2-linear4"), "dinov2").unwrap().write(&out).unwrap();
        let backbone = Backbone::open(&out, &Device::flex()).unwrap().with_joined(token_spec.joined());
        let images = [image(0, 16, 16), image(1, 16, 16)];
        let found = backbone.forward(&images).unwrap();
        assert_eq!((backbone.width(), probe.meta.backbone.hidden_size), (96, 96));
        let expected = read(&fixtures().join(case).join("expected.safetensors"));
        for (k, (tokens, pixels)) in found.iter().zip(&images).enumerate() {
            let of = |name: &str, len: usize| &expected[name].data[k * len..(k + 1) * len];
            let error = difference(tokens.cls.as_ref().expect("CLS"), of("cls", 96))
                .max(difference(&tokens.patches, of("patches", 16 * 96)));
            assert!(error <= 1e-5, "{case}, image {k}: {error}");
            let all: Vec<usize> = (0..16).collect();
            let left = backbone.forward_subset(pixels, &[&all, &all[3..]], backbone.layers()).unwrap();
            assert!(
                difference(&flat(&left[0]), &flat(tokens)) <= 1e-5,
                "{case}, image {k}, all patches left"
            );
            assert_eq!((left[1].width, left[1].patches.len()), (96, 13 * 96));
            let logits = logits_of(&probe, tokens, 0);
            let target = of("logits", 5).to_vec();
            let size = target.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
            assert_close(format!("{case}, image {k}"), logits, target, 1e-5 * f64::from(size));
        }
        assert_says(
            backbone.forward_layers(&images, &[2], true).unwrap_err(),
            &["4 concatenated layers", "ending at layer 2, but there are only 3"],
        );
    }
}

#[test]
fn a_head_that_fits_no_tokens_is_refused() {
    let error = |case: &str, project: &str, width: usize| {
        let path = fixtures().join(case).join("head.pth");
        open_head(&path, project, width).map(|_| ()).unwrap_err().to_string()
    };
    assert!(error("dinov2-linear", "dinov2-linear", 0).contains("--backbone"));
    assert!(error("dinov2-linear", "dinov2-linear", 16).contains("or the last 4 (64)"));
    assert!(error("dinov2-linear", "ep", 24).contains("no head of Efficient Probing"));
    assert!(error("ep", "ep", 16).contains("have width 16"));
    assert!(error("ep", "dinov2-linear", 24).contains("this is not a file of DINOv2's linear heads"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heads.safetensors");
    let tensor = |name: &str| (name.to_owned(), (vec![1_usize], vec![0_u8; 4]));
    save(&["a.weight", "a.bias", "b.weight", "b.bias"].map(tensor).into(), &path);
    assert_says(open_head(&path, "dinov2-linear", 24).map(|_| ()).unwrap_err(), &["several heads"]);
    save(&[("0.cls_token".to_owned(), (vec![1, 1, 24], vec![0; 96]))].into(), &path);
    let missing = open_head(&path, "ep", 24).map(|_| ()).unwrap_err().to_string();
    assert!(missing.contains("\"0.v.weight\" [features, width] is missing"), "{missing}");
    let out = tempfile::tempdir().unwrap().path().join("probe.safetensors");
    let import = || {
        let mut command = program();
        command.arg("import").arg(fixtures().join("ep/head.pth")).args(["--as", "ep"]).arg(&out);
        command
    };
    assert_ends(&mut import(), 1, &["its folder does not exist"]);
    for (flag, value) in [("--heads", "3"), ("--normalize", "half"), ("--image-size", "224")] {
        let said = format!("{flag}: is for a backbone");
        assert_ends(import().args([flag, value]), 2, &[&said, "--as ep"]);
    }
    assert!(!out.exists());
}

#[test]
fn values_of_efficient_probing_are_as_wide_as_a_whole_d_out_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.safetensors");
    let open = |queries: usize, features: usize| {
        let tensor = |name: &str, shape: &[usize]| {
            (name.to_owned(), (shape.to_vec(), vec![0; 4 * shape.iter().product::<usize>()]))
        };
        let tensors = [
            tensor("0.cls_token", &[1, queries, 24]),
            tensor("0.v.weight", &[features, 24]),
            tensor("1.running_mean", &[features]),
            tensor("1.running_var", &[features]),
            tensor("2.weight", &[5, features]),
            tensor("2.bias", &[5]),
        ];
        save(&tensors.into(), &path);
        open_head(&path, "ep", 24).map_err(|error| format!("{:#}", anyhow::Error::from(error)))
    };
    // 24 / 5, rounded down, and 24 / 6 are both 4: d_out is 6.
    for (queries, features, d_out) in [(4, 12, 2), (2, 4, 6), (1, 1, 24)] {
        let (probe, messages) = open(queries, features).unwrap();
        assert!(messages[0].contains(&format!("values of width {features} (d_out {d_out})")), "{messages:?}");
        assert_eq!((probe.meta.config.queries, probe.meta.config.width), (Some(queries), Some(features)));
    }
    assert!(!open(4, 24).unwrap().1[0].contains("d_out"));
    for (queries, features, words) in [
        (4, 11, ["0.v.weight", "[11, 24]", "24 / d_out wide"]),
        (4, 48, ["0.v.weight", "[48, 24]", "24 / d_out wide"]),
        (5, 12, ["queries", "5, but the values are 12 wide", "a divisor of the width of the values"]),
    ] {
        let error = open(queries, features).map(|_| ()).unwrap_err();
        let whole = error.contains("head.safetensors");
        assert!(whole && words.iter().all(|word| error.contains(word)), "{error}");
    }
}

#[test]
fn the_verb_makes_a_probe_of_a_head() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("probe.safetensors");
    let backbone = folder.path().join("backbone");
    open(&checkpoint("dinov2"), "dinov2").unwrap().write(&backbone).unwrap();
    let import = || {
        let mut command = program();
        command.arg("import").arg(fixtures().join("dinov2-linear/head.pth")).args(["--as", "dinov2-linear"]);
        command.arg("--backbone").arg(&backbone).arg(&out);
        command
    };
    assert_says(done(&mut import()), &["5 classes from the CLS token, then the mean"]);
    let probe = Probe::load(&out).unwrap();
    assert_eq!(
        (probe.meta.backbone.id.as_str(), probe.meta.backbone.model_type.as_str()),
        ("backbone", "dinov2")
    );
    // So that it is not read unnoticed with a backbone of other weights, or other tokens of the same ones.
    let trained_on = Backbone::open(&backbone, &Device::flex()).unwrap();
    let (weights, config) = (trained_on.fingerprint(), trained_on.config().key());
    let meta = &probe.meta.backbone;
    assert_eq!(meta.replaced(weights, Some(&config)), None);
    assert_eq!(meta.replaced("others", Some(&config)), Some("other weights"));
    assert_eq!(meta.replaced(weights, Some("others")), Some("another `config.json`"));
    assert_ends(&mut import(), 2, &["already exists"]);
}
