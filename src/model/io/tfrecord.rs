//! TensorFlow's TFRecord format: a length of 8 bytes, its checksum, the record, its checksum, all little-endian. A checksum
//! is the CRC32C (Castagnoli) of the bytes, masked (rotated, then offset) so that records may contain records.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::atomic_file::step;

/// Bytes before a record (its length, and a checksum of that) and after it (its checksum).
const HEAD: usize = 12;
const TAIL: usize = 4;

/// CRC32C table of all bytes, for the polynomial 0x1EDC6F41 with its bits reversed.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize])
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8).to_le_bytes()
}

/// The record `bytes` with its length and checksums, as in a file.
pub fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), bytes, &masked(bytes)].concat()
}

/// The records in `file`, up to the first that is truncated or damaged.
pub fn records(mut file: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some((length, rest)) = file.split_at_checked(8) {
        let bytes = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let whole = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_add(TAIL));
        let Some((record, next)) = rest.split_at_checked(4).and_then(|(crc, rest)| {
            let (record, next) = rest.split_at_checked(whole.filter(|_| crc == masked(length))?)?;
            let (record, crc) = record.split_at(record.len() - TAIL);
            (crc == masked(record)).then_some((record, next))
        }) else {
            break;
        };
        records.push(record);
        file = next;
    }
    records
}

/// Size of these records in a file, in bytes.
pub fn framed(records: &[&[u8]]) -> u64 {
    records.iter().map(|record| (HEAD + record.len() + TAIL) as u64).sum()
}

/// Truncates the file at `path`, created if absent, to `length` bytes, then appends: concurrent readers see only new bytes.
pub fn append(path: &Path, length: u64, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = step(|| File::options().create(true).write(true).truncate(false).open(path))?;
    step(|| file.set_len(length))?;
    step(|| file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_rfc_3720() {
        let counted: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&counted), 0x46DD_794E);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn records_end_at_the_first_that_is_not_whole() {
        let all = [&b"one"[..], b"", b"three"];
        let file: Vec<u8> = all.iter().flat_map(|record| frame(record)).collect();
        assert_eq!((records(&file), framed(&all)), (all.to_vec(), file.len() as u64));
        for cut in 0..file.len() {
            let ends = [0, 19, 35, file.len()];
            let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
            assert_eq!(records(&file[..cut]), all[..whole], "cut at {cut}");
            let mut damaged = file.clone();
            damaged[cut] ^= 1;
            assert_eq!(records(&damaged), all[..whole], "damaged at {cut}");
        }
        let endless = [&u64::MAX.to_le_bytes()[..], &masked(&u64::MAX.to_le_bytes())].concat();
        assert!(records(&endless).is_empty());
    }
}
