//! Stability of one image's order under small changes of the image, and between probes trained with
//! different seeds: Kendall's tau-b between the positions of tokens before and after, each token compared with
//! the one that shows the same part of the scene. Plain host data, computed by a [`Measurement`].
//!
//! Null: between two random orders of `n` tokens tau has mean 0 and variance
//! `2 (2n + 5) / (9 n (n - 1))` (Kendall 1938) and is close to normal from `n = 10` on; the null band
//! is its 5th to 95th percentile.

pub mod perturb;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::perturb::Perturbation;
use super::image_reading::ImageReading;
use super::intervention::{Intervention, InterventionError};
use crate::model::data::synsets;
use crate::model::io::Format;
use crate::model::probe::settings::Config;
use crate::model::probe::{Meta, Probe};
use crate::model::reading::Reading;
use crate::model::stats::kendall;
use crate::model::tokens::Tokens;

/// Name of the group of taus between probes of different seeds.
pub const OTHER_SEEDS: &str = "Other seeds";

/// Stability of the order of one image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    /// Version of the file format; absent in files of earlier versions.
    #[serde(default)]
    pub format: Format<1>,
    /// Name of the image's file.
    pub image: String,
    /// Name of the probe's file.
    pub probe: String,
    /// Head id.
    pub head: String,
    /// How the probe read the image.
    #[serde(default, skip_serializing_if = "Reading::is_as_trained")]
    pub reading: Reading,
    /// Number of tokens.
    pub tokens: usize,
    /// Taus by kind of change, in the order of [`perturb::kinds`], then of other seeds.
    pub groups: Vec<Group>,
    /// 5th and 95th percentile of tau between random orders.
    pub null: (f64, f64),
}

/// Taus of one kind of change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The kind.
    pub name: String,
    /// Every change of the kind, in words, with its tau.
    pub taus: Vec<(String, f64)>,
}

impl Group {
    /// Mean tau.
    pub fn mean(&self) -> f64 {
        self.taus.iter().map(|(_, tau)| tau).sum::<f64>() / self.taus.len() as f64
    }
}

/// Why there is no order to compare.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The probe does not fit the tokens, or the intervention does not apply to it.
    #[error(transparent)]
    Intervention(#[from] InterventionError),
    #[error("{head} has no single order; choose a probe with a router")]
    None { head: String },
}

/// Position of every token of an image, `[N]`, from 0 (first) to 1 (last). `image_seed`, the image's index in
/// its dataset (also for its changed copies), seeds random orders.
pub fn order(
    probe: &Probe,
    change: Intervention,
    tokens: &Tokens,
    image_seed: u64,
) -> Result<Vec<f64>, OrderError> {
    let reading = ImageReading::new(probe, change, tokens, image_seed)?;
    let positions = reading.positions(reading.plan_stats().as_ref());
    positions.ok_or_else(|| OrderError::None { head: probe.meta.head.clone() })
}

/// What to measure: the order of an image by a probe, against changed copies and other probes.
pub struct Measurement<'a> {
    /// Name of the image's file.
    pub image: String,
    /// Name of the probe's file.
    pub name: String,
    /// The probe.
    pub probe: &'a Probe,
    /// How it reads the image.
    pub reading: Reading,
    /// Seed of random orders.
    pub image_seed: u64,
    /// Probes that may differ in their seed alone, with the names of their files; others are left out.
    pub peers: Vec<(String, &'a Probe)>,
}

impl Measurement<'_> {
    /// Takes the measurement. `tokens` are those of the image, then of each changed copy, in the order of `kinds`.
    ///
    /// # Panics
    /// If `tokens` has another length: a bug in the caller.
    pub fn take(
        self,
        tokens: &[Tokens],
        kinds: &[(String, Vec<Perturbation>)],
    ) -> Result<Stability, OrderError> {
        let Self { image, name, probe, reading, image_seed, peers } = self;
        let change = reading.change.clone();
        let changes = || kinds.iter().flat_map(|(_, changes)| changes);
        assert_eq!(tokens.len(), 1 + changes().count(), "tokens of an image and its changed copies");
        let orders: Vec<Vec<f64>> = tokens
            .par_iter()
            .map(|tokens| order(probe, change.clone(), tokens, image_seed))
            .collect::<Result<_, _>>()?;
        let (first, grid) = (&orders[0], tokens[0].grid);
        let tau = |changed: &[f64], change: Perturbation| {
            let before: Vec<f64> = change.source_patches(grid).into_iter().map(|i| first[i]).collect();
            kendall(changed, &before)
        };
        let mut rest = orders[1..].iter();
        let group = |(name, own): &(String, Vec<Perturbation>)| {
            let taus =
                own.iter().zip(rest.by_ref()).map(|(change, order)| (change.text(), tau(order, *change)));
            Group { name: name.clone(), taus: taus.collect() }
        };
        let mut groups: Vec<Group> = kinds.iter().map(group).collect();
        let peers = peers.into_iter().filter(|(_, peer)| differ_in_seed(&probe.meta, &peer.meta));
        let tau_of_peer = |(name, peer): (String, &Probe)| {
            Some((name, kendall(&order(peer, change.clone(), &tokens[0], image_seed).ok()?, first)))
        };
        let mut taus: Vec<(String, f64)> = peers.filter_map(tau_of_peer).collect();
        taus.sort_by(|a, b| a.0.cmp(&b.0));
        if !taus.is_empty() {
            groups.push(Group { name: OTHER_SEEDS.to_owned(), taus });
        }
        let head = probe.meta.head.clone();
        let (tokens, null) = (grid.len(), null(grid.len()));
        Ok(Stability { format: Format, image, probe: name, head, reading, tokens, groups, null })
    }
}

