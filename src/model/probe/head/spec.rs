//! An entry of the list of heads: how one is called, where the paper's tables have it, and how it is built.

use super::normed::Normed;
use super::scan::{FixedScan, Source};
use super::{Config, ConfigError, Dims, Discretization, Head, Norm, routed};
use crate::model::grid::Grid;
use crate::model::probe::paper_cost::PaperCost;
use crate::model::probe::router::RouterSpec;
use crate::model::probe::router::scan::Scan;

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
#[derive(Clone, Copy)]
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
    pub paper_cost: Option<PaperCost>,
    /// How it is made of its settings.
    pub(super) build: Build,
}

/// The settings of a head, at the paper's sizes.
fn of_paper_size(head: Box<dyn Head>) -> Config {
    head.settings(&Dims { width: 768, grid: Grid::new(14, 14), classes: 2 })
}

/// How a head is made of its settings.
#[derive(Clone, Copy)]
pub(super) enum Build {
    /// By a function of its own.
    Own(fn(&Config) -> Result<Box<dyn Head>, ConfigError>),
    /// By a function of its own, before the norm of the settings; a new training has this one unless it names another.
    Normed(Norm, fn(&Config) -> Result<Box<dyn Head>, ConfigError>),
    /// As the S4 behind a scan of the grid.
    Scan(Scan),
    /// As the S4 behind a learned router.
    Routed(&'static RouterSpec),
}

impl HeadSpec {
    /// The head of these settings.
    pub fn build(&self, config: &Config) -> Result<Box<dyn Head>, ConfigError> {
        match self.build {
            Build::Own(build) => build(config),
            Build::Normed(_, build) => Ok(Normed::by_settings(build(config)?, config)),
            Build::Scan(scan) => FixedScan::boxed(Source::Grid(scan), config),
            Build::Routed(router) => routed::Routed::boxed(router, config),
        }
    }

    /// The settings of a new training from `seed`: what a file that does not name it had otherwise is filled in.
    pub fn begun(&self, config: &Config, seed: u64) -> Config {
        let norm = match self.build {
            Build::Normed(norm, _) => Some(norm),
            _ => None,
        };
        Config { seed: config.seed.or(Some(seed)), norm: config.norm.or(norm), ..config.clone() }
    }

    /// What its starting values are drawn by, beside the seed. The order of a file starts as raster order does: they
    /// differ in their order alone.
    pub fn start_scope(&self) -> &'static str {
        if self.id == super::scan::ORDER.id { Scan::Raster.id() } else { self.id }
    }

    /// What a head of this kind says of itself where nothing is set.
    fn by_default<T: Default>(&self, ask: impl FnOnce(Box<dyn Head>) -> T) -> T {
        self.build(&self.begun(&Config::default(), 0)).map(ask).unwrap_or_default()
    }

    /// Its settings with their defaults, as the paper's sizes have them.
    pub fn settings(&self) -> Config {
        self.by_default(of_paper_size)
    }

    /// The same by name, with those that a file has only where they are not the default.
    pub fn fields(&self) -> Vec<(String, String)> {
        let set = Config { discretization: Some(Discretization::Zoh), gamma: Some(1.0), ..Config::default() };
        let mut fields = self.build(&self.begun(&set, 0)).map(of_paper_size).unwrap_or_default().fields();
        for (name, value) in &mut fields {
            match name.as_str() {
                "discretization" => *value = "bilinear".into(),
                "gamma" => *value = "none".into(),
                _ => {}
            }
        }
        fields
    }

    /// Whether it reads the CLS token, which not every backbone has.
    pub fn needs_cls(&self) -> bool {
        self.by_default(|head| head.needs_cls())
    }

    /// Whether it is a recurrent network: see [`Head::is_recurrent`].
    pub fn is_recurrent(&self) -> bool {
        self.by_default(|head| head.is_recurrent())
    }
}
