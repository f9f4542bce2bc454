//! A row of a list of diagnostics: its value, its null bands and whether it lies above, below or within them; or the
//! difference of its values in two traces.

use super::meanings::UNTRAINED_ALONE;
use crate::model::trace::{Diagnostic, Trace};
use crate::viz::difference::{around_zero, with_plus};
use crate::viz::draw::{Scale, extent, number, scale::number_like};

/// Values and bands smaller than this are rounding errors around zero, about which no verdict is given.
const ROUNDING: f64 = 1e-9;

/// One row: a diagnostic, and the scale on which it is drawn.
pub struct Strip {
    /// Its name.
    pub id: String,
    /// Its value and its null bands.
    pub diagnostic: Diagnostic,
    /// A scale that contains value and bands.
    pub scale: Scale,
    /// Whether it is a difference, which has no bands.
    pub is_difference: bool,
}

impl Strip {
    /// The row of diagnostic `id`; `None` where the trace lacks it or its value is not finite. The scale of a difference is
    /// symmetric around zero and contains it and the values of both traces.
    pub fn from_trace(trace: &Trace, id: &str) -> Option<Self> {
        let strip = Self::new(id, trace.diagnostics.get(id)?)?;
        let Some(minus) = &trace.minus else { return Some(strip) };
        let (difference, other) = (strip.diagnostic.value, minus.diagnostics.get(id)?.value);
        let bound = [difference, other, other + difference].map(f64::abs).into_iter().fold(0.0, f64::max);
        Some(Self { scale: around_zero((-bound, bound)), is_difference: true, ..strip })
    }

    /// The row of a diagnostic; `None` where its value is not finite.
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
                let pad = 0.5 * (hi - lo);
                let (low, high) = (lo - pad, hi + pad);
                let value_pad = 0.06 * (high.max(value) - low.min(value));
                Scale::linear(low.min(value - value_pad), high.max(value + value_pad))
            }
            None => Scale::linear(value.min(0.0) * 1.1, value.max(0.0) * 1.1),
        };
        Some(Self { id: id.to_owned(), diagnostic, scale, is_difference: false })
    }

    /// The band that its verdict is about: that of chance, or where there is none that of untrained
    /// scorers.
    pub fn band(&self) -> Option<(f64, f64)> {
        self.diagnostic.null.or(self.diagnostic.untrained_band)
    }

    /// `above`, `below` or `within` its band; empty without a band, and for rounding errors.
    pub fn verdict(&self) -> &'static str {
        let value = self.diagnostic.value;
        match self.band() {
            None => "",
            Some(_) if self.is_rounding_error() => "",
            Some((_, hi)) if value > hi => "above",
            Some((lo, _)) if value < lo => "below",
            Some(_) => "within",
        }
    }

    /// The verdict, with a star where its band is not the one that the column heading names.
    pub fn starred(&self, against: VerdictBand) -> String {
        let verdict = self.verdict();
        if verdict.is_empty() { String::new() } else { format!("{verdict}{}", self.star(against)) }
    }

    /// The star of a row that is judged by untrained scorers in a column about chance; else empty.
    pub fn star(&self, against: VerdictBand) -> &'static str {
        let other = against == VerdictBand::Both && self.diagnostic.null.is_none() && self.band().is_some();
        if other { "*" } else { "" }
    }

    /// Whether its value and its band are rounding errors around zero.
    fn is_rounding_error(&self) -> bool {
        let (lo, hi) = self.band().unwrap_or_default();
        self.diagnostic.value.abs().max(lo.abs()).max(hi.abs()) < ROUNDING
    }

    pub fn value(&self) -> String {
        let text = number_like(self.diagnostic.value, self.diagnostic.value);
        if self.is_difference { with_plus(self.diagnostic.value, text) } else { text }
    }

    /// The label of its value.
    pub fn value_name(&self) -> &'static str {
        if self.is_difference { "Δ value" } else { "Value" }
    }

    /// A band as text, with as many decimals as the value. It has its own where it begins below zero, as the value may then be
    /// near zero, and where the value's would make both ends equal.
    pub fn range(&self, band: Option<(f64, f64)>) -> String {
        let Some((lo, hi)) = band else { return "–".to_owned() };
        let like = if lo < 0.0 { lo.abs().max(hi) } else { self.diagnostic.value };
        let [mut low, mut high] = [lo, hi].map(|end| number_like(end, like));
        if low == high && lo != hi {
            [low, high] = [lo, hi].map(number);
        }
        if lo < 0.0 || hi.abs() < 1e-3 { format!("{low} to {high}") } else { format!("{low}–{high}") }
    }
}

/// Which bands the verdicts of a list are about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum VerdictBand {
    Chance,
    Untrained,
    /// Those of chance, and in rows with a star those of untrained scorers.
    Both,
}

impl VerdictBand {
    pub fn from_strips(strips: &[Strip]) -> Self {
        let judged = || strips.iter().filter(|strip| !strip.verdict().is_empty());
        let by_chance = judged().any(|strip| strip.diagnostic.null.is_some());
        let by_untrained = judged().any(|strip| strip.diagnostic.null.is_none());
        match (by_chance, by_untrained) {
            (true, true) => Self::Both,
            (false, true) => Self::Untrained,
            (_, false) => Self::Chance,
        }
    }

    /// The headings of the column of verdicts, and of a single column of bands.
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
        let near = Strip::new("kendall_tau", &Diagnostic { value: 0.0351, ..d }).expect("a number");
        assert_eq!(
            (near.value(), near.range(near.band())),
            ("0.0351".to_owned(), "−0.460 to 0.480".to_owned())
        );
        assert!(!readout(&tau).lines.iter().any(|(name, _)| name.starts_with("Chance")));
        let coverage = Strip::new("rank_coverage", &d).expect("a number");
        assert_eq!((coverage.verdict(), coverage.diagnostic.null.is_some()), ("above", true));
        let tiny = Diagnostic { value: 2e-15, null: Some((1e-15, 1.5e-15)), ..d };
        let tiny = Strip::new("column_marginal_error", &Diagnostic { untrained_band: None, ..tiny });
        let tiny = tiny.expect("a number");
        assert_eq!(tiny.verdict(), "", "no verdict on rounding errors");
        assert_eq!(tiny.range(tiny.band()), "1e−15 to 1.5e−15", "the band that is drawn stands in numbers");
        let flat = Diagnostic { value: 0.02, null: Some((1e-5, 3e-5)), ..d };
        let flat = Strip::new("row_marginal_error", &flat).expect("a number");
        assert_eq!(flat.range(flat.band()), "1e−5 to 3e−5", "not 0.0000 to 0.0000");
        assert_eq!(VerdictBand::from_strips(&[tau]).heads().0, "vs untrained");
        assert_eq!(VerdictBand::from_strips(&[coverage]).heads().0, "vs chance");
    }
}
