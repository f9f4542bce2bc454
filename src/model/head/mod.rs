//! Heads: what reads the tokens (docs/definitions.md, section 4), and the one list of them. One idea a file.

pub mod attention;
mod build;
mod config;
pub mod content;
pub mod cost;
pub mod deepsets;
pub mod efficient;
pub mod gru;
pub(super) mod linear;
pub mod linear_bn;
pub mod mean;
pub mod memory;
mod opaque;
pub mod routed;
pub mod scan;
pub mod scorer;
pub mod sinkhorn_conv;
pub mod sinkhorn_gap;
pub mod transformer;

use burn::tensor::Tensor;

use self::build::{fixed, learned, routed};
use self::config::at_least_one;
pub use self::config::{Config, ConfigError, Sharing};
use self::memory::Kernel;
use self::scan::Source;
use super::array::Arrays;
use super::grid::Grid;
use super::params::{Params, Spec};
use super::pooling::Pooling;
use super::reading::Reading;
use super::router::Router;
use super::router::scan::Scan;
use super::tokens::Tokens;

/// The sizes a head is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Patch tokens, `[B, N, d]`.
    pub patches: Tensor<3>,
    /// CLS tokens, `[B, d]`; absent where the backbone has none.
    pub cls: Option<Tensor<2>>,
    /// How the patch tokens lie over the image.
    pub grid: Grid,
    /// What seeds the random order of each image, `[B]`: the image's index when evaluating, mixed
    /// with the step when training.
    pub draws: Vec<u64>,
    /// Whether this batch is trained on (batch statistics instead of running ones).
    pub training: bool,
}

impl Batch {
    /// The draws of a batch that is trained on.
    fn training_draws(&self) -> Option<Vec<u64>> {
        self.training.then(|| self.draws.clone())
    }
}

/// Reads tokens into features. A pure function of parameters and tokens; the linear classifier
/// behind it belongs to the probe.
pub trait Head: Send + Sync {
    /// The parameters it trains (and its buffers), without the classifier. They depend on the grid
    /// through the length of `order` alone.
    fn specs(&self, dims: &Dims) -> Vec<Spec>;

    /// Whether its settings fit these sizes.
    fn check(&self, dims: &Dims) -> Result<(), ConfigError> {
        let _ = dims;
        Ok(())
    }

    /// Its settings with defaults filled in, so that a file says what was used.
    fn settings(&self, dims: &Dims) -> Config {
        let _ = dims;
        Config::default()
    }

    /// Number of features it hands to the classifier, F.
    fn features_len(&self, dims: &Dims) -> usize {
        dims.width
    }

    /// Whether it reads the CLS token, which not every backbone has.
    fn needs_cls(&self) -> bool {
        false
    }

    /// Its learned router, if it has one.
    fn router(&self) -> Option<&dyn Router> {
        None
    }

    /// What it asks of the patch tokens, where it reads them by weighted sums alone. `None` for heads
    /// that read them in another way, which say all of it in [`features`](Head::features).
    fn pooling(&self, params: &Params, batch: &Batch) -> Option<Pooling> {
        let _ = (params, batch);
        None
    }

    /// Features, `[B, F]`, of what its pooling gave, `[B, M, d]`.
    fn finish(&self, params: &Params, pooled: Tensor<3>, batch: &Batch) -> Tensor<2> {
        let _ = (params, batch);
        pooled.squeeze_dim(1)
    }

    /// Features of a batch, `[B, F]`, differentiable in `params`. Any device. N is at least 2.
    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let pooling = self.pooling(params, batch).expect("a head without pooling has features of its own");
        self.finish(params, pooling.pool(&batch.patches), batch)
    }

    /// Parameters with the buffers updated by what a training batch showed; to be called after each
    /// training step. `pooled`: what its pooling gave, `[B, M, d]`, where that is at hand.
    fn observe(&self, params: Params, batch: &Batch, pooled: Option<Tensor<3>>) -> Params {
        let _ = (batch, pooled);
        params
    }

    /// What it computes once for all images of N tokens: its S4 kernels, one for every direction.
    fn kernels(&self, params: &Arrays, n: usize) -> Vec<Kernel> {
        let _ = (params, n);
        Vec::new()
    }

    /// How it reads one image, in float64 on the host. `params`: effective values, as files hold
    /// them; `kernels`: those of [`kernels`](Head::kernels) for as many tokens; `draw` seeds random
    /// orders as in [`Batch::draws`].
    fn reading_with(&self, params: &Arrays, kernels: &[Kernel], tokens: &Tokens, draw: u64) -> Reading;

    /// [`reading_with`](Head::reading_with) kernels computed for this image alone.
    fn reading(&self, params: &Arrays, tokens: &Tokens, draw: u64) -> Reading {
        self.reading_with(params, &self.kernels(params, tokens.grid.len()), tokens, draw)
    }

    /// Floating point operations of one image, without the classifier; [`cost`] says what counts.
    fn flops(&self, dims: &Dims) -> u64;
}

