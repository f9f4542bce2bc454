//! The simplest heads: the mean of the patch tokens (`gap`), and the CLS token (`cls`).

use super::prelude::*;

/// The mean, in the [list](super::HEADS) of heads.
pub const GAP: HeadSpec = HeadSpec {
    id: "gap",
    name: "GAP",
    summary: "Mean of the patch tokens",
    group: Group::Pooling,
    tier: Tier::Floor,
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 0.77, flops: 1.54 }),
    build: Build::Own(|_| Ok(Box::new(Gap))),
};

/// The CLS token, in the [list](super::HEADS) of heads.
pub const CLS: HeadSpec = HeadSpec {
    id: "cls",
    name: "CLS",
    summary: "The CLS token alone",
    group: Group::Pooling,
    tier: Tier::Floor,
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 0.77, flops: 1.54 }),
    build: Build::Own(|_| Ok(Box::new(Cls))),
};

/// Global average pooling: `z = sum_i t_i / N`.
pub struct Gap;

impl Head for Gap {
    fn pooling(&self, _: &Params, _: &Batch) -> Option<Pooling> {
        Some(Pooling::uniform())
    }

    fn reading_with(&self, _: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> HeadOutput {
        let n = tokens.grid.len();
        HeadOutput { scores: None, form: Form::Pool(vec![1.0 / n as f64; n]) }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        n * d
    }

    fn parts(&self, _: u64, _: u64) -> Vec<Part> {
        Vec::new() // no product
    }
}

/// The CLS token as it is. It reads no patch token, so that none of them is evidence.
pub struct Cls;

impl Head for Cls {
    fn needs_cls(&self) -> bool {
        true
    }

    fn features(&self, _: &Params, batch: &Batch) -> Tensor<2> {
        batch.cls.clone().expect("whoever builds the batch checks `needs_cls`")
    }

    fn reading_with(&self, _: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> HeadOutput {
        let cls = tokens.cls.as_ref().expect("whoever hands the tokens over checks `needs_cls`");
        let features = cls.iter().map(|&x| f64::from(x)).collect();
        let why = "The CLS head reads the CLS token alone: no patch token speaks for a class";
        HeadOutput { scores: None, form: Form::Opaque { features, why } }
    }

    fn flops(&self, _: u64, _: u64) -> u64 {
        0
    }

    fn parts(&self, _: u64, _: u64) -> Vec<Part> {
        Vec::new()
    }
}
