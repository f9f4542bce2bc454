//! Order files: one that was chosen becomes how the probe that is looked through reads, and the order that a person made
//! becomes a file.

use std::path::Path;

use super::WindowOrder;
use crate::app::jobs::ColumnId;
use crate::app::state::command::Command;
use crate::app::state::{Severity, State};
use crate::model::explain::intervention::{Intervention, InterventionError};
use crate::model::hand_order::HandOrder;
use crate::model::order_file;

/// Reads in the order of a file. One that is none, or of other images, is told, and what is shown stays.
pub fn open(path: &Path, state: &State, orders: &mut Vec<WindowOrder>) {
    let read = || -> Result<_, String> {
        let order = order_file::read(path).map_err(|error| error.to_string())?;
        let id = state.focus().ok_or("Choose a probe to look through first")?;
        let now = state.order_to_edit(id).ok_or("The probe that is looked through reads in no order")?;
        let (found, expected) = (order.tokens().len(), now.tokens().len());
        if found == expected {
            return Ok((id, order));
        }
        let error = InterventionError::OrderLength { order: order.words(), expected, found };
        Err(format!("{}: {error}", path.display()))
    };
    set(read(), orders);
}

/// Writes the order that was made; it is then known by the file.
pub fn save(path: &Path, state: &State, orders: &mut Vec<WindowOrder>) {
    let written = || -> Result<_, String> {
        let made = state.focus().and_then(|id| Some((id, state.made_order(id)?)));
        let (id, order) = made.ok_or("No order was made by hand for the probe that is looked through")?;
        order_file::write(path, order).map_err(|error| error.to_string())?;
        Ok((id, order.of_file(path)))
    };
    let written = written();
    if written.is_ok() {
        orders.push(WindowOrder::Note(Severity::Info, format!("Wrote {}", path.display())));
    }
    set(written, orders);
}

fn set(found: Result<(ColumnId, HandOrder), String>, orders: &mut Vec<WindowOrder>) {
    orders.push(match found {
        Ok((id, order)) => WindowOrder::Command(Command::SetChange(id, Intervention::Order(order))),
        Err(why) => WindowOrder::Note(Severity::Error, why),
    });
}
