//! One target for every reader of `tests/suite/readers.rs`: SSMPROBE_FUZZ names the reader, SSMPROBE_ROOM
//! an empty folder for it to work in, SSMPROBE_SEEDS the folder its whole files are put into.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[path = "../tests/suite/readers.rs"]
mod readers;

use readers::{Reader, Room};

static DESK: LazyLock<(&Reader, Room)> = LazyLock::new(|| {
    let reader = Reader::find(&variable("SSMPROBE_FUZZ")).expect("a name of READERS");
    (reader, reader.room(&PathBuf::from(variable("SSMPROBE_ROOM"))))
});

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("{name}: {error}; use scripts/fuzz"))
}

fn begin() {
    // A panic that a reader catches is none; one that escapes ends the target all the same.
    let _ = std::panic::take_hook();
    let folder = PathBuf::from(variable("SSMPROBE_SEEDS"));
    for (number, seed) in DESK.0.seeds().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed).expect("a folder for seeds");
    }
}

fuzz_target!(init: begin(), |bytes: &[u8]| {
    let (reader, room) = &*DESK;
    room.put(bytes);
    let _ = (reader.read)(room);
});
