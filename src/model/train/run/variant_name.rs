//! Names of variants: the head's, and in brackets what tells a variant from others of its head: `HEAD[FIELD=VALUE,...]`.

use std::fmt::Display;

/// The fields of a run's axes: every head may be trained at several layers and learning rates.
const AXES: [&str; 2] = ["layer", "rate"];

/// The name with these settings, pairs of field and value, after those that it has.
pub fn with_settings(name: &str, settings: impl IntoIterator<Item = (impl Display, impl Display)>) -> String {
    let pairs = settings.into_iter().map(|(field, value)| format!("{field}={value}"));
    let pairs = pairs.collect::<Vec<_>>().join(",");
    match name.strip_suffix(']') {
        _ if pairs.is_empty() => name.to_owned(),
        Some(others) => format!("{others},{pairs}]"),
        None => format!("{name}[{pairs}]"),
    }
}

/// What stands before the brackets.
pub fn head(name: &str) -> &str {
    name.split_once('[').map_or(name, |(head, _)| head)
}

/// The settings in brackets, as pairs of field and value, in their order; none of a name that is not of that form.
pub fn settings(name: &str) -> Vec<(&str, &str)> {
    let inside =
        name.strip_suffix(']').and_then(|name| name.split_once('[')).map_or("", |(_, inside)| inside);
    inside.split(',').map(|pair| pair.split_once('=')).collect::<Option<_>>().unwrap_or_default()
}

/// The [`settings`], divided into those of the head and those of the run's axes.
pub fn head_and_axes(name: &str) -> [Vec<(&str, &str)>; 2] {
    let (axes, own) = settings(name).into_iter().partition(|(field, _)| is_axis(field));
    [own, axes]
}

/// Whether a field is one of the run's axes, not of the head's settings.
pub fn is_axis(field: &str) -> bool {
    AXES.contains(&field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_was_put_into_it() {
        let (own, axes) = ([("temperature", "0.1")], [("layer", "last"), ("rate", "0.001")]);
        let name = with_settings(&with_settings("sinkhorn", own), axes);
        assert_eq!(name, "sinkhorn[temperature=0.1,layer=last,rate=0.001]");
        assert_eq!(with_settings(&name, [("", ""); 0]), name);
        assert_eq!(head(&name), "sinkhorn");
        assert_eq!(settings(&name), [("temperature", "0.1"), ("layer", "last"), ("rate", "0.001")]);
        assert_eq!(head_and_axes(&name), [own.to_vec(), axes.to_vec()]);
        for odd in ["gap", "gap[]", "gap[rate]", "gap[rate=1", "rate=1]"] {
            assert!(settings(odd).is_empty(), "{odd}");
        }
    }
}
