//! False claims in PyTorch's files, which are written here by hand.

use std::io::Write;
use std::time::Duration;

use ssmprobe::app::processor_time;

use super::{error, folder, read_all};

/// An uncompressed ZIP of these files.
fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in files {
        zip.start_file(*name, stored).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A ZIP of torch.save's layout around `pickle` and one storage of 16 bytes.
pub fn torch_zip(pickle: &[u8]) -> Vec<u8> {
    zip_of(&[("m/data.pkl", pickle), ("m/data/0", &[0; 16]), ("m/version", b"3\n")])
}

/// The same with both end records that torch.save writes: that of ZIP64 before the usual one, which has all numbers, too.
fn with_zip64_end(zip: &[u8]) -> Vec<u8> {
    let (entries, end) = zip.split_at(zip.len() - 22);
    let number = |at: usize| u64::from(u32::from_le_bytes(end[at..at + 4].try_into().unwrap()));
    let files = u64::from(u16::from_le_bytes([end[10], end[11]]));
    let numbers = [files, files, number(12), number(16)].map(u64::to_le_bytes).concat();
    let record = [&b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x1e\x03\x2d\0"[..], &[0; 8], &numbers].concat();
    let locator = [&b"PK\x06\x07\0\0\0\0"[..], &(entries.len() as u64).to_le_bytes(), b"\x01\0\0\0"].concat();
    [entries, &record, &locator, end].concat()
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
    assert!(bad("0", b"K\x04", b"K\x00", huge, b"K\x00").contains("repeated"));
    assert!(bad("0", b"K\x04", b"K\x00", b"K\x02", huge).contains("past its 4"));
    assert!(bad("0", b"K\x04", b"K\x00", b"K\x02", b"J\xff\xff\xff\xff").contains("negative"));
    assert!(bad("0", b"K\x04", b"K\x00", b"K\x02", b"K\x01K\x01").contains("shape [2]"));
    assert!(bad("0", b"K\x04", b"K\x00", b"X\x00\x00\x00\x00", b"K\x01").contains("not an integer"));
    assert!(error(name, &torch_zip(b"\x80\x02K\x01.")).contains("no dict of named tensors"));
    assert!(error(name, &torch_zip(b"\x80\x02}q\x00X\x05\x00\x00\x00modelh\x00s.")).contains("no dict"));
    assert!(error(name, &torch_zip(&[&b"\x80\x02"[..], &[b'('; 4_000_000]].concat())).contains("steps"));
    assert!(error(name, &torch_zip(b"")).contains("left"));
}

#[test]
fn a_file_is_read_whatever_its_name_when_it_was_saved() {
    let pickle = tensor_pickle("0", b"K\x04", b"K\x00", b"K\x02K\x02", b"K\x02K\x01");
    for length in 1..40 {
        let names = ["data.pkl", "data/0"].map(|name| format!("{}/{name}", "m".repeat(length)));
        let zip = with_zip64_end(&zip_of(&[(&names[0], &pickle), (&names[1], &[0; 16])]));
        let read = read_all(folder("pytorch_model.bin", &zip).path());
        assert_eq!(read.unwrap_or_else(|error| panic!("{length}: {error}")).names().count(), 1);
    }
}

/// Shared layers: one storage of 3 MB under many names.
#[test]
fn layers_may_be_tied_but_not_without_end() {
    let numel = [&b"J"[..], &(3_i32 << 18).to_le_bytes()].concat();
    let one = tensor_pickle("0", &numel, b"K\x00", &numel, b"K\x01");
    let (name, rest) = one[3..one.len() - 1].split_at(6);
    assert_eq!(name, b"X\x01\x00\x00\x00w");
    let tied = |names: u8| {
        let entries: Vec<u8> =
            (0..names).flat_map(|i| [&b"X\x01\x00\x00\x00"[..], &[b'0' + i], rest].concat()).collect();
        let pickle = [&b"\x80\x02}"[..], &entries, b"."].concat();
        zip_of(&[("m/data.pkl", &pickle), ("m/data/0", &vec![0; 3 << 20]), ("m/version", b"3\n")])
    };
    let weights = read_all(folder("pytorch_model.bin", &tied(24)).path()).unwrap();
    assert_eq!(weights.names().count(), 24);
    let text = error("pytorch_model.bin", &tied(40));
    assert!(text.contains("40 tensors add up to 125829120 bytes") && text.contains("repeat"), "{text}");
}

#[test]
fn false_zip_directories_are_found_out() {
    let name = "pytorch_model.bin";
    let tensor = tensor_pickle("0", b"K\x04", b"K\x00", b"K\x02", b"K\x01");
    let good = torch_zip(&tensor);
    let last = |pattern: &[u8]| good.windows(pattern.len()).rposition(|w| w == pattern).unwrap();
    // In the central directory the sizes lie 22 bytes before the name.
    let entry = last(b"m/data/0");
    for size in [1_u32 << 20, 0xffff_fffe] {
        let mut bad = good.clone();
        bad[entry - 26..entry - 22].copy_from_slice(&size.to_le_bytes());
        bad[entry - 22..entry - 18].copy_from_slice(&size.to_le_bytes());
        assert!(error(name, &bad).contains("damaged"));
    }
    // Numbers of entries and the place of the directory, in the record at the end. It may be read
    // or refused, but what is read must be right, and quickly so.
    let end = last(b"PK\x05\x06");
    for at in [8, 10, 12, 14, 16, 18] {
        let mut bad = good.clone();
        bad[end + at..end + at + 2].copy_from_slice(&[0xff; 2]);
        let start = processor_time::of_thread();
        if let Ok(weights) = read_all(folder(name, &bad).path()) {
            assert_eq!(weights.values("w").unwrap(), [0.0, 0.0]);
        }
        let took = processor_time::of_thread().saturating_sub(start);
        assert!(took < Duration::from_secs(5), "{at} took {took:?}");
    }
    // Two storages of one name, of which one reader takes the first and another the last.
    let mut twice = zip_of(&[("m/data.pkl", &tensor), ("m/data/0", &[0; 16]), ("m/data/1", &[1; 16])]);
    for i in 0..twice.len() - 8 {
        if &twice[i..i + 8] == b"m/data/1" {
            twice[i + 7] = b'0';
        }
    }
    assert!(error(name, &twice).contains("a name twice"));
    for files in [&[][..], &[("data.pkl", &tensor[..])], &[("a/data.pkl", &tensor), ("b/data.pkl", &tensor)]]
    {
        error(name, &zip_of(files));
    }
    let big = [("m/data.pkl", &tensor[..]), ("m/data/0", &[0; 16]), ("m/byteorder", b"big")];
    assert!(error(name, &zip_of(&big)).contains("not little-endian"));
}

/// A file of the form before PyTorch 1.6.
fn legacy(little_endian: bool, state: &[u8], keys: &[u8], storages: &[u8]) -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let system = [
        &b"\x80\x02}X\x0d\x00\x00\x00little_endian"[..],
        if little_endian { b"\x88" } else { b"\x89" },
        b"s.",
    ];
    [magic, &b"\x80\x02M\xe9\x03."[..], &system.concat(), state, keys, storages].concat()
}

#[test]
fn false_legacy_files_are_found_out() {
    let name = "pytorch_model.bin";
    let state = tensor_pickle("7", b"K\x04N", b"K\x01", b"K\x02", b"K\x02");
    let keys = &b"\x80\x02]X\x01\x00\x00\x007a."[..];
    let numbers: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let storage = |numel: u64| [&numel.to_le_bytes()[..], &numbers].concat();
    let values = |content: &[u8]| {
        let weights = read_all(folder(name, content).path()).unwrap();
        weights.values("w").unwrap()
    };
    assert_eq!(values(&legacy(true, &state, keys, &storage(4))), [2.0, 4.0]);
    // The oldest files view a part of a storage: here two numbers from the third on.
    let view = tensor_pickle("7", b"K\x04(X\x01\x00\x00\x00vK\x02K\x02t", b"K\x00", b"K\x02", b"K\x01");
    assert_eq!(values(&legacy(true, &view, keys, &storage(4))), [3.0, 4.0]);
    let beyond = tensor_pickle("7", b"K\x04(X\x01\x00\x00\x00vK\x03K\x02t", b"K\x00", b"K\x02", b"K\x01");
    assert!(error(name, &legacy(true, &beyond, keys, &storage(4))).contains("stored numbers"));

    assert!(error(name, &legacy(false, &state, keys, &storage(4))).contains("not little-endian"));
    for numel in [5, 1 << 60, 1 << 62, u64::MAX] {
        let text = error(name, &legacy(true, &state, keys, &storage(numel)));
        assert!(text.contains(&format!("claims {numel} numbers")), "{text}");
    }
    assert!(error(name, &legacy(true, &state, keys, &[])).contains("a storage is missing"));
    assert!(error(name, &legacy(true, &state, b"\x80\x02].", &[])).contains("its storage is missing"));
    assert!(error(name, &legacy(true, &state, b"\x80\x02N.", &[])).contains("list of its storages"));
    assert!(
        error(name, &legacy(true, &state, b"\x80\x02]K\x07a.", &storage(4))).contains("a storage is missing")
    );
    assert!(error(name, &legacy(true, b"\x80\x02cos\nsystem\n.", keys, &storage(4))).contains("`os.system`"));
    let twice = [&state[..state.len() - 1], &state[3..state.len() - 2], b"s."].concat();
    assert!(error(name, &legacy(true, &twice, keys, &storage(4))).contains("occurs twice"));
}
