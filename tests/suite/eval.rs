//! `ssmprobe sweep`, `eval` and `report` from the command line, on drawn scenes with their masks and a tiny backbone.

use std::collections::{HashMap, HashSet};

use parquet::file::reader::{FileReader, SerializedFileReader};
use ssmprobe::app::format::shell_word;
use ssmprobe::model::data::scenes;
use ssmprobe::model::explain::evaluation::Evaluation;
use ssmprobe::model::explain::evaluation::vectors::VectorKind;
use ssmprobe::model::hand_order::HandOrder;
use ssmprobe::model::io::sha256;
use ssmprobe::model::order_file;
use ssmprobe::model::probe::Probe;

use crate::close::assert_close;
use crate::run::prelude::*;
use crate::run::{column, inspect};

const TRAIN: u64 = 24;
const VAL: u64 = 12;

/// A dataset of scenes with masks beside its splits, and room for caches and runs.
struct Sandbox {
    folder: TempDir,
    /// Share of the pixels of `val` that objects cover.
    covered: f64,
}

impl Sandbox {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let mut covered = 0.0;
        for index in 0..TRAIN + VAL {
            let scene = scenes::draw(5, index);
            let split = if index < TRAIN { "train" } else { "val" };
            let within = format!("{split}/{}/{index:03}.png", scenes::class_name(scene.class));
            let mask: Vec<u8> = scene.mask.iter().map(|&inside| if inside { 255 } else { 0 }).collect();
            if index >= TRAIN {
                covered += scene.mask.iter().filter(|&&inside| inside).count() as f64;
            }
            let root = folder.path().join("scenes");
            save(&root.join(&within), &scene.picture.rgb, image::ColorType::Rgb8);
            save(&root.join("masks").join(&within), &mask, image::ColorType::L8);
        }
        covered /= (VAL as usize * scenes::SIDE * scenes::SIDE) as f64;
        Self { folder, covered }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `ssmprobe VERB` with its tokens in `cache`.
    fn verb(&self, verb: &str, cache: &str) -> Command {
        let mut command = program();
        command.arg(verb).arg("--cache").arg(self.path(cache)).args(["--device", "cpu"]);
        command
    }

    /// [`Self::verb`] on the scenes with the fixture's backbone.
    fn on_scenes(&self, verb: &str, cache: &str) -> Command {
        let mut command = self.verb(verb, cache);
        command.arg("--backbone").arg(backbone()).arg("--data").arg(self.path("scenes"));
        command
    }

    /// `ssmprobe eval` of the run `run`.
    fn eval_run(&self) -> Command {
        let mut command = self.verb("eval", "cache");
        command.arg("--run").arg(self.path("run"));
        command
    }

    fn sweep(&self, out: &str, more: &[&str]) -> Command {
        let mut command = self.on_scenes("sweep", "cache");
        command.args(["--with", "gap,random-dynamic,transformer", "--config", "state_dim=4"]);
        command.args(["--epochs", "2", "--seeds", "2", "--batch", "8"]);
        command.arg("--out").arg(self.path(out)).args(more);
        command
    }
}

fn save(path: &Path, bytes: &[u8], colour: image::ColorType) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::save_buffer(path, bytes, scenes::SIDE as u32, scenes::SIDE as u32, colour).unwrap();
}

/// Breaks an image whose length and time stay the same, so that its tokens are those in the cache.
fn break_image(path: &Path) {
    let before = path.metadata().unwrap();
    fs::write(path, vec![0; before.len() as usize]).unwrap();
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
}

fn events<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// The file name stem and the test accuracy of every probe in `results.csv`.
fn table_of(results: &str) -> Vec<(String, f64)> {
    let mut table = csv::Reader::from_reader(results.as_bytes());
    let row = |record: csv::StringRecord| {
        (format!("{}-s{}-best", &record[0], &record[1]), record[2].parse().unwrap())
    };
    table.records().map(|record| row(record.unwrap())).collect()
}

/// Checks which vectors (a finite value per token and image) an evaluation file holds for the head of `name`.
fn check_vectors(file: &Path, name: &str) {
    let evaluation = Evaluation::from_json(&fs::read_to_string(file).unwrap()).unwrap();
    let has = |kind: VectorKind| {
        let vectors = evaluation.vectors_of(kind)?;
        let all = vectors.values().len() == evaluation.len() * evaluation.grid.len();
        assert!(all && vectors.values().iter().all(|value| value.is_finite()), "{name}: {kind:?}");
        Ok::<_, String>(())
    };
    let found = VectorKind::ALL.map(has).map(|found| found.is_ok());
    let expected = match name.split(['[', '-']).next().unwrap() {
        "gap" => [false, true, true],
        "transformer" => [false; 3],
        _ => [true; 3],
    };
    assert_eq!(found, expected, "{name}: {:?}", VectorKind::ALL.map(has));
}

