//! The memory limits of a device.

use burn::backend::DispatchDevice;
use burn::tensor::Device;

/// The memory of a GPU for tensors, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeMemory {
    /// Largest size of one tensor.
    pub tensor: u64,
    /// Size of all tensors together; absent where the API does not report it.
    pub all: Option<u64>,
}

/// The memory limits of a GPU; none for the processor, whose tensors only main memory bounds.
pub fn free_memory(device: &Device) -> Option<FreeMemory> {
    let DispatchDevice::Cube(cube) = device.as_dispatch() else { return None };
    let client = cube.client();
    let memory = &client.properties().memory;
    Some(FreeMemory { tensor: memory.max_page_size, all: memory.max_memory() })
}
