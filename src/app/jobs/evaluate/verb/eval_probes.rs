//! The probes to evaluate, and the images to evaluate them on.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::app::format::{counted, file_stem};
use crate::app::jobs::evaluate::subset;
use crate::app::jobs::open::DatasetMoved;
use crate::app::jobs::train::{Parts, labelled};
use crate::app::jobs::user_error::refuse;
use crate::model::data::token_cache::TokenKey;
use crate::model::data::{self, Dataset, Split, synsets};
use crate::model::explain::evaluation::metrics::Metrics;
use crate::model::probe::Probe;
use crate::model::train::Labelled;
use crate::model::train::run::{ProbeCheckpoint, Run};

/// A probe file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeFile {
    /// Its path.
    pub path: PathBuf,
    /// For a probe of a run: the variant's name, its seed, and which of its two probes it is.
    pub of: Option<(String, u64, ProbeCheckpoint)>,
}

impl ProbeFile {
    /// A probe file that belongs to no run.
    pub fn of_file(path: &Path) -> Self {
        Self { path: path.to_owned(), of: None }
    }

    /// The probes that a run has written so far, and a warning of those that were trained and are missing, as after an
    /// incomplete copy; an error if there is none.
    pub fn of_run(run: &Run, which: ProbeCheckpoint) -> anyhow::Result<(Vec<Self>, Option<String>)> {
        let manifest = &run.manifest;
        let pairs =
            manifest.heads.iter().flat_map(|head| manifest.seeds.iter().map(move |&seed| (head, seed)));
        let all = pairs.map(|(head, seed)| Self {
            path: run.probe_path(&head.name, seed, which),
            of: Some((head.name.clone(), seed, which)),
        });
        let (found, absent): (Vec<Self>, Vec<Self>) = all.partition(|file| file.path.exists());
        let is_trained = |(head, seed, _): &(String, u64, ProbeCheckpoint)| {
            run.outcome(head, *seed).is_ok_and(|outcome| outcome.best_epoch.is_some())
        };
        let missing: Vec<Self> =
            absent.into_iter().filter(|file| file.of.as_ref().is_some_and(is_trained)).collect();
        let warning = missing.first().map(|first| {
            let many = counted(missing.len(), "trained probe is", "trained probes are");
            format!("{many} missing, the first is {}; copy the run again", first.path.display())
        });
        match warning {
            _ if !found.is_empty() => Ok((found, warning)),
            Some(warning) => bail!(warning),
            None => bail!("{}: contains no probe yet; finish its training first", run.folder().display()),
        }
    }

    /// Whether it is a probe of a variant of `run` that reads the layer of `tokens`.
    pub fn reads(&self, run: &Run, tokens: &TokenKey) -> bool {
        let manifest = &run.manifest;
        let of = self.of.as_ref().and_then(|(head, ..)| manifest.heads.iter().find(|own| own.name == *head));
        of.is_some_and(|variant| manifest.tokens_of(variant).layer == tokens.layer)
    }

    /// The probe, and the SHA-256 of its file.
    pub fn load(&self) -> anyhow::Result<(Probe, String)> {
        Ok(Probe::load_known(&self.path)?)
    }

    /// Its name for the user: head and seed for a probe of a run, else the file's stem.
    pub fn name(&self) -> String {
        match &self.of {
            Some((head, seed, _)) => format!("{head}, seed {seed}"),
            None => file_stem(&self.path),
        }
    }
}

/// A probe and the results of its evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluatedProbe {
    /// Its file.
    #[serde(rename = "subject")] // as other versions send it
    pub file: ProbeFile,
    /// SHA-256 of that.
    #[serde(rename = "file")] // likewise
    pub sha256: String,
    /// The results.
    pub metrics: Metrics,
}

/// Opens the dataset that a run was trained on.
pub fn dataset_of(run: &Run) -> Result<Dataset, DatasetMoved> {
    let recorded_in = run.folder().join("run.json");
    data::open(&run.manifest.dataset.path).map_err(|source| DatasetMoved { recorded_in, source })
}

/// The images of an evaluation, as indices into the token cache.
pub struct EvalImages {
    /// Name of the split.
    pub split: &'static str,
    /// The evaluated images, with their classes.
    pub evaluated: Labelled,
    /// For each of `evaluated`, its index in the whole dataset, which seeds random orders.
    pub image_seeds: Vec<u64>,
    /// The training images, on which baselines are fitted.
    pub training: Labelled,
}

