//! `ssmprobe devices`: lists the devices of this machine, and checks that each computes correctly.

use crate::app::cli::prelude::*;
use crate::app::format;
use crate::model::device::{self, Check, Found};

/// List the devices of this machine, their limits, and the one that `auto` selects.
#[derive(Args)]
pub struct Devices {
    /// Multiply matrices on each device and compare with float64 (fails if one is wrong)
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A device, and the result of its self-check if `--check` was given.
struct Row {
    found: Found,
    check: Option<Result<Check, String>>,
}

impl Devices {
    /// Prints all devices; the exit code is a failure's if a self-check failed.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let rows: Vec<_> =
            device::list().into_iter().map(|found| self.row(device::describe(found))).collect();
        let auto = device::choose("auto")?;
        if self.json {
            let auto = json!({ "name": auto.found.name, "why": auto.why });
            let devices = rows.iter().map(Row::to_json).collect::<anyhow::Result<Vec<_>>>()?;
            stdout::json(&json!({ "auto": auto, "built_with": built_with(), "devices": devices }))?;
        } else {
            for row in &rows {
                stdout::text(row.to_text())?;
            }
            stdout::line(format_args!("auto selects {}: {}", auto.found.name, auto.why))?;
            stdout::line(format_args!("built with: {}", built_with().join(", ")))?;
        }
        let failed = rows.iter().any(|row| matches!(row.check, Some(Err(_))));
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn row(&self, found: Found) -> Row {
        let check = self.check.then(|| {
            let opened = device::open(&found.name).map_err(|error| error.to_string())?;
            device::check(&found, &opened).map_err(|error| error.to_string())
        });
        Row { found, check }
    }
}

impl Row {
    fn to_text(&self) -> String {
        let check = self.check.as_ref().map(|check| match check {
            Ok(Check { size, error, gflops }) => {
                format!("correct to {error:.1e} at {size} x {size}, {gflops:.1} GFLOP/s")
            }
            Err(error) => format!("FAILED: {error}"),
        });
        to_text(&self.found) + &check.map_or(String::new(), |check| line("check", &check))
    }

    fn to_json(&self) -> anyhow::Result<Value> {
        let mut value = serde_json::to_value(&self.found)?;
        match &self.check {
            None => {}
            Some(Ok(check)) => value["check"] = serde_json::to_value(check)?,
            Some(Err(error)) => value["check"] = json!({ "failed": error }),
        }
        Ok(value)
    }
}

fn line(what: &str, value: &str) -> String {
    format!("         {what:<14} {value}\n")
}

/// The lines of a device: name, adapter, driver and limits.
pub(super) fn to_text(found: &Found) -> String {
    let Found { name, adapter, kind, api, driver, max_buffer, max_binding, memory } = found;
    let mut text = format!("{name:<8} {adapter} ({}, {api})\n", kind.name());
    if !driver.is_empty() {
        text += &line("driver", driver);
    }
    for (what, bytes) in [("memory", memory), ("largest buffer", max_buffer), ("in a kernel", max_binding)] {
        if let Some(bytes) = bytes {
            text += &line(what, &size(*bytes));
        }
    }
    text
}

/// A limit in bytes; a driver without a limit reports a huge number, taken to begin at 2^50.
fn size(bytes: u64) -> String {
    if bytes >= 1 << 50 { "no limit".into() } else { format::bytes(bytes) }
}

pub(super) fn built_with() -> Vec<&'static str> {
    let wgpu = if cfg!(feature = "vulkan") { "wgpu with SPIR-V" } else { "wgpu with WGSL" };
    ["flex", wgpu].into_iter().chain(cfg!(feature = "cuda").then_some("cuda")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_limit_is_none() {
        let found = Found { memory: Some(1 << 30), max_buffer: Some(u64::MAX), ..Found::default() };
        let text = to_text(&found);
        assert!(
            text.contains("memory         1.1 GB\n") && text.contains("largest buffer no limit\n"),
            "{text}"
        );
    }
}
