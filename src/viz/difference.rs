//! What one trace has more or less than another, as a trace that figures draw: evidence, weights and scores token by
//! token; evidence position by position. What is a difference is written with a delta.

use std::borrow::Cow;

use crate::model::trace::{Attribution, Reference, Trace};
use crate::viz::draw::number;
use crate::viz::{Empty, Figure, Subtractable};

/// Whether a figure would need evidence for one class where the two have it for different ones.
pub fn other_class(figure: &dyn Figure, trace: &Trace, reference: &Trace) -> bool {
    figure.subtractable() == Subtractable::ForOneClass && trace.evidence.class != reference.evidence.class
}

/// `trace` minus `reference`.
///
/// # Errors
/// Where the patches are not the same.
pub fn subtract(trace: &Trace, reference: &Trace) -> Result<Trace, Empty> {
    if trace.grid != reference.grid {
        let [own, other] =
            [trace, reference].map(|trace| format!("{} x {}", trace.grid.rows, trace.grid.cols));
        return Err(Empty(format!(
            "A grid of {own} patches cannot be compared with one of {other}, patch by patch"
        )));
    }
    let same =
        trace.evidence.class == reference.evidence.class && trace.logits.len() == reference.logits.len();
    let minus = |a: &Option<Vec<f32>>, b: &Option<Vec<f32>>| match (a, b) {
        (Some(a), Some(b)) if a.len() == b.len() => Some(a.iter().zip(b).map(|(a, b)| a - b).collect()),
        _ => None,
    };
    let (a, b) = (&trace.evidence, &reference.evidence);
    let mut made = trace.clone();
    made.token_weight = minus(&trace.token_weight, &reference.token_weight);
    made.scores = minus(&trace.scores, &reference.scores);
    let evidence = |a, b| if same { minus(a, b) } else { None };
    made.evidence.bias = a.bias - b.bias;
    made.evidence.token = evidence(&a.token, &b.token);
    made.evidence.position = evidence(&a.position, &b.position);
    made.evidence.position_raster = evidence(&a.position_raster, &b.position_raster);
    made.evidence.proxy = evidence(&a.proxy, &b.proxy);
    made.evidence.proxy_raster = evidence(&a.proxy_raster, &b.proxy_raster);
    for (method, found) in &mut made.attributions {
        let tokens = [Some(&*found), reference.attributions.get(method)]
            .map(|of| of?.token().ok().map(<[f32]>::to_vec));
        let [own, other] = tokens;
        let apart = if same || *method == Attribution::Rollout { minus(&own, &other) } else { None };
        *found = apart.ok_or_else(|| "The other of the two has none for this class".to_owned()).into();
    }
    if made.evidence.token.is_none() {
        let why =
            if same { "One of the two has no exact evidence" } else { "The evidence is for another class" };
        made.evidence.why_none = Some(why.to_owned());
    }
    // The memory is no difference, and would look like one.
    (made.kernel, made.other_kernels) = (None, Vec::new());
    let Trace { image, probe, reading, .. } = reference.clone();
    made.minus = Some(Reference { image, probe, reading });
    Ok(made)
}

/// What `figure` shows of `trace` against `reference`: the difference where it can be subtracted, the trace itself where
/// it cannot.
///
/// # Errors
/// Why there is no difference.
pub fn shown<'a>(figure: &dyn Figure, trace: &'a Trace, reference: &Trace) -> Result<Cow<'a, Trace>, Empty> {
    if figure.subtractable() == Subtractable::No {
        return Ok(Cow::Borrowed(trace));
    }
    if other_class(figure, trace, reference) {
        let why = "The two have their evidence for different classes; ask both for one class";
        return Err(Empty(why.to_owned()));
    }
    subtract(trace, reference).map(Cow::Owned)
}

/// What a number of `trace` is called: with a delta before it where it is a difference.
pub fn label(trace: &Trace, name: &str) -> String {
    let mut letters = name.chars();
    match (&trace.minus, letters.next()) {
        (Some(_), Some(first)) => format!("Δ {}{}", first.to_lowercase(), letters.as_str()),
        _ => name.to_owned(),
    }
}

/// The head of a column of a table.
pub fn head(trace: &Trace, name: &str) -> String {
    if trace.minus.is_some() { format!("delta_{name}") } else { name.to_owned() }
}

