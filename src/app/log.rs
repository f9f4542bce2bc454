//! The last lines of what was said and done in this process: what a report of a crash ends with.

use std::collections::VecDeque;
use std::fmt::{self, Debug, Write};
use std::sync::{Mutex, TryLockError};

/// Lines that are kept.
const LINES: usize = 100;
/// Bytes of a line that are kept.
const LINE_BYTES: usize = 500;

static RECENT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Keeps a line. One that comes while another is kept on a thread that crashed is lost.
pub fn note(line: &str) {
    match RECENT.try_lock() {
        Ok(mut kept) => keep(&mut kept, line),
        Err(TryLockError::Poisoned(kept)) => keep(&mut kept.into_inner(), line),
        Err(TryLockError::WouldBlock) => {}
    }
}

/// Keeps that something was asked for, by the name of its variant alone: what a person typed stays out.
pub fn asked(what: &impl Debug) {
    note(&format!("asked: {}", variant(what)));
}

/// What is kept, the oldest first.
pub fn tail() -> Vec<String> {
    match RECENT.try_lock() {
        Ok(kept) => kept.iter().cloned().collect(),
        Err(TryLockError::Poisoned(kept)) => kept.into_inner().iter().cloned().collect(),
        Err(TryLockError::WouldBlock) => Vec::new(),
    }
}

fn keep(kept: &mut VecDeque<String>, line: &str) {
    if kept.len() == LINES {
        kept.pop_front();
    }
    kept.push_back(line[..line.floor_char_boundary(LINE_BYTES)].to_owned());
}

/// The first word of what is told of it.
fn variant(what: &impl Debug) -> String {
    struct Word(String);
    impl Write for Word {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let end = text.find(|c: char| !c.is_alphanumeric());
            self.0.push_str(&text[..end.unwrap_or(text.len())]);
            if end.is_some() { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut word = Word(String::new());
    let _ = write!(word, "{what:?}"); // it ends where the word does
    word.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_of_what_was_asked_its_name() {
        let mut kept = VecDeque::new();
        (0..200).for_each(|line| keep(&mut kept, &format!("line {line}")));
        keep(&mut kept, &"ä".repeat(1000));
        assert_eq!(
            (kept.len(), kept[0].as_str(), kept[LINES - 1].as_str()),
            (LINES, "line 101", &*"ä".repeat(250))
        );
        assert_eq!((variant(&Some("a secret")), variant(&None::<u8>)), ("Some".into(), "None".into()));
    }
}