/// Evaluates a run and checks every probe's table against its figure and the accuracy in training; the accuracies by probe.
fn evaluation(sandbox: &Sandbox, probes: &[(String, f64)]) -> HashMap<String, f64> {
    let mut found = HashMap::new();
    let folder = sandbox.path("evaluations");
    done(sandbox.eval_run().arg("--evaluation").arg(&folder));
    for (name, accuracy) in probes {
        let mut table = csv::Reader::from_path(folder.join(format!("{name}.csv"))).unwrap();
        let header: Vec<String> = table.headers().unwrap().iter().map(str::to_owned).collect();
        let place = |column: &str| header.iter().position(|known| known == column).unwrap();
        let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
        assert_eq!(rows.len() as u64, VAL);
        let right = rows.iter().filter(|row| &row[place("correct")] == "1").count();
        let own = 100.0 * right as f64 / VAL as f64;
        // The count in training, in float32, may differ by the images whose two best classes are nearly equal.
        let probability = |row: &csv::StringRecord, column| row[place(column)].parse::<f64>().unwrap();
        let sure = |row: &csv::StringRecord| {
            probability(row, "top_1_probability") - probability(row, "top_2_probability") > 1e-3
        };
        let edge = rows.iter().filter(|row| !sure(row)).count();
        let trained = (accuracy * VAL as f64 / 100.0).round() as usize;
        assert!(
            right.abs_diff(trained) <= edge,
            "{name}: {right} right, {trained} in training, {edge} at the edge"
        );
        found.insert(name.clone(), own);
        for row in &rows {
            assert_eq!((&row[place("prediction")], &row[place("top_1")]), (&row[2], &row[2]));
            assert_eq!(row[place("correct")] == *"1", row[place("class")] == row[place("prediction")]);
            let share = |column: &str| row[place(column)].parse::<f64>().unwrap();
            assert!(
                share("top_1_probability") >= share("top_5_probability") && share("top_5_probability") > 0.0
            );
        }
        assert_eq!(header.iter().any(|column| column == "rank_coverage"), name.starts_with("sinkhorn"));
        let drawn = folder.join("drawn.svg");
        let mut figures = program();
        figures.args(["figures", "--figure", "confusion", "--evaluation"]);
        done(figures.arg(folder.join(format!("{name}.survey.json"))).arg("--out").arg(&drawn));
        let said = format!("Accuracy {own:.1} %");
        assert!(fs::read_to_string(&drawn).unwrap().contains(&said), "{said}");
        fs::remove_file(drawn).unwrap();
        check_vectors(&folder.join(format!("{name}.survey.json")), name);
        let survey: Value = json(folder.join(format!("{name}.survey.json")));
        let made = &survey["provenance"];
        let probe = sandbox.path(&format!("run/probes/{name}.safetensors"));
        assert_eq!(made["probe_file"], sha256::of_file(&probe).unwrap());
        let [run, stored]: [Value; 2] =
            ["run.json", "evaluation.json"].map(|file| json(sandbox.path("run").join(file)));
        let (tokens, program) = (&run["tokens"], &run["program"]);
        assert_eq!((&made["weights"], &made["layer"]), (&tokens["weights"], &tokens["layer"]));
        assert_eq!((&made["program"], &made["config"]), (program, &run["backbone"]["config"]));
        assert!(made["image_files"].is_string());
        assert_eq!(made["image_files"], stored["probes"][0]["image_files"]);
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), probes.len() * 2, "two files a probe");
    found
}

#[test]
fn a_sweep_is_trained_evaluated_and_reported() {
    let sandbox = Sandbox::new();
    let grid = ["--grid", "temperature=0.1,1.0", "iterations=1,5"];
    done(&mut sandbox.sweep("run", &grid));
    let results = fs::read_to_string(sandbox.path("run/results.csv")).unwrap();
    assert_eq!(results.lines().count(), 1 + 2 * (3 + 4), "{results}");
    assert!(results.contains("\"sinkhorn[temperature=0.1,iterations=5]\",1,"), "{results}");
    // A second sweep into the folder is refused; resuming finds nothing left to do.
    assert_ends(&mut sandbox.sweep("run", &grid), 2, &["--resume"]);
    let mut resume = sandbox.verb("sweep", "cache");
    done(resume.arg("--resume").arg("--out").arg(sandbox.path("run")));
    assert_eq!(fs::read_to_string(sandbox.path("run/results.csv")).unwrap(), results);

    let asked = ["--ablations", "--baselines", "--json", "--causal", "frozen"];
    let (stdout, stderr) = succeeds(sandbox.eval_run().args(asked));
    let quoted = shell_word(&sandbox.path("run").display().to_string());
    let shown = format!("`ssmprobe report {quoted} --table causal`");
    assert!(stderr.contains(&shown), "{stderr}");
    let all = lines(&stdout);
    let probes = events(&all, "probe");
    assert_eq!((probes.len(), events(&all, "anchor").len(), events(&all, "end").len()), (14, 4, 1));
    let stored = fs::read(sandbox.path("run/evaluation.json")).unwrap();
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    for of in ["probes", "anchors"] {
        let files: HashSet<&str> =
            stored[of].as_array().unwrap().iter().map(|one| one["image_files"].as_str().unwrap()).collect();
        assert_eq!(files, [stored["probes"][0]["image_files"].as_str().unwrap()].into(), "{of}");
    }
    let evaluated = evaluation(&sandbox, &table_of(&results));
    assert_eq!(evaluated.len(), 14);
    let mut table = csv::Reader::from_reader(results.as_bytes());
    for record in table.records().map(Result::unwrap) {
        let same = |p: &&&Value| p["head"] == record[0] && p["seed"].as_u64() == record[1].parse().ok();
        let evaluation = &probes.iter().find(same).unwrap()["evaluation"];
        let own = evaluated[&format!("{}-s{}-best", &record[0], &record[1])];
        assert_close("accuracy", evaluation["accuracy"].as_f64().unwrap(), own, 1e-9);
        let ablations = evaluation["ablations"].as_array().unwrap().len();
        let measured = evaluation["diagnostics"].as_array().unwrap();
        let coverage = measured.iter().find(|one| one["name"] == "rank_coverage");
        assert_eq!(coverage.is_some(), record[0].starts_with("sinkhorn"), "{record:?}");
        assert_eq!(measured.is_empty(), coverage.is_none(), "{record:?}");
        // The null band of a mean over images is narrower than that of one image, and inside it.
        if let Some(one) = coverage {
            let end = |key: &str, at: usize| one[key][at].as_f64().expect("an end of a band");
            let width = |key: &str| end(key, 1) - end(key, 0);
            assert!(0.0 < width("null_mean") && width("null_mean") < 0.5 * width("null"), "{one}");
            assert!(end("null", 0) < end("null_mean", 0) && end("null_mean", 1) < end("null", 1), "{one}");
            let untrained = one["untrained"].as_f64().unwrap();
            assert!(end("untrained_mean", 0) < untrained && untrained < end("untrained_mean", 1), "{one}");
        }
        // A head without exact evidence has no frozen curves.
        let removals = evaluation["removals"].as_array().map_or(0, Vec::len);
        assert_eq!(removals > 2, &record[0] != "transformer", "{record:?}: {removals}");
        let truth = &evaluation["truth"];
        assert_eq!(evaluation["masks"], VAL);
        let share = truth["object_share"].as_f64().unwrap();
        assert!((share - sandbox.covered).abs() < 0.004, "{share} of {}", sandbox.covered);
        // The object is the only region and has the same AUC; precedence exists only for heads that read an order.
        let regions = &evaluation["regions"];
        assert_eq!(
            (&regions["regions"][0]["name"], regions["images"].as_u64()),
            (&"object".into(), Some(VAL))
        );
        for (auc, of) in [("weight_auc", &regions["regions"][0]), ("evidence_auc", &regions["regions"][0])] {
            assert_eq!(of[auc], truth[auc], "{record:?}, {auc}");
        }
        let read = regions["precedence"].as_array().map_or(0, Vec::len);
        assert_eq!(read == 1, !["transformer", "gap"].contains(&&record[0]), "{record:?}");
        match &record[0] {
            "transformer" => assert!(ablations == 1 && truth["evidence_auc"].is_null()),
            "gap" => assert!(ablations == 1 && truth["weight_auc"] == 0.5 && truth["evidence_auc"].is_f64()),
            "random-dynamic" => assert!(ablations == 1 && truth["weight_auc"].is_f64()),
            _ => assert!(ablations == 4 && truth["positive_share"].is_f64()),
        }
    }

    let mut report = program();
    let (_, stderr) =
        succeeds(report.arg("report").arg(sandbox.path("run")).arg("--out").arg(sandbox.path("tables")));
    assert!(stderr.contains("tables in"), "{stderr}");
    let plain = ["main.md", "main.tex", "main.csv", "cost.csv", "causal.md", "causal.csv"];
    for name in plain.into_iter().chain(["grid-sinkhorn.md", "scramble.tex", "diagnostics.md", "regions.csv"])
    {
        let text = fs::read_to_string(sandbox.path("tables").join(name)).unwrap();
        assert!(text.lines().count() > 3, "{name}: {text}");
    }
    let grid = fs::read_to_string(sandbox.path("tables/grid-sinkhorn.csv")).unwrap();
    assert_eq!(grid.lines().count(), 3, "{grid}");
    single_images(
        &sandbox,
        probes.iter().find(|p| p["head"].as_str().unwrap().starts_with("sinkhorn")).unwrap(),
    );
}

