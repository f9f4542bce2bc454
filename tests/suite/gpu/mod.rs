//! GPUs against the processor: the same tests on a software adapter, which every machine has, and on real GPUs of every
//! kind. `SSMPROBE_GRAPHICS=all` adds the cases that take a software adapter minutes. Every comparison is printed
//! (`--nocapture`) for `scripts/gpu-check`: `parity DEVICE: WHAT: FOUND (at most BOUND)`.

mod backbones;
mod columns;
mod heads;
mod memory;
mod s4;
mod sinkhorn;

use burn::backend::DispatchDevice;

use crate::gpus::gpus;

/// Whether the cases that are slow on a software adapter are wanted.
fn all() -> bool {
    std::env::var_os("SSMPROBE_GRAPHICS").is_some_and(|which| which == "all")
}

/// The comparisons of one test, which fails at its end: GPU time is short, so that one run reports every difference.
#[derive(Default)]
struct Parity {
    failures: Vec<String>,
}

impl Parity {
    /// Prints the difference `found` of a device to the processor, and records a failure where it is above `bound` or NaN.
    fn check(&mut self, name: &str, what: &str, found: f64, bound: f64) {
        println!("parity {name}: {what}: {found:.1e} (at most {bound:.0e})");
        let near = found <= bound; // false for NaN
        self.failures.extend(
            (!near).then(|| format!("{what} on {name}: {found:.1e} apart, at most {bound:.0e} is allowed")),
        );
    }
}

impl Drop for Parity {
    fn drop(&mut self) {
        assert!(self.failures.is_empty() || std::thread::panicking(), "{}", self.failures.join("\n"));
    }
}

/// Where kernels cannot run, burn's operations take their place unseen. All that kernels are chosen by is printed for `scripts/gpu-check`.
#[test]
fn what_most_kernels_need_is_there() {
    for (name, gpu) in gpus() {
        let DispatchDevice::Cube(gpu) = gpu.as_dispatch() else { panic!("{name} is a GPU") };
        let client = gpu.client();
        println!("properties of {name}: {:?}", client.properties());
        let hardware = &client.properties().hardware;
        assert!(hardware.max_bindings >= 8 && hardware.max_units_per_cube >= 256, "{name}: {hardware:?}");
    }
}
