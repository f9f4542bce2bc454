//! The traces of a page: test images of a run, explained through its probes for their own class and those predicted.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexSet;

use crate::app::jobs::engine::{BackboneSpec, Engine};
use crate::app::jobs::evaluate::verb::{EvalImages, dataset_of};
use crate::app::jobs::explain::{self, ClassChoice, Explain, ExplainItem, ExplainSettings};
use crate::app::jobs::regions::RegionSource;
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::{BackboneId, BackboneOptions, ColumnId, JobError, ProbeId, Reporter, fetch};
use crate::app::report::Source;
use crate::app::report::html::choose::IMAGES;
use crate::model::backbone::order::MaeOrder;
use crate::model::backbone::token_spec::Layer;
use crate::model::data::{self, Dataset, synsets};
use crate::model::explain::intervention::Intervention;
use crate::model::probe::class_words;
use crate::model::trace::Trace;
use crate::model::train::run::{Outcome, ProbeCheckpoint};

/// Most classes per image that evidence is stored for: its own, and those that probes predict. The second number is for more
/// images than the default [`IMAGES`]: a page should be small enough to be mailed.
const MAX_CLASSES: [usize; 2] = [3, 2];

/// The images and probes to explain.
pub struct ExplainSpec<'a> {
    /// The run.
    pub source: &'a Source,
    /// Indices into the run's test images.
    pub images: Vec<usize>,
    /// The outcomes whose probes at the best epoch are explained.
    pub probes: Vec<&'a Outcome>,
    /// Classes to explain every image for; by default its own and the predicted ones.
    pub classes: Option<Vec<usize>>,
    /// Folder of the run's dataset, if it has moved.
    pub data: Option<PathBuf>,
    /// Device: `cpu`, `wgpu`, `cuda` or `auto`.
    pub device: String,
}