/// The means over single images, from `inspect`, are the values over the dataset.
fn single_images(sandbox: &Sandbox, of_dataset: &Value) {
    let mut inspect = inspect(2);
    inspect.arg("--probe").arg(of_dataset["probe"].as_str().unwrap());
    inspect.arg("--image").arg(sandbox.path("scenes/val")).arg("--masks").arg(sandbox.path("scenes"));
    done(inspect.arg("--out").arg(sandbox.path("single")));
    let stem = Path::new(of_dataset["probe"].as_str().unwrap()).file_stem().unwrap().to_owned();
    let folders = entries(&sandbox.path("single")).into_iter().filter(|path| path.is_dir());
    let documents: Vec<Value> =
        folders.map(|folder| json(folder.join(&stem).with_added_extension("json"))).collect();
    assert_eq!(documents.len() as u64, VAL);
    let mean = |of: &dyn Fn(&Value) -> f64| documents.iter().map(of).sum::<f64>() / VAL as f64;
    let auc = mean(&|document| document["regions"]["object"]["weight_auc"].as_f64().unwrap());
    let truth = of_dataset["evaluation"]["truth"]["weight_auc"].as_f64().unwrap();
    // Tokens are stored in half precision, so two of nearly equal weight may change places.
    assert_close("AUC of weights", auc, truth, 0.02);
    let region = &of_dataset["evaluation"]["regions"]["regions"][0];
    let at: Vec<f64> =
        region["positions"].as_array().unwrap().iter().map(|at| at.as_f64().unwrap()).collect();
    let position = mean(&|document| document["regions"]["list"][0]["position"].as_f64().unwrap());
    assert_close("position", position, at.iter().sum::<f64>() / VAL as f64, 2e-3);
}

#[test]
fn probes_by_themselves_answer_as_in_their_run() {
    let sandbox = Sandbox::new();
    done(&mut sandbox.sweep("run", &["--grid", "state_dim=1,4"]));
    let mut whole = sandbox.eval_run();
    let stdout = done(whole.args(["--ablations", "--json", "--evaluation"]).arg(sandbox.path("of-run")));
    let of_run = lines(&stdout);
    let names = ["sinkhorn[state_dim=1]-s0-best", "random-dynamic-s1-best"];
    let mut alone = sandbox.on_scenes("eval", "other");
    alone.args(["--ablations", "--json", "--evaluation"]).arg(sandbox.path("of-files")).arg("--probe");
    // The first one is given twice, which changes nothing.
    for name in names.iter().chain(&names[..1]) {
        alone.arg(sandbox.path(&format!("run/probes/{name}.safetensors")));
    }
    let (stdout, stderr) = succeeds(&mut alone);
    // No training image is needed, so none is read.
    assert!(stderr.contains(&format!("tokens: {VAL} images")), "{stderr}");
    let alone = lines(&stdout);
    for (probe, name) in events(&alone, "probe").into_iter().zip(names) {
        let same = |other: &&&Value| {
            let path = other["probe"].as_str().unwrap_or_default();
            path.ends_with(&format!("{name}.safetensors"))
        };
        let other = events(&of_run, "probe").into_iter().find(|p| same(&p)).unwrap();
        assert_eq!(probe["evaluation"], other["evaluation"], "{name}");
        // The answers for every image are equal too: orders are drawn by the image's index in the whole dataset.
        let [own, other] = ["of-files", "of-run"]
            .map(|folder| fs::read_to_string(sandbox.path(folder).join(format!("{name}.csv"))).unwrap());
        assert_eq!(own, other, "{name}");
    }
    assert_eq!(events(&alone, "probe").len(), 2);
}

