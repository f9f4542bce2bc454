//! The simplest heads: the mean of the patch tokens (`gap`), the CLS token (`cls`), and both concatenated (`cls-mean`), as in
//! DINOv2's linear evaluation (facebookresearch/dinov2, dinov2/eval/linear.py, `create_linear_input`): the CLS tokens of the last
//! layers, and with `avgpool` the mean of the last layer's patch tokens.

use super::normed::Normed;
use super::prelude::*;
use crate::model::probe::settings;

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
    build: Build::Own(|_| Ok(Box::new(Cls))),
    ..GAP
};

/// Both, in the [list](super::HEADS) of heads.
pub const CLS_MEAN: HeadSpec = HeadSpec {
    id: "cls-mean",
    name: "CLS + mean",
    summary: "The CLS token beside the mean of the patch tokens",
    in_paper: false,
    paper_cost: None,
    build: Build::Own(|config| {
        let blocks = config.blocks.unwrap_or(1);
        let blocks = settings::within("blocks", blocks, 1..=usize::MAX, "a number of layers, from 1")?;
        Ok(Box::new(ClsMean { blocks }))
    }),
    ..GAP
};

/// Linear probing as in MAE (He et al. 2022, appendix A), in the [list](super::HEADS) of heads: [batch normalisation](super::normed) of
/// the mean before the linear layer.
pub const LINEAR_BN: HeadSpec = HeadSpec {
    id: "linear-bn",
    name: "Linear + BN",
    summary: "Batch-normalised mean of the patch tokens",
    in_paper: false,
    paper_cost: None,
    build: Build::Own(|_| Ok(Normed::always(Gap))),
    ..GAP
};

/// Global average pooling: `z = sum_i t_i / N`.
struct Gap;

impl Head for Gap {
    fn pooling(&self, _: &Params, _: &Batch) -> Option<Pooling> {
        Some(Pooling::uniform())
    }

    fn output(&self, _: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let n = tokens.grid.len();
        HeadOutput { scores: None, form: Form::Pool(vec![1.0 / n as f64; n]) }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        n * d
    }
}

/// The CLS token unchanged. It reads no patch token, so that none of them is evidence.
struct Cls;

impl Head for Cls {
    fn needs_cls(&self) -> bool {
        true
    }

    fn features(&self, _: &Params, batch: &Batch) -> Tensor<2> {
        batch.cls.clone().expect("whoever builds the batch checks `needs_cls`")
    }

    fn output(&self, _: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let cls = tokens.cls.as_ref().expect("whoever hands the tokens over checks `needs_cls`");
        let features = cls.iter().map(|&x| f64::from(x)).collect();
        let why = "The CLS head reads the CLS token alone: no patch token speaks for a class";
        HeadOutput { scores: None, form: Form::Opaque { features, why } }
    }

    fn flops(&self, _: u64, _: u64) -> u64 {
        0
    }
}

/// `z = [cls, sum_i u_i / N]`, `[d + d / blocks]`, with `u_i` the last `d / blocks` channels of `t_i`: those of the last of the `blocks`
/// layers that are concatenated in a token. The part of the CLS token is no evidence of any patch token.
struct ClsMean {
    blocks: usize,
}

impl Head for ClsMean {
    fn needs_cls(&self) -> bool {
        true
    }

    fn check(&self, dims: &Dims) -> Result<(), ConfigError> {
        settings::divides("blocks", self.blocks, dims.width)
    }

    fn settings(&self, _: usize) -> Config {
        Config { blocks: Some(self.blocks), ..Config::default() }
    }

    fn features_len(&self, width: usize) -> usize {
        width + width / self.blocks
    }

    fn pooling(&self, _: &Params, _: &Batch) -> Option<Pooling> {
        Some(Pooling::uniform())
    }

    fn finish(&self, params: &Params, pooled: Tensor<3>, batch: &Batch) -> Tensor<2> {
        let mean: Tensor<2> = pooled.squeeze_dim(1);
        let [_, d] = mean.dims();
        let own = d / self.blocks;
        Tensor::cat(vec![Cls.features(params, batch), mean.narrow(1, d - own, own)], 1)
    }

    fn output(&self, _: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let n = tokens.grid.len();
        let cls = tokens.cls.as_ref().expect("whoever hands the tokens over checks `needs_cls`");
        let cls = cls.iter().map(|&x| f64::from(x)).collect();
        let (weights, channels) = (vec![1.0 / n as f64; n], tokens.width / self.blocks);
        HeadOutput { scores: None, form: Form::BesideCls { cls, weights, channels } }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        n * d
    }
}
