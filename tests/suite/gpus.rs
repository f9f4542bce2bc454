//! The GPUs that tests compare with the processor, and a lock over their use.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::vec::IntoIter;

use burn::tensor::Device;
use ssmprobe::model::device::{self, Type};

use crate::skip;

/// Read-locked by tests that share the GPUs of this process, write-locked by one that needs them for itself.
pub static IN_USE: RwLock<()> = RwLock::new(());

/// Iterator over GPUs and their names, which holds a lock guard until it is dropped.
pub struct Gpus<G> {
    found: IntoIter<(String, Device)>,
    _guard: G,
}

impl<G> Iterator for Gpus<G> {
    type Item = (String, Device);

    fn next(&mut self) -> Option<Self::Item> {
        self.found.next()
    }
}

/// Name and device of every real GPU, or of a software adapter where there is none, or of the one that `SSMPROBE_GPU` names; holds
/// [`IN_USE`] for reading.
pub fn gpus() -> Gpus<RwLockReadGuard<'static, ()>> {
    gpus_with(IN_USE.read().unwrap_or_else(PoisonError::into_inner))
}

/// As [`gpus`], with another guard of [`IN_USE`].
pub fn gpus_with<G>(guard: G) -> Gpus<G> {
    Gpus { found: found().into_iter(), _guard: guard }
}

fn found() -> Vec<(String, Device)> {
    let mut found = device::list();
    found.retain(|found| found.kind != Type::Cpu);
    if let Ok(wanted) = std::env::var("SSMPROBE_GPU") {
        found.retain(|found| found.name == wanted);
        assert!(!found.is_empty(), "SSMPROBE_GPU names {wanted}, which is not there");
    } else if found.iter().any(|found| found.kind != Type::Software) {
        found.retain(|found| found.kind != Type::Software);
    }
    if found.is_empty() {
        skip::missing("there is no GPU, not even a software one");
    }
    let open = |found: device::Found| (device::open(&found.name).expect("a listed device"), found.name);
    found.into_iter().map(open).map(|(device, name)| (name, device)).collect()
}
