//! Probe files: those that PyTorch writes load, unknown fields survive, and errors say what is wrong.

use std::path::{Path, PathBuf};
use std::process::Command;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::head::{self, Config};
use ssmprobe::model::probe::{Probe, ProbeError, class_word, class_words};
use ssmprobe::model::tokens::Tokens;

use crate::close::assert_close;
use crate::run::{assert_says, entries, root};

fn fixture(name: &str) -> Vec<u8> {
    let path = root().join("tests/fixtures/heads").join(name);
    std::fs::read(path).expect("a fixture")
}

type Stored = Vec<(String, Dtype, Vec<usize>, Vec<u8>)>;

/// A probe file after `change` to its description and tensors.
fn changed(name: &str, change: impl FnOnce(&mut Value, &mut Stored)) -> Vec<u8> {
    let bytes = fixture(name);
    let (_, header) = SafeTensors::read_metadata(&bytes).expect("a header");
    let metadata = header.metadata().clone().expect("metadata");
    let mut meta = serde_json::from_str(&metadata["ssmprobe"]).expect("JSON");
    let tensors = SafeTensors::deserialize(&bytes).expect("tensors");
    let mut stored = tensors
        .tensors()
        .into_iter()
        .map(|(name, view)| (name, view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        .collect();
    change(&mut meta, &mut stored);
    write(&stored, [("ssmprobe".to_owned(), meta.to_string()), ("format".to_owned(), "pt".to_owned())])
}

fn write(stored: &Stored, metadata: impl IntoIterator<Item = (String, String)>) -> Vec<u8> {
    let views = stored.iter().map(|(name, dtype, shape, data)| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), data).expect("a tensor"))
    });
    safetensors::serialize(views, Some(metadata.into_iter().collect())).expect("a file")
}

fn parse(bytes: &[u8]) -> Result<Probe, ProbeError> {
    Probe::parse(bytes, Path::new("my probe.safetensors"))
}

/// The error message for a file, which must name it.
fn refused(bytes: &[u8]) -> String {
    let error = parse(bytes).err().expect("a probe that cannot be read");
    let message = error.to_string();
    assert!(message.contains("my probe.safetensors"), "{message}");
    message
}

fn tokens(grid: Grid, width: usize) -> Tokens {
    let patches = (0..grid.len() * width).map(|i| (i as f32 * 0.7).sin()).collect();
    Tokens { grid, width, cls: None, registers: Vec::new(), patches }
}

#[test]
fn unknown_keys_survive_a_round_trip() {
    let bytes = changed("sinkhorn.safetensors", |meta, _| {
        meta["training"] = json!({"epochs": 100, "curve": [1.5, 0.25]});
        meta["author"] = json!("somebody");
        meta["config"]["dropout"] = json!(0.0);
        meta["backbone"]["revision"] = json!("main");
    });
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("again.safetensors");
    parse(&bytes).expect("a probe").save(&path).expect("room on the disk");
    let again = Probe::load(&path).expect("what was saved");
    assert_eq!(again.meta.training, Some(json!({"epochs": 100, "curve": [1.5, 0.25]})));
    assert_eq!(again.meta.rest["author"], "somebody");
    assert_eq!(again.meta.config.rest["dropout"], 0.0);
    assert_eq!(again.meta.backbone.rest["revision"], "main");
    let saved = std::fs::read(&path).expect("a file");
    let (_, header) = SafeTensors::read_metadata(&saved).expect("a header");
    assert_eq!(header.metadata().as_ref().expect("metadata")["format"], "pt");
    assert_eq!(entries(folder.path()), [path], "no temporary file stays behind");
}

#[test]
fn every_float_type_loads() {
    let half = parse(&fixture("sinkhorn.safetensors")).expect("a probe in half precision");
    for dtype in [Dtype::F32, Dtype::F64, Dtype::BF16] {
        let bytes = changed("sinkhorn.safetensors", |_, tensors| {
            for (_, own, _, data) in tensors {
                let (halves, _) = data.as_chunks::<2>();
                let values = halves.iter().map(|b| half::f16::from_le_bytes(*b).to_f32());
                *data = match dtype {
                    Dtype::F32 => values.flat_map(f32::to_le_bytes).collect(),
                    Dtype::F64 => values.flat_map(|x| f64::from(x).to_le_bytes()).collect(),
                    _ => values.flat_map(|x| half::bf16::from_f32(x).to_le_bytes()).collect(),
                };
                *own = dtype;
            }
        });
        let probe = parse(&bytes).expect("a probe");
        assert_eq!(probe.arrays.len(), half.arrays.len());
        let weights = ("classifier", &probe.classifier.weight, &half.classifier.weight);
        let arrays =
            probe.arrays.iter().map(|(name, found)| (name.as_str(), &found.data, &half.arrays[name].data));
        for (name, found, half) in arrays.chain([weights]) {
            assert_eq!(found.len(), half.len());
            // Bfloat16 keeps eight bits: each number as a share of itself.
            let size = |x: &f32| if dtype == Dtype::BF16 && *x != 0.0 { x.abs() } else { 1.0 };
            let share = |all: &[f32]| all.iter().zip(half).map(|(x, own)| x / size(own)).collect::<Vec<_>>();
            let tolerance = if dtype == Dtype::BF16 { 0.004 } else { 0.0 };
            assert_close(format!("{name} as {dtype}"), share(found), share(half), tolerance);
        }
    }
}

