//! The difference of two sets of removal curves: of two probes or two readings, for one class and the same steps.

use crate::model::explain::removal::{Curve, Curves, Found, RANDOM, Removal};
use crate::viz::Empty;
use crate::viz::difference::{check_same_grid, less};

/// `own` minus `other`, ranking by ranking and step by step, where both have the curve. Of random orders only the means are
/// subtracted: a band belongs to one of the two. The rankings, and so the pictures, are `own`'s.
///
/// # Errors
/// If the two are not of the same class, patch grid and steps.
pub fn subtract(own: &Removal, other: &Removal) -> Result<Removal, Empty> {
    check_same_grid(own.grid, other.grid)?;
    if !own.has_class_of(other) {
        let [a, b] = [own, other].map(|removal| &removal.class.1);
        return Err(Empty(format!("The curves are for {a} and for {b}; choose one class for both")));
    }
    if own.fraction != other.fraction {
        let [a, b] = [own, other].map(|removal| removal.fraction.len().saturating_sub(1));
        let steps = if a == b { format!("{a} different steps") } else { format!("{a} and {b} steps") };
        return Err(Empty(format!("The curves have {steps}; use the same steps for both")));
    }
    let same_rival = own.has_rival_of(other);
    let curve = |a: &Curve, b: &Curve| Curve {
        logit: less(&a.logit, &b.logit),
        margin: a.margin.as_ref().zip(b.margin.as_ref()).filter(|_| same_rival).map(|(a, b)| less(a, b)),
        probability: less(&a.probability, &b.probability),
    };
    let band = [format!("{RANDOM}_low"), format!("{RANDOM}_high")];
    let curves = |a: &Curves, b: &Curves| -> Curves {
        let both = a.iter().filter(|(id, _)| !band.contains(id)).filter_map(|(id, [deletion, insertion])| {
            let [other_deletion, other_insertion] = b.get(id)?;
            Some((id.clone(), [curve(deletion, other_deletion), curve(insertion, other_insertion)]))
        });
        both.collect()
    };
    let mode = |a: &Found<Curves>, b: Option<&Found<Curves>>| match (a, b) {
        (Found::Some(a), Some(Found::Some(b))) => Found::Some(curves(a, b)),
        (Found::None { none }, _) | (_, Some(Found::None { none })) => Found::None { none: none.clone() },
        (_, None) => Found::None { none: "The other one has no removal curves for this mode".to_owned() },
    };
    let modes = own.modes.iter().map(|(id, a)| (*id, mode(a, other.modes.get(id)))).collect();
    Ok(Removal { modes, ..own.clone() })
}
