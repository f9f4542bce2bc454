//! An entry of the list of heads: its names, its place in the paper's tables, and how it is built.

use serde_json::Value;

use super::normed::Normed;
use super::routed::RoutedScan;
use super::scan::{FixedScan, Source};
use super::{Config, ConfigError, Discretization, Head, Norm};
use crate::model::probe::PaperCost;
use crate::model::probe::router::RouterSpec;
use crate::model::probe::router::scan::{RASTER, Scan};

listed! {
    /// The kind of a head, by which lists are grouped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Group {
        /// Tokens are weighed and averaged; no order.
        Pooling: "Pooling";
        /// S4 reads them in an order that was fixed beforehand.
        Scan: "Fixed scans";
        /// The order is learned.
        Router: "Learned routers";
        /// Another network.
        Network: "Networks";
    }
}

impl Group {
    /// Its description, as users see it.
    pub fn about(self) -> &'static str {
        match self {
            Self::Pooling => "Weighted means of the tokens, in no order",
            Self::Scan => "S4 reads the tokens in an order that is the same for all images",
            Self::Router => "Tokens are sorted by a learned score before they are read",
            Self::Network => "Other networks of the paper, for comparison",
        }
    }
}

listed! {
    /// The tiers of the paper's main table, in its order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Tier {
        /// Neither order nor learned weights.
        Floor: "Floor";
        /// A fixed order.
        Order: "Order only";
        /// Learned weights, no order.
        Content: "Content only";
        /// A learned order.
        Full: "Full";
        /// What the others are compared with.
        Ablation: "Ablation";
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
    /// Its group in lists.
    pub group: Group,
    /// Its tier in the paper's main table, or the one where it would stand.
    pub tier: Tier,
    /// Whether it is one of the paper's.
    pub in_paper: bool,
    /// Its cost in the paper's table.
    pub paper_cost: Option<PaperCost>,
    /// How it is built from its settings.
    pub(super) build: Build,
}

/// The width of tokens in the paper.
const PAPER_WIDTH: usize = 768;

/// How a head is built from its settings.
#[derive(Clone, Copy)]
pub(super) enum Build {
    /// By a function of its own.
    Own(fn(&Config) -> Result<Box<dyn Head>, ConfigError>),
    /// By a function of its own, followed by the norm of the settings; new trainings use this one unless they name another.
    Normed(Norm, fn(&Config) -> Result<Box<dyn Head>, ConfigError>),
    /// As the S4 behind a scan of the grid.
    Scan(&'static Scan),
    /// As the S4 behind a learned router.
    Routed(&'static RouterSpec),
}

impl HeadSpec {
    /// The head with these settings; fails where one is out of range.
    pub fn build(&self, config: &Config) -> Result<Box<dyn Head>, ConfigError> {
        match self.build {
            Build::Own(build) => build(config),
            Build::Normed(_, build) => Ok(Normed::by_settings(build(config)?, config)),
            Build::Scan(scan) => FixedScan::boxed(Source::Grid(scan), config),
            Build::Routed(router) => RoutedScan::boxed(router, config),
        }
    }

    /// The settings of a new training from `seed`: fills in those whose default differs in a file that does not name them.
    pub fn begun(&self, config: &Config, seed: u64) -> Config {
        let norm = match self.build {
            Build::Normed(norm, _) => Some(norm),
            _ => None,
        };
        Config { seed: config.seed.or(Some(seed)), norm: config.norm.or(norm), ..config.clone() }
    }

    /// The scope from which, with the seed, its initial values are drawn. The order of a file shares that of raster order:
    /// the two then only differ in their order.
    pub fn start_scope(&self) -> &'static str {
        if self.id == super::scan::ORDER.id { RASTER.id } else { self.id }
    }

    /// The head of a new training with these settings, which are known to be within their ranges.
    fn new_head(&self, config: &Config) -> Box<dyn Head> {
        self.build(&self.begun(config, 0)).expect("settings within their ranges")
    }

    /// Its default settings for tokens of the paper's width.
    pub fn settings(&self) -> Config {
        self.new_head(&Config::default()).settings(PAPER_WIDTH)
    }

    /// [`settings`](Self::settings) by name, together with those that files only hold where they are not the default.
    pub fn fields(&self) -> Vec<(String, String)> {
        let set = Config { discretization: Some(Discretization::Zoh), gamma: Some(1.0), ..Config::default() };
        let mut fields = self.new_head(&set).settings(PAPER_WIDTH).fields();
        for (name, value) in &mut fields {
            match name.as_str() {
                "discretization" => *value = "bilinear".into(),
                "gamma" => *value = "none".into(),
                _ => {}
            }
        }
        fields
    }

    /// Whether it has the setting `key`.
    pub fn has(&self, key: &str) -> bool {
        self.fields().iter().any(|(name, _)| name == key)
    }

    /// `config` without the settings that other heads have.
    pub fn own_settings(&self, config: &Config) -> Config {
        let known = self.fields();
        let is_own = |name: &String| known.iter().any(|(own, _)| own == name);
        let Ok(Value::Object(mut fields)) = serde_json::to_value(config) else { return config.clone() };
        fields.retain(|name, _| is_own(name) || name == "order" || config.rest.contains_key(name));
        serde_json::from_value(Value::Object(fields)).unwrap_or_else(|_| config.clone())
    }

    /// Whether it reads the CLS token, which not every backbone has.
    pub fn needs_cls(&self) -> bool {
        self.new_head(&Config::default()).needs_cls()
    }

    /// Whether it is a recurrent network: see [`Head::is_recurrent`].
    pub fn is_recurrent(&self) -> bool {
        self.new_head(&Config::default()).is_recurrent()
    }
}