impl EvalImages {
    /// The images of `split`, or of the held-out split if `None`; an error if there are none.
    pub fn of_split(dataset: &Dataset, split: Option<Split>) -> anyhow::Result<Self> {
        let split = split.or_else(|| dataset.held_out()).context(
            "the dataset has no test or validation images; `--split train` evaluates the training images",
        )?;
        let evaluated = labelled(dataset, split);
        if evaluated.images.is_empty() {
            let others =
                Split::ALL.map(|split| format!("{} {}", dataset.count(split), split.name())).join(", ");
            refuse!("{}: has no {} images ({others})", dataset.name, split.name());
        }
        let image_seeds = evaluated.images.iter().map(|&image| image as u64).collect();
        Ok(Self { split: split.name(), evaluated, image_seeds, training: labelled(dataset, Split::Train) })
    }

    /// The test images of a run and its training images; an error if `dataset` is no longer what it was.
    pub fn of_run(run: &Run, dataset: &Dataset, selection: Option<f64>) -> anyhow::Result<Self> {
        let truth = run.truth()?;
        let same = |((&index, &class), image): ((&usize, &usize), &String)| {
            let found = dataset.samples.get(index);
            let is_same = found.is_some_and(|sample| sample.class == class && sample.split != Split::Train);
            is_same && same_image(image, &dataset.name_of_image(index))
        };
        if !truth.indices.iter().zip(&truth.classes).zip(&truth.images).all(same)
            || !synsets::same(&dataset.classes, &run.manifest.dataset.classes)
        {
            refuse!(
                "{}: is no longer the dataset that {} was trained on; give the right one with --data (probes are \
                 evaluated on another dataset by `ssmprobe eval --probe RUN --backbone DIR --data OTHER`)",
                dataset.root.display(),
                run.folder().display()
            );
        }
        let image_seeds = truth.indices.iter().map(|&image| image as u64).collect();
        let evaluated = Labelled { images: truth.indices, classes: truth.classes };
        Ok(Self { split: "test", evaluated, image_seeds, training: Parts::divide(dataset, selection)?.train })
    }

    /// The dataset reduced to the evaluated images, and the same images of it, without training images.
    pub fn reduce(self, dataset: &Dataset) -> (Dataset, Self) {
        let reduced = subset(dataset, &self.evaluated.images);
        let images = (0..reduced.samples.len()).collect();
        let evaluated = Labelled { images, classes: self.evaluated.classes };
        (reduced, Self { evaluated, training: Labelled::default(), ..self })
    }

    /// Refuses a probe that lacks the class, by name, of an evaluated image; `classes` are those of the dataset.
    pub fn check_classes(&self, probe: &Probe, classes: &[String]) -> anyhow::Result<()> {
        let numbers = probe.numbers(classes)?;
        match self.evaluated.classes.iter().find(|class| numbers[**class].is_none()) {
            Some(&class) => {
                bail!("does not know the class `{}`; it was trained on another dataset", classes[class])
            }
            None => Ok(()),
        }
    }
}

/// Whether two names refer to the same image. An image outside its dataset's folder, or in one given by a relative path,
/// is named by its absolute path, which may have changed: then only file names are compared.
fn same_image(one: &str, other: &str) -> bool {
    let names = [one, other].map(|name| name.replace('\\', "/")); // the run may come from another operating system
    let [one, other] = names.each_ref().map(Path::new);
    one == other || ((one.is_absolute() || other.is_absolute()) && one.file_name() == other.file_name())
}

#[cfg(test)]
mod tests {
    use super::same_image;

    #[test]
    fn an_image_is_known_by_its_place_in_the_dataset_and_outside_of_it_by_its_file() {
        let outside = std::env::current_dir().unwrap().join("images/a.png").display().to_string();
        let outside = outside.as_str();
        for (one, other, same) in [
            ("val/disc/a.png", "val/disc/a.png", true),
            ("val/disc/a.png", "val/disc/b.png", false),
            ("val/disc/a.png", "val/ring/a.png", false),
            ("val\\disc\\a.png", "val/disc/a.png", true),
            (outside, "val/disc/a.png", true),
            ("val/disc/a.png", outside, true),
            (outside, "val/disc/b.png", false),
            ("val.parquet, row 3", "val.parquet, row 4", false),
        ] {
            assert_eq!(same_image(one, other), same, "{one}, {other}");
        }
    }
}
