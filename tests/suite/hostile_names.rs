//! Hostile names: control characters in a terminal, formulas in a spreadsheet; and a limit on the size
//! of files.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;
use ssmprobe::model::probe::Probe;

use super::faults::{is_temporary, tree};
use super::run::{Sandbox, column, done, entries, fixture, inspect, lines, program, run};

/// Clears the screen, turns red, ends its line, spans two columns and reverses the direction of text.
const HOSTILE: &str = "\u{1b}[2J\u{1b}[31mred\nrow\tcolumn\u{202e}";
const SHOWN: &str = "\\u001b[2J\\u001b[31mred\\nrow\\tcolumn\\u202e";

fn is_clean(text: &str) -> bool {
    !text.chars().any(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || c == '\u{202e}')
}

/// Gives a class another name.
fn rename(sandbox: &Sandbox, class: &str, name: &str) {
    for split in ["train", "val"] {
        let folder = sandbox.data().join(split);
        fs::rename(folder.join(class), folder.join(name)).expect("renamed");
    }
}

#[test]
fn control_characters_of_names_reach_no_terminal_and_split_no_row() {
    let sandbox = Sandbox::new(24, 12);
    rename(&sandbox, "disc-dots", HOSTILE);
    fs::write(sandbox.data().join("train").join(HOSTILE).join("x\u{7}.png"), "no picture").expect("a file");
    let dataset = || {
        let mut command = program();
        command.arg("dataset").arg(sandbox.data());
        command
    };
    let (_, stdout, stderr) = run(&mut dataset());
    assert!(is_clean(&stdout) && is_clean(&stderr), "{stdout:?} {stderr:?}");
    let rows: Vec<&str> = stdout.lines().collect();
    assert_eq!(
        rows.iter().filter(|row| row.contains(SHOWN)).count(),
        2,
        "its class and its broken image: {stdout}"
    );
    // The title, a row per class, the summary of the check and the broken image.
    assert_eq!(rows.len(), 1 + 12 + 1 + 1, "{stdout}");
    // Read from JSON, the name is unchanged.
    let document: Value = serde_json::from_str(&done(dataset().arg("--json"))).expect("JSON");
    let classes = document["classes"].as_array().expect("classes");
    assert!(classes.iter().any(|class| class["name"] == HOSTILE), "{document}");

    let (code, stdout, stderr) = run(&mut sandbox.train("run", 1, &["--seeds", "1"]));
    assert!(
        code == 0 && is_clean(&stdout) && stderr.contains("x\\u0007.png") && is_clean(&stderr),
        "{stderr:?}"
    );
    let mut hostile = inspect(2);
    hostile.arg("--probe").arg(sandbox.path("run/probes"));
    hostile.arg("--image").arg(sandbox.data().join("val").join(HOSTILE));
    let (code, stdout, stderr) = run(hostile.arg("--out").arg(sandbox.path(HOSTILE)));
    assert!(code == 0 && is_clean(&stdout) && is_clean(&stderr), "{stderr:?}");
    assert_eq!(stdout.lines().count(), 4, "an image, two heads, best and last: {stdout}");
    assert!(stdout.lines().all(|row| row.split('\t').count() == 4), "{stdout:?}");
    // Error messages are clean as well.
    let (code, _, stderr) = run(program().args(["dataset"]).arg(sandbox.path("no\u{1b}such")));
    assert!(code == 2 && is_clean(&stderr) && stderr.contains("no\\u001bsuch"), "{stderr:?}");
}

#[test]
fn no_cell_of_a_table_is_a_formula_and_numbers_stay_numbers() {
    let sandbox = Sandbox::new(24, 12);
    rename(&sandbox, "disc-dots", "=1+1");
    rename(&sandbox, "disc-checks", "-2+3");
    done(&mut sandbox.train("run", 1, &["--seeds", "1"]));
    let evaluation = sandbox.path("evaluation");
    let events = lines(&done(sandbox.eval("run", &["--json", "--evaluation"]).arg(&evaluation)));
    assert!(events.iter().any(|event| event["event"] == "survey"), "{events:?}");
    let (mut words, mut numbers) = (BTreeSet::new(), 0);
    for path in entries(&evaluation) {
        if path.extension().is_none_or(|ending| ending != "csv") {
            continue;
        }
        let mut table = csv::Reader::from_path(&path).expect("a table");
        for row in table.records() {
            for cell in &row.expect("a row") {
                match cell.parse::<f64>() {
                    Ok(number) => numbers += usize::from(number < 0.0),
                    Err(_) => drop(words.insert(cell.to_owned())),
                }
            }
        }
    }
    assert!(words.contains("'=1+1") && words.contains("'-2+3"), "{words:?}");
    let formulas: Vec<_> = words.iter().filter(|word| word.starts_with(['=', '+', '-', '@'])).collect();
    assert!(formulas.is_empty(), "{formulas:?}");
    assert!(numbers > 0, "a correlation is negative somewhere");

    let image = sandbox.path("=cmd.png");
    fs::copy(fixture("images/one.png"), &image).expect("copied");
    let mut of_formula = inspect(2);
    of_formula.arg("--probe").arg(sandbox.path("run/probes")).arg("--image").arg(&image);
    done(of_formula.arg("--out").arg(sandbox.path("out")));
    let mut table = csv::Reader::from_path(sandbox.path("out/summary.csv")).expect("a table");
    let rows: Vec<_> = table.records().map(|row| row.expect("a row")).collect();
    assert!(rows.len() == 4 && rows.iter().all(|row| &row[2] == "'=cmd"), "{rows:?}");

    // Names of the predicted and of the requested class.
    let mut probe = Probe::load(fixture("probes/gap.safetensors")).expect("a probe");
    probe.meta.classes.iter_mut().for_each(|class| class.insert(0, '='));
    let formulas = sandbox.path("formulas.safetensors");
    probe.save(&formulas).expect("saved");
    let mut of_formulas = inspect(2);
    of_formulas.arg("--probe").arg(&formulas).arg("--image").arg(fixture("images/one.png"));
    done(of_formulas.arg("--out").arg(sandbox.path("classes")));
    for name in ["predicted_name", "class_name"] {
        let class = &column(&sandbox.path("classes/summary.csv"), name)[0];
        assert!(class.starts_with("'="), "{name}: {class}");
    }
}

/// A file that exceeds the size limit of the shell (SIGXFSZ) is an error like a full disk: reported
/// once, by this program, with no temporary file left.
#[test]
fn an_archive_that_may_not_grow_is_an_error_of_its_own() {
    let sandbox = Sandbox::new(1, 1);
    let out = sandbox.path("out");
    let mut command = Command::new("sh");
    let inner = inspect(2);
    command.args(["-c", "ulimit -f 4; exec \"$0\" \"$@\""]);
    command.arg(inner.get_program()).args(inner.get_args()).arg("--save-tokens");
    command.arg("--probe").arg(fixture("probes")).arg("--image").arg(fixture("images/one.png"));
    let (code, _, stderr) = run(command.arg("--out").arg(&out));
    assert!(
        code == 1 && stderr.contains("cannot be written") && stderr.contains("too large"),
        "{code}: {stderr}"
    );
    assert!(!stderr.contains("ZipWriter"), "{stderr}");
    assert!(out.is_dir());
    for name in tree(&out).into_keys() {
        assert!(!is_temporary(&name) && !name.ends_with(".npz"), "{name} is left");
    }
}
