//! `ssmprobe inspect` from the command line, against float64 code on transformers' tokens
//! (`tests/reference/inspect_verb.py`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};

use ndarray::ArrayD;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use ssmprobe::model::explain::removal::{Mode, Removal};
use ssmprobe::model::explain::stability::Stability;
use ssmprobe::model::io::sha256;
use ssmprobe::model::probe::Probe;

use crate::heads::OPAQUE;
use crate::npz;
use crate::run::prelude::*;
use crate::run::{self, column, probes};

/// Image files of the fixture and what their results are called: two have the same stem.
const IMAGES: [(&str, &str); 3] = [("one.png", "one"), ("sub/one.png", "one-2"), ("sub/two.png", "two")];

fn inspect(out: &Path) -> Command {
    let mut command = run::inspect(16);
    command.arg("--out").arg(out);
    command
}

/// [`inspect`] of one image through the Sinkhorn probe.
fn inspect_one(out: &Path) -> Command {
    let mut command = inspect(out);
    command.arg("--image").arg(fixture("images/one.png"));
    command.arg("--probe").arg(fixture("probes/sinkhorn.safetensors"));
    command
}

fn arrays(path: &Path) -> BTreeMap<String, ArrayD<f32>> {
    let file = fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let arrays = npz::read(file).expect("an archive");
    arrays.into_iter().map(|(name, npy)| (name, npz::array(&npy).expect("a float32 array"))).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-4 * (1.0 + b.abs())
}

#[test]
fn every_array_equals_the_reference() {
    let out = TempDir::new().expect("a folder");
    let mut command = inspect(out.path());
    command.arg("--image").arg(fixture("images")).arg("--probe").arg(fixture("probes")).arg("--save-tokens");
    assert_ends(&mut command, 0, &["3 of 3 images"]);

    let expected = fs::read(fixture("expected.safetensors")).expect("the fixture");
    let expected = SafeTensors::deserialize(&expected).expect("safetensors");
    let words: Value = json(fixture("expected.json"));
    let mut checked = 0;
    for (image, folder) in IMAGES {
        for probe in probes() {
            let probe = probe.file_stem().expect("a stem").to_string_lossy().into_owned();
            let found = arrays(&out.path().join(folder).join(format!("{probe}.npz")));
            let own = format!("{image}:{probe}:");
            let any = format!("{image}::");
            let mut names = BTreeSet::new();
            for (name, view) in expected.tensors() {
                let Some(name) = name.strip_prefix(&own).or(name.strip_prefix(&any)) else { continue };
                let array = found.get(name).unwrap_or_else(|| panic!("{own} no array `{name}`"));
                assert_eq!((array.shape(), Dtype::F64), (view.shape(), view.dtype()), "{own}{name}");
                let values = view.data().chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap()));
                for (at, (a, b)) in array.iter().zip(values).enumerate() {
                    assert!(close(f64::from(*a), b), "{own}{name}[{at}]: {a} instead of {b}");
                }
                names.insert(name.to_owned());
            }
            assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), names, "{own}");

            let document: Value = json(out.path().join(folder).join(format!("{probe}.json")));
            let want = &words[format!("{image}:{probe}")];
            let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{own} {value}"));
            let made = &document["provenance"];
            for (key, file) in [
                ("probe_file", fixture(&format!("probes/{probe}.safetensors"))),
                ("weights", fixture("backbone/model.safetensors")),
            ] {
                assert_eq!(made[key], sha256::of_file(&file).expect("a file"), "{own} {key}");
            }
            let best = &document["prediction"][0];
            assert_eq!((&best["index"], &document["head"]), (&want["best"], &want["head"]), "{own}");
            assert_eq!(document["class"]["index"], want["best"], "{own}");
            assert_eq!(document["prediction"].as_array().map(Vec::len), Some(5), "{own}");
            assert!(close(number(&best["probability"]), number(&want["probability"])), "{own}");
            assert!(close(number(&document["bias"]), number(&want["bias"])), "{own}");
            let logit = number(&document["class"]["logit"]);
            for part in ["evidence_token", "evidence_position"] {
                let Some(part) = found.get(part) else { continue };
                let sum: f64 = part.iter().map(|&e| f64::from(e)).sum();
                assert!(close(sum + number(&document["bias"]), logit), "{own}");
            }
            assert_eq!(document["why_no_exact_evidence"].is_string(), !found.contains_key("evidence_token"));
            let (found, want) =
                (&document["diagnostics"], want["diagnostics"].as_object().expect("an object"));
            assert_eq!(found.as_object().map(serde_json::Map::len), Some(want.len()), "{own}");
            for (name, value) in want {
                let found = &found[name];
                assert!(close(number(&found["value"]), number(value)), "{own} {name}: {found}, {value}");
                assert!(number(&found["null"][0]) <= number(&found["null"][1]), "{own} {name}");
                assert!(number(&found["untrained"]).is_finite(), "{own} {name}");
                assert!(
                    number(&found["untrained_band"][0]) <= number(&found["untrained_band"][1]),
                    "{own} {name}"
                );
            }
            checked += 1;
        }
    }
    let mut table = csv::Reader::from_path(out.path().join("summary.csv")).expect("the summary");
    let headers = table.headers().expect("headers").clone();
    assert!(headers.iter().any(|name| name == "rank_coverage_null_p5"));
    let rows: Vec<csv::StringRecord> = table.records().collect::<Result<_, _>>().expect("rows");
    assert_eq!((checked, rows.len()), (IMAGES.len() * probes().len(), checked));
}

