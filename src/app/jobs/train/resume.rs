//! Resuming a run: the settings it was begun with, and whether the requested settings and tokens match it.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{TrainSettings, TrainingError};
use crate::app::jobs::extract::TokenSettings;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::synsets;
use crate::model::data::token_cache::{TokenCache, TokenKey};
use crate::model::io::atomic_file;
use crate::model::train::TrainConfig;
use crate::model::train::run::{Manifest, Run, RunError, Selection, Truth, Variant};

impl TrainSettings {
    /// The settings a run was begun with, except for its heads: the manifest holds those under their own names.
    ///
    /// # Errors
    /// If `tokens.layer` in its manifest names no layer, or a step has no image.
    pub fn of_run(run: &Run) -> Result<Self, RunError> {
        let manifest = run.manifest.clone();
        let tokens = &manifest.tokens;
        let damaged = |found: String| RunError::damaged(&run.folder().join("run.json"))(found);
        let no_layer = || damaged(format!("`tokens.layer` is `{}`, which is not a layer", tokens.layer));
        let token_spec = TokenSpec::read(&tokens.layer, manifest.size).ok_or_else(no_layer)?;
        let TrainConfig { epochs, batch, rate, protocol, evaluate_every, augment } = manifest.config;
        if batch == 0 {
            return Err(damaged("`protocol.batch` is 0, expected 1 or more".to_owned()));
        }
        Ok(Self {
            backbone: manifest.backbone_source,
            data: Some(manifest.dataset.path),
            epochs,
            seeds: manifest.seeds.len(),
            first_seed: manifest.seeds.first().copied().unwrap_or(0),
            batch,
            rate,
            protocol,
            evaluate_every,
            augment,
            selection: match manifest.selection {
                Selection::PartOfTrain(share) => Some(share),
                Selection::Test | Selection::Val => None,
            },
            recompute: manifest.recompute,
            tokens: TokenSettings {
                cache: run.cache().filter(|cache| is_usable(cache, tokens)),
                precision: tokens.precision,
                token_spec,
                ..TokenSettings::default()
            },
            device: manifest.device,
            ..Self::default()
        })
    }
}

/// Whether this user can work with the token caches in `cache`: add to them, or read these tokens. Those of another user's run
/// may be neither his to change nor complete.
fn is_usable(cache: &Path, tokens: &TokenKey) -> bool {
    let refused = atomic_file::can_write(cache).is_err_and(|why| atomic_file::is_refused(why.kind()));
    !refused || matches!(TokenCache::find(cache, tokens), Ok(Some(_)))
}

/// Returns an error that names the first field in which the run on disk differs from the requested one.
/// The [`MUTABLE_FIELDS`] fields (device, paths, program version, ...) may differ, and seeds may be added; the image
/// counts may differ only while `counted` is false, before unreadable images are known.
pub(super) fn compare(run: &Run, asked: &Manifest, counted: bool) -> Result<(), TrainingError> {
    // A list of words for WordNet ids may have been put into the dataset's folder since.
    let renamed =
        synsets::same(&run.manifest.dataset.classes, &asked.dataset.classes).then_some("dataset.classes");
    let (found, mut asked) = (json(&run.manifest), json(asked));
    if let (Value::Array(old), Value::Array(new)) = (&found["seeds"], &mut asked["seeds"])
        && new.starts_with(old)
    {
        new.truncate(old.len());
    }
    let counts = ["dataset.train", "dataset.select", "dataset.test", "dataset.unreadable"];
    // Earlier versions did not record it.
    let unknown = found["backbone"]["config"].is_null().then_some("backbone.config");
    let free = |field: &str| {
        MUTABLE_FIELDS.contains(&field)
            || (!counted && counts.contains(&field))
            || [unknown, renamed].contains(&Some(field))
    };
    refuse(run, difference("", &found, &asked, &free), |field| match field {
        "heads" => OTHER_HEADS,
        "tokens.dataset" => OTHER_IMAGES,
        "backbone.fingerprint" | "backbone.config" | "tokens.weights" | "tokens.preprocessing" => {
            OTHER_BACKBONE
        }
        "seeds" => OTHER_SEEDS,
        _ => RESUME_ALONE,
    })
}

