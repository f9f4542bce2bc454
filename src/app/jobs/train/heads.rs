//! Parses the heads a user lists and their settings, and lists the available settings for messages and help.

use std::fmt::{Display, Write};
use std::path::Path;

use serde_json::{Map, Value};

use super::TrainingError;
use crate::model::hand_order::HandOrder;
use crate::model::order_file;
use crate::model::probe::head::scan::ORDER;
use crate::model::probe::head::{self, Config, HEADS, HeadSpec};
use crate::model::train::run::Variant;

/// The variants for the heads a user lists: ids, `order:FILE`, `all` or `paper`, each once, with settings `KEY=VALUE` for all
/// heads or `HEAD.KEY=VALUE` for one.
pub fn variants(heads: &[String], settings: &[String]) -> Result<Vec<Variant>, TrainingError> {
    let words: Vec<&str> = heads
        .iter()
        .flat_map(|head| match head.trim() {
            "all" => HEADS.iter().map(|kind| kind.id).collect(),
            "paper" => head::of_paper().map(|kind| kind.id).collect(),
            id => vec![id],
        })
        .collect();
    let file = |word: &str| word.strip_prefix(ORDER.id)?.strip_prefix(':').map(str::to_owned);
    let ids: Vec<&str> = words.iter().map(|word| file(word).map_or(*word, |_| ORDER.id)).collect();
    ids.iter().try_for_each(|id| find(id).map(drop))?;
    let settings = settings.iter().map(|given| Setting::parse(given, &ids)).collect::<Result<Vec<_>, _>>()?;
    for (at, Setting { given, head, key, .. }) in settings.iter().enumerate() {
        if settings[..at].iter().any(|known| (known.head, known.key) == (*head, *key)) {
            return Err(wrong(given, "it is given twice"));
        }
        let listed = || HEADS.iter().chain([&ORDER]);
        let meant = || listed().filter(|kind| head.map_or(ids.contains(&kind.id), |id| id == kind.id));
        if !meant().any(|kind| kind.has(key)) {
            return Err(wrong(given, without(meant(), key)));
        }
    }
    let mut variants: Vec<Variant> = Vec::new();
    for (word, id) in words.into_iter().zip(ids) {
        let variant = match file(word) {
            None if id == ORDER.id => {
                let why = "the head `order` takes its order from a file; give it as order:FILE";
                return Err(TrainingError::Refused(why.to_owned()));
            }
            None => Variant::new(id, id, config(id, &settings)?),
            Some(file) => {
                let config = config(id, &settings)?;
                let order: HandOrder = order_file::read(Path::new(&file))?;
                Variant::new(order.id(), id, Config { order: Some(order), ..config })
            }
        };
        match variants.iter().find(|known| known.name == variant.name) {
            None => variants.push(variant),
            Some(known) if *known == variant => {}
            // Two files of one name: which is which in the run?
            Some(_) => return Err(TrainingError::of_name(&variant.name)),
        }
    }
    Ok(variants)
}

/// The head `id`.
pub(super) fn find(id: &str) -> Result<&'static HeadSpec, TrainingError> {
    head::find(id).ok_or_else(|| {
        let known = HEADS.iter().map(|kind| kind.id).collect::<Vec<_>>().join(", ");
        TrainingError::Refused(format!("there is no head `{id}`; the heads are: {known} and order:FILE"))
    })
}

/// The refusal of a `--config` argument.
fn wrong(given: &str, why: impl Display) -> TrainingError {
    TrainingError::Refused(format!(
        "--config {given}: {why}; expected KEY=VALUE for all heads or HEAD.KEY=VALUE for one"
    ))
}

/// One `--config` argument, parsed.
struct Setting<'a> {
    given: &'a str,
    head: Option<&'a str>,
    key: &'a str,
    value: Value,
}

impl<'a> Setting<'a> {
    fn parse(given: &'a str, ids: &[&str]) -> Result<Self, TrainingError> {
        let (name, value) = given.split_once('=').ok_or_else(|| wrong(given, "there is no `=`"))?;
        let (head, key) = name.rsplit_once('.').map_or((None, name), |(head, key)| (Some(head), key));
        if head.is_some_and(|head| !ids.contains(&head)) {
            return Err(wrong(given, "the head is not among those trained"));
        }
        Ok(Self { given, head, key, value: value_of(key, value) })
    }
}

/// The settings that apply to the head `id`, of those that it has.
fn config(id: &str, settings: &[Setting<'_>]) -> Result<Config, TrainingError> {
    let has = |key: &str| head::find(id).is_some_and(|kind| kind.has(key));
    let mut config = Config::default();
    let mut map = Map::new();
    let own = |setting: &&Setting<'_>| setting.head.is_none_or(|head| head == id) && has(setting.key);
    for setting in settings.iter().filter(own) {
        map.insert(setting.key.to_owned(), setting.value.clone());
        config = serde_json::from_value(Value::Object(map.clone()))
            .map_err(|error| wrong(setting.given, error))?;
    }
    Ok(config)
}

/// Parses the typed value of the setting `key`; text that is not JSON becomes a string.
pub(super) fn value_of(key: &str, text: &str) -> Value {
    match (key, text) {
        ("gamma", "none") => Value::Null, // for other settings `none` is a string
        _ => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    }
}

/// The settings of a head in words, with their defaults.
pub(super) fn settings_text(kind: &HeadSpec) -> String {
    let all: Vec<String> = kind.fields().iter().map(|(name, value)| format!("{name}={value}")).collect();
    if all.is_empty() { "no settings".to_owned() } else { all.join(", ") }
}

/// The message that none of the heads `kinds` takes the setting `key`, with the settings they do take.
pub(super) fn without<'a>(kinds: impl Iterator<Item = &'a HeadSpec>, key: &str) -> String {
    let all: Vec<String> = kinds.map(|kind| format!("{} has {}", kind.id, settings_text(kind))).collect();
    match all.as_slice() {
        [one] => format!("there is no setting `{key}`: {one}"),
        all => format!("none of these heads has a setting `{key}`: {}", all.join("; ")),
    }
}

