//! How much a device holds.

use burn::backend::DispatchDevice;
use burn::tensor::Device;

/// What a GPU leaves to tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeMemory {
    /// Most bytes of one tensor.
    pub tensor: u64,
    /// Bytes of all together, where the API says.
    pub all: Option<u64>,
}

/// The memory of a GPU; none for the processor, whose tensors are bounded by nothing else.
pub fn free_memory(device: &Device) -> Option<FreeMemory> {
    let DispatchDevice::Cube(cube) = device.as_dispatch() else { return None };
    let client = cube.client();
    let memory = &client.properties().memory;
    Some(FreeMemory { tensor: memory.max_page_size, all: memory.max_memory() })
}
