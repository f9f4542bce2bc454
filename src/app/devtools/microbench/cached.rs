//! A training step of every head as in [`heads`], but on tokens of a token cache in float16, whose reading is part of it.
//!
//! `cached/<id>/step` in seconds: an epoch of [`STEPS`] steps by their number. The cache is in the system's page cache.

use std::ops::ControlFlow;

use super::timing::{Work, median_seconds};
use super::{Group, Measured, OnRun, Setup, Sizes, heads, noise, unwritable};
use crate::app::devtools::prelude::*;
use crate::model::data::token_cache::{CacheError, Precision, TokenCache, TokenKey, Writer};
use crate::model::tokens::Tokens;
use crate::model::train::run::Variant;
use crate::model::train::{Event, Labelled, Task, TrainConfig, TrainCursor, train};

pub const GROUP: Group = Group { names, check: heads::GROUP.check, measure };

/// Steps of an epoch.
const STEPS: usize = 4;
/// Different images of the cache, which are repeated.
const IMAGES: usize = 16;

fn name(head: &Variant) -> String {
    format!("cached/{}/step", head.name)
}

fn names(sizes: &Sizes) -> Vec<String> {
    sizes.heads.iter().map(name).collect()
}

fn measure(setup: &Setup, on_run: OnRun) -> anyhow::Result<Measured> {
    let Sizes { images: batch, classes, rounds, heads: ref variants, .. } = *setup.sizes;
    let images = STEPS * batch;
    let folder = temporary::folder().with_context(unwritable)?;
    let caches = vec![write(setup.sizes, images, folder.path()).with_context(unwritable)?];
    let labelled = |images: usize| Labelled {
        images: (0..images).collect(),
        classes: (0..images).map(|image| image * 7 % classes).collect(),
    };
    let (train_on, test) = (labelled(images), labelled(1));
    let config = TrainConfig { epochs: rounds + 1, batch, ..TrainConfig::default() };
    let (tokens, device) = (&caches, setup.device);
    let task = Task {
        tokens,
        train: &train_on,
        select: &test,
        test: &test,
        config: &config,
        device,
        seed: 0,
        redrawn: false,
    };
    let epoch = |event: Event| match event {
        Event::Epoch { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let wanted: Vec<_> = variants.iter().filter(|head| setup.wants(&name(head))).collect();
    let mut works = Vec::new();
    for head in &wanted {
        let mut trainers = [heads::trainer(head, setup.sizes.dims(), device)?];
        let (task, mut position) = (&task, TrainCursor::default());
        works.push(Work::new(name(head), move || {
            position = train(task, &mut trainers, position, &mut { epoch })?;
            setup.wait(&head.name)
        }));
    }
    let seconds = median_seconds(&mut works, rounds, on_run)?;
    Ok(wanted.iter().zip(seconds).map(|(head, epoch)| (name(head), epoch / STEPS as f64, "s")).collect())
}

/// A cache of seeded noise in `folder`.
fn write(sizes: &Sizes, images: usize, folder: &Path) -> Result<TokenCache, CacheError> {
    let [weights, preprocessing, dataset, layer] = [(); 4].map(|()| "noise".to_owned());
    let key = TokenKey { weights, preprocessing, dataset, layer, precision: Precision::Float16 };
    let mut writer = Writer::open(folder, key, images)?;
    for image in 0..images {
        let (grid, width, seed) = (sizes.grid, sizes.width, (image % IMAGES) as u64);
        let (cls, patches) = (Some(noise(seed + 1, width)), noise(seed, grid.len() * width));
        writer.push(Some(Tokens { grid, width, cls, registers: vec![], patches }), None)?;
    }
    writer.finish()
}
