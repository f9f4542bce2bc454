//! NVIDIA GPUs through CUDA (cargo feature `cuda`).
//!
//! Burn counts the GPUs without calling a driver that is not installed; a client made without a driver would panic, so a
//! device is opened only if it was counted. Kernels that use an exponential are linked with libdevice, of CUDA's toolkit,
//! so a device is not opened without it.

use std::path::Path;
use std::{env, fs};

use burn::tensor::{Device, DeviceType};

use super::{DeviceError, Found, FreeMemory, Type, free_memory};
use crate::model::io::catch_panic::catch_foreign;

/// The CUDA devices of this machine, numbered from `cuda:0`; opens none.
pub(super) fn list() -> Vec<Found> {
    let counted = catch_foreign(|| Device::enumerate(DeviceType::Cuda).into_vec()).unwrap_or_default();
    let driver = driver(&fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default());
    let found = (0..counted.len()).map(|index| Found {
        name: format!("cuda:{index}"),
        adapter: format!("NVIDIA GPU {index}"),
        kind: Type::DiscreteGpu,
        api: "CUDA".into(),
        driver: driver.clone(),
        ..Found::default()
    });
    found.collect()
}

/// The driver's version as Linux reports it; CUDA itself reports only the CUDA version it supports.
fn driver(version: &str) -> String {
    let mut words = version.lines().next().unwrap_or_default().split_whitespace();
    let number = words.find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
    number.map_or_else(String::new, |number| format!("NVIDIA {number}"))
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
    let opened = catch_foreign(|| device.sync().map_err(|error| format!("{error:?}")));
    opened.flatten().map_err(|reason| found.refused(reason))?;
    Ok(device)
}

/// Adds the name and memory of the device, for which it has to be opened; unchanged if it does not open.
pub(super) fn describe(found: Found) -> Found {
    let properties = catch_foreign(|| {
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

#[cfg(test)]
mod tests {
    use super::driver;

    #[test]
    fn the_driver_is_the_number_that_linux_gives() {
        let gcc = "GCC version:  gcc version 12.3.0\n";
        for line in [
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Sat Aug 19 01:15:15 UTC 2023\n",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n",
        ] {
            assert_eq!(driver(&format!("{line}{gcc}")), "NVIDIA 580.159.04");
        }
        assert_eq!(driver(""), "");
    }
}
