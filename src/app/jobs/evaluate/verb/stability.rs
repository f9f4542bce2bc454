//! Measures how stable the orders are in which probes read the images of a dataset: the backbone reads slightly
//! perturbed copies of every image, once for all probes.

use rayon::prelude::*;

use super::ProbeFile;
use crate::app::jobs::engine::Engine;
use crate::app::jobs::stability::{BATCH, changed, left_out};
use crate::app::jobs::tokens::TokenReader;
use crate::app::jobs::{JobError, Reporter, Unit};
use crate::model::data::Dataset;
use crate::model::explain::evaluation::stability::{Taus, taus};
use crate::model::explain::stability::Measurement;
use crate::model::explain::stability::perturb::kinds;
use crate::model::probe::Probe;
use crate::model::reading::{Intervention, Reading};
use crate::model::tokens::Tokens;

/// Number of pictures the backbone reads per image: the image and its perturbed copies.
pub(super) fn passes(seed: u64) -> usize {
    1 + kinds(seed).iter().map(|(_, changes)| changes.len()).sum::<usize>()
}

/// The mean tau of every kind of perturbation, as `[probe][image]`; `None` for heads without a single order, or that cannot read so.
pub(super) fn measure(
    engine: &mut Engine,
    reader: &TokenReader,
    (files, change, seed): (&[ProbeFile], &Intervention, u64),
    (dataset, images): (&Dataset, &[(Option<usize>, u64)]),
    reporter: &mut dyn Reporter,
) -> Result<Vec<Vec<Option<Taus>>>, JobError> {
    let (kinds, mut found) = (kinds(seed), vec![Vec::with_capacity(images.len()); files.len()]);
    let loaded = files.iter().map(|file| Ok((file.name(), file.load()?.0)));
    let probes = loaded.collect::<anyhow::Result<Vec<(String, Probe)>>>()?;
    reporter.begin(0);
    for (at, &(sample, image_seed)) in images.iter().enumerate() {
        reporter.progress("Changing images", at as u64, Some(images.len() as u64), Unit::Items);
        reporter.pause(engine)?;
        let source = sample.map(|sample| &dataset.samples[sample].source);
        let decode = |source| engine.decode_or_leave_out(source, "a measured stability", reporter);
        let Some(photo) = source.map(decode).transpose()?.flatten() else {
            found.iter_mut().for_each(|own| own.push(None));
            continue;
        };
        let whole = reader.prepare(&photo)?;
        let seen = reader.preprocessor.seen(&whole);
        let mut pixels = vec![whole];
        pixels.extend(changed(&reader.preprocessor, &seen, &kinds));
        let mut tokens: Vec<Tokens> = Vec::with_capacity(pixels.len());
        for batch in pixels.chunks(BATCH) {
            tokens.extend(reader.forward(batch)?);
        }
        let taus_of = |(name, probe): &(String, Probe)| {
            let measurement = Measurement {
                image: String::new(),
                name: name.clone(),
                probe,
                reading: Reading { change: change.clone(), ..Reading::default() },
                image_seed,
                peers: probes.iter().map(|(name, peer)| (name.clone(), peer)).collect(),
            };
            // A probe that cannot read so is left out when it is evaluated, which says why.
            measurement.take(&tokens, &kinds).ok().map(|stability| taus(&stability))
        };
        let taus: Vec<Option<Taus>> = probes.par_iter().map(taus_of).collect();
        found.iter_mut().zip(taus).for_each(|(own, taus)| own.push(taus));
    }
    let is_read = images.iter().any(|(sample, _)| sample.is_some());
    let is_without = |((_, probe), own): &(&(String, Probe), &Vec<Option<Taus>>)| {
        is_read && own.iter().all(Option::is_none) && change.refused_by(probe).is_none()
    };
    let without = probes.iter().zip(&found).filter(is_without);
    left_out(without.map(|((name, _), _)| name.clone())).into_iter().for_each(|text| reporter.warn(text));
    Ok(found)
}
