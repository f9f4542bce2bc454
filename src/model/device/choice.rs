//! Opens the device that a name stands for, with the reason for the choice.

use burn::tensor::Device;

use super::{DeviceError, Found, Type, adapters, describe, processor, without_graphics};

/// An open device, and why it was chosen.
pub struct Choice {
    /// The device, open.
    pub device: Device,
    /// Its description.
    pub found: Found,
    /// Why it was chosen, in words for the user.
    pub why: String,
}

impl Choice {
    fn new(device: Device, found: &Found, why: String) -> Self {
        Self { device, found: describe(found.clone()), why }
    }
}

/// Opens the device called `name` (see the table of [`device`](super)), with the reason for the choice.
///
/// `auto` skips devices that do not open, and the reason names them; any other name gives its own device or an error.
pub fn choose(name: &str) -> Result<Choice, DeviceError> {
    // The CPU needs no driver, so none is queried.
    let name = name.trim();
    choose_among(name, if name == "cpu" { vec![processor()] } else { without_graphics() }, adapters::list)
}

/// [`choose`] among the devices that are `there` and those of `graphics`, which is called only if none of the others will do: graphics
/// drivers initialise every GPU of a machine, and a broken one may end the program.
fn choose_among(
    name: &str,
    mut there: Vec<Found>,
    graphics: impl FnOnce() -> Vec<Found>,
) -> Result<Choice, DeviceError> {
    if name != "auto" {
        if select(name, &there).is_err() {
            there.extend(graphics());
        }
        let found = select(name, &there)?;
        return Ok(Choice::new(open_found(found)?, found, "selected by name".into()));
    }
    let mut refused = String::new();
    let mut open = |(found, why): (&Found, String)| match open_found(found) {
        Ok(device) => Some(Choice::new(device, found, format!("{why}{refused}"))),
        Err(error) => {
            refused += &format!("; {error}");
            None
        }
    };
    let is_cuda = |(found, _): &(&Found, String)| family(found) == "cuda";
    if let Some(choice) = preference(&there).into_iter().filter(is_cuda).find_map(&mut open) {
        return Ok(choice);
    }
    there.extend(graphics());
    let choice = preference(&there).into_iter().filter(|tried| !is_cuda(tried)).find_map(open);
    Ok(choice.expect("the processor is always listed and always opens"))
}

/// The devices that `auto` tries, best first, each with its reason: CUDA, then hardware GPUs, then the processor.
fn preference(there: &[Found]) -> Vec<(&Found, String)> {
    let of = |api: &'static str| there.iter().filter(move |found| family(found) == api);
    let (software, mut gpus): (Vec<_>, Vec<_>) = of("wgpu").partition(|found| found.kind == Type::Software);
    gpus.sort_by_key(|found| found.kind);
    let passed_over = if software.is_empty() { "" } else { " except a software adapter" };
    let reason = |found: &Found| format!("{}, no CUDA device", with_article(found.kind.name()));
    let cuda = of("cuda").map(|found| (found, "a CUDA device".to_owned()));
    let gpus = gpus.into_iter().map(|found| (found, reason(found)));
    let processor = of("cpu").map(|found| (found, format!("no GPU{passed_over}")));
    cuda.chain(gpus).chain(processor).collect()
}

/// `an integrated GPU`, `a discrete GPU`.
fn with_article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}

/// Whether a device can be called `name`, on this machine or another.
pub fn is_name(name: &str) -> bool {
    match name.trim().split_once(':') {
        None => matches!(name.trim(), "auto" | "cpu" | "wgpu" | "cuda"),
        Some((wanted, which)) => matches!(wanted, "wgpu" | "cuda") && !which.trim().is_empty(),
    }
}

/// The device that `name`, which is not `auto`, stands for, among those that are `there`.
pub(super) fn select<'a>(name: &str, there: &'a [Found]) -> Result<&'a Found, DeviceError> {
    let name = name.trim();
    let (wanted, which) = name.split_once(':').map_or((name, None), |(wanted, which)| (wanted, Some(which)));
    if !is_name(name) {
        return Err(DeviceError::Unknown { name: name.into(), there: in_words(there) });
    }
    if wanted == "cuda" && !cfg!(feature = "cuda") {
        return Err(DeviceError::NotCompiled { there: in_words(there) });
    }
    let family: Vec<_> = there.iter().filter(|found| family(found) == wanted).collect();
    let absent = || DeviceError::Absent { name: name.into(), there: in_words(there) };
    let Some(which) = which.map(str::trim) else {
        return family.into_iter().min_by_key(|found| found.kind).ok_or_else(absent);
    };
    if let Ok(index) = which.parse::<usize>() {
        let name = format!("{wanted}:{index}");
        return family.into_iter().find(|found| found.name == name).ok_or_else(absent);
    }
    let part = which.to_lowercase();
    let fitting: Vec<_> =
        family.into_iter().filter(|found| found.adapter.to_lowercase().contains(&part)).collect();
    match fitting.as_slice() {
        [] => Err(absent()),
        [found] => Ok(found),
        several => {
            let fitting = in_words(several.iter().copied());
            Err(DeviceError::Ambiguous { name: name.into(), fitting })
        }
    }
}

/// The part of a device's name before the index.
fn family(found: &Found) -> &str {
    found.name.split(':').next().unwrap_or_default()
}

