//! Compares a file with a frozen one by content: text, pixels and the bits of numbers. A key, array or column that a
//! later version adds is no difference; one that is missing is.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ndarray::ArrayD;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::npz;

/// Keys and columns that differ between days and versions.
const FREE: &[&str] = &["seconds", "program"];

/// Parameters that shift all logits of a softmax alike: their gradient is 0 but for rounding errors, which AdamW normalises to
/// full steps. They differ between processors with the same instructions and other caches, and the softmax in its last digit.
const ROUNDING_ALONE: &[&str] = &["attention_predictor.2.bias"];
/// Tolerance for the running statistics of pooled features in a file with such a parameter.
const POOLED: f64 = 1e-6;

/// Relative and absolute tolerance of numbers; with 0, they must be equal to the bit.
pub struct Slack(pub f64);

impl Slack {
    /// Whether two numbers have the same bits or are within the tolerance.
    fn near(&self, old: f64, new: f64) -> bool {
        old.to_bits() == new.to_bits() || self.0 > 0.0 && (old - new).abs() <= self.0 * (1.0 + old.abs())
    }

    /// The first difference of the file `new` from `old`, in words; `None` where there is none.
    pub fn difference(&self, old: &Path, new: &Path) -> Option<String> {
        let (before, Ok(now)) = (fs::read(old).expect("a frozen file"), fs::read(new)) else {
            return Some("is not written".to_owned());
        };
        if before == now {
            return None;
        }
        match old.extension().and_then(|ending| ending.to_str()) {
            Some("json" | "ssmprobe") => self.value("", &parse(&before), &parse(&now)),
            Some("jsonl") => self.value("", &lines(&before), &lines(&now)),
            Some("csv") => self.table(&before, &now),
            Some("safetensors") => self.tensors(&before, &now),
            Some("npz") => self.arrays(old, new),
            Some("svg") if drawn(&before) == drawn(&now) => None,
            Some("png") => (pixels(&before) != pixels(&now)).then(|| "has other pixels".to_owned()),
            _ => {
                let at = before.iter().zip(&now).take_while(|(a, b)| a == b).count();
                let of = |bytes: &[u8]| {
                    String::from_utf8_lossy(&bytes[at.saturating_sub(20)..bytes.len().min(at + 40)])
                        .into_owned()
                };
                Some(format!("differs at byte {at}: {:?} was {:?}", of(&now), of(&before)))
            }
        }
    }

    fn value(&self, place: &str, old: &Value, new: &Value) -> Option<String> {
        match (old, new) {
            (Value::Object(before), Value::Object(now)) => {
                before.iter().filter(|(key, _)| !FREE.contains(&key.as_str())).find_map(|(key, old)| {
                    let place = format!("{place}/{key}");
                    match now.get(key) {
                        Some(new) => self.value(&place, old, new),
                        None => Some(format!("{place} is missing")),
                    }
                })
            }
            (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
                let pairs = before.iter().zip(now).enumerate();
                pairs.into_iter().find_map(|(at, (old, new))| self.value(&format!("{place}/{at}"), old, new))
            }
            (Value::Number(before), Value::Number(now))
                if self.near(before.as_f64().unwrap_or(f64::NAN), now.as_f64().unwrap_or(f64::NAN)) =>
            {
                None
            }
            _ if old == new => None,
            _ => Some(format!("{place} is {new}, was {old}")),
        }
    }

    fn table(&self, old: &[u8], new: &[u8]) -> Option<String> {
        let (notes_before, header_before, before) = records(old);
        let (notes, header, now) = records(new);
        if notes_before != notes || before.len() != now.len() {
            return Some(format!("has {} rows, had {}; notes {notes:?}", now.len(), before.len()));
        }
        for (column, name) in header_before.iter().enumerate() {
            let Some(here) = header.iter().position(|other| other == name) else {
                return Some(format!("has no column {name}"));
            };
            for (row, (old, new)) in before.iter().zip(&now).enumerate() {
                let (old, new) = (&old[column], &new[here]);
                let numbers = (old.parse(), new.parse());
                let same = old == new || matches!(numbers, (Ok(old), Ok(new)) if self.near(old, new));
                if !same && !FREE.contains(&name.as_str()) {
                    return Some(format!("{name} of row {row} is {new}, was {old}"));
                }
            }
        }
        None
    }

