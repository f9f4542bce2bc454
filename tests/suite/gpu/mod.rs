//! GPUs against the processor: the same tests on a software adapter, which every machine has, and on real GPUs of every
//! kind. `SSMPROBE_GRAPHICS=all` also does what takes a software adapter minutes; what is compared is printed
//! (`--nocapture`): `parity DEVICE: WHAT: FOUND (at most BOUND)`.

mod backbones;
mod columns;
mod heads;
mod memory;
mod s4;
mod sinkhorn;

/// Whether all is wanted, however long a software adapter takes.
fn all() -> bool {
    std::env::var_os("SSMPROBE_GRAPHICS").is_some_and(|which| which == "all")
}

/// What one test compares. What is too far apart fails it at its end: a GPU that is lent for minutes is to say all of it at once.
#[derive(Default)]
struct Parity {
    apart: Vec<String>,
}

impl Parity {
    /// Says how far a device is from the processor, and takes note where that is further than `most`.
    fn check(&mut self, name: &str, what: &str, found: f64, most: f64) {
        println!("parity {name}: {what}: {found:.1e} (at most {most:.0e})");
        let near = found <= most; // NaN is not
        self.apart.extend(
            (!near).then(|| format!("{what} on {name}: {found:.1e} apart, at most {most:.0e} is allowed")),
        );
    }
}

impl Drop for Parity {
    fn drop(&mut self) {
        assert!(self.apart.is_empty() || std::thread::panicking(), "{}", self.apart.join("\n"));
    }
}
