//! The list of heads: how they are called, where the paper's tables have them, and how they are built.

use super::build::{behind_sinkhorn, fixed, routed};
use super::cost::Paper;
use super::scan::Source;
use super::{
    Config, ConfigError, Dims, Head, attention, content, deepsets, efficient, gru, linear_bn, mean,
    sinkhorn_conv, sinkhorn_gap, transformer,
};
use crate::model::grid::Grid;
use crate::model::probe::router::scan::Scan;
use crate::model::probe::settings::at_least_one;

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

/// In which tier of the paper's main table a head stands, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Neither order nor learned weights.
    Floor,
    /// A fixed order.
    Order,
    /// Learned weights, no order.
    Content,
    /// A learned order.
    Full,
    /// What the others are compared with.
    Ablation,
}

impl Tier {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "Floor",
            Self::Order => "Order only",
            Self::Content => "Content only",
            Self::Full => "Full",
            Self::Ablation => "Ablation",
        }
    }
}

/// An entry of the list of heads.
pub struct HeadSpec {
    /// Its id in probe files and on the command line.
    pub id: &'static str,
    /// What it is called on the screen.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What kind of reading it is.
    pub group: Group,
    /// Where the paper's main table has it, or would.
    pub tier: Tier,
    /// Whether it is one of the paper's.
    pub in_paper: bool,
    /// What the paper says that it costs.
    pub paper_cost: Option<Paper>,
    /// Builds it from its settings, with an error that names the field at fault.
    pub build: fn(&Config) -> Result<Box<dyn Head>, ConfigError>,
}