#[test]
fn every_integer_type_loads() {
    for (dtype, value, expected) in [
        (Dtype::I64, (-3_i64).to_le_bytes().to_vec(), -3.0),
        (Dtype::I32, (-3_i32).to_le_bytes().to_vec(), -3.0),
        (Dtype::I16, (-3_i16).to_le_bytes().to_vec(), -3.0),
        (Dtype::U8, vec![253], 253.0),
    ] {
        let bytes = changed("sinkhorn.safetensors", |_, tensors| {
            let (_, own, shape, data) =
                tensors.iter_mut().find(|(name, ..)| name == "classifier.bias").expect("a classifier");
            (*own, *data) = (dtype, value.repeat(shape[0]));
        });
        let bias = parse(&bytes).expect("a probe").classifier.bias;
        assert!(bias.iter().all(|found| *found == expected), "{dtype}: {bias:?}");
    }
}

#[test]
fn damaged_and_foreign_files_are_refused_with_what_to_do() {
    assert!(refused(b"").contains("safetensors"));
    assert!(refused(b"not a probe at all").contains("safetensors"));
    let whole = fixture("sinkhorn.safetensors");
    assert!(refused(&whole[..whole.len() - 7]).contains("cut short"));
    let mut huge = whole.clone();
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(refused(&huge).contains("safetensors"));
    let other = vec![("weight".to_owned(), Dtype::F32, vec![1], vec![0; 4])];
    assert!(refused(&write(&other, [])).contains("no metadata key `ssmprobe`"));
    assert!(refused(&write(&other, [("ssmprobe".into(), "{".into())])).contains("cannot be parsed"));
    assert_says(Probe::load(std::env::temp_dir()).err().expect("a folder"), &["not a file"]);
    let missing = std::env::temp_dir().join("ssmprobe no such file.safetensors");
    assert_says(Probe::load(&missing).err().expect("no such file"), &["no such file", "check that"]);

    let meta = |change: fn(&mut Value)| refused(&changed("sinkhorn.safetensors", |meta, _| change(meta)));
    assert_says(meta(|meta| meta["format"] = json!(2)), &["format 2", "update ssmprobe"]);
    assert_says(meta(|meta| meta["format"] = json!(0)), &["format 0"]);
    let message = meta(|meta| drop(meta.as_object_mut().expect("an object").remove("format")));
    assert!(message.contains("missing field `format`"), "{message}");
    assert_says(meta(|meta| meta["head"] = json!("sinkhron")), &["`sinkhron`", "choose one of: sinkhorn,"]);
    assert_says(meta(|meta| meta["config"]["iterations"] = json!(0)), &["`iterations` is 0"]);
    assert_says(meta(|meta| meta["config"]["sharing"] = json!("both")), &["both", "channel"]);
    for width in [json!(0), json!(1_000_000_000_000_u64)] {
        let bytes = changed("sinkhorn.safetensors", |meta, _| meta["backbone"]["hidden_size"] = width);
        assert!(refused(&bytes).contains("`backbone.hidden_size`"));
    }
}

#[test]
fn tokens_of_24_joined_layers_can_be_read() {
    const WIDTH: usize = 24 * 1024;
    let bytes = changed("gap.safetensors", |meta, tensors| {
        meta["backbone"]["hidden_size"] = json!(WIDTH);
        let weight = tensors.iter_mut().find(|(name, ..)| name == "classifier.weight").expect("a classifier");
        let classes = weight.2[0];
        (weight.2, weight.3) = (vec![classes, WIDTH], vec![0; 2 * classes * WIDTH]); // in half precision
    });
    let probe = parse(&bytes).expect("a probe that a training writes");
    assert!(probe.fits(WIDTH, 4, false).is_ok());
    let efficient = head::find("efficient").expect("a head");
    assert!(efficient.build(&Config { width: Some(WIDTH), ..Config::default() }).is_ok());
}

