//! CPU time of this process or thread on Unix; wall-clock time elsewhere.

use std::time::Duration;

/// CPU time of all threads of this process. Only differences are meaningful.
pub fn of_process() -> Duration {
    #[cfg(unix)]
    return clock(libc::CLOCK_PROCESS_CPUTIME_ID);
    #[cfg(not(unix))]
    passed()
}

/// CPU time of the calling thread. Only differences are meaningful.
pub fn of_thread() -> Duration {
    #[cfg(unix)]
    return clock(libc::CLOCK_THREAD_CPUTIME_ID);
    #[cfg(not(unix))]
    passed()
}

#[cfg(unix)]
fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes one `timespec`, which lives until it returns.
    #[expect(unsafe_code, reason = "a call of C that fills what it is given")]
    unsafe {
        libc::clock_gettime(id, &raw mut time); // of these two clocks it cannot fail
    }
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

#[cfg(not(unix))]
fn passed() -> Duration {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGUN.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_passes_with_work() {
        let before = [of_process(), of_thread()];
        let mut sum = 0_u64;
        while of_thread() == before[1] {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(of_process() > before[0]);
    }
}