/// Whether two probes differ only in their seed: the same head, settings, backbone, classes and
/// training, apart from the results of training.
fn differ_in_seed(one: &Meta, other: &Meta) -> bool {
    // An evaluation asks it of every two of its probes for every image, and most of these are of different heads.
    if one.head != other.head {
        return false;
    }
    let recipe = |meta: &Meta| {
        let mut training = meta.training.clone()?;
        let seed = training.get("seed")?.clone();
        let fields = training.as_object_mut()?;
        ["seed", "epoch", "program"].iter().for_each(|field| drop(fields.shift_remove(*field)));
        Some((seed, training))
    };
    let (Some((seed, training)), Some((other_seed, other_training))) = (recipe(one), recipe(other)) else {
        return false;
    };
    seed != other_seed
        && training == other_training
        && Config { seed: None, ..one.config.clone() } == Config { seed: None, ..other.config.clone() }
        && synsets::same(&one.classes, &other.classes)
        && one.backbone.fingerprint == other.backbone.fingerprint
        && one.backbone.id == other.backbone.id
}

/// 5th and 95th percentile of tau between random orders of `n` tokens, by the normal approximation.
pub fn null(n: usize) -> (f64, f64) {
    let n = n.max(2) as f64;
    let deviation = (2.0 * (2.0 * n + 5.0) / (9.0 * n * (n - 1.0))).sqrt();
    let bound = (1.644_853_6 * deviation).min(1.0);
    (-bound, bound)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::probe::router::scan;
    use crate::model::stats::quantiles;

    #[test]
    fn the_null_band_is_that_of_random_orders() {
        let wide = |order: Vec<usize>| order.into_iter().map(|i| i as f64).collect::<Vec<f64>>();
        let taus: Vec<f64> = (0..400)
            .map(|s| kendall(&wide(scan::random(s, 64)), &wide(scan::random(s + 1000, 64))))
            .collect();
        let (low, high) = null(64);
        let found = quantiles(&taus, [0.05, 0.95]);
        assert!((found[0] - low).abs() < 0.03 && (found[1] - high).abs() < 0.03, "{low} {high} {found:?}");
        // Exact: 95 % of all orders of 64 tokens have at least as many inversions as this tau. The next tau is
        // 0.001 away.
        assert!((high - 0.140_873).abs() < 1e-3 && low == -high, "{low} {high}");
    }

    #[test]
    fn a_seed_alone_makes_a_peer() {
        let meta = |text: serde_json::Value| -> Meta {
            let whole = json!({"format": 1, "head": "sinkhorn", "config": {}, "classes": [],
                "backbone": {"id": "b", "model_type": "vit", "hidden_size": 4}, "training": text});
            serde_json::from_value(whole).expect("metadata")
        };
        let of_run = json!({"seed": 0, "protocol": {"epochs": 5}, "epoch": {"test": 88.0}, "program": "0.1"});
        let one = meta(of_run);
        assert!(differ_in_seed(&one, &meta(json!({"seed": 1, "protocol": {"epochs": 5}}))));
        assert!(!differ_in_seed(&one, &meta(json!({"seed": 1, "protocol": {"epochs": 6}}))));
        assert!(!differ_in_seed(&one, &one));
        assert!(!differ_in_seed(&one, &meta(json!(null))));
        let changed = |change: fn(&mut Meta)| {
            let mut other = meta(json!({"seed": 1, "protocol": {"epochs": 5}}));
            change(&mut other);
            differ_in_seed(&one, &other)
        };
        assert!(changed(|_| ()));
        assert!(changed(|other| other.config.seed = Some(1)), "which its training gave a random order");
        assert!(!changed(|other| other.config.temperature = Some(0.5)));
        assert!(!changed(|other| other.head = "softsort".to_owned()));
        assert!(!changed(|other| other.classes.push("crane".to_owned())));
        let of_class = |seed: u64, class: &str| Meta {
            classes: vec![class.to_owned()],
            ..meta(json!({"seed": seed, "protocol": {"epochs": 5}}))
        };
        let before = of_class(0, "n02012849");
        assert!(differ_in_seed(&before, &of_class(1, "crane (n02012849)")), "its class has got a word since");
        assert!(!differ_in_seed(&before, &of_class(1, "crane (n03126707)")));
        assert!(!changed(|other| other.backbone.id.push('2')));
    }
}