/// An order file as a head of its own and as a change of reading; the file with 0, 1, 2, ... is the raster order.
#[test]
fn an_order_file_is_trained_and_evaluated_as_a_scan() {
    let sandbox = Sandbox::new();
    let train = |out: &str, heads: &str| {
        let mut train = sandbox.on_scenes("train", "cache");
        train.args(["--config", "state_dim=4", "--epochs", "2", "--seeds", "1", "--batch", "8", "--heads"]);
        train.arg(heads).arg("--out").arg(sandbox.path(out));
        train
    };
    done(&mut train("first", "random-fixed"));
    let probe = |run: &str, name: &str| sandbox.path(run).join(format!("probes/{name}-s0-best.safetensors"));
    let n = Probe::load(probe("first", "random-fixed")).unwrap().arrays["order"].data.len() as u32;
    for (name, order) in [("raster.npz", (0..n).collect::<Vec<_>>()), ("turned.csv", (0..n).rev().collect())]
    {
        order_file::write(&sandbox.path(name), &HandOrder::new(order).unwrap()).unwrap();
    }
    let file = |name: &str| format!("order:{}", sandbox.path(name).display());
    done(&mut train("run", &format!("raster,{},{}", file("raster.npz"), file("turned.csv"))));
    let [raster, same, turned] = ["raster", "order-raster", "order-turned"].map(|name| {
        let probe = Probe::load(probe("run", name)).unwrap();
        let mut arrays = probe.arrays.clone();
        arrays.shift_remove("order");
        (arrays, probe.classifier)
    });
    assert_eq!(raster, same);
    assert_ne!(raster, turned);
    // The run is resumed without the order files.
    fs::remove_file(sandbox.path("raster.npz")).unwrap();
    let mut resume = sandbox.verb("train", "cache");
    done(resume.args(["--resume", "--seeds", "2", "--out"]).arg(sandbox.path("run")));
    let results = fs::read_to_string(sandbox.path("run/results.csv")).unwrap();
    assert!(results.contains("order-raster,1,"), "{results}");

    let eval = |name: &str, reading: &[&str]| {
        let mut eval = sandbox.on_scenes("eval", "cache");
        eval.args(["--json", "--probe"]).arg(probe("run", name)).args(reading);
        let stdout =
            done(eval.args(["--format", "csv,parquet", "--evaluation"]).arg(sandbox.path("answers")));
        events(&lines(&stdout), "probe")[0].clone()
    };
    let reading = format!("order={}", sandbox.path("turned.csv").display());
    let (own, read) = (eval("raster", &[]), eval("raster", &["--reading", &reading]));
    assert_eq!((&own["reading"], &read["reading"]), (&"as trained".into(), &"order of turned.csv".into()));
    assert_ne!(own["evaluation"]["order"], read["evaluation"]["order"]);
    // A head of that order reads in it anyway.
    let [own, read] = [&[][..], &["--reading", &reading]].map(|reading| eval("order-turned", reading));
    assert_eq!(own["evaluation"]["accuracy"], read["evaluation"]["accuracy"]);
    assert!(sandbox.path("answers/raster-s0-best-order-turned.csv").is_file());
    let text = fs::read_to_string(sandbox.path("answers/raster-s0-best-order-turned.survey.json")).unwrap();
    assert_eq!(Evaluation::from_json(&text).unwrap().change, "order of turned.csv");
    let rows = fs::File::open(sandbox.path("answers/raster-s0-best-order-turned.parquet")).unwrap();
    let rows = SerializedFileReader::new(rows).unwrap();
    let about = rows.metadata().file_metadata().key_value_metadata().unwrap().iter();
    assert_eq!(
        about.map(|one| (&*one.key, one.value.as_deref().unwrap())).collect::<HashMap<_, _>>(),
        HashMap::from([
            ("probe", "raster-s0-best-order-turned"),
            ("reading", "order of turned.csv"),
            ("dataset", "scenes")
        ])
    );

    order_file::write(&sandbox.path("short.csv"), &HandOrder::new(vec![1, 0]).unwrap()).unwrap();
    let longer: Vec<u32> = (0..=n).collect();
    order_file::write(&sandbox.path("long.csv"), &HandOrder::new(longer).unwrap()).unwrap();
    fs::write(sandbox.path("twice.csv"), "0\n0\n").unwrap();
    for (heads, said) in [
        (file("short.csv"), format!("the order of short.csv with 2 steps, but the images have {n} tokens")),
        (file("long.csv"), format!("the order of long.csv with {} steps, but the images have", n + 1)),
        (file("twice.csv"), "token 0 is read twice, at steps 0 and 1, and token 1 never".to_owned()),
        ("order".to_owned(), "give it as order:FILE".to_owned()),
    ] {
        assert_ends(&mut train("other", &heads), 2, &[&said]);
        assert!(!sandbox.path("other").exists(), "{heads}: a folder was made");
    }
}

