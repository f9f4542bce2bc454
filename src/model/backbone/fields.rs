//! Typed access to the fields of a `config.json`, with errors that name the field.

use std::ops::RangeInclusive;
use std::path::Path;

use serde_json::{Map, Value};

use super::config::ConfigError;

/// The fields of one file, or of one object in it.
pub(super) struct Fields<'a> {
    /// The file, for errors.
    pub path: &'a Path,
    /// The JSON object that holds the fields.
    pub map: &'a Map<String, Value>,
    /// The key of that object in the file; empty for the whole file.
    pub within: &'a str,
}

impl Fields<'_> {
    /// The error that `field` is not one of the `supported` values.
    pub fn error(&self, field: &'static str, supported: impl Into<String>) -> ConfigError {
        let found = match self.map.get(field) {
            None => "absent".to_owned(),
            Some(value) => value.to_string().chars().take(80).collect(),
        };
        let field = match self.within {
            "" => field.to_owned(),
            within => format!("{within}.{field}"),
        };
        ConfigError::Field { path: self.path.to_owned(), field, found, supported: supported.into() }
    }

    fn integer(value: &Value, range: &RangeInclusive<usize>) -> Option<usize> {
        value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| range.contains(n))
    }

    /// An integer within `range`; `default` if absent.
    pub fn count(
        &self,
        field: &'static str,
        default: usize,
        range: RangeInclusive<usize>,
    ) -> Result<usize, ConfigError> {
        let Some(value) = self.map.get(field) else { return Ok(default) };
        let supported = || self.error(field, format!("{} to {}", range.start(), range.end()));
        Self::integer(value, &range).ok_or_else(supported)
    }

    /// `[height, width]`, written so or as one integer for both; `default` for both if absent.
    pub fn size(
        &self,
        field: &'static str,
        default: usize,
        range: RangeInclusive<usize>,
    ) -> Result<[usize; 2], ConfigError> {
        let Some(value) = self.map.get(field) else { return Ok([default; 2]) };
        let sides: Option<Vec<usize>> = match value {
            Value::Array(sides) => sides.iter().map(|side| Self::integer(side, &range)).collect(),
            side => Self::integer(side, &range).map(|side| vec![side; 2]),
        };
        sides.and_then(|sides| sides.try_into().ok()).ok_or_else(|| {
            self.error(field, format!("{} to {}, or [height, width]", range.start(), range.end()))
        })
    }

    /// A real number within `range`; `default` if absent.
    pub fn number(
        &self,
        field: &'static str,
        default: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64, ConfigError> {
        let Some(value) = self.map.get(field) else { return Ok(default) };
        let supported = || self.error(field, format!("{} to {}", range.start(), range.end()));
        value.as_f64().filter(|x| range.contains(x)).ok_or_else(supported)
    }

    /// A boolean; `default` if absent.
    pub fn flag(&self, field: &'static str, default: bool) -> Result<bool, ConfigError> {
        let Some(value) = self.map.get(field) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.error(field, "true, false"))
    }
}
