//! Reads removal curves from a file, which may be damaged or hand-made, and checks that they are consistent.

use super::{Curve, MAX_STEPS, Removal};

/// Largest value accepted: no logit is larger, and axes of figures cannot show more.
const MAX_VALUE: f64 = 1e100;

impl Removal {
    /// Parses the JSON of a file.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let removal: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        removal.check()?;
        Ok(removal)
    }

    /// Fails, in words, if its parts do not fit each other.
    pub fn check(&self) -> Result<(), String> {
        let (n, steps) = (self.grid.len(), self.fraction.len());
        let is_increasing = self.fraction.windows(2).all(|pair| pair[0] < pair[1]);
        if !(2..=MAX_STEPS + 1).contains(&steps)
            || !is_increasing
            || self.fraction[0] != 0.0
            || self.fraction[steps - 1] != 1.0
        {
            return Err(format!(
                "fraction has {steps} values; expected 2 to {} values rising from 0 to 1",
                MAX_STEPS + 1
            ));
        }
        if !self.seen.is_consistent() || n == 0 {
            return Err("the picture or its patch grid is incomplete".to_owned());
        }
        for (id, ranked) in &self.rankings {
            let Some(ranked) = ranked.found() else { continue };
            let mut sorted = ranked.order.clone();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..n) || ranked.values.len() != n {
                return Err(format!("the ranking {id} does not have each of {n} tokens once"));
            }
        }
        let of_steps = |values: &[f64]| values.len() == steps && values.iter().all(|x| x.abs() <= MAX_VALUE);
        let fits = |curve: &Curve| {
            of_steps(&curve.logit)
                && of_steps(&curve.probability)
                && curve.margin.as_deref().is_none_or(of_steps)
        };
        for (mode, curves) in &self.modes {
            for (id, ways) in curves.found().into_iter().flatten() {
                if !ways.iter().all(fits) || ways[0].margin.is_some() != ways[1].margin.is_some() {
                    return Err(format!(
                        "the curves {id} of {} do not have {steps} steps of numbers each",
                        mode.id()
                    ));
                }
            }
        }
        Ok(())
    }
}