/// The help text that lists every head: what it does, its settings and their defaults.
pub fn listed() -> String {
    let wide = HEADS.iter().map(|kind| kind.id.len()).max().unwrap_or(0);
    let mut text = "Heads, and their settings with the defaults (for tokens of width 768):\n".to_owned();
    let all = HEADS.iter().map(|kind| (kind.id, kind)).chain([("order:FILE", &ORDER)]);
    for (id, kind) in all {
        let (what, settings) = (kind.summary, settings_text(kind));
        // clap would break a line of more than 98 columns, and begin the next one below the id.
        let fits = wide + what.len() + settings.len() <= 92;
        let between = if fits { " " } else { "\n      " };
        let _ = writeln!(text, "  {id:wide$}  {what};{between}{settings}"); // a String takes all
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::probe::head::{Discretization, find};

    #[test]
    fn every_head_is_listed_with_its_settings() {
        let text = listed();
        let is_item = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
        assert_eq!(text.lines().filter(is_item).count(), 1 + HEADS.len());
        assert!(text.lines().all(|line| line.chars().count() <= 98), "{text}");
        assert!(text.contains("order:FILE"));
        assert!(
            text.contains("Sinkhorn's soft sorting;\n      temperature=0.1, iterations=20, state_dim=128"),
            "{text}"
        );
        assert!(text.contains("Mean of the patch tokens; no settings"));
        assert!(text.contains("sharing=shared, discretization=bilinear\n") && text.contains("; gamma=none"));
        let softsort = find("softsort").unwrap();
        assert!(softsort.has("power") && !find("sinkhorn").unwrap().has("power"));
        assert!(without([softsort].into_iter(), "k").contains("power=2"));
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn heads_are_listed_once_and_settings_find_their_head() {
        let variants =
            variants(&words("gap sinkhorn gap softsort"), &words("state_dim=4 sinkhorn.temperature=0.5"));
        let settings = |one: &Variant| (one.name.clone(), one.config.state_dim, one.config.temperature);
        let found: Vec<_> = variants.unwrap().iter().map(settings).collect();
        // A setting for all heads is recorded only for those that have it, a setting for one head only for that one.
        let [gap, sinkhorn, softsort] = ["gap", "sinkhorn", "softsort"].map(str::to_owned);
        assert_eq!(found, [(gap, None, None), (sinkhorn, Some(4), Some(0.5)), (softsort, Some(4), None)]);
        assert_eq!(super::variants(&words("paper"), &[]).unwrap().len(), 19);
        assert_eq!(super::variants(&words("all gap"), &[]).unwrap().len(), HEADS.len());
    }

    #[test]
    fn settings_that_are_absent_by_default_can_be_set() {
        let found = variants(&words("raster simpool"), &words("discretization=zoh simpool.gamma=2")).unwrap();
        assert_eq!(found[0].config.discretization, Some(Discretization::Zoh));
        assert_eq!(found[1].config.gamma, Some(2.0));
        let found = variants(&words("simpool"), &words("gamma=none")).unwrap();
        assert_eq!(found[0].config.gamma, None);
    }

    #[test]
    fn an_order_file_is_a_head_of_its_own_name() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["a/mine.csv", "b/mine.csv"].map(|name| folder.path().join(name));
        for (path, text) in [(&one, "order\n1\n0\n"), (&other, "order\n0\n1\n")] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let listed = |path: &Path| format!("order:{}", path.display());
        let settings = words("order.state_dim=4");
        let found = variants(&[listed(&one), "gap".into(), listed(&one)], &settings).unwrap();
        assert_eq!((found.len(), &*found[0].name, &*found[0].head), (2, "order-mine", "order"));
        let order = found[0].config.order.clone().unwrap();
        assert_eq!(
            (order.tokens(), order.file(), found[0].config.state_dim),
            (&[1, 0][..], Some("mine.csv"), Some(4))
        );
        assert_eq!(found[0].config.fields()[0], ("state_dim".into(), "4".into()));
        for (heads, said) in [
            (vec!["order".into()], "order:FILE"),
            (vec![listed(&one), listed(&other)], "`order-mine` cannot name a head"),
            (vec![listed(&folder.path().join("none.npz"))], "none.npz: the order cannot be read"),
        ] {
            let error = variants(&heads, &[]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn what_is_no_setting_is_refused_by_name() {
        for (heads, settings, said) in [
            ("gap", "colour=red", "colour"),
            ("gap", "temperature", "no `=`"),
            ("gap", "raster.state_dim=3", "not among"),
            ("sinkhorn", "temperature=1 temperature=2", "temperature=2: it is given twice"),
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
