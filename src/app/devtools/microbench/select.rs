//! Which figures are wanted, by their names.

/// Patterns of names; a `*` stands for any text, slashes too. Without patterns all names match.
#[derive(Clone, Debug, Default)]
pub struct Wanted(pub Vec<String>);

impl Wanted {
    /// Whether a pattern fits `name`.
    pub fn holds(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| fits(pattern, name))
    }
}

/// Whether `pattern` fits the whole of `name`.
pub fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, name, expected) in [
            ("head/gap/step", "head/gap/step", true),
            ("head/gap", "head/gap/step", false),
            ("head/*", "head/gap/step", true),
            ("*step", "head/gap/step", true),
            ("head/*/step", "head/gap/memory", false),
            ("*sinkhorn*", "head/sinkhorn-gap/step", true),
            ("a*a", "a", false),
            ("*", "", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        assert!(Wanted::default().holds("anything"));
    }
}
