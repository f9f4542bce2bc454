//! The adapters of wgpu: listed through wgpu, opened through burn.
//!
//! Burn names an adapter by graphics API, type and index among its type on that API, in the order
//! in which the API lists them. This module lists the APIs in burn's order of preference and maps each
//! `wgpu:<index>` to burn's name. A card that two APIs offer is listed once.

use std::collections::HashMap;
use std::env;
use std::ffi::OsStr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use burn::backend::wgpu::graphics::AutoGraphicsApi;
use burn::backend::wgpu::{RuntimeOptions, WgpuBackend, WgpuDevice, try_init_setup};
use burn::backend::{DispatchDevice, WgpuDeviceKind};
use burn::tensor::Device;
use wgpu::{Adapter, AdapterInfo, Backend, DeviceType};

use super::{DeviceError, Found, Type};
use crate::model::io::catch_panic::catch_foreign;

/// Graphics APIs, best first, as wgpu and as burn name them.
const APIS: [(Backend, WgpuBackend); 4] = [
    (Backend::Vulkan, WgpuBackend::Vulkan),
    (Backend::Metal, WgpuBackend::Metal),
    (Backend::Dx12, WgpuBackend::Dx12),
    (Backend::Gl, WgpuBackend::Gl),
];

/// The adapters that this process has listed and opened, behind one lock: burn opens an adapter once per process,
/// and the Vulkan loader does not tolerate instances that are created and dropped on several threads.
#[derive(Default)]
struct Registry {
    listed: Option<Vec<(Found, WgpuDevice)>>,
    opened: HashMap<String, Device>,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The adapters of this machine, numbered from `wgpu:0`; enumerated once per process.
pub(super) fn list() -> Vec<Found> {
    let mut registry = registry();
    let listed = registry.listed.get_or_insert_with(enumerate);
    listed.iter().map(|(found, _)| found.clone()).collect()
}

/// Opens an adapter of the list.
pub(super) fn open(found: &Found) -> Result<Device, DeviceError> {
    let mut registry = registry();
    if let Some(device) = registry.opened.get(&found.name) {
        return Ok(device.clone());
    }
    let listed = registry.listed.get_or_insert_with(enumerate);
    let chosen = listed.iter().find(|(listed, _)| listed.name == found.name);
    let (_, chosen) = chosen.ok_or_else(|| found.refused("it is no longer available".into()))?.clone();
    // Drivers fail in many ways, and some bindings panic where others return an error.
    let setup = catch_foreign(|| {
        let options = RuntimeOptions::try_default()?;
        try_init_setup::<AutoGraphicsApi>(&chosen, options)
    });
    let setup = setup.and_then(|setup| setup.map_err(|error| error.to_string()));
    let setup = setup.map_err(|reason| found.refused(reason))?;
    let opened = name_of(&setup.adapter.get_info());
    if opened != found.adapter {
        return Err(found.refused(format!("the system opened another adapter instead, {opened}")));
    }
    let device = Device::new(DispatchDevice::from(chosen));
    registry.opened.insert(found.name.clone(), device.clone());
    Ok(device)
}

/// Enumerates the adapters of every API that can be opened, with burn's name of each.
fn enumerate() -> Vec<(Found, WgpuDevice)> {
    let mut listed: Vec<(Found, WgpuDevice)> = Vec::new();
    let mut seen: Vec<AdapterInfo> = Vec::new();
    let visible = env::var_os("CUDA_VISIBLE_DEVICES");
    for (api, burn_api) in APIS {
        if !wgpu::Instance::enabled_backend_features().contains(api.into()) {
            continue;
        }
        let mut indices = HashMap::new();
        let mut fresh = Vec::new();
        for adapter in adapters_on(api) {
            let info = adapter.get_info();
            let index = indices.entry(info.device_type).or_insert(0_usize);
            let kind = burn_kind(info.device_type, *index);
            *index += 1;
            if is_hidden(&info, visible.as_deref()) {
                fresh.push(info); // from the APIs that follow, too
                continue;
            }
            let is_seen = seen.iter().any(|earlier| same_card(earlier, &info))
                || fresh.iter().any(|earlier| same_driver(earlier, &info));
            // Burn names one software adapter per API, and no index above its limit.
            let Some(kind) = kind.filter(|_| !miscompiles(&adapter) && !is_seen) else { continue };
            listed.push((describe(&adapter, &info, listed.len()), WgpuDevice::new(kind).on(burn_api)));
            fresh.push(info);
        }
        seen.extend(fresh);
    }
    listed
}

/// Whether this program's kernels would compute wrong values there, or abort the process, with no error to catch: without explicit
/// workgroup memory layout, as on Mesa's software Vulkan before 26, cubecl 0.11 writes invalid SPIR-V (a pointer to a pointer).
/// Such an adapter counts as absent.
#[cfg(feature = "vulkan")]
fn miscompiles(adapter: &Adapter) -> bool {
    #[expect(unsafe_code, reason = "wgpu exposes Vulkan's extensions in no other way")]
    // SAFETY: the adapter is only queried.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() };
    let layout = c"VK_KHR_workgroup_memory_explicit_layout";
    vulkan.is_some_and(|vulkan| !vulkan.physical_device_capabilities().supports_extension(layout))
}

/// Kernels in WGSL compile correctly everywhere.
#[cfg(not(feature = "vulkan"))]
fn miscompiles(_: &Adapter) -> bool {
    false
}

/// Whether `visible`, the list of CUDA's devices, hides the card: if it is empty, NVIDIA's driver of Vulkan ends the program with a
/// segmentation fault once a device is opened.
fn is_hidden(info: &AdapterInfo, visible: Option<&OsStr>) -> bool {
    info.driver == "NVIDIA" && visible.is_some_and(OsStr::is_empty)
}

/// The adapters that one API offers, in its order; none if its driver panics.
fn adapters_on(api: Backend) -> Vec<Adapter> {
    let query = || {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: api.into(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        pollster::block_on(instance.enumerate_adapters(api.into()))
    };
    // A broken driver must not keep the others from being listed.
    catch_foreign(query).unwrap_or_default()
}

/// Burn's name for the adapter number `index` of its type on its API; none where burn has none.
fn burn_kind(kind: DeviceType, index: usize) -> Option<WgpuDeviceKind> {
    (index <= WgpuDeviceKind::MAX_INDEX).then_some(())?;
    match kind {
        DeviceType::DiscreteGpu => Some(WgpuDeviceKind::DiscreteGpu(index)),
        DeviceType::IntegratedGpu => Some(WgpuDeviceKind::IntegratedGpu(index)),
        DeviceType::VirtualGpu => Some(WgpuDeviceKind::VirtualGpu(index)),
        DeviceType::Other => Some(WgpuDeviceKind::Other(index)),
        DeviceType::Cpu => (index == 0).then_some(WgpuDeviceKind::Cpu),
    }
}

/// Whether an adapter of another API is the same card. OpenGL reports no device number, so there the vendor
/// has to suffice.
fn same_card(earlier: &AdapterInfo, later: &AdapterInfo) -> bool {
    earlier.vendor == later.vendor && (earlier.device == later.device || later.backend == Backend::Gl)
}

/// Whether an adapter of the same API is the same card through the same driver: Vulkan's loader lists every card of a driver once for
/// each of its manifests, of which containers may have two.
fn same_driver(earlier: &AdapterInfo, later: &AdapterInfo) -> bool {
    fn place(info: &AdapterInfo) -> [&str; 3] {
        [&info.device_pci_bus_id, &info.driver, &info.driver_info]
    }
    !later.device_pci_bus_id.is_empty() && place(earlier) == place(later)
}

fn describe(adapter: &Adapter, info: &AdapterInfo, index: usize) -> Found {
    let limits = adapter.limits();
    Found {
        name: format!("wgpu:{index}"),
        adapter: name_of(info),
        kind: match info.device_type {
            DeviceType::DiscreteGpu => Type::DiscreteGpu,
            DeviceType::IntegratedGpu => Type::IntegratedGpu,
            DeviceType::VirtualGpu => Type::VirtualGpu,
            DeviceType::Other => Type::Unknown,
            DeviceType::Cpu => Type::Software,
        },
        api: match info.backend {
            Backend::Dx12 => "DirectX 12".into(),
            Backend::Gl => "OpenGL".into(),
            other => format!("{other:?}"),
        },
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        max_buffer: Some(limits.max_buffer_size),
        max_binding: Some(limits.max_storage_buffer_binding_size),
        memory: None,
    }
}

fn name_of(info: &AdapterInfo) -> String {
    let name = info.name.split_whitespace().collect::<Vec<_>>().join(" ");
    if name.is_empty() { format!("{:04x}:{:04x}", info.vendor, info.device) } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_numbered_and_the_same_twice() {
        let found = list();
        for (index, found) in found.iter().enumerate() {
            assert_eq!(found.name, format!("wgpu:{index}"));
            assert!(!found.adapter.is_empty() && found.max_buffer > Some(0), "{found:?}");
        }
        assert_eq!(found, list());
    }

    #[test]
    fn every_type_counts_from_zero_and_software_has_no_index() {
        assert_eq!(burn_kind(DeviceType::DiscreteGpu, 1), Some(WgpuDeviceKind::DiscreteGpu(1)));
        assert_eq!(burn_kind(DeviceType::Cpu, 0), Some(WgpuDeviceKind::Cpu));
        assert_eq!(burn_kind(DeviceType::Cpu, 1), None);
        assert_eq!(burn_kind(DeviceType::Other, WgpuDeviceKind::MAX_INDEX + 1), None);
    }

    #[test]
    fn a_card_is_listed_once_if_it_is_not_hidden_and_its_twin_is_another() {
        let card = |vendor, device, backend| {
            let blank = AdapterInfo::new(DeviceType::DiscreteGpu, backend);
            AdapterInfo { vendor, device, ..blank }
        };
        let vulkan = card(0x10de, 0x2204, Backend::Vulkan);
        assert!(same_card(&vulkan, &card(0x10de, 0x2204, Backend::Dx12)));
        assert!(same_card(&vulkan, &card(0x10de, 0, Backend::Gl)));
        assert!(!same_card(&vulkan, &card(0x10de, 0x2684, Backend::Dx12)));
        assert!(!same_card(&vulkan, &card(0x8086, 0x2204, Backend::Gl)));
        let at = |bus: &str, driver: &str| AdapterInfo {
            device_pci_bus_id: bus.into(),
            driver: driver.into(),
            ..vulkan.clone()
        };
        let first = at("0000:01:00.0", "NVIDIA");
        assert!(same_driver(&first, &first));
        assert!(!same_driver(&first, &at("0000:02:00.0", "NVIDIA")));
        assert!(!same_driver(&first, &at("0000:01:00.0", "NVK")));
        assert!(!same_driver(&vulkan, &vulkan), "their places are unknown");
        let [empty, some] = ["", "0"].map(|list| Some(OsStr::new(list)));
        assert_eq!([empty, some, None].map(|list| is_hidden(&first, list)), [true, false, false]);
        assert!(!is_hidden(&at("0000:01:00.0", "NVK"), empty), "another driver");
    }
}
