//! `ssmprobe figures`: files drawn from stored traces, runs, removal curves and fixed scans.

use ssmprobe::model::train::run::{Run, Selection, Truth};

use crate::close::assert_close;
use crate::pictures::small;
use crate::run::prelude::*;
use crate::{report, traces};

fn figures(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = program();
    command.current_dir(folder).arg("figures").args(arguments);
    command
}

/// A folder with the traces `sinkhorn.json` and `gap.json`.
fn stored() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for trace in [traces::sinkhorn_trace(), traces::gap_trace()] {
        let text = serde_json::to_vec(&trace).unwrap();
        std::fs::write(folder.path().join(format!("{}.json", trace.head)), text).unwrap();
    }
    folder
}

#[test]
fn a_png_for_print_stands_on_white_in_a_folder_that_is_made() {
    let folder = stored();
    let out = "new/folder/plan.png";
    done(&mut figures(folder.path(), &["--trace", "sinkhorn.json", "--figure", "assignment", "--out", out]));
    let picture = image::open(folder.path().join(out)).unwrap().to_rgba8();
    assert_eq!(picture.get_pixel(0, 0).0, [255; 4]);
    let bytes = std::fs::read(folder.path().join(out)).unwrap();
    assert!(bytes.windows(24).any(|part| part == b"through sinkhorn.safeten"), "its description");
}

#[test]
fn letters_that_no_font_has_are_told_of_where_they_become_boxes() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = traces::gap_trace();
    trace.top[0].name = "中\u{10fffd} ключ".into();
    std::fs::write(folder.path().join("a.json"), serde_json::to_vec(&trace).unwrap()).unwrap();
    for (out, warned) in [("a.png", true), ("a.pdf", true), ("a.svg", false)] {
        let shown = ["--trace", "a.json", "--figure", "predictions", "--width", "174", "--out", out];
        let (_, said) = succeeds(&mut figures(folder.path(), &shown));
        let note = said.lines().find(|line| line.contains("become empty boxes"));
        assert_eq!(note.is_some_and(|note| note.ends_with('\u{10fffd}')), warned, "{out}: {said}");
    }
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let folder = stored();
    for (flag, value, said) in [
        ("--width", "1", "expected a number from 20 to 2000 mm"),
        ("--dpi", "1", "expected a number from 10 to 2400 dots per inch"),
        ("--figure", "none", "--figure none: a trace has no such figure"),
        ("--step", "999", "--step 999: the reading has steps 0 to 196"),
        ("--opacity", "2", "expected a number from 0 to 1"),
        ("--opacity", "-1", "expected a number from 0 to 1"),
        ("--opacity", "nan", "expected a number from 0 to 1"),
    ] {
        let plan = ["--trace", "sinkhorn.json", "--figure", "assignment", "--out", "plan.svg", flag, value];
        assert_ends(&mut figures(folder.path(), &plan), 2, &[said]);
    }
    let two =
        ["--trace", "sinkhorn.json", "--figure", "assignment,kernel", "--step", "12", "--out", "two.svg"];
    done(&mut figures(folder.path(), &two));
}

#[test]
fn a_flag_that_a_source_does_not_use_is_refused_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    for (source, flags) in [
        (
            "--trace=none",
            "--heads=gap --patches=2x2 --mode=pixels --measure=loss --vectors=weight --color=class",
        ),
        (
            "--scan=raster",
            "--figure=a --log --rows=score --limits=0:1 --regions --opacity=0.5 --band=interval",
        ),
        (
            "--run=none",
            "--columns=2 --own-scales --map=viridis --patches=2x2 --class-sort=name --quantity=margin",
        ),
        ("--evaluation=none", "--log --limits=0:1 --step=1 --heads=gap --ranking=evidence --run=none"),
        ("--stability=none", "--step=1 --map=viridis --similarity=spearman --maps=weights --trace=none"),
        (
            "--causal=none",
            "--stills=2 --classes=3 --class-search=a --grid --proxy-limits=0:1 --stability=none",
        ),
    ] {
        for flag in flags.split(' ') {
            let mut both = figures(folder.path(), &[source, flag, "--out", "a.svg"]);
            let [name, source] = [flag, source].map(|word| word.split('=').next().unwrap());
            assert_ends(&mut both, 2, &["cannot be used with", name, source]);
        }
    }
}

