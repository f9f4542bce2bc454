//! The difference of two traces, as a trace that figures draw. Numbers of a token, a position, a class or the whole image
//! are subtracted here; plans, orders and kernels are kept, beside the subtracted trace in [`Trace::minus`], and a figure
//! that shows them subtracts what it shows. Differences are labelled with a delta.

use std::borrow::Cow;
use std::ops::Sub;

use indexmap::IndexMap;

use crate::model::grid::Grid;
use crate::model::trace::{
    Attributed, Attribution, Diagnostic, Found, Matrix, OrderContrast, OrderTest, Prediction, Reassigned,
    Routing, Trace, same_class,
};
use crate::viz::draw::{Scale, check::check, number, order};
use crate::viz::heading::uncapitalised;
use crate::viz::{Empty, Figure};

/// Whether `figure` shows numbers of one class, and the two traces have them for different classes.
pub fn other_class(figure: &dyn Figure, trace: &Trace, reference: &Trace) -> bool {
    let class = reference.evidence.class;
    figure.properties().is_for_one_class
        && (trace.evidence.class != class || !is_same_class(trace, reference, class))
}

/// Why a figure that compares token by token shows no difference of such traces.
pub const OTHER_TOKENS: &str =
    "The two do not shuffle their tokens alike: they cannot be compared token by token";

/// Whether `figure` compares token by token, and the two traces are of the same patches in different orders, as of shuffled tokens:
/// the picture of each has every patch at the place of its token.
pub fn other_tokens(figure: &dyn Figure, trace: &Trace, reference: &Trace) -> bool {
    // The window asks in every frame; the sum of the pixels is quick, and rules out most other images.
    let sum = |of: &Trace| of.seen.rgb.iter().map(|value| u64::from(*value)).sum::<u64>();
    let may_be_shuffled = || trace.seen != reference.seen && sum(trace) == sum(reference);
    if !figure.properties().compares_tokens || !may_be_shuffled() {
        return false;
    }
    let [own, other] = [trace, reference].map(|of| of.seen.patches(of.grid));
    let [mut sorted, mut other_sorted] = [&own, &other].map(|patches| patches.iter().collect::<Vec<_>>());
    sorted.sort_unstable();
    other_sorted.sort_unstable();
    own != other && sorted == other_sorted
}

/// Whether two traces mean the same class by an index: probes of other datasets have other classes there. Where one does not name
/// it, the index decides.
pub fn is_same_class(trace: &Trace, reference: &Trace, class: usize) -> bool {
    let [own, other] = [trace, reference].map(|of| {
        let asked = of.reading.class.as_deref().filter(|_| of.evidence.class == class);
        asked.or_else(|| of.top.iter().find(|known| known.index == class).map(|known| known.name.as_str()))
    });
    own.zip(other).is_none_or(|(own, other)| same_class(own, other))
}

/// `trace` minus `reference`.
///
/// # Errors
/// If the patch grids differ, or one of the two traces is inconsistent.
pub fn subtract(trace: &Trace, reference: &Trace) -> Result<Trace, Empty> {
    check(trace)?;
    check(reference)?;
    check_same_grid(trace.grid, reference.grid)?;
    let class = trace.evidence.class;
    let same = class == reference.evidence.class
        && trace.logits.len() == reference.logits.len()
        && is_same_class(trace, reference, class);
    let minus = |a: &Option<Vec<f32>>, b: &Option<Vec<f32>>| match (a, b) {
        (Some(a), Some(b)) if a.len() == b.len() => Some(less(a, b)),
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
        let [own, other] = [Some(&*found), reference.attributions.get(method)]
            .map(|attributed| attributed?.found().map(|found| found.token.clone()));
        if own.is_none() {
            continue; // for its own reason
        }
        let difference = if same || *method == Attribution::Rollout { minus(&own, &other) } else { None };
        *found = difference
            .map(Attributed::from)
            .ok_or_else(|| "The other trace has none for this class".to_owned())
            .into();
    }
    if made.evidence.token.is_none() && a.token.is_some() {
        let why = if same { "The other trace has no evidence" } else { "The evidence is for another class" };
        made.evidence.why_none = b.why_none.clone().or_else(|| Some(why.to_owned()));
    }
    made.diagnostics = diagnostics(trace, reference);
    made.top = predictions(trace, reference);
    made.logits = if same { less(&trace.logits, &reference.logits) } else { Vec::new() };
    made.order_test = order_test(trace, reference);
    made.minus = Some(Box::new(reference.clone()));
    Ok(made)
}

