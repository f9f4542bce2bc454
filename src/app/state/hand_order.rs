//! Hand-made reading orders of columns.

use super::State;
use super::command::Command;
use crate::app::jobs::ColumnId;
use crate::model::explain::intervention::Intervention;
use crate::model::hand_order::HandOrder;
use crate::model::trace::Trace;
use crate::viz::draw::order;

impl State {
    /// The hand-made order of a column, if it has one.
    pub fn made_order(&self, id: ColumnId) -> Option<&HandOrder> {
        match &self.columns.get(&id)?.change {
            Intervention::Order(order) => Some(order),
            _ => None,
        }
    }

    /// The reading order of a column as a start for editing: of a plan the order by mean position, of several sweeps that of
    /// the first. `None` if it reads in no order.
    pub fn order_to_edit(&self, id: ColumnId) -> Option<HandOrder> {
        self.made_order(id).cloned().or_else(|| first_order(self.columns.get(&id)?.shown.trace()?))
    }

    /// The command that makes a column read in this order.
    ///
    /// # Errors
    /// If there is no column, it reads in no order, or its images have another number of tokens.
    pub fn read_in(&self, id: Option<ColumnId>, order: HandOrder) -> Result<Command, String> {
        let id = id.ok_or("choose a probe to show first")?;
        let now = self.order_to_edit(id).ok_or("the shown probe does not read in an order")?;
        let change = Intervention::Order(order);
        change.fits(now.tokens().len()).map_err(|error| error.to_string())?;
        Ok(Command::SetIntervention(id, change))
    }

    /// The command that turns the order of the focused column into a hand-made one, to be edited.
    pub(super) fn edit_order(&self) -> Option<Command> {
        let id = self.focus()?;
        Some(Command::SetIntervention(id, Intervention::Order(self.order_to_edit(id)?)))
    }
}

/// The order of a trace's first sweep.
fn first_order(trace: &Trace) -> Option<HandOrder> {
    let first = order::orders(trace).into_iter().next()?;
    HandOrder::new(first.into_iter().map(|token| token as u32).collect::<Vec<_>>()).ok()
}
