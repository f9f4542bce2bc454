//! Panics of code that is not ours (readers of damaged files, drivers), and messages that repeat what a file says.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longest message in bytes: what a file names, and an error repeats, may be of any length.
const MAX_MESSAGE: usize = 4000;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` of code that is not ours, whose panic is an error of what it was given. It leaves nothing behind that is used
/// after a panic; what that said.
pub fn guard<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    caught(true, work)
}

/// The same of our own work, whose panic is a fault of the program: it stops that work alone.
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    caught(false, work)
}

/// Whether a panic of this thread would be an error of what code that is not ours was given.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

fn caught<T>(guarded: bool, work: impl FnOnce() -> T) -> Result<T, String> {
    let before = GUARDED.replace(guarded);
    let result = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_message(&*panic));
    GUARDED.set(before);
    result
}

/// What a panic said.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it gave no reason").to_owned()
}

/// A message that is too long without its middle: it begins with the file and ends with what to do.
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
    fn a_panic_is_what_it_said() {
        let index = std::hint::black_box(7);
        assert!(guard(|| [1, 2, 3][index]).unwrap_err().contains("len is 3"));
        assert_eq!(guard(|| 4), Ok(4));
    }
}
