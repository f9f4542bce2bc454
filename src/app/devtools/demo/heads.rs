//! Training every head on the tokens of one backbone of the demo.

use std::ops::ControlFlow;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde_json::json;

use crate::app::demo::{DemoBackbone, DemoHead, DemoInfo};
use crate::app::devtools::prelude::*;
use crate::app::terminal::stdout::say;
use crate::model::backbone::Backbone;
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::data::image::Photo;
use crate::model::data::scenes::folder::Set;
use crate::model::data::scenes::{self, CLASSES, FIRST_VAL, Scene, class_name};
use crate::model::data::token_cache::{Precision, TokenCache, TokenKey, Writer};
use crate::model::explain::localization;
use crate::model::probe::head::{Config, Dims, HEADS};
use crate::model::probe::{BackboneMeta, Probe};
use crate::model::stats::mean;
use crate::model::train::classifier::Model;
use crate::model::train::{Event, HeadTrainer, Labelled, Task, TrainCursor, train};

/// Most validation scenes that an AUC is averaged over.
pub const AUC_SCENES: u64 = 240;
const BATCH: usize = 48;

/// Trains every head on the backbone in `out/<id>` and saves it to `out/probes/<id>`, as it was
/// after the last epoch: no checkpoint is selected on validation scenes.
pub fn train_all(
    out: &Path,
    backbone: &DemoBackbone,
    about: &DemoInfo,
    device: &Device,
    bars: &MultiProgress,
) -> anyhow::Result<Vec<DemoHead>> {
    let opened = Backbone::open(&backbone.folder(out), device)?;
    let preprocessor = Preprocessor::open(backbone.folder(out))?;
    let folder = temporary::folder().context("no folder for tokens can be created")?;
    let caches = vec![extract(&opened, &preprocessor, &about.scenes, folder.path(), bars)?];
    let tokens = &caches[0];
    let (train_set, val_set) = split(&about.scenes);
    let seed = about.seed;
    let task = Task {
        tokens: &caches,
        train: &train_set,
        select: &val_set,
        test: &val_set,
        config: &about.config,
        device,
        seed,
        redrawn: false,
    };
    let dims = Dims { width: tokens.width(), grid: tokens.grid(), classes: CLASSES };
    let mut trainers = HEADS
        .iter()
        .map(|kind| {
            Ok(HeadTrainer::new(kind.id, Model::start(kind, &Config::default(), dims, seed, device)?))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    run(&backbone.id, &task, &mut trainers, bars)?;

    let meta = BackboneMeta {
        id: opened.id().to_owned(),
        model_type: opened.model_type().to_owned(),
        hidden_size: opened.width(),
        fingerprint: Some(opened.fingerprint().to_owned()),
        ..BackboneMeta::default()
    };
    atomic_file::make_folder(&backbone.probes(out))?;
    let first = about.scenes.train as usize;
    let mut heads = Vec::new();
    for trainer in &trainers {
        if let Some(failure) = &trainer.progress.failure {
            anyhow::bail!("head `{}` on {}: {failure}; try a smaller --rate", trainer.name, backbone.id);
        }
        let last = trainer.progress.history.last().context("at least one epoch")?;
        let training = json!({
            "dataset": {"scenes": about.scenes, "version": about.scenes_version},
            "protocol": about.config,
            "seed": seed,
            "epoch": last,
        });
        let classes = (0..CLASSES).map(class_name).collect();
        let probe = trainer.model.to_probe(meta.clone(), classes, Some(training));
        probe.save(backbone.probe(out, &trainer.name))?;
        heads.push(DemoHead {
            id: trainer.name.clone(),
            parameters: trainer.model.parameters(),
            train: last.train,
            val: last.test,
            auc: auc(&probe, tokens, first, about)?,
        });
    }
    Ok(heads)
}

/// Tokens of all scenes of a set, training first.
fn extract(
    backbone: &Backbone,
    preprocessor: &Preprocessor,
    set: &Set,
    folder: &Path,
    bars: &MultiProgress,
) -> anyhow::Result<TokenCache> {
    let source = TokenKey {
        weights: backbone.fingerprint().to_owned(),
        preprocessing: preprocessor.key(),
        dataset: format!("{} {}", scenes::VERSION, serde_json::to_string(set)?),
        layer: "last".to_owned(),
        precision: Precision::Float16,
    };
    let indices: Vec<u64> = set.places().map(|place| place.index).collect();
    let bar = bar(bars, indices.len(), "{prefix} {wide_bar} {pos}/{len} scenes, {eta} left", backbone.id());
    let mut writer = Writer::open(folder, source, indices.len())?;
    for chunk in indices.chunks(BATCH) {
        let pixels = chunk
            .par_iter()
            .map(|&index| {
                let Scene { picture, .. } = scenes::draw(set.seed, index);
                Ok(preprocessor.apply(&Photo { name: index.to_string(), picture })?)
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        for tokens in backbone.forward(&pixels)? {
            writer.push(Some(tokens), None)?;
        }
        bar.inc(chunk.len() as u64);
    }
    bar.finish();
    Ok(writer.finish()?)
}

/// Training and validation scenes of a set, by their index in its token cache.
fn split(set: &Set) -> (Labelled, Labelled) {
    let (train, val) = (set.train as usize, set.val as usize);
    let labelled = |first: usize, count: usize| Labelled {
        images: (first..first + count).collect(),
        classes: (0..count).map(|number| number % CLASSES).collect(),
    };
    (labelled(0, train), labelled(train, val))
}

fn run(id: &str, task: &Task, trainers: &mut [HeadTrainer], bars: &MultiProgress) -> anyhow::Result<()> {
    let steps = task.train.images.len().div_ceil(task.config.batch) * task.config.epochs;
    let bar = bar(bars, steps, "{prefix} {wide_bar} {pos}/{len} steps of all heads {msg} {eta} left", id);
    train(task, trainers, TrainCursor::default(), &mut |event| {
        match event {
            Event::Step { .. } => bar.inc(1),
            Event::Evaluation | Event::Between { .. } => {}
            Event::Epoch { position, trainers } => {
                let best = trainers
                    .iter()
                    .filter_map(|trainer| Some((trainer.progress.history.last()?.test, &trainer.name)))
                    .max_by(|a, b| a.0.total_cmp(&b.0));
                if let Some((accuracy, name)) = best {
                    bar.set_message(format!("(best: {name}, {accuracy:.1} %)"));
                    if bar.is_hidden() {
                        say!("heads of {id}: {} epochs done {}", position.epoch, bar.message());
                    }
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    bar.finish();
    Ok(())
}

/// Mean AUC of the probe's token weights finding the object, over the first validation scenes that have one.
fn auc(probe: &Probe, tokens: &TokenCache, first: usize, about: &DemoInfo) -> anyhow::Result<Option<f64>> {
    let patch = scenes::SIDE / tokens.grid().cols;
    let each = (0..about.auc_scenes as usize)
        .into_par_iter()
        .map(|number| {
            let image = first + number;
            let output = probe.output(&tokens.tokens(image), image as u64)?;
            let cover = scenes::draw(about.scenes.seed, FIRST_VAL + number as u64).cover(patch);
            Ok(localization::weight_auc(&output, &cover))
        })
        .collect::<anyhow::Result<Vec<Option<f64>>>>()?;
    Ok(mean(each.into_iter().flatten()))
}

/// Adds a progress bar of `len` steps, prefixed by `id`.
pub fn bar(bars: &MultiProgress, len: usize, template: &str, id: &str) -> ProgressBar {
    let bar = bars.add(ProgressBar::new(len as u64));
    bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
    bar.set_prefix(id.to_owned());
    bar
}