/// Checks that two patch grids are equal, so that their tokens can be compared one by one.
pub fn check_same_grid(own: Grid, other: Grid) -> Result<(), Empty> {
    if own == other {
        return Ok(());
    }
    let [own, other] = [own, other].map(|grid| format!("{} x {}", grid.rows, grid.cols));
    Err(Empty(format!("A grid of {own} patches cannot be compared with one of {other}, patch by patch")))
}

/// `a - b`, element by element.
pub fn less<T: Copy + Sub<Output = T>>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().zip(b).map(|(a, b)| *a - *b).collect()
}

/// The differences of the diagnostics that both have; null bands belong to one trace each and are left out.
fn diagnostics(trace: &Trace, reference: &Trace) -> IndexMap<String, Diagnostic> {
    let both = trace.diagnostics.iter().filter_map(|(name, own)| {
        let value = own.value - reference.diagnostics.get(name)?.value;
        Some((name.clone(), Diagnostic { value, null: None, untrained: None, untrained_band: None }))
    });
    both.collect()
}

/// The top classes of both traces, those first whose probability differs most; empty where their classes differ.
fn predictions(trace: &Trace, reference: &Trace) -> Vec<Prediction> {
    let is_same =
        |a: &Prediction| reference.top.iter().all(|b| b.index != a.index || same_class(&b.name, &a.name));
    if trace.logits.len() != reference.logits.len() || !trace.top.iter().all(is_same) {
        return Vec::new();
    }
    let [own, other] = [trace, reference].map(probabilities);
    let mut all: IndexMap<usize, &str> = IndexMap::new();
    for class in trace.top.iter().chain(&reference.top).filter(|class| class.index < own.len()) {
        all.entry(class.index).or_insert(&class.name);
    }
    let difference = |(index, name): (usize, &str)| Prediction {
        index,
        name: name.to_owned(),
        logit: trace.logits[index] - reference.logits[index],
        probability: (own[index] - other[index]) as f32,
    };
    let mut all: Vec<Prediction> = all.into_iter().map(difference).collect();
    all.sort_by(|a, b| b.probability.abs().total_cmp(&a.probability.abs()).then(a.index.cmp(&b.index)));
    all
}

/// The softmax of the logits.
fn probabilities(trace: &Trace) -> Vec<f64> {
    let max = trace.logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exps: Vec<f64> = trace.logits.iter().map(|logit| f64::from(logit - max).exp()).collect();
    let total: f64 = exps.iter().sum();
    exps.into_iter().map(|exp| exp / total).collect()
}

/// The difference of two order tests. Ranks among random orders belong to one test each and are left out; margins are
/// subtracted only where both are over the same class.
fn order_test(trace: &Trace, reference: &Trace) -> Option<Found<OrderTest>> {
    let contrast = |a: &OrderContrast, b: &OrderContrast| OrderContrast {
        value: a.value - b.value,
        against: a.against,
        descriptive: true,
        reassigned: Reassigned {
            mean: a.reassigned.mean - b.reassigned.mean,
            std: a.reassigned.std - b.reassigned.std,
            z: None,
            p: f64::NAN,
            p_normal: f64::NAN,
            draws: 0,
            histogram: Vec::new(),
        },
        best: a.best - b.best,
        worst: a.worst - b.worst,
        headroom: None,
        content: a.content - b.content,
        fixed_order: a.fixed_order - b.fixed_order,
        routing: a.routing - b.routing,
    };
    Some(match (trace.order_test.as_ref()?, reference.order_test.as_ref()?) {
        (Found::None { none }, _) | (_, Found::None { none }) => Found::None { none: none.clone() },
        (Found::Some(a), Found::Some(b)) => {
            let is_same = |rival| is_same_class(trace, reference, rival);
            let margins = a.margin.as_ref().zip(b.margin.as_ref());
            let margins = margins.filter(|(a, b)| a.against == b.against && a.against.is_none_or(is_same));
            let margin = margins.map(|(a, b)| contrast(a, b));
            Found::Some(OrderTest { logit: contrast(&a.logit, &b.logit), margin })
        }
    })
}

/// The plan of a trace; of a difference, its plan minus that of the other. `None` where a plan is missing.
pub fn plan(trace: &Trace) -> Option<Cow<'_, Matrix>> {
    let Routing::Plan(plan) = &trace.routing else { return None };
    let Some(minus) = &trace.minus else { return Some(Cow::Borrowed(plan)) };
    let Routing::Plan(other) = &minus.routing else { return None };
    Some(Cow::Owned(Matrix { data: less(&plan.data, &other.data), ..*plan }))
}

/// The mean position of every token; of a difference, minus that in the other. `None` where one of them reads in no
/// order, or in several.
pub fn positions(trace: &Trace) -> Option<Vec<f64>> {
    let own = order::positions(trace)?;
    let Some(minus) = &trace.minus else { return Some(own) };
    Some(less(&own, &order::positions(minus)?))
}

