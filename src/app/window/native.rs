//! Opens the window: eframe on wgpu, on another device than the one that computes, so that running out
//! of memory there cannot end the window.

use std::sync::Arc;

use anyhow::{Context, bail};
use eframe::egui;
use egui::epaint::text::{FallbackRequest, FontData, FontInsert};

use super::clipboard::Clipboard;
use super::icon::icon;
use crate::app::crash;
use crate::app::state::settings::WindowSize;
use crate::viz::export::system_font;

/// Smallest window that still shows a library, a figure and a status bar, in points.
const MIN_SIZE: [f32; 2] = [900.0, 600.0];

/// Height of a window's title bar, at least, in points.
const TITLE_BAR: f32 = 40.0;

/// Opens the window at the size it had last, maximised if the screen is too small for that, and returns once it is closed.
///
/// # Errors
/// If there is no display, or no graphics adapter that could draw on it.
pub fn open<A: eframe::App + 'static>(
    size: WindowSize,
    build: impl FnOnce(&egui::Context) -> anyhow::Result<A> + 'static,
) -> anyhow::Result<()> {
    // winit's own error would name only libraries that failed to load.
    if !has_display() {
        bail!(
            "no display to open the window on (neither DISPLAY nor WAYLAND_DISPLAY is set); `ssmprobe inspect` explains images \
             without one, and on a machine that has one `ssmprobe open ssh://HOST/PATH` opens what is here"
        );
    }
    let viewport = egui::ViewportBuilder::default()
        .with_app_id("ssmprobe")
        .with_icon(icon())
        .with_inner_size(size.points)
        .with_min_inner_size(MIN_SIZE);
    // Dithering hides banding in large gradients, which the window has none of, and costs a software
    // rasteriser half of its time.
    let options = eframe::NativeOptions { viewport, dithering: false, ..Default::default() };
    let create = Box::new(|cx: &eframe::CreationContext<'_>| {
        Clipboard::install(&cx.egui_ctx);
        let woken = cx.egui_ctx.clone();
        crash::keep_window(move || woken.request_repaint());
        cx.egui_ctx.add_font_provider(Arc::new(fallback_font));
        let screen = cx.egui_ctx.input(|input| input.raw.viewport().monitor_size);
        if size.maximized || screen.is_some_and(|screen| !fits(size.points, screen)) {
            // After the first frame: window managers of X11 ignore it before the window is shown.
            cx.egui_ctx.send_viewport_cmd(egui::ViewportCommand::Maximized(true));
        }
        let app = build(&cx.egui_ctx)?;
        Ok(Box::new(app) as Box<dyn eframe::App>)
    });
    // winit's errors begin with the line of its source that they come from.
    let reason = |error: String| match error.split_once(".rs:").and_then(|(_, rest)| rest.split_once(": ")) {
        Some((_, why)) => anyhow::anyhow!("{why}"),
        None => anyhow::anyhow!("{error}"),
    };
    eframe::run_native("SSMProbe", options, create)
        .map_err(|error| reason(error.to_string()))
        .with_context(|| match displays().join(", ") {
            none if none.is_empty() => "cannot open the window; `ssmprobe inspect` needs none".to_owned(),
            named => format!(
                "cannot open the window with {named}; correct or unset what names a display that is gone, or use `ssmprobe inspect`, which \
                 needs none"
            ),
        })
}

/// Whether a window of this size fits on the screen, with its title bar.
fn fits([width, height]: [f32; 2], screen: egui::Vec2) -> bool {
    width <= screen.x && height + TITLE_BAR <= screen.y
}

/// A font of the system for characters that the bundled fonts lack.
fn fallback_font(request: &FallbackRequest<'_>) -> Option<FontInsert> {
    let font = system_font(request.cluster.chars().next()?)?;
    // A font of the machine may have the name of a bundled one.
    let name = format!("{} {} of the machine", font.name, font.index);
    Some(FontInsert::new(&name, FontData::from_blob(font.file, font.index), Vec::new()))
}

/// Whether a window can be opened, as far as the environment says.
pub fn has_display() -> bool {
    cfg!(not(all(unix, not(target_os = "macos")))) || !displays().is_empty()
}

/// The variables that name a display, `NAME=VALUE` each.
fn displays() -> Vec<String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = |name: &str| set(name).map(|value| format!("{name}={}", value.display()));
    ["WAYLAND_DISPLAY", "DISPLAY"].into_iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_fits_on_a_screen_that_is_higher_by_its_title_bar() {
        let first = WindowSize::default().points;
        for (screen, whole) in [([1920.0, 1080.0], true), ([1440.0, 900.0], false), ([1366.0, 1024.0], false)]
        {
            assert_eq!(fits(first, screen.into()), whole, "{screen:?}");
        }
    }
}
