//! False claims of safetensors headers and of indices.

use std::fs;

use ssmprobe::model::backbone::weights::Weights;

use super::{error, folder};
use crate::run::assert_says;

/// A safetensors file made by hand: header length, header, numbers.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn false_safetensors_headers_are_found_out() {
    let name = "model.safetensors";
    for length in [1_u64 << 60, u64::MAX, u64::MAX - 7, 100_000_000, 3] {
        assert!(error(name, &[&length.to_le_bytes()[..], b"{}"].concat()).contains("header claims"));
    }
    assert!(error(name, b"1234567").contains("only 7 bytes"));
    let one = |dtype: &str, shape: &str, offsets: &str| {
        let header = format!(r#"{{"w":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#);
        error(name, &safetensors(&header, &[0; 8]))
    };
    one("F32", "[3]", "[0,8]");
    one("F32", "[2]", "[0,9]");
    one("F32", "[2]", "[4,12]");
    one("F32", "[2]", "[8,0]");
    one("F32", "[1]", "[0,4]");
    one("F32", "[4294967296,4294967296]", "[0,0]");
    one("F32", "[-1]", "[0,8]");
    one("F33", "[2]", "[0,8]");
    one("f32", "[2]", "[0,8]");
    assert!(one("F8_E4M3", "[8]", "[0,8]").contains("stored as F8_E4M3"));
    assert!(one("C64", "[1]", "[0,8]").contains("stored as C64"));
    one("F4", "[16]", "[0,8]");
    for n in [u64::MAX, u64::MAX - 9, 1 << 63] {
        one("U8", &format!("[{n}]"), &format!("[0,{n}]"));
    }
    // Names given twice, overlaps, gaps and rests.
    let tensor = |name: &str, from: usize, to: usize| {
        format!(r#""{name}":{{"dtype":"F32","shape":[{}],"data_offsets":[{from},{to}]}}"#, (to - from) / 4)
    };
    let many = |tensors: &[String]| error(name, &safetensors(&format!("{{{}}}", tensors.join(",")), &[0; 8]));
    assert!(many(&[tensor("w", 0, 8), tensor("w", 0, 8)]).contains("occurs twice"));
    many(&[tensor("v", 0, 8), tensor("w", 4, 8)]);
    many(&[tensor("v", 0, 8), tensor("w", 0, 8)]);
    many(&[tensor("v", 0, 0), tensor("w", 4, 8)]);
    many(&[tensor("v", 0, 4)]);
    error(name, &safetensors(&"[".repeat(100_000), &[]));
    error(name, &safetensors("\u{0}", &[]));
}

#[test]
fn weights_that_are_not_finite_are_an_error() {
    for (value, shown) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        let header = r#"{"good":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"layer.weight":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#;
        let data = [1.0_f32, 2.0, value].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
        assert_says(
            error("model.safetensors", &safetensors(header, &data)),
            &["\"layer.weight\"", &format!("{shown} at flat index 1")],
        );
    }
}

#[test]
fn an_index_names_files_beside_it_only() {
    let name = "model.safetensors.index.json";
    let outside = tempfile::tempdir().unwrap();
    let shard = safetensors(r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, &[0; 4]);
    fs::write(outside.path().join("shard"), &shard).unwrap();
    let absolute = outside.path().join("shard");
    let absolute = absolute.to_str().unwrap();
    for path in [
        "../../etc/passwd",
        "/etc/passwd",
        absolute,
        "..",
        ".",
        "",
        "a/b",
        "a/",
        "./a",
        "a\\b",
        "C:a",
        "a\0b",
    ] {
        let index = serde_json::json!({"weight_map": {"w": path}}).to_string();
        let text = error(name, index.as_bytes());
        assert!(text.contains("next to the index"), "{path}: {text}");
    }
    assert!(
        error(name, br#"{"weight_map": {"w": "gone.safetensors"}}"#).contains("1 of 1 shards are missing")
    );
    assert!(error(name, br#"{"weight_map": {}}"#).contains("is empty"));
    assert!(error(name, br#"{"weight_map": {"w": 3}}"#).contains("not an index"));
    assert!(error(name, br#"{"weight_map": {"w": "a", "w": "b"}}"#).contains("occurs twice"));
    assert!(error(name, b"[]").contains("not an index"));
    assert!(error(name, b"{\"weight_map\": {\"w\": \"\xff\"}}").contains("not an index"));
    error(name, "{\"weight_map\":".repeat(50_000).as_bytes());

    let dir = folder(name, br#"{"weight_map": {"w": "a", "v": "a"}}"#);
    fs::write(dir.path().join("a"), &shard).unwrap();
    assert_says(Weights::open(dir.path()).unwrap_err(), &["\"v\" is not in a"]);
    fs::write(dir.path().join(name), br#"{"weight_map": {"w": "a", "u": "b"}}"#).unwrap();
    fs::write(
        dir.path().join("b"),
        shard.iter().map(|&b| if b == b'w' { b'u' } else { b }).collect::<Vec<_>>(),
    )
    .unwrap();
    assert_eq!(Weights::open(dir.path()).unwrap().names().count(), 2);
    // `check` finds tensors that the index omits, unless two shards have them.
    fs::write(dir.path().join(name), br#"{"weight_map": {"w": "a"}}"#).unwrap();
    assert_eq!(Weights::open(dir.path()).unwrap().names().count(), 1);
}