impl ExplainSpec<'_> {
    /// The traces, sorted by image, probe and class. An image that cannot be read is left out with a warning.
    ///
    /// # Errors
    /// If the backbone, the dataset or a probe cannot be opened, if no image could be explained, or if it was cancelled.
    pub fn traces(
        &self,
        engine: &mut Engine,
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<Arc<Trace>>, JobError> {
        let dataset = self.open(engine, reporter)?;
        let predicted = self.explain(engine, &dataset, (&self.images, ClassChoice::Predicted), reporter)?;
        self.prediction_warning(&predicted).into_iter().for_each(|warning| reporter.warn(warning));
        let (words, truth) = (class_words(&dataset.classes), &self.source.truth.classes);
        // The classes of every image: its own, then the predicted ones.
        let classes_by_image: Vec<Vec<usize>> = self
            .images
            .iter()
            .map(|&image| {
                if let Some(asked) = &self.classes {
                    return asked.clone();
                }
                let traces = predicted.iter().filter(|(at, ..)| *at == image);
                let predicted = traces.map(|(.., trace)| trace.evidence.class);
                let classes: IndexSet<usize> = std::iter::once(truth[image]).chain(predicted).collect();
                classes.into_iter().take(MAX_CLASSES[usize::from(self.images.len() > IMAGES)]).collect()
            })
            .collect();
        let mut found = Vec::new();
        for class in classes_by_image.iter().flatten().collect::<BTreeSet<_>>() {
            let images =
                self.images.iter().zip(&classes_by_image).filter(|(_, classes)| classes.contains(class));
            let images: Vec<usize> = images.map(|(image, _)| *image).collect();
            let word = words[*class].clone();
            found.extend(self.explain(engine, &dataset, (&images, ClassChoice::Named(word)), reporter)?);
        }
        let position = |image: usize| self.images.iter().position(|at| *at == image).unwrap_or_default();
        found.sort_by_key(|(image, probe, trace)| {
            let at = position(*image);
            (at, *probe, classes_by_image[at].iter().position(|class| *class == trace.evidence.class))
        });
        if found.is_empty() {
            return Err(anyhow::anyhow!("none of the images could be explained").into());
        }
        Ok(found.into_iter().map(|(_, _, trace)| trace).collect())
    }

    /// A warning of images for which probes predict other classes than in their training, which the tables of the page count.
    fn prediction_warning(&self, predicted: &[(usize, usize, Arc<Trace>)]) -> Option<String> {
        let settings = TrainSettings::of_run(&self.source.run).ok()?;
        let is_other = |(image, probe, trace): &&(usize, usize, Arc<Trace>)| {
            let trained = self.probes[*probe].best.get(*image);
            trained.zip(trace.top.first()).is_some_and(|(class, now)| *class as usize != now.index)
        };
        let others: Vec<_> = predicted.iter().filter(is_other).collect();
        let (.., first) =
            others.first().filter(|_| settings.tokens.token_spec.mae_order != MaeOrder::Redrawn)?;
        let (others, all) = (others.len(), predicted.len());
        let (image, probe) = (&first.image, &first.probe);
        Some(format!(
            "{others} of {all} predictions differ from those in the training, first {probe} on {image}: two classes are \
             about equally probable, or files were changed since, those of the images, the probes or the backbone"
        ))
    }

    /// The layer whose tokens a probe reads, if not the run's.
    fn layer(&self, probe: &Outcome) -> Option<Layer> {
        let mut heads = self.source.run.manifest.heads.iter();
        heads.find(|variant| variant.name == probe.head)?.layer
    }

    /// The layers whose tokens the probes read: the backbones in the engine, by their ids.
    fn layers(&self) -> IndexSet<Option<Layer>> {
        self.probes.iter().map(|probe| self.layer(probe)).collect()
    }

    /// Opens the backbone, once for each layer, and the probes in the engine. Returns the dataset; an error if it changed since the training.
    fn open(&self, engine: &mut Engine, reporter: &mut dyn Reporter) -> Result<Dataset, JobError> {
        let run = &self.source.run;
        let settings = TrainSettings::of_run(run)?;
        let dataset = match &self.data {
            Some(data) => data::open(data)?,
            None => dataset_of(run)?,
        };
        EvalImages::of_run(run, &dataset, settings.selection)?;
        let folder = fetch::backbone(&settings.backbone, reporter)?;
        for (at, layer) in (0..).zip(self.layers()) {
            let mut token_spec = settings.tokens.token_spec;
            token_spec.layer = layer.map_or(token_spec.layer, |Layer(layer)| layer);
            let (folder, options) = (folder.clone(), BackboneOptions::from_spec(token_spec));
            let spec = BackboneSpec { entry: BackboneId(at), folder, device: self.device.clone(), options };
            engine.open_backbone(spec, reporter)?;
        }
        for (at, outcome) in (0..).zip(&self.probes) {
            let run = self.source.run_of(&outcome.head);
            let path = run.probe_path(&outcome.head, outcome.seed, ProbeCheckpoint::Best);
            let classes = engine.open_probe(ProbeId(at), &path)?.classes;
            if !synsets::same(&classes, &dataset.classes) {
                let path = path.display();
                return Err(
                    anyhow::anyhow!("{path}: has other classes than its run; restore the file").into()
                );
            }
        }
        Ok(dataset)
    }

    /// Explains images through all probes: indices of image and probe, and trace. Warns of errors only for predicted classes.
    fn explain(
        &self,
        engine: &mut Engine,
        dataset: &Dataset,
        (images, class): (&[usize], ClassChoice),
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<(usize, usize, Arc<Trace>)>, JobError> {
        let (truth, layers) = (&self.source.truth, self.layers());
        let backbone = |probe: usize| layers.get_index_of(&self.layer(self.probes[probe])).unwrap_or(0);
        let pairs = images.iter().flat_map(|&image| (0..self.probes.len()).map(move |probe| (image, probe)));
        let pairs: Vec<(usize, usize)> = pairs.collect();
        let item = |&(image, probe): &(usize, usize)| ExplainItem {
            column: ColumnId(probe as u64),
            image: dataset.samples[truth.indices[image]].source.clone(),
            backbone: BackboneId(backbone(probe) as u64),
            probe: ProbeId(probe as u64),
            change: Intervention::default(),
            image_seed: truth.indices[image] as u64,
        };
        let warns = class == ClassChoice::Predicted;
        let spec = Explain {
            items: pairs.iter().map(item).collect(),
            class,
            settings: ExplainSettings::default(),
            regions: RegionSource::default(),
        };
        let mut found = Vec::new();
        for ((image, probe), answer) in pairs.into_iter().zip(explain::run(engine, &spec, reporter)?) {
            match answer.result {
                Ok(trace) => {
                    let mut trace = Arc::unwrap_or_clone(trace);
                    trace.image = dataset.name_of_image(truth.indices[image]);
                    let Outcome { head, seed, .. } = self.probes[probe];
                    trace.probe = format!("{head}-s{seed}-best.safetensors");
                    found.push((image, probe, Arc::new(trace)));
                }
                Err(error) if warns => reporter.warn(format!("left out: {error}")),
                Err(_) => {}
            }
        }
        Ok(found)
    }
}
