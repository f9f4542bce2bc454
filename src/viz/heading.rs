//! The heading over a figure of a trace that was not read as trained, or of a difference: every export has it.

use crate::model::trace::{Reading, Trace};
use crate::viz::draw::{Anchor, Scene, Theme, font, frame::TITLE_HEIGHT, pt};
use crate::viz::file_names::{own_path, probe_name};
use crate::viz::{Empty, Size};

/// The heading of a trace: how it was read, where that is not as trained, and what it is a difference from.
pub fn of_trace(trace: &Trace) -> Option<String> {
    let read = of_reading(&trace.reading);
    let Some(minus) = &trace.minus else { return read };
    Some(of_difference(read, (&trace.image, &trace.probe), (&minus.image, &minus.probe, &minus.reading)))
}

/// The heading of a difference: `read` says how the first trace was read; then come its image and probe, and the image,
/// the probe and the reading that are subtracted.
pub fn of_difference(
    read: Option<String>,
    (own_image, own): (&str, &str),
    (image, other, reading): (&str, &str, &Reading),
) -> String {
    let path = own_path(image, std::iter::once(own_image));
    let image = if image == own_image { String::new() } else { format!(" on {path}") };
    let changes = reading.changes().map_or_else(String::new, |changes| format!(" ({changes})"));
    let [minuend, probe] = [own, other].map(|path| probe_name(path, [own, other].into_iter()));
    let difference = format!("Difference (Δ) of {minuend} from {probe}{changes}{image}");
    read.map_or_else(|| difference.clone(), |read| format!("{read}. {difference}"))
}

/// The reading in words; `None` where it is as trained.
pub fn of_reading(reading: &Reading) -> Option<String> {
    let untrained = !reading.change.is_none() || !reading.tokens.is_empty();
    let note = if untrained { ", not retrained" } else { "" };
    reading.changes().map(|changes| capitalised(&changes) + note)
}

/// `text` with its first letter in upper case.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |c| c.to_uppercase().chain(letters).collect())
}

/// `text` with its first letter in lower case: names in it keep their capitals.
pub fn uncapitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |c| c.to_lowercase().chain(letters).collect())
}

fn lines(text: Option<&str>, width: f32) -> Vec<String> {
    text.map_or_else(Vec::new, |text| font::break_lines(text, pt::LABEL, width))
}

/// Height of a heading over a picture `width` points wide, in points; 0 without one.
pub fn height(text: Option<&str>, width: f32) -> f32 {
    let count = lines(text, width).len();
    if count == 0 { 0.0 } else { count as f32 * TITLE_HEIGHT + 1.5 }
}

/// Draws the heading at the top of `size`, and below it what `draw` makes of the size that is left.
pub fn over(
    text: Option<&str>,
    theme: &Theme,
    size: Size,
    draw: impl FnOnce(Size) -> Result<Scene, Empty>,
) -> Result<Scene, Empty> {
    let Some(words) = text else { return draw(size) };
    let top = height(text, size.width);
    let below = draw(Size { height: size.height - top, ..size })?;
    let title = format!("{}: {words}", below.title);
    let mut scene = Scene::new(below.width, below.height + top, title, below.background);
    let color = theme.accent();
    for (at, text) in lines(text, size.width).into_iter().enumerate() {
        let base = at as f32 * TITLE_HEIGHT + pt::LABEL * font::CAP + 0.5;
        scene.text([0.0, base], text, pt::LABEL, color, Anchor::Start);
    }
    scene.place(below, [0.0, top], None);
    Ok(scene)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_longer_than_the_page_is_wide_is_broken() {
        let name = "a_probe_with_a_name_for_which_no_page_is_wide_enough.safetensors";
        let text = of_difference(None, ("a.png", name), ("a.png", name, &Reading::default()));
        let lines = lines(Some(&text), 100.0);
        assert!(lines.iter().all(|line| font::width(line, pt::LABEL) <= 100.0), "{lines:?}");
    }
}
