//! Devices, by name: where tensors are stored and computed.
//!
//! | name | device |
//! |---|---|
//! | `cpu` | the processor, with burn's flex backend |
//! | `wgpu`, `wgpu:<index>`, `wgpu:<part of the adapter's name>` | a GPU through Vulkan, DirectX 12, Metal or OpenGL |
//! | `cuda`, `cuda:<index>` | an NVIDIA GPU through CUDA (cargo feature `cuda`) |
//! | `auto` | CUDA where compiled and present, else a hardware GPU through wgpu, else the processor |
//!
//! A software adapter (lavapipe, SwiftShader, WARP) is slower than the processor it runs on: `auto`
//! never chooses one, and `wgpu` only if there is no other adapter.
//!
//! Devices are listed before one is opened, because opening an absent one panics deep in the driver's bindings;
//! and they are fully opened before they are returned, so that a driver fails here and not in the middle of a
//! computation.

mod adapters;
mod check;
mod choice;
#[cfg(feature = "cuda")]
mod cuda;
mod kernel_cache;
mod memory;
mod silence_drivers;

pub use check::{Check, CheckError, check};
pub use choice::{Choice, choose, is_name};
pub use kernel_cache::keep_kernels;
pub use memory::{free_main_memory, main_memory, proc_bytes};
pub use silence_drivers::silence_drivers;

use std::iter;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::model::ops::gpu::gpu_of;

listed! {
    /// What kind of hardware a device is, the best first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Type {
        /// A graphics card with its own memory.
        DiscreteGpu: "discrete GPU";
        /// A GPU that shares the processor's memory.
        IntegratedGpu: "integrated GPU";
        /// A GPU passed through to a virtual machine.
        VirtualGpu: "virtual GPU";
        /// The driver does not say.
        #[default]
        Unknown: "unknown type";
        /// A GPU emulated on the processor: for tests, not for work.
        Software: "software";
        /// The processor itself.
        Cpu: "processor";
    }
}

/// The description of a device of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The name that opens exactly this one: `cpu`, `wgpu:0`, `cuda:0`.
    pub name: String,
    /// The name that the hardware reports.
    pub adapter: String,
    /// What kind of hardware it is.
    #[serde(rename = "type")]
    pub kind: Type,
    /// The API or backend it is used through: `flex`, `Vulkan`, `CUDA`.
    pub api: String,
    /// The driver and its version; empty where it does not say.
    pub driver: String,
    /// Largest buffer, in bytes; absent where only memory bounds it.
    pub max_buffer: Option<u64>,
    /// Largest buffer a kernel can read, in bytes; absent where only memory bounds it.
    pub max_binding: Option<u64>,
    /// Memory in bytes; absent where the API does not say.
    pub memory: Option<u64>,
}

impl Found {
    /// The error that it does not open.
    fn refused(&self, reason: String) -> DeviceError {
        DeviceError::Refused { name: self.name.clone(), adapter: self.adapter.clone(), reason }
    }
}

/// Why a device could not be opened. A message about a name lists the devices there are.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    #[error(
        "unknown device `{name}`; expected `auto`, `cpu`, `wgpu`, `wgpu:<index or name>`, `cuda` or \
         `cuda:<index>`. Available: {there}"
    )]
    Unknown { name: String, there: String },
    #[error("no device `{name}` on this machine. Available: {there}")]
    Absent { name: String, there: String },
    #[error("`{name}` matches several devices: {fitting}. Use the index")]
    Ambiguous { name: String, fitting: String },
    #[error(
        "this program was built without CUDA; rebuild it with `cargo build --release --features cuda` \
         (docs/guide.md, \"GPUs\"). Available: {there}"
    )]
    NotCompiled { there: String },
    #[error(
        "device `{name}` ({adapter}) needs nvvm/libdevice/libdevice.10.bc of CUDA's toolkit, which is not in \
         {looked}. Install it (`apt install nvidia-cuda-toolkit` or `pip install nvidia-cuda-nvcc-cu12`), \
         and set CUDA_PATH to the folder that contains nvvm"
    )]
    NoLibdevice { name: String, adapter: String, looked: String },
    #[error(
        "device `{name}` ({adapter}) cannot be opened: {reason}. Update its driver, or use `--device cpu`"
    )]
    Refused { name: String, adapter: String, reason: String },
}

/// Every device of this machine: the processor first, then CUDA devices, then adapters of wgpu. Opens none, so that
/// no memory is taken on GPUs that are not used.
pub fn list() -> Vec<Found> {
    let mut found = without_graphics();
    found.extend(adapters::list());
    found
}

/// The processor and every CUDA device.
fn without_graphics() -> Vec<Found> {
    #[cfg(feature = "cuda")]
    let cuda = cuda::list();
    #[cfg(not(feature = "cuda"))]
    let cuda = [];
    iter::once(processor()).chain(cuda).collect()
}

/// Completes a description with what only opening the device reveals: the name and memory of a CUDA device.
pub fn describe(found: Found) -> Found {
    #[cfg(feature = "cuda")]
    if found.api == "CUDA" {
        return cuda::describe(found);
    }
    found
}

/// Opens the device called `name`, as [`choose`] does.
pub fn open(name: &str) -> Result<Device, DeviceError> {
    choose(name).map(|choice| choice.device)
}

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
    let client = gpu_of(device)?.client();
    let memory = &client.properties().memory;
    Some(FreeMemory { tensor: memory.max_page_size, all: memory.max_memory() })
}

fn processor() -> Found {
    Found {
        name: "cpu".into(),
        adapter: processor_name(),
        kind: Type::Cpu,
        api: "flex".into(),
        memory: main_memory(),
        ..Found::default()
    }
}

/// The processor's model name, or its architecture where that is unknown, and its number of threads.
fn processor_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let name = model.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    match std::thread::available_parallelism() {
        Ok(threads) => format!("{name}, {threads} threads"),
        Err(_) => name.to_owned(),
    }
}