#[test]
fn two_runs_write_the_same_bytes() {
    let folders = [(); 2].map(|()| TempDir::new().expect("a folder"));
    for (out, batch) in folders.iter().zip(["1", "16"]) {
        let mut command = inspect(out.path());
        command.arg("--image").arg(fixture("images")).arg("--probe").args(probes());
        done(command.args(["--save-tokens", "--batch", batch]));
    }
    let [first, second] = folders.each_ref().map(|folder| tree(folder.path()));
    assert_eq!(first.len(), IMAGES.len() * probes().len() * 2 + 1);
    for (name, bytes) in &first {
        assert!(second.get(name) == Some(bytes), "{name} differs");
    }
    // No time of day in the archives: MS-DOS date 1980-01-01 and time 0 in the first local header.
    let archive = &first["one/gap.npz"];
    assert_eq!(archive[10..14], [0, 0, 0x21, 0]);
}

/// Ctrl-C ends it between two batches; what was explained until then is in the summary.
#[cfg(unix)]
#[test]
fn a_stopped_inspection_keeps_its_summary() {
    let work = TempDir::new().expect("a folder");
    let images = work.path().join("images");
    fs::create_dir(&images).expect("a folder");
    for at in 0..400 {
        fs::copy(fixture("images/one.png"), images.join(format!("{at:03}.png"))).expect("a copy");
    }
    let out = work.path().join("out");
    let mut command = inspect(&out);
    command.args(["--batch", "1", "--json"]).arg("--image").arg(&images).arg("--probe").args(probes());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    assert!(lines.next().expect("a line").expect("text").contains("result"));
    crate::interrupts::signal(&child, "-INT");
    let reported =
        1 + lines.filter(|line| line.as_ref().is_ok_and(|line| line.contains("\"result\""))).count();
    assert_eq!(child.wait().expect("a child").code(), Some(130));
    let rows = fs::read_to_string(out.join("summary.csv")).expect("a summary").lines().count() - 1;
    assert!(rows == reported && rows < 400 * probes().len(), "{rows} rows, {reported} told");
    assert!(tree(&out).keys().all(|name| !name.contains(".ssmprobe")));
}

#[test]
fn what_cannot_be_read_is_left_out_and_counted() {
    let work = TempDir::new().expect("a folder");
    let images = work.path().join("images");
    fs::create_dir(&images).expect("a folder");
    fs::copy(fixture("images/one.png"), images.join("good.png")).expect("a copy");
    fs::write(images.join("broken.jpg"), "no picture at all").expect("a file");
    fs::write(images.join("notes.txt"), "not an image, by its name").expect("a file");
    let out = work.path().join("out");
    let mut command = inspect(&out);
    command.arg("--image").arg(&images).arg("--probe").arg(fixture("probes/gap.safetensors")).arg("--json");
    let (stdout, stderr) = succeeds(&mut command);
    assert!(stderr.contains("warning: left out: ") && stderr.contains("broken.jpg"), "{stderr}");
    assert!(stderr.contains("1 of 2 images"), "{stderr}");
    let lines = lines(&stdout);
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().expect("an event")).collect();
    assert_eq!(events, ["failure", "result", "end"]);
    assert!(lines[0]["image"].as_str().is_some_and(|image| image.ends_with("broken.jpg")));
    let files = lines[1]["files"].as_array().expect("files");
    assert!(
        !files.is_empty() && files.iter().all(|file| Path::new(file.as_str().expect("a path")).is_file())
    );
    assert_eq!((&lines[2]["images"], &lines[2]["images_done"]), (&2.into(), &1.into()));
    assert!(tree(&out).keys().all(|name| !name.contains(".ssmprobe")));

    fs::remove_file(images.join("good.png")).expect("removed");
    let mut command = inspect(&work.path().join("none"));
    command.arg("--image").arg(&images).arg("--probe").arg(fixture("probes/gap.safetensors"));
    assert_ends(&mut command, 1, &["0 of 1 image explained"]);
}

