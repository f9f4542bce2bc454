//! `ssmprobe bench` without a subject: heads, backbone, look-ups and long sequences on one device.

use super::table;
use crate::app::devtools::microbench::backbone::Vit;
use crate::app::devtools::microbench::{self, GROUPS, Setup, Sizes, Stopped};
use crate::app::devtools::prelude::*;
use crate::app::format;
use crate::app::jobs::train::{BATCHES, COUNTS, heads};
use crate::app::terminal::interrupt;
use crate::app::terminal::progress::Display;
use crate::model::backbone::arithmetic::Arithmetic;
use crate::model::device;
use crate::model::probe::head;

/// Flags of the measurement.
#[derive(Args)]
pub struct Machine {
    /// Only measurements with these names; * matches any text.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    only: Vec<String>,
    /// Quick run: smaller workloads, fewer rounds.
    #[arg(long)]
    quick: bool,
    /// Comma-separated heads [default: the paper's].
    #[arg(long, value_name = "HEADS", value_delimiter = ',')]
    heads: Vec<String>,
    /// Settings of heads: KEY=VALUE for all heads that have it, HEAD.KEY=VALUE for one.
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    config: Vec<String>,
    /// Images in a training step [default: 256, quick 32].
    #[arg(long, value_name = "B", value_parser = whole_number(BATCHES))]
    batch: Option<usize>,
    /// Patch tokens of an image.
    #[arg(long, value_name = "N", default_value_t = 196, value_parser = whole_number(COUNTS))]
    tokens: usize,
    /// Hidden size.
    #[arg(long, value_name = "D", default_value_t = 768, value_parser = whole_number(COUNTS))]
    width: usize,
    /// Number of classes.
    #[arg(long, value_name = "C", default_value_t = 1000, value_parser = whole_number(COUNTS))]
    classes: usize,
    /// Images in a forward pass of the backbone [default: 8, quick 2].
    #[arg(long, value_name = "IMAGES", value_parser = whole_number(COUNTS))]
    photos: Option<usize>,
    /// Folder of the backbone [default: a ViT with seeded random weights].
    #[arg(long, value_name = "DIR")]
    backbone: Option<PathBuf>,
    /// ViT with seeded random weights to measure, with patches of 16 pixels.
    #[arg(long, value_enum, default_value_t, conflicts_with = "backbone")]
    vit: Vit,
    /// Precision of the backbone's matrix products.
    #[arg(long, value_name = "float32|float16|bfloat16", default_value = "float32")]
    arithmetic: Arithmetic,
    /// Longest sequence, in tokens [default: 4096, quick 576].
    #[arg(long, value_name = "N", value_parser = whole_number(COUNTS))]
    longest: Option<usize>,
    /// Rounds to take the median of [default: 5, quick 3].
    #[arg(long, value_name = "ROUNDS", value_parser = whole_number(COUNTS))]
    rounds: Option<usize>,
    /// Where to compute: cpu, wgpu, cuda or auto.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Print a JSON list of {name, device, value, unit}.
    #[arg(long)]
    json: bool,
}

impl Machine {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        let sizes = self.sizes()?;
        let names: Vec<String> = GROUPS.iter().flat_map(|group| (group.names)(&sizes)).collect();
        let fits_none = |only: &&String| !names.iter().any(|name| format::matches_pattern(name, only));
        if let Some(only) = self.only.iter().find(fits_none) {
            refuse!("--only {only} matches none of: {}", names.join(" "));
        }
        let choice = device::choose(&self.device)?;
        let found = &choice.found;
        let setup = Setup { sizes: &sizes, device: &choice.device, wanted: &self.only };
        let mut display = Display::new();
        let measured = setup.run(&found.name, &mut |work, done, total| {
            display.turn(work, done, total);
            interrupt::flow()
        });
        display.clear();
        let figures = match measured {
            Err(error) if error.is::<Stopped>() => return Ok(interrupt::code()),
            other => other?,
        };
        match self.json {
            true => stdout::json(&figures)?,
            false => stdout::text(table::render(&found.adapter, &sizes, &figures))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn sizes(&self) -> anyhow::Result<Sizes> {
        let or_default =
            |given: Option<usize>, full, quick| given.unwrap_or(if self.quick { quick } else { full });
        let heads = match self.heads.is_empty() {
            true => head::of_paper().map(|kind| kind.id.to_owned()).collect(),
            false => self.heads.clone(),
        };
        Ok(Sizes {
            images: or_default(self.batch, 256, 32),
            grid: microbench::grid_of(self.tokens),
            width: self.width,
            classes: self.classes,
            heads: heads::variants(&heads, &self.config)?,
            photos: or_default(self.photos, 8, 2),
            backbone: self.backbone.clone(),
            vit: self.vit,
            arithmetic: self.arithmetic,
            longest: or_default(self.longest, 4096, 576),
            rounds: or_default(self.rounds, 5, 3),
        })
    }
}
