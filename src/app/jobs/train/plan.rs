//! The plan of a training: its settings, the located backbone and the parsed heads.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexSet;

use super::{TrainSettings, TrainingError, heads};
use crate::app::format::counted;
use crate::app::jobs::extract::{ExtractOptions, Plan};
use crate::model::backbone::token_spec::Layer;
use crate::model::data::{self, DataError, Dataset};
use crate::model::probe::head::mean::CLS_MEAN;
use crate::model::probe::head::{self, HeadSpec};
use crate::model::train::run::{Variant, check_trainings};

/// What is to be trained.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainPlan {
    /// Dataset, hyperparameters, device and output folder.
    pub settings: TrainSettings,
    /// The backbone's folder.
    pub backbone: PathBuf,
    /// The variants to train, with distinct names.
    pub heads: Vec<Variant>,
}

impl TrainPlan {
    /// The plan for `settings`, with the backbone in the folder `backbone`.
    pub fn new(settings: TrainSettings, backbone: PathBuf) -> Result<Self, TrainingError> {
        let words: Vec<String> = settings.head_settings.split_whitespace().map(str::to_owned).collect();
        let heads = settings.spread(heads::variants(&settings.heads, &words)?)?;
        Ok(Self { settings, backbone, heads })
    }

    /// The seeds, in order; all heads are trained once per seed.
    pub fn seeds(&self) -> Vec<u64> {
        let first = self.settings.first_seed;
        (first..first + self.settings.seeds as u64).collect()
    }

    /// The dataset's folder or table.
    pub fn data(&self) -> &Path {
        self.settings.data.as_deref().unwrap_or(Path::new(""))
    }

    pub(super) fn dataset(&self) -> Result<Dataset, DataError> {
        data::open(self.data())
    }

    /// The options with which the tokens are extracted.
    pub fn tokens(&self) -> ExtractOptions {
        let (backbone, tokens) = (self.backbone.clone(), self.settings.tokens.clone());
        ExtractOptions { backbone, tokens, layers: self.layers() }
    }

    /// The layer whose tokens a variant reads.
    pub(super) fn layer_of(&self, variant: &Variant) -> Layer {
        variant.layer.unwrap_or(Layer(self.settings.tokens.token_spec.layer))
    }

    /// The distinct layers whose tokens are read, in order of their first use by a head.
    pub(super) fn layers(&self) -> Vec<Layer> {
        let layers: IndexSet<Layer> = self.heads.iter().map(|variant| self.layer_of(variant)).collect();
        layers.into_iter().collect()
    }

    /// Refuses more trainings than a run may have: every reader would refuse its folder.
    pub(super) fn check_trainings(&self) -> Result<(), TrainingError> {
        check_trainings(self.heads.len(), self.settings.seeds).map_err(|why| {
            TrainingError::Refused(format!("the run is too large: {why}; train fewer seeds or heads in it"))
        })
    }

    /// Refuses more trainings than a run may have, duplicate names, names that cannot be part of a file name, trainings that end
    /// within the warm-up, a head whose `blocks` is neither 1 nor the number of joined layers, and one with batch normalisation
    /// of single images.
    pub(super) fn check(&self) -> Result<(), TrainingError> {
        let (protocol, epochs) = (self.settings.protocol, self.settings.epochs);
        let warm_up = protocol.warm_up();
        if epochs <= warm_up {
            return Err(TrainingError::Refused(format!(
                "--epochs {epochs}: {} warms up for {}; expected more than that",
                protocol.name(),
                counted(warm_up, "epoch", "epochs")
            )));
        }
        self.check_trainings()?;
        let mut seen = HashSet::new();
        let joined = self.settings.tokens.token_spec.joined();
        for Variant { name, head, config, .. } in &self.heads {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,.[]".contains(c);
            let allowed = !name.is_empty() && !name.starts_with('.') && name.chars().all(plain);
            if !allowed || !seen.insert(name) {
                return Err(TrainingError::of_name(name));
            }
            let blocks = config.blocks.filter(|_| *head == CLS_MEAN.id).unwrap_or(1);
            if blocks != 1 && blocks != joined {
                return Err(TrainingError::Refused(format!(
                    "{name} has blocks={blocks} (--config), and a token joins {joined} (--blocks): give both the same \
                     number, or blocks=1 for the mean of the whole token"
                )));
            }
            let is_of_batch = |kind: &HeadSpec| {
                kind.build(&kind.begun(config, 0)).is_ok_and(|head| head.normalises_batch())
            };
            if self.settings.batch == 1 && head::find(head).is_some_and(is_of_batch) {
                return Err(TrainingError::Refused(format!(
                    "--batch 1: {name} normalises its features over the images of a step, which leaves nothing of a \
                     single one; expected 2 or more, or a head without batch normalisation"
                )));
            }
        }
        Ok(())
    }

