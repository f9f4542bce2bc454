//! Times workloads in turn, round after round: the median of each.

use std::time::Instant;

use super::{OnRun, Stopped};
use crate::model::stats::quantiles;

/// A named piece of work that is timed.
pub struct Work<'a> {
    /// Name of its figure, or of what it measures.
    pub name: String,
    /// Runs it once, to completion.
    pub run: Box<dyn FnMut() -> anyhow::Result<()> + 'a>,
}

impl<'a> Work<'a> {
    pub fn new(name: impl Into<String>, run: impl FnMut() -> anyhow::Result<()> + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Median seconds of every workload: one warm-up round, then `rounds` rounds of all of them in turn.
pub fn median_seconds(works: &mut [Work], rounds: usize, on_run: OnRun) -> anyhow::Result<Vec<f64>> {
    let mut seconds = vec![Vec::with_capacity(rounds); works.len()];
    let total = works.len() * (rounds + 1);
    let mut done = 0;
    for round in 0..=rounds {
        for (work, seconds) in works.iter_mut().zip(&mut seconds) {
            let begun = Instant::now();
            (work.run)()?;
            if round > 0 {
                seconds.push(begun.elapsed().as_secs_f64());
            }
            done += 1;
            if on_run(&work.name, done, total).is_break() {
                return Err(Stopped.into());
            }
        }
    }
    Ok(seconds.iter().map(|seconds| quantiles(seconds, [0.5])[0]).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ops::ControlFlow;

    use super::*;

    #[test]
    fn works_take_turns_and_may_be_stopped() {
        let order = RefCell::new(String::new());
        let work = |name: &'static str| {
            Work::new(name, || {
                order.borrow_mut().push_str(name);
                Ok(())
            })
        };
        let mut works = [work("a"), work("b")];
        let medians = median_seconds(&mut works, 2, &mut |_, _, _| ControlFlow::Continue(())).unwrap();
        assert_eq!((order.borrow().as_str(), medians.len()), ("ababab", 2));
        let stopped = median_seconds(&mut works, 2, &mut |_, done, _| match done {
            1 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
        assert!(stopped.unwrap_err().is::<Stopped>());
        drop(works);
        assert_eq!(order.into_inner(), "abababab");
    }
}
