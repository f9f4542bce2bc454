//! The readout of the pointer: a token with all its numbers, or a position with the tokens that have
//! the largest shares of it.

use super::difference::{self, label, signed};
use super::draw::order::{argmax, expected, inverse, memories, orders, rows};
use super::draw::{Hover, number};
use crate::model::trace::{Routing, Trace};

/// A title, and named numbers below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readout {
    /// What the pointer is over; empty for nothing.
    pub title: String,
    /// Its values: name, and number as text.
    pub lines: Vec<(String, String)>,
    /// What they mean, in a sentence; may be empty.
    pub note: String,
}

impl Readout {
    /// A readout with this title and no lines.
    pub fn titled(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// The readout with one more line.
    pub fn line(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.lines.push((name.into(), value.into()));
        self
    }

    /// The readout with this note.
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// The readout with one more number, where there is one.
    fn number(self, name: &str, value: Option<f64>) -> Self {
        match value {
            // A difference has its sign.
            Some(value) => self.line(name, if name.starts_with('Δ') { signed(value) } else { number(value) }),
            None => self,
        }
    }

    /// Whether the pointer is over nothing.
    pub fn is_empty(&self) -> bool {
        self.title.is_empty()
    }

    /// Title and lines as one line of text.
    pub fn text(&self) -> String {
        let lines = self.lines.iter().map(|(name, value)| format!("{} {value}", name.to_lowercase()));
        std::iter::once(self.title.clone()).chain(lines).collect::<Vec<_>>().join(" · ")
    }
}

/// Most tokens that are listed for a position.
const MAX_TOKENS: usize = 3;

/// The readout of a token, of a position, or of a token and its share at a position.
pub fn readout(trace: &Trace, hover: Hover) -> Readout {
    let n = trace.grid.len();
    let token = hover.token.filter(|i| *i < n);
    match (token, hover.position.filter(|k| *k < n)) {
        (Some(i), Some(k)) => {
            let plan = difference::plan(trace);
            let share = plan.and_then(|plan| plan.data.get(i * plan.cols + k).map(|p| f64::from(*p)));
            let name_of = label(trace, &format!("Share at position {k}"));
            with_token(Readout::titled(name(trace, i)).number(&name_of, share), trace, i)
        }
        (Some(i), None) => with_token(Readout::titled(name(trace, i)), trace, i),
        (None, Some(k)) => position(trace, k),
        (None, None) => Readout::default(),
    }
}

/// `Token 47 (row 3, column 5)`.
fn name(trace: &Trace, i: usize) -> String {
    let cols = trace.grid.cols.max(1);
    format!("Token {i} (row {}, column {})", i / cols, i % cols)
}

/// The value of token or position `i` where there is one.
fn value(values: Option<&Vec<f32>>, i: usize) -> Option<f64> {
    values?.get(i).map(|v| f64::from(*v))
}

/// The places of every token in the order: its rank, its best and its mean position. Absent where the
/// trace lacks them; the rank also where there are several sweeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// The step at which each token is read.
    pub rank: Option<Vec<usize>>,
    /// The position of each token's largest share.
    pub best: Option<Vec<usize>>,
    /// Each token's expected position.
    pub mean: Option<Vec<f64>>,
}

/// The places of all tokens of a trace.
pub fn places(trace: &Trace) -> Places {
    let rank = match &orders(trace)[..] {
        [order] => Some(inverse(order)),
        _ => None,
    };
    match &trace.routing {
        Routing::Plan(plan) => Places { rank, best: Some(argmax(plan)), mean: Some(expected(trace, plan)) },
        _ => Places { rank, ..Places::default() },
    }
}

fn with_token(readout: Readout, trace: &Trace, i: usize) -> Readout {
    // A difference has mean positions alone: ranks belong to one order.
    let places = match trace.minus {
        Some(_) => Places { mean: difference::positions(trace), ..Places::default() },
        None => places(trace),
    };
    let whole = |values: &Option<Vec<usize>>| Some(*values.as_ref()?.get(i)? as f64);
    let rank = if places.mean.is_some() { "Rank by mean position" } else { "Step" };
    let readout = readout
        .number(&label(trace, "Score"), value(trace.scores.as_ref(), i))
        .number(rank, whole(&places.rank))
        .number("Best position", whole(&places.best))
        .number(&label(trace, "Mean position"), places.mean.as_ref().and_then(|mean| mean.get(i).copied()))
        .number(&label(trace, "Weight"), value(trace.token_weight.as_ref(), i))
        .number(&label(trace, "Evidence"), value(trace.evidence.token.as_ref(), i));
    let found =
        trace.attributions.iter().filter_map(|(method, found)| Some((method, found.found()?.token.get(i)?)));
    found.fold(readout, |readout, (method, v)| {
        readout.number(&label(trace, method.name()), Some(f64::from(*v)))
    })
}

fn position(trace: &Trace, k: usize) -> Readout {
    let n = trace.grid.len();
    let mut readout = Readout::titled(format!("Position {k} of 0 to {}", n.saturating_sub(1)));
    match &trace.routing {
        Routing::Plan(own) => {
            if trace.minus.is_none() {
                let best = argmax(own).iter().filter(|best| **best == k).count();
                let tokens = if best == 1 { "token" } else { "tokens" };
                readout = readout.line("Best position of", format!("{best} {tokens}"));
            }
            if let Some(plan) = difference::plan(trace) {
                let mut column: Vec<(usize, f32)> =
                    rows(&plan).map(|row| row.get(k).copied().unwrap_or(0.0)).enumerate().collect();
                column.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
                for (i, share) in column.into_iter().take(MAX_TOKENS) {
                    readout =
                        readout.number(&label(trace, &format!("Share of token {i}")), Some(f64::from(share)));
                }
            }
        }
        Routing::Orders(orders) if trace.minus.is_none() => {
            for (at, order) in orders.iter().enumerate() {
                let name =
                    if orders.len() == 1 { "Reads".to_owned() } else { format!("Sweep {} reads", at + 1) };
                if let Some(token) = order.get(k) {
                    readout = readout.line(name, format!("token {token}"));
                }
            }
        }
        Routing::Orders(_) | Routing::None => {}
    }
    let kept = memories(trace).and_then(|kept| kept.get(n - 1 - k).copied());
    readout
        .number(&label(trace, "Evidence"), value(trace.evidence.position.as_ref(), k))
        .number(&label(trace, "Evidence in raster order"), value(trace.evidence.position_raster.as_ref(), k))
        .number(&label(trace, "Proxy"), value(trace.evidence.proxy.as_ref(), k))
        .number("Memory, |K| / max |K|", kept)
}
