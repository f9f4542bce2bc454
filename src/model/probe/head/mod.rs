//! Heads map tokens to features (docs/definitions.md, section 4). One idea per file, and the one [list](HEADS) of them.

mod abmilp;
mod attention;
mod coca;
mod content;
pub mod cost;
mod cross;
mod deepsets;
mod efficient;
pub(in crate::model) mod float64;
mod gru;
pub(in crate::model) mod linear;
pub mod mean;
mod normed;
mod routed;
pub mod s4_layer;
pub mod scan;
pub mod scorer;
mod simpool;
mod sinkhorn_conv;
mod sinkhorn_gap;
mod spec;
mod transformer;
mod v_jepa;

use std::sync::LazyLock;

use burn::tensor::{DType, Device};
use serde::{Deserialize, Serialize};

use self::prelude::*;
pub use self::spec::{Group, HeadSpec, Tier};
use super::router::{ROUTERS, Router};
pub use super::settings::{Config, ConfigError, Discretization, Norm, SelfAttention, Sharing};
use crate::model::grid::Grid;
use crate::model::ops::halves::widened;

/// What every head imports.
mod prelude {
    pub(super) use burn::tensor::Tensor;

    pub(super) use super::cost::Counts;
    pub(super) use super::s4_layer::Kernel;
    pub(super) use super::spec::{Build, Group, HeadSpec, Tier};
    pub(super) use super::{Batch, Config, ConfigError, Dims, Head, Norm, cost, float64, linear, scorer};
    pub(super) use crate::model::io::array::Arrays;
    pub(super) use crate::model::ops::matmul::PreciseMatmul as _;
    pub(super) use crate::model::ops::pooling::Pooling;
    pub(super) use crate::model::probe::PaperCost;
    pub(super) use crate::model::probe::head_output::{Form, HeadOutput};
    pub(super) use crate::model::probe::params::{Constraint, HostParams, Init, Params, Spec};
    pub(super) use crate::model::tokens::Tokens;
}

/// Every head that trains by gradients, each tier in the order of its table.
pub static HEADS: LazyLock<Vec<HeadSpec>> = LazyLock::new(|| {
    let pools = [mean::GAP, mean::CLS, attention::SPEC, content::CONTENT, content::TOP_K];
    let networks = [transformer::SPEC, deepsets::SPEC, sinkhorn_conv::SPEC, sinkhorn_gap::SPEC, gru::SPEC];
    let mut heads = pools.to_vec();
    heads.extend(scan::specs());
    heads.extend(ROUTERS.iter().map(HeadSpec::for_router));
    heads.extend(networks);
    heads.extend([mean::CLS_MEAN, mean::LINEAR_BN, efficient::SPEC]);
    heads.extend([abmilp::SPEC, simpool::SPEC, coca::SPEC, v_jepa::SPEC]);
    heads
});

/// The paper's heads.
pub fn of_paper() -> impl Iterator<Item = &'static HeadSpec> {
    HEADS.iter().filter(|spec| spec.in_paper)
}

/// The head of this id: one of the list, or [`ORDER`](scan::ORDER).
pub fn find(id: &str) -> Option<&'static HeadSpec> {
    HEADS.iter().chain([&scan::ORDER]).find(|spec| spec.id == id)
}

/// The sizes a head is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dims {
    /// Hidden size of the backbone, d.
    pub width: usize,
    /// Patch grid; N tokens.
    pub grid: Grid,
    /// Number of classes, C.
    pub classes: usize,
}

/// The tokens of a batch on a device, as heads read them.
#[derive(Clone)]
pub struct Batch {
    /// Patch tokens, `[B, N, d]`. On the CPU, those from a cache may be float16, which a [`Pooling`] reads as it is; heads that read
    /// tokens otherwise get them in [float32](Self::in_float32).
    pub patches: Tensor<3>,
    /// CLS tokens, `[B, d]`; absent where the backbone has none.
    pub cls: Option<Tensor<2>>,
    /// The grid of patches of the image, row by row.
    pub grid: Grid,
    /// Seeds of the random order of each image, `[B]`: the image's index when evaluating, mixed
    /// with the step when training.
    pub image_seeds: Vec<u64>,
    /// Whether this batch is trained on (batch statistics instead of running ones).
    pub training: bool,
}

impl Batch {
    /// The same batch for training: operations on its tokens are recorded for the backward pass.
    pub fn tracked(self) -> Self {
        let (patches, cls) = (self.patches.autodiff(), self.cls.map(Tensor::autodiff));
        Self { patches, cls, training: true, ..self }
    }

