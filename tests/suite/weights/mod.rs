//! The weights of a backbone folder, in every form and in every state of damage.

mod damage;
mod headers;
mod torch;

use ssmprobe::app::processor_time;
use ssmprobe::model::backbone::weights::{Weights, WeightsError};
use ssmprobe::model::io::sha256;

use self::headers::safetensors;
use crate::run::prelude::*;

fn fixtures() -> PathBuf {
    root().join("tests/fixtures/weights")
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
    let start = processor_time::of_thread();
    let error = read_all(dir.path()).expect_err("an error").to_string();
    let took = processor_time::of_thread().saturating_sub(start);
    assert!(took < Duration::from_secs(5), "{error}: took {took:?}");
    assert!(error.contains(name), "{error:?} does not name {name}");
    error
}

/// Opens a folder and reads every tensor.
fn read_all(dir: &Path) -> Result<Weights, WeightsError> {
    let weights = Weights::open(dir)?;
    let names: Vec<String> = weights.names().map(|(name, _)| name.into()).collect();
    for name in names {
        weights.values(&name)?;
    }
    Ok(weights)
}

#[test]
fn every_form_holds_what_pytorch_sees() {
    let expected: serde_json::Map<String, Value> = json(fixtures().join("expected.json"));
    assert_eq!(expected.len(), 9);
    for (form, tensors) in &expected {
        let weights = read_all(&fixtures().join(form)).unwrap();
        let tensors = tensors.as_object().unwrap();
        assert_eq!(weights.names().count(), tensors.len(), "{form}");
        for (name, tensor) in tensors {
            let numbers = |key: &str| tensor[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap());
            let shape: Vec<usize> = numbers("shape").map(|n| n as usize).collect();
            assert_eq!(weights.shape(name).unwrap(), shape, "{form} {name}");
            let values: Vec<f32> = numbers("values").map(|x| x as f32).collect();
            assert_eq!(weights.values(name).unwrap(), values, "{form} {name}");
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
    assert_says(error, &["2 missing: layer.0.weight, layer.1.weight; 1 unused: base"]);

    let many: Vec<_> = (0..500).map(|i| (format!("k{i}"), vec![1])).collect();
    let text = weights.check(&many, &|_| true).unwrap_err().to_string();
    assert!(text.contains("500 missing: k0, k1,") && text.contains("k19 and 480 more"), "{text}");
    assert!(text.len() < 1000);
    assert_says(weights.values("nope").unwrap_err(), &["has no tensor \"nope\""]);
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
        assert_says(Weights::open(&fixtures().join(form)).unwrap_err(), &["posix.system", "not executed"]);
    }
    assert!(!Path::new("executed").exists() && !fixtures().join("executed").exists());
    // The namespace in which trainings save their flags is plain data: it is skipped, and never constructed.
    let weights = Weights::open(&fixtures().join("namespace")).unwrap();
    assert_eq!(weights.names().collect::<Vec<_>>(), [("w", &[1, 2][..])]);
    assert_says(Weights::open(&fixtures().join("torchscript")).unwrap_err(), &["TorchScript"]);
    assert_says(Weights::open(&fixtures().join("deflated")).unwrap_err(), &["compressed"]);
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
        assert_says(Weights::open(dir.path()).unwrap_err(), &["not a regular file", name]);
    }
    let dir = folder("config.json", b"{}");
    assert_says(Weights::open(dir.path()).unwrap_err(), &["no weights in", "it contains config.json"]);
    assert_says(Weights::open(&dir.path().join("gone")).unwrap_err(), &["does not exist"]);
    assert_says(Weights::open(&dir.path().join("config.json")).unwrap_err(), &["is not a folder"]);
    assert!(error("pytorch_model.bin", &[b'x'; 600]).contains("starts with"));
    let tar = [&[b'a'; 257][..], b"ustar", &[0; 300]].concat();
    assert!(error("pytorch_model.bin", &tar).contains("tar archive"));
    assert!(error("pytorch_model.bin", b"\x80\x02N.").contains("not one that torch.save wrote"));
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
    assert_says(Weights::open(&snapshot).unwrap_err(), &["model.safetensors cannot be read"]);
    fs::remove_file(snapshot.join("model.safetensors")).unwrap();
    link("/dev/zero", "model.safetensors");
    assert!(Weights::open(&snapshot).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn a_real_backbone_is_read() {
    let Some(dir) = crate::real::data("vit-tiny-patch16-224") else { return };
    let weights = read_all(&dir).unwrap();
    // Twelve layers of 16 tensors, four of the embeddings, two of the last norm, two of its classifier.
    assert_eq!(weights.names().count(), 12 * 16 + 4 + 2 + 2);
    assert_eq!(weights.fingerprint(), sha256::of_file(&dir.join("model.safetensors")).unwrap());
}
