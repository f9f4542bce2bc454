//! Text in CSV cells, guarded against spreadsheet formulas, and unique column names.

use std::borrow::Cow;

use indexmap::IndexSet;

/// `text` as the content of a cell: with an apostrophe before it if a spreadsheet would take it for a
/// formula, because it begins with `=`, `+`, `-`, `@`, a tab or a carriage return. Numbers such as `-1.5`
/// and `+2`, and `-` alone, are left as they are. Such text gets another apostrophe if it begins with some already, so that
/// removing one always restores it.
pub fn escape_formula(text: &str) -> Cow<'_, str> {
    let formula = text.trim_start_matches('\'').starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula && text != "-" && text.parse::<f64>().is_err() {
        format!("'{text}").into()
    } else {
        text.into()
    }
}

/// The names in order; a name that occurred before gets the first free number from 2 on (`name 2`).
pub fn unique_names<'a>(all: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut names: IndexSet<String> = IndexSet::new();
    for name in all {
        let numbered = (2..).map(|number| format!("{name} {number}"));
        let mut all = std::iter::once(name.to_owned()).chain(numbered);
        names.insert(all.find(|name| !names.contains(name)).expect("an endless supply of names"));
    }
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::escape_formula;

    #[test]
    fn formulas_are_guarded_and_numbers_stay_numbers() {
        for plain in ["", "cat", "a=b", "-", "-1", "-1.5e-3", "+2", "-inf", "3 - 2", "'x", "0"] {
            assert_eq!(escape_formula(plain), plain);
        }
        for formula in [
            "=1+1",
            "+1+1",
            "-1+1",
            "@SUM(A1)",
            "-x",
            "--",
            "\t=1",
            "\r=1",
            "=HYPERLINK(\"x\")",
            "'=x",
            "'-1",
        ] {
            assert_eq!(escape_formula(formula), format!("'{formula}"));
        }
    }
}
