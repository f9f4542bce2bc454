//! Pasting into the window: files by their paths, and pictures, which are first written to files so that a
//! workspace can name them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use eframe::egui;
use egui::{ColorImage, Event};
use percent_encoding::percent_decode_str;

use super::MainWindow;
use super::background::Outcome;
use crate::app::paths;
use crate::app::state::command::Command;
use crate::app::state::{Severity, State};
use crate::model::io::{atomic_file, sha256};

impl MainWindow {
    /// Opens what is pasted in this frame, or sends it to the worker if that is remote; a picture is written on another thread first.
    pub(super) fn paste(&mut self, ctx: &egui::Context, state: &State) {
        let typing = ctx.egui_wants_keyboard_input();
        for event in ctx.input(|i| i.events.clone()) {
            match event {
                Event::Paste(text) if !typing => match paths(&text) {
                    paths if paths.is_empty() => {
                        let text = "Nothing was pasted: the clipboard has neither a picture nor file paths";
                        self.note(Severity::Info, text.to_owned());
                    }
                    paths if state.connection.host().is_some() => self.send_files(ctx, paths),
                    paths => self.send(Command::OpenAny(paths)),
                },
                Event::PasteImage(picture) => {
                    let work = move || match paths::pasted()
                        .context("no folder for pictures")
                        .and_then(|folder| keep(&picture, &folder))
                    {
                        Ok(path) => Outcome::Pasted(path),
                        Err(error) => Outcome::Failed(format!("Cannot paste the picture: {error:#}")),
                    };
                    self.spawn(ctx, "paste the picture", work);
                }
                _ => {}
            }
        }
    }
}

/// The files a text names by absolute paths, one per line; empty if any of them does not exist.
fn paths(text: &str) -> Vec<PathBuf> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let decoded = |address: &str| PathBuf::from(&*percent_decode_str(address).decode_utf8_lossy());
    let path = |line: &str| match line.strip_prefix("file://") {
        Some(address) if cfg!(windows) => decoded(address.trim_start_matches('/')),
        Some(address) => decoded(address),
        // Quoted by *Copy as path* of Windows.
        None => line.strip_prefix('"').and_then(|path| path.strip_suffix('"')).unwrap_or(line).into(),
    };
    let paths: Vec<PathBuf> = lines.map(path).collect();
    if paths.iter().all(|path| path.is_absolute() && path.exists()) { paths } else { Vec::new() }
}

/// Writes the picture to a file named by the hash of its content, so that the same picture is the same file; its path.
fn keep(picture: &ColorImage, folder: &Path) -> anyhow::Result<PathBuf> {
    let [width, height] = picture.size;
    let bytes: Vec<u8> = picture.pixels.iter().flat_map(egui::Color32::to_srgba_unmultiplied).collect();
    let image = image::RgbaImage::from_raw(width as u32, height as u32, bytes).context("no picture")?;
    let mut png = Vec::new();
    image.write_with_encoder(image::codecs::png::PngEncoder::new(&mut png))?;
    // Named by a hash of the PNG, not of the pixels: pictures of one colour in different sizes may have the same bytes.
    let path = folder.join(format!("pasted-{:.12}.png", sha256::of_bytes(&png)));
    atomic_file::make_folder(folder).with_context(|| format!("{}", folder.display()))?;
    atomic_file::write(&path, &png).with_context(|| format!("{}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_files_only_where_all_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let [plain, spaced] = ["a.png", "b c 9%.png"].map(|name| folder.path().join(name));
        for path in [&plain, &spaced] {
            std::fs::write(path, "").unwrap();
        }
        let at = folder.path().display();
        assert_eq!(paths(&format!("{at}/a.png\nfile://{at}/b%20c%209%.png\n")), [plain.clone(), spaced]);
        assert_eq!(paths(&format!("\"{at}/a.png\"")), [plain]);
        assert!(paths(&format!("{at}/a.png\n{at}/none.png")).is_empty());
        assert!(paths("some words").is_empty() && paths("").is_empty());
    }

    #[test]
    fn a_picture_becomes_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("deep");
        let picture = |size| ColorImage::from_rgba_unmultiplied(size, &[255, 0, 0, 255, 0, 0, 255, 255]);
        let path = keep(&picture([2, 1]), &inside).unwrap();
        assert_eq!(keep(&picture([2, 1]), &inside).unwrap(), path);
        assert_ne!(keep(&picture([1, 2]), &inside).unwrap(), path, "the same pixels in another size");
        let read = image::open(&path).unwrap().into_rgba8();
        assert_eq!(read.into_raw(), [255, 0, 0, 255, 0, 0, 255, 255]);
    }
}
