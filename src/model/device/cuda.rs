//! NVIDIA GPUs through CUDA (cargo feature `cuda`).
//!
//! Burn counts them without touching the driver where there is none; a client made without a
//! driver would panic, so a device is opened only when it was counted. Kernels are linked with a library of CUDA's toolkit as
//! soon as one takes an exponential, so a device without it does not open.

use std::env;
use std::path::Path;

use burn::backend::DispatchDevice;
use burn::tensor::{Device, DeviceType};

use super::{DeviceError, Found, Type};
use crate::model::io::catch_panic::guard;

/// The CUDA devices this machine has, numbered from `cuda:0`; none is opened.
pub(super) fn list() -> Vec<Found> {
    let counted = guard(|| Device::enumerate(DeviceType::Cuda).into_vec()).unwrap_or_default();
    let found = (0..counted.len()).map(|index| Found {
        name: format!("cuda:{index}"),
        adapter: format!("NVIDIA GPU {index}"),
        kind: Type::DiscreteGpu,
        api: "CUDA".into(),
        ..Found::default()
    });
    found.collect()
}

pub(super) fn open(found: &Found) -> Result<Device, DeviceError> {
    if let Err(looked) = find_libdevice() {
        return Err(DeviceError::NoLibdevice {
            name: found.name.clone(),
            adapter: found.adapter.clone(),
            looked,
        });
    }
    let refused = |reason: String| {
        let (name, adapter) = (found.name.clone(), found.adapter.clone());
        DeviceError::Refused { name, adapter, reason }
    };
    let device = device(found);
    let opened = guard(|| device.sync());
    match opened {
        Ok(Ok(())) => Ok(device),
        Ok(Err(error)) => Err(refused(format!("{error:?}"))),
        Err(said) => Err(refused(said)),
    }
}

/// Opens the device for its name and memory; one that does not open stays without them.
pub(super) fn describe(found: Found) -> Found {
    let asked = guard(|| {
        let device = device(&found);
        let adapter = device.identity()?.name;
        let DispatchDevice::Cube(cube) = device.as_dispatch() else { return None };
        let memory = cube.client().properties().memory.clone();
        Some((adapter, memory.max_page_size, memory.max_memory()))
    });
    match asked {
        Ok(Some((adapter, page, memory))) => {
            Found { adapter, max_buffer: Some(page), max_binding: Some(page), memory, ..found }
        }
        _ => found,
    }
}

/// That the library is where cubecl 0.11 looks: below CUDA_PATH, or if that is not set in one of the usual folders, which
/// are the error.
fn find_libdevice() -> Result<(), String> {
    let usual = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr"];
    let folders =
        env::var("CUDA_PATH").map_or_else(|_| usual.map(String::from).to_vec(), |folder| vec![folder]);
    let is_there = |folder: &String| Path::new(folder).join("nvvm/libdevice/libdevice.10.bc").is_file();
    if folders.iter().any(is_there) { Ok(()) } else { Err(folders.join(", ")) }
}

/// Burn's device of that index; not opened yet.
fn device(found: &Found) -> Device {
    let index: usize = found.name.trim_start_matches("cuda:").parse().unwrap_or(0);
    Device::cuda(index)
}