/// A number of `trace`, with its sign where it is a difference.
pub fn value(trace: &Trace, v: f64) -> String {
    let sign = if trace.minus.is_some() && v > 0.0 { "+" } else { "" };
    format!("{sign}{}", number(v))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grid::Grid;
    use crate::model::trace::{Attributed, Evidence, Picture, Reading, Routing};
    use crate::viz::figures::photo::Photo;
    use crate::viz::figures::token_map::TokenMap;

    fn trace(class: usize, token: [f32; 2], logits: [f32; 2]) -> Trace {
        let evidence = Evidence {
            class,
            bias: 0.0,
            position: None,
            position_raster: None,
            token: Some(token.into()),
            proxy: None,
            proxy_raster: None,
            why_none: None,
        };
        Trace {
            image: String::new(),
            probe: String::new(),
            head: "gap".into(),
            reading: Reading::default(),
            backbone: String::new(),
            grid: Grid::new(1, 2),
            seen: Picture::default(),
            scores: None,
            routing: Routing::None,
            expected: None,
            kernel: None,
            other_kernels: Vec::new(),
            radius: None,
            token_weight: None,
            logits: logits.into(),
            top: Vec::new(),
            evidence,
            diagnostics: Default::default(),
            minus: None,
            order_test: None,
            attributions: Default::default(),
            regions: None,
        }
    }

    #[test]
    fn evidence_is_subtracted_for_one_class_only() {
        let (a, b) = (trace(1, [3.0, 1.0], [0.0, 4.0]), trace(1, [1.0, 1.5], [0.0, 2.5]));
        let made = subtract(&a, &b).expect("same class");
        assert_eq!(made.evidence.token.as_deref(), Some(&[2.0, -0.5][..]));
        assert_eq!((label(&made, "Weight"), label(&a, "Weight")), ("Δ weight".into(), "Weight".into()));
        assert_eq!((value(&made, 1.5), value(&a, 1.5)), ("+1.5".into(), "1.5".into()));
        // Evidence and bias sum to the logit: so do their differences, 1.5 and -1.5.
        let biased = |own: &Trace, bias: f32| Trace {
            evidence: Evidence { bias, ..own.evidence.clone() },
            ..own.clone()
        };
        let made = subtract(&biased(&a, 0.5), &biased(&b, 2.0)).expect("same class");
        assert_eq!(made.evidence.bias, -1.5);
        let other = trace(0, [1.0, 1.0], [2.0, 0.0]);
        let made = subtract(&a, &other).expect("weights have no class");
        assert!(made.evidence.token.is_none() && made.evidence.why_none.is_some());
        assert!(shown(&TokenMap(None), &a, &other).is_err() && shown(&Photo, &a, &other).is_ok());
        assert!(other_class(&TokenMap(None), &a, &other) && !other_class(&Photo, &a, &other));
        assert!(!other_class(&TokenMap(None), &a, &b));
    }
    #[test]
    fn attributions_are_subtracted_where_both_have_them_for_one_class() {
        let found = |token: [f32; 2]| Attributed::from(Ok(token.to_vec()));
        let with = |class: usize, methods: &[(Attribution, [f32; 2])]| {
            let attributions = methods.iter().map(|(method, token)| (*method, found(*token))).collect();
            Trace { attributions, ..trace(class, [0.0; 2], [0.0; 2]) }
        };
        let [gradient, rollout] = [Attribution::Gradient, Attribution::Rollout];
        let own =
            with(0, &[(gradient, [3.0, 1.0]), (rollout, [0.5, 0.25]), (Attribution::Integrated, [1.0; 2])]);
        let other = |class| with(class, &[(gradient, [1.0, 1.5]), (rollout, [0.25, 0.5])]);
        let made = subtract(&own, &other(0)).expect("one grid");
        assert_eq!(made.attributions[&gradient], found([2.0, -0.5]));
        assert!(made.attributions[&Attribution::Integrated].token().is_err(), "the other has none");
        let made = subtract(&own, &other(1)).expect("one grid");
        assert!(made.attributions[&gradient].token().is_err(), "another class");
        assert_eq!(made.attributions[&rollout], found([0.25, -0.25]));
    }
}
