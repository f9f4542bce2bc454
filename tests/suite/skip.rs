//! What a test says that cannot run here, in one line and past the harness, which hides what passing tests print.

use std::fmt::Display;
use std::io::Write;

/// Nothing that this machine could have would let it run.
pub fn because(why: impl Display) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    writeln!(std::io::stderr(), "skipped: {name}: {why}").expect("standard error takes it");
}

/// `scripts/setup` installs what is missing: in CI a test that is skipped for it fails.
#[track_caller]
pub fn missing(what: impl Display) {
    assert!(!in_ci(), "{what}: scripts/setup installs it, and in CI no test is skipped that can run");
    because(what);
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| ci == "true")
}
