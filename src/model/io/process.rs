//! The identity of a process among all machines that share a file system, and whether it still lives.

use std::path::Path;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::atomic_file;

/// Largest file that is read here, in bytes.
const MAX_BYTES: u64 = 1 << 12;

/// A process of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The name of its machine.
    pub host: String,
    /// Identifies the machine; empty if unknown.
    #[serde(default)]
    pub machine: String,
    /// Identifies the boot of the machine.
    pub boot: String,
    /// Identifies the container among those of the machine: process ids of one mean nothing in another. Empty if unknown.
    #[serde(default)]
    pub namespace: String,
    /// Its process id.
    pub process: u32,
    /// When it started, in clock ticks since boot, or 0 if unknown: process ids are reused.
    #[serde(default)]
    pub began: u64,
}

/// Whether a process lives, as far as this machine knows.
#[derive(PartialEq, Eq)]
pub enum Liveness {
    /// It has ended.
    Dead,
    /// It is a process of this machine, which runs.
    Alive,
    /// It is a process of another machine or container, or this machine has no list of processes.
    Unknown,
}

impl ProcessId {
    /// This process.
    pub fn here() -> Self {
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            host: host_name(),
            machine: line("/etc/machine-id").unwrap_or_default(),
            boot: line("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            namespace: namespace.to_string_lossy().into_owned(),
            process: std::process::id(),
            began: start_time("self"),
        }
    }

    /// Another process of the same machine.
    pub fn sibling(&self, process: u32) -> Self {
        Self { process, began: start_time(&process.to_string()), ..self.clone() }
    }

    /// Whether it lives, as seen by the process `here`. `alone` says that it is no living process of this machine: one of this machine
    /// has ended then, even if before this boot.
    pub fn liveness(&self, here: &Self, alone: bool) -> Liveness {
        let is_same_machine =
            self.boot == here.boot || (!self.machine.is_empty() && self.machine == here.machine);
        if self.host == here.host && is_same_machine && alone {
            return Liveness::Dead;
        }
        if (&self.host, &self.boot) != (&here.host, &here.boot) {
            return Liveness::Unknown;
        }
        let in_namespace = self.namespace.is_empty() || self.namespace == here.namespace;
        let now = start_time(&self.process.to_string());
        match here.began {
            _ if !in_namespace => Liveness::Unknown,
            0 => Liveness::Unknown, // this machine has no list of processes
            _ if now == 0 || (self.began != 0 && self.began != now) => Liveness::Dead,
            _ if self.began == 0 => Liveness::Unknown, // written by an earlier version
            _ => Liveness::Alive,
        }
    }
}

/// Identifies this build of the program: its version, and the modification time and length of its file at the first call, since the
/// file may be replaced while the program runs. The length serves where a package format sets all times alike. `None` if the system
/// does not tell.
pub fn build() -> Option<&'static str> {
    static BUILD: OnceLock<Option<String>> = OnceLock::new();
    let found = || {
        let file = std::env::current_exe().and_then(|program| program.metadata()).ok()?;
        let since_epoch = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(format!("{}-{}-{}", env!("CARGO_PKG_VERSION"), since_epoch.as_secs(), file.len()))
    };
    BUILD.get_or_init(found).as_deref()
}

/// The name of this machine; empty if unknown.
pub fn host_name() -> String {
    #[cfg(target_os = "macos")]
    return name_by_system();
    #[cfg(not(target_os = "macos"))]
    line("/proc/sys/kernel/hostname").or_else(|| std::env::var("COMPUTERNAME").ok()).unwrap_or_default()
}

#[cfg(target_os = "macos")]
fn name_by_system() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: it writes at most as many bytes as it is told, and the last stays 0.
    #[expect(unsafe_code, reason = "a call of C that fills what it is given")]
    unsafe {
        libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1);
    }
    String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// The content of a file of one line.
fn line(path: &str) -> Option<String> {
    let bytes = atomic_file::start(Path::new(path), MAX_BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// When a process started, in clock ticks since boot (`/proc/<process>/stat`); 0 if it has ended or there is no `/proc`.
fn start_time(process: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default(); // the name before it may contain anything
    let mut fields = rest.split_whitespace();
    // A zombie has ended: its parent has not waited for it yet.
    match fields.next() {
        None | Some("Z" | "X") => 0,
        Some(_) => fields.nth(18).and_then(|field| field.parse().ok()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_one_version_and_time_are_told_apart_by_length() {
        let length = std::env::current_exe().and_then(|program| program.metadata()).unwrap().len();
        assert!(build().unwrap().ends_with(&format!("-{length}")));
    }

    #[test]
    fn a_process_of_another_boot_is_not_looked_for_here() {
        let here = ProcessId::here();
        // It may be of another machine of this name.
        let (boot, machine) = ("another".to_owned(), String::new());
        let other = ProcessId { boot, machine, process: u32::MAX >> 1, ..here.clone() };
        assert!(other.liveness(&here, false) == Liveness::Unknown, "a number that no process here has");
    }
}
