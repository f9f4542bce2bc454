//! Names of variants: the head's, and in brackets what tells a variant from others of its head: `HEAD[FIELD=VALUE,...]`.

/// The name with these settings, `FIELD=VALUE`, after those that it has.
pub fn with_settings(name: &str, settings: &[String]) -> String {
    match name.strip_suffix(']') {
        _ if settings.is_empty() => name.to_owned(),
        Some(others) => format!("{others},{}]", settings.join(",")),
        None => format!("{name}[{}]", settings.join(",")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_was_put_into_it() {
        let [none, one, two] = [&[][..], &["temperature=0.1"], &["layer=last", "rate=0.001"]]
            .map(|settings| settings.iter().map(ToString::to_string).collect::<Vec<_>>());
        let name = with_settings(&with_settings("sinkhorn", &one), &two);
        assert_eq!(name, "sinkhorn[temperature=0.1,layer=last,rate=0.001]");
        assert_eq!(with_settings(&name, &none), name);
        assert_eq!(head(&name), "sinkhorn");
        assert_eq!(settings(&name), [("temperature", "0.1"), ("layer", "last"), ("rate", "0.001")]);
        for odd in ["gap", "gap[]", "gap[rate]", "gap[rate=1", "rate=1]"] {
            assert!(settings(odd).is_empty(), "{odd}");
        }
    }
}
