//! `ssmprobe bench window`: drives the real window through what a person does, and prints how long
//! it took.
//!
//! Times run from the start of the verb to the moment the frame that shows it has been handed to
//! the screen. A frame's own work is the processor time of the window's thread, from one frame to
//! the next: interface, layout, tessellation and drawing commands, but not waiting, and not what
//! other programs take.

mod driver;
pub mod load;
pub mod metrics;
mod script;

use std::cell::RefCell;
use std::rc::Rc;

use self::driver::Driver;
use self::load::SyntheticLibrary;
use self::metrics::Sheet;
use super::demo_window;
use crate::app::devtools::prelude::*;
use crate::app::state::settings::WindowSize;
use crate::app::window::native;

/// Open the window on the demo, drive it, and print how fast it was.
#[derive(Args)]
pub struct Window {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also fill the library with this many images, and scroll through them
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole_number(0_usize..))]
    images: usize,
    /// And with this many probes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole_number(0_usize..))]
    probes: usize,
}

impl Window {
    /// Returns once the window has closed itself.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let begun = Instant::now();
        let synthetic = SyntheticLibrary { images: self.images, probes: self.probes };
        let sheet = Rc::new(RefCell::new(Sheet::default()));
        let shared = sheet.clone();
        native::open(WindowSize::default(), move |ctx| {
            Ok(Driver::new(demo_window(ctx)?, begun, synthetic, shared))
        })?;
        let sheet = sheet.take();
        if let Some(why) = sheet.failed {
            anyhow::bail!("the window could not be measured: {why}");
        }
        if self.json {
            stdout::json(&sheet.json())?;
        } else {
            stdout::text(sheet.text())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
