//! Memory of this process: what is kept for the next step, and how much is resident, where the system
//! says it as Linux does.

use std::fs::{self, OpenOptions};
use std::io::Write;

/// Lets freed memory be used again at once. A training step frees megabytes that the next one asks for;
/// left to itself, the GNU allocator gives most of them back to the system in between and gets them
/// again page by page, which took half the time of the lightest heads (docs/speed.md). It would come to
/// these limits by itself once a block of 32 MiB was freed. Other systems' allocators are left alone.
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both are settings of the allocator, which locks itself while it takes them.
    #[expect(unsafe_code, reason = "a call of C that sets a number")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20); // larger blocks go straight back
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20); // and so does what is free beyond this
    }
}

/// Forgets the peak so far; whether the system can.
pub fn forget_peak() -> bool {
    let file = OpenOptions::new().write(true).open("/proc/self/clear_refs");
    file.and_then(|mut file| file.write_all(b"5")).is_ok()
}

/// Bytes it holds.
pub fn resident() -> Option<u64> {
    status("VmRSS:")
}

/// The most bytes it has held since the peak was last forgotten.
pub fn peak() -> Option<u64> {
    status("VmHWM:")
}

fn status(field: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_seen_and_forgotten() {
        if !forget_peak() {
            return crate::skip::because("this system forgets no peak");
        }
        let large = std::hint::black_box(vec![1_u8; 300 << 20]);
        let with = peak().unwrap();
        drop(large);
        assert!(forget_peak());
        let without = peak().unwrap();
        assert!(with > without + (200 << 20), "{with} {without}");
    }
}
