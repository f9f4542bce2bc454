//! What a person asks to be trained: which heads, with which settings, on what, how.

use std::collections::HashSet;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{TrainingError, settings as known};
use crate::app::jobs::extract::{ExtractOptions, Plan};
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::token_cache;
use crate::model::probe::head::{self, Config, HEADS, HeadSpec};
use crate::model::train::TrainConfig;
use crate::model::train::run::{Manifest, Run, RunError, Selection, Variant};

/// What is to be trained.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainPlan {
    /// The backbone as it was asked for: a folder, or an id of the Hub.
    pub backbone_source: String,
    /// Whose tokens, and how they are kept.
    pub tokens: ExtractOptions,
    /// The dataset's folder or table.
    pub data: PathBuf,
    /// What is trained, every name once.
    pub heads: Vec<Variant>,
    /// How.
    pub protocol: TrainConfig,
    /// One training of all heads each.
    pub seeds: Vec<u64>,
    /// The share of train that picks the best epoch, if any.
    pub selection: Option<f64>,
    /// Whether no tokens are kept and the backbone runs again for every batch.
    pub recompute: bool,
    /// Where it is computed: `cpu`, `wgpu`, `cuda`, `auto`.
    pub device: String,
}

impl TrainPlan {
    /// Refuses names that stand twice or cannot stand in a file's name.
    pub(super) fn check(&self) -> Result<(), TrainingError> {
        let mut seen = HashSet::new();
        for Variant { name, .. } in &self.heads {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,.[]".contains(c);
            let inner_dots = !name.starts_with('.') && name.chars().all(|c| plain(c) || c == '.');
            if name.is_empty() || !inner_dots || !seen.insert(name) {
                return Err(TrainingError::Name { name: name.clone() });
            }
        }
        Ok(())
    }

    /// Refuses heads that read the CLS token where the backbone has none.
    pub(super) fn check_cls(&self, plan: &Plan) -> Result<(), TrainingError> {
        let needs = |variant: &&Variant| head::find(&variant.head).is_some_and(HeadSpec::needs_cls);
        let names = |heads: Vec<&Variant>| {
            heads.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>().join(",")
        };
        let (without, others): (Vec<_>, Vec<_>) = self.heads.iter().partition(needs);
        if plan.cls || without.is_empty() {
            return Ok(());
        }
        Err(TrainingError::NoCls {
            heads: names(without),
            backbone: plan.backbone.id.clone(),
            model_type: plan.backbone.model_type.clone(),
            others: names(others),
        })
    }

    /// The order a run was begun with, its tokens kept in `root`. `folder` is the backbone's;
    /// `device` is where it goes on, if not where it began.
    pub fn of_run(
        run: &Run,
        folder: PathBuf,
        root: PathBuf,
        limit: u64,
        device: Option<String>,
    ) -> Result<Self, TrainingError> {
        let Manifest {
            backbone_source,
            dataset,
            tokens,
            size,
            heads,
            protocol,
            seeds,
            selection,
            recompute,
            ..
        } = run.manifest.clone();
        let taking = TokenSpec::read(&tokens.layer, size).ok_or_else(|| RunError::Damaged {
            path: run.folder().join("run.json"),
            found: format!("`tokens.layer` is `{}`, which is no layer", tokens.layer),
        })?;
        let precision = tokens.precision;
        let tokens = ExtractOptions { backbone: folder, taking, precision, root, limit, verify: false };
        let selection = match selection {
            Selection::PartOfTrain(share) => Some(share),
            Selection::Test | Selection::Val => None,
        };
        let device = device.unwrap_or_else(|| run.manifest.device.clone());
        let data = dataset.path;
        Ok(Self { backbone_source, tokens, data, heads, protocol, seeds, selection, recompute, device })
    }
}

