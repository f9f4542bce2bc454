//! Event files for TensorBoard, parsed here independently of the writer: each holds the numbers of `metrics.jsonl`, every
//! step once, wherever the training was stopped.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::Value;
use ssmprobe::app::jobs::train::Event;
use ssmprobe::app::jobs::train::tensorboard::TensorBoard;

use super::Sandbox;
use crate::run::{self, assert_ends, done};

/// An epoch, and its scalars by tag.
type Step = (u64, BTreeMap<String, f32>);

/// CRC32C bit by bit, masked as TensorFlow does.
fn masked(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
        }
    }
    let crc = !crc;
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The fields of a protobuf message: their number, then a varint or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                all.push((key >> 3, varint(&mut bytes), Vec::new()));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        all.push((key >> 3, 0, bytes[..length].to_vec()));
        bytes = &bytes[length..];
    }
    all
}

/// The steps of a file with their scalars by tag.
fn steps(path: &Path) -> Vec<Step> {
    let file = fs::read(path).expect("an event file");
    let (mut at, mut events) = (0, Vec::new());
    while at < file.len() {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
        let length = u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes")) as usize;
        let record = &file[at + 12..at + 12 + length];
        assert_eq!((word(at + 8), word(at + 12 + length)), (masked(&file[at..at + 8]), masked(record)));
        at += 16 + length;
        let event = fields(record);
        let wall = f64::from_le_bytes(event[0].2[..].try_into().expect("a double"));
        assert!(event[0].0 == 1 && wall > 1e9 && wall < 1e11, "{wall}");
        events.push(event);
    }
    assert_eq!(events[0][1], (3, 0, b"brain.Event:2".to_vec()));
    let scalar = |value: &[u8]| {
        let value = fields(value);
        let tag = String::from_utf8(value[0].2.clone()).expect("a tag");
        (tag, f32::from_le_bytes(value[1].2[..].try_into().expect("a float")))
    };
    let step = |event: &Vec<(u64, u64, Vec<u8>)>| {
        assert_eq!((event[1].0, event[2].0), (2, 5));
        (event[1].1, fields(&event[2].2).iter().map(|(_, _, value)| scalar(value)).collect())
    };
    events[1..].iter().map(step).collect()
}

/// Asserts that the files below `board` hold the lines of the run's `metrics.jsonl`, in their order, with the rate of half a
/// cosine; how many there are.
fn assert_same(run: &Path, board: &Path, start: f64, epochs: usize) -> usize {
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let mut expected: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for line in text.lines() {
        let metric: Value = serde_json::from_str(line).expect("JSON");
        let number = |name: &str| metric[name].as_f64().expect("a number") as f32;
        let epoch = metric["epoch"].as_u64().expect("an epoch");
        let turn = std::f64::consts::PI * (epoch - 1) as f64 / epochs as f64;
        let rate = (start * (1.0 + turn.cos()) / 2.0) as f32;
        let scalars = [
            ("loss", number("loss")),
            ("accuracy/train", number("train")),
            ("accuracy/select", number("select")),
            ("accuracy/test", number("test")),
            ("rate", rate),
        ];
        let folder = format!("{}-s{}", metric["head"].as_str().expect("a head"), metric["seed"]);
        let scalars = scalars.map(|(tag, value)| (tag.to_owned(), value)).into();
        expected.entry(folder).or_default().push((epoch, scalars));
    }
    let folders = fs::read_dir(board).map_or(0, Iterator::count);
    assert_eq!(folders, expected.len(), "one folder for each head and seed");
    for (folder, epochs) in &expected {
        let files: Vec<_> = run::files(&board.join(folder)).into_keys().collect();
        assert!(files.len() == 1 && files[0].contains("tfevents"), "{files:?}");
        assert_eq!(steps(&board.join(folder).join(&files[0])), *epochs, "{folder}");
    }
    expected.values().map(Vec::len).sum()
}

