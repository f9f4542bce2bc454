//! Orders that a trace implies: where a plan puts each token, and when a sweep reads it.

use crate::model::trace::{Matrix, Routing, Trace};

/// Expected position of every token: the trace's own values, so that the picture agrees with the diagnostics.
/// An older trace has none: then the mean column weighted by the token's row, normalised; the middle for a
/// row without mass.
pub fn expected(trace: &Trace, plan: &Matrix) -> Vec<f64> {
    if let Some(expected) = &trace.expected {
        return expected.clone();
    }
    rows(plan)
        .map(|row| {
            let mass: f64 = row.iter().map(|&p| f64::from(p)).sum();
            let moment: f64 = row.iter().enumerate().map(|(k, &p)| k as f64 * f64::from(p)).sum();
            if mass > 0.0 { moment / mass } else { (row.len() as f64 - 1.0) / 2.0 }
        })
        .collect()
}

/// Mean position of every token, in a fixed order its step; `None` where tokens are read in no order or in several.
pub fn positions(trace: &Trace) -> Option<Vec<f64>> {
    if let Routing::Plan(plan) = &trace.routing {
        return Some(expected(trace, plan));
    }
    Some(inverse(&single(trace)?).into_iter().map(|step| step as f64).collect())
}

/// The step at which an order reads each token. Skips tokens that do not exist, as the readout also shows inconsistent
/// traces.
pub fn inverse(order: &[usize]) -> Vec<usize> {
    let mut steps = vec![0; order.len()];
    for (step, &token) in order.iter().enumerate() {
        if let Some(own) = steps.get_mut(token) {
            *own = step;
        }
    }
    steps
}

/// Best position of every token: the column of its largest share, the lowest on ties.
pub fn argmax(plan: &Matrix) -> Vec<usize> {
    rows(plan)
        .map(|row| row.iter().enumerate().fold(0, |best, (k, &p)| if p > row[best] { k } else { best }))
        .collect()
}

/// The rows of a matrix.
pub fn rows(matrix: &Matrix) -> impl Iterator<Item = &[f32]> {
    matrix.data.chunks_exact(matrix.cols.max(1))
}

/// Indices of `values` from the lowest up; ties by index.
pub fn ascending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]).then(a.cmp(&b)));
    order
}

/// The token read at every step, one list for each sweep; of a plan, tokens sorted by expected position.
/// Empty for a head that reads in no order.
pub fn orders(trace: &Trace) -> Vec<Vec<usize>> {
    match &trace.routing {
        Routing::None => Vec::new(),
        Routing::Orders(orders) => orders.iter().map(|o| o.iter().map(|&i| i as usize).collect()).collect(),
        Routing::Plan(plan) => vec![ascending(&expected(trace, plan))],
    }
}

/// The token read at every step, if there are sweeps and all read in the same order.
pub fn single(trace: &Trace) -> Option<Vec<usize>> {
    let mut orders = orders(trace);
    orders.dedup();
    orders.pop().filter(|_| orders.is_empty())
}

/// The kernel of every sweep, in their order; empty for a trace without kernels.
pub fn kernels(trace: &Trace) -> impl Iterator<Item = &Matrix> {
    trace.kernel.iter().chain(&trace.other_kernels)
}

/// How much the memory of a sweep keeps of the token read `j` steps ago: `|K[j]|` (root mean square over
/// channels) divided by the largest. `None` without a kernel, and for a difference.
pub fn memory(trace: &Trace, sweep: usize) -> Option<Vec<f64>> {
    if trace.minus.is_some() {
        return None;
    }
    relative_rms(kernels(trace).nth(sweep).or(trace.kernel.as_ref()).into_iter())
}

/// As [`memory`], over all sweeps together, as evidence by position is averaged over them.
pub fn memories(trace: &Trace) -> Option<Vec<f64>> {
    if trace.minus.is_some() { None } else { relative_rms(kernels(trace)) }
}

/// Whether there are [`memories`], found without computing them.
pub fn has_memory(trace: &Trace) -> bool {
    trace.minus.is_none() && kernels(trace).any(|kernel| kernel.data.iter().any(|k| k.abs() > 0.0))
}

/// Root mean square of every kernel row, all kernels together, divided by the largest; `None` where all are zero.
fn relative_rms<'a>(kernels: impl Iterator<Item = &'a Matrix>) -> Option<Vec<f64>> {
    let mut power: Vec<f64> = Vec::new();
    for kernel in kernels {
        power.resize(kernel.rows, 0.0);
        for (sum, row) in power.iter_mut().zip(rows(kernel)) {
            *sum += row.iter().map(|&k| f64::from(k) * f64::from(k)).sum::<f64>() / row.len() as f64;
        }
    }
    let largest = power.iter().copied().fold(0.0, f64::max);
    (largest > 0.0).then(|| power.iter().map(|power| (power / largest).sqrt()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grid::Grid;

    fn trace(expected: Option<Vec<f64>>) -> Trace {
        Trace { head: "sinkhorn".into(), grid: Grid::new(1, 2), expected, ..Trace::default() }
    }

    #[test]
    fn an_order_is_inverted_whatever_it_holds() {
        assert_eq!(inverse(&[2, 0, 1]), [1, 2, 0]);
        assert_eq!(inverse(&[9, 0]), [1, 0]);
    }

    #[test]
    fn a_plan_puts_tokens_where_their_mass_is() {
        let plan = Matrix { rows: 2, cols: 2, data: vec![0.2, 0.8, 0.5, 0.5] };
        let own = expected(&trace(None), &plan);
        assert!((own[0] - 0.8).abs() < 1e-6 && (own[1] - 0.5).abs() < 1e-6);
        assert_eq!(argmax(&plan), [1, 0]);
        assert_eq!(ascending(&own), [1, 0]);
        assert_eq!(expected(&trace(Some(vec![0.25, 0.125])), &plan), [0.25, 0.125]);
    }

    #[test]
    fn a_token_without_mass_stands_in_the_middle_as_its_diagnostics_have_it() {
        let data = vec![0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        let plan = Matrix { rows: 3, cols: 3, data };
        assert_eq!(expected(&trace(None), &plan), [1.0, 0.0, 2.0]);
    }
}