#[test]
fn patches_of_every_image_leave_before_the_backbone_as_those_of_one_do() {
    let sandbox = Sandbox::new();
    done(&mut sandbox.sweep("run", &["--grid", "state_dim=1"]));
    let probes =
        ["gap", "transformer"].map(|head| sandbox.path(&format!("run/probes/{head}-s0-best.safetensors")));
    let mut eval = sandbox.on_scenes("eval", "cache");
    eval.arg("--probe").args(&probes);
    eval.args(["--causal", "rerouted,patches", "--seed", "3", "--evaluation"]).arg(sandbox.path("images"));
    let (_, stderr) = succeeds(&mut eval);
    // Six rankings and four random orders, twenty steps each; a set that deletion keeps is one that insertion adds.
    assert!(stderr.contains("up to 200 full backbone passes per image and probe"), "{stderr}");
    for probe in &probes {
        let stem = probe.file_stem().unwrap().to_str().unwrap();
        let table = sandbox.path(&format!("images/{stem}.csv"));
        assert_eq!(column(&table, "image").len() as u64, VAL);
        let survey: Value = json(sandbox.path(&format!("images/{stem}.survey.json")));
        assert_eq!(survey["provenance"]["seed"], 3);
        let of = |row: usize, name: &str| column(&table, name).swap_remove(row);
        for row in [0, VAL as usize - 1] {
            let mut inspect = inspect(2);
            inspect
                .arg("--probe")
                .arg(probe)
                .arg("--image")
                .arg(sandbox.path("scenes").join(of(row, "image")));
            inspect.args(["--causal", "rerouted,patches", "--seed", "3", "--class", &of(row, "class")]);
            let out = sandbox.path(&format!("{stem}-{row}"));
            done(inspect.arg("--out").arg(&out));
            let folder = entries(&out).into_iter().find(|path| path.is_dir()).unwrap();
            let found: Value = json(folder.join(format!("{stem}.causal.json")));
            let mut compared = 0;
            for (mode, curves) in found["modes"].as_object().unwrap() {
                let curves = curves.as_object().unwrap().iter();
                for (ranking, pair) in curves.filter(|(ranking, _)| !ranking.starts_with("random_")) {
                    for (direction, curve) in
                        ["deletion", "insertion"].into_iter().zip(pair.as_array().unwrap())
                    {
                        let curve = curve["probability"].as_array().unwrap();
                        let height =
                            curve.iter().map(|p| p.as_f64().unwrap()).sum::<f64>() / curve.len() as f64;
                        let own: f64 = of(row, &format!("{mode}_{direction}_{ranking}")).parse().unwrap();
                        assert_close(format!("{stem} {row} {mode} {direction} {ranking}"), own, height, 1e-6);
                        compared += 1;
                    }
                }
            }
            // A lower bound: rankings differ by probe. GAP's gradient ranks as its evidence does; rollout is the backbone's.
            assert!(compared >= 12, "{stem}: {compared} curves");
        }
    }
    // An image that is broken by now has its other results, and no curves.
    let table = sandbox.path("images/gap-s0-best.csv");
    let columns = || ["correct", "patches_deletion_random"].map(|name| column(&table, name));
    let [correct, mut heights] = columns();
    break_image(&sandbox.path("scenes").join(&column(&table, "image")[0]));
    let (_, stderr) = succeeds(&mut eval);
    assert_eq!(stderr.matches("; it lacks removal curves").count(), 1, "once for all probes: {stderr}");
    heights[0].clear();
    assert_eq!(columns(), [correct, heights]);
}

