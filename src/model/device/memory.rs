//! Main memory, as Linux reports it: that of the machine, or less if the control groups of this process limit it, as in a
//! container, in a cluster's job and on a shared machine with limits for each user.

use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Bytes of main memory that this process can have at most; `None` on systems that do not report it.
pub fn main_memory() -> Option<u64> {
    within("MemTotal:", Group::limit)
}

/// Bytes of main memory that are free, or would be if caches of files were dropped; `None` on systems that do not report it.
pub fn free_main_memory() -> Option<u64> {
    within("MemAvailable:", Group::free)
}

/// A field of `/proc/meminfo` in bytes, or the least `amount` of the control groups of this process if that is lower.
fn within(field: &str, amount: fn(&Group) -> Option<u64>) -> Option<u64> {
    let bytes = proc_bytes("/proc/meminfo", field)?;
    let listed = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let least = groups(&listed, Path::new(GROUPS)).iter().filter_map(amount).min();
    Some(least.unwrap_or(u64::MAX).min(bytes))
}

/// A field in kB of a file in `/proc`, such as `VmRSS:` of `/proc/self/status`, in bytes.
pub fn proc_bytes(file: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The folder of a control group, and the names of the files that hold its limit and the memory in use.
struct Group {
    folder: PathBuf,
    limit: &'static str,
    taken: &'static str,
}

impl Group {
    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }

    /// Its memory limit, if it has one.
    fn limit(&self) -> Option<u64> {
        self.number(self.limit)
    }

    /// What its processes may still take, if it has a limit.
    fn free(&self) -> Option<u64> {
        let stat = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let field = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        // In version 1 only the total includes the groups below, as the memory in use does.
        let caches = field("total_inactive_file ").or_else(|| field("inactive_file ")).unwrap_or(0);
        let taken = self.number(self.taken).unwrap_or(0).saturating_sub(caches);
        Some(self.limit()?.saturating_sub(taken))
    }
}

/// The control groups listed in `listed`, as `/proc/self/cgroup` lists them, and those above them, which are mounted at `root`. A
/// container may see its own group as the root, under the path that it has outside.
fn groups(listed: &str, root: &Path) -> Vec<Group> {
    let of_line = |line: &str| {
        let (controllers, group) =
            line.split_once(':').and_then(|(_, rest)| rest.split_once(':')).unwrap_or_default();
        let (mount, limit, taken) = match controllers {
            // Version 2, which has all controllers in one tree.
            "" => (root.to_owned(), "memory.max", "memory.current"),
            _ => (root.join(controllers), "memory.limit_in_bytes", "memory.usage_in_bytes"),
        };
        let above = Path::new(group.trim_start_matches('/')).ancestors();
        above.map(|group| Group { folder: mount.join(group), limit, taken }).collect::<Vec<_>>()
    };
    listed.lines().flat_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::io::atomic_file::{make_folder, write};

    #[test]
    fn the_lowest_limit_of_a_group_and_those_above_it_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (file, content) in [
            ("user/alice/memory.max", "max\n"),
            ("user/memory.max", "4000\n"),
            ("memory.max", "9000\n"),
            ("memory/job/7/memory.limit_in_bytes", "3000\n"),
        ] {
            make_folder(root.join(file).parent().unwrap()).unwrap();
            write(&root.join(file), content.as_bytes()).unwrap();
        }
        let limit = |listed: &str| groups(listed, root).iter().filter_map(Group::limit).min();
        assert_eq!(limit("0::/user/alice\n"), Some(4000));
        assert_eq!(limit("0::/outside/this/container\n"), Some(9000));
        assert_eq!(limit("12:cpu,cpuacct:/\n9:memory:/job/7\n1:name=systemd:/\n0::/user\n"), Some(3000));
        assert_eq!(limit("9:memory:/\n"), None);
        assert!(groups("no groups", &root.join("none")).iter().all(|group| group.limit().is_none()));
        // Memory of its processes is not free, except for cached files.
        write(&root.join("user/memory.current"), b"2500\n").unwrap();
        write(&root.join("user/memory.stat"), b"anon 1000\ninactive_file 700\n").unwrap();
        let free = |listed: &str| groups(listed, root).iter().filter_map(Group::free).min();
        assert_eq!([free("0::/user/alice\n"), free("9:memory:/job/7\n")], [Some(2200), Some(3000)]);
        write(&root.join("memory/job/7/memory.usage_in_bytes"), b"2900\n").unwrap();
        let stat = b"inactive_file 100\ntotal_cache 2600\ntotal_inactive_file 2500\n";
        write(&root.join("memory/job/7/memory.stat"), stat).unwrap();
        assert_eq!(free("9:memory:/job/7/step\n"), Some(2600), "caches of the groups below are free, too");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn free_memory_is_part_of_all() {
        let (free, all) = (free_main_memory().unwrap(), main_memory().unwrap());
        assert!(free > 0 && free <= all && all > 100 << 20, "{free} of {all}");
    }
}
