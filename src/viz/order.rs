//! Orders a trace implies: whom a plan puts where, whom a sweep reads when.

use crate::model::trace::{Matrix, Routing, Trace};

/// Expected position of every token: the mean column under its row, the row normalised.
pub fn expected(plan: &Matrix) -> Vec<f64> {
    rows(plan)
        .map(|row| {
            let mass: f64 = row.iter().map(|&p| f64::from(p)).sum();
            let moment: f64 = row.iter().enumerate().map(|(k, &p)| k as f64 * f64::from(p)).sum();
            if mass > 0.0 { moment / mass } else { 0.0 }
        })
        .collect()
}

/// Best position of every token; ties to the lowest.
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

/// The token read at every step, one list a sweep; a plan gives its hard order by expected
/// position. Empty for a head that reads no order.
pub fn orders(trace: &Trace) -> Vec<Vec<usize>> {
    match &trace.routing {
        Routing::None => Vec::new(),
        Routing::Orders(orders) => orders.iter().map(|o| o.iter().map(|&i| i as usize).collect()).collect(),
        Routing::Plan(plan) => vec![ascending(&expected(plan))],
    }
}

/// What the memory keeps of the position `j` steps before the end, `|K[j]|` (over channels: its
/// root mean square), divided by the largest. Absent without a kernel.
pub fn memory(trace: &Trace) -> Option<Vec<f64>> {
    let kernel = trace.kernel.as_ref()?;
    let power = |row: &[f32]| {
        let sum: f64 = row.iter().map(|&k| f64::from(k) * f64::from(k)).sum();
        (sum / row.len() as f64).sqrt()
    };
    let size: Vec<f64> = rows(kernel).map(power).collect();
    let largest = size.iter().copied().fold(0.0, f64::max);
    (largest > 0.0).then(|| size.iter().map(|s| s / largest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_puts_tokens_where_their_mass_is() {
        let plan = Matrix { rows: 2, cols: 2, data: vec![0.2, 0.8, 0.5, 0.5] };
        let expected = expected(&plan);
        assert!((expected[0] - 0.8).abs() < 1e-6 && (expected[1] - 0.5).abs() < 1e-6);
        assert_eq!(argmax(&plan), [1, 0]);
        assert_eq!(ascending(&expected), [1, 0]);
    }
}
