//! Damaged files for every reader of [`READERS`]: each may say what is wrong, or read other numbers; none
//! panics, hangs, or fills the memory.
//!
//! Every damaged file has a number, and the same number is the same damage. A reader works in a child
//! process, which runs this test again: so a stack overflow or an allocation that aborts is seen, and its
//! time and memory are measured alone. Files that once broke a reader lie in
//! `tests/fixtures/regressions/READER` and are read first. A file that breaks one, here or under the fuzzer
//! (`scripts/fuzz`), is left in the target folder.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;

use flate2::Crc;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ssmprobe::app::{process_memory, processor_time};

use crate::readers::{READERS, Reader};
use crate::run::prelude::*;

/// Environment variable that names the reader to its child process.
const READER: &str = "SSMPROBE_TEST_READER";
/// Processor time of one file.
const TIME: Duration = Duration::from_secs(1);
/// Wall-clock time of one file: many processes may share one core.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Bytes of memory that a reader may use beyond its peak with undamaged files.
const MEMORY: u64 = 200 << 20;
/// Longest damaged file, in bytes.
const LONGEST: usize = 1 << 18;

#[test]
fn damaged_files_harm_no_reader() {
    if let Some(name) = std::env::var_os(READER) {
        return read_damaged(Reader::find(name.to_str().expect("a name")).expect("a reader"));
    }
    for folder in entries(&root().join("tests/fixtures/regressions")) {
        let reader = folder.file_name().and_then(|name| name.to_str()).and_then(Reader::find);
        assert!(reader.is_some(), "no reader reads the files of {}", folder.display());
    }
    let mut broken = String::new();
    for reader in READERS {
        match watch(reader) {
            Ok(summary) => println!("{summary}"),
            Err(why) => writeln!(broken, "{why}").unwrap(),
        }
    }
    assert!(broken.is_empty(), "\n{broken}");
}

fn place(reader: &Reader) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged").join(reader.name)
}

/// Runs a reader in a child process; its summary, or an error that names the file at which it broke.
fn watch(reader: &Reader) -> Result<String, String> {
    let place = place(reader);
    let _ = fs::remove_dir_all(&place); // what an earlier failure has left
    fs::create_dir_all(&place).expect("a folder");
    let complaints = place.join("stderr.txt");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["mutated::damaged_files_harm_no_reader", "--exact", "--nocapture"])
        .env(READER, reader.name)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&complaints).expect("a file"))
        .spawn()
        .expect("this program runs");
    let (sender, receiver) = sync_channel(1024);
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let listener = thread::Builder::new()
        .name("what a reader says".into())
        .spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    listener.expect("a thread");
    let (mut last, mut summary, mut hung) = (String::new(), String::new(), false);
    loop {
        match receiver.recv_timeout(TIMEOUT) {
            Ok(line) if line.starts_with("file ") => last = line,
            Ok(line) if line.starts_with(&format!("{}: ", reader.name)) => summary = line,
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                hung = true;
                child.kill().expect("a process to end");
                break;
            }
        }
    }
    let status = child.wait().expect("an end");
    if status.success() && !summary.is_empty() {
        fs::remove_dir_all(&place).expect("a folder to remove");
        return Ok(summary);
    }
    let why = if hung { format!("it hung for {TIMEOUT:?}") } else { status.to_string() };
    let complaints = fs::read_to_string(complaints).unwrap_or_default();
    let tail: Vec<&str> = complaints.lines().rev().take(8).collect();
    let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n  ");
    Err(format!("{} broke at {last}, which is left in {}: {why}\n  {tail}", reader.name, place.display()))
}

/// Reads all damaged files of a reader in this process, within the limits of time and memory.
fn read_damaged(reader: &Reader) {
    let room = reader.room(&place(reader).join("room"));
    let seeds = reader.seeds();
    println!(); // the harness has begun a line
    for seed in seeds.iter().rev() {
        room.put(seed);
        let read = (reader.read)(&room);
        assert!(read.is_ok() || seed != &seeds[0], "a whole file is refused: {}", read.unwrap_err());
    }
    let whole = process_memory::peak().expect("memory as Linux tells it");
    let (mut slowest, mut most, mut fine) = (Duration::ZERO, 0, 0);
    let mut take = |name: &str, bytes: &[u8]| {
        println!("file {name}");
        room.put(bytes);
        let start = processor_time::of_process();
        fine += u64::from((reader.read)(&room).is_ok());
        slowest = slowest.max(processor_time::of_process().saturating_sub(start));
        assert!(slowest < TIME, "it takes {slowest:?} of processor time");
        most = most.max(process_memory::peak().expect("memory").saturating_sub(whole));
        assert!(most < MEMORY, "it holds {most} bytes");
    };
    let known = root().join("tests/fixtures/regressions").join(reader.name);
    for entry in fs::read_dir(known).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        take(&path.display().to_string(), &fs::read(&path).expect("a file"));
    }
    for number in 0..reader.files {
        take(&number.to_string(), &damaged(reader, &seeds, number));
    }
    println!(
        "{}: {} damaged files, {fine} read all the same; slowest {slowest:.1?}, {} MB",
        reader.name,
        reader.files,
        most >> 20
    );
}

