//! The formats of exported files, and the extensions of their names.

use std::path::{Path, PathBuf};

listed! {
    /// A format of exported files.
    #[expect(missing_docs, reason = "the names on the screen say what each holds")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ExportFormat {
        Svg: "svg", "SVG, vectors";
        Pdf: "pdf", "PDF, vectors";
        Png: "png", "PNG, pixels";
        Gif: "gif", "GIF, the reading step by step";
        Csv: "csv", "CSV, the numbers";
        Npz: "npz", "NPZ, the numbers";
    }
}

impl ExportFormat {
    /// The formats of pictures, which every figure has.
    pub const PICTURES: [Self; 3] = [Self::Svg, Self::Pdf, Self::Png];

    /// The format of the path's extension, if it is that of one.
    pub fn of(path: &Path) -> Option<Self> {
        Self::find(&path.extension()?.to_str()?.to_ascii_lowercase())
    }

    /// The format of the path's extension, if it is that of a picture.
    pub fn of_picture(path: &Path) -> Option<Self> {
        Self::of(path).filter(|format| Self::PICTURES.contains(format))
    }

    /// Whether it holds the figure's numbers instead of its picture.
    pub fn is_numbers(self) -> bool {
        matches!(self, Self::Csv | Self::Npz)
    }

    /// Whether it is a raster image.
    pub fn has_pixels(self) -> bool {
        matches!(self, Self::Png | Self::Gif)
    }

    /// The path with its extension, in place of the path's own if it has one.
    pub fn of_file(self, path: &Path) -> PathBuf {
        let ending = self.id();
        if has_extension(path) { path.with_extension(ending) } else { path.with_added_extension(ending) }
    }
}

/// Whether the path has an extension, be it of no format: of letters alone, as what follows the dot in `lr0.1` is none.
pub fn has_extension(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ending.chars().all(|c| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_gives_way_to_that_of_a_format_and_the_end_of_a_number_does_not() {
        let pdf = |path: &str| ExportFormat::Pdf.of_file(Path::new(path)).display().to_string();
        let expected = ["a/lr0.1.pdf", "a/lr0.1.pdf", "a/b.v2.pdf", "a/plan.pdf", "a/plan.pdf", ""];
        assert_eq!(["a/lr0.1", "a/lr0.1.svg", "a/b.v2", "a/plan.SVG", "a/plan.eps", ""].map(pdf), expected);
    }
}
