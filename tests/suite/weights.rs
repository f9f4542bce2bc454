//! The weights of a backbone folder, in every form and in every state of damage.

use ssmprobe::model::backbone::weights::Weights;

/// A safetensors file made by hand: header length, header, numbers.
fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn a_file_written_by_hand_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let data: Vec<u8> = [1.0_f32, -2.0, 0.5, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let header = r#"{"a.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
    std::fs::write(dir.path().join("model.safetensors"), safetensors(header, &data)).unwrap();
    let weights = Weights::open(dir.path()).unwrap();
    let needed = [("a.weight".to_string(), vec![2, 2])];
    weights.check(&needed, &|_| false).unwrap();
    let tensor = weights.tensor("a.weight").unwrap();
    assert_eq!(tensor.try_to_vec::<f32>().unwrap(), [1.0, -2.0, 0.5, 4.0]);
    assert_eq!(weights.fingerprint().len(), 64);
}
