//! Silences a harmless complaint of Mesa's Vulkan drivers.

/// Disables Mesa's device-select layer where there is no display session: it looks for Wayland all the same and
/// complains on standard error, once per instance, though it has nothing to sort devices by. Does nothing if one
/// of the variables that control the layer is set.
///
/// # Safety
/// It sets an environment variable: no other thread may be running yet.
#[expect(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "environment variables are shared by threads; the caller has none yet"
)]
pub unsafe fn silence_drivers() {
    let is_unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let variables = ["XDG_RUNTIME_DIR", "NODEVICE_SELECT", "MESA_VK_DEVICE_SELECT", "DRI_PRIME"];
    if cfg!(target_os = "linux") && variables.into_iter().all(is_unset) {
        // SAFETY: the caller's promise.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}
