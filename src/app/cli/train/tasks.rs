//! The stages of tasks that `train --submit` and `sweep --submit` submit.

use super::TrainArgs;
use crate::app::cli::prelude::*;
use crate::app::cli::{extract, fetch};
use crate::app::format::distinct;
use crate::app::jobs::extract::TokenSettings;
use crate::app::jobs::train::{TrainPlan, TrainSettings, TrainSpec, preflight};
use crate::app::submit::Stage;
use crate::app::submit::plan::{JOIN, TRAIN};
use crate::model::data::token_cache::SHARD;
use crate::model::train::run::Variant;

impl TrainArgs {
    /// The stages of a training for each backbone. A single one uses the folder `--out`, several a subfolder each.
    pub(super) fn chains(&self, heads: Option<&[Variant]>, verb: &[String]) -> anyhow::Result<Vec<Stage>> {
        let backbones = self.settings.all("backbone");
        if backbones.len() <= 1 {
            return self.stages(&self.spec(heads.map(<[_]>::to_vec))?, verb, None);
        }
        let (mut stages, mut names) = (Vec::new(), Vec::new());
        for backbone in backbones {
            let name = short_name(&backbone, &names);
            let mut spec = self.spec(heads.map(<[_]>::to_vec))?;
            spec.plan.backbone = fetch::backbone(&backbone)?;
            (spec.plan.settings.backbone, spec.out) = (backbone.clone(), self.out.join(&name));
            let first = stages.len();
            stages.extend(
                self.stages(&spec, verb, Some(&name)).with_context(|| format!("--backbone {backbone}"))?,
            );
            stages[first..].iter_mut().for_each(|stage| stage.out = Some(name.clone()));
            names.push(name);
        }
        Ok(stages)
    }

    /// The stages of one run: missing tokens, training in parts, joining. Refuses now what each task would refuse.
    fn stages(&self, spec: &TrainSpec, verb: &[String], chain: Option<&str>) -> anyhow::Result<Vec<Stage>> {
        let TrainSpec { plan, out, .. } = spec;
        let parts = self.submit.tasks.map_or(plan.settings.seeds, |parts| parts as usize);
        plan.can_be_cut(parts)?;
        let settings = TrainSettings { out: Some(out.clone()), ..plan.settings.clone() };
        let (_, tokens, _) = preflight(&TrainPlan { settings, ..plan.clone() })?;
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or(Usage(format!("{}: is not valid Unicode", path.display())))
        };
        let run = text(out)?;
        let mut stages = Vec::new();
        if !plan.settings.recomputes(false) && !tokens.complete() {
            let data = text(plan.data())?;
            let token_flags = self.settings.part::<TokenSettings>();
            let TrainSettings { backbone, device, layers, .. } = &plan.settings;
            let words = extract::verb(backbone, &data, device, layers, &token_flags)?;
            let shards = tokens.images.div_ceil(SHARD);
            if parts.min(shards) > 1 {
                stages.push(Stage::cut("tokens", words.clone(), parts.min(shards)));
            }
            stages.push(Stage::single("all-tokens", words));
        }
        let flags = self.settings.words().map_err(Usage)?;
        let others = flags.into_iter().filter(|word| !word.starts_with("--backbone="));
        let backbone = format!("--backbone={}", plan.settings.backbone);
        let own = [format!("--out={run}"), "--resume".to_owned()];
        let words =
            verb.iter().cloned().chain([backbone]).chain(others).chain(own).chain(self.tensorboard_word()?);
        stages.push(Stage::cut(TRAIN, words.collect(), parts));
        let chain = chain.map_or("--join".to_owned(), |chain| format!("--join={chain}"));
        let join = ["jobs".to_owned(), text(&self.out)?, chain];
        stages.push(Stage::single(JOIN, join.to_vec()));
        Ok(stages)
    }
}

/// The subfolder of a backbone's run: the last component of its id or path, numbered if it is `taken`, ignoring case.
fn short_name(backbone: &str, taken: &[String]) -> String {
    let last = backbone.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = last.chars().map(plain).collect();
    let name = match name.trim_start_matches(['.', '-']) {
        name if name.is_empty() || name.eq_ignore_ascii_case("tasks") => "backbone",
        name => name,
    };
    distinct(name, |name| taken.iter().any(|other| other.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn the_runs_of_several_backbones_have_folders_of_their_own() {
        let mut names: Vec<String> = Vec::new();
        for backbone in ["facebook/dinov2-base@v1", "models/vit/", "ViT", "..", "/Tasks", "a b"] {
            names.push(short_name(backbone, &names));
        }
        assert_eq!(names, ["dinov2-base-v1", "vit", "ViT-2", "backbone", "backbone-2", "a-b"]);
    }
}