/// The difference of two traces that `figure` shows.
///
/// # Errors
/// As [`subtract`], and if `figure` needs one class and the traces have two, or compares tokens of which some lie at other places.
pub fn shown(figure: &dyn Figure, trace: &Trace, reference: &Trace) -> Result<Trace, Empty> {
    if other_class(figure, trace, reference) {
        let why = "The evidence of the two is for different classes; choose one class for both";
        return Err(Empty(why.to_owned()));
    }
    if other_tokens(figure, trace, reference) {
        return Err(Empty(OTHER_TOKENS.to_owned()));
    }
    subtract(trace, reference)
}

/// A scale symmetric around zero that contains these limits.
pub fn around_zero((lo, hi): (f64, f64)) -> Scale {
    let bound = lo.abs().max(hi.abs());
    Scale::linear(-bound, bound)
}

/// The trace to name where something is missing: of a difference, the second if the first `has` it.
pub fn lacking(trace: &Trace, has: bool) -> &Trace {
    trace.minus.as_deref().filter(|_| has).unwrap_or(trace)
}

/// `name` as the label of a number of `trace`: with a delta before it where that is a difference.
pub fn label(trace: &Trace, name: &str) -> String {
    if trace.minus.is_some() { delta(name) } else { name.to_owned() }
}

/// The label of a difference of numbers called `name`: `Δ name`.
pub fn delta(name: &str) -> String {
    format!("Δ {}", uncapitalised(name))
}

/// `name` as a column heading: `delta_name` where `trace` is a difference.
pub fn head(trace: &Trace, name: &str) -> String {
    if trace.minus.is_some() { format!("delta_{name}") } else { name.to_owned() }
}

/// A number of `trace` as text, with its sign where that is a difference.
pub fn value(trace: &Trace, v: f64) -> String {
    if trace.minus.is_some() { signed(v) } else { number(v) }
}

/// A number as text with its sign; zero has none.
pub fn signed(v: f64) -> String {
    with_plus(v, number(v))
}