#[test]
fn a_probe_that_a_reading_cannot_change_is_left_out_once() {
    let out = TempDir::new().expect("a folder");
    let of = |heads: &[&str], readings: &[&str]| {
        let mut command = inspect(out.path());
        command.arg("--image").arg(fixture("images")).args(["--class", "0,1", "--probe"]);
        command.args(heads.iter().map(|head| fixture(&format!("probes/{head}.safetensors"))));
        command.arg("--reading").args(readings);
        command
    };
    let (_, stderr) =
        succeeds(&mut of(&["gap", "sinkhorn"], &["as-trained", "no-routing", "temperature=0.5"]));
    for (reading, why) in
        [("no routing", "gap has no reading order"), ("temperature 0.5", "gap has no temperature")]
    {
        let warning = format!("gap.safetensors, {reading}: {why}");
        assert!(stderr.matches("left out").count() == 2 && stderr.contains(&warning), "{stderr}");
    }
    // Three images, two classes: one reading of one probe, three of the other.
    assert!(stderr.contains("3 of 3 images explained, 24 results"), "{stderr}");
    let none = "--reading changes nothing in any of the probes";
    assert_ends(&mut of(&["gap"], &["hardened", "last=2"]), 2, &[none, "gap has no reading order to change"]);
}

/// The classifier brings the logits of such weights back.
#[test]
fn kernels_beyond_float32_are_left_out_by_name() {
    let out = TempDir::new().expect("a folder");
    let mut probe = Probe::load(fixture("probes/sinkhorn-channel.safetensors")).expect("a probe");
    for name in ["s4.0.B", "s4.0.C"] {
        probe.arrays[name].data.iter_mut().for_each(|x| *x *= 3e19);
    }
    probe.classifier.weight.iter_mut().for_each(|w| *w *= 1e-38);
    let path = out.path().join("large.safetensors");
    probe.save(&path).expect("room on the disk");
    let mut command = inspect(&out.path().join("out"));
    command.arg("--image").arg(fixture("images/one.png")).arg("--probe").arg(&path).arg("--save-traces");
    assert_ends(
        &mut command,
        1,
        &["one.png through", "large.safetensors: the kernels exceed the largest float32"],
    );
    assert!(!out.path().join("out/one/large.trace.json").exists());
}

#[test]
fn a_class_is_asked_for_by_name_or_index() {
    for (asked, index) in [("Owl", 2), ("owl", 2), ("crane", 1), ("6", 6)] {
        let out = TempDir::new().expect("a folder");
        done(inspect_one(out.path()).args(["--class", asked, "--rho", "0.5"]));
        let document: Value = json(out.path().join("one/sinkhorn.json"));
        assert_eq!((&document["class"]["index"], &document["rho"]), (&index.into(), &0.5.into()), "{asked}");
        // The evidence is that for this class: with its bias it sums to its logit.
        let evidence =
            arrays(&out.path().join("one/sinkhorn.npz")).remove("evidence_token").expect("evidence");
        let number = |value: &Value| value.as_f64().expect("a number");
        let sum = evidence.iter().map(|&e| f64::from(e)).sum::<f64>() + number(&document["bias"]);
        let logit = number(&document["class"]["logit"]);
        assert!(close(sum, logit), "{asked}: {sum} instead of {logit}");
        let written = column(&out.path().join("summary.csv"), "class_logit");
        let written: f64 = written[0].parse().expect("a number");
        assert!(close(written, logit), "{asked}: {written} instead of {logit}");
    }
}