/// The heads a person lists: ids, `all` or `paper`, each once, with settings `KEY=VALUE` for all
/// heads or `HEAD.KEY=VALUE` for one.
pub fn variants(heads: &[String], settings: &[String]) -> Result<Vec<Variant>, TrainingError> {
    let ids: Vec<&str> = heads
        .iter()
        .flat_map(|head| match head.trim() {
            "all" => HEADS.iter().map(|kind| kind.id).collect(),
            "paper" => head::of_paper().map(|kind| kind.id).collect(),
            id => vec![id],
        })
        .collect();
    if let Some(id) = ids.iter().find(|id| head::find(id).is_none()) {
        return Err(TrainingError::UnknownHead { found: (*id).to_owned() });
    }
    let settings = settings.iter().map(|given| Setting::parse(given, &ids)).collect::<Result<Vec<_>, _>>()?;
    for Setting { given, head, key, .. } in &settings {
        let meant =
            || HEADS.iter().filter(|kind| head.as_deref().map_or(ids.contains(&kind.id), |id| id == kind.id));
        if !meant().any(|kind| known::has(kind, key)) {
            return Err(TrainingError::Setting { given: given.clone(), why: known::without(meant(), key) });
        }
    }
    let mut seen = HashSet::new();
    let once = ids.into_iter().filter(|id| seen.insert(*id));
    once.map(|id| Ok(Variant { name: id.to_owned(), head: id.to_owned(), config: config(id, &settings)? }))
        .collect()
}

/// One `--config`.
struct Setting {
    given: String,
    head: Option<String>,
    key: String,
    value: Value,
}

impl Setting {
    fn parse(given: &str, ids: &[&str]) -> Result<Self, TrainingError> {
        let wrong = |why: &str| TrainingError::Setting { given: given.to_owned(), why: why.to_owned() };
        let (name, value) = given.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
        let (head, key) = match name.rsplit_once('.') {
            Some((head, key)) => (Some(head.to_owned()), key),
            None => (None, name),
        };
        if head.as_deref().is_some_and(|head| !ids.contains(&head)) {
            return Err(wrong("the head is not among those trained"));
        }
        // What is no number is a word.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        Ok(Self { given: given.to_owned(), head, key: key.to_owned(), value })
    }
}

