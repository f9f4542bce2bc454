//! The tiers of the paper's main table, and the order of heads by tier.

use crate::model::probe::head::HEADS;
use crate::model::train::run::Variant;

/// The tier of the head `id`, and its sort key among all heads: by tier, then as in [`HEADS`]. Unknown heads come last.
pub fn tier_and_rank(id: &str) -> (&'static str, usize) {
    match HEADS.iter().position(|kind| kind.id == id) {
        Some(at) => (HEADS[at].tier.name(), HEADS[at].tier as usize * HEADS.len() + at),
        None => ("Other", usize::MAX),
    }
}

/// The variants sorted by tier; those of one head stay in order.
pub fn sorted<'a>(variants: impl Iterator<Item = &'a Variant>) -> Vec<&'a Variant> {
    let mut variants: Vec<&Variant> = variants.collect();
    variants.sort_by_key(|variant| tier_and_rank(&variant.head).1);
    variants
}