/// Results of several classes are those that each has alone.
#[test]
fn several_classes_have_results_of_their_own() {
    let [one, all] = [(); 2].map(|()| TempDir::new().expect("a folder"));
    let run = |out: &Path, class: &str| {
        let mut command = inspect_one(out);
        command.args(["--class", class, "--save-traces", "--stability"]);
        done(command.args(["--causal", "frozen", "--steps", "2"]));
    };
    // Owl is class 2: a class named twice is explained once.
    run(all.path(), "Owl, 6,2");
    let written: Vec<String> = tree(&all.path().join("one")).into_keys().collect();
    let name = Probe::load(fixture("probes/sinkhorn.safetensors")).expect("a probe").meta.classes[6].clone();
    let slug = ssmprobe::model::io::escape::slug(&name);
    let names = ["Owl".to_owned(), slug].map(|class| format!("sinkhorn-for-{class}"));
    let endings = ["npz", "json", "trace.json", "causal.npz", "causal.json"];
    let mut expected: Vec<String> =
        names.iter().flat_map(|name| endings.map(|ending| format!("{name}.{ending}"))).collect();
    // The stability of an order does not depend on the class: it is written once.
    expected.push(format!("{}.stability.json", names[0]));
    expected.sort();
    assert_eq!(written, expected);
    for (class, name) in ["Owl", "6"].into_iter().zip(&names) {
        run(one.path(), class);
        for ending in endings {
            let [own, alone] = [
                all.path().join(format!("one/{name}.{ending}")),
                one.path().join(format!("one/sinkhorn.{ending}")),
            ]
            .map(|path| fs::read(path).expect("a result"));
            assert!(own == alone, "{name}.{ending}");
        }
    }
    let [first, second] = names.map(|name| arrays(&all.path().join(format!("one/{name}.npz"))));
    assert_ne!(first["evidence_token"], second["evidence_token"]);
    assert_eq!(column(&all.path().join("summary.csv"), "class_index"), ["2", "6"]);
    assert_ends(inspect_one(one.path()).args(["--class", "owl,unicorn"]), 2, &["`unicorn`"]);
}

/// A probe file for tokens of `width` channels that averages them.
fn gap_of_width(path: &Path, width: usize) {
    let (weight, bias) = (vec![0; 2 * width * 4], vec![0; 2 * 4]);
    let tensors = [
        ("classifier.weight", TensorView::new(Dtype::F32, vec![2, width], &weight).expect("a view")),
        ("classifier.bias", TensorView::new(Dtype::F32, vec![2], &bias).expect("a view")),
    ];
    let meta = format!(
        r#"{{"format":1,"head":"gap","config":{{}},"classes":["a","b"],
        "backbone":{{"id":"other","model_type":"vit","hidden_size":{width}}}}}"#
    );
    let meta = [("ssmprobe".to_owned(), meta)].into();
    safetensors::serialize_to_file(tensors, Some(meta), path).expect("a probe file");
}

#[test]
fn mistakes_are_told_before_any_work() {
    let work = TempDir::new().expect("a folder");
    let out = work.path().join("out");
    let (image, probe) = (fixture("images/one.png"), fixture("probes/sinkhorn.safetensors"));
    let wide = work.path().join("wide.safetensors");
    gap_of_width(&wide, 32);
    let told = |image: &Path, probe: &Path, more: &[&str]| {
        let mut command = inspect(&out);
        let (code, _, stderr) = run(command.arg("--image").arg(image).arg("--probe").arg(probe).args(more));
        assert!(!out.exists(), "{stderr}");
        assert!(stderr.starts_with("error: "), "{stderr}"); // nothing is printed before it: no driver was queried
        (code, stderr)
    };
    let absent = work.path().join("absent.png");
    for (image, probe, more, expected, words) in [
        (&*image, &*wide, &[][..], 2, &["24", "32", "wide.safetensors"][..]),
        (&image, &probe, &["--class", "dog"], 2, &["`dog`", "tench"]),
        (&image, &probe, &["--class", "99"], 2, &["7 classes; choose a number from 0 to 6"]),
        (&absent, &probe, &[], 2, &["absent.png"]),
        (work.path(), &probe, &[], 2, &["contains no image"]),
        (&image, &image, &[], 1, &["one.png"]),
        (&image, &probe, &["--layer", "9"], 2, &["layers 1 to 2"]),
        (&image, &probe, &["--mae-order", "shuffled:3"], 2, &["the backbone is ViT, and only ViT-MAE"]),
        (&image, &probe, &["--rho", "1.5"], 2, &["'--rho <X>': expected a number from 0 to 1"]),
    ] {
        let (code, stderr) = told(image, probe, more);
        assert!(code == expected && words.iter().all(|words| stderr.contains(words)), "{more:?}: {stderr}");
    }
    let (_, stderr) = told(&image, &probe, &["--size", "36"]);
    assert!(stderr.contains("patches of 8 x 8") && stderr.contains("(--size)"), "{stderr}");
}

