//! Tables as HTML, sortable by every column. Repeated cells of merged columns are hidden while the table is not sorted.

use super::escape;
use super::notes::inline;
use crate::app::report::table::{Cell, Column, Row, Table};

/// Renders the table with its title and notes.
pub fn html(table: &Table) -> String {
    let headings: String = table.columns.iter().map(heading).collect();
    let rows: String =
        table.rows.iter().zip(table.merged_rows()).map(|(row, merged)| line(table, row, &merged)).collect();
    let notes: String = table.notes.iter().map(|note| format!("<li>{}</li>\n", inline(note))).collect();
    let notes = if notes.is_empty() { notes } else { format!("<ul class=\"small\">\n{notes}</ul>\n") };
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table>\n<caption>{title}</caption>\n\
         <thead><tr>{headings}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n{notes}",
        title = escape(&table.title),
    )
}

fn heading(column: &Column) -> String {
    let class = if column.numbers { " class=\"number\"" } else { "" };
    format!(
        "<th scope=\"col\" aria-sort=\"none\"{class}><button type=\"button\">{}</button></th>",
        escape(&column.name())
    )
}

/// A row; `merged` is the same one, with repeated cells empty.
fn line(table: &Table, row: &Row, merged: &Row) -> String {
    let class = if row.ruled { " class=\"ruled\"" } else { "" };
    let cells = row.cells.iter().zip(&merged.cells).zip(&table.columns).map(|((cell, merged), column)| {
        let repeated = if cell == merged { "" } else { " class=\"repeated\"" };
        match cell {
            Cell::None => "<td class=\"number\">–</td>".to_owned(),
            Cell::Text(text) if column.numbers => format!("<td class=\"number\">{}</td>", escape(text)),
            Cell::Text(text) => format!("<td><span{repeated}>{}</span></td>", escape(text)),
            Cell::Number(number) => {
                let best = if number.best { " best" } else { "" };
                let spread = number.deviation_text();
                let spread = spread.map_or_else(String::new, |spread| format!(" <small>± {spread}</small>"));
                let text = escape(&number.text());
                format!("<td class=\"number{best}\" data-value=\"{}\">{text}{spread}</td>", number.value)
            }
        }
    });
    format!("<tr{class}>{}</tr>\n", cells.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::{Column, Table, html};

    #[test]
    fn code_in_notes_is_code_and_all_else_text() {
        let note = "table `cost` of <b>";
        let table = Table {
            id: "main".into(),
            title: "Main".into(),
            columns: vec![Column::words("Method")],
            rows: Vec::new(),
            notes: vec![note.into()],
        };
        assert!(html(&table).contains("<li>table <code>cost</code> of &lt;b&gt;</li>"));
    }
}
