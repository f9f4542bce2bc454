//! The bounds in the table of SECURITY.md equal the constants of the code.

use std::fs;

use crate::run::root;

/// The rows of the table: what is bounded, by how much, and the file and name of the constant.
fn rows(page: &str) -> Vec<(&str, &str, &str, &str)> {
    page.lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let (what, bound, place) = (cells.next()?, cells.next()?, cells.next()?);
            let mut names = place.split('`').skip(1).step_by(2);
            Some((what, bound, names.next()?, names.next()?))
        })
        .collect()
}

/// The number at the start of a text, with its unit: `16 MiB`, `8192`, `30 s`.
fn stated(text: &str) -> u64 {
    let mut words = text.split(' ');
    let number: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    number
        << match words.next() {
            Some("KiB") => 10,
            Some("MiB") => 20,
            Some("GiB") => 30,
            _ => 0,
        }
}

/// The value of the constant `name` in a source text: a number, or a product or shift of two.
fn coded(source: &str, name: &str) -> Option<u64> {
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    let line = source.lines().find(|line| line.contains(&format!("const {name}: ")))?;
    let value = line.split_once('=')?.1.split_once(';')?.0;
    match (value.split_once("<<"), value.split_once('*')) {
        (Some((one, by)), _) => Some(number(one)? << number(by)?),
        (_, Some((a, b))) => Some(number(a)? * number(b)?),
        _ => number(value),
    }
}

#[test]
fn bounds_that_are_told_are_those_of_the_code() {
    let root = root();
    let page = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let rows = rows(&page);
    assert!(rows.len() > 20, "{} bounds are listed", rows.len());
    for (what, bound, file, name) in rows {
        let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(coded(&source, name), Some(stated(bound)), "{what}: {bound}, and {name} in {file}");
    }
}
