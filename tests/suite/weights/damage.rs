//! Files that were cut or altered.

use std::fs;

use proptest::prelude::*;

use super::torch::torch_zip;
use super::{error, fixtures, folder, read_all};

/// The three file formats, by the file name that a backbone folder has them under.
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
        for length in (0..40).chain((40..last).step_by(29)).chain([last]) {
            let text = error(name, &content[..length]);
            assert!(text.contains("download it again"), "{name} at {length}: {text}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random programs for the pickle machine, made of its opcodes.
    #[test]
    fn random_pickles_do_no_harm(ops in prop::collection::vec(prop::sample::select(
        b"\x80\x02.()]}tuasebQRN0112qhrjKMJXc\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x93\x94\x95\x00\x01\x01".to_vec()), 0..200))
    {
        let dir = folder("pytorch_model.bin", &torch_zip(&ops));
        prop_assert!(read_all(dir.path()).is_err());
    }
}
