//! Position in the order and weight of every token of an image.

use crate::model::explain::diagnostics::PlanStats;
use crate::model::explain::readout;
use crate::model::grid::Grid;
use crate::model::probe::head_output::{Form, HeadOutput, Order, Plan};

/// Position of every token, `[N]`, from 0 (first) to 1 (last), expected under a plan; `None` if there is no single order.
pub fn positions(output: &HeadOutput, stats: Option<&PlanStats>) -> Option<Vec<f64>> {
    let expected: Vec<f64> = match (&output.form, stats) {
        (_, Some(stats)) => stats.expected().to_vec(),
        (Form::Scan(directions), None) => match directions.as_slice() {
            [direction] => match &direction.order {
                Order::Permutation(order) => {
                    let mut positions = vec![0.0; order.len()];
                    order.iter().enumerate().for_each(|(k, &i)| positions[i] = k as f64);
                    positions
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

/// Weight of every token times N, `[N]`; `None` if the head has no single weight for a token.
pub(super) fn weights(output: &HeadOutput, grid: Grid) -> Option<Vec<f64>> {
    let n = grid.len() as f64;
    readout::token_weight(output).map(|weight| weight.into_iter().map(|w| w * n).collect())
}
