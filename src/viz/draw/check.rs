//! Checks that a trace is consistent before it is drawn: one read from disk may hold anything.

use crate::model::trace::{Matrix, Routing, Trace};
use crate::viz::Empty;

/// Most tokens of a trace that is drawn: the plan of more would be an image of over 16 megapixels.
const MAX_TOKENS: usize = 4096;

/// Checks that a trace can be drawn: the arrays have the lengths its grid implies; the error names the first that does not.
pub fn check(trace: &Trace) -> Result<(), Empty> {
    check_within(trace, MAX_TOKENS)
}

/// [`check`], of a trace of at most `most` tokens.
pub fn check_within(trace: &Trace, most: usize) -> Result<(), Empty> {
    let grid = trace.grid;
    let n = grid.rows.checked_mul(grid.cols).filter(|n| (1..=most).contains(n)).ok_or_else(|| {
        Empty(format!(
            "The trace has a grid of {} x {}; 1 to {most} tokens can be drawn",
            grid.rows, grid.cols
        ))
    })?;
    let recreate = |what: String| Err(Empty(format!("{what}; recreate the trace")));
    let length = |name: &str, found: Option<usize>| match found {
        Some(found) if found != n => {
            recreate(format!("The trace has {found} values of {name} for {n} tokens"))
        }
        _ => Ok(()),
    };
    let evidence = &trace.evidence;
    for (name, values) in [
        ("scores", &trace.scores),
        ("token_weight", &trace.token_weight),
        ("evidence.position_raster", &evidence.position_raster),
        ("evidence.position", &evidence.position),
        ("evidence.token", &evidence.token),
        ("evidence.proxy", &evidence.proxy),
        ("evidence.proxy_raster", &evidence.proxy_raster),
    ] {
        length(name, values.as_ref().map(Vec::len))?;
    }
    for (method, found) in &trace.attributions {
        length(method.id(), found.found().map(|found| found.token.len()))?;
    }
    for cover in trace
        .regions
        .iter()
        .flat_map(|known| known.list.iter().map(|region| &region.cover).chain([&known.object]))
    {
        length("a region", Some(cover.len()))?;
    }
    length("expected", trace.expected.as_ref().map(Vec::len))?;
    for kernel in trace.kernel.iter().chain(&trace.other_kernels) {
        length("kernel", Some(kernel.rows))?;
        if kernel.cols == 0 || kernel.rows.checked_mul(kernel.cols) != Some(kernel.data.len()) {
            return recreate("The kernel of the trace does not match its stated size".to_owned());
        }
    }
    match &trace.routing {
        Routing::Plan(Matrix { rows, cols, data }) if (*rows, *cols, data.len()) != (n, n, n * n) => {
            return recreate(format!("The plan of the trace is {rows} x {cols} for {n} tokens"));
        }
        Routing::None | Routing::Plan(_) => {}
        Routing::Orders(orders) => {
            for order in orders {
                let mut seen = vec![false; n];
                let is_permutation = order.len() == n
                    && order.iter().all(|&i| {
                        seen.get_mut(i as usize).is_some_and(|seen| !std::mem::replace(seen, true))
                    });
                if !is_permutation {
                    return recreate(format!(
                        "An order of the trace does not list each of the {n} tokens once"
                    ));
                }
            }
        }
    }
    if !trace.seen.is_consistent() {
        return recreate("The picture of the trace does not match its stated size".to_owned());
    }
    Ok(())
}
