//! In which tier of the paper's main table a head stands, and in which order.

use crate::model::probe::head::HEADS;
use crate::model::train::run::Variant;

/// The tier of a head, and its place among all heads.
pub fn place(id: &str) -> (&'static str, usize) {
    match HEADS.iter().position(|kind| kind.id == id) {
        Some(at) => (HEADS[at].tier.name(), HEADS[at].tier as usize * HEADS.len() + at),
        None => ("Other", usize::MAX),
    }
}

/// Heads in the order of the tiers.
pub fn sorted<'a>(variants: impl Iterator<Item = &'a Variant>) -> Vec<&'a Variant> {
    let mut variants: Vec<&Variant> = variants.collect();
    variants.sort_by_key(|variant| place(&variant.head).1);
    variants
}
