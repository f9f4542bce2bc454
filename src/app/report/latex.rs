//! Tables as LaTeX with the packages booktabs and graphicx, in the style of the paper.

use super::table::{Cell, Row, Table};
use crate::model::io::escape::shown;

/// Makes a table that is wider than the text as wide as it; others keep their size.
const SHRINK: &str = "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n";

/// The fewest columns of a table that is set sideways, with the package rotating: as wide as the text, it could not be read.
const SIDEWAYS: usize = 13;

/// Renders a `table` environment with caption and label, the notes below it in small print.
pub fn render(table: &Table) -> String {
    let align: String = table.columns.iter().map(|column| if column.numbers { 'c' } else { 'l' }).collect();
    let (name, place, package) = if table.columns.len() < SIDEWAYS {
        ("table", "[h]", "")
    } else {
        ("sidewaystable", "", ",rotating")
    };
    let mut text =
        format!("% \\usepackage{{booktabs,graphicx{package}}}\n\\begin{{{name}}}{place}\n\\centering\n");
    // The name of a run may hold what LaTeX would interpret; in a label nothing can be escaped.
    let label = table.id.replace(['\\', '{', '}', '%', '#', '&', '$', '~', '^'], "-");
    text.push_str(&format!("\\caption{{{}.}}\n\\label{{tab:{label}}}\n", escape(&table.title)));
    text.push_str(SHRINK);
    text.push_str(&format!("\\begin{{tabular}}{{{align}}}\n\\toprule\n"));
    text.push_str(&group_line(table));
    let headings = table.columns.iter().map(|column| escape(&column.title));
    text.push_str(&format!("{} \\\\\n\\midrule\n", headings.collect::<Vec<_>>().join(" & ")));
    for (index, row) in table.merged_rows().iter().enumerate() {
        if row.ruled && index > 0 {
            text.push_str("\\midrule\n");
        }
        text.push_str(&line(row));
    }
    text.push_str("\\bottomrule\n\\end{tabular}}\n");
    for note in &table.notes {
        text.push_str(&format!("\n\\par\\smallskip{{\\footnotesize {}}}\n", escape(note)));
    }
    text.push_str(&format!("\\end{{{name}}}\n"));
    text
}

/// The line of group headings, with a rule under each; empty if no column has a group.
fn group_line(table: &Table) -> String {
    if table.columns.iter().all(|column| column.group.is_empty()) {
        return String::new();
    }
    let (mut cells, mut rules, mut first) = (Vec::new(), Vec::new(), 1);
    for group in table.columns.chunk_by(|a, b| a.group == b.group) {
        let (name, last) = (&group[0].group, first + group.len() - 1);
        if name.is_empty() {
            cells.push(vec![""; group.len()].join(" & "));
        } else {
            cells.push(format!("\\multicolumn{{{}}}{{c}}{{{}}}", group.len(), escape(name)));
            rules.push(format!("\\cmidrule(lr){{{first}-{last}}}"));
        }
        first = last + 1;
    }
    format!("{} \\\\\n{}\n", cells.join(" & "), rules.join(" "))
}

fn line(row: &Row) -> String {
    let cells = row.cells.iter().map(|cell| match cell {
        Cell::None => "--".into(),
        Cell::Text(text) => escape(text),
        Cell::Number(number) => {
            let mut text = number.text().replace('-', "$-$").replace('<', "$<$");
            if let Some(deviation) = number.deviation_text() {
                text.push_str(&format!(" $\\pm$ {deviation}"));
            }
            if number.best { format!("\\textbf{{{text}}}") } else { text }
        }
    });
    let line = cells.collect::<Vec<_>>().join(" & ");
    // Behind `\\\\` and rules, these would begin an argument.
    let begun = if line.starts_with(['[', '*']) { "{}" } else { "" };
    format!("{begun}{line} \\\\\n")
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Backticks in pairs are code; a single one is not the quotation mark that LaTeX takes it for.
    let (mut ticks, in_pairs) = (0, text.matches('`').count() / 2 * 2);
    for c in shown(&text.replace(['\n', '\r'], " ")).chars() {
        match c {
            '\\' => out.push_str("\\textbackslash{}"),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '`' => {
                let ends = ["\\texttt{", "}"];
                out.push_str(if ticks < in_pairs { ends[ticks % 2] } else { "\\textasciigrave{}" });
                ticks += 1;
            }
            '†' => out.push_str("\\dag{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '±' => out.push_str("$\\pm$"),
            '–' => out.push_str("--"),
            '×' => out.push_str("$\\times$"),
            '<' | '>' | '|' => out.extend(['$', c, '$']),
            'Δ' => out.push_str("$\\Delta$"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::report::table::Column;

    #[test]
    fn a_table_of_many_columns_is_set_sideways() {
        let begins = |columns: usize| {
            let column = |number: usize| Column::numbers(number.to_string());
            let text = render(&Table { columns: (0..columns).map(column).collect(), ..Table::default() });
            let name = text.split_once("\\begin{").and_then(|(_, rest)| rest.split_once('}')).unwrap().0;
            assert!(text.ends_with(&format!("\\end{{{name}}}\n")));
            (name.to_owned(), text.contains("rotating"))
        };
        assert_eq!(begins(SIDEWAYS - 1), ("table".to_owned(), false));
        assert_eq!(begins(SIDEWAYS), ("sidewaystable".to_owned(), true));
    }
}