/// The damaged file of this number.
fn damaged(reader: &Reader, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    seed[8..].iter_mut().zip(reader.name.bytes()).for_each(|(place, byte)| *place = byte);
    let mut rng = ChaCha8Rng::from_seed(seed);
    let mut bytes = seeds.choose(&mut rng).expect("a seed").clone();
    if rng.random_ratio(1, 8) {
        // The start of one file, the end of another.
        let other = seeds.choose(&mut rng).expect("a seed");
        bytes.truncate(rng.random_range(0..=bytes.len()));
        bytes.extend(&other[rng.random_range(0..=other.len())..]);
    }
    for _ in 0..*[1, 1, 1, 2, 2, 4, 8].choose(&mut rng).expect("a number") {
        damage(&mut bytes, &mut rng);
    }
    bytes.truncate(LONGEST);
    if reader.name == "png" && rng.random_ratio(3, 4) {
        mend_png(&mut bytes);
    }
    bytes
}

/// Numbers that are often wrongly thought impossible.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    0x7F,
    0xFF,
    0x7FFF,
    0xFFFF,
    1 << 24,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    i64::MAX as u64,
    u64::MAX - 1,
    u64::MAX,
];
/// Such numbers, and other values, for text.
const WORDS: [&str; 18] = [
    "0",
    "-1",
    "1",
    "7",
    "65536",
    "4294967296",
    "9007199254740993",
    "18446744073709551615",
    "1e999",
    "1e-400",
    "0.5",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "[[[[[[[[",
    "\n",
];

/// One kind of damage in one place.
fn damage(bytes: &mut Vec<u8>, rng: &mut ChaCha8Rng) {
    if bytes.is_empty() {
        return bytes.push(rng.random());
    }
    let at = rng.random_range(0..bytes.len());
    let block = at..(at + (1 << rng.random_range(0..8))).min(bytes.len());
    match rng.random_range(0..10) {
        0 => bytes[at] ^= 1 << rng.random_range(0..8),
        1 => bytes[at] = rng.random(),
        2 | 3 => {
            let length = bytes.len() as u64;
            let some = *NUMBERS.choose(rng).expect("a number");
            let number = if rng.random_ratio(1, 4) { length + rng.random_range(0..3) - 1 } else { some };
            let width = [2, 4, 8][rng.random_range(0..3)].min(bytes.len() - at);
            let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
            let number = if rng.random() { &little[..width] } else { &big[8 - width..] };
            bytes[at..at + width].copy_from_slice(number);
        }
        4 => {
            // A number in text becomes another.
            let digit = |byte: &u8| byte.is_ascii_digit() || b".-e".contains(byte);
            let start = at + bytes[at..].iter().position(u8::is_ascii_digit).unwrap_or(0);
            let end = start + bytes[start..].iter().take_while(|byte| digit(byte)).count();
            drop(bytes.splice(start..end, WORDS.choose(rng).expect("a word").bytes()));
        }
        5 => bytes.truncate(at),
        6 => drop(bytes.drain(block)),
        7 => {
            let times = 1 << rng.random_range(0..8);
            let more = bytes[block].repeat(times);
            drop(bytes.splice(at..at, more));
        }
        8 => {
            let to = rng.random_range(0..=bytes.len() - block.len());
            bytes.copy_within(block, to);
        }
        _ => {
            let to = rng.random_range(0..bytes.len());
            for (i, j) in block.zip(to..bytes.len()) {
                bytes.swap(i, j);
            }
        }
    }
}

/// Recomputes the checksum of every PNG chunk, so that the damage gets past the checksum test.
fn mend_png(bytes: &mut [u8]) {
    let mut at = 8;
    while let Some(length) = bytes.get(at..at + 4) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        let Some(chunk) = bytes.get(at + 4..at + 8 + length) else { return };
        let mut sum = Crc::new();
        sum.update(chunk);
        let Some(place) = bytes.get_mut(at + 8 + length..at + 12 + length) else { return };
        place.copy_from_slice(&sum.sum().to_be_bytes());
        at += 12 + length;
    }
}

/// The same number gives the same damage every time, and other numbers other damage.
#[test]
fn a_number_is_a_damage() {
    let reader = Reader::find("settings").expect("a reader");
    let seeds = reader.seeds();
    let some: Vec<Vec<u8>> = (0..200).map(|number| damaged(reader, &seeds, number)).collect();
    let again: Vec<Vec<u8>> = (0..200).map(|number| damaged(reader, &seeds, number)).collect();
    assert_eq!(some, again);
    let whole = some.iter().filter(|bytes| seeds.contains(bytes)).count();
    let different: std::collections::HashSet<&Vec<u8>> = some.iter().collect();
    assert!(
        whole < 10 && different.len() > 150,
        "{whole} of 200 files are whole, {} differ",
        different.len()
    );
}
