//! One fuzz target for every reader of `tests/suite/readers.rs`: SSMPROBE_FUZZ names the reader, SSMPROBE_ROOM an empty
//! folder for it to work in, SSMPROBE_SEEDS the folder to write its undamaged files to.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[path = "../tests/suite/readers.rs"]
mod readers;

use readers::{Reader, Room};

/// The fuzzed reader and its working folder.
static TARGET: LazyLock<(&Reader, Room)> = LazyLock::new(|| {
    let reader = Reader::find(&variable("SSMPROBE_FUZZ")).expect("a name of READERS");
    (reader, reader.room(&PathBuf::from(variable("SSMPROBE_ROOM"))))
});

/// The value of an environment variable that `scripts/fuzz` sets.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("{name}: {error}; use scripts/fuzz"))
}

/// Writes the seed files before the first run.
fn begin() {
    // libFuzzer's hook aborts on any panic. Without it, one that a reader catches is no failure; one that escapes still
    // ends the target.
    let _ = std::panic::take_hook();
    let folder = PathBuf::from(variable("SSMPROBE_SEEDS"));
    for (number, seed) in TARGET.0.seeds().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed).expect("a folder for seeds");
    }
}

fuzz_target!(init: begin(), |bytes: &[u8]| {
    let (reader, room) = &*TARGET;
    room.put(bytes);
    let _ = (reader.read)(room);
});