#[test]
fn layers_and_the_order_of_mae_are_chosen() {
    let work = TempDir::new().expect("a folder");
    // ViT-MAE of another fixture, with a preprocessing of its own size.
    let backbone = work.path().join("mae");
    let source = fixture("../backbones/vit-mae");
    fs::create_dir(&backbone).expect("a folder");
    for name in ["config.json", "model.safetensors"] {
        fs::copy(source.join(name), backbone.join(name)).expect("a copy");
    }
    let config: Value = json(source.join("config.json"));
    let mut preprocessing: Value = json(fixture("backbone/preprocessor_config.json"));
    for side in ["height", "width"] {
        preprocessing["size"][side] = config["image_size"].clone();
    }
    fs::write(backbone.join("preprocessor_config.json"), preprocessing.to_string()).expect("a file");
    let probe = work.path().join("gap.safetensors");
    gap_of_width(&probe, config["hidden_size"].as_u64().expect("a size") as usize);

    let command = |out: &Path, more: &[&str]| {
        let mut command = program();
        command.args(["inspect", "--device", "cpu", "--save-tokens"]).args(more);
        command.arg("--backbone").arg(&backbone).arg("--probe").arg(&probe);
        command.arg("--image").arg(fixture("images/one.png")).arg("--out").arg(out);
        command
    };
    let tokens = |more: &[&str]| {
        let out = TempDir::new().expect("a folder");
        done(&mut command(out.path(), more));
        let tokens = arrays(&out.path().join("one/gap.npz")).remove("tokens").expect("tokens");
        let width = tokens.shape()[1];
        let rows: Vec<Vec<u32>> =
            tokens.iter().map(|x| x.to_bits()).collect::<Vec<_>>().chunks(width).map(<[_]>::to_vec).collect();
        rows
    };
    let sorted = |mut rows: Vec<Vec<u32>>| {
        rows.sort();
        rows
    };
    let kept = tokens(&[]);
    assert_eq!(kept, tokens(&["--mae-order", "kept"]));
    let shuffled = tokens(&["--mae-order", "shuffled"]);
    assert_ne!(kept, shuffled);
    assert_eq!(sorted(kept.clone()), sorted(shuffled.clone()), "the same tokens in another order");
    assert_ne!(shuffled, tokens(&["--mae-order", "shuffled:1"]));
    assert_ne!(kept, tokens(&["--layer", "0"]));
    // A changed copy of an image is shuffled otherwise, so that no token has the place of the same patch.
    let words = ["--stability: ", "shuffled order", "--mae-order kept"];
    assert_ends(&mut command(work.path(), &["--mae-order", "shuffled", "--stability"]), 2, &words);
    // Nor does a token lie where a mask says.
    let words = ["--masks: ", "shuffled order", "--mae-order kept"];
    assert_ends(&mut command(work.path(), &["--mae-order", "shuffled", "--masks", "masks"]), 2, &words);
}

