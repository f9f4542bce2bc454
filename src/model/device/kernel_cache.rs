//! The disk cache of compiled GPU kernels and of autotuning results, from which the next start of the program loads them. Builds
//! for CUDA and SPIR-V cache compiled kernels; those in WGSL are cached by the driver itself.

use std::path::Path;

use burn_cubecl::cubecl::config::cache::CacheConfig;
use burn_cubecl::cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

/// Caches kernels in `folder`, or not at all without one. To be called before any device is opened, as the configuration is fixed
/// then. A `cubecl.toml` in the working directory is ignored.
pub fn keep_kernels(folder: Option<&Path>) {
    let mut config = CubeClRuntimeConfig::default();
    // One cache per version: autotuning results of another version would never be replaced, and be recomputed at every start.
    env!("CARGO_PKG_VERSION").clone_into(&mut config.environment.name);
    match folder {
        Some(folder) => config.environment.path = CacheConfig::Directory(folder.to_owned()),
        None => config.autotune.disable_cache = true,
    }
    #[cfg(any(feature = "vulkan", feature = "cuda"))]
    {
        config.compilation.cache = folder.is_some();
        // And per build: a compiled kernel is looked up by its name, even if its source has changed since.
        if let Some(build) = crate::model::io::process::build() {
            build.clone_into(&mut config.environment.name);
        }
    }
    CubeClRuntimeConfig::try_set(config);
}
