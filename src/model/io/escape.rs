//! Names as texts that do no harm. A name of a file, a folder or a class may hold control characters, which if printed would move
//! the cursor, colour the terminal or split the row of a table; as part of a file name it may have no separators either.

use std::borrow::Cow;

/// `name` with control characters, line separators and direction marks escaped as in JSON: `\n`, `\u001b`.
pub fn shown(name: &str) -> Cow<'_, str> {
    escaped(name, is_hidden)
}

/// As [`shown`], but keeps tabs.
pub fn shown_line(line: &str) -> Cow<'_, str> {
    escaped(line, |c| c != '\t' && is_hidden(c))
}

/// As [`shown`], but keeps tabs and line feeds.
pub fn shown_text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !matches!(c, '\n' | '\t') && is_hidden(c))
}

/// `text` for file names: its words joined by hyphens, where a word is letters, digits and dots.
pub fn slug(text: &str) -> String {
    let is_separator = |c: char| !c.is_alphanumeric() && c != '.';
    text.split(is_separator).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

fn escaped(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hidden) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' if hidden(c) => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' if hidden(c) => out.push_str("\\t"),
            c if hidden(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.into()
}

/// Whether a character is invisible: controls, line separators, and marks that change the direction of text.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        for plain in ["", "cat", "Übergröße 猫 🐈", "é\u{301}", "-x=@+ \\n"] {
            assert!(matches!(shown(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
        assert_eq!(shown("a\u{1b}[31mred"), "a\\u001b[31mred");
        assert_eq!(shown("two\nrows\rand\tcolumns"), "two\\nrows\\rand\\tcolumns");
        assert_eq!(shown("\u{0}\u{7f}\u{9b}31m"), "\\u0000\\u007f\\u009b31m");
        assert_eq!(shown("x\u{202e}gnp.exe\u{2028}"), "x\\u202egnp.exe\\u2028");
        assert_eq!(shown_line("two\nrows\tof\r"), "two\\nrows\tof\\r");
        assert_eq!(shown_text("two\nro\u{7}ws\tof\r\n"), "two\nro\\u0007ws\tof\\r\n");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({"a\u{9b}\n": "\u{202e}\u{7f}\u{1b}"});
        let text = value.to_string();
        assert_ne!(shown_text(&text), text, "serde_json leaves these as they are");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown_text(&text)).unwrap(), value);
    }
}