    /// The same batch with its patch tokens in float32.
    pub fn in_float32(&self) -> Self {
        if self.patches.dtype() == DType::F32 {
            return self.clone();
        }
        let patches = widened::<3>(self.patches.clone().into_data(), &Device::flex());
        Self { patches: if self.training { patches.autodiff() } else { patches }, ..self.clone() }
    }

    /// The image seeds of a training batch; `None` when evaluating.
    fn training_seeds(&self) -> Option<Vec<u64>> {
        self.training.then(|| self.image_seeds.clone())
    }
}

/// Computes features from tokens. A pure function of parameters and tokens; the linear classifier
/// behind it belongs to the probe.
pub trait Head: Send + Sync {
    /// The parameters it trains (and its buffers), without the classifier. They depend on the grid
    /// through the length of `order` alone.
    fn specs(&self, _dims: &Dims) -> Vec<Spec> {
        Vec::new()
    }

    /// An error unless its settings fit these sizes.
    fn check(&self, _dims: &Dims) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Its settings for tokens of this width, with defaults filled in, so that a file says what was used.
    fn settings(&self, _width: usize) -> Config {
        self.router().map_or_else(Config::default, Router::settings)
    }

    /// Number of features it makes of tokens of this width for the classifier, F.
    fn features_len(&self, width: usize) -> usize {
        width
    }

    /// Whether it reads the CLS token, which not every backbone has.
    fn needs_cls(&self) -> bool {
        false
    }

    /// Whether it reads the tokens one after another, in an order that the images do not change.
    fn has_fixed_order(&self) -> bool {
        false
    }

    /// Whether it normalises its features over the images of a training step: nothing is left of those of a single one.
    fn normalises_batch(&self) -> bool {
        false
    }

    /// Whether it reads the tokens in raster order, one after another from both ends, without being linear in them:
    /// its order can then be shown and changed although it has no exact evidence.
    fn is_recurrent(&self) -> bool {
        false
    }

    /// Whether it makes a hard choice of tokens or of their order: its output then has no gradient through the choice, and
    /// [`features`](Head::features) have the surrogate gradient that it is trained by.
    fn has_hard_choice(&self) -> bool {
        self.router().is_some_and(|router| !router.is_soft())
    }

    /// Whether it draws random numbers on the host for every image of a training batch.
    fn draws(&self) -> bool {
        self.router().is_some_and(Router::draws)
    }

    /// Its learned router, if it has one.
    fn router(&self) -> Option<&dyn Router> {
        None
    }

    /// The weighted sums that it computes of the patch tokens, if it uses nothing else of them. `None` for heads
    /// that read them in another way, which implement [`features`](Head::features) themselves.
    fn pooling(&self, _params: &Params, _batch: &Batch) -> Option<Pooling> {
        None
    }

    /// Raw features, `[B, F]`, from the sums that its pooling gives, `[B, M, d]`.
    fn finish(&self, _params: &Params, pooled: Tensor<3>, _batch: &Batch) -> Tensor<2> {
        pooled.squeeze_dim(1)
    }

    /// Features of a batch, `[B, F]`, before they are [`normalise`](Head::normalise)d.
    fn raw_features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        self.features(params, batch)
    }

    /// The classifier's input from raw features, `[B, F]`; `training`: by the statistics of the batch itself.
    fn normalise(&self, _params: &Params, raw: Tensor<2>, _training: bool) -> Tensor<2> {
        raw
    }

    /// Features of a batch, `[B, F]`, differentiable in `params`. Any device. N is at least 2.
    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let pooling = self.pooling(params, batch).expect("a head without pooling has features of its own");
        self.finish(params, pooling.pool(&batch.patches), batch)
    }

    /// Parameters with the buffers updated by a training batch; to be called in each training step, before the
    /// optimiser changes the other parameters. `_raw`: its [`raw_features`](Head::raw_features), detached.
    fn observe(&self, params: Params, _raw: Tensor<2>) -> Params {
        params
    }

    /// Its S4 kernels, one for every direction, which are the same for all images of N tokens.
    fn kernels(&self, _params: &Arrays, _n: usize) -> Vec<Kernel> {
        Vec::new()
    }

    /// How it reads one image, in float64 on the host. `params`: effective values, as files hold them, and the
    /// [`kernels`](Head::kernels) for as many tokens; `image_seed` seeds random orders as in [`Batch::image_seeds`].
    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, image_seed: u64) -> HeadOutput;

    /// Floating point operations of one image of N tokens of width d, without the classifier; [`cost`] says what
    /// counts.
    fn flops(&self, n: u64, d: u64) -> u64;

    /// The operations of the same head written with PyTorch's layers, for N tokens of width d, without the classifier; none for
    /// one without products.
    fn counts(&self, _n: u64, _d: u64) -> Counts {
        Counts::default()
    }
}
