//! The simplest heads: the mean of the patch tokens (`gap`), the CLS token (`cls`), and one beside the other (`cls-mean`), as
//! DINOv2's linear evaluation has the features of its last layer (facebookresearch/dinov2, dinov2/eval/linear.py with
//! `avgpool`).

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

/// Both, in the [list](super::HEADS) of heads.
pub const CLS_MEAN: HeadSpec = HeadSpec {
    id: "cls-mean",
    name: "CLS + mean",
    summary: "The CLS token beside the mean of the patch tokens",
    group: Group::Pooling,
    tier: Tier::Floor,
    in_paper: false,
    paper_cost: None,
    build: Build::Own(|_| Ok(Box::new(ClsMean))),
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

/// `z = [cls, sum_i t_i / N]`, `[2 d]`. What the CLS token says is said by no patch token.
struct ClsMean;

impl Head for ClsMean {
    fn needs_cls(&self) -> bool {
        true
    }

    fn features_len(&self, dims: &Dims) -> usize {
        2 * dims.width
    }

    fn pooling(&self, _: &Params, _: &Batch) -> Option<Pooling> {
        Some(Pooling::uniform())
    }

    fn finish(&self, params: &Params, pooled: Tensor<3>, batch: &Batch) -> Tensor<2> {
        Tensor::cat(vec![Cls.features(params, batch), pooled.squeeze_dim(1)], 1)
    }

    fn reading_with(&self, _: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> HeadOutput {
        let (n, d) = (tokens.grid.len(), tokens.width);
        let cls = tokens.cls.as_ref().expect("whoever hands the tokens over checks `needs_cls`");
        let mut bias = vec![0.0; 2 * d];
        bias.iter_mut().zip(cls).for_each(|(bias, &x)| *bias = f64::from(x));
        let mut map = vec![0.0; 2 * d * d]; // [F, d]: the lower half is the tokens'
        (0..d).for_each(|c| map[(d + c) * d + c] = 1.0);
        HeadOutput {
            scores: None,
            form: Form::Projected { weights: vec![1.0 / n as f64; n], map, mix: None, bias },
        }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        n * d
    }

    fn parts(&self, _: u64, _: u64) -> Vec<Part> {
        Vec::new()
    }
}
