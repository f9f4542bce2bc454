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

/// Says how far a device is from the processor, and that it is no further than `most`.
#[track_caller]
fn parity(name: &str, what: &str, found: f64, most: f64) {
    println!("parity {name}: {what}: {found:.1e} (at most {most:.0e})");
    assert!(found <= most, "{what} on {name}: {found:.1e} apart, at most {most:.0e} is allowed");
}
