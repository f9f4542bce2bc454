//! The weights of a backbone folder, in every form and in every state of damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::Value;
use ssmprobe::model::backbone::weights::{Weights, WeightsError};
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/weights")
}

/// A folder with one file.
fn folder(name: &str, content: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(name), content).unwrap();
    dir
}

/// The error of opening a folder with one file, or of reading a tensor of it.
fn error(name: &str, content: &[u8]) -> String {
    let dir = folder(name, content);
    let start = Instant::now();
    let error = read_all(dir.path()).expect_err("an error").to_string();
    assert!(start.elapsed() < Duration::from_secs(5), "{error}: took {:?}", start.elapsed());
    assert!(error.contains(name), "{error:?} does not name {name}");
    error
}

/// Opens a folder and reads every tensor.
fn read_all(dir: &Path) -> Result<Weights, WeightsError> {
    let weights = Weights::open(dir)?;
    let names: Vec<String> = weights.names().map(|(name, _)| name.into()).collect();
    for name in names {
        weights.tensor(&name)?;
    }
    Ok(weights)
}

/// A safetensors file made by hand: header length, header, numbers.
fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn every_form_holds_what_pytorch_sees() {
    let expected = fs::read_to_string(fixtures().join("expected.json")).unwrap();
    let expected: serde_json::Map<String, Value> = serde_json::from_str(&expected).unwrap();
    assert_eq!(expected.len(), 9);
    for (form, tensors) in &expected {
        let weights = read_all(&fixtures().join(form)).unwrap();
        let tensors = tensors.as_object().unwrap();
        assert_eq!(weights.names().count(), tensors.len(), "{form}");
        for (name, tensor) in tensors {
            let numbers = |key: &str| tensor[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap());
            let found = weights.tensor(name).unwrap();
            let shape: Vec<usize> = numbers("shape").map(|n| n as usize).collect();
            assert_eq!(found.shape().as_slice(), shape, "{form} {name}");
            let values: Vec<f32> = numbers("values").map(|x| x as f32).collect();
            assert_eq!(found.try_to_vec::<f32>().unwrap(), values, "{form} {name}");
        }
    }
}

#[test]
fn check_lists_all_that_differs() {
    let weights = Weights::open(&fixtures().join("safetensors")).unwrap();
    let all = || weights.names().map(|(name, shape)| (name.to_string(), shape.to_vec())).collect::<Vec<_>>();
    weights.check(&all(), &|_| false).unwrap();

    let mut needed = all();
    needed.retain(|(name, _)| !["base", "half", "position_ids", "mask"].contains(&name.as_str()));
    needed.iter_mut().find(|(name, _)| name == "sliced").unwrap().1 = vec![3, 2];
    needed.push(("layer.0.weight".into(), vec![4]));
    needed.push(("layer.1.weight".into(), vec![4]));
    let error = weights.check(&needed, &|name| name == "half").unwrap_err();
    let WeightsError::Keys { keys, .. } = &error else { panic!("{error}") };
    assert_eq!(keys.missing, ["layer.0.weight", "layer.1.weight"]);
    assert_eq!(keys.unused, ["base"], "integers and ignored names are no errors");
    assert_eq!(keys.misshapen, ["sliced [2, 3], expected [3, 2]"]);
    let text = error.to_string();
    assert!(text.contains("2 missing: layer.0.weight, layer.1.weight; 1 unused: base"), "{text}");

    let many: Vec<_> = (0..500).map(|i| (format!("k{i}"), vec![1])).collect();
    let text = weights.check(&many, &|_| true).unwrap_err().to_string();
    assert!(text.contains("500 missing: k0, k1,") && text.contains("k19 and 480 more"), "{text}");
    assert!(text.len() < 1000);
    let missing = weights.tensor("nope").unwrap_err().to_string();
    assert!(missing.contains("has no tensor \"nope\""), "{missing}");
}

