//! Files that claim more than they hold, given to the program on the command line: refused with a reason, within a
//! second and within the memory of any small file. `tests/reference/hostile.py` writes `tests/fixtures/hostile`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};

use ssmprobe::model::data::open;

use crate::run::prelude::*;

/// Peak memory that a run may use, in kB.
const MAX_MEMORY: u64 = 200_000;
/// Processor time that a run may use, in seconds.
const MAX_SECONDS: f64 = 1.0;
/// Time after which a run is killed and the test fails.
const TIME_LIMIT: Duration = Duration::from_mins(5);

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/hostile").join(name)
}

/// Peak memory in kB and processor time in seconds, so far, of a running process of the program.
#[cfg(target_os = "linux")]
fn usage(id: u32) -> Option<(u64, f64)> {
    // Between fork and exec, the child is a copy of this process, with its memory.
    let program = fs::read_link(format!("/proc/{id}/exe")).ok()?;
    if program.file_name() != Path::new(env!("CARGO_BIN_EXE_ssmprobe")).file_name() {
        return None;
    }
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Fields follow the name in brackets; times are in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((peak.trim_end_matches("kB").trim().parse().ok()?, (ticks(11)? + ticks(12)?) / 100.0))
}

/// Where there is no `/proc`, only that files are refused is checked.
#[cfg(not(target_os = "linux"))]
fn usage(_: u32) -> Option<(u64, f64)> {
    Some((0, 0.0))
}

/// Standard error of a run that the program should refuse; a run that ends before its memory was sampled is repeated.
fn refusal(arguments: &[OsString]) -> String {
    let said = (0..50).find_map(|_| sampled_run(arguments));
    said.unwrap_or_else(|| panic!("{arguments:?}: it was not watched"))
}

/// Standard error of one run; `None` where it ended before a sample. Samples are two milliseconds apart: memory cannot
/// grow by much between the last one and the end.
fn sampled_run(arguments: &[OsString]) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_ssmprobe");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let (mut peak, mut seconds, mut samples) = (0, 0.0, 0);
    let status = loop {
        if let Some((memory, time)) = usage(child.id()) {
            (peak, seconds, samples) = (memory.max(peak), time, samples + 1);
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > TIME_LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{arguments:?}: no end after {TIME_LIMIT:?}, {peak} kB");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    if samples == 0 || peak <= 1000 {
        return None;
    }
    assert_eq!(status.code(), Some(1), "{arguments:?}: {said}");
    assert!(peak < MAX_MEMORY, "{arguments:?}: {peak} kB: {said}");
    assert!(seconds < MAX_SECONDS, "{arguments:?}: {seconds} s: {said}");
    assert!(said.len() < 10_000, "{arguments:?}: it says {} bytes", said.len());
    Some(said)
}

/// Checks that the program refuses a file, and names it and the reason.
fn assert_refused(verb: &[&str], path: &Path, why: &str) {
    let arguments: Vec<OsString> = verb.iter().map(OsString::from).chain([path.into()]).collect();
    let said = refusal(&arguments);
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(said.contains(name) && said.contains(why), "{name} is not refused because of {why:?}: {said}");
}

/// Checks that `inspect` of a photograph of the demo refuses `path` as the value of `replaced`, which comes last.
fn assert_inspect_refuses(replaced: &str, path: &Path, why: &str) {
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("out");
    let demo = [
        ("--backbone", root().join("assets/demo/mae")),
        ("--probe", root().join("assets/demo/probes/mae/gap.safetensors")),
        ("--image", root().join("assets/demo/scenes/val/disc-dots/00002.png")),
        ("--out", out),
    ];
    let mut verb = vec!["inspect", "--device", "cpu"];
    for (flag, value) in demo.iter().filter(|(flag, _)| *flag != replaced) {
        verb.extend([*flag, value.to_str().unwrap()]);
    }
    verb.push(replaced);
    assert_refused(&verb, path, why);
}

