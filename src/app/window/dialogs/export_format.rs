//! The formats of exported files, and the extensions of their names.

use std::path::{Path, PathBuf};

/// The animated format.
pub const GIF: &str = "gif";
/// Formats: file extension and description.
pub const FORMATS: [(&str, &str); 6] = [
    ("svg", "SVG, vectors"),
    ("pdf", "PDF, vectors"),
    ("png", "PNG, pixels"),
    (GIF, "GIF, the reading step by step"),
    ("csv", "CSV, the numbers"),
    ("npz", "NPZ, the numbers"),
];
/// The formats of pictures, which every figure has.
pub const PICTURES: [(&str, &str); 3] = [FORMATS[0], FORMATS[1], FORMATS[2]];

/// The name of what has this id in a list.
pub fn named(all: &[(&str, &'static str)], id: &str) -> &'static str {
    all.iter().find(|(known, _)| *known == id).map_or("", |(_, name)| *name)
}

/// The format of the path's extension, if it is that of one.
pub fn format_of(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?;
    FORMATS.iter().map(|(id, _)| *id).find(|id| ending.eq_ignore_ascii_case(id))
}

/// Whether the path has an extension, be it of no format: of letters alone, as what follows the dot in `lr0.1` is none.
pub fn has_extension(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ending.chars().all(|c| c.is_ascii_alphabetic()))
}

/// The path with the extension of a format, in place of its own if it has one.
pub fn in_format(path: &Path, format: &str) -> PathBuf {
    if has_extension(path) { path.with_extension(format) } else { path.with_added_extension(format) }
}

/// Whether a format holds the figure's numbers instead of its picture.
pub fn is_numbers(format: &str) -> bool {
    matches!(format, "csv" | "npz")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_gives_way_to_that_of_a_format_and_the_end_of_a_number_does_not() {
        let pdf = |path: &str| in_format(Path::new(path), "pdf").display().to_string();
        let expected = ["a/lr0.1.pdf", "a/lr0.1.pdf", "a/b.v2.pdf", "a/plan.pdf", "a/plan.pdf", ""];
        assert_eq!(["a/lr0.1", "a/lr0.1.svg", "a/b.v2", "a/plan.SVG", "a/plan.eps", ""].map(pdf), expected);
    }
}
