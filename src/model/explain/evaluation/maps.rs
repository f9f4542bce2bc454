//! Where the tokens of an image came in the order, and what they counted.

use crate::model::explain::diagnostics::PlanStats;
use crate::model::explain::readout;
use crate::model::grid::Grid;
use crate::model::probe::head_output::{Form, HeadOutput, Order, Plan};

/// Where every token came, 0 to 1, where there is one order.
pub fn positions(output: &HeadOutput, sketch: Option<&PlanStats>) -> Option<Vec<f64>> {
    let expected: Vec<f64> = match (&output.form, sketch) {
        (_, Some(sketch)) => sketch.expected().to_vec(),
        (Form::Scan(directions), None) => match directions.as_slice() {
            [direction] => match &direction.order {
                Order::Permutation(order) => {
                    let mut at = vec![0.0; order.len()];
                    order.iter().enumerate().for_each(|(k, &i)| at[i] = k as f64);
                    at
                }
                Order::Plan(Plan { .. }) => return None,
            },
            _ => return None,
        },
        _ => return None,
    };
    let last = (expected.len().max(2) - 1) as f64;
    Some(expected.into_iter().map(|k| k / last).collect())
}

/// What every token counts, times N.
pub(super) fn weights(output: &HeadOutput, grid: Grid) -> Option<Vec<f64>> {
    let n = grid.len() as f64;
    readout::token_weight(output).map(|weight| weight.into_iter().map(|w| w * n).collect())
}
