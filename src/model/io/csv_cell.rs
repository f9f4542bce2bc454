//! Words in the cells of CSV files, and names of columns.

use std::borrow::Cow;

use indexmap::IndexSet;

/// A word as it stands in a cell: one that a spreadsheet would take for a formula, because it begins
/// with `=`, `+`, `-`, `@`, a tab or a carriage return, has an apostrophe before it. A number is none
/// of those: `-1.5`, `+2` and `-` alone stand as they are.
pub fn word(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula && text != "-" && text.parse::<f64>().is_err() {
        format!("'{text}").into()
    } else {
        text.into()
    }
}

/// These names, of which one that is there already gets a number.
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
    use super::word;

    #[test]
    fn formulas_are_guarded_and_numbers_stay_numbers() {
        for plain in ["", "cat", "a=b", "-", "-1", "-1.5e-3", "+2", "-inf", "3 - 2", "'=x", "0"] {
            assert_eq!(word(plain), plain);
        }
        for formula in ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "-x", "--", "\t=1", "\r=1", "=HYPERLINK(\"x\")"] {
            assert_eq!(word(formula), format!("'{formula}"));
        }
    }
}
