//! NVIDIA GPUs through CUDA (cargo feature `cuda`).
//!
//! Burn counts the GPUs without calling a driver that is not installed; a client made without a driver would panic, so a
//! device is opened only if it was counted. Kernels that use an exponential are linked with libdevice, of CUDA's toolkit,
//! so a device is not opened without it.

use std::env;
use std::path::Path;

use burn::tensor::{Device, DeviceType};

use super::{DeviceError, Found, FreeMemory, Type, free_memory};
use crate::model::io::catch_panic::guard;

/// The CUDA devices of this machine, numbered from `cuda:0`; opens none.
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
    let device = device(found);
    let opened = guard(|| device.sync().map_err(|error| format!("{error:?}")));
    opened.flatten().map_err(|reason| found.refused(reason))?;
    Ok(device)
}

/// Adds the name and memory of the device, for which it has to be opened; unchanged if it does not open.
pub(super) fn describe(found: Found) -> Found {
    let properties = guard(|| {
        let device = device(&found);
        Some((device.identity()?.name, free_memory(&device)?))
    });
    match properties {
        Ok(Some((adapter, FreeMemory { tensor, all }))) => {
            Found { adapter, max_buffer: Some(tensor), max_binding: Some(tensor), memory: all, ..found }
        }
        _ => found,
    }
}

/// Whether libdevice is where cubecl 0.11 looks for it: below CUDA_PATH, or if that is not set in one of the usual
/// folders. The error lists the folders searched.
fn find_libdevice() -> Result<(), String> {
    let usual = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr"];
    let folders =
        env::var("CUDA_PATH").map_or_else(|_| usual.map(String::from).to_vec(), |folder| vec![folder]);
    let is_there = |folder: &String| Path::new(folder).join("nvvm/libdevice/libdevice.10.bc").is_file();
    if folders.iter().any(is_there) { Ok(()) } else { Err(folders.join(", ")) }
}

/// Burn's device with the index in the name; not opened yet.
fn device(found: &Found) -> Device {
    let index: usize = found.name.trim_start_matches("cuda:").parse().unwrap_or(0);
    Device::cuda(index)
}