/// Every head that trains by gradients, each tier in the order of its table.
pub const HEADS: &[HeadSpec] = &[
    HeadSpec {
        id: "gap",
        name: "GAP",
        summary: "Mean of the patch tokens",
        group: Group::Pooling,
        tier: Tier::Floor,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 0.77, flops: 1.54 }),
        build: |_| Ok(Box::new(mean::Gap)),
    },
    HeadSpec {
        id: "cls",
        name: "CLS",
        summary: "The CLS token alone",
        group: Group::Pooling,
        tier: Tier::Floor,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 0.77, flops: 1.54 }),
        build: |_| Ok(Box::new(mean::Cls)),
    },
    HeadSpec {
        id: "attention",
        name: "Attention",
        summary: "One learned query attends to the tokens",
        group: Group::Pooling,
        tier: Tier::Content,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 0.77, flops: 2.14 }),
        build: |_| Ok(Box::new(attention::Attention)),
    },
    HeadSpec {
        id: "content",
        name: "Content",
        summary: "Softmax of the scores, no reordering",
        group: Group::Pooling,
        tier: Tier::Content,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 0.77, flops: 2.14 }),
        build: |_| Ok(Box::new(content::Content)),
    },
    HeadSpec {
        id: "topk",
        name: "Top-k",
        summary: "Mean of the best scored tokens",
        group: Group::Pooling,
        tier: Tier::Ablation,
        in_paper: true,
        paper_cost: None,
        build: |config| {
            at_least_one("k", config.k, "a whole number from 1")?;
            Ok(Box::new(content::TopK { k: config.k.unwrap_or(16) }))
        },
    },
    HeadSpec {
        id: "raster",
        name: "Raster",
        summary: "S4 row by row",
        group: Group::Scan,
        tier: Tier::Order,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 0.97, flops: 0.77 }),
        build: |config| fixed(Source::Grid(Scan::Raster), config),
    },
    HeadSpec {
        id: "vmamba",
        name: "VMamba",
        summary: "S4 by rows and columns, both ways",
        group: Group::Scan,
        tier: Tier::Order,
        in_paper: true,
        paper_cost: None,
        build: |config| fixed(Source::Grid(Scan::Vmamba), config),
    },
    HeadSpec {
        id: "snake",
        name: "Snake",
        summary: "S4 by turning rows and columns, both ways",
        group: Group::Scan,
        tier: Tier::Order,
        in_paper: true,
        paper_cost: None,
        build: |config| fixed(Source::Grid(Scan::Snake), config),
    },
    HeadSpec {
        id: "diagonal",
        name: "Diagonal",
        summary: "S4 by diagonals and their mirror images, both ways",
        group: Group::Scan,
        tier: Tier::Order,
        in_paper: true,
        paper_cost: None,
        build: |config| fixed(Source::Grid(Scan::Diagonal), config),
    },
    HeadSpec {
        id: "hilbert",
        name: "Hilbert",
        summary: "S4 along Hilbert's curve, both ways",
        group: Group::Scan,
        tier: Tier::Order,
        in_paper: false,
        paper_cost: None,
        build: |config| fixed(Source::Grid(Scan::Hilbert), config),
    },
    HeadSpec {
        id: "spiral",
        name: "Spiral",
        summary: "S4 from the border to the centre, both ways",
        group: Group::Scan,
        tier: Tier::Order,
        in_paper: false,
        paper_cost: None,
        build: |config| fixed(Source::Grid(Scan::Spiral), config),
    },
    HeadSpec {
        id: "random-fixed",
        name: "Random, fixed",
        summary: "S4 in one random order for all images",
        group: Group::Scan,
        tier: Tier::Order,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 0.97, flops: 0.77 }),
        build: |config| fixed(Source::RandomFixed(config.seed.unwrap_or(0)), config),
    },
    HeadSpec {
        id: "random-dynamic",
        name: "Random, dynamic",
        summary: "S4 in a fresh random order for every image",
        group: Group::Scan,
        tier: Tier::Order,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 0.97, flops: 0.77 }),
        build: |config| fixed(Source::RandomDynamic(config.seed.unwrap_or(0)), config),
    },
    HeadSpec {
        id: "sinkhorn",
        name: "Sinkhorn",
        summary: "S4 behind Sinkhorn's soft sorting",
        group: Group::Router,
        tier: Tier::Full,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 0.97, flops: 103.99 }),
        build: |config| routed("sinkhorn", config),
    },
    HeadSpec {
        id: "gumbel-sinkhorn",
        name: "Gumbel-Sinkhorn",
        summary: "S4 behind Sinkhorn with noise while it trains",
        group: Group::Router,
        tier: Tier::Full,
        in_paper: false,
        paper_cost: None,
        build: |config| routed("gumbel-sinkhorn", config),
    },
    HeadSpec {
        id: "softsort",
        name: "SoftSort",
        summary: "S4 behind SoftSort",
        group: Group::Router,
        tier: Tier::Full,
        in_paper: true,
        paper_cost: None,
        build: |config| routed("softsort", config),
    },
    HeadSpec {
        id: "neuralsort",
        name: "NeuralSort",
        summary: "S4 behind NeuralSort",
        group: Group::Router,
        tier: Tier::Full,
        in_paper: true,
        paper_cost: None,
        build: |config| routed("neuralsort", config),
    },
    HeadSpec {
        id: "hard-sort",
        name: "Hard sort",
        summary: "S4 behind sorting, gradients straight through",
        group: Group::Router,
        tier: Tier::Full,
        in_paper: false,
        paper_cost: None,
        build: |config| routed("hard-sort", config),
    },
    HeadSpec {
        id: "transformer",
        name: "Transformer",
        summary: "A learned CLS through one encoder layer",
        group: Group::Network,
        tier: Tier::Ablation,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 3.43, flops: 120.15 }),
        build: |config| Ok(Box::new(transformer::Transformer::new(config)?)),
    },
    HeadSpec {
        id: "deepsets",
        name: "DeepSets",
        summary: "Mean of a small network's view of each token",
        group: Group::Network,
        tier: Tier::Ablation,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 1.07, flops: 118.35 }),
        build: |_| Ok(Box::new(deepsets::DeepSets)),
    },
    HeadSpec {
        id: "sinkhorn-conv",
        name: "Sinkhorn + conv",
        summary: "A convolution behind Sinkhorn",
        group: Group::Router,
        tier: Tier::Ablation,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 0.93, flops: 289.70 }),
        build: |config| Ok(Box::new(sinkhorn_conv::SinkhornConv { router: behind_sinkhorn(config)? })),
    },
    HeadSpec {
        id: "sinkhorn-gap",
        name: "Sinkhorn + GAP",
        summary: "The mean behind Sinkhorn: routing without memory",
        group: Group::Router,
        tier: Tier::Ablation,
        in_paper: true,
        paper_cost: None,
        build: |config| Ok(Box::new(sinkhorn_gap::SinkhornGap { router: behind_sinkhorn(config)? })),
    },
    HeadSpec {
        id: "bi-gru",
        name: "Bi-GRU",
        summary: "Recurrent reading, both ways",
        group: Group::Network,
        tier: Tier::Ablation,
        in_paper: true,
        paper_cost: Some(Paper { parameters: 0.95, flops: 271.56 }),
        build: |_| Ok(Box::new(gru::BiGru)),
    },
    HeadSpec {
        id: "linear-bn",
        name: "Linear + BN",
        summary: "Batch-normalised mean of the patch tokens",
        group: Group::Pooling,
        tier: Tier::Floor,
        in_paper: false,
        paper_cost: None,
        build: |_| Ok(Box::new(linear_bn::LinearBn)),
    },
    HeadSpec {
        id: "efficient",
        name: "Efficient probing",
        summary: "Several learned queries attend to the tokens",
        group: Group::Pooling,
        tier: Tier::Content,
        in_paper: false,
        paper_cost: None,
        build: |config| Ok(Box::new(efficient::Efficient::new(config)?)),
    },
];

impl HeadSpec {
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

/// The paper's heads.
pub fn of_paper() -> impl Iterator<Item = &'static HeadSpec> {
    HEADS.iter().filter(|kind| kind.in_paper)
}

/// The head of this id.
pub fn find(id: &str) -> Option<&'static HeadSpec> {
    HEADS.iter().find(|kind| kind.id == id)
}
