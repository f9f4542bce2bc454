//! The one typeface of every figure: Ubuntu Light, which egui bundles, so that a window, an SVG and
//! a PDF on any machine set the same text at the same width.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use eframe::egui;
use skrifa::charmap::Charmap;
use skrifa::instance::{LocationRef, Size};
use skrifa::metrics::GlyphMetrics;
use skrifa::{FontRef, MetadataProvider as _};

/// Family name by which SVG readers find it.
pub const FAMILY: &str = "Ubuntu";
/// Weight by which SVG readers find it.
pub const WEIGHT: u16 = 300;
/// The first of the East Asian letters, which are as wide as the type size in every font.
const EAST_ASIAN: char = '\u{2e80}';
/// Most common parts that [`fit_among`] cuts out of a name.
const MAX_RUNS: usize = 16;
/// Height of a capital letter as a fraction of the type size.
pub const CAP: f32 = 0.69;

/// The bytes of the font file, loaded once and shared.
pub fn file() -> Arc<dyn AsRef<[u8]> + Send + Sync> {
    // egui's `default_fonts` feature is on in Cargo.toml, and carries this file under this name.
    static FILE: LazyLock<Arc<dyn AsRef<[u8]> + Send + Sync>> =
        LazyLock::new(|| egui::FontDefinitions::default().font_data["Ubuntu-Light"].font.clone());
    FILE.clone()
}

/// The parts of the font that measuring a line of text needs.
struct Face {
    glyphs: Charmap<'static>,
    /// Advance widths, in font units.
    metrics: GlyphMetrics<'static>,
    /// Font units per em.
    units_per_em: f32,
}

fn face() -> &'static Face {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| (*file()).as_ref().to_vec());
    static FACE: LazyLock<Face> = LazyLock::new(|| {
        let font = FontRef::new(&BYTES).expect("egui's own font file parses");
        let (size, location) = (Size::unscaled(), LocationRef::default());
        Face {
            glyphs: font.charmap(),
            metrics: font.glyph_metrics(size, location),
            units_per_em: f32::from(font.metrics(size, location).units_per_em),
        }
    });
    &FACE
}

/// Whether the typeface has a glyph for `letter`; without one, it is set in another font.
pub fn has(letter: char) -> bool {
    face().glyphs.map(letter).is_some()
}

/// Width of `text` set at `size`, in points.
pub fn width(text: &str, size: f32) -> f32 {
    let face = face();
    let advance = |c: char| match face.glyphs.map(c) {
        None if c >= EAST_ASIAN => Some(face.units_per_em),
        glyph => face.metrics.advance_width(glyph.or_else(|| face.glyphs.map('?'))?),
    };
    text.chars().map(|c| advance(c).unwrap_or(0.0) / face.units_per_em * size).sum()
}

/// Width of the widest of these texts set at `size`, in points.
pub fn widest<T: AsRef<str>>(texts: impl IntoIterator<Item = T>, size: f32) -> f32 {
    texts.into_iter().map(|text| width(text.as_ref(), size)).fold(0.0, f32::max)
}

/// `text`, truncated with an ellipsis at its end where it is wider than `room` points.
pub fn fit(text: &str, size: f32, room: f32) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = width("…", size);
    for c in text.chars() {
        used += width(c.encode_utf8(&mut [0; 4]), size);
        if used > room {
            break;
        }
        kept.push(c);
    }
    format!("{}…", kept.trim_end())
}

/// As [`fit`], for the name of an axis: its unit, in brackets at the end, goes before letters of the name do.
pub fn fit_name(text: &str, size: f32, room: f32) -> String {
    let bare = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")).map_or(text, |parts| parts.0);
    fit(if width(text, size) <= room { text } else { bare }, size, room)
}

/// As [`fit`], with the ellipsis in the middle: names of classes often differ at their end.
pub fn fit_middle(text: &str, size: f32, room: f32) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    // Letters from both ends inwards, in turn, as long as there is room.
    let inwards =
        (0..letters.len()).map(|k| if k.is_multiple_of(2) { k / 2 } else { letters.len() - 1 - k / 2 });
    let mut used = width("…", size);
    if used > room {
        return String::new();
    }
    let fitting = inwards.take_while(|at| {
        used += width(letters[*at].encode_utf8(&mut [0; 4]), size);
        used <= room
    });
    let kept = fitting.count();
    let (head, tail) = (kept.div_ceil(2), letters.len() - kept / 2);
    letters[..head].iter().chain(&['…']).chain(&letters[tail..]).collect()
}

/// The words that all of several names have, which [`fit_among`] cuts out of them first; none of a single name.
pub fn common<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let mut words = names.iter().map(|&name| pieces(name).collect::<BTreeSet<&str>>());
    let first = words.next().filter(|_| names.len() > 1).unwrap_or_default();
    words.fold(first, |common, words| &common & &words)
}

/// As [`fit`], for a name of several: the words in [`common`] give way to an ellipsis first, the longest row of them
/// before shorter ones, so that `gap[layer=4]-s0-best` and `gap[layer=9]-s1-best` keep their layer and their seed.
pub fn fit_among(text: &str, common: &BTreeSet<&str>, size: f32, room: f32) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut pieces: Vec<&str> = pieces(text).collect();
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut goes_on = false;
    for (at, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.starts_with(in_word)) {
        let is_common = common.contains(piece);
        match runs.last_mut().filter(|_| goes_on && is_common) {
            Some(run) => run.end = at + 1,
            None if is_common => runs.push(at..at + 1),
            None => {}
        }
        goes_on = is_common;
    }
    // With what stands behind them: the sign between `layer` and its number.
    let runs = runs.into_iter().map(|run| run.start..(run.end + 1).min(pieces.len()));
    let mut runs: Vec<(f32, Range<usize>)> =
        runs.map(|run| (width(&pieces[run.clone()].concat(), size), run)).collect();
    runs.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, run) in runs.into_iter().filter(|(wide, _)| *wide > width("…", size)).take(MAX_RUNS) {
        pieces[run.clone()].fill("");
        pieces[run.start] = "…";
        if width(&pieces.concat(), size) <= room {
            break;
        }
    }
    fit_middle(&pieces.concat(), size, room).replace("……", "…")
}

