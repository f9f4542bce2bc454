//! How much a device holds.

use burn::backend::DispatchDevice;
use burn::tensor::Device;

/// What a GPU leaves to tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Most bytes of one tensor.
    pub tensor: u64,
    /// Bytes of all together, where the API says.
    pub all: Option<u64>,
}

/// The room of a GPU; none for the processor, whose tensors are bounded by nothing else.
pub fn room(device: &Device) -> Option<Room> {
    let DispatchDevice::Cube(cube) = device.as_dispatch() else { return None };
    let client = cube.client();
    let memory = &client.properties().memory;
    Some(Room { tensor: memory.max_page_size, all: memory.max_memory() })
}
