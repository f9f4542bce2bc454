//! Keeps a driver from complaining of what is none of a person's business.

/// Where there is no session with a display, Mesa's layer that sorts Vulkan's devices looks for
/// Wayland all the same and complains on standard error, once an instance. It has nothing to sort by
/// there, so it is left out; whoever asked for a sorting keeps it.
///
/// # Safety
/// It sets an environment variable: no other thread may run yet.
#[expect(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "environment variables are shared by threads; the caller has none yet"
)]
pub unsafe fn quiet_drivers() {
    let asked = ["XDG_RUNTIME_DIR", "NODEVICE_SELECT", "MESA_VK_DEVICE_SELECT", "DRI_PRIME"];
    if cfg!(target_os = "linux") && asked.into_iter().all(|name| std::env::var_os(name).is_none()) {
        // SAFETY: the caller's promise.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}