#[test]
fn fingerprints_are_those_of_sha256sum() {
    let dir = folder("model.safetensors", &safetensors("{}", b""));
    let weights = Weights::open(dir.path()).unwrap();
    assert_eq!(weights.names().count(), 0);
    let expected = "411a485216e432ece6b9af94fa32154cf79a2a56d4f81266baa50063f45092bd";
    assert_eq!(weights.fingerprint(), expected);
    let shards = Weights::open(&fixtures().join("safetensors-shards")).unwrap();
    let expected = "0fde318418bff2630ab39bfe33f34d031c9c55e68d130870eece65dcda09850b";
    assert_eq!(shards.fingerprint(), expected, "cat model-*.safetensors | sha256sum");
}

#[test]
fn the_first_form_that_is_there_counts() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(fixtures().join("checkpoint/pytorch_model.bin"), dir.path().join("pytorch_model.bin")).unwrap();
    assert!(Weights::open(dir.path()).unwrap().contains("w"));
    fs::copy(fixtures().join("safetensors/model.safetensors"), dir.path().join("model.safetensors")).unwrap();
    assert!(Weights::open(dir.path()).unwrap().contains("plain.weight"));
}

#[test]
fn foreign_code_is_refused_by_name_and_not_run() {
    for form in ["hostile-zip", "hostile-legacy"] {
        let error = Weights::open(&fixtures().join(form)).unwrap_err().to_string();
        assert!(error.contains("posix.system") && error.contains("not executed"), "{error}");
    }
    assert!(!Path::new("executed").exists() && !fixtures().join("executed").exists());
    let error = Weights::open(&fixtures().join("namespace")).unwrap_err().to_string();
    assert!(error.contains("`argparse.Namespace`"), "{error}");
    let error = Weights::open(&fixtures().join("torchscript")).unwrap_err().to_string();
    assert!(error.contains("TorchScript"), "{error}");
    let error = Weights::open(&fixtures().join("deflated")).unwrap_err().to_string();
    assert!(error.contains("compressed"), "{error}");
}

#[test]
fn what_is_no_weights_file_is_called_by_its_name() {
    let st = "model.safetensors";
    for name in [st, "pytorch_model.bin", "model.safetensors.index.json", "pytorch_model.bin.index.json"] {
        assert!(error(name, b"").contains("is empty"));
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
        assert!(error(name, pointer).contains("git lfs pull"));
        assert!(error(name, b"\n<!DOCTYPE html><html>").contains("web page"));
        assert!(error(name, b"{\"\xff\xfe\": 1}").contains("download it again"));
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(name)).unwrap();
        let text = Weights::open(dir.path()).unwrap_err().to_string();
        assert!(text.contains("not a regular file") && text.contains(name), "{text}");
    }
    let dir = folder("config.json", b"{}");
    let text = Weights::open(dir.path()).unwrap_err().to_string();
    assert!(text.contains("no weights in") && text.contains("it holds config.json"), "{text}");
    let text = Weights::open(&dir.path().join("gone")).unwrap_err().to_string();
    assert!(text.contains("there is no folder"), "{text}");
    let text = Weights::open(&dir.path().join("config.json")).unwrap_err().to_string();
    assert!(text.contains("is not a folder"), "{text}");
    assert!(error("pytorch_model.bin", &[b'x'; 600]).contains("starts with"));
    let tar = [&[b'a'; 257][..], b"ustar", &[0; 300]].concat();
    assert!(error("pytorch_model.bin", &tar).contains("tar archive"));
    assert!(error("pytorch_model.bin", b"\x80\x02N.").contains("not one that torch.save wrote"));
}