#[test]
fn all_wrong_tensors_are_one_error() {
    let bytes = changed("sinkhorn.safetensors", |_, tensors| {
        tensors.retain(|(name, ..)| name != "s4.0.B");
        for (name, dtype, shape, data) in tensors.iter_mut() {
            match name.as_str() {
                "scorer.weight" => *shape = vec![24, 1],
                "s4.0.D" => (*dtype, *data) = (Dtype::BOOL, vec![1]),
                "s4.0.C" => *name = "s4.0.Ctilde".to_owned(),
                _ => {}
            }
        }
    });
    let message = refused(&bytes);
    for part in [
        "`scorer.weight` is [24, 1], expected [1, 24]",
        "`s4.0.B` [16] is missing",
        "`s4.0.C` [16] is missing",
        "`s4.0.D` has type BOOL",
        "`s4.0.Ctilde` is unused",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let message = refused(&changed("gap.safetensors", |meta, _| meta["classes"] = json!(["one", "two"])));
    assert!(message.contains("`classifier.weight` is [5, 24], expected [2, 24]"), "{message}");
}

/// Sets value `at` of a tensor in half precision.
fn set(name: &'static str, at: usize, value: f32) -> impl FnOnce(&mut Value, &mut Stored) {
    move |_, tensors| {
        let (.., data) = tensors.iter_mut().find(|(own, ..)| own == name).expect("a tensor");
        data[2 * at..2 * at + 2].copy_from_slice(&half::f16::from_f32(value).to_le_bytes());
    }
}

#[test]
fn values_no_probe_can_have_are_refused_by_name() {
    for (file, name, at, value, problem) in [
        ("sinkhorn", "scorer.weight", 3, f32::NAN, "not finite"),
        ("sinkhorn", "classifier.bias", 0, f32::INFINITY, "not finite"),
        ("sinkhorn", "s4.0.A", 1, 0.5, "lower triangular"),
        ("sinkhorn-channel", "s4.0.A", 17, 0.5, "negative diagonal"),
        ("sinkhorn", "s4.0.A", 0, 0.0, "negative diagonal"),
        ("sinkhorn", "s4.0.dt", 0, 0.5, "expected a step"),
        ("linear-bn", "norm.running_var", 0, -1.0, "negative variances"),
    ] {
        let message = refused(&changed(&format!("{file}.safetensors"), set(name, at, value)));
        assert!(message.contains(&format!("`{name}`")) && message.contains(problem), "{message}");
    }
    for wrong in [3_i64, -1, 12, i64::MAX] {
        let bytes = changed("random-fixed.safetensors", |_, tensors| {
            let (.., data) = tensors.iter_mut().find(|(own, ..)| own == "order").expect("an order");
            data[..8].copy_from_slice(&wrong.to_le_bytes());
        });
        assert!(refused(&bytes).contains("not a permutation of 0 to 11"));
    }
    // A tensor of no bytes, or of one per index.
    for (dtype, shape) in
        [(Dtype::I64, vec![1 << 40, 0]), (Dtype::I64, vec![]), (Dtype::I8, vec![(1 << 20) + 1])]
    {
        let bytes = changed("random-fixed.safetensors", |_, tensors| {
            let order = tensors.iter_mut().find(|(own, ..)| own == "order").expect("an order");
            let values = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            *order = ("order".to_owned(), dtype, shape, vec![0; values]);
        });
        assert_says(refused(&bytes), &["`order` has the shape", "1048576 tokens"]);
    }
}

#[test]
fn tokens_that_do_not_fit_are_refused() {
    let probe = parse(&fixture("random-fixed.safetensors")).expect("a probe");
    let message = |tokens| probe.output(&tokens, 0).expect_err("no fit").to_string();
    assert_says(message(tokens(Grid::new(2, 6), 48)), &["24", "48", "`reference`"]);
    assert_says(message(tokens(Grid::new(3, 3), 24)), &["12 tokens", "has 9"]);
    let cls = parse(&fixture("cls.safetensors")).expect("a probe");
    assert!(matches!(cls.output(&tokens(Grid::new(3, 3), 24), 0), Err(ProbeError::NoCls { .. })));
    probe.output(&tokens(Grid::new(3, 4), 24), 0).expect("as many tokens on another grid");
}

#[test]
fn classes_are_found_by_name_or_number() {
    let bytes = changed("gap.safetensors", |meta, _| {
        meta["classes"] =
            json!(["Black footed Albatross", "Laysan Albatross", "Sooty Albatross", "Crested Auklet", "3"]);
    });
    let probe = parse(&bytes).expect("a probe");
    assert_eq!(probe.class("Crested Auklet").expect("exact"), 3);
    assert_eq!(probe.class("laysan albatross").expect("any case"), 1);
    assert_eq!(probe.class("3").expect("names come first"), 4);
    assert_eq!(probe.class("2").expect("a number"), 2);
    for (asked, hint) in [
        ("5", "it has 5 classes"),
        ("-1", "it has 5 classes"),
        ("Crested Auk", "`Crested Auklet`"),
        ("", "`Crested Auklet`"),
    ] {
        assert_says(probe.class(asked).expect_err("no such class"), &["a number from 0 to 4", hint]);
    }
    let message = probe.class("Sooty Albatros").expect_err("no such class").to_string();
    assert!(message.contains("nearest are `Sooty Albatross`"), "{message}");
    let message = probe.class("cat").expect_err("no such class").to_string();
    assert!(message.contains("its classes include `") && !message.contains("nearest"), "{message}");
    // Names that differ only in case are each found as written.
    let bytes = changed("gap.safetensors", |meta, _| {
        meta["classes"] = json!(["turkey", "Turkey", "crane", "TURKEY", "Crane"]);
    });
    let capitals = parse(&bytes).expect("a probe");
    for (asked, found) in
        [("turkey", 0), ("Turkey", 1), ("TURKEY", 3), ("tURKEY", 0), ("Crane", 4), ("CRANE", 2)]
    {
        assert_eq!(capitals.class(asked).expect("a class"), found, "{asked}");
    }
    let cranes = |meta: &mut Value, _: &mut Stored| {
        meta["classes"] = json!(["crane", "finch", "wren", "crane", "owl"]);
    };
    let cranes = parse(&changed("gap.safetensors", cranes)).expect("a probe");
    assert_says(
        cranes.class("crane").expect_err("two cranes"),
        &["are called `crane`; choose `crane (0)` or `crane (3)`, or the number"],
    );
    assert!(cranes.class("Crane").is_err(), "in other letters, too");
    for (asked, found) in [("3", 3), ("finch", 1), ("crane (0)", 0), ("crane (3)", 3)] {
        assert_eq!(cranes.class(asked).expect("a class"), found, "{asked}");
    }
    assert!(cranes.class("crane (1)").is_err(), "that is the finch");
    let words = class_words(&cranes.meta.classes);
    assert_eq!(words, ["crane (0)", "finch", "wren", "crane (3)", "owl"]);
    assert!((0..6).all(|class| class_word(&cranes.meta.classes, class).as_ref() == words.get(class)));
    let nameless =
        parse(&changed("gap.safetensors", |meta, _| meta["classes"] = json!([]))).expect("a probe");
    assert_eq!((nameless.classes(), nameless.class("4").expect("a number")), (5, 4));
    assert!(nameless.class("cat").expect_err("no names").to_string().contains("choose a number"));
}

#[test]
fn kernels_are_those_of_the_probe_and_the_image_size() {
    let probe = parse(&fixture("vmamba-channel.safetensors")).expect("a probe");
    for grid in [Grid::new(3, 3), Grid::new(2, 6), Grid::new(3, 3)] {
        let tokens = tokens(grid, 24);
        let kernels = probe.head().kernels(&probe.arrays, grid.len());
        let fresh = probe.head().output(&probe.host_params(&kernels), &tokens, 0);
        assert_eq!(probe.output(&tokens, 0).expect("tokens that fit"), fresh);
    }
    let mut copy = probe.clone();
    copy.arrays["s4.0.C"].data.iter_mut().for_each(|c| *c = 0.0);
    let tokens = tokens(Grid::new(3, 3), 24);
    assert_ne!(copy.output(&tokens, 0).expect("fits"), probe.output(&tokens, 0).expect("fits"));
}

/// A Python with PyTorch and safetensors, if there is one.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("SSMPROBE_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let works = Command::new(&named).args(["-c", "import torch, safetensors"]).output();
    let works = works.is_ok_and(|output| output.status.success());
    assert!(
        works || std::env::var_os("SSMPROBE_PYTHON").is_none(),
        "SSMPROBE_PYTHON: {} has no torch",
        named.display()
    );
    works.then_some(named)
}

#[test]
fn the_pytorch_example_writes_a_probe_that_loads() {
    let Some(python) = python() else {
        return crate::skip::because("there is no Python with torch and safetensors (set SSMPROBE_PYTHON)");
    };
    let script = root().join("assets/examples/write_probe.py");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.safetensors");
    let output = Command::new(&python).arg(&script).arg(&path).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let probe = Probe::load(&path).expect("what the example wrote");
    assert_eq!(probe.meta.classes, ["cat", "dog", "bird"]);
    let output = probe.output(&tokens(Grid::new(14, 14), 192), 0).expect("tokens that fit");
    assert_eq!(output.scores.expect("a scorer").len(), 196);

    // And PyTorch reads what we write.
    probe.save(&path).expect("room on the disk");
    let read = "import sys, write_probe; m, t = write_probe.read(sys.argv[1]); print(m['head'], float(t['s4.0.dt']))";
    let mut command = Command::new(&python);
    let output = command.current_dir(script.parent().expect("a folder")).args(["-B", "-c", read]).arg(&path);
    let output = output.output().expect("Python runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.starts_with("sinkhorn 0.05"), "{stdout} {}", String::from_utf8_lossy(&output.stderr));
}