    /// Refuses a backbone, a dataset and a folder of caches whose paths are not Unicode, as the run's files that record them are.
    pub(super) fn check_paths(&self, tokens: &Plan) -> Result<(), TrainingError> {
        let odd = |path: &Path| std::path::absolute(path).ok().filter(|path| path.to_str().is_none());
        match [&*self.backbone, self.data(), &*tokens.root].into_iter().find_map(odd) {
            Some(path) => Err(TrainingError::Refused(format!(
                "{}: is not valid Unicode, as the run's files are; rename the folder, or work in another one",
                path.display()
            ))),
            None => Ok(()),
        }
    }

    /// Refuses the backbone's or the dataset's own folder for the run, whose files would lie among theirs.
    pub(super) fn check_out(&self, out: &Path) -> Result<(), TrainingError> {
        let Ok(real) = out.canonicalize() else { return Ok(()) };
        let is_out = |path: &Path| path.canonicalize().is_ok_and(|path| path == real);
        let own = [(&*self.backbone, "backbone"), (self.data(), "dataset")]
            .into_iter()
            .find(|(path, _)| is_out(path));
        own.map_or(Ok(()), |(_, what)| {
            let source = io::Error::other(format!("it is the folder of the {what}; choose another"));
            Err(TrainingError::Out { folder: out.to_owned(), source })
        })
    }

    /// Refuses heads that read the CLS token where the backbone has none.
    pub(super) fn check_cls(&self, tokens: &Plan) -> Result<(), TrainingError> {
        let needs = |variant: &&Variant| head::find(&variant.head).is_some_and(HeadSpec::needs_cls);
        let names = |heads: Vec<&Variant>| {
            heads.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>().join(",")
        };
        let (without, others): (Vec<_>, Vec<_>) = self.heads.iter().partition(needs);
        if tokens.cls || without.is_empty() {
            return Ok(());
        }
        let remedy = match &*names(others) {
            "" => "choose a head that reads patch tokens".to_owned(),
            others => format!("the other heads can: {others}"),
        };
        Err(TrainingError::Refused(format!(
            "{} cannot be trained: {} ({}) has no CLS token; {remedy}",
            names(without),
            tokens.backbone.id,
            tokens.backbone.model_type
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_becomes_a_plan() {
        let mut settings = TrainSettings {
            head_settings: "state_dim=8 sinkhorn.iterations=5".into(),
            ..TrainSettings::default()
        };
        let plan = TrainPlan::new(settings.clone(), "here".into()).unwrap();
        assert_eq!(plan.heads[2].config.iterations, Some(5));
        assert_eq!((plan.tokens().backbone, plan.seeds()), (PathBuf::from("here"), vec![0]));
        settings.head_settings = "colour=red".into();
        assert!(TrainPlan::new(settings, "here".into()).unwrap_err().to_string().contains("colour"));
    }

    #[test]
    fn a_run_has_no_more_trainings_than_are_read() {
        let check = |seeds: usize| {
            let heads = vec!["gap".into(), "cls".into()];
            TrainPlan::new(TrainSettings { heads, seeds, ..TrainSettings::default() }, "here".into())
                .unwrap()
                .check()
        };
        check(500_000).unwrap();
        let said = check(500_001).unwrap_err().to_string();
        assert!(said.contains("it has 1000002 trainings, expected at most 1000000"), "{said}");
    }

    #[test]
    fn a_head_takes_as_many_layers_as_are_joined() {
        let check = |joined: Option<usize>, own: &str| {
            let heads = vec!["gap".into(), "cls-mean".into()];
            let mut settings = TrainSettings { heads, head_settings: own.into(), ..TrainSettings::default() };
            settings.tokens.token_spec.blocks = joined;
            TrainPlan::new(settings, "here".into()).unwrap().check()
        };
        for (joined, own) in [(None, ""), (None, "blocks=1"), (Some(4), "blocks=1"), (Some(4), "blocks=4")] {
            check(joined, own).unwrap();
        }
        for (joined, own) in [(None, "blocks=3"), (Some(2), "cls-mean.blocks=4")] {
            let error = check(joined, own).unwrap_err();
            let said = error.to_string();
            assert!(said.contains("(--config)") && said.contains("(--blocks)"), "{said}");
            assert!(crate::app::jobs::user_error::refused(&error.into()));
        }
    }

    #[test]
    fn a_run_is_not_written_into_the_folders_it_reads() {
        let folder = tempfile::tempdir().unwrap();
        let [data, backbone, run] = ["data", "backbone", "run"].map(|name| folder.path().join(name));
        for made in [&data, &backbone] {
            std::fs::create_dir(made).unwrap();
        }
        let settings = TrainSettings { data: Some(data.clone()), ..TrainSettings::default() };
        let plan = TrainPlan::new(settings, backbone.clone()).unwrap();
        for (out, what) in [(data.join("../data"), "dataset"), (backbone, "backbone")] {
            let said = plan.check_out(&out).unwrap_err().to_string();
            assert!(said.contains(&format!("the folder of the {what}")), "{said}");
        }
        plan.check_out(&run).unwrap();
        plan.check_out(&data.join("runs")).unwrap();
    }
}
