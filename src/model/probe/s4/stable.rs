//! Projects the state matrix after an optimiser step: lower triangular again, with a diagonal below 0, so that memory fades. On GPUs
//! in one launch, where tensor operations take eleven and masks from the host.

use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup.
const UNITS: usize = 256;

/// `a` `[S, S]` with zeros above the diagonal and its diagonal entries clamped to at most `max_diagonal`; not differentiable.
pub fn stable(a: Tensor<2>, max_diagonal: f32) -> Tensor<2> {
    let [states, _] = a.dims();
    if !supports(&a, UNITS, 1) {
        let diagonal = Tensor::<2>::eye(states, &a.device());
        let clamped = a.clone().clamp_max(max_diagonal) * diagonal;
        return a.tril(-1) + clamped;
    }
    let a = into_contiguous(cube(a));
    let projected = empty(&a, [states, states]);
    let (cubes, units) = threads(states * states, UNITS);
    project::launch(&a.client, cubes, units, arg(&a), arg(&projected), max_diagonal, states);
    tensor(projected)
}

/// [`stable`], one thread per entry.
#[cube(launch)]
fn project(a: &[f32], projected: &mut [f32], max_diagonal: f32, states: usize) {
    let at = ABSOLUTE_POS;
    if at < projected.len() {
        let (row, column) = (at / states, at % states);
        let mut entry = a[at];
        if row == column {
            entry = min_nan(entry, max_diagonal); // NaN stays NaN
        }
        if row < column {
            entry = 0.0;
        }
        projected[at] = entry;
    }
}

#[cfg(test)]
mod gpu_tests {
    use std::cmp::Ordering;

    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::gpus::gpus;

    #[test]
    fn the_upper_triangle_goes_and_the_diagonal_is_negative() {
        const MAX_DIAGONAL: f32 = -1e-4;
        for states in [1, 3, 37] {
            let values: Vec<f32> =
                (0..states * states).map(|at| ((at * 7919) % 101) as f32 / 50.0 - 1.0).collect();
            let kept = |(at, value): (usize, &f32)| match (at / states).cmp(&(at % states)) {
                Ordering::Less => 0.0,
                Ordering::Equal => value.min(MAX_DIAGONAL),
                Ordering::Greater => *value,
            };
            let expected: Vec<f32> = values.iter().enumerate().map(kept).collect();
            for (name, device) in gpus().chain([("cpu".to_owned(), Device::flex())]) {
                let a = Tensor::from_data(TensorData::new(values.clone(), [states, states]), &device);
                let found = stable(a, MAX_DIAGONAL).into_data().try_into_vec::<f32>().expect("float32");
                assert_eq!(found, expected, "{states} on {name}");
                let broken = Tensor::from_data(TensorData::new(vec![f32::NAN], [1, 1]), &device);
                assert!(stable(broken, MAX_DIAGONAL).into_scalar::<f32>().is_nan(), "{name}");
            }
        }
    }
}
