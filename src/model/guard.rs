//! Panics of code that is not ours: readers of damaged files, drivers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`, which leaves nothing behind that is used after a panic; what a panic said.
pub fn guard<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| said(&*panic))
}

/// What a panic said.
pub fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it gave no reason").to_owned()
}

#[cfg(test)]
mod tests {
    use super::guard;

    #[test]
    fn a_panic_is_what_it_said() {
        let index = std::hint::black_box(7);
        assert!(guard(|| [1, 2, 3][index]).unwrap_err().contains("len is 3"));
        assert_eq!(guard(|| 4), Ok(4));
    }
}
