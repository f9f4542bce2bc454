//! SHA-256 in hexadecimal, which identifies weights, probes, caches and pictures.

use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::atomic_file;

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of bytes, in hexadecimal.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The SHA-256 of a file, in hexadecimal; reads 1 MiB at a time. A folder or a pipe is an error.
pub fn of_file(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = atomic_file::open(path)?;
    let mut part = vec![0; 1 << 20];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hex(&hash.finalize())),
            length => hash.update(&part[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{of_bytes, of_file};

    #[test]
    fn a_file_and_its_bytes_have_the_same_digest() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; // FIPS 180-2
        assert_eq!((of_bytes(b"abc").as_str(), of_file(file.path()).unwrap().as_str()), (known, known));
    }
}
