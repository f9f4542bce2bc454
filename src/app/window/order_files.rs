//! Order files: makes the focused probe read in the order of a file, and writes the order that a person made by hand. Both go
//! to the disk on another thread.

use std::path::{Path, PathBuf};

use eframe::egui::Context;

use super::background::Outcome;
use super::{MainWindow, WindowOrder};
use crate::app::jobs::ColumnId;
use crate::app::state::command::Command;
use crate::app::state::{Severity, State};
use crate::model::explain::intervention::Intervention;
use crate::model::hand_order::HandOrder;
use crate::model::order_file;

impl MainWindow {
    /// Reads an order file for the focused column; a note where no thread can be started.
    pub(super) fn open_order(&mut self, ctx: &Context, path: PathBuf, state: &State) {
        let id = state.focus();
        let work = move || match order_file::read(&path) {
            Ok(order) => Outcome::OrderRead(id, path, order),
            Err(error) => Outcome::Failed(error.to_string()),
        };
        self.spawn(ctx, "open the order", work);
    }

    /// Writes the focused column's order, if it has one; a note where no thread can be started.
    pub(super) fn save_order(&mut self, ctx: &Context, path: PathBuf, state: &State) {
        let made = state.focus().and_then(|id| Some((id, state.made_order(id)?.clone())));
        let Some((id, order)) = made else { return };
        let work = move || match order_file::write(&path, &order) {
            Ok(()) => Outcome::OrderWritten(id, path, order),
            Err(error) => Outcome::Failed(error.to_string()),
        };
        self.spawn(ctx, "save the order", work);
    }

    /// Makes a column read in the order of a file; one that does not fit is noted and changes nothing.
    pub(super) fn order_read(&mut self, id: Option<ColumnId>, path: &Path, order: HandOrder, state: &State) {
        match state.read_in(id, order) {
            Ok(command) => self.send(command),
            Err(why) => self.note(Severity::Error, format!("{}: {why}", path.display())),
        }
    }

    /// Notes that an order was written, and names the column after the file unless its order was changed meanwhile.
    pub(super) fn order_written(&mut self, id: ColumnId, path: &Path, order: &HandOrder, state: &State) {
        self.orders.push(WindowOrder::Wrote(path.to_owned()));
        if state.made_order(id) == Some(order) {
            self.send(Command::SetIntervention(id, Intervention::Order(order.of_file(path))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_order_is_told_and_nothing_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (mut window, state, ctx) = (MainWindow::default(), State::default(), Context::default());
        let path = folder.path().join("mine.csv");
        for (text, expected) in [
            ("0\n0\n", "mine.csv: is not an order: token 0 is read twice"),
            ("1\n0\n", "mine.csv: choose a probe"),
        ] {
            std::fs::write(&path, text).unwrap();
            window.open_order(&ctx, path.clone(), &state);
            let orders = window.next_outcome(&state);
            let [WindowOrder::Note(Severity::Error, why)] = &orders[..] else { panic!("{text}") };
            assert!(why.contains(expected), "{why}");
        }
        window.save_order(&ctx, folder.path().join("none.npz"), &state);
        assert!(window.take_orders().is_empty() && !folder.path().join("none.npz").exists());
    }
}
