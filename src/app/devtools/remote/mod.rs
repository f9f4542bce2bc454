//! `ssmprobe bench remote`: the window over a worker whose every message is delayed, each way, and how long a person waits.
//!
//! The worker is a child process behind `ssmprobe bench relay`, which adds latency but limits no bandwidth. The window is
//! the real one without a screen: interface, layout and tessellation, frame by frame, woken by the worker's events. A look
//! takes from the selection to the end of the frame in which all panes show the image.

mod relay;
mod relayed_window;
mod tally;

use std::fmt::Write as _;

pub use self::relay::Relay;
use self::relayed_window::RelayedWindow;
use self::tally::Sizes;
use crate::app::devtools::prelude::*;
use crate::app::format;
use crate::model::stats::quantiles;

/// Goal for the 95th percentile of first looks, in milliseconds.
const FIRST_MS: f64 = 250.0;
/// Goal for the 95th percentile of second looks, in milliseconds.
const AGAIN_MS: f64 = 100.0;
/// Goal for the 99th percentile of a frame's processor time while thumbnails scroll, in milliseconds.
const FRAME_MS: f64 = 33.0;

/// Measure the window with a worker whose messages are delayed, and print tables in Markdown.
#[derive(Args)]
pub struct Remote {
    /// Delay of every message each way, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 25, value_parser = whole_number(0_u64..))]
    delay: u64,
    /// Images in the library, at least 1000, so that there is enough to scroll through
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = whole_number(1000_u32..))]
    images: u32,
    /// Number of images to select and measure
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole_number(1_u32..))]
    looks: u32,
}

impl Remote {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut window = RelayedWindow::open(self.delay)?;
        window.fill(self.images as usize)?;
        let [first, again] = window.look(self.looks as usize)?;
        let (frames, late) = window.scroll()?;
        let mut text = String::from("| | median (ms) | slow (ms) | goal (ms) |\n|---|---|---|---|\n");
        let mut row = |what: &str, taken: &[f64], part: f64, goal: f64| {
            let [median, slow] = quantiles(taken, [0.5, part]);
            let percent = 100.0 * part;
            let _ = writeln!(text, "| {what} | {median:.1} | {percent:.0} %: {slow:.1} | {goal:.0} |");
        };
        row("first look at an image", &first, 0.95, FIRST_MS);
        row("second look", &again, 0.95, AGAIN_MS);
        row(&format!("a frame while scrolling {} thumbnails", self.images), &frames, 0.99, FRAME_MS);
        let _ = writeln!(text, "\nThe last thumbnails arrive {late:.0} ms after scrolling ends.\n");
        stdout::text(format_args!("{text}{}", traffic_table(&window.close())))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The pipe's traffic as a Markdown table: messages and bytes of each phase and kind.
fn traffic_table(phases: &[(&'static str, usize, Sizes)]) -> String {
    let mut text = String::from("| | kind | messages | bytes | of each |\n|---|---|---|---|---|\n");
    for (what, times, sizes) in phases {
        for (kind, (count, bytes)) in sizes {
            let each = format::bytes(bytes / (*times).max(1) as u64);
            let _ = writeln!(text, "| {what} | {kind} | {count} | {} | {each} |", format::bytes(*bytes));
        }
    }
    text
}