/// The words of a name, and what stands between them, each in a piece of its own.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split_inclusive(|c| !in_word(c));
    let parts =
        parts.flat_map(|part| <[&str; 2]>::from(part.split_at(part.trim_end_matches(|c| !in_word(c)).len())));
    parts.filter(|piece| !piece.is_empty())
}

fn in_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '.'
}

/// `text` broken into lines of at most `room` points: at spaces, a longer word after a hyphen, an underscore or a dot,
/// and a part that is longer still between two letters.
pub fn break_lines(text: &str, size: f32, room: f32) -> Vec<String> {
    let fits = |text: &str| width(text.trim_end(), size) <= room;
    let mut lines: Vec<String> = Vec::new();
    let mut put = |piece: &str| match lines.last_mut() {
        Some(line) if fits(&format!("{line}{piece}")) => line.push_str(piece),
        _ => lines.push(piece.to_owned()),
    };
    for word in text.split_inclusive(' ') {
        if fits(word) {
            put(word);
            continue;
        }
        for part in word.split_inclusive(['-', '_', '.']) {
            if fits(part) {
                put(part);
            } else {
                part.chars().for_each(|c| put(c.encode_utf8(&mut [0; 4])));
            }
        }
    }
    lines.into_iter().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_grows_with_size_and_text() {
        assert!(width("position", 7.0) > 20.0 && width("position", 7.0) < 32.0);
        assert!((width("position", 14.0) - 2.0 * width("position", 7.0)).abs() < 1e-3);
        assert_eq!(width("", 7.0), 0.0);
        assert_eq!(width("日本", 7.0), 14.0);
    }

    #[test]
    fn cut_text_fits_its_room() {
        let cut = fit("a rather long class name", 7.0, 40.0);
        assert!(cut.ends_with('…') && width(&cut, 7.0) <= 40.0, "{cut}");
        assert_eq!(fit("short", 7.0, 40.0), "short");
        let [dots, checks] = ["square-dots", "square-checks"].map(|name| fit_middle(name, 7.0, 30.0));
        assert!(dots != checks && dots.ends_with("ts") && width(&dots, 7.0) <= 30.0, "{dots} {checks}");
        let (name, begun) = ("ab".repeat(100_000), std::time::Instant::now());
        let cut = fit_middle(&name, 7.0, 40.0);
        assert!(cut.starts_with("aba") && cut.ends_with("bab") && width(&cut, 7.0) <= 40.0, "{cut}");
        assert!(begun.elapsed().as_secs() < 60, "cutting takes time squared");
        assert_eq!(fit_middle("short", 7.0, 2.0), "");
    }

    #[test]
    fn only_the_unit_at_the_end_of_a_name_is_left_out() {
        assert_eq!(fit_name("Evidence (logit)", 7.0, 40.0), "Evidence");
        let of_class = "Margin of crane (n02012849) over heron";
        assert_eq!(fit_name(of_class, 7.0, 100.0), fit(of_class, 7.0, 100.0));
    }

    #[test]
    fn of_names_what_they_have_in_common_is_cut() {
        let names = [
            "sinkhorn[layer=4]-s0-last · vit-tiny-patch16-224, layer 4",
            "sinkhorn[layer=9]-s1-last · vit-tiny-patch16-224",
        ];
        let common = common(names);
        let cut = |room: f32| names.map(|name| fit_among(name, &common, 7.0, room));
        assert_eq!(cut(130.0), ["sinkhorn[layer=4]-s0-…4", "sinkhorn[layer=9]-s1-…"]);
        for room in [60.0, 90.0] {
            let [one, other] = cut(room);
            assert!(one.contains("4]-s0-") && other.contains("9]-s1-"), "{one} {other}");
            assert!(width(&one, 7.0) <= room && width(&other, 7.0) <= room, "{one} {other}");
        }
        assert_eq!(fit_among("gap", &common, 7.0, 40.0), "gap");
        let alone = "a rather long class name";
        assert_eq!(fit_among(alone, &super::common([alone; 2]), 7.0, 40.0), fit_middle(alone, 7.0, 40.0));
        let long = "ab cd ".repeat(30_000);
        assert!(width(&fit_among(&long, &super::common([&*long, "ab"]), 7.0, 40.0), 7.0) <= 40.0);
    }

    #[test]
    fn a_long_name_is_broken_and_nothing_of_it_is_lost() {
        let name = "sinkhorn-channel-t0.05-s0-best with a counterrevolutionary order";
        let lines = break_lines(name, 7.0, 40.0);
        assert!(lines.iter().all(|line| width(line, 7.0) <= 40.0) && lines.len() > 3, "{lines:?}");
        assert_eq!(lines.concat().replace(' ', ""), name.replace(' ', ""));
        assert_eq!(break_lines("two words", 7.0, 100.0), ["two words"]);
        let lines = break_lines("a mean of the tokens reads no order", 7.0, 50.0);
        assert!(lines.len() > 1);
        assert_eq!(lines.join(" "), "a mean of the tokens reads no order");
    }
}
