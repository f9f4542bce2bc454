//! Hardens a soft plan greedily: every token at one position, every position once.
//!
//! Repeatedly takes the largest share among the remaining tokens and positions, assigns that token to that position and
//! removes both. Ties go to the lower token, then to the lower position. If no two tokens have the same best position,
//! this is the argmax.

use crate::model::probe::head_output::Plan;

/// The hardened plan, of zeros and ones.
pub fn harden(plan: &Plan) -> Plan {
    let n = plan.n;
    let (mut taken, mut share) = (vec![false; n], vec![0.0; n * n]);
    // The largest share of a token among the positions not taken, the first of equals.
    let best = |token: usize, taken: &[bool]| {
        let left = plan.row(token).iter().copied().zip(0..).filter(|(_, position)| !taken[*position]);
        let larger = |next: &(f64, usize), best: &(f64, usize)| next.0.total_cmp(&best.0).is_gt();
        left.reduce(|best, next| if larger(&next, &best) { next } else { best })
            .expect("as many positions are left as tokens")
    };
    let mut left: Vec<(usize, (f64, usize))> = (0..n).map(|token| (token, best(token, &taken))).collect();
    while !left.is_empty() {
        let first = (1..left.len())
            .fold(0, |first, at| if left[at].1.0.total_cmp(&left[first].1.0).is_gt() { at } else { first });
        let (token, (_, position)) = left[first];
        if taken[position] {
            left[first].1 = best(token, &taken); // not larger than before: another token may come first now
        } else {
            (taken[position], share[token * n + position]) = (true, 1.0);
            left.remove(first);
        }
    }
    Plan { n, share }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by a full search for the largest remaining share at every step.
    fn brute_force(plan: &Plan) -> Vec<f64> {
        let n = plan.n;
        let (mut tokens, mut positions): (Vec<usize>, Vec<usize>) = ((0..n).collect(), (0..n).collect());
        let mut share = vec![0.0; n * n];
        while !tokens.is_empty() {
            let mut best = (tokens[0], positions[0]);
            for &i in &tokens {
                for &k in &positions {
                    if plan.row(i)[k] > plan.row(best.0)[best.1] {
                        best = (i, k);
                    }
                }
            }
            share[best.0 * n + best.1] = 1.0;
            tokens.retain(|i| *i != best.0);
            positions.retain(|k| *k != best.1);
        }
        share
    }

    #[test]
    fn the_largest_share_that_is_left_decides() {
        for n in 1..=9 {
            for seed in 0..60 {
                // Few distinct values make many ties.
                let distinct = if seed % 2 == 0 { 5 } else { 1013 };
                let share =
                    (0..n * n).map(|at| ((at + 1) * (seed * 2 + 7919) % 1013 % distinct) as f64).collect();
                let plan = Plan { n, share };
                assert_eq!(harden(&plan).share, brute_force(&plan), "{n} tokens, plan {seed}");
            }
        }
    }
}
