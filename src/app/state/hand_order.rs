//! The order in which a column reads, to be changed by hand.

use super::State;
use super::command::Command;
use crate::app::jobs::ColumnId;
use crate::model::explain::intervention::{Intervention, InterventionError};
use crate::model::hand_order::HandOrder;
use crate::model::trace::Trace;
use crate::viz::draw::order;

impl State {
    /// The order a person made for a column.
    pub fn made_order(&self, id: ColumnId) -> Option<&HandOrder> {
        match &self.columns.get(&id)?.change {
            Intervention::Order(order) => Some(order),
            _ => None,
        }
    }

    /// The order in which a column reads, as one to be changed: of a plan that by mean position, of several sweeps the
    /// first one's. None where it reads in no order.
    pub fn order_to_edit(&self, id: ColumnId) -> Option<HandOrder> {
        self.made_order(id).cloned().or_else(|| read(self.columns.get(&id)?.shown.trace()?))
    }

    /// What lets the column that is looked through read in this order.
    ///
    /// # Errors
    /// Where it reads in none, or its images have other tokens.
    pub fn read_in(&self, order: HandOrder) -> Result<Command, String> {
        let id = self.focus().ok_or("choose a probe to look through first")?;
        let now = self.order_to_edit(id).ok_or("the probe that is looked through reads in no order")?;
        let (found, expected) = (order.tokens().len(), now.tokens().len());
        if found != expected {
            let order = order.words();
            return Err(InterventionError::OrderLength { order, expected, found }.to_string());
        }
        Ok(Command::SetChange(id, Intervention::Order(order)))
    }

    /// What lets the order of the column that is looked through be changed by hand, or as a file has it.
    pub(super) fn edit_order(&self) -> Option<Command> {
        let id = self.focus()?;
        Some(Command::SetChange(id, Intervention::Order(self.order_to_edit(id)?)))
    }
}

fn read(trace: &Trace) -> Option<HandOrder> {
    let first = order::orders(trace).into_iter().next()?;
    HandOrder::new(first.into_iter().map(|token| token as u32).collect::<Vec<_>>()).ok()
}
