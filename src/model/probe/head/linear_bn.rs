//! Linear probing as in MAE (He et al. 2022, appendix A): [batch normalisation](super::normed) of the mean token before the linear layer.

use super::mean::Gap;
use super::normed::Normed;
use super::prelude::*;

pub const SPEC: HeadSpec = HeadSpec {
    id: "linear-bn",
    name: "Linear + BN",
    summary: "Batch-normalised mean of the patch tokens",
    group: Group::Pooling,
    tier: Tier::Floor,
    in_paper: false,
    paper_cost: None,
    build: Build::Own(|_| Ok(Normed::always(Gap))),
};
