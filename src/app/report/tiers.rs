//! In which tier of the paper's main table a head stands, and in which order.

use crate::model::run::Variant;

/// The tiers and their heads, as the paper lists them; those beyond it at the end of their tier.
pub const TIERS: &[(&str, &[&str])] = &[
    ("Floor", &["gap", "cls", "linear-bn"]),
    (
        "Order only",
        &["raster", "vmamba", "snake", "diagonal", "hilbert", "spiral", "random-fixed", "random-dynamic"],
    ),
    ("Content only", &["attention", "content", "efficient"]),
    ("Full", &["sinkhorn", "gumbel-sinkhorn", "softsort", "neuralsort", "hard-sort"]),
    ("Ablation", &["topk", "transformer", "deepsets", "sinkhorn-conv", "sinkhorn-gap", "bi-gru"]),
];

/// The tier of a head, and its place among all heads.
pub fn place(head: &str) -> (&'static str, usize) {
    let mut heads = TIERS.iter().flat_map(|(tier, heads)| heads.iter().map(move |head| (*tier, *head)));
    let place = heads.clone().position(|(_, known)| known == head);
    match place {
        Some(place) => (heads.nth(place).expect("found there").0, place),
        None => ("Other", usize::MAX),
    }
}

/// Heads in the order of the tiers.
pub fn sorted<'a>(variants: impl Iterator<Item = &'a Variant>) -> Vec<&'a Variant> {
    let mut variants: Vec<&Variant> = variants.collect();
    variants.sort_by_key(|variant| place(&variant.head).1);
    variants
}

#[cfg(test)]
mod tests {
    use crate::model::head::HEADS;

    #[test]
    fn every_head_has_a_tier() {
        for kind in HEADS {
            assert_ne!(super::place(kind.id).0, "Other", "{}", kind.id);
        }
    }
}