#[test]
fn who_stops_reading_does_not_fail_the_program() {
    let mut running = program().args(["figures", "--list"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(running.stdout.take()); // long before it writes
    assert!(running.wait().unwrap().success());
}

#[test]
fn all_figures_and_comparisons_are_written() {
    let folder = stored();
    let all = |out| figures(folder.path(), &["--trace", "gap.json", "--figure", "all", "--out", out]);
    let (_, said) = succeeds(&mut all("gap.svg"));
    assert!(said.contains("skipped scan_path: gap reads no order"), "{said}");
    assert!(folder.path().join("gap-token_map.svg").exists());
    // None of them moves: nothing is written, which is no success.
    let none = ["skipped token_map: ", "--figure all: no figure can be drawn into gap.gif"];
    assert_ends(&mut all("gap.gif"), 1, &none);
    // A file that cannot be written, because a folder has its name, ends the command.
    std::fs::create_dir(folder.path().join("new-token_map.svg")).unwrap();
    assert_ends(&mut all("new.svg"), 1, &["cannot write", "new-token_map.svg"]);
    let both =
        ["--trace", "sinkhorn.json", "--trace", "gap.json", "--figure", "photo", "--figure", "evidence"];
    done(&mut figures(
        folder.path(),
        &[&both[..], &["--width", "174", "--theme", "dark", "--out", "both.png"]].concat(),
    ));
    assert_ends(
        &mut figures(folder.path(), &[&both[..], &["--out", "both.csv"]].concat()),
        2,
        &["one trace and one figure"],
    );
}

#[test]
fn fixed_scans_need_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let four = ["--scan", "raster,vmamba,diagonal,snake", "--width", "174"];
    done(&mut figures(folder.path(), &[&four[..], &["--out", "scans.svg"]].concat()));
    let svg = std::fs::read_to_string(folder.path().join("scans.svg")).unwrap();
    assert!(svg.contains("diagonal over 14 x 14 patches") && svg.contains("4 of 4"));
    assert!(svg.contains(">Reading order</text>"), "no scan's name stands for those of all");
    let numbers = ["--scan", "snake", "--patches", "2x3", "--out", "snake.csv"];
    done(&mut figures(folder.path(), &numbers));
    let csv = std::fs::read_to_string(folder.path().join("snake.csv")).unwrap();
    let forth: Vec<&str> = csv.lines().skip(4).filter_map(|line| line.split(',').nth(1)).collect();
    assert_eq!(forth, ["0", "1", "2", "5", "4", "3"]);
    for (value, words) in [("vmamba2", "expected one of raster"), ("", "expected one of raster")] {
        assert_ends(&mut figures(folder.path(), &["--scan", value, "--out", "a.svg"]), 2, &[words]);
    }
    let none = ["--scan", "snake", "--patches", "0x3", "--out", "a.svg"];
    assert_ends(&mut figures(folder.path(), &none), 2, &["invalid value '0x3' for '--patches"]);
}

#[test]
fn the_training_of_a_run_is_drawn_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = report::manifest("tiny", "birds", &["gap", "sinkhorn"], 2, Selection::Test);
    Run::create(&folder.path().join("run"), manifest, &Truth::default()).unwrap();
    let line = |head: &str, seed: u64, epoch: u64| {
        let test = 10.0 * (epoch + seed) as f64;
        format!(
            "{{\"head\":\"{head}\",\"seed\":{seed},\"epoch\":{epoch},\"loss\":{},\"train\":{test},\"select\":{test},\"test\":{test}}}\n",
            2.0 / epoch as f64
        )
    };
    let all =
        |head: &str| [(0, 1), (0, 2), (1, 1), (1, 2)].map(|(seed, epoch)| line(head, seed, epoch)).concat();
    std::fs::write(folder.path().join("run/metrics.jsonl"), all("gap") + &all("sinkhorn")).unwrap();
    for ending in ["svg", "pdf", "png", "npz"] {
        let files = ["a", "b"].map(|name| format!("{name}.{ending}"));
        for file in &files {
            done(&mut figures(folder.path(), &["--run", "run", "--figure", "training_loss", "--out", file]));
        }
        let [a, b] = files.map(|file| std::fs::read(folder.path().join(file)).unwrap());
        assert!(a == b && a.len() > 500, "{ending} differs");
    }
    let svg = std::fs::read_to_string(folder.path().join("a.svg")).unwrap();
    assert!(svg.contains("Training loss") && svg.contains("sinkhorn") && !svg.contains("Accuracy"));
    assert!(svg.contains("heads on birds through tiny"), "the metadata says what made it");
    done(&mut figures(folder.path(), &["--run", "run", "--heads", "gap", "--out", "both.csv"]));
    let csv = std::fs::read_to_string(folder.path().join("both.csv")).unwrap();
    assert!(
        csv.starts_with("# title: Training curves\n# made of: run: heads on birds through tiny"),
        "{csv}"
    );
    let rows: Vec<&str> = csv.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows.len(), 1 + 4, "{csv}");
    // 80 images in batches of 16 make 5 steps per epoch.
    assert!(rows[1].starts_with("gap,loss,2.5,2,0") && rows[4].starts_with("gap,accuracy,10,25,"), "{csv}");
    // Losses are the same for both seeds; accuracies of 20 and 30 % have a standard deviation of 10 / sqrt(2).
    let spread = |row: &str| row.rsplit(',').nth(1).unwrap().parse::<f64>().unwrap();
    assert_close("spreads", [spread(rows[1]), spread(rows[4])], [0.0, 7.07106781186548], 1e-12);
    // Several runs on one plot; the 95 % interval of two seeds is ± 12.706 standard deviations / sqrt(2).
    let twin = folder.path().join("twin");
    Run::create(&twin, report::manifest("tiny", "birds", &["gap"], 2, Selection::Test), &Truth::default())
        .unwrap();
    std::fs::write(twin.join("metrics.jsonl"), all("gap")).unwrap();
    let shown = ["--figure", "training_accuracy", "--heads", "gap", "--band", "interval", "--out", "two.csv"];
    done(&mut figures(folder.path(), &[&["--run", "run", "--run", "twin"], &shown[..]].concat()));
    let csv = std::fs::read_to_string(folder.path().join("two.csv")).unwrap();
    assert!(csv.contains("twin: heads on birds") && csv.contains("95 % interval of the mean"), "{csv}");
    let rows: Vec<&str> = csv.lines().filter(|line| line.starts_with("gap · ")).collect();
    assert!(
        rows.len() == 4 && rows[0].starts_with("gap · run,") && rows[3].starts_with("gap · twin,"),
        "{csv}"
    );
    assert_close("interval", spread(rows[1]), 12.706 * 7.07106781186548 / 2f64.sqrt(), 1e-7);
    // Where the loss of every step is stored, it is drawn: 5 points per epoch of 5 steps.
    let run = Run::open(&folder.path().join("run")).unwrap();
    let points: Vec<f32> = (0..10).map(|step| 2.0 - 0.1 * step as f32).collect();
    for seed in [0, 1] {
        run.write_losses(seed, [("gap", &points[..]), ("sinkhorn", &[])].into_iter()).unwrap();
    }
    done(&mut figures(folder.path(), &["--run", "run", "--heads", "gap", "--out", "steps.csv"]));
    let csv = std::fs::read_to_string(folder.path().join("steps.csv")).unwrap();
    let rows: Vec<&str> = csv.lines().skip(4).collect();
    assert_eq!(rows.len(), 10 + 2, "{csv}");
    let first: Vec<f64> = rows[0].split(',').skip(2).map(|cell| cell.parse().unwrap()).collect();
    assert_eq!(first, [0.5, 2.0, 0.0, 2.0], "the middle of a step, two seeds: {csv}");
    std::fs::write(folder.path().join("run/losses/s1.safetensors"), b"no losses").unwrap();
    assert_ends(&mut figures(folder.path(), &["--run", "run", "--out", "a.svg"]), 1, &["s1.safetensors"]);
    std::fs::remove_dir_all(folder.path().join("run/losses")).unwrap();
    done(&mut figures(folder.path(), &["--run", "run", "--figure", "all", "--out", "all.svg"]));
    assert!(folder.path().join("all-training_accuracy.svg").exists());
    for (heads, unknown) in [("cls", "cls"), ("gap,sinkhron", "sinkhron")] {
        let words = format!("--heads {unknown}: the run trains gap, sinkhorn");
        let mut drawn = figures(folder.path(), &["--run", "run", "--heads", heads, "--out", "a.svg"]);
        assert_ends(&mut drawn, 2, &[&words]);
    }
}

