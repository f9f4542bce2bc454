//! Catching panics of dependencies (parsers of damaged files, drivers), and shortening messages that quote a file.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longest message in bytes: a name in a file, which an error quotes, may be of any length.
const MAX_MESSAGE: usize = 4000;

thread_local! {
    /// Whether the innermost catch of this thread is [`catch_foreign`].
    static IN_FOREIGN_CODE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, a call into a dependency, in which a panic means that its input is invalid; returns the message of the
/// panic as the error. `work` must not leave state behind that is used after a panic.
pub fn catch_foreign<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch(true, work)
}

/// As [`catch_foreign`], for this program's own code: a panic is a bug, but ends only that `work`.
pub fn catch_own<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch(false, work)
}

/// Whether this thread is inside [`catch_foreign`], where a panic means invalid input.
pub fn is_in_foreign_code() -> bool {
    IN_FOREIGN_CODE.get()
}

fn catch<T>(is_foreign: bool, work: impl FnOnce() -> T) -> Result<T, String> {
    let before = IN_FOREIGN_CODE.replace(is_foreign);
    let result = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_message(&*panic));
    IN_FOREIGN_CODE.set(before);
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
    use super::{catch_foreign, cut};

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
        assert!(catch_foreign(|| [1, 2, 3][index]).unwrap_err().contains("len is 3"));
        assert_eq!(catch_foreign(|| 4), Ok(4));
    }
}
