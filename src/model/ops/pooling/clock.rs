//! Each request's share of the time of a pass: heads that train together share passes, and the cost of one must not be reported as
//! that of all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Nanoseconds, added up over all cores.
pub(super) struct Clock {
    all: AtomicU64,
    /// Those of each request's rule alone.
    rules: Vec<AtomicU64>,
}

impl Clock {
    pub fn new(requests: usize) -> Self {
        Self { all: AtomicU64::new(0), rules: (0..requests).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Runs `work` on an image and adds its time to that of all.
    pub fn image<T>(&self, work: impl FnOnce() -> T) -> T {
        timed(&self.all, work)
    }

    /// Runs the rule of the request `at`, within [`image`](Self::image), and adds its time to that of the rule.
    pub fn rule<T>(&self, at: usize, work: impl FnOnce() -> T) -> T {
        timed(&self.rules[at], work)
    }

    /// Each request's share of the time: that of its rule, and of all else as much as it has of all `pools`. They sum to 1.
    pub fn shares(&self, pools: &[usize]) -> Vec<f64> {
        let rules: Vec<f64> = self.rules.iter().map(|rule| rule.load(Ordering::Relaxed) as f64).collect();
        let of_rules: f64 = rules.iter().sum();
        let all = (self.all.load(Ordering::Relaxed) as f64).max(of_rules).max(1.0);
        let of_pool = (all - of_rules) / pools.iter().sum::<usize>().max(1) as f64;
        rules.iter().zip(pools).map(|(rule, pools)| (rule + of_pool * *pools as f64) / all).collect()
    }
}

fn timed<T>(total: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    total.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_the_time_of_its_rule_and_a_share_of_the_rest() {
        let clock = Clock { all: AtomicU64::new(100), rules: [10, 50].map(AtomicU64::new).into() };
        assert_eq!(clock.shares(&[3, 1]), [0.4, 0.6]);
        assert_eq!(Clock::new(1).shares(&[1]), [1.0], "nothing was timed");
        let clock = Clock::new(2);
        clock.image(|| clock.rule(1, || std::thread::sleep(std::time::Duration::from_millis(2))));
        let [first, second] = clock.shares(&[1, 1])[..] else { panic!("two shares") };
        assert!(first < 0.5 && second > 0.5, "{first} {second}");
    }
}