#[test]
fn the_training_of_a_run_without_its_metrics_is_drawn_from_its_answers() {
    let folder = tempfile::tempdir().unwrap();
    let run = crate::run::root().join("docs/runs/scenes-mae");
    assert!(!run.join("metrics.jsonl").exists());
    done(&mut figures(folder.path(), &["--run", run.to_str().unwrap(), "--heads", "gap", "--out", "a.csv"]));
    let csv = std::fs::read_to_string(folder.path().join("a.csv")).unwrap();
    let rows = |what: &str| csv.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!((rows("gap,loss,"), rows("gap,accuracy,")), (30, 30), "{csv}");
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let folder = stored();
    std::fs::write(folder.path().join("broken.json"), "{\"image\": 3}").unwrap();
    std::fs::write(folder.path().join("newer.json"), "{\"format\": 2, \"picture\": 3}").unwrap();
    std::fs::write(folder.path().join("result.json"), "{\"image\": \"a.png\", \"prediction\": []}").unwrap();
    for (arguments, code, words) in [
        (["gap.json", "assignment", "a.svg"], 1, "gap reads no order"),
        (["gap.json", "scan_path", "a.svg"], 1, "--figure all leaves out what cannot be drawn"),
        (["gap.json", "nonsense", "a.svg"], 2, "expected one of photo, token_map"),
        (["gap.json", "photo", "a.bmp"], 2, "use .svg, .pdf"),
        (["gap.json", "photo", "a.gif"], 1, "does not show a reading step by step"),
        (["none.json", "photo", "a.svg"], 2, "cannot read none.json"),
        (["broken.json", "photo", "a.svg"], 1, "broken.json is not a trace"),
        (["newer.json", "photo", "a.svg"], 1, "`format` is 2; this program reads 1"),
        (["result.json", "photo", "a.svg"], 2, "pass result.trace.json, which it writes with --save-traces"),
    ] {
        let [trace, figure, out] = arguments;
        let mut drawn = figures(folder.path(), &["--trace", trace, "--figure", figure, "--out", out]);
        assert_ends(&mut drawn, code, &[words]);
        assert!(!folder.path().join(out).exists());
    }
    // Nothing is written without the stills that were asked for.
    let stills = ["--trace", "gap.json", "--figure", "token_map", "--stills", "2", "--out", "a.svg"];
    assert_ends(&mut figures(folder.path(), &stills), 1, &["does not show a reading step by step"]);
    assert!(!folder.path().join("a.svg").exists());
    let list = done(&mut figures(folder.path(), &["--list"]));
    assert_eq!(list.lines().count(), ssmprobe::viz::figures::all().count());
    let wide = ssmprobe::viz::figures::all().map(|(info, _)| info.id.len()).max().unwrap() + 2;
    assert!(
        list.lines().all(|line| line[..wide].ends_with("  ") && line[wide..].starts_with(char::is_uppercase))
    );
    assert!(
        list.contains("(of an evaluation)") && !list.contains("click") && !list.contains("drag"),
        "{list}"
    );
}

