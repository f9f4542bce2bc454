//! Fonts of the machine, for characters that the bundled typeface lacks, such as those of classes named in Japanese.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use resvg::usvg::fontdb::{Database, FaceInfo, Style};
use skrifa::{FontRef, MetadataProvider as _};

use crate::viz::draw::font;

/// A font of the machine.
#[derive(Clone)]
pub struct SystemFont {
    /// Its PostScript name.
    pub name: String,
    /// The bytes of its file.
    pub file: Arc<dyn AsRef<[u8]> + Send + Sync>,
    /// Its index among the fonts of the file.
    pub index: u32,
}

/// The fonts chosen so far, and for each letter asked for the index of its own, if any font has it.
#[derive(Default)]
struct Chosen {
    fonts: Vec<SystemFont>,
    of: HashMap<char, Option<usize>>,
}

/// The font of the machine in which a letter is set that the bundled typeface lacks; `None` if no font has it. The fonts are
/// searched when the first such letter is asked for.
pub fn system_font(letter: char) -> Option<SystemFont> {
    static CHOSEN: LazyLock<Mutex<Chosen>> = LazyLock::new(Mutex::default);
    let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    let Chosen { fonts, of } = &mut *chosen;
    let at = *of.entry(letter).or_insert_with(|| {
        let known = fonts.iter().position(|font| has((*font.file).as_ref(), font.index, letter));
        known.or_else(|| {
            fonts.push(find(letter)?);
            Some(fonts.len() - 1)
        })
    });
    at.map(|at| fonts[at].clone())
}

fn has(file: &[u8], index: u32, letter: char) -> bool {
    FontRef::from_index(file, index).is_ok_and(|font| font.charmap().map(letter).is_some())
}

/// Of the fonts with this letter, the one most like the typeface.
fn find(letter: char) -> Option<SystemFont> {
    static FONTS: LazyLock<Database> = LazyLock::new(|| {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        fonts
    });
    let has_letter = |face: &&FaceInfo| {
        // That font has a sign for every letter, and no letters.
        !face.post_script_name.contains("LastResort")
            && FONTS.with_face_data(face.id, |file, index| has(file, index, letter)) == Some(true)
    };
    let unlike = |face: &&FaceInfo| {
        let serif = face.families.iter().any(|(name, _)| name.contains("Serif"));
        (face.style != Style::Normal, face.monospaced, serif, face.weight.0.abs_diff(font::WEIGHT))
    };
    let face = FONTS.faces().filter(has_letter).min_by_key(unlike)?;
    let file = FONTS.with_face_data(face.id, |file, _| file.to_vec())?;
    Some(SystemFont { name: face.post_script_name.clone(), file: Arc::new(file), index: face.index })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_font_that_is_found_has_the_letter() {
        for letter in ['猫', '한', 'ק', 'ع', '\u{10fffd}'] {
            let font = system_font(letter);
            assert!(font.is_none_or(|font| has((*font.file).as_ref(), font.index, letter)), "{letter}");
        }
    }
}
