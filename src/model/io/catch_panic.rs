//! Catching panics of dependencies (parsers of damaged files, drivers), and shortening messages that quote a file.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longest message in bytes: a name in a file, which an error quotes, may be of any length.
const MAX_MESSAGE: usize = 4000;

thread_local! {
    /// Whether the innermost catch of this thread is [`guard`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, a call into a dependency, in which a panic means that its input is invalid; returns the message of the
/// panic as the error. `work` must not leave state behind that is used after a panic.
pub fn guard<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    caught(true, work)
}

/// As [`guard`], for this program's own code: a panic is a bug, but ends only that `work`.
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    caught(false, work)
}

/// Whether this thread is inside [`guard`], where a panic means invalid input.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

fn caught<T>(guarded: bool, work: impl FnOnce() -> T) -> Result<T, String> {
    let before = GUARDED.replace(guarded);
    let result = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_message(&*panic));
    GUARDED.set(before);
    result
}

/// The message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given").to_owned()
}

/// Cuts the middle out of a message that is too long: it begins with the file and ends with the advice.
pub fn cut(text: String) -> String {
    if text.len() <= MAX_MESSAGE {
        return text;
    }
    let start = text.floor_char_boundary(MAX_MESSAGE / 2);
    let end = text.ceil_char_boundary(text.len() - MAX_MESSAGE / 2);
    format!("{} [… {} bytes …] {}", &text[..start], end - start, &text[end..])
}

#[cfg(test)]
mod tests {
    use super::{cut, guard};

    #[test]
    fn a_message_of_any_length_is_cut_in_its_middle() {
        let text = cut(format!("a.json: unknown name {}; write another", "ä".repeat(300_000)));
        assert!(text.len() < 4100 && text.starts_with("a.json: unknown name ä"), "{} bytes", text.len());
        assert!(text.contains("[… 596038 bytes …]") && text.ends_with("ä; write another"), "{text}");
        assert_eq!(cut("short".into()), "short");
    }

    #[test]
    fn a_panic_gives_its_message() {
        let index = std::hint::black_box(7);
        assert!(guard(|| [1, 2, 3][index]).unwrap_err().contains("len is 3"));
        assert_eq!(guard(|| 4), Ok(4));
    }
}