#[test]
fn differences_are_drawn_against_a_column_or_a_file() {
    let folder = stored();
    let mut other = traces::sinkhorn_trace();
    other.probe = "softsort.safetensors".into();
    other.token_weight.iter_mut().flatten().for_each(|v| *v *= 0.5);
    std::fs::write(folder.path().join("softsort.json"), serde_json::to_vec(&other).unwrap()).unwrap();
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let one = ["--trace", "sinkhorn.json", "--figure", "photo"];
    done(&mut figures(
        folder.path(),
        &[&one[..], &["--against", "softsort.json", "--out", "a.csv"]].concat(),
    ));
    let csv = text("a.csv");
    let row: Vec<&str> = csv.lines().find(|line| line.starts_with("0,")).unwrap().split(',').collect();
    let half = f64::from(other.token_weight.as_ref().unwrap()[0]);
    assert!(csv.contains("delta_token_weight"), "{csv}");
    assert_close("half of it", row[3].parse::<f64>().unwrap(), half, 1e-9);
    let both =
        ["--trace", "sinkhorn.json", "--trace", "softsort.json", "--figure", "photo", "--width", "174"];
    done(&mut figures(folder.path(), &[&both[..], &["--against", "2", "--out", "b.svg"]].concat()));
    let svg = text("b.svg");
    assert!(svg.contains(">Weight in the sum<") && svg.contains(">Δ weight in the<"), "either scale");
    assert!(svg.contains("Picture: of softsort, and the difference (Δ) of the others from it"), "{svg}");
    for (arguments, code, words) in [
        (["photo", "3"], 2, "--against 3: give a column from 1 to 2, or a file"),
        (["photo", "none.json"], 2, "cannot read none.json"),
    ] {
        let [figure, against] = arguments;
        let traces = ["--trace", "sinkhorn.json", "--trace", "softsort.json", "--out", "c.svg"];
        let arguments = [&traces[..], &["--figure", figure, "--against", against]].concat();
        assert_ends(&mut figures(folder.path(), &arguments), code, &[words]);
    }
    let itself = [&one[..], &["--against", "1", "--out", "c.svg"]].concat();
    assert_ends(&mut figures(folder.path(), &itself), 2, &["no difference from itself"]);
    assert!(!folder.path().join("c.svg").exists());
}