/// Stopped after every event in turn and resumed: every step is there once, with the numbers of the run.
#[test]
fn every_step_stands_once_wherever_a_training_was_stopped() {
    let sandbox = Sandbox::new();
    let plan = sandbox.train_plan(&["linear-bn", "gap"]);
    let config = plan.settings.config();
    let board = sandbox.path("board");
    for cut in (1..).step_by(3) {
        let (run, mut events) = (format!("run-{cut}"), 0);
        for resumed in [false, true] {
            let mut writer = TensorBoard::open(&board, &run, resumed).expect("a folder");
            sandbox.train(&plan, &run, &mut |event| {
                let counts = matches!(
                    event,
                    Event::Begin { .. } | Event::Step { .. } | Event::Epoch { .. } | Event::Seed
                );
                events += usize::from(counts);
                let stops = !resumed && counts && events == cut;
                // A kill may come between a write of the run and that of its event file.
                if matches!(event, Event::Begin { .. } | Event::Epoch { .. }) && !(stops && cut % 2 == 0) {
                    writer.write(&sandbox.path(&run)).expect("written");
                }
                if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if events < cut {
                break;
            }
        }
        let steps = assert_same(&sandbox.path(&run), &board.join(&run), config.rate, config.epochs);
        assert_eq!(steps, 2 * 2 * config.epochs, "stopped after event {cut}");
        if events < cut {
            assert!(cut > 20, "{cut}");
            break;
        }
    }
}

/// A file whose end is damaged, or belongs to another training, is truncated to its valid part and continued.
#[test]
fn what_is_wrong_in_a_file_is_cut_off() {
    let sandbox = Sandbox::new();
    let plan = sandbox.train_plan(&["gap"]);
    let (config, board) = (plan.settings.config(), sandbox.path("board"));
    let run = sandbox.trained(&plan, "run").folder().to_owned();
    let write = || TensorBoard::open(&board, "run", true).expect("a folder").write(&run);
    write().expect("written");
    assert_eq!(assert_same(&run, &board.join("run"), config.rate, config.epochs), 2 * config.epochs);
    let folder = board.join("run/gap-s0");
    let path = folder.join(run::files(&folder).into_keys().next().expect("a file"));
    let whole = fs::read(&path).expect("a file");
    let mut other = whole.clone();
    *other.iter_mut().rev().nth(10).expect("a byte") ^= 1;
    for damaged in [&whole[..whole.len() - 3], &whole[..20], &[], &other, &[&whole[..], b"more"].concat()] {
        fs::write(&path, damaged).expect("room");
        write().expect("written");
        assert_same(&run, &board.join("run"), config.rate, config.epochs);
    }
    fs::write(&path, [&whole[..], &whole[40..]].concat()).expect("room");
    write().expect("written");
    assert_same(&run, &board.join("run"), config.rate, config.epochs);
}

/// The flag of the command line: another run is not mixed in, a resumed one is, and a folder that cannot be written is
/// refused before anything is trained.
#[test]
fn the_flag_writes_along_and_mixes_no_runs() {
    let sandbox = run::Sandbox::new(24, 12);
    let board = sandbox.path("board");
    let flag = ["--tensorboard", board.to_str().expect("text")];
    done(&mut sandbox.train("run", 2, &flag));
    assert_eq!(assert_same(&sandbox.path("run"), &board.join("run"), 1e-3, 2), 2 * 2 * 2);
    done(&mut sandbox.train("run", 2, &[&flag[..], &["--resume", "--seeds", "3"]].concat()));
    assert_eq!(assert_same(&sandbox.path("run"), &board.join("run"), 1e-3, 2), 2 * 3 * 2);
    assert_ends(&mut sandbox.train("elsewhere/run", 2, &flag), 2, &["has the events of another run"]);
    assert!(!sandbox.path("elsewhere").exists());
    fs::write(sandbox.path("file"), "").expect("room");
    let file = sandbox.path("file").display().to_string();
    assert_ends(&mut sandbox.train("other", 2, &["--tensorboard", &file]), 2, &["--tensorboard"]);
    assert!(!sandbox.path("other").exists());
}
