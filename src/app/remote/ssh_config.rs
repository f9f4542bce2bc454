//! The host names of the user's ssh configuration, as suggestions; ssh itself evaluates the configuration.

use std::fs;
use std::path::{Path, PathBuf};

use super::WorkerAddress;
use crate::app::format;
use crate::model::io::atomic_file;

/// Largest configuration file that is read, in bytes.
const FILE_LIMIT: u64 = 1 << 20;
/// Most hosts that are listed; most files that one `Include` names, and entries of a folder that it matches.
const MAX_ENTRIES: usize = 1000;

/// The path of the user's configuration; `None` if there is no home folder.
pub fn user_config() -> Option<PathBuf> {
    Some(directories::BaseDirs::new()?.home_dir().join(".ssh/config"))
}

/// The hosts in a configuration and the files it includes, in order, without patterns. Unreadable files are skipped.
pub fn hosts(config: &Path) -> Vec<String> {
    let mut hosts = Vec::new();
    read(config, true, &mut hosts);
    hosts
}

/// Adds the hosts of one file; follows `Include` only if `includes` is set.
fn read(config: &Path, includes: bool, hosts: &mut Vec<String>) {
    let Ok(bytes) = atomic_file::read(config, FILE_LIMIT) else { return };
    for line in String::from_utf8_lossy(&bytes).lines() {
        let line = line.trim();
        let end = line.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(line.len());
        let (keyword, rest) = line.split_at(end);
        let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '=');
        match keyword.to_ascii_lowercase().as_str() {
            "host" => {
                for name in words(rest) {
                    let is_host = format!("ssh://{name}").parse::<WorkerAddress>().is_ok();
                    if is_host && !hosts.contains(&name) && hosts.len() < MAX_ENTRIES {
                        hosts.push(name);
                    }
                }
            }
            "include" if includes => {
                let folder = config.parent().unwrap_or(Path::new(""));
                let files = words(rest).into_iter().flat_map(|pattern| matching(folder, &pattern));
                files.take(MAX_ENTRIES).for_each(|file| read(&file, false, hosts));
            }
            _ => {}
        }
    }
}

/// Splits a line at white space. Words may be in double quotes; a word that begins with `#` begins a comment.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next().filter(|first| *first != '#') {
        let (word, after) = match first {
            '"' => rest[1..].split_once('"').unwrap_or((&rest[1..], "")),
            _ => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

/// The files that match a pattern, sorted; `folder` is its base, and only its last component may have `*` and `?`.
fn matching(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let path = folder.join(crate::app::paths::expanded(pattern));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !name.contains(['*', '?']) {
        return vec![path];
    }
    let entries = path.parent().map(fs::read_dir).and_then(Result::ok);
    let mut found: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .take(MAX_ENTRIES)
        .filter(|entry| format::matches_pattern(&entry.file_name().to_string_lossy(), &name))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_listed_without_patterns_and_with_what_is_included() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for (name, text) in [
            (
                "config",
                "Include cluster.d/*.conf\nInclude none\n# Host old\nHost gpu1  gpu2 # gpu3\n  HostName x\nhost=*.lab ?a !b \"gpu4\"\nHOST gpu1 -x a;b\nMatch host gpu9\n",
            ),
            ("cluster.d/a.conf", "Host login\n Include ../deep\n"),
            ("cluster.d/b.conf", "Host\tnode-1\n"),
            ("cluster.d/c.txt", "Host not\n"),
            ("deep", "Host too-deep\n"),
        ] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            atomic_file::write(&at(name), text.as_bytes()).unwrap();
        }
        assert_eq!(hosts(&at("config")), ["login", "node-1", "gpu1", "gpu2", "gpu4"]);
        assert!(hosts(&at("none")).is_empty());
    }
}
