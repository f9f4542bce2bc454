//! Memory of this process: the allocator's thresholds, and the resident size as Linux reports it in `/proc/self/status`.

use std::fs::OpenOptions;
use std::io::Write;

use crate::model::device::proc_bytes;

const STATUS: &str = "/proc/self/status";

/// Makes the allocator keep freed memory for reuse. A training step frees megabytes that the next one allocates; by
/// default, the GNU allocator returns most of them to the system in between and gets them again page by page, which took
/// half the time of the lightest heads (docs/speed.md). It would adapt to these thresholds by itself once a block of 32 MiB
/// was freed. Other systems' allocators are left as they are.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both set a parameter of the allocator, which takes its own lock meanwhile.
    #[expect(unsafe_code, reason = "a call of C that sets a number")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20); // larger blocks go straight back
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20); // and so does what is free beyond this
    }
}

/// Resets the peak to the current size; returns whether the system supports it.
pub fn reset_peak() -> bool {
    let file = OpenOptions::new().write(true).open("/proc/self/clear_refs");
    file.and_then(|mut file| file.write_all(b"5")).is_ok()
}

/// The resident size in bytes; `None` if the system does not report it.
pub fn resident() -> Option<u64> {
    proc_bytes(STATUS, "VmRSS:")
}

/// The largest resident size in bytes since the last [`reset_peak`]; `None` if the system does not report it.
pub fn peak() -> Option<u64> {
    proc_bytes(STATUS, "VmHWM:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_seen_and_forgotten() {
        if !reset_peak() {
            return crate::skip::because("this system forgets no peak");
        }
        let large = std::hint::black_box(vec![1_u8; 300 << 20]);
        let with = peak().unwrap();
        drop(large);
        assert!(reset_peak());
        let without = peak().unwrap();
        assert!(with > without + (200 << 20), "{with} {without}");
    }
}
