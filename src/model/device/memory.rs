//! Main memory, as Linux reports it: that of the machine, or what the control groups of this process leave of it, as in a
//! container, in a job of a cluster and where users of a shared machine have a share each.

use std::fs;
use std::path::Path;

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Bytes of main memory that this process can have at most; `None` on systems that do not report it.
pub fn main_memory() -> Option<u64> {
    within_limits("MemTotal:")
}

/// Bytes of main memory that are free, or would be if caches of files were dropped; `None` on systems that do not report it.
pub fn free_main_memory() -> Option<u64> {
    within_limits("MemAvailable:")
}

/// A field of `/proc/meminfo` in bytes, or the limit of this process if that is lower.
fn within_limits(field: &str) -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let amount = info.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = amount.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(limit(&groups, Path::new(GROUPS)).map_or(kibibytes * 1024, |limit| limit.min(kibibytes * 1024)))
}

/// The lowest memory limit of the control groups listed in `groups`, as `/proc/self/cgroup` lists them, and of those above
/// them, which are mounted at `root`. A container may see its own group as the root, under the path that it has outside.
fn limit(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let (controllers, group) =
            line.split_once(':').and_then(|(_, rest)| rest.split_once(':')).unwrap_or_default();
        let (mount, file) = match controllers {
            "" => (root.to_owned(), "memory.max"), // version 2, which has all controllers in one tree
            _ => (root.join(controllers), "memory.limit_in_bytes"),
        };
        let above = Path::new(group.trim_start_matches('/')).ancestors();
        let read =
            move |group: &Path| fs::read_to_string(mount.join(group).join(file)).ok()?.trim().parse().ok();
        above.filter_map(read)
    });
    limits.min()
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
        assert_eq!(limit("0::/user/alice\n", root), Some(4000));
        assert_eq!(limit("0::/outside/this/container\n", root), Some(9000));
        assert_eq!(
            limit("12:cpu,cpuacct:/\n9:memory:/job/7\n1:name=systemd:/\n0::/user\n", root),
            Some(3000)
        );
        assert_eq!(limit("9:memory:/\n", root), None);
        assert_eq!(limit("no groups", &root.join("none")), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn free_memory_is_part_of_all() {
        let (free, all) = (free_main_memory().unwrap(), main_memory().unwrap());
        assert!(free > 0 && free <= all && all > 100 << 20, "{free} of {all}");
    }
}