/// The settings of one head.
fn config(id: &str, settings: &[Setting]) -> Result<Config, TrainingError> {
    let mut config = Config::default();
    let mut map = Map::new();
    for setting in settings.iter().filter(|setting| setting.head.as_deref().is_none_or(|head| head == id)) {
        let wrong = |why: String| TrainingError::Setting { given: setting.given.clone(), why };
        map.insert(setting.key.clone(), setting.value.clone());
        config =
            serde_json::from_value(Value::Object(map.clone())).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(config)
}

/// An error that names the first thing in which the run on disk is another than the one asked for.
/// Where it is computed, where its files lie and by which version may change, and seeds may be added;
/// before its images are `counted`, so may their numbers.
pub(super) fn compare(run: &Run, asked: &Manifest, counted: bool) -> Result<(), TrainingError> {
    let (mut found, mut asked) = (fields(&run.manifest), fields(asked));
    if let (Some(found), Some(asked)) = (found.get_mut("seeds"), asked.get_mut("seeds"))
        && let (Value::Array(old), Value::Array(new)) = (&*found, &mut *asked)
        && new.starts_with(old)
    {
        new.truncate(old.len());
    }
    let counts: &[&str] = &["dataset.train", "dataset.select", "dataset.test", "dataset.unreadable"];
    let free = |field: &str| FREE.contains(&field) || (!counted && counts.contains(&field));
    if let Some((field, found, asked)) = difference("", &Value::Object(found), &Value::Object(asked), &free) {
        let remedy = match field.as_str() {
            "heads" => OTHER_HEADS,
            "tokens.dataset" => OTHER_IMAGES,
            _ => ALONE,
        };
        return Err(TrainingError::Differs { run: run.folder().to_owned(), field, found, asked, remedy });
    }
    Ok(())
}

/// What may change while a run goes on: a dataset or a backbone may have moved.
const FREE: &[&str] = &[
    "device",
    "program",
    "backbone_source",
    "warning",
    "cache",
    "recompute",
    "size",
    "dataset.path",
    "dataset.name",
    "backbone.id",
];
const ALONE: &str = "resume with `--resume --out` alone, or train into another folder";
const OTHER_IMAGES: &str = "an image was changed, added, removed or written anew since; put the dataset back, or, if all images are what they were and only their times differ, `--resume --verify` compares what is in them and goes on; or train into another folder";
const OTHER_HEADS: &str = "train the others into a folder of their own: `ssmprobe report` takes several runs";

/// Refuses tokens that are not those the run's probes read.
///
/// # Errors
/// Names the first thing that is another: weights, pixels, layer or precision.
pub fn same_tokens(run: &Run, tokens: &token_cache::TokenKey) -> Result<(), TrainingError> {
    let of = |source: &token_cache::TokenKey| serde_json::to_value(source).unwrap_or_default();
    let free = |field: &str| field == "tokens.dataset";
    match difference("tokens", &of(&run.manifest.tokens), &of(tokens), &free) {
        None => Ok(()),
        Some((field, found, asked)) => {
            let remedy =
                "leave out what says otherwise (--backbone, --layer, --size, --precision, --mae-order)";
            Err(TrainingError::Differs { run: run.folder().to_owned(), field, found, asked, remedy })
        }
    }
}

fn fields(manifest: &Manifest) -> Map<String, Value> {
    match serde_json::to_value(manifest) {
        Ok(Value::Object(map)) => map,
        _ => unreachable!("a manifest is a JSON object"),
    }
}

/// The first field in which two JSON documents differ and may not, and what stands there.
fn difference(
    place: &str,
    found: &Value,
    asked: &Value,
    free: &dyn Fn(&str) -> bool,
) -> Option<(String, String, String)> {
    if found == asked || free(place) {
        return None;
    }
    let (Value::Object(left), Value::Object(right)) = (found, asked) else {
        return Some((place.to_owned(), brief(found), brief(asked)));
    };
    let keys = right.keys().chain(left.keys().filter(|key| !right.contains_key(*key)));
    keys.into_iter().find_map(|key| {
        let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
        let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
        difference(&place, &of(left), &of(right), free)
    })
}

/// A value as a person reads it: of named things their names, where these tell them apart.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(all) if all.len() > 1 && all.iter().all(|one| one["name"].is_string()) => {
            let one = |one: &Value| match one["config"].as_object().filter(|config| !config.is_empty()) {
                Some(_) => format!("{} {}", one["name"].as_str().unwrap_or_default(), one["config"]),
                None => one["name"].as_str().unwrap_or_default().to_owned(),
            };
            all.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn heads_are_listed_once_and_settings_find_their_head() {
        let variants =
            variants(&words("gap sinkhorn gap"), &words("state_dim=4 sinkhorn.temperature=0.5")).unwrap();
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names, ["gap", "sinkhorn"]);
        assert_eq!((variants[0].config.state_dim, variants[0].config.temperature), (Some(4), None));
        assert_eq!((variants[1].config.state_dim, variants[1].config.temperature), (Some(4), Some(0.5)));
        assert_eq!(super::variants(&words("paper"), &[]).unwrap().len(), 19);
        assert_eq!(super::variants(&words("all gap"), &[]).unwrap().len(), HEADS.len());
    }

    #[test]
    fn what_is_no_setting_is_refused_by_name() {
        for (heads, settings, said) in [
            ("gap", "colour=red", "colour"),
            ("gap", "temperature", "no `=`"),
            ("gap", "raster.state_dim=3", "not among"),
            (
                "gap topk",
                "power=2",
                "none of these heads has a setting `power`: gap has no settings; topk has k=16",
            ),
            ("gap topk", "gap.k=2", "no setting `k`: gap has no settings"),
            ("raster", "state_dim=many", "state_dim"),
            ("pooling", "state_dim=3", "gap, cls"),
        ] {
            let error = variants(&words(heads), &words(settings)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