/// Refuses test images or classes of them other than the run's, whose numbers are the same and whose tokens do not tell.
pub(super) fn compare_truth(run: &Run, asked: &Truth) -> Result<(), TrainingError> {
    let found = run.truth()?;
    let of_image = |truth: &Truth, at: usize| Some((*truth.indices.get(at)?, *truth.classes.get(at)?));
    let differs = |at: &usize| of_image(&found, *at) != of_image(asked, *at);
    let shown = |truth: &Truth, at: usize| {
        let class = *truth.classes.get(at)?;
        let name = run.manifest.dataset.classes.get(class)?;
        Some(format!("{} is of `{name}`", truth.images.get(at)?))
    };
    let difference = (0..found.images.len().max(asked.images.len())).find(differs).map(|at| {
        let [found, asked] =
            [&found, asked].map(|truth| shown(truth, at).unwrap_or_else(|| "nothing".to_owned()));
        ("answers/truth.json".to_owned(), found, asked)
    });
    refuse(run, difference, |_| OTHER_LABELS)
}

/// Whether two runs are of one training, with the same seeds, but for their heads, none of which both have.
pub fn have_other_heads_alone(run: &Run, other: &Run) -> bool {
    let (heads, others) = (&run.manifest.heads, &other.manifest.heads);
    let is_shared = |variant: &Variant| others.iter().any(|own| own.head == variant.head);
    let alike = Manifest { heads: heads.clone(), ..other.manifest.clone() };
    run.manifest.seeds == other.manifest.seeds
        && !heads.iter().any(is_shared)
        && compare(run, &alike, true).is_ok()
}

/// Refuses tokens other than those the run's probes read; `config` is what the backbone's `config.json` says besides its weights,
/// if it is known.
///
/// # Errors
/// Names the first field that differs: weights, pixels, layer, precision or configuration.
pub fn same_tokens(run: &Run, tokens: &TokenKey, config: Option<&str>) -> Result<(), TrainingError> {
    let manifest = &run.manifest;
    let mut all = manifest.heads.iter().map(|variant| manifest.tokens_of(variant));
    let found = all.find(|own| own.layer == tokens.layer).unwrap_or(manifest.tokens.clone());
    let (found, asked) = (json(&found), json(tokens));
    let difference = difference("tokens", &found, &asked, &|field| field == "tokens.dataset");
    let difference = difference.map(|(field, found, asked)| match field.as_str() {
        "tokens.layer" => {
            let all: Vec<String> = manifest.layers().iter().map(|layer| format!("{layer:?}")).collect();
            (field, all.join(", "), asked)
        }
        _ => (field, found, asked),
    });
    let other_config = || {
        let (found, asked) = manifest.backbone.config.as_deref().zip(config)?;
        self::difference("backbone.config", &found.into(), &asked.into(), &|_| false)
    };
    refuse(run, difference.or_else(other_config), |_| OTHER_TOKENS)
}

