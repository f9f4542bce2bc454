//! Heads from their settings: the S4 behind a fixed order, and behind a learned one.

use std::sync::Arc;

use super::Head;
use super::config::{Config, ConfigError};
use super::memory::Memory;
use super::routed::Routed;
use super::scan::{FixedScan, Source};
use crate::model::router::sinkhorn::Sinkhorn;
use crate::model::router::{self, Router};

/// Most S4 states: A is held whole, `[S, S]`, once for every direction.
const MOST_STATES: usize = 1024;

/// The S4 of the settings.
fn memory(config: &Config, groups: usize) -> Result<Memory, ConfigError> {
    let states = config.state_dim.unwrap_or(128);
    if !(1..=MOST_STATES).contains(&states) {
        let expected = "a whole number from 1 to 1024";
        return Err(ConfigError { field: "state_dim", found: states.to_string(), expected });
    }
    Ok(Memory { states, sharing: config.sharing.unwrap_or_default(), groups })
}

/// S4 behind a fixed order.
pub(super) fn fixed(source: Source, config: &Config) -> Result<Box<dyn Head>, ConfigError> {
    Ok(Box::new(FixedScan { source, memory: memory(config, source.directions())? }))
}

/// S4 behind the learned router `id`.
pub(super) fn routed(id: &'static str, config: &Config) -> Result<Box<dyn Head>, ConfigError> {
    let (router, settings) = learned(id, config)?;
    Ok(Box::new(Routed { id, router, settings, memory: memory(config, 1)? }))
}

/// The learned router `id`, and those of its settings that it knows, defaults filled in.
pub(super) fn learned(id: &str, config: &Config) -> Result<(Arc<dyn Router>, Config), ConfigError> {
    let kind = router::find(id).expect("a head names a router of the list");
    let sinkhorn = Sinkhorn::default();
    let temperature = |default: f64| Some(config.temperature.unwrap_or(default));
    let settings = match id {
        "sinkhorn" | "gumbel-sinkhorn" => Config {
            temperature: temperature(sinkhorn.temperature),
            iterations: Some(config.iterations.unwrap_or(sinkhorn.iterations)),
            ..Config::default()
        },
        "softsort" => Config {
            temperature: temperature(1.0),
            power: Some(config.power.unwrap_or(2)),
            ..Config::default()
        },
        _ => Config { temperature: temperature(1.0), ..Config::default() },
    };
    Ok(((kind.build)(&settings)?.into(), settings))
}