#[test]
fn the_stability_of_an_order_is_measured_and_drawn() {
    let out = TempDir::new().expect("a folder");
    let twin = |seed: u64| {
        // The same probe under another seed, as training writes it.
        let mut probe = Probe::load(fixture("probes/sinkhorn.safetensors")).expect("a probe");
        probe.meta.training = Some(serde_json::json!({"seed": seed}));
        if seed > 0 {
            probe.arrays.get_mut("scorer.weight").expect("a scorer").data.reverse();
        }
        let path = out.path().join(format!("sinkhorn-s{seed}.safetensors"));
        probe.save(&path).expect("written");
        path
    };
    let mut command = inspect(out.path());
    command.arg("--image").arg(fixture("images/one.png")).args(["--stability", "--batch", "5", "--probe"]);
    let (_, said) = succeeds(command.args([twin(0), twin(1)]).arg(fixture("probes/gap.safetensors")));
    assert!(said.contains("--stability leaves out gap: no single order to measure"), "{said}");
    let file = out.path().join("one/sinkhorn-s0.stability.json");
    let found: Stability = json(&file);
    assert_eq!((found.image.as_str(), found.probe.as_str(), found.tokens), ("one.png", "sinkhorn-s0", 16));
    let names: Vec<&str> = found.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(
        (names.len(), names.first(), names.last()),
        (9, Some(&"Flipped horizontally"), Some(&"Other seeds"))
    );
    assert_eq!(found.groups[8].taus.len(), 1);
    assert!(!out.path().join("one/gap.stability.json").exists(), "GAP reads in no order");
    let drawn = out.path().join("stability.svg");
    done(program().args(["figures", "--stability"]).arg(&file).arg("--out").arg(&drawn));
    assert!(fs::read_to_string(drawn).expect("a drawing").contains("Other seeds"));
}

/// Every mode writes exactly the expected arrays, and its curves agree with the logit of the whole image.
#[test]
fn tokens_are_removed_in_every_mode() {
    let out = TempDir::new().expect("a folder");
    let mut command = inspect(out.path());
    command.arg("--image").arg(fixture("images/one.png")).arg("--probe").arg(fixture("probes"));
    let modes = "frozen,rerouted,patches,pixels";
    command.args(["--causal", modes, "--steps", "5", "--seed", "3", "--class", "1"]);
    let (_, stderr) = succeeds(&mut command);
    assert!(stderr.contains("more full backbone passes per image"), "the cost is said: {stderr}");
    for probe in probes() {
        let stem = probe.file_stem().expect("a stem").to_string_lossy().into_owned();
        let found = arrays(&out.path().join(format!("one/{stem}.causal.npz")));
        let whole = arrays(&out.path().join(format!("one/{stem}.npz")));
        let all: Removal = json(out.path().join(format!("one/{stem}.causal.json")));
        assert_eq!(found["fraction"].as_slice().expect("a row"), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!((all.class.0, all.modes.len(), all.grid.len()), (1, 4, 16), "{stem}");
        let mut names = BTreeSet::from(["fraction".to_owned()]);
        for (mode, curves) in &all.modes {
            let head = all.head.as_str();
            let none = (*mode == Mode::Frozen && OPAQUE.contains(&head))
                || (*mode == Mode::Rerouted && head == "cls");
            assert_eq!(curves.found().is_none(), none, "{stem}, {}: {curves:?}", mode.id());
            for ranking in curves.found().into_iter().flat_map(|curves| curves.keys()) {
                for direction in ["deletion", "insertion"] {
                    let name = format!("{}_{direction}_{ranking}", mode.id());
                    let curve = &found[&name];
                    assert_eq!(curve.len(), 6, "{stem}, {name}");
                    // With all tokens present, the logit is that of the image.
                    let ends = if direction == "deletion" { curve[[0]] } else { curve[[5]] };
                    assert!(
                        close(f64::from(ends), f64::from(whole["logits"][[1]])),
                        "{stem}, {name}: {ends}"
                    );
                    let probability = &found[&format!("{name}_probability")];
                    assert!(probability.iter().all(|p| (0.0..=1.0).contains(p)), "{stem}, {name}");
                    assert_eq!(found[&format!("{name}_margin")].len(), 6);
                    names.extend([name.clone(), format!("{name}_margin"), format!("{name}_probability")]);
                }
            }
        }
        for (id, ranked) in all.rankings.iter().filter(|(_, ranked)| ranked.found().is_some()) {
            let mut order: Vec<f32> = found[&format!("ranking_{id}")].iter().copied().collect();
            assert_eq!(order.len(), ranked.found().expect("found").order.len());
            order.sort_by(f32::total_cmp);
            assert!(order.into_iter().eq((0..16).map(|token| token as f32)), "{stem}, {id}");
            names.insert(format!("ranking_{id}"));
            names.extend(["gradient", "integrated", "rollout"].contains(&id.as_str()).then(|| id.clone()));
        }
        assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), names, "{stem}");
    }
    // The file can be drawn.
    let drawn = out.path().join("removal.svg");
    let file = probes()[0].with_extension("causal.json");
    let file = out.path().join("one").join(file.file_name().expect("a name"));
    let mut figures = program();
    figures.args(["figures", "--mode", "pixels", "--quantity", "margin", "--step", "3"]);
    done(figures.arg("--causal").arg(file).arg("--out").arg(&drawn));
    assert!(fs::read_to_string(drawn).expect("a drawing").contains("Share taken away"));
}

