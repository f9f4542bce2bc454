//! Real data, which is too large for the repository: tests that need it are skipped where it is not.

use crate::run::prelude::*;

/// The path of `name` in the folder of real data; `None`, with a note, without it. A folder named by `SSMPROBE_DATA` must hold it.
pub fn data(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("SSMPROBE_DATA").map(PathBuf::from);
    let beside = || root().join("../shared/data");
    let path = named.clone().unwrap_or_else(beside).join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(named.is_none(), "SSMPROBE_DATA holds no {name}: {} is not there", path.display());
    skip::because(format!("there is no {} (set SSMPROBE_DATA)", path.display()));
    None
}