#[test]
fn parquet_that_claims_what_is_not_there_is_refused() {
    let sound = open(fixture("good.parquet")).unwrap();
    assert_eq!((sound.classes.as_slice(), sound.samples.len()), (&["0".to_owned(), "1".into()][..], 4));
    for (name, why) in [
        ("page-list", "a list of 2147483647 at field [20]"),
        ("page-flags", "a list of 2147483647 at field [20]"),
        ("flags", "at field [10]"),
        ("hidden-flags", "another type than Parquet defines at field [5]"),
        ("groups", "a list of 2147483647 at field [5]"),
        ("children", "claims 2147483647 nested columns"),
        ("depth", "5003 columns"),
        ("rows", "1099511627776 rows in 219 bytes"),
        ("runs", "1073741824 rows"),
        ("dictionary", "2147483647 values in 16 bytes"),
        ("snappy", "268435456 bytes from 6"),
        ("lengths", "Parquet encoding 6"),
        ("labels", "labels are larger than the file"),
    ] {
        assert_refused(&["dataset", "--check", "pixels"], &fixture(&format!("{name}.parquet")), why);
    }
    // `extract` refuses it too.
    let backbone = root().join("assets/demo/mae");
    let cache = tempfile::tempdir().unwrap();
    let verb = ["extract", "--device", "cpu", "--backbone", backbone.to_str().unwrap(), "--cache"];
    let verb = [&verb[..], &[cache.path().to_str().unwrap(), "--data"]].concat();
    assert_refused(&verb, &fixture("page-list.parquet"), "a list of 2147483647");
}

#[test]
fn jpegs_that_claim_what_is_not_there_are_refused() {
    for (name, why) in [
        ("hidden-frame", "20000 x 20000 pixels are more than"),
        ("few-bytes", "1671 bytes are too few for 10000 x 10000 pixels"),
        ("scans", "302 scans of 3000 x 3000 pixels; at most 238 are read"),
    ] {
        assert_inspect_refuses("--image", &fixture(&format!("{name}.jpg")), why);
    }
}

#[test]
fn weights_that_repeat_a_number_are_refused() {
    let folder = fixture("weights");
    assert_inspect_refuses(
        "--backbone",
        &folder,
        "its 102 tensors add up to 1371598848 bytes, but it stores only 17138",
    );
}

/// Sparse files of 20 GiB.
#[test]
fn files_of_any_length_are_refused_by_their_length() {
    let folder = tempfile::tempdir().unwrap();
    let long = |name: &str| {
        let path = folder.path().join(name);
        let mut file = File::create(&path).unwrap();
        file.write_all(b"path,label\n").unwrap();
        file.set_len(20 << 30).unwrap();
        path
    };
    assert_refused(&["dataset"], &long("list.csv"), "larger than 268435456 bytes");
    assert_inspect_refuses("--image", &long("a.png"), "21474836480 bytes are more than");
    assert_inspect_refuses("--probe", &long("probe.safetensors"), "larger than 4294967296 bytes");
    assert_refused(
        &["figures", "--figure", "evidence", "--out", "never.svg", "--trace"],
        &long("a.trace.json"),
        "larger than 536870912 bytes",
    );
    let backbone = folder.path().join("backbone");
    fs::create_dir(&backbone).unwrap();
    for name in ["config.json", "preprocessor_config.json"] {
        for file in ["config.json", "preprocessor_config.json", "model.safetensors"] {
            fs::copy(root().join("assets/demo/mae").join(file), backbone.join(file)).unwrap();
        }
        File::create(backbone.join(name)).unwrap().set_len(20 << 30).unwrap();
        assert_inspect_refuses("--backbone", &backbone, "it is larger than 16777216 bytes");
    }
}

#[test]
fn what_a_file_repeats_is_cut_in_a_message() {
    let name = "x".repeat(450_000);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("probe.safetensors");
    let about = serde_json::json!({"format": 1, "head": name, "config": {}, "classes": ["a"],
        "backbone": {"id": "a", "model_type": "vit_mae", "hidden_size": 64}});
    let header = serde_json::json!({"__metadata__": {"ssmprobe": about.to_string()}}).to_string();
    fs::write(&file, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()).unwrap();
    assert_inspect_refuses("--probe", &file, "xxx [… ");

    // Weights whose only tensor has a long name, and a list with a long path.
    let backbone = folder.path().join("backbone");
    fs::create_dir(&backbone).unwrap();
    for file in ["config.json", "preprocessor_config.json"] {
        fs::copy(root().join("assets/demo/mae").join(file), backbone.join(file)).unwrap();
    }
    let tensor = serde_json::json!({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]});
    let header = format!("{{\"{name}\": {tensor}}}");
    let weights = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    fs::write(backbone.join("model.safetensors"), weights).unwrap();
    assert_inspect_refuses("--backbone", &backbone, "xxx [… ");

    let list = folder.path().join("list.csv");
    fs::write(&list, format!("path,label\n{name},a\n")).unwrap();
    let report = Command::new(env!("CARGO_BIN_EXE_ssmprobe")).arg("dataset").arg(&list).output().unwrap();
    let said = String::from_utf8(report.stdout).unwrap();
    assert!(said.len() < 10_000 && said.contains("xxx [… "), "{} bytes", said.len());
}