/// The stability of a dataset's orders is that of its images one by one; the run keeps it and the metrics of the last tokens.
#[test]
fn orders_of_every_image_are_as_stable_as_those_of_one() {
    let sandbox = Sandbox::new();
    done(&mut sandbox.sweep("run", &["--grid", "state_dim=1"]));
    let mut eval = sandbox.eval_run();
    eval.arg("--evaluation").arg(sandbox.path("images"));
    eval.args(["--stability", "--keep-last", "1,4,16", "--seed", "3", "--json"]);
    let (stdout, stderr) = succeeds(&mut eval);
    assert!(stderr.contains("costs 25 full backbone passes per image, once for all probes"), "{stderr}");
    let events_of = lines(&stdout);
    let mut stable = 0;
    for probe in events(&events_of, "probe") {
        let path = Path::new(probe["probe"].as_str().unwrap());
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let found = &probe["evaluation"];
        let last = found["last"].as_array().map_or(0, Vec::len);
        let Some(kinds) = found["stability"].as_array() else {
            assert!(!stem.starts_with("sinkhorn"), "{stem}");
            continue;
        };
        stable += 1;
        assert_eq!(last, 3, "{stem}");
        assert_eq!(found["last"][2]["accuracy"], found["accuracy"], "all tokens");
        let table = sandbox.path(&format!("images/{stem}.csv"));
        let numbers = |name: &str| -> Vec<f64> {
            column(&table, name).iter().map(|cell| cell.parse().unwrap()).collect()
        };
        let darker = kinds.iter().find(|kind| kind["name"] == "Darker").unwrap();
        let own = numbers("stability_darker");
        let mean = own.iter().sum::<f64>() / own.len() as f64;
        assert_close(stem, darker["mean"].as_f64().unwrap(), mean, 1e-6);
        assert_eq!(darker["images"].as_u64(), Some(VAL), "{stem}");
        // Other heads draw the order by the image's index in the dataset, which `inspect` does not know.
        if !stem.starts_with("sinkhorn") {
            continue;
        }
        let image = sandbox.path("scenes").join(&column(&table, "image")[0]);
        let out = sandbox.path(stem);
        let mut inspect = inspect(2);
        inspect.args(["--stability", "--seed", "3"]).arg("--probe").arg(path).arg("--image").arg(image);
        done(inspect.arg("--out").arg(&out));
        let folder = entries(&out).into_iter().find(|path| path.is_dir()).unwrap();
        let one: Value = json(folder.join(format!("{stem}.stability.json")));
        for (name, title) in
            [("stability_darker", "Darker"), ("stability_flipped_across", "Flipped horizontally")]
        {
            let group =
                one["groups"].as_array().unwrap().iter().find(|group| group["name"] == title).unwrap();
            let taus: Vec<f64> =
                group["taus"].as_array().unwrap().iter().map(|tau| tau[1].as_f64().unwrap()).collect();
            let mean = taus.iter().sum::<f64>() / taus.len() as f64;
            assert_close(format!("{stem} {name}"), numbers(name)[0], mean, 5e-3);
        }
    }
    assert!(stable > 0, "{stdout}");
    let mut report = program();
    report.arg("report").arg(sandbox.path("run")).args(["--table", "stability", "--table", "last"]);
    let tables = done(report.args(["--format", "csv"]));
    assert!(tables.contains("Darker") && tables.contains("Tokens kept"), "{tables}");
    // Two seeds have one tau between them, and no deviation.
    let between: Vec<&str> =
        tables.lines().filter_map(|line| Some(line.split_once("Other seeds,")?.1)).collect();
    assert!(!between.is_empty() && between.iter().all(|rest| rest.split(',').nth(1) == Some("")), "{tables}");
    // Row by row, every seed reads every copy alike; heads without an order to change are left out, as without the flag.
    // An image that is broken by now lacks its stability, and nothing else.
    let table =
        entries(&sandbox.path("images")).into_iter().find(|path| path.extension() == Some("csv".as_ref()));
    break_image(&sandbox.path("scenes").join(&column(&table.unwrap(), "image")[0]));
    let mut fixed = sandbox.eval_run();
    let (stdout, stderr) = succeeds(fixed.args(["--stability", "--reading", "no-routing", "--json"]));
    assert!(stderr.contains("; it lacks a measured stability"), "{stderr}");
    assert!(!stderr.contains("--stability leaves out"), "{stderr}");
    let events_of = lines(&stdout);
    assert_eq!(["probe", "failure"].map(|event| events(&events_of, event).len()), [4, 4], "{stderr}");
    for kinds in events(&events_of, "probe").iter().map(|probe| &probe["evaluation"]["stability"]) {
        for kind in ["Darker", "Other seeds"] {
            let found = kinds.as_array().unwrap().iter().find(|found| found["name"] == kind).unwrap();
            assert_close(kind, found["mean"].as_f64().unwrap(), 1.0, 1e-6);
            assert_eq!(found["images"].as_u64(), Some(VAL - 1), "{kind}");
        }
    }
    // A second evaluation without the two flags keeps their results.
    done(sandbox.eval_run().args(["--seed", "3"]));
    let kept = fs::read_to_string(sandbox.path("run/evaluation.json")).unwrap();
    assert!(kept.contains("\"stability\"") && kept.contains("\"last\""), "{kept}");
    // Another seed would replace them, those of one flag alone as well.
    let flags = ["last", "stability"];
    for alone in flags {
        let mut stored: Value = serde_json::from_str(&kept).unwrap();
        for probe in stored["probes"].as_array_mut().unwrap() {
            let metrics = probe["evaluation"].as_object_mut().unwrap();
            metrics.retain(|name, _| name == alone || !flags.contains(&name.as_str()));
        }
        fs::write(sandbox.path("run/evaluation.json"), stored.to_string()).unwrap();
        let said = ["--seed 0: would replace what the run holds", "--seed 3; pass that one"];
        assert_ends(&mut sandbox.eval_run(), 2, &said);
    }
    for (more, said) in [
        (&["--keep-last", "0"][..], "a whole number from 1"),
        (&["--keep-last", "4,17"], "--keep-last: the last 17 tokens cannot be kept: the image has 16 tokens"),
        (&["--reading", "last=17"], "--reading: the last 17 tokens cannot be kept"),
        (&["--stability", "--part", "1/2"], "--part"),
        (&["--stability", "--submit", "local", "--tasks", "2"], "without --submit"),
    ] {
        assert_ends(sandbox.eval_run().args(["--seed", "3"]).args(more), 2, &[said]);
    }
}

#[test]
fn shuffled_tokens_have_no_regions() {
    let (cache, demo) = (TempDir::new().expect("a folder"), root().join("assets/demo"));
    let of_regions = |order: &str| {
        let mut eval = program();
        eval.args(["eval", "--device", "cpu", "--mae-order", order]).arg("--cache").arg(cache.path());
        eval.arg("--backbone").arg(demo.join("mae")).arg("--data").arg(demo.join("scenes"));
        let (stdout, stderr) = succeeds(eval.arg("--probe").arg(demo.join("probes/mae/gap.safetensors")));
        (stdout.contains("with a known object"), stderr.contains("left out: regions"))
    };
    assert_eq!((of_regions("kept"), of_regions("shuffled")), ((true, false), (false, true)));
}