#[test]
fn curves_are_the_same_again_and_mistakes_are_named() {
    let out = TempDir::new().expect("a folder");
    let curves = |folder: &str, batch: &str| {
        let mut command = inspect(&out.path().join(folder));
        command.arg("--image").arg(fixture("images"));
        command.arg("--probe").arg(fixture("probes/sinkhorn.safetensors"));
        done(command.args(["--causal", "patches,rerouted", "--steps", "4", "--batch", batch]));
        fs::read(out.path().join(folder).join("two/sinkhorn.causal.npz")).expect("the curves")
    };
    assert_eq!(curves("one", "1"), curves("two", "3"));
    for (arguments, words) in [
        (&["--causal", "frozen,melted"][..], "`melted` is not one of frozen, rerouted, patches, pixels"),
        (&["--causal", "frozen", "--steps", "0"], "from 1 to 1000"),
        (&["--steps", "4"], "--causal"),
    ] {
        let mut command = inspect(out.path());
        command.arg("--image").arg(fixture("images")).arg("--probe").arg(fixture("probes"));
        assert_ends(command.args(arguments), 2, &[words]);
    }
}

#[test]
fn a_changed_reading_says_so_in_every_file() {
    let out = TempDir::new().expect("a folder");
    let mut command = inspect_one(out.path());
    command.args(["--save-traces", "--stability", "--class", "1"]);
    done(command.args(["--reading", "as-trained", "random-order=3", "temperature=0.5"]));
    let readings = [
        ("sinkhorn", "evidence for "),
        ("sinkhorn-random-order-3", "random order, seed 3, evidence for "),
        ("sinkhorn-temperature-0.5", "temperature 0.5, evidence for "),
    ];
    let rows = column(&out.path().join("summary.csv"), "reading");
    assert_eq!(rows.len(), readings.len());
    let mut logits = Vec::new();
    for ((name, words), row) in readings.into_iter().zip(rows) {
        let folder = out.path().join("one");
        let document: Value = json(folder.join(format!("{name}.json")));
        assert!(
            document["reading"].as_str().is_some_and(|reading| reading.starts_with(words) && reading == row),
            "{row}"
        );
        let trace: Value = json(folder.join(format!("{name}.trace.json")));
        let stability: Stability = json(folder.join(format!("{name}.stability.json")));
        let change = &trace["reading"]["change"];
        let own = (!stability.reading.change.is_none()).then_some(stability.reading.change);
        assert_eq!(*change, serde_json::to_value(own).expect("JSON"), "{name}");
        logits.push(trace["logits"].clone());
    }
    assert!(logits[0] != logits[1] && logits[0] != logits[2] && logits[1] != logits[2]);
    assert_ends(inspect_one(out.path()).args(["--reading", "sorted"]), 2, &["random-order[=SEED]"]);
}

#[test]
fn a_reading_is_animated_where_there_is_an_order() {
    let out = TempDir::new().expect("a folder");
    let mut command = inspect(out.path());
    command.arg("--save-gif").arg("--image").arg(fixture("images/one.png")).arg("--probe");
    command.args(["sinkhorn", "vmamba", "gap"].map(|name| fixture(&format!("probes/{name}.safetensors"))));
    done(&mut command);
    let folder = out.path().join("one");
    for name in ["sinkhorn", "vmamba"] {
        let tokens = arrays(&folder.join(format!("{name}.npz")))["token_weight"].len();
        let file = BufReader::new(fs::File::open(folder.join(format!("{name}.gif"))).expect("a GIF"));
        let decoder = image::codecs::gif::GifDecoder::new(file).expect("a GIF");
        let frames = image::AnimationDecoder::into_frames(decoder).collect_frames().expect("frames");
        assert_eq!((frames.len(), frames[0].buffer().width()), (tokens, 502), "{name}: a frame a token");
        let shown = |frame: &image::Frame| frame.buffer().as_raw().clone();
        assert!(frames.windows(2).all(|pair| shown(&pair[0]) != shown(&pair[1])), "{name} stands still");
    }
    assert!(!folder.join("gap.gif").exists(), "it reads no order");
}
