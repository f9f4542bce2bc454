//! What one column has more or less than the pinned one, as a trace that figures draw: evidence,
//! weights and scores token by token; evidence position by position.

use std::collections::HashMap;
use std::sync::Arc;

use crate::app::jobs::ColumnId;
use crate::model::trace::Trace;
use crate::viz::{Figure, Subtractable};

/// A difference and the traces it is of.
type Kept = (Arc<Trace>, Arc<Trace>, Result<Arc<Trace>, String>);

/// The differences of all columns, each kept until one of its traces changes.
#[derive(Default)]
pub struct Differences(HashMap<ColumnId, Kept>);

impl Differences {
    /// `trace` of column `id` minus `reference`, or why there is no such thing.
    pub fn between(
        &mut self,
        id: ColumnId,
        trace: &Arc<Trace>,
        reference: &Arc<Trace>,
    ) -> Result<Arc<Trace>, String> {
        let known = |(a, b, _): &&Kept| Arc::ptr_eq(a, trace) && Arc::ptr_eq(b, reference);
        if let Some((_, _, kept)) = self.0.get(&id).filter(known) {
            return kept.clone();
        }
        let made = subtract(trace, reference).map(Arc::new);
        self.0.insert(id, (trace.clone(), reference.clone(), made.clone()));
        made
    }

    /// Forgets columns that are gone.
    pub fn retain(&mut self, there: impl Fn(ColumnId) -> bool) {
        self.0.retain(|id, _| there(*id));
    }
}

/// Whether a figure would need evidence for one class where the two have it for different ones.
pub fn other_class(figure: &dyn Figure, trace: &Trace, reference: &Trace) -> bool {
    figure.subtractable() == Subtractable::ForOneClass && trace.evidence.class != reference.evidence.class
}

fn subtract(trace: &Trace, reference: &Trace) -> Result<Trace, String> {
    if trace.grid != reference.grid {
        return Err("The pinned column has another patch grid".to_owned());
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
    if made.evidence.token.is_none() {
        let why =
            if same { "One of the two has no exact evidence" } else { "The evidence is for another class" };
        made.evidence.why_none = Some(why.to_owned());
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grid::Grid;
    use crate::model::trace::{Evidence, Picture, Reading, Routing};
    use crate::viz::figures::photo::Photo;
    use crate::viz::figures::token_map::TokenMap;

    fn trace(class: usize, token: [f32; 2], logits: [f32; 2]) -> Arc<Trace> {
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
        Arc::new(Trace {
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
        })
    }

    #[test]
    fn evidence_is_subtracted_for_one_class_only() {
        let (a, b) = (trace(1, [3.0, 1.0], [0.0, 4.0]), trace(1, [1.0, 1.5], [0.0, 2.5]));
        let mut known = Differences::default();
        let made = known.between(ColumnId(1), &a, &b).expect("same class");
        assert_eq!(made.evidence.token.as_deref(), Some(&[2.0, -0.5][..]));
        assert!(Arc::ptr_eq(&made, &known.between(ColumnId(1), &a, &b).expect("kept")));
        // Evidence and bias sum to the logit: so do their differences, 1.5 and -1.5.
        let biased = |own: &Trace, bias: f32| {
            Arc::new(Trace { evidence: Evidence { bias, ..own.evidence.clone() }, ..own.clone() })
        };
        let made = known.between(ColumnId(2), &biased(&a, 0.5), &biased(&b, 2.0)).expect("same class");
        assert_eq!(made.evidence.bias, -1.5);
        let other = trace(0, [1.0, 1.0], [2.0, 0.0]);
        let made = known.between(ColumnId(1), &a, &other).expect("weights have no class");
        assert!(made.evidence.token.is_none() && made.evidence.why_none.is_some());
        assert!(other_class(&TokenMap, &a, &other) && !other_class(&Photo, &a, &other));
        assert!(!other_class(&TokenMap, &a, &b));
    }
}
