//! NVIDIA GPUs through CUDA (cargo feature `cuda`).
//!
//! Burn counts them without touching the driver where there is none; a client made without a
//! driver would panic, so a device is opened only when it was counted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::backend::DispatchDevice;
use burn::tensor::{Device, DeviceType};

use super::{DeviceError, Found, Type};

/// The CUDA devices this machine has, numbered from `cuda:0`.
pub(super) fn list() -> Vec<Found> {
    let counted = catch_unwind(|| Device::enumerate(DeviceType::Cuda).into_vec()).unwrap_or_default();
    counted.iter().enumerate().map(|(index, device)| describe(index, device)).collect()
}

/// Opens a CUDA device of the list.
pub(super) fn open(found: &Found) -> Result<Device, DeviceError> {
    let refused = |reason: String| {
        let (name, adapter) = (found.name.clone(), found.adapter.clone());
        DeviceError::Refused { name, adapter, reason }
    };
    let index: usize = found.name.trim_start_matches("cuda:").parse().unwrap_or(0);
    let device = Device::cuda(index);
    let opened = catch_unwind(AssertUnwindSafe(|| device.sync()));
    match opened {
        Ok(Ok(())) => Ok(device),
        Ok(Err(error)) => Err(refused(format!("{error:?}"))),
        Err(panic) => Err(refused(super::check::said(&*panic))),
    }
}

/// Opens the device for its name and memory; one that does not open is listed without them.
fn describe(index: usize, device: &Device) -> Found {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        let adapter = device.identity()?.name;
        let DispatchDevice::Cube(cube) = device.as_dispatch() else { return None };
        let memory = cube.client().properties().memory.clone();
        Some((adapter, memory.max_page_size, memory.max_memory()))
    }));
    let (adapter, page, memory) = match asked {
        Ok(Some((adapter, page, memory))) => (adapter, Some(page), memory),
        _ => ("a CUDA device that does not open".into(), None, None),
    };
    Found {
        name: format!("cuda:{index}"),
        adapter,
        kind: Type::DiscreteGpu,
        api: "CUDA".into(),
        driver: String::new(),
        max_buffer: page,
        max_binding: page,
        memory,
    }
}
