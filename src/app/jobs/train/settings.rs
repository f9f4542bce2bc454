//! Which settings which head has: for messages and help, from the one list of heads.

use std::fmt::Write;

use crate::model::probe::head::{HEADS, HeadSpec};

/// Whether a head has the setting `key`.
pub(super) fn has(kind: &HeadSpec, key: &str) -> bool {
    kind.settings().fields().iter().any(|(name, _)| name == key)
}

/// The settings of a head in words, with their defaults.
pub(super) fn of(kind: &HeadSpec) -> String {
    let all: Vec<String> =
        kind.settings().fields().iter().map(|(name, value)| format!("{name}={value}")).collect();
    if all.is_empty() { "no settings".to_owned() } else { all.join(", ") }
}

/// Why none of the heads `ids` takes the setting `key`, and what they have.
pub(super) fn without<'a>(kinds: impl Iterator<Item = &'a HeadSpec>, key: &str) -> String {
    let all: Vec<String> = kinds.map(|kind| format!("{} has {}", kind.id, of(kind))).collect();
    match all.as_slice() {
        [one] => format!("there is no setting `{key}`: {one}"),
        all => format!("none of these heads has a setting `{key}`: {}", all.join("; ")),
    }
}

/// Every head with what it does, its settings and their defaults, a line each: for help.
pub fn listed() -> String {
    let wide = HEADS.iter().map(|kind| kind.id.len()).max().unwrap_or(0);
    let mut text = "Heads, and their settings with the defaults (for tokens of width 768):\n".to_owned();
    for kind in HEADS.iter() {
        let _ = writeln!(text, "  {:wide$}  {}; {}", kind.id, kind.summary, of(kind)); // a String takes all
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::probe::head::find;

    #[test]
    fn every_head_is_listed_with_its_settings() {
        let text = listed();
        assert_eq!(text.lines().count(), 1 + HEADS.len());
        assert!(
            text.contains("S4 behind Sinkhorn's soft sorting; temperature=0.1, iterations=20, state_dim=128")
        );
        assert!(text.contains("Mean of the patch tokens; no settings"));
        let softsort = find("softsort").unwrap();
        assert!(has(softsort, "power") && !has(find("sinkhorn").unwrap(), "power"));
        assert!(without([softsort].into_iter(), "k").contains("power=2"));
    }
}
