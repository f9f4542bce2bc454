//! Removal curves less those of another probe or another reading: of one class, over the same shares of the same patches.

use crate::model::explain::removal::{Curve, Curves, Found, RANDOM, Removal};
use crate::viz::Empty;
use crate::viz::difference::check_same_grid;

/// `own` minus `other`, ranking by ranking and step by step, where both have the curve. Of random orders the means; a band is
/// each one's own. The rankings, and so the picture, are `own`'s.
///
/// # Errors
/// Where the two are not of one class, one grid and the same steps.
pub fn subtract(own: &Removal, other: &Removal) -> Result<Removal, Empty> {
    check_same_grid(own.grid, other.grid)?;
    if own.class != other.class {
        let [a, b] = [own, other].map(|removal| &removal.class.1);
        return Err(Empty(format!("The curves are of {a} and of {b}; ask both for one class")));
    }
    if own.fraction != other.fraction {
        let [a, b] = [own, other].map(|removal| removal.fraction.len().saturating_sub(1));
        return Err(Empty(format!("The curves have {a} and {b} steps; remove both in the same steps")));
    }
    let margins = own.rival == other.rival;
    let less = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>();
    let curve = |a: &Curve, b: &Curve| Curve {
        logit: less(&a.logit, &b.logit),
        margin: a.margin.as_ref().zip(b.margin.as_ref()).filter(|_| margins).map(|(a, b)| less(a, b)),
        probability: less(&a.probability, &b.probability),
    };
    let band = [format!("{RANDOM}_low"), format!("{RANDOM}_high")];
    let curves = |a: &Curves, b: &Curves| -> Curves {
        let both = a.iter().filter(|(id, _)| !band.contains(id)).filter_map(|(id, [taken, back])| {
            let [other_taken, other_back] = b.get(id)?;
            Some((id.clone(), [curve(taken, other_taken), curve(back, other_back)]))
        });
        both.collect()
    };
    let mode = |a: &Found<Curves>, b: Option<&Found<Curves>>| match (a, b) {
        (Found::Some(a), Some(Found::Some(b))) => Found::Some(curves(a, b)),
        (Found::None { none }, _) | (_, Some(Found::None { none })) => Found::None { none: none.clone() },
        (_, None) => Found::None { none: "Of the other of the two nothing was removed so".to_owned() },
    };
    let modes = own.modes.iter().map(|(id, a)| (*id, mode(a, other.modes.get(id)))).collect();
    Ok(Removal { modes, ..own.clone() })
}
