//! What a GPU's kernels were compiled to, and which of several proved the fastest there, kept on disk: the next start of the
//! program takes them from there. Builds for CUDA and SPIR-V keep them; a driver keeps what it makes of WGSL itself.

use std::path::Path;

use burn_cubecl::cubecl::config::cache::CacheConfig;
use burn_cubecl::cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

/// From now on kernels are kept in `folder`; not at all where there is none. Before any device is opened: what was asked of one
/// already cannot be kept elsewhere. A `cubecl.toml` in the folder where the program was started counts for nothing.
pub fn keep_kernels(folder: Option<&Path>) {
    let mut config = CubeClRuntimeConfig::default();
    // One of every version: a choice among the kernels of another would never be replaced, and be made anew at every start.
    env!("CARGO_PKG_VERSION").clone_into(&mut config.environment.name);
    match folder {
        Some(folder) => config.environment.path = CacheConfig::Directory(folder.to_owned()),
        None => config.autotune.disable_cache = true,
    }
    #[cfg(any(feature = "vulkan", feature = "cuda"))]
    {
        config.compilation.cache = folder.is_some();
        // And of every build: what a kernel was compiled to is found again by its name, whatever it says by now.
        let built = std::env::current_exe().and_then(|program| program.metadata()?.modified());
        let made = built.ok().and_then(|built| built.duration_since(std::time::UNIX_EPOCH).ok());
        config.environment.name += &made.map_or_else(String::new, |made| format!("-{}", made.as_secs()));
    }
    CubeClRuntimeConfig::try_set(config);
}