/// The `text` of a difference `v`, with a plus sign if that is positive.
pub fn with_plus(v: f64, text: String) -> String {
    if v > 0.0 { format!("+{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::trace::{Evidence, Picture, Reading};
    use crate::viz::figures::photo::Photo;
    use crate::viz::figures::predictions::Predictions;
    use crate::viz::figures::token_map::TokenMap;

    fn trace(class: usize, token: [f32; 2], logits: [f32; 2]) -> Trace {
        let evidence = Evidence { class, token: Some(token.into()), ..Evidence::default() };
        Trace {
            head: "gap".into(),
            grid: Grid::new(1, 2),
            logits: logits.into(),
            evidence,
            ..Trace::default()
        }
    }

    #[test]
    fn evidence_is_subtracted_for_one_class_only() {
        let (a, b) = (trace(1, [3.0, 1.0], [0.0, 4.0]), trace(1, [1.0, 1.5], [0.0, 2.5]));
        let made = subtract(&a, &b).expect("same class");
        assert_eq!(made.evidence.token.as_deref(), Some(&[2.0, -0.5][..]));
        assert_eq!(made.logits, [0.0, 1.5]);
        assert_eq!((label(&made, "Weight"), label(&a, "Weight")), ("Δ weight".into(), "Weight".into()));
        assert_eq!((value(&made, 1.5), value(&a, 1.5)), ("+1.5".into(), "1.5".into()));
        // Evidence and bias sum to the logit: so do their differences, 1.5 and -1.5.
        let biased = |own: &Trace, bias: f32| Trace {
            evidence: Evidence { bias, ..own.evidence.clone() },
            ..own.clone()
        };
        let made = subtract(&biased(&a, 0.5), &biased(&b, 2.0)).expect("same class");
        assert_eq!(made.evidence.bias, -1.5);
        let opaque = Evidence { token: None, why_none: Some("Not linear".into()), ..a.evidence.clone() };
        let opaque = Trace { evidence: opaque, ..a.clone() };
        for made in [subtract(&a, &opaque), subtract(&opaque, &b)].map(|made| made.expect("one class")) {
            assert_eq!((made.evidence.token, made.evidence.why_none.as_deref()), (None, Some("Not linear")));
        }
        let other = trace(0, [1.0, 1.0], [2.0, 0.0]);
        let made = subtract(&a, &other).expect("weights have no class");
        assert!(made.evidence.token.is_none() && made.evidence.why_none.is_some());
        assert!(shown(&TokenMap(None), &a, &other).is_err() && shown(&Photo, &a, &other).is_ok());
        assert!(other_class(&TokenMap(None), &a, &other) && !other_class(&Photo, &a, &other));
        assert!(!other_class(&TokenMap(None), &a, &b));
    }

    #[test]
    fn of_shuffled_tokens_nothing_is_subtracted_token_by_token() {
        let seen = |width: usize, rgb: Vec<u8>| Trace {
            seen: Picture { width, height: 1, rgb },
            ..trace(1, [3.0, 1.0], [0.0, 4.0])
        };
        let kept = seen(2, vec![1, 2, 3, 4, 5, 6]);
        let shuffled = seen(2, vec![4, 5, 6, 1, 2, 3]);
        let of_tokens = |other: &Trace| shown(&TokenMap(None), &kept, other).err().map(|why| why.0);
        assert_eq!(of_tokens(&shuffled).as_deref(), Some(OTHER_TOKENS));
        assert!(shown(&Predictions, &kept, &shuffled).is_ok(), "of the whole image");
        // Another image is another one in whatever order, and so is one of another size.
        let others = [vec![4, 5, 6, 1, 2, 4], vec![4, 5, 6, 2, 1, 3]].map(|rgb| seen(2, rgb));
        for other in others.into_iter().chain([kept.clone(), seen(3, vec![0; 9])]) {
            assert_eq!(of_tokens(&other), None);
        }
    }

    #[test]
    fn evidence_is_for_one_class_only_where_both_call_it_the_same() {
        let named = |name: &str| {
            let known = Prediction { index: 1, name: name.to_owned(), logit: 4.0, probability: 0.9 };
            Trace { top: vec![known], ..trace(1, [3.0, 1.0], [0.0, 4.0]) }
        };
        let [crane, tench, unnamed] =
            [named("crane"), named("tench (n01440764)"), trace(1, [1.0; 2], [0.0; 2])];
        let made = |other: &Trace| subtract(&crane, other).expect("one grid").evidence.token;
        assert!(made(&crane).is_some() && made(&unnamed).is_some() && made(&tench).is_none());
        assert!(shown(&TokenMap(None), &crane, &tench).is_err(), "class 1 of another dataset");
        assert!(!other_class(&TokenMap(None), &tench, &named("n01440764")), "one WordNet id");
        let asked = Reading { class: Some("crane".to_owned()), ..Reading::default() };
        let asked = Trace { reading: asked, top: Vec::new(), ..tench.clone() };
        assert!(
            other_class(&TokenMap(None), &tench, &asked),
            "a class asked for is named although it is not predicted"
        );
    }

    #[test]
    fn attributions_are_subtracted_where_both_have_them_for_one_class() {
        let found = |token: [f32; 2]| Found::Some(Attributed::from(token.to_vec()));
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
        assert!(made.attributions[&Attribution::Integrated].found().is_none(), "the other has none");
        let made = subtract(&own, &other(1)).expect("one grid");
        assert!(made.attributions[&gradient].found().is_none(), "another class");
        assert_eq!(made.attributions[&rollout], found([0.25, -0.25]));
    }

    #[test]
    fn classes_are_those_of_either_the_most_different_first() {
        let known = |names: &[(usize, &str)], logits: [f32; 3]| {
            let class = |&(index, name): &(usize, &str)| Prediction {
                index,
                name: name.into(),
                logit: logits[index],
                probability: 0.0,
            };
            Trace {
                top: names.iter().map(class).collect(),
                logits: logits.into(),
                ..trace(0, [0.0; 2], [0.0; 2])
            }
        };
        // Softmax of (ln 2, 0, 0) is (1/2, 1/4, 1/4), of (0, 0, ln 6) it is (1/8, 1/8, 3/4).
        let (a, b) =
            (known(&[(0, "auk")], [2f32.ln(), 0.0, 0.0]), known(&[(2, "coot")], [0.0, 0.0, 6f32.ln()]));
        let made = predictions(&a, &b);
        let found: Vec<_> = made.iter().map(|p| (&*p.name, p.index)).collect();
        assert_eq!(found, [("coot", 2), ("auk", 0)]);
        assert!((made[0].probability + 0.5).abs() < 1e-6 && (made[1].probability - 0.375).abs() < 1e-6);
        assert!((made[0].logit + 6f32.ln()).abs() < 1e-6 && (made[1].logit - 2f32.ln()).abs() < 1e-6);
        let renamed = known(&[(0, "booby")], [0.0; 3]);
        assert!(predictions(&a, &renamed).is_empty(), "other classes");
        let [id, named] = ["n01440764", "tench (n01440764)"].map(|name| known(&[(0, name)], [0.0; 3]));
        assert_eq!(predictions(&id, &named).len(), 1, "the same class with a word");
    }
}
