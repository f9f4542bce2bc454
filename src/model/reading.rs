//! How a probe read an image, if not as it was trained: one description for the window, flags, traces, figures and
//! file names.
//!
//! An [`Intervention`] is the one change to the order or to the router; a [`Reading`] is that and every other change:
//! the tokens, the class that was asked for, the proxy's decay, the seed of null models.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::hand_order::HandOrder;
use super::io::escape::slug;
use super::order_file;
use super::probe::router::TEMPERATURES;
use super::probe::router::sinkhorn::ITERATIONS;

/// A change to how a probe reads. [`Display`] gives words for the screen; [`FromStr`] parses the command line's
/// syntax.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intervention {
    /// Nothing.
    #[default]
    None,
    /// The positions of the learned order are permuted before the S4, by this seed: the paper's
    /// "scramble after routing".
    Scrambled(u64),
    /// The same of the hardened plan: the paper's own permutation of indices.
    ScrambledHard(u64),
    /// Every token is read whole, at one position, assigned greedily from the largest entries of the plan.
    Hardened,
    /// The tokens are read row by row.
    NoRouting,
    /// The tokens are read in a random order, by this seed.
    Random(u64),
    /// The tokens are read in this order, by every sweep.
    Order(HandOrder),
    /// Only this many tokens, those read last, are kept.
    Last(usize),
    /// The router has another temperature.
    Temperature(f64),
    /// The router makes another number of iterations.
    Iterations(usize),
}

impl Intervention {
    /// The syntax of [`FromStr`], for help and errors.
    pub const SYNTAX: &str = "as-trained, scrambled[=SEED], scrambled-hard[=SEED], hardened, no-routing, random-order[=SEED], order=FILE, last=R, \
         temperature=T (1e-4 to 1e4) or iterations=K (1 to 10000)";

    /// Whether nothing is changed.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// An identifier for file names, such as `scrambled-0`.
    pub fn id(&self) -> String {
        match self {
            Self::None => "as-trained".into(),
            Self::Scrambled(seed) => format!("scrambled-{seed}"),
            Self::ScrambledHard(seed) => format!("scrambled-hard-{seed}"),
            Self::Hardened => "hardened".into(),
            Self::NoRouting => "no-routing".into(),
            Self::Random(seed) => format!("random-order-{seed}"),
            Self::Order(order) => order.id(),
            Self::Last(tokens) => format!("last-{tokens}"),
            Self::Temperature(temperature) => format!("temperature-{temperature}"),
            Self::Iterations(iterations) => format!("iterations-{iterations}"),
        }
    }
}

impl Display for Intervention {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("as trained"),
            Self::Scrambled(seed) => write!(f, "scrambled after routing, seed {seed}"),
            Self::ScrambledHard(seed) => write!(f, "hardened plan, scrambled, seed {seed}"),
            Self::Hardened => f.write_str("hardened plan"),
            Self::NoRouting => f.write_str("no routing"),
            Self::Random(seed) => write!(f, "random order, seed {seed}"),
            Self::Order(order) => f.write_str(&order.words()),
            Self::Last(1) => f.write_str("the last token alone"),
            Self::Last(tokens) => write!(f, "the last {tokens} tokens alone"),
            Self::Temperature(temperature) => write!(f, "temperature {temperature}"),
            Self::Iterations(1) => f.write_str("1 iteration"),
            Self::Iterations(iterations) => write!(f, "{iterations} iterations"),
        }
    }
}

impl FromStr for Intervention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        fn number<T: FromStr>(text: &str) -> Option<T> {
            text.parse().ok()
        }
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let seed = value.map_or(Some(0), number);
        let parsed = match (name, value) {
            ("as-trained", None) => Some(Self::None),
            ("hardened", None) => Some(Self::Hardened),
            ("no-routing", None) => Some(Self::NoRouting),
            ("scrambled", _) => seed.map(Self::Scrambled),
            ("scrambled-hard", _) => seed.map(Self::ScrambledHard),
            ("random-order", _) => seed.map(Self::Random),
            ("order", Some(file)) => {
                let order = order_file::read(Path::new(file)).map_err(|error| error.to_string())?;
                Some(Self::Order(order))
            }
            ("temperature", Some(value)) => {
                number(value).filter(|t: &f64| TEMPERATURES.contains(t)).map(Self::Temperature)
            }
            ("last", Some(value)) => number(value).filter(|r| *r > 0).map(Self::Last),
            ("iterations", Some(value)) => {
                number(value).filter(|k: &usize| ITERATIONS.contains(k)).map(Self::Iterations)
            }
            _ => None,
        };
        parsed.ok_or_else(|| format!("expected {}", Self::SYNTAX))
    }
}