#[test]
fn what_cannot_be_asked_is_said() {
    let sandbox = Sandbox::new();
    done(&mut sandbox.sweep("run", &["--grid", "state_dim=1"]));
    let eval = |data: &Path, more: &[&str]| {
        let mut eval = sandbox.verb("eval", "cache");
        let probe = sandbox.path("run/probes/gap-s0-best.safetensors");
        eval.arg("--backbone").arg(backbone()).arg("--data").arg(data);
        eval.arg("--probe").arg(probe).args(more);
        eval
    };
    let scenes = sandbox.path("scenes");
    let damaged = sandbox.path("damaged.safetensors").display().to_string();
    fs::write(&damaged, "{}").unwrap();
    let (stdout, stderr) = succeeds(&mut eval(&scenes, &["absent.safetensors", &damaged]));
    assert_eq!(stderr.matches(&damaged).count(), 1, "its path is part of its error: {stderr}");
    assert!(
        stderr.contains("left out: absent.safetensors") && stdout.contains("| gap-s0-best"),
        "{stdout}{stderr}"
    );
    // Probes whose files share a name are told apart by their paths.
    let copied = sandbox.path("gap-s0-best.safetensors");
    fs::copy(sandbox.path("run/probes/gap-s0-best.safetensors"), &copied).unwrap();
    let stdout = done(&mut eval(&scenes, &[copied.to_str().unwrap()]));
    for path in [&copied, &sandbox.path("run/probes/gap-s0-best.safetensors")] {
        assert!(stdout.contains(&format!("| {} ", path.display())), "{stdout}");
    }
    // Baselines are fitted to the training images, whether or not their tokens are there already.
    let baselines = |cache: &str| {
        let mut eval = sandbox.verb("eval", cache);
        done(eval.args(["--baselines", "--run"]).arg(sandbox.path("run")))
    };
    assert_eq!(baselines("cache"), baselines("anew"));
    // In place of a run stand its best probes, in place of a folder all in it; each is read once.
    let stdout = done(&mut eval(&scenes, &[sandbox.path("run").to_str().unwrap()]));
    let of = |name: &str| stdout.matches(&format!("| {name} ")).count();
    assert_eq!(["gap-s0-best", "gap-s1-best", "transformer-s0-best", "gap-s0-last"].map(of), [1, 1, 1, 0]);
    let stdout = done(&mut eval(&scenes, &[sandbox.path("run/probes").to_str().unwrap()]));
    assert!(stdout.contains("| gap-s0-last "), "{stdout}");
    assert_ends(&mut eval(&scenes, &[scenes.to_str().unwrap()]), 2, &["contains no probe (*.safetensors)"]);
    let thawed = ["--causal", "frozen,thawed"];
    assert_ends(&mut eval(&scenes, &thawed), 2, &["`thawed` is not one of frozen"]);
    let (code, _, stderr) = run(eval(&scenes, &["--masks"]).arg(sandbox.path("run/probes")));
    assert!(code == 2 && stderr.contains("contains no masks") && !stderr.contains("tokens:"), "{stderr}");
    assert_ends(&mut eval(&scenes, &["--split", "test"]), 2, &["no test images"]);
    for (split, more, count) in [("val", &[][..], VAL), ("train", &["--split", "train"], TRAIN)] {
        let out = sandbox.path(split);
        done(eval(&scenes, more).arg("--evaluation").arg(&out));
        let images = column(&out.join("gap-s0-best.csv"), "image");
        assert!(images.iter().all(|image| image.starts_with(split)), "{images:?}");
        assert_eq!(images.len() as u64, count);
    }
    // Of a folder of classes alone, a part is evaluated: it says so.
    let (_, stderr) = succeeds(&mut eval(&scenes.join("train"), &[]));
    assert!(stderr.contains("train: no split of its own: 20 % of every class held out"), "{stderr}");
    // Its rows stay where those of another evaluation are written in another format.
    let mut in_place = eval(&scenes, &["--split", "train", "--format", "parquet"]);
    let (_, stderr) = succeeds(in_place.arg("--evaluation").arg(sandbox.path("val")));
    let said = "val: not of this evaluation, perhaps of an earlier one: gap-s0-best.csv";
    assert!(stderr.contains(said), "{stderr}");
    // A dataset of a class that the probe does not know.
    let other = sandbox.path("other");
    save(&other.join("val/comet/a.png"), &[7; scenes::SIDE * scenes::SIDE], image::ColorType::L8);
    save(&other.join("train/comet/b.png"), &[9; scenes::SIDE * scenes::SIDE], image::ColorType::L8);
    let (code, _, stderr) = run(&mut eval(&other, &[]));
    assert!(code == 1 && stderr.contains("does not know the class `comet`"), "{stderr}");
    assert!(stderr.contains("no image was read") && !stderr.contains("tokens:"), "{stderr}");
    // Another dataset, and the run's own with a renamed image.
    let class = &entries(&scenes.join("val"))[0];
    let image = &entries(class)[0];
    fs::rename(image, image.with_extension("other.png")).unwrap();
    for data in [&other, &scenes] {
        assert_ends(
            sandbox.eval_run().arg("--data").arg(data),
            2,
            &["no longer the dataset", "eval --probe RUN"],
        );
    }
    fs::rename(image.with_extension("other.png"), image).unwrap();
    // The same images: those that the run was tested on are now trained on, or the classes have other names.
    let table = scenes.join("other.csv");
    for (splits, prefix) in [(["val", "train"], ""), (["train", "val"], "other-")] {
        let mut rows = "path,label,split\n".to_owned();
        for (folder, split) in ["train", "val"].into_iter().zip(splits) {
            for image in entries(&scenes.join(folder)).iter().flat_map(|class| entries(class)) {
                let class = image.parent().unwrap().file_name().unwrap().display();
                let within = image.strip_prefix(&scenes).unwrap().display();
                rows += &format!("{within},{prefix}{class},{split}\n");
            }
        }
        fs::write(&table, rows).unwrap();
        assert_ends(sandbox.eval_run().arg("--data").arg(&table), 2, &["no longer the dataset"]);
    }
    fs::remove_file(table).unwrap();
    // A run whose dataset has moved.
    fs::rename(&scenes, sandbox.path("elsewhere")).unwrap();
    let named = format!("{}: the dataset it names cannot be opened", sandbox.path("run/run.json").display());
    assert_ends(&mut sandbox.eval_run(), 1, &[&named, "`--data DIR`"]);
    fs::rename(sandbox.path("elsewhere"), &scenes).unwrap();
    for (grid, said) in [
        ("iterations=0", "iterations"),
        // A setting that the head does not have would train the same probe twice.
        ("power=1,2", "sinkhorn has temperature=0.1, iterations=20"),
        ("iterations", "FIELD=VALUE"),
    ] {
        assert_ends(&mut sandbox.sweep("new", &["--grid", grid]), 2, &[said]);
    }
    let mut report = program();
    assert_ends(report.arg("report").arg(sandbox.path("scenes")), 2, &["is not a run"]);
}

