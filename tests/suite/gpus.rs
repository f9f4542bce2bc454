//! Which GPUs tests compare with the processor.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::vec::IntoIter;

use burn::tensor::Device;
use ssmprobe::model::device::{self, Type};

use crate::skip;

/// Who works on GPUs in this process: some, or one alone.
pub static IN_USE: RwLock<()> = RwLock::new(());

/// GPUs with their names, and what is held as long as they are asked for.
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

/// Every real GPU; where there is none, a software adapter.
pub fn gpus() -> Gpus<RwLockReadGuard<'static, ()>> {
    gpus_with(IN_USE.read().unwrap_or_else(PoisonError::into_inner))
}

/// The same, with another guard.
pub fn gpus_with<G>(guard: G) -> Gpus<G> {
    Gpus { found: found().into_iter(), _guard: guard }
}

fn found() -> Vec<(String, Device)> {
    let mut found = device::list();
    found.retain(|found| found.kind != Type::Cpu);
    if found.iter().any(|found| found.kind != Type::Software) {
        found.retain(|found| found.kind != Type::Software);
    }
    if found.is_empty() {
        skip::missing("there is no GPU, not even a software one");
    }
    let open = |found: device::Found| (device::open(&found.name).expect("a listed device"), found.name);
    found.into_iter().map(open).map(|(device, name)| (name, device)).collect()
}
