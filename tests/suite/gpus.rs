//! Which GPUs tests compare with the processor.

use burn::tensor::Device;
use ssmprobe::model::device::{self, Type};

use crate::skip;

/// Every real GPU; where there is none, a software adapter.
pub fn gpus() -> Vec<(String, Device)> {
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