/// What kind of reading a head is, for lists that people choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Tokens are weighed and averaged; no order.
    Pooling,
    /// S4 reads them in an order that was fixed beforehand.
    Scan,
    /// The order is learned.
    Router,
    /// A network of another make.
    Network,
}

impl Group {
    /// All, in the order of lists.
    pub const ALL: [Self; 4] = [Self::Pooling, Self::Scan, Self::Router, Self::Network];

    /// Its name and what it means.
    pub fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Pooling => ("Pooling", "Tokens are weighed and averaged, in no order"),
            Self::Scan => ("Fixed scans", "S4 reads the tokens in an order that is the same for all images"),
            Self::Router => ("Learned routers", "Tokens are sorted by a learned score before they are read"),
            Self::Network => ("Networks", "Other networks of the paper, for comparison"),
        }
    }
}

/// An entry of the list of heads.
pub struct Kind {
    /// Its id in probe files and on the command line.
    pub id: &'static str,
    /// What it is called on the screen.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What kind of reading it is.
    pub group: Group,
    /// Builds it from its settings, with an error that names the field at fault.
    pub build: fn(&Config) -> Result<Box<dyn Head>, ConfigError>,
}

/// Every head that trains by gradients.
pub const HEADS: &[Kind] = &[
    Kind {
        id: "gap",
        name: "GAP",
        summary: "Mean of the patch tokens",
        group: Group::Pooling,
        build: |_| Ok(Box::new(mean::Gap)),
    },
    Kind {
        id: "cls",
        name: "CLS",
        summary: "The CLS token alone",
        group: Group::Pooling,
        build: |_| Ok(Box::new(mean::Cls)),
    },
    Kind {
        id: "attention",
        name: "Attention",
        summary: "One learned query attends to the tokens",
        group: Group::Pooling,
        build: |_| Ok(Box::new(attention::Attention)),
    },
    Kind {
        id: "content",
        name: "Content",
        summary: "Softmax of the scores, no reordering",
        group: Group::Pooling,
        build: |_| Ok(Box::new(content::Content)),
    },
    Kind {
        id: "topk",
        name: "Top-k",
        summary: "Mean of the best scored tokens",
        group: Group::Pooling,
        build: |config| {
            at_least_one("k", config.k, "a whole number from 1")?;
            Ok(Box::new(content::TopK { k: config.k.unwrap_or(16) }))
        },
    },
    Kind {
        id: "raster",
        name: "Raster",
        summary: "S4 row by row",
        group: Group::Scan,
        build: |config| fixed(Source::Grid(Scan::Raster), config),
    },
    Kind {
        id: "vmamba",
        name: "VMamba",
        summary: "S4 by rows and columns, both ways",
        group: Group::Scan,
        build: |config| fixed(Source::Grid(Scan::Vmamba), config),
    },
    Kind {
        id: "snake",
        name: "Snake",
        summary: "S4 by turning rows and columns, both ways",
        group: Group::Scan,
        build: |config| fixed(Source::Grid(Scan::Snake), config),
    },
    Kind {
        id: "diagonal",
        name: "Diagonal",
        summary: "S4 by diagonals and their mirror images, both ways",
        group: Group::Scan,
        build: |config| fixed(Source::Grid(Scan::Diagonal), config),
    },
    Kind {
        id: "hilbert",
        name: "Hilbert",
        summary: "S4 along Hilbert's curve, both ways",
        group: Group::Scan,
        build: |config| fixed(Source::Grid(Scan::Hilbert), config),
    },
    Kind {
        id: "spiral",
        name: "Spiral",
        summary: "S4 from the border to the centre, both ways",
        group: Group::Scan,
        build: |config| fixed(Source::Grid(Scan::Spiral), config),
    },
    Kind {
        id: "random-fixed",
        name: "Random, fixed",
        summary: "S4 in one random order for all images",
        group: Group::Scan,
        build: |config| fixed(Source::RandomFixed(config.seed.unwrap_or(0)), config),
    },
    Kind {
        id: "random-dynamic",
        name: "Random, dynamic",
        summary: "S4 in a fresh random order for every image",
        group: Group::Scan,
        build: |config| fixed(Source::RandomDynamic(config.seed.unwrap_or(0)), config),
    },
    Kind {
        id: "sinkhorn",
        name: "Sinkhorn",
        summary: "S4 behind Sinkhorn's soft sorting",
        group: Group::Router,
        build: |config| routed("sinkhorn", config),
    },
    Kind {
        id: "neuralsort",
        name: "NeuralSort",
        summary: "S4 behind NeuralSort",
        group: Group::Router,
        build: |config| routed("neuralsort", config),
    },
    Kind {
        id: "softsort",
        name: "SoftSort",
        summary: "S4 behind SoftSort",
        group: Group::Router,
        build: |config| routed("softsort", config),
    },
    Kind {
        id: "hard-sort",
        name: "Hard sort",
        summary: "S4 behind sorting, gradients straight through",
        group: Group::Router,
        build: |config| routed("hard-sort", config),
    },
    Kind {
        id: "gumbel-sinkhorn",
        name: "Gumbel-Sinkhorn",
        summary: "S4 behind Sinkhorn with noise while it trains",
        group: Group::Router,
        build: |config| routed("gumbel-sinkhorn", config),
    },
    Kind {
        id: "sinkhorn-conv",
        name: "Sinkhorn + conv",
        summary: "A convolution behind Sinkhorn",
        group: Group::Router,
        build: |config| {
            let (router, settings) = learned("sinkhorn", config)?;
            Ok(Box::new(sinkhorn_conv::SinkhornConv { router, settings }))
        },
    },
    Kind {
        id: "sinkhorn-gap",
        name: "Sinkhorn + GAP",
        summary: "The mean behind Sinkhorn: routing without memory",
        group: Group::Router,
        build: |config| {
            let (router, settings) = learned("sinkhorn", config)?;
            Ok(Box::new(sinkhorn_gap::SinkhornGap { router, settings }))
        },
    },
    Kind {
        id: "transformer",
        name: "Transformer",
        summary: "A learned CLS through one encoder layer",
        group: Group::Network,
        build: |config| Ok(Box::new(transformer::Transformer::new(config)?)),
    },
    Kind {
        id: "deepsets",
        name: "DeepSets",
        summary: "Mean of a small network's view of each token",
        group: Group::Network,
        build: |_| Ok(Box::new(deepsets::DeepSets)),
    },
    Kind {
        id: "bi-gru",
        name: "Bi-GRU",
        summary: "Recurrent reading, both ways",
        group: Group::Network,
        build: |_| Ok(Box::new(gru::BiGru)),
    },
    Kind {
        id: "linear-bn",
        name: "Linear + BN",
        summary: "Batch-normalised mean of the patch tokens",
        group: Group::Pooling,
        build: |_| Ok(Box::new(linear_bn::LinearBn)),
    },
    Kind {
        id: "efficient",
        name: "Efficient probing",
        summary: "Several learned queries attend to the tokens",
        group: Group::Pooling,
        build: |config| Ok(Box::new(efficient::Efficient::new(config)?)),
    },
];

impl Kind {
    /// Its settings with their defaults, as the paper's sizes have them.
    pub fn settings(&self) -> Config {
        let dims = Dims { width: 768, grid: Grid::new(14, 14), classes: 2 };
        (self.build)(&Config::default()).map(|head| head.settings(&dims)).unwrap_or_default()
    }

    /// Whether it reads the CLS token, which not every backbone has.
    pub fn needs_cls(&self) -> bool {
        (self.build)(&Config::default()).is_ok_and(|head| head.needs_cls())
    }
}

/// The head of this id.
pub fn find(id: &str) -> Option<&'static Kind> {
    HEADS.iter().find(|kind| kind.id == id)
}