/// Manifest fields that may change when a run is resumed: a dataset or a backbone may have moved.
const MUTABLE_FIELDS: &[&str] = &[
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
const RESUME_ALONE: &str = "resume with `--resume --out` alone, or train into another folder";
const OTHER_BACKBONE: &str = "resume with `--resume --out` alone, or, if the files of the backbone were changed since, \
                              restore them; or train into another folder";
const OTHER_SEEDS: &str = "seeds can only be added after those it has: use `--resume --out` alone (again, if another training has just added \
                           some), or train into another folder";
const OTHER_IMAGES: &str = "an image was changed, added, removed or rewritten since; restore the dataset, or, if only the images' modification times differ, use `--resume --verify`, which compares their contents and continues; or train into another folder";
const OTHER_LABELS: &str =
    "the split or the classes of images were changed since: restore them, or train into another folder";
const OTHER_HEADS: &str =
    "train the others in a folder of their own: `ssmprobe report RUN OTHERS` has one table of both";

const OTHER_TOKENS: &str = "leave out the flags that say otherwise (--backbone, --layer, --blocks, --size, --precision, \
                            --mae-order), or restore the files of the backbone, if these were changed since";

/// A field's path, its value in the run, and the requested value.
pub type Difference = (String, String, String);

fn refuse(
    run: &Run,
    difference: Option<Difference>,
    remedy: fn(&str) -> &'static str,
) -> Result<(), TrainingError> {
    let Some((field, found, asked)) = difference else { return Ok(()) };
    let remedy = remedy(&field);
    Err(TrainingError::Differs { run: run.folder().to_owned(), field, found, asked, remedy })
}

fn json(document: &impl Serialize) -> Value {
    serde_json::to_value(document).expect("plain data serialises")
}

/// The first field in which two JSON documents differ, with both values; fields for which `free` holds may differ.
/// `place` is the dotted path of `found` and `asked`, empty at the root.
pub fn difference(
    place: &str,
    found: &Value,
    asked: &Value,
    free: &dyn Fn(&str) -> bool,
) -> Option<Difference> {
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

/// A value for a message: a list of named items as their names, each with its config unless that is empty.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(all) if !all.is_empty() && all.iter().all(|one| one["name"].is_string()) => {
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
    #[test]
    fn a_run_whose_steps_have_no_image_is_damaged() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/stopped");
        let mut run = super::Run::open(&folder).unwrap();
        assert!(super::TrainSettings::of_run(&run).is_ok());
        run.manifest.config.batch = 0;
        let error = super::TrainSettings::of_run(&run).unwrap_err().to_string();
        assert!(error.contains("run.json: `protocol.batch` is 0"), "{error}");
    }

    #[test]
    fn a_run_goes_on_with_more_seeds_and_with_as_many_images() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/stopped");
        let mut run = super::Run::open(&folder).unwrap();
        run.manifest.seeds = vec![3, 4];
        assert_eq!(super::TrainSettings::of_run(&run).unwrap().first_seed, 3);
        let refused = |change: fn(&mut super::Manifest), counted: bool| {
            let mut asked = run.manifest.clone();
            change(&mut asked);
            super::compare(&run, &asked, counted).err().map(|error| error.to_string())
        };
        assert_eq!(refused(|asked| asked.seeds.push(5), true), None);
        let error = refused(|asked| asked.seeds = vec![0, 1, 2], true).unwrap();
        assert!(error.contains("`seeds`") && error.contains("[0,1,2]"), "{error}");
        // How many images can be read is known only once all have been tried.
        assert_eq!(refused(|asked| asked.dataset.train -= 1, false), None);
        let error = refused(|asked| asked.dataset.train -= 1, true).unwrap();
        assert!(error.contains("`dataset.train`"), "{error}");
    }

    #[test]
    fn a_run_goes_on_where_its_classes_have_got_words_and_not_with_others() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/stopped");
        let mut run = super::Run::open(&folder).unwrap();
        let classes = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        run.manifest.dataset.classes = classes(["n01440764", "n02012849"]);
        let mut asked = run.manifest.clone();
        asked.dataset.classes = classes(["tench (n01440764)", "crane (n02012849)"]);
        super::compare(&run, &asked, true).unwrap();
        asked.dataset.classes = classes(["tench (n01440764)", "crane (n03126707)"]);
        let error = super::compare(&run, &asked, true).unwrap_err().to_string();
        assert!(error.contains("`dataset.classes`"), "{error}");
    }

    #[test]
    fn a_run_does_not_go_on_with_other_test_images_or_other_classes_of_them() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/stopped");
        let run = super::Run::open(&folder).unwrap();
        let truth = run.truth().unwrap();
        super::compare_truth(&run, &truth).unwrap();
        let (mut moved, mut other) = (truth.clone(), truth);
        moved.indices[1] += 1;
        other.classes[1] = 1 - other.classes[1];
        for asked in [moved, other] {
            let error = super::compare_truth(&run, &asked).unwrap_err().to_string();
            let words = ["`answers/truth.json`", asked.images[1].as_str(), "restore them"];
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn files_of_a_backbone_that_were_changed_are_to_be_restored() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/stopped");
        let mut run = super::Run::open(&folder).unwrap();
        run.manifest.backbone.config = Some("3 heads".to_owned());
        let mut asked = run.manifest.clone();
        asked.tokens.preprocessing.push('1');
        let resumed = super::compare(&run, &asked, true).unwrap_err().to_string();
        let evaluated = |tokens, config| super::same_tokens(&run, tokens, config);
        let other_pixels = evaluated(&asked.tokens, None).unwrap_err().to_string();
        // The same weights give other tokens with another config.json.
        let own = &run.manifest.tokens;
        let other_config = evaluated(own, Some("4 heads")).unwrap_err().to_string();
        let (pixels, config) = ("`tokens.preprocessing`", "`backbone.config`");
        for (error, field) in [(resumed, pixels), (other_pixels, pixels), (other_config, config)] {
            let words = [field, "restore", "of the backbone"];
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        assert!(evaluated(own, Some("3 heads")).is_ok() && evaluated(own, None).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn caches_that_this_user_can_neither_add_to_nor_read_are_of_no_use() {
        use crate::model::data::token_cache::{Precision, TokenKey};
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let [weights, preprocessing, dataset, layer] = ["w", "p", "d", "last"].map(str::to_owned);
        let key = TokenKey { weights, preprocessing, dataset, layer, precision: Precision::Float16 };
        assert!(super::is_usable(folder.path(), &key));
        let set_mode = |mode| {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(0o500);
        if crate::model::io::atomic_file::can_write(folder.path()).is_ok() {
            return crate::skip::because("this user may write anywhere");
        }
        assert!(!super::is_usable(folder.path(), &key));
        set_mode(0o700);
    }
}