#[test]
fn false_safetensors_headers_are_found_out() {
    let name = "model.safetensors";
    for length in [1_u64 << 60, u64::MAX, u64::MAX - 7, 100_000_000, 3] {
        assert!(error(name, &[&length.to_le_bytes()[..], b"{}"].concat()).contains("header of"));
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
    assert!(many(&[tensor("w", 0, 8), tensor("w", 0, 8)]).contains("given twice"));
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
        let text = error("model.safetensors", &safetensors(header, &data));
        assert!(
            text.contains("\"layer.weight\"") && text.contains(&format!("{shown} at flat index 1")),
            "{text}"
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
        assert!(text.contains("beside the index"), "{path}: {text}");
    }
    assert!(
        error(name, br#"{"weight_map": {"w": "gone.safetensors"}}"#)
            .contains("1 of 1 shards are not beside it")
    );
    assert!(error(name, br#"{"weight_map": {}}"#).contains("is empty"));
    assert!(error(name, br#"{"weight_map": {"w": 3}}"#).contains("not an index"));
    assert!(error(name, br#"{"weight_map": {"w": "a", "w": "b"}}"#).contains("given twice"));
    assert!(error(name, b"[]").contains("not an index"));
    assert!(error(name, b"{\"weight_map\": {\"w\": \"\xff\"}}").contains("not an index"));
    error(name, "{\"weight_map\":".repeat(50_000).as_bytes());

    let dir = folder(name, br#"{"weight_map": {"w": "a", "v": "a"}}"#);
    fs::write(dir.path().join("a"), &shard).unwrap();
    let text = Weights::open(dir.path()).unwrap_err().to_string();
    assert!(text.contains("\"v\" is not in a"), "{text}");
    fs::write(dir.path().join(name), br#"{"weight_map": {"w": "a", "u": "b"}}"#).unwrap();
    fs::write(
        dir.path().join("b"),
        shard.iter().map(|&b| if b == b'w' { b'u' } else { b }).collect::<Vec<_>>(),
    )
    .unwrap();
    assert_eq!(Weights::open(dir.path()).unwrap().names().count(), 2);
    // What the index leaves out is seen by `check`, unless two shards have it.
    fs::write(dir.path().join(name), br#"{"weight_map": {"w": "a"}}"#).unwrap();
    assert_eq!(Weights::open(dir.path()).unwrap().names().count(), 1);
}

#[cfg(unix)]
#[test]
fn links_as_in_the_cache_of_the_hub_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (blobs, snapshot) = (dir.path().join("blobs"), dir.path().join("snapshots/0"));
    fs::create_dir_all(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    fs::copy(fixtures().join("zip/pytorch_model.bin"), blobs.join("abc")).unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, snapshot.join(name)).unwrap();
    link("../../blobs/abc", "pytorch_model.bin");
    assert!(read_all(&snapshot).unwrap().contains("base"));
    link("../../blobs/gone", "model.safetensors");
    let text = Weights::open(&snapshot).unwrap_err().to_string();
    assert!(text.contains("model.safetensors cannot be read"), "{text}");
    fs::remove_file(snapshot.join("model.safetensors")).unwrap();
    link("/dev/zero", "model.safetensors");
    assert!(Weights::open(&snapshot).unwrap_err().to_string().contains("not a regular file"));
}

/// A ZIP of torch.save's layout around `pickle` and one storage of 16 bytes.
fn torch_zip(pickle: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in [("m/data.pkl", pickle), ("m/data/0", &[0; 16]), ("m/version", b"3\n")] {
        zip.start_file(name, stored).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The pickle of `{'w': tensor}` of float32 with these integers, each an opcode with its argument.
fn tensor_pickle(key: &str, numel: &[u8], offset: &[u8], shape: &[u8], strides: &[u8]) -> Vec<u8> {
    let text = |s: &str| [&b"X"[..], &(s.len() as u32).to_le_bytes(), s.as_bytes()].concat();
    let parts: [&[u8]; 17] = [
        b"\x80\x02}",
        &text("w"),
        b"ctorch._utils\n_rebuild_tensor_v2\n((",
        &text("storage"),
        b"ctorch\nFloatStorage\n",
        &text(key),
        &text("cpu"),
        numel,
        b"tQ",
        offset,
        b"(",
        shape,
        b"t(",
        strides,
        b"t",
        b"\x89NtRs",
        b".",
    ];
    parts.concat()
}

#[test]
fn false_torch_tensors_are_found_out() {
    let name = "pytorch_model.bin";
    let huge = &b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"[..];
    let good = torch_zip(&tensor_pickle("0", b"K\x04", b"K\x00", b"K\x02K\x02", b"K\x02K\x01"));
    assert_eq!(read_all(folder(name, &good).path()).unwrap().names().count(), 1);
    let bad = |key: &str, numel: &[u8], offset: &[u8], shape: &[u8], strides: &[u8]| {
        error(name, &torch_zip(&tensor_pickle(key, numel, offset, shape, strides)))
    };
    assert!(bad("0", b"K\x05", b"K\x00", b"K\x05", b"K\x01").contains("needs 5 stored numbers"));
    assert!(bad("0", huge, b"K\x00", b"K\x01", b"K\x01").contains("stored numbers"));
    assert!(bad("1", b"K\x04", b"K\x00", b"K\x01", b"K\x01").contains("storage is missing"));
    assert!(bad("../version", b"K\x04", b"K\x00", b"K\x01", b"K\x01").contains("storage is missing"));
    assert!(bad("0", b"K\x04", b"K\x01", b"K\x04", b"K\x01").contains("past its 4"));
    assert!(bad("0", b"K\x04", huge, b"K\x04", b"K\x01").contains("past its 4"));
    assert!(bad("0", b"K\x04", b"K\x00", &[huge, huge].concat(), b"K\x00K\x00").contains("overflows"));
    assert!(bad("0", b"K\x04", b"K\x00", huge, b"K\x00").contains("repeats"));
    assert!(bad("0", b"K\x04", b"K\x00", b"K\x02", huge).contains("past its 4"));
    assert!(bad("0", b"K\x04", b"K\x00", b"K\x02", b"J\xff\xff\xff\xff").contains("negative"));
    assert!(bad("0", b"K\x04", b"K\x00", b"K\x02", b"K\x01K\x01").contains("shape [2]"));
    assert!(bad("0", b"K\x04", b"K\x00", b"X\x00\x00\x00\x00", b"K\x01").contains("no integer"));
    assert!(error(name, &torch_zip(b"\x80\x02K\x01.")).contains("no dict of named tensors"));
    assert!(error(name, &torch_zip(b"\x80\x02}q\x00X\x05\x00\x00\x00modelh\x00s.")).contains("no dict"));
    assert!(error(name, &torch_zip(&[&b"\x80\x02"[..], &[b'('; 4_000_000]].concat())).contains("steps"));
    assert!(error(name, &torch_zip(b"")).contains("left"));
}

/// The three containers, by the name that a folder has them under.
fn containers() -> [(&'static str, Vec<u8>); 3] {
    let file = |form: &str, name: &str| fs::read(fixtures().join(form).join(name)).unwrap();
    [
        ("model.safetensors", file("safetensors", "model.safetensors")),
        ("pytorch_model.bin", file("zip", "pytorch_model.bin")),
        ("pytorch_model.bin", file("legacy", "pytorch_model.bin")),
    ]
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    for (name, content) in containers() {
        let last = content.len() - 1;
        for length in (0..last).step_by(7).chain([last]) {
            let text = error(name, &content[..length]);
            assert!(text.contains("download it again"), "{name} at {length}: {text}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Altered bytes may pass for other numbers; they never cost a panic, much time or much memory.
    #[test]
    fn altered_bytes_do_no_harm(
        which in 0..3_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (name, mut content) = containers()[which].clone();
        for (at, byte) in edits {
            let at = at.index(content.len());
            content[at] = byte;
        }
        if let Some(cut) = cut {
            content.truncate(cut.index(content.len()));
        }
        let dir = folder(name, &content);
        if let Err(error) = read_all(dir.path()) {
            prop_assert!(error.to_string().contains(name), "{}", error);
        }
    }

    /// Random programs for the pickle machine, out of its own opcodes.
    #[test]
    fn random_pickles_do_no_harm(ops in prop::collection::vec(prop::sample::select(
        b"\x80\x02.()]}tuasebQRN0112qhrjKMJXc\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x93\x94\x95\x00\x01\x01".to_vec()), 0..200))
    {
        let dir = folder("pytorch_model.bin", &torch_zip(&ops));
        prop_assert!(read_all(dir.path()).is_err());
    }
}

#[test]
fn a_real_backbone_is_read() {
    let data = std::env::var_os("SSMPROBE_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let dir = data.join("vit-tiny-patch16-224");
    if !dir.is_dir() {
        println!("left out: no real backbone in {}", data.display());
        return;
    }
    let weights = read_all(&dir).unwrap();
    assert!(weights.names().count() > 190);
    assert_eq!(weights.fingerprint().len(), 64);
}
