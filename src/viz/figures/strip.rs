//! A row of a list of diagnostics: its value, the bands it is judged by and the side of them it lies on; or what one image
//! has more or less of it than another.

use super::meanings::UNTRAINED_ALONE;
use crate::model::trace::{Diagnostic, Trace};
use crate::viz::difference;
use crate::viz::draw::{Scale, extent, number, scale::number_like};

/// Below this a number is what rounding leaves of zero: no side of a band means anything.
const ROUNDING: f64 = 1e-9;

/// One row: a diagnostic, and the range its bands lie in.
pub struct Strip {
    /// Its name.
    pub id: String,
    /// Its value, and the bands it is judged by.
    pub diagnostic: Diagnostic,
    /// Where both lie.
    pub scale: Scale,
    /// Whether it is a difference, which no band is of.
    pub is_difference: bool,
}

impl Strip {
    /// Of the diagnostic of this name, where the trace has it as a number. A difference is drawn beside zero, on a scale that
    /// holds what either of the two has.
    pub fn of(trace: &Trace, id: &str) -> Option<Self> {
        let strip = Self::new(id, trace.diagnostics.get(id)?)?;
        let Some(minus) = &trace.minus else { return Some(strip) };
        let (apart, other) = (strip.diagnostic.value, minus.diagnostics.get(id)?.value);
        let bound = [apart, other, other + apart].map(f64::abs).into_iter().fold(0.0, f64::max);
        Some(Self { scale: difference::around_zero((-bound, bound)), is_difference: true, ..strip })
    }

    /// Of a diagnostic whose value is a number.
    pub fn new(id: &str, diagnostic: &Diagnostic) -> Option<Self> {
        let value = diagnostic.value;
        if !value.is_finite() {
            return None;
        }
        let null = diagnostic.null.filter(|_| !UNTRAINED_ALONE.contains(&id));
        let diagnostic = Diagnostic { null, ..*diagnostic };
        let bands = null.into_iter().chain(diagnostic.untrained_band).flat_map(|(lo, hi)| [lo, hi]);
        let scale = match extent(bands.chain(diagnostic.untrained)) {
            Some((lo, hi)) => {
                let spare = 0.5 * (hi - lo);
                let (low, high) = (lo - spare, hi + spare);
                let beyond = 0.06 * (high.max(value) - low.min(value));
                Scale::linear(low.min(value - beyond), high.max(value + beyond))
            }
            None => Scale::linear(value.min(0.0) * 1.1, value.max(0.0) * 1.1),
        };
        Some(Self { id: id.to_owned(), diagnostic, scale, is_difference: false })
    }

    /// The band that says something of it: what chance gives, or untrained scorers where chance alone
    /// says nothing.
    pub fn band(&self) -> Option<(f64, f64)> {
        self.diagnostic.null.or(self.diagnostic.untrained_band)
    }

    /// On which side of its band it lies.
    pub fn verdict(&self) -> &'static str {
        let value = self.diagnostic.value;
        match self.band() {
            None => "",
            Some(_) if self.dust() => "",
            Some((_, hi)) if value > hi => "above",
            Some((lo, _)) if value < lo => "below",
            Some(_) => "within",
        }
    }

    /// The same with a star where its band is not the one that the head of the column names.
    pub fn starred(&self, judge: Judge) -> String {
        let verdict = self.verdict();
        if verdict.is_empty() { String::new() } else { format!("{verdict}{}", self.star(judge)) }
    }

    pub fn star(&self, judge: Judge) -> &'static str {
        let other = judge == Judge::Both && self.diagnostic.null.is_none() && self.band().is_some();
        if other { "*" } else { "" }
    }

    /// Whether it is what rounding leaves of zero, and so are its bands.
    fn dust(&self) -> bool {
        let (lo, hi) = self.band().unwrap_or_default();
        self.diagnostic.value.abs().max(lo.abs()).max(hi.abs()) < ROUNDING
    }

    pub fn value(&self) -> String {
        let text = number_like(self.diagnostic.value, self.diagnostic.value);
        if self.is_difference && self.diagnostic.value > 0.0 { format!("+{text}") } else { text }
    }

    /// What its value is called.
    pub fn value_name(&self) -> &'static str {
        if self.is_difference { "Δ value" } else { "Value" }
    }

    /// A band in numbers: with the decimals of the value, unless these would make its ends one number.
    pub fn range(&self, band: Option<(f64, f64)>) -> String {
        let Some((lo, hi)) = band else { return "–".to_owned() };
        let [mut low, mut high] = [lo, hi].map(|end| number_like(end, self.diagnostic.value));
        if low == high && lo != hi {
            [low, high] = [lo, hi].map(number);
        }
        if lo < 0.0 || hi.abs() < 1e-3 { format!("{low} to {high}") } else { format!("{low}–{high}") }
    }
}

/// Which bands the rows are judged by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Judge {
    Chance,
    Untrained,
    /// What chance gives, and in rows with a star untrained scorers.
    Both,
}

impl Judge {
    pub fn of(strips: &[Strip]) -> Self {
        let mut judged = strips.iter().filter(|strip| !strip.verdict().is_empty()).peekable();
        let any = judged.peek().is_some();
        match judged.map(|strip| strip.diagnostic.null.is_some()).collect::<Vec<bool>>() {
            by if any && !by.contains(&true) => Self::Untrained,
            by if by.contains(&false) => Self::Both,
            _ => Self::Chance,
        }
    }

    /// The head of what is above, below or within; and of a lone column of bands.
    pub fn heads(self) -> (&'static str, &'static str) {
        match self {
            Self::Chance | Self::Both => ("vs chance", "Chance"),
            Self::Untrained => ("vs untrained", "Untrained"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::diagnostics::readout;
    use super::*;

    #[test]
    fn order_against_raster_is_judged_by_untrained_scorers_alone() {
        let d = Diagnostic {
            value: 0.111,
            null: Some((-0.075, 0.079)),
            untrained: Some(0.2),
            untrained_band: Some((-0.46, 0.48)),
        };
        let tau = Strip::new("kendall_tau", &d).expect("a number");
        assert_eq!((tau.verdict(), tau.range(tau.band())), ("within", "−0.460 to 0.480".to_owned()));
        assert!(!readout(&tau).lines.iter().any(|(name, _)| name.starts_with("Chance")));
        let coverage = Strip::new("rank_coverage", &d).expect("a number");
        assert_eq!((coverage.verdict(), coverage.diagnostic.null.is_some()), ("above", true));
        let dust = Diagnostic { value: 2e-15, null: Some((1e-15, 1.5e-15)), ..d };
        let dust = Strip::new("column_marginal_error", &Diagnostic { untrained_band: None, ..dust });
        let dust = dust.expect("a number");
        assert_eq!(dust.verdict(), "", "of rounding nothing is said");
        assert_eq!(dust.range(dust.band()), "1e−15 to 1.5e−15", "the band that is drawn stands in numbers");
        let flat = Diagnostic { value: 0.02, null: Some((1e-5, 3e-5)), ..d };
        let flat = Strip::new("row_marginal_error", &flat).expect("a number");
        assert_eq!(flat.range(flat.band()), "1e−5 to 3e−5", "not 0.0000 to 0.0000");
        assert_eq!(Judge::of(&[tau]).heads().0, "vs untrained");
        assert_eq!(Judge::of(&[coverage]).heads().0, "vs chance");
    }
}
