//! Numbers in the documentation: what the bundled demo's page says is in `demo.json`; in every table a
//! column that is made of others is what they make.

use std::fs;
use std::path::Path;

use serde_json::Value;

fn text(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect(name)
}

/// A table's header and rows.
type Table = (Vec<String>, Vec<Vec<String>>);

fn tables(page: &str) -> Vec<Table> {
    let text = text(page);
    let lines: Vec<&str> = text.lines().collect();
    let cells = |line: &&str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().replace("**", "")).collect()
    };
    let blocks = lines.split(|line| !line.starts_with('|')).filter(|block| block.len() > 2);
    blocks.map(|block| (cells(&block[0]), block[2..].iter().map(cells).collect())).collect()
}

/// The first number of a cell, and half of its last digit; milliseconds as seconds.
fn number(cell: &str) -> Option<(f64, f64)> {
    let end = cell.find(|c: char| !c.is_ascii_digit() && !".+-".contains(c)).unwrap_or(cell.len());
    let (digits, rest) = cell.split_at(end);
    let unit = if rest.trim_start().starts_with("ms") { 1e-3 } else { 1.0 };
    let behind = digits.split_once('.').map_or(0, |(_, behind)| behind.len());
    Some((digits.parse::<f64>().ok()? * unit, 0.5 * 0.1_f64.powi(behind as i32) * unit))
}

/// Whether `quotient` can be `above / below`, each as far as it was rounded.
fn is_quotient(quotient: &str, above: &str, below: &str) -> bool {
    let all =
        [quotient, above, below].map(|cell| number(cell).unwrap_or_else(|| panic!("no number: {cell}")));
    let [(q, q_half), (a, a_half), (b, b_half)] = all;
    ((a - a_half) / (b + b_half) - q_half..=(a + a_half) / (b - b_half) + q_half).contains(&q)
}

/// Whether `difference` can be `minuend - subtrahend`, likewise.
fn is_difference(difference: &str, minuend: &str, subtrahend: &str) -> bool {
    let all = [difference, minuend, subtrahend]
        .map(|cell| number(cell).unwrap_or_else(|| panic!("no number: {cell}")));
    let [(d, d_half), (a, a_half), (b, b_half)] = all;
    (a - b - d).abs() <= a_half + b_half + d_half + 1e-9
}

#[test]
fn columns_made_of_others_are_what_they_make() {
    let mut checked = 0;
    let mut hold = |so: bool, page: &str, row: &[String]| {
        assert!(so, "docs/{page}: {row:?} does not add up");
        checked += 1;
    };
    for page in ["speed.md", "real-photographs.md", "scenes.md"] {
        for (header, rows) in tables(&format!("docs/{page}")) {
            let at = |name: &str| header.iter().position(|title| title == name);
            for row in &rows {
                if let (Some(ours), Some(theirs), Some(ratio)) =
                    (at("ours"), at("PyTorch"), at("PyTorch's time over ours"))
                {
                    hold(is_quotient(&row[ratio], &row[theirs], &row[ours]), page, row);
                }
                if let (Some(step), Some(ratio)) = (at("step"), at("against GAP")) {
                    let gap = rows.iter().find(|row| row[0] == "gap").expect("a row of gap");
                    let known = !row[ratio].is_empty();
                    hold(!known || is_quotient(&row[ratio], &row[step], &gap[step]), page, row);
                }
                for column in (2..row.len()).filter(|column| header[*column] == "difference") {
                    hold(is_difference(&row[column], &row[column - 2], &row[column - 1]), page, row);
                }
            }
            // Changes are from the row above that is as trained.
            if let (Some(top), Some(change)) = (at("Top-1 (%)"), at("Change (points)")) {
                let mut normal = "";
                for row in &rows {
                    if row[1] == "Normal" {
                        normal = &row[top];
                    } else {
                        hold(is_difference(&row[change], &row[top], normal), page, row);
                    }
                }
            }
        }
    }
    assert!(checked > 60, "{checked} rows");
}

#[test]
fn the_page_of_the_demo_says_what_its_json_says() {
    let demo: Value = serde_json::from_str(&text("assets/demo/demo.json")).expect("JSON");
    let page = text("assets/demo/README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let heads = |backbone: usize| demo["backbones"][backbone]["heads"].as_array().expect("heads").clone();
    let accuracy = |head: &Value| head["val"].as_f64().expect("an accuracy");
    let of = |backbone: usize, id: &str| {
        accuracy(heads(backbone).iter().find(|head| head["id"] == id).unwrap_or_else(|| panic!("no {id}")))
    };
    let others = || heads(1).into_iter().filter(|head| head["id"] != "bi-gru").map(|head| accuracy(&head));
    let (least, most) = (others().fold(100.0, f64::min), others().fold(0.0, f64::max));
    for said in [
        format!(
            "of {} scenes it never saw, the mean of the tokens tells {:.0} %, raster S4 {:.0} %, Sinkhorn S4 {:.0} %, \
             Bi-GRU {:.0} %",
            demo["scenes"]["val"],
            of(0, "gap"),
            of(0, "raster"),
            of(0, "sinkhorn"),
            of(0, "bi-gru"),
        ),
        format!("it hardly does: {least:.0} to {most:.0} %, Bi-GRU {:.0} %", of(1, "bi-gru")),
    ] {
        assert!(page.contains(&said), "assets/demo/README.md does not say: {said}");
    }
}