/// Devices as an error message lists them.
fn in_words<'a>(found: impl IntoIterator<Item = &'a Found>) -> String {
    let words =
        found.into_iter().map(|found| format!("{} ({}, {})", found.name, found.adapter, found.kind.name()));
    words.collect::<Vec<_>>().join("; ")
}

fn open_found(found: &Found) -> Result<Device, DeviceError> {
    match family(found) {
        "wgpu" => adapters::open(found),
        #[cfg(feature = "cuda")]
        "cuda" => super::cuda::open(found),
        _ => Ok(Device::flex()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, adapter: &str, kind: Type) -> Found {
        Found { name: name.into(), adapter: adapter.into(), kind, api: "Vulkan".into(), ..Found::default() }
    }

    /// A machine with everything, its adapters out of order.
    fn machine() -> Vec<Found> {
        vec![
            found("cpu", "Processor", Type::Cpu),
            found("wgpu:0", "llvmpipe (LLVM 15, 256 bits)", Type::Software),
            found("wgpu:1", "Intel Arc", Type::IntegratedGpu),
            found("wgpu:2", "NVIDIA RTX 6000", Type::DiscreteGpu),
            found("wgpu:3", "NVIDIA RTX 4000", Type::DiscreteGpu),
        ]
    }

    fn name_of(name: &str, there: &[Found]) -> Result<String, DeviceError> {
        select(name, there).map(|found| found.name.clone())
    }

    #[test]
    fn names_indices_and_parts_of_names() {
        let there = machine();
        for (name, expected) in [
            ("cpu", "cpu"),
            (" cpu ", "cpu"),
            ("wgpu", "wgpu:2"),
            ("wgpu:0", "wgpu:0"),
            ("wgpu:03", "wgpu:3"),
            ("wgpu:intel", "wgpu:1"),
            ("wgpu:LLVMpipe", "wgpu:0"),
            ("wgpu:RTX 4000", "wgpu:3"),
        ] {
            assert_eq!(name_of(name, &there).as_deref(), Ok(expected), "{name}");
        }
    }

    #[test]
    fn an_error_about_a_missing_device_lists_those_that_exist() {
        let there = machine();
        for name in ["", "gpu", "cpu:0", "wgpu:", "wgpu: ", "vulkan", "cuda:", "auto:1", "CPU"] {
            let error = name_of(name, &there).unwrap_err();
            assert!(matches!(error, DeviceError::Unknown { .. }), "{name}: {error:?}");
            assert!(error.to_string().contains("wgpu:2 (NVIDIA RTX 6000, discrete GPU)"), "{error}");
        }
        for name in ["wgpu:4", "wgpu:radeon", "wgpu:99999999999999999999999"] {
            let error = name_of(name, &there).unwrap_err();
            assert!(matches!(error, DeviceError::Absent { .. }), "{name}: {error:?}");
        }
        let error = name_of("wgpu:nvidia", &there).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`wgpu:nvidia` matches several devices: wgpu:2 (NVIDIA RTX 6000, discrete GPU); wgpu:3 (NVIDIA \
             RTX 4000, discrete GPU). Use the index"
        );
        assert!(matches!(name_of("wgpu", &there[..1]), Err(DeviceError::Absent { .. })));
        #[cfg(not(feature = "cuda"))]
        assert!(matches!(name_of("cuda:0", &there), Err(DeviceError::NotCompiled { .. })));
    }

    #[test]
    fn auto_prefers_cuda_then_real_gpus_and_never_software() {
        let mut there = machine();
        let names = |there: &[Found]| {
            preference(there).iter().map(|(found, _)| found.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&there), ["wgpu:2", "wgpu:3", "wgpu:1", "cpu"]);
        there.push(found("cuda:0", "NVIDIA RTX 6000", Type::DiscreteGpu));
        assert_eq!(names(&there)[0], "cuda:0");
        let software = &there[..2];
        assert_eq!(names(software), ["cpu"]);
        assert_eq!(preference(software)[0].1, "no GPU except a software adapter");
        assert_eq!(name_of("wgpu", software).as_deref(), Ok("wgpu:0"), "selected by name");
    }

    /// Only these builds open CUDA's devices as the processor, when there is nothing else.
    #[cfg(not(feature = "cuda"))]
    #[test]
    fn graphics_drivers_are_asked_only_where_no_other_device_will_do() {
        let cpu = found("cpu", "Processor", Type::Cpu);
        let cuda = found("cuda:0", "NVIDIA RTX 6000", Type::DiscreteGpu);
        let chosen = |name: &str, there: &[&Found]| {
            let mut asked = false;
            let there = there.iter().copied().cloned().collect();
            let choice = choose_among(name, there, || {
                asked = true;
                vec![found("wgpu:0", "llvmpipe", Type::Software)]
            });
            (choice.map(|choice| choice.found.name).map_err(|error| error.to_string()), asked)
        };
        assert_eq!(chosen("cpu", &[&cpu]), (Ok("cpu".into()), false));
        assert_eq!(chosen("auto", &[&cpu, &cuda]), (Ok("cuda:0".into()), false));
        assert_eq!(chosen("auto", &[&cpu]), (Ok("cpu".into()), true), "its adapter is software");
        let (refused, asked) = chosen("wgpu:7", &[&cpu, &cuda]);
        assert!(asked && refused.unwrap_err().contains("wgpu:0 (llvmpipe"), "an error lists all");
    }
}
