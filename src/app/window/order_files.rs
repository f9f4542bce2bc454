//! Order files: applies a chosen one to the focused probe, and saves the order that a person made by hand.

use std::path::Path;

use super::WindowOrder;
use crate::app::state::command::Command;
use crate::app::state::{Severity, State};
use crate::model::explain::intervention::Intervention;
use crate::model::order_file;

/// Orders the focused probe to read in the order of a file; a file that does not fit is noted and changes nothing.
pub fn open(path: &Path, state: &State, orders: &mut Vec<WindowOrder>) {
    let read = order_file::read(path).map_err(|error| error.to_string());
    let found =
        read.and_then(|order| state.read_in(order).map_err(|why| format!("{}: {why}", path.display())));
    orders.push(found.map_or_else(|why| WindowOrder::Note(Severity::Error, why), WindowOrder::Command));
}

/// Writes the focused column's order; the column is then named after the file.
pub fn save(path: &Path, state: &State, orders: &mut Vec<WindowOrder>) {
    let Some((id, order)) = state.focus().and_then(|id| Some((id, state.made_order(id)?))) else { return };
    if let Err(error) = order_file::write(path, order) {
        return orders.push(WindowOrder::Note(Severity::Error, error.to_string()));
    }
    let named = Command::SetChange(id, Intervention::Order(order.of_file(path)));
    orders.push(WindowOrder::Note(Severity::Info, format!("Wrote {}", path.display())));
    orders.push(WindowOrder::Command(named));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_order_is_told_and_nothing_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (state, mut orders) = (State::default(), Vec::new());
        let path = folder.path().join("mine.csv");
        for (text, expected) in [
            ("0\n0\n", "mine.csv: is not an order: token 0 is read twice"),
            ("1\n0\n", "mine.csv: choose a probe"),
        ] {
            std::fs::write(&path, text).unwrap();
            open(&path, &state, &mut orders);
            let Some(WindowOrder::Note(Severity::Error, why)) = orders.pop() else { panic!("{text}") };
            assert!(why.contains(expected) && orders.is_empty(), "{why}");
        }
        save(&folder.path().join("none.npz"), &state, &mut orders);
        assert!(orders.is_empty() && !folder.path().join("none.npz").exists());
    }
}