#[test]
fn a_run_that_was_not_copied_whole_says_what_it_lacks() {
    let sandbox = Sandbox::new();
    done(&mut sandbox.sweep("run", &["--grid", "state_dim=1"]));
    let report = |more: &[&str]| {
        let mut report = program();
        report.arg("report").arg(sandbox.path("run")).args(more);
        report
    };
    let (stdout, stderr) = succeeds(&mut report(&["--table", "main,rates"]));
    assert!(stdout.contains("| GAP ") && stderr.contains("warning: the runs have no data for rates;"));
    // Its backbone has moved.
    let manifest = fs::read_to_string(sandbox.path("run/run.json")).unwrap();
    fs::write(sandbox.path("run/run.json"), manifest.replace(backbone().to_str().unwrap(), "./none"))
        .unwrap();
    let words = ["run.json: the backbone it names cannot be opened", "`--backbone DIR`"];
    assert_ends(&mut sandbox.eval_run(), 2, &words);
    assert_ends(program().args(["train", "--resume", "--out"]).arg(sandbox.path("run")), 2, &words);
    fs::write(sandbox.path("run/run.json"), manifest).unwrap();
    // Stored evaluations are made again, trainings are not.
    fs::write(sandbox.path("run/evaluation.json"), "{").unwrap();
    let words = ["evaluation.json: EOF", "delete it, and `ssmprobe eval --run`"];
    assert_ends(&mut sandbox.eval_run(), 2, &words);
    assert_ends(&mut report(&[]), 1, &words);
    fs::remove_file(sandbox.path("run/evaluation.json")).unwrap();
    // A probe, all of them, the outcome of a training, those of all.
    let resume = || sandbox.sweep("run", &["--grid", "state_dim=1", "--resume"]);
    fs::remove_file(sandbox.path("run/probes/gap-s1-best.safetensors")).unwrap();
    // Another class for every image, as if the first one were of another training.
    let first = sandbox.path("run/answers/gap-s0.json");
    let mut other: Value = json(&first);
    let classes = other["best"].as_array_mut().unwrap();
    classes.iter_mut().for_each(|class| *class = ((class.as_u64().unwrap() + 1) % 2).into());
    fs::write(&first, other.to_string()).unwrap();
    let (stdout, stderr) = succeeds(&mut sandbox.eval_run());
    let doubted =
        format!("warning: gap, seed 0: predicts another class than in its training on {VAL} of {VAL} ");
    assert!(stderr.contains(&doubted) && stderr.matches("predicts another").count() == 1, "{stderr}");
    assert!(stderr.contains("warning: 1 trained probe is missing, the first is "), "{stderr}");
    assert!(stdout.contains("gap, seed 0") && !stdout.contains("gap, seed 1"), "{stdout}");
    let (_, stderr) = succeeds(sandbox.eval_run().arg("--last"));
    assert!(!stderr.contains("predicts another"), "its answers of the last epoch are not kept: {stderr}");
    assert_ends(&mut resume(), 0, &["already finished", "gap-s1-best.safetensors: "]);
    fs::remove_dir_all(sandbox.path("run/probes")).unwrap();
    assert_ends(&mut sandbox.eval_run(), 1, &["8 trained probes are missing", "copy the run again"]);
    fs::remove_file(sandbox.path("run/answers/gap-s1.json")).unwrap();
    assert_ends(&mut resume(), 1, &["gap-s1.json: cannot read it", "copied whole"]);
    fs::remove_file(sandbox.path("run/evaluation.json")).unwrap();
    let answers = entries(&sandbox.path("run/answers")).into_iter();
    answers.filter(|file| !file.ends_with("truth.json")).for_each(|file| fs::remove_file(file).unwrap());
    assert_ends(&mut report(&[]), 1, &["no training has ended yet", "`ssmprobe figures --run RUN`"]);
    assert_ends(&mut sandbox.eval_run(), 1, &["contains no probe yet; finish its training first"]);
}

#[test]
fn the_help_has_json_among_the_options_of_the_verb() {
    for verb in ["eval", "extract"] {
        let help = done(program().args([verb, "--help"]));
        let [json, submission] = ["--json", "Submission:"].map(|part| help.find(part).expect(part));
        assert!(json < submission, "{help}");
    }
}

#[test]
fn an_earlier_word_for_evaluations_is_understood_and_no_longer_taught() {
    for verb in ["eval", "figures"] {
        let said = |arguments: &[&str]| {
            let (_, stdout, stderr) = run(program().arg(verb).args(arguments));
            stdout + &stderr
        };
        let help = said(&["--help"]);
        assert!(help.contains("--evaluation") && !help.contains("--survey"), "{help}");
        for (flag, known) in [("--evaluation", true), ("--survey", true), ("--opinion", false)] {
            let said = said(&[flag, "nowhere"]);
            assert_eq!(!said.contains("unexpected argument"), known, "{flag}: {said}");
        }
    }
}
