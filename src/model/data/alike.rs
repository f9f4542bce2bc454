//! Class names that look alike and are two: an accented letter as one character, as most systems write it (NFC), and as a letter
//! with marks that combine with it, as macOS does (NFD).

/// Most pairs of names that are compared, a moment's work.
const MAX_PAIRS: usize = 1 << 20;

/// A note on the first two of such names; `None` if there are none, or too many names to compare.
pub(super) fn note(classes: &[String]) -> Option<String> {
    let (apart, whole): (Vec<&String>, Vec<&String>) =
        classes.iter().filter(|name| !name.is_ascii()).partition(|name| name.contains(joins));
    if apart.len().saturating_mul(whole.len()) > MAX_PAIRS {
        return None;
    }
    let mut pairs = apart.iter().flat_map(|apart| whole.iter().map(move |whole| (whole, apart)));
    let (whole, apart) = pairs.find(|(whole, apart)| is_same(whole, apart))?;
    Some(format!(
        "two classes look alike, as one is written with combining marks: \"{}\" and \"{}\"; give both the same name",
        whole.escape_default(),
        apart.escape_default()
    ))
}

/// Whether a character joins the one before it: a combining mark, or a part of a Korean syllable.
fn joins(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{653}'..='\u{655}' | '\u{1161}'..='\u{11ff}' | '\u{3099}' | '\u{309a}')
}

/// Whether `apart` is `whole` with letters taken apart. Which letter and marks make up another one is not looked up.
fn is_same(whole: &str, apart: &str) -> bool {
    let mut apart = apart.chars().peekable();
    whole.chars().all(|letter| {
        let base = apart.next();
        let mut is_joined = false;
        while base != Some(letter) && apart.next_if(|c| joins(*c)).is_some() {
            is_joined = true;
        }
        base == Some(letter) || is_joined && !letter.is_ascii()
    }) && apart.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(classes: &[&str]) -> Option<String> {
        note(&classes.iter().map(|class| (*class).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn names_that_differ_in_how_accents_are_written_are_told() {
        let said = of(&["cat", "caf\u{e9}", "cafe\u{301}"]).expect("a note");
        assert!(said.contains(r#""caf\u{e9}" and "cafe\u{301}""#), "{said}");
        for pair in [
            ["\u{1ebf}a", "e\u{302}\u{301}a"],
            ["\u{ace0}\u{c591}", "\u{1100}\u{1169}\u{110b}\u{1163}\u{11bc}"],
        ] {
            assert!(of(&pair).is_some(), "{pair:?}");
        }
        for pair in [
            ["cafe", "caf\u{e9}"],
            ["cafe", "cafe\u{301}"],
            ["b\u{e9}", "cafe\u{301}"],
            ["b\u{e9}te", "be\u{301}s"],
            ["\u{e9}a", "e\u{301}o\u{308}"],
        ] {
            assert_eq!(of(&pair), None, "{pair:?}");
        }
    }
}
