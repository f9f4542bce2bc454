//! The grid of a sweep: one variant of a head for every combination of settings, all trained in one
//! run on one pass of tokens. A variant is called `head[field=value,...]`, fields in the order given.

use std::fmt;

use serde_json::{Map, Value};

use super::{TrainingError, heads};
use crate::model::probe::head::Config;
use crate::model::train::run::{Variant, variant_name};

/// Most variants of one run: each holds its parameters and moments on the device.
pub(super) const MAX_VARIANTS: usize = 1024;

/// One field of the grid and the values to try for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// A field of a head's settings.
    pub field: String,
    /// Its values.
    pub values: Vec<Value>,
}

impl Axis {
    /// Parses `field=value,value,...`; a value that is not JSON is a string.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (field, values) = text.split_once('=').ok_or("expected FIELD=VALUE,VALUE,...")?;
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        if field.is_empty() || values.iter().any(|value| value.is_empty()) {
            return Err("expected FIELD=VALUE,VALUE,...".into());
        }
        let values: Vec<Value> = values.into_iter().map(|value| heads::value_of(field, value)).collect();
        let is_again =
            |(i, value): &(usize, &Value)| values[..*i].iter().any(|other| are_equal(other, value));
        if let Some((_, twice)) = values.iter().enumerate().find(is_again) {
            return Err(format!("{twice} is given twice"));
        }
        Ok(Self { field: field.to_owned(), values })
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.field, self.values.iter().map(word).collect::<Vec<_>>().join(","))
    }
}

/// Whether two values are one setting, as 1 and 1.0 are.
fn are_equal(a: &Value, b: &Value) -> bool {
    a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64())
}

/// A value as the user types it: a string without its quotes.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Every combination of the axes, the last one changing fastest; all other settings come from `shared`.
///
/// # Errors
/// If the head or a field is unknown, a field is repeated, a value is invalid, or there are over 1024 combinations.
pub fn variants(id: &str, axes: &[Axis], shared: &Config) -> Result<Vec<Variant>, TrainingError> {
    let kind = heads::find(id)?;
    let wrong = |why: String| {
        let given = axes.iter().map(|axis| axis.field.as_str()).collect::<Vec<_>>().join(" ");
        TrainingError::Refused(format!(
            "--grid {given}: {why}; expected fields of the head's settings, such as `iterations=1,5,20`"
        ))
    };
    if let Some(twice) = axes.iter().enumerate().find(|(i, a)| axes[..*i].iter().any(|b| b.field == a.field))
    {
        return Err(wrong(format!("`{}` is given twice", twice.1.field)));
    }
    let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
    let count = count.filter(|&count| count <= MAX_VARIANTS);
    let count =
        count.ok_or_else(|| wrong(format!("more than {MAX_VARIANTS} combinations; train them in parts")))?;
    let shared = match serde_json::to_value(shared) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let variant = |index: usize| {
        let mut rest = index;
        let mut chosen: Vec<(&str, &Value)> = Vec::new();
        for axis in axes.iter().rev() {
            chosen.push((&axis.field, &axis.values[rest % axis.values.len()]));
            rest /= axis.values.len();
        }
        chosen.reverse();
        let mut map = shared.clone();
        map.extend(chosen.iter().map(|(field, value)| ((*field).to_owned(), (*value).clone())));
        let config: Config =
            serde_json::from_value(Value::Object(map)).map_err(|error| wrong(error.to_string()))?;
        if let Some((field, _)) = chosen.iter().find(|(field, _)| !kind.has(field)) {
            return Err(wrong(heads::without([kind].into_iter(), field)));
        }
        kind.build(&config).map_err(|error| wrong(error.to_string()))?;
        let name = variant_name::with_settings(id, chosen.iter().map(|(field, value)| (field, word(value))));
        Ok(Variant::new(name, id, config))
    };
    (0..count).map(variant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(texts: &[&str]) -> Vec<Axis> {
        texts.iter().map(|text| Axis::parse(text).unwrap()).collect()
    }

    #[test]
    fn a_grid_is_every_combination() {
        // The grid overrides settings for all heads.
        let shared = Config { state_dim: Some(4), temperature: Some(0.5), ..Config::default() };
        let grid = axes(&["temperature=0.1,1.0", "iterations=1,20"]);
        let found = variants("sinkhorn", &grid, &shared).unwrap();
        let names: Vec<&str> = found.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names[0], "sinkhorn[temperature=0.1,iterations=1]");
        assert_eq!(names[1], "sinkhorn[temperature=0.1,iterations=20]");
        assert_eq!(names[3], "sinkhorn[temperature=1.0,iterations=20]");
        assert_eq!(found[2].config.temperature, Some(1.0));
        assert_eq!((found[2].config.iterations, found[2].config.state_dim), (Some(1), Some(4)));
        let words = variants("raster", &axes(&["sharing=shared,channel"]), &Config::default()).unwrap();
        assert_eq!(words[1].name, "raster[sharing=channel]");
        for (id, grid) in [("sinkhorn", "discretization=bilinear,zoh"), ("simpool", "gamma=none,2")] {
            assert_eq!(variants(id, &axes(&[grid]), &Config::default()).unwrap().len(), 2, "{id}");
        }
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        let fault = |id: &str, texts: &[&str]| {
            variants(id, &axes(texts), &Config::default()).unwrap_err().to_string()
        };
        assert!(fault("sinkhorn", &["colour=1"]).contains("`colour`"));
        assert!(fault("sinkhorn", &["power=1,2"]).contains("sinkhorn has temperature=0.1, iterations=20"));
        assert!(fault("sinkhorn", &["iterations=0"]).contains("iterations"));
        assert!(fault("sinkhorn", &["iterations=1", "iterations=2"]).contains("twice"));
        assert!(fault("sorted", &["iterations=1"]).contains("no head `sorted`"));
        assert!(Axis::parse("iterations").is_err() && Axis::parse("iterations=1,,2").is_err());
        assert!(Axis::parse("iterations=1,1").is_err());
        assert_eq!(Axis::parse("temperature=1,0.1,1.0").unwrap_err(), "1.0 is given twice");
    }
}
