//! Linear and logarithmic scales from numbers to 0 to 1, ticks on round numbers, and numbers as text.

/// A range of numbers laid over 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Smallest number.
    pub lo: f64,
    /// Largest number.
    pub hi: f64,
    /// Whether it is logarithmic; both ends are then above 0.
    pub log: bool,
}

impl Scale {
    /// Linear from `lo` to `hi` in either order; an empty range is widened, one that is not finite becomes 0 to 1.
    pub fn linear(lo: f64, hi: f64) -> Self {
        let (lo, hi) = if lo.is_finite() && hi.is_finite() { (lo.min(hi), lo.max(hi)) } else { (0.0, 1.0) };
        let (lo, hi) = if hi - lo > 1e-12 * lo.abs().max(hi.abs()).max(1e-12) {
            (lo, hi)
        } else {
            let pad = if lo == 0.0 { 1.0 } else { lo.abs() * 0.5 };
            (lo - pad, hi + pad)
        };
        Self { lo, hi, log: false }
    }

    /// Linear, widened to multiples of the step of about `ticks` ticks.
    pub fn nice(lo: f64, hi: f64, ticks: usize) -> Self {
        let raw = Self::linear(lo, hi);
        let step = round_step((raw.hi - raw.lo) / ticks.max(1) as f64);
        Self::linear((raw.lo / step + 1e-9).floor() * step, (raw.hi / step - 1e-9).ceil() * step)
    }

    /// Linear, widened by a twentieth of the range at each end that is not zero.
    pub fn padded(lo: f64, hi: f64) -> Self {
        let raw = Self::linear(lo, hi);
        let pad = (raw.hi - raw.lo) * 0.05;
        let spare = |end: f64, pad: f64| if end == 0.0 { 0.0 } else { end + pad };
        Self { lo: spare(raw.lo, -pad), hi: spare(raw.hi, pad), log: false }
    }

    /// Logarithmic from `lo` to `hi`, over at most `decades` decades below `hi`.
    pub fn log(lo: f64, hi: f64, decades: i32) -> Self {
        let hi = if hi.is_finite() && hi > 0.0 { hi } else { 1.0 };
        let floor = hi * 10f64.powi(-decades);
        let lo = if lo.is_finite() && lo > floor { lo.min(hi * 0.5) } else { floor };
        Self { lo, hi, log: true }
    }

    /// The scale with its ends exchanged.
    pub fn reversed(self) -> Self {
        Self { lo: self.hi, hi: self.lo, ..self }
    }

    /// Where `v` lies, 0 at the low end and 1 at the high; outside where `v` is outside.
    pub fn at(self, v: f64) -> f32 {
        if self.log {
            let v = v.max(f64::MIN_POSITIVE);
            ((v / self.lo).ln() / (self.hi / self.lo).ln()) as f32
        } else {
            ((v - self.lo) / (self.hi - self.lo)) as f32
        }
    }

    /// Round numbers inside the scale, about `n` at most.
    pub fn ticks(self, n: usize) -> Vec<f64> {
        let n = n.max(1);
        if !self.log {
            let (lo, hi) = (self.lo.min(self.hi), self.lo.max(self.hi));
            let within = |step: f64| (lo / step - 1e-6).ceil() as i64..=(hi / step + 1e-6).floor() as i64;
            // Between two multiples of a step that is longer than the scale lies one of half of it.
            let step = round_step((hi - lo) / n as f64);
            let step = if within(step).is_empty() { round_step(step / 2.0) } else { step };
            return within(step).take(64).map(|i| i as f64 * step).collect();
        }
        let (first, last) = (self.lo.log10().floor() as i32, self.hi.log10().ceil() as i32);
        let inside = |v: &f64| *v >= self.lo * 0.999 && *v <= self.hi * 1.001;
        let decades = (first..=last).filter(|e| inside(&10f64.powi(*e))).count();
        let stride = decades.div_ceil(n).max(1);
        let factors: &[f64] = if decades <= 2 && n > 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let whole = (first..=last).rev().step_by(stride);
        let mut ticks: Vec<f64> =
            whole.flat_map(|e| factors.iter().map(move |f| f * 10f64.powi(e))).filter(inside).collect();
        ticks.sort_by(f64::total_cmp);
        // Between two neighbours of 1, 2, 5 and 10, the numbers are those of a linear scale, which over decades may have a 0.
        if decades < 2 && ticks.len() < n.min(2) { Self { log: false, ..self }.ticks(n) } else { ticks }
    }

    /// The numbers of `ticks` as text, with as many digits as it takes to tell each from its neighbours.
    pub fn labels(self, ticks: &[f64]) -> Vec<String> {
        let all = |text: &dyn Fn(f64) -> String| ticks.iter().map(|&v| text(v)).collect::<Vec<_>>();
        if self.log {
            return all(&number);
        }
        let largest = ticks.iter().fold(0.0f64, |a, v| a.max(v.abs()));
        let step = if ticks.len() > 1 { ticks[1] - ticks[0] } else { largest };
        if largest >= 1e5 || (largest > 0.0 && largest < 1e-2) {
            let is_exact = |texts: &Vec<String>| {
                texts.iter().zip(ticks).all(|(text, v)| {
                    text.replace('−', "-").parse::<f64>().is_ok_and(|read| (read - v).abs() <= 0.01 * step)
                })
            };
            let plain = (0..10).filter(|_| largest < 1e7).map(|d| all(&|v| minus(format!("{v:.d$}"))));
            let scientific = (1..16).map(|d| all(&|v| minus(format!("{v:.d$e}"))));
            let mut texts = std::iter::once(all(&number)).chain(plain).chain(scientific);
            return texts.find(is_exact).unwrap_or_else(|| all(&number));
        }
        let whole = |d: &usize| {
            let scaled = step * 10f64.powi(*d as i32);
            (scaled - scaled.round()).abs() <= 1e-6 * scaled // also of a lone tick at 0
        };
        let decimals = (0..6).find(whole).unwrap_or(6);
        ticks.iter().map(|v| minus(format!("{v:.decimals$}"))).collect()
    }
}

/// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `raw`.
fn round_step(raw: f64) -> f64 {
    let raw = if raw.is_finite() && raw > 0.0 { raw } else { 1.0 };
    let power = 10f64.powf(raw.log10().floor());
    let part = raw / power;
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|f| *f >= part - 1e-9).unwrap_or(10.0);
    factor * power
}

/// A number as text: three significant digits, scientific outside 0.001 to 99,999; a dash if it is not finite.
pub fn number(v: f64) -> String {
    if !v.is_finite() {
        return "–".to_owned();
    }
    if v == 0.0 {
        return "0".to_owned();
    }
    let size = v.abs();
    if !(1e-3..1e5).contains(&size) {
        let text = format!("{v:.1e}").replace(".0e", "e");
        return minus(text);
    }
    let text = number_like(v, v);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `v` with as many decimals as [`number`] gives `like`, so that numbers in a row line up; as [`number`]
/// where `like` would be scientific.
pub fn number_like(v: f64, like: f64) -> String {
    let size = like.abs();
    if !v.is_finite() || !(1e-3..1e5).contains(&size) {
        return number(v);
    }
    let decimals = (2 - size.log10().floor() as i32).max(0) as usize;
    minus(format!("{v:.decimals$}"))
}

/// Replaces hyphens by minus signs, and negative zero by zero.
pub fn minus(text: String) -> String {
    let zero = text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.');
    if zero { text.trim_start_matches('-').to_owned() } else { text.replace('-', "−") }
}

/// Smallest and largest finite number; `None` where there is none.
pub fn extent(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().filter(|v| v.is_finite()).fold(None, |seen, v| match seen {
        None => Some((v, v)),
        Some((lo, hi)) => Some((f64::min(lo, v), f64::max(hi, v))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = Scale::linear(0.0, 195.0);
        assert_eq!(scale.ticks(5), vec![0.0, 50.0, 100.0, 150.0]);
        assert_eq!(scale.labels(&scale.ticks(5)), ["0", "50", "100", "150"]);
        for (lo, hi, labels) in [
            (-0.31, 0.22, "−0.2 0.0 0.2"),
            (0.0, 1.0, "0.00 0.25 0.50 0.75 1.00"),
            (0.0, 9.5, "0.0 2.5 5.0 7.5"),
        ] {
            let scale = Scale::linear(lo, hi);
            assert_eq!(scale.labels(&scale.ticks(4)).join(" "), labels);
        }
        assert_eq!(scale.labels(&[0.0]), ["0"]);
    }

    #[test]
    fn labels_of_small_and_large_numbers_tell_neighbours_apart() {
        for (lo, hi, labels) in [
            (0.0, 0.0079, "0 0.002 0.004 0.006"),
            (0.0051, 0.0051021, "0.0051000 0.0051005 0.0051010 0.0051015 0.0051020"),
            (0.0, 125_000.0, "0 25000 50000 75000 100000 125000"),
            (123_456.0, 123_504.0, "123460 123470 123480 123490 123500"),
            (-5.1e-6, 0.0, "−4e−6 −2e−6 0"),
            (3.1e8, 3.2e8, "3.10e8 3.12e8 3.14e8 3.16e8 3.18e8 3.20e8"),
        ] {
            let scale = Scale::linear(lo, hi);
            assert_eq!(scale.labels(&scale.ticks(5)).join(" "), labels);
        }
    }

    #[test]
    fn log_ticks_are_decades() {
        let scale = Scale::log(1e-6, 0.05, 6);
        let ticks = scale.ticks(4);
        assert!(ticks.iter().all(|v| (v.log10() - v.log10().round()).abs() < 1e-9), "{ticks:?}");
        assert!(ticks.len() >= 2 && ticks.len() <= 5, "{ticks:?}");
        assert_eq!(Scale::log(0.1, 1.0, 4).labels(&[0.1, 1e-4]), ["0.1", "1e−4"]);
        // None of 0.5, 1 and 2 lies between.
        let narrow = Scale::log(0.54, 0.97, 6);
        assert_eq!(narrow.labels(&narrow.ticks(4)), ["0.6", "0.8"]);
        // Of seven decades two ticks are too many: the only one is no 0, which lies far outside.
        for scale in [Scale::log(3e-6, 30.0, 12), Scale::log(0.05, 70.0, 12), narrow] {
            for ticks in (1..5).map(|n| scale.ticks(n)) {
                let inside = |v: &f64| (-0.01..=1.01).contains(&scale.at(*v));
                assert!(!ticks.is_empty() && ticks.iter().all(inside), "{scale:?}: {ticks:?}");
            }
        }
    }

    #[test]
    fn empty_and_broken_ranges_still_scale() {
        let logs = [Scale::log(0.0, 0.0, 4), Scale::log(1.0, 1.0, 4)];
        for scale in [Scale::linear(2.0, 2.0), Scale::linear(f64::NAN, 1.0)].into_iter().chain(logs) {
            assert!(scale.at(0.5).is_finite());
            assert!(!scale.ticks(4).is_empty(), "{scale:?}");
        }
        assert!(Scale::nice(0.0, 0.93, 4).hi >= 0.93);
    }

    #[test]
    fn numbers_read_as_a_person_writes_them() {
        let numbers = [0.8765, 12.0, -3.5, 2.0e-5, 120.0, f64::NAN];
        assert_eq!(numbers.map(number), ["0.876", "12", "−3.5", "2e−5", "120", "–"]);
    }
}