#[test]
fn columns_that_do_not_fit_end_with_what_would_do() {
    let folder = stored();
    let four = ["--trace", "sinkhorn.json"].repeat(4);
    let four = [&four[..], &["--figure", "evidence", "--out", "four.svg"]].concat();
    let narrow = [&four[..], &["--width", "85"]].concat();
    assert_ends(&mut figures(folder.path(), &narrow), 2, &["4 columns side by side need", "--columns 2"]);
    assert!(!folder.path().join("four.svg").exists());
    done(&mut figures(folder.path(), &[&four[..], &["--width", "85", "--columns", "2"]].concat()));
    // By default, it is as wide as they need, and as every step of the reading needs.
    done(&mut figures(folder.path(), &four));
    let stills = ["--figure", "scan_path", "--stills", "1", "--dpi", "20", "--out", "steps.png"];
    done(&mut figures(folder.path(), &[&["--trace", "sinkhorn.json"].repeat(4)[..], &stills].concat()));
    let width = |name: &str| image::image_dimensions(folder.path().join(name)).unwrap().0;
    assert_eq!(width("steps.png"), width("steps-step-196.png"));
}

#[test]
fn what_has_no_difference_says_why_not() {
    let folder = stored();
    let said = |arguments: &[&str]| succeeds(&mut figures(folder.path(), arguments)).1;
    let gap = ["--figure", "all", "--out", "d.csv", "--trace", "sinkhorn.json", "--against", "gap.json"];
    let notes = said(&gap);
    for (id, why) in [
        ("assignment", "gap reads no order"),
        ("scan_path", "gap reads no order"),
        ("kernel", "gap has no memory kernel"),
        ("scores", "gap has no token scores"),
        ("order_test", "One of the two traces has no order test"),
    ] {
        assert!(notes.contains(&format!("skipped {id}: {why}")), "{notes}");
        assert!(!folder.path().join(format!("d-{id}.csv")).exists(), "{id}");
    }
    assert!(folder.path().join("d-predictions.csv").exists() && !notes.contains("skipped photo"), "{notes}");
    let scan = ["--scan", "raster,snake", "--out", "s.svg", "--against", "1"];
    assert_ends(&mut figures(folder.path(), &scan), 2, &["--against: fixed scans have no trace"]);
    let run = ["--run", ".", "--out", "s.svg", "--against", "1"];
    assert_ends(&mut figures(folder.path(), &run), 2, &["--against: runs share one plot"]);
    let stability = ["--stability", "none.json", "--out", "s.svg", "--against", "1"];
    assert_ends(
        &mut figures(folder.path(), &stability),
        2,
        &["--against: each tau of a stability file compares"],
    );
    let overview = ["--evaluation", "none.json", "--figure", "confusion", "--out", "s.svg", "--against", "1"];
    assert_ends(&mut figures(folder.path(), &overview), 2, &["names the y axis of a scatter"]);
    let [own, other] = [small::removal(), small::other_removal()].map(|removal| {
        let path = folder.path().join(format!("{}.causal.json", removal.probe));
        std::fs::write(&path, serde_json::to_vec(&removal).unwrap()).unwrap();
        path.display().to_string()
    });
    said(&["--causal", &own, "--against", &other, "--out", "c.csv"]);
    let beyond = ["--causal", &own, "--step", "999", "--out", "c.csv"];
    assert_ends(&mut figures(folder.path(), &beyond), 2, &["--step 999: the curves have steps 0 to 4"]);
    let csv = std::fs::read_to_string(folder.path().join("c.csv")).unwrap();
    assert!(csv.contains("\nfraction,delta_deletion_evidence,delta_insertion_evidence,"), "{csv}");
    assert!(csv.contains("\n0,1.5,0.5,"), "{csv}");
    assert!(csv.contains(",mode,quantity,class\n") && csv.contains(",frozen,logit,heron\n"), "{csv}");
}