/// Everything that was changed in how a probe read an image. Fields without a change are not written to files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reading {
    /// The change to the order or to the router.
    #[serde(skip_serializing_if = "Intervention::is_none")]
    pub change: Intervention,
    /// How the tokens differ from those that the probe was trained on: `layer 6`, `96 px`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
    /// The class that was asked for, instead of the predicted one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The proxy's decay per step, instead of the spectral radius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rho: Option<f64>,
    /// Seed of null bands and of untrained scorers, if it is not 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Reading {
    /// Whether nothing was changed.
    pub fn is_as_trained(&self) -> bool {
        *self == Self::default()
    }

    /// All changes except the class, in words, for the title of a figure, which names its class itself.
    pub fn changes(&self) -> Option<String> {
        let change = (!self.change.is_none()).then(|| self.change.to_string());
        let rho = self.rho.map(|rho| format!("proxy decay {rho}"));
        let seed = self.seed.map(|seed| format!("null seed {seed}"));
        let all: Vec<String> =
            change.into_iter().chain(self.tokens.iter().cloned()).chain(rho).chain(seed).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// An identifier for file names, such as `random-order-0-layer-6`; empty if nothing was changed.
    pub fn id(&self) -> String {
        let change = (!self.change.is_none()).then(|| self.change.id());
        let parts = change.into_iter().chain(self.tokens.iter().map(|text| slug(text)));
        let parts = parts.chain(self.class.as_ref().map(|class| format!("for-{}", slug(class))));
        let parts = parts.chain(self.rho.map(|rho| format!("rho-{rho}")));
        parts.chain(self.seed.map(|seed| format!("seed-{seed}"))).collect::<Vec<_>>().join("-")
    }
}

impl Display for Reading {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let class = self.class.as_ref().map(|class| format!("evidence for {class}"));
        let all: Vec<String> = self.changes().into_iter().chain(class).collect();
        f.write_str(if all.is_empty() { "as trained" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_and_named() {
        for (flag, change) in [
            ("as-trained", Intervention::None),
            ("scrambled=7", Intervention::Scrambled(7)),
            ("scrambled-hard=2", Intervention::ScrambledHard(2)),
            ("hardened", Intervention::Hardened),
            ("no-routing", Intervention::NoRouting),
            ("random-order=0", Intervention::Random(0)),
            ("temperature=0.05", Intervention::Temperature(0.05)),
            ("last=49", Intervention::Last(49)),
            ("iterations=5", Intervention::Iterations(5)),
        ] {
            assert_eq!(change.id(), flag.replace('=', "-"));
            assert_eq!(flag.parse(), Ok(change));
        }
        assert_eq!("scrambled".parse(), Ok(Intervention::Scrambled(0)));
        for wrong in [
            "",
            "sorted",
            "temperature",
            "temperature=0",
            "temperature=nan",
            "temperature=1e30",
            "iterations=0",
            "iterations=10001",
            "last=0",
            "no-routing=1",
        ] {
            let error = wrong.parse::<Intervention>().unwrap_err();
            let ranges = ["temperature=T (1e-4 to 1e4)", "iterations=K (1 to 10000)"];
            assert!(ranges.iter().all(|range| error.contains(range)), "{wrong}: {error}");
        }
    }

    #[test]
    fn every_change_is_said_and_named() {
        let reading = Reading {
            change: Intervention::Random(3),
            tokens: vec!["layer 6".into(), "96 px".into()],
            class: Some("great auk".into()),
            rho: Some(0.5),
            seed: Some(2),
        };
        let words =
            "random order, seed 3, layer 6, 96 px, proxy decay 0.5, null seed 2, evidence for great auk";
        assert_eq!(reading.to_string(), words);
        assert_eq!(reading.id(), "random-order-3-layer-6-96-px-for-great-auk-rho-0.5-seed-2");
        let kept = serde_json::to_string(&reading).unwrap();
        assert_eq!(serde_json::from_str::<Reading>(&kept).unwrap(), reading);
        let none = Reading::default();
        assert_eq!((none.to_string(), none.id(), none.changes()), ("as trained".into(), String::new(), None));
        assert_eq!(serde_json::to_string(&none).unwrap(), "{}");
    }
}