    fn tensors(&self, old: &[u8], new: &[u8]) -> Option<String> {
        let (before, now) =
            (SafeTensors::deserialize(old).expect("safetensors"), SafeTensors::deserialize(new));
        let Ok(now) = now else { return Some("is no safetensors file".to_owned()) };
        let pools = before.names().iter().any(|name| ROUNDING_ALONE.contains(name));
        for (name, tensor) in before.tensors() {
            let Ok(other) = now.tensor(&name) else { return Some(format!("{name} is missing")) };
            if (tensor.dtype(), tensor.shape()) != (other.dtype(), other.shape()) {
                return Some(format!("{name} is {:?} {:?}", other.dtype(), other.shape()));
            }
            if tensor.data() == other.data() || ROUNDING_ALONE.contains(&name.as_str()) {
                continue;
            }
            // A float16 rounds to 5e-4 of itself, more than any other tolerance; without one, bits must be equal.
            let slack = match tensor.dtype() {
                Dtype::F16 if self.0 > 1e-6 => Self(1e-3),
                Dtype::F32 if pools && name.starts_with("norm.running_") => Self(self.0.max(POOLED)),
                _ => Self(self.0),
            };
            let pairs =
                numbers(tensor.dtype(), tensor.data()).into_iter().zip(numbers(other.dtype(), other.data()));
            // Entry 3 of a checkpoint's running values is a time.
            let clock = name.ends_with("/running");
            let pairs = pairs.enumerate().filter(|(at, _)| !(clock && *at == 3));
            for (at, (old, new)) in pairs {
                if !slack.near(old, new) {
                    return Some(format!("{name}[{at}] is {new}, was {old}"));
                }
            }
        }
        let said = |bytes: &[u8]| {
            let (_, metadata) = SafeTensors::read_metadata(bytes).expect("a header");
            metadata.metadata().clone().unwrap_or_default()
        };
        let (before, now): (HashMap<_, _>, HashMap<_, _>) = (said(old), said(new));
        before.iter().find_map(|(key, old)| {
            let new = now.get(key).map_or("", String::as_str);
            match (serde_json::from_str(old), serde_json::from_str(new)) {
                (Ok(old), Ok(new)) => self.value(key, &old, &new),
                _ => (old != new).then(|| format!("{key} is {new:?}, was {old:?}")),
            }
        })
    }

    fn arrays(&self, old: &Path, new: &Path) -> Option<String> {
        let open = |path| npz::read(fs::File::open(path).expect("a file"));
        let (before, Ok(now)) = (open(old).expect("an archive"), open(new)) else {
            return Some("is no archive of arrays".to_owned());
        };
        before.iter().find_map(|(name, old)| {
            let old: ArrayD<f32> = npz::array(old).expect("an array");
            let Some(new): Option<ArrayD<f32>> = now.get(name).and_then(|new| npz::array(new)) else {
                return Some(format!("{name} is missing"));
            };
            let same = old.shape() == new.shape()
                && old.iter().zip(&new).all(|(old, new)| self.near(f64::from(*old), f64::from(*new)));
            (!same).then(|| format!("{name} is {new}, was {old}"))
        })
    }
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| Value::String(format!("no JSON: {error}")))
}

fn lines(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).lines().map(|line| parse(line.as_bytes())).collect()
}

fn pixels(bytes: &[u8]) -> Option<image::RgbaImage> {
    image::load_from_memory(bytes).ok().map(|image| image.to_rgba8())
}

/// The text of an SVG and the pixels of its embedded pictures, whose compression may differ.
fn drawn(bytes: &[u8]) -> (String, Vec<image::RgbaImage>) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split("data:image/png;base64,");
    let mut words = parts.next().unwrap_or_default().to_owned();
    let mut pictures = Vec::new();
    for part in parts {
        let (packed, rest) = part.split_once('"').expect("an attribute has an end");
        let packed = STANDARD.decode(packed).expect("base64");
        pictures.push(pixels(&packed).expect("a picture"));
        words.push_str(rest);
    }
    (words, pictures)
}

/// The comment lines of a table, its header and its rows.
fn records(bytes: &[u8]) -> (Vec<String>, Vec<String>, Vec<Vec<String>>) {
    let text = String::from_utf8_lossy(bytes);
    let notes = text.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect();
    let mut table = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(bytes);
    let owned = |row: &csv::StringRecord| row.iter().map(str::to_owned).collect::<Vec<_>>();
    let header = owned(table.headers().expect("a header"));
    (notes, header, table.records().map(|row| owned(&row.expect("a row"))).collect())
}

/// The values of a tensor in float64.
fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], of: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|chunk| of(*chunk)).collect()
    }
    match dtype {
        Dtype::F16 => each(bytes, |b| half::f16::from_le_bytes(b).to_f64()),
        Dtype::F32 => each(bytes, |b| f64::from(f32::from_le_bytes(b))),
        Dtype::F64 => each(bytes, f64::from_le_bytes),
        Dtype::U32 => each(bytes, |b| f64::from(u32::from_le_bytes(b))),
        Dtype::I64 => each(bytes, |b| i64::from_le_bytes(b) as f64),
        other => panic!("no file of ours holds {other:?}"),
    }
}
