//! The last messages and requests of this process, kept in memory for crash reports.

use std::collections::VecDeque;
use std::fmt::{self, Debug, Write};
use std::sync::{Mutex, TryLockError};

const MAX_LINES: usize = 100;
/// Bytes of a line beyond which it is cut off.
const MAX_LINE_BYTES: usize = 500;

static RECENT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Adds a line. Never blocks, as it is called from the panic hook: while another thread holds the lock, the line is lost.
pub fn note(line: &str) {
    match RECENT.try_lock() {
        Ok(mut kept) => keep(&mut kept, line),
        Err(TryLockError::Poisoned(kept)) => keep(&mut kept.into_inner(), line),
        Err(TryLockError::WouldBlock) => {}
    }
}

/// Adds that something was requested, by the name of its variant alone: what the user typed stays out.
pub fn request(what: &impl Debug) {
    note(&format!("asked: {}", variant(what)));
}

/// The lines that are kept, the oldest first; empty while another thread holds the lock.
pub fn tail() -> Vec<String> {
    match RECENT.try_lock() {
        Ok(kept) => kept.iter().cloned().collect(),
        Err(TryLockError::Poisoned(kept)) => kept.into_inner().iter().cloned().collect(),
        Err(TryLockError::WouldBlock) => Vec::new(),
    }
}

/// Appends a line, cut to [`MAX_LINE_BYTES`], and drops the oldest beyond [`MAX_LINES`].
fn keep(kept: &mut VecDeque<String>, line: &str) {
    if kept.len() == MAX_LINES {
        kept.pop_front();
    }
    kept.push_back(line[..line.floor_char_boundary(MAX_LINE_BYTES)].to_owned());
}

/// The leading alphanumeric characters of a value's `Debug` text: the name of its type or variant.
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
    let _ = write!(word, "{what:?}"); // the error only ends the formatting
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
            (kept.len(), kept[0].as_str(), kept[MAX_LINES - 1].as_str()),
            (MAX_LINES, "line 101", &*"ä".repeat(250))
        );
        assert_eq!((variant(&Some("a secret")), variant(&None::<u8>)), ("Some".into(), "None".into()));
    }
}
