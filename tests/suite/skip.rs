//! Notes of tests that cannot run here: one line each, written past the harness, which hides what passing tests print.

use std::collections::HashSet;
use std::fmt::Display;
use std::io::Write;
use std::sync::Mutex;

/// Notes that the calling test is skipped, for a reason that no installation would remove; once, however often it asks.
pub fn because(why: impl Display) {
    static TOLD: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}", thread.name().unwrap_or("a test"));
    if TOLD.lock().expect("no panic").get_or_insert_default().insert(line.clone()) {
        writeln!(std::io::stderr(), "{line}").expect("standard error takes it");
    }
}

/// Notes that the calling test is skipped for lack of `what`, which `scripts/setup` installs: in CI it fails.
#[track_caller]
pub fn missing(what: impl Display) {
    assert!(!in_ci(), "{what}: scripts/setup installs it, and in CI no test is skipped that can run");
    because(what);
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| ci == "true")
}
