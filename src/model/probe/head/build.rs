//! Heads from their settings: the S4 behind a fixed order, and behind a learned one.

use std::sync::Arc;

use super::routed::Routed;
use super::s4_layer::S4Layer;
use super::scan::{FixedScan, Source};
use super::{Config, ConfigError, Head};
use crate::model::probe::router::{self, Router};

/// Most S4 states: A is held whole, `[S, S]`, once for every direction.
const MOST_STATES: usize = 1024;

/// The S4 of the settings.
fn memory(config: &Config, groups: usize) -> Result<S4Layer, ConfigError> {
    let states = config.state_dim.unwrap_or(128);
    if !(1..=MOST_STATES).contains(&states) {
        let expected = "a whole number from 1 to 1024";
        return Err(ConfigError { field: "state_dim", found: states.to_string(), expected });
    }
    Ok(S4Layer { states, sharing: config.sharing.unwrap_or_default(), groups })
}

/// S4 behind a fixed order.
pub(super) fn fixed(source: Source, config: &Config) -> Result<Box<dyn Head>, ConfigError> {
    Ok(Box::new(FixedScan { source, memory: memory(config, source.directions())? }))
}

/// S4 behind the learned router `id`.
pub(super) fn routed(id: &str, config: &Config) -> Result<Box<dyn Head>, ConfigError> {
    Ok(Box::new(Routed { router: router(id, config)?, memory: memory(config, 1)? }))
}

/// Sinkhorn, for what stands behind it in place of an S4.
pub(super) fn behind_sinkhorn(config: &Config) -> Result<Arc<dyn Router>, ConfigError> {
    router("sinkhorn", config)
}

fn router(id: &str, config: &Config) -> Result<Arc<dyn Router>, ConfigError> {
    let kind = router::find(id).expect("a head names a router of the list");
    Ok((kind.build)(config)?.into())
}
