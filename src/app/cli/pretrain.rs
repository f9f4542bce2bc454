//! `ssmprobe pretrain`: pre-trains a small backbone on the user's own images.

use crate::app::cli::prelude::*;
use crate::app::format::watching;
use crate::app::jobs::flag_overrides::FlagOverrides;
use crate::app::jobs::pretrain::{self, Event, Manifest, Point, PretrainSettings, PretrainSpec};
use crate::model::pretrain::Objective;

/// Pre-train a small vision transformer on images, as a masked autoencoder or supervised.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub struct Pretrain {
    #[command(flatten)]
    settings: FlagOverrides<PretrainSettings>,
    /// Folder of the backbone, new or empty.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Resume the pre-training in DIR, if there is one; `--resume --out DIR` is enough then.
    #[arg(long)]
    resume: bool,
}

const LONG: &str = "\
The folder:
  config.json, preprocessor_config.json, model.safetensors   the finished backbone, for --backbone
  pretraining.json   settings, sizes, images
  metrics.jsonl      step, epoch, loss, rate and images per second, every 20 steps and at every
                     checkpoint; also accuracy, if supervised
  state/             checkpoint that --resume continues from after a stop or a kill, bit-exactly
                     on the CPU
Every file is written whole or not at all.

The encoder is a plain ViT with fixed two-dimensional positions; a masked autoencoder's decoder
has two layers of width 64 and is discarded. Images are resized to squares. How an image is
augmented and which of its patches are hidden depends only on the seed, the epoch and the image.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C (saved; a second one quits at
once).";

impl Pretrain {
    /// Pre-trains. A run stopped by Ctrl-C is saved, and is no failure.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let begun = if self.resume { pretrain::settings_in(&self.out)? } else { None };
        let hides = self.settings.has("mask_ratio");
        let settings = self.settings.over(begun.unwrap_or_default());
        if hides && settings.objective == Objective::Supervised {
            refuse!(
                "--mask-ratio: supervised pre-training hides no patches; leave it out, or pass --objective masked"
            );
        }
        interrupt::listen();
        let spec = PretrainSpec { settings, out: self.out, resume: self.resume };
        let mut display = Display::new();
        let (mut working, mut epochs) = (None, 0);
        let summary = pretrain::run(&spec, &mut |event| {
            match event {
                Event::Watch { host } => {
                    display.say(&watching(&host, &format!("pre-train in {}", spec.out.display())));
                }
                Event::Begin { manifest, device, step } => {
                    epochs = manifest.settings.epochs;
                    display.say(&describe(manifest, device, step));
                    working = Some(interrupt::working());
                }
                Event::Unreadable(error) => display.say(&format!("warning: left out: {error}")),
                Event::Step { epoch, point, progress } => {
                    display.show(&format!("epoch {epoch} of {epochs}"), &progress, &metrics(point));
                }
            }
            interrupt::flow()
        });
        display.clear();
        drop(working);
        let summary = summary?;
        if !summary.finished {
            let (step, out) = (summary.last.map_or(0, |point| point.step), shell_path(&spec.out));
            say!("stopped after step {step}; `ssmprobe pretrain --resume --out {out}` resumes it");
            return Ok(interrupt::code());
        }
        let how =
            summary.last.map_or(String::new(), |point| format!(": step {}, {}", point.step, metrics(&point)));
        stdout::line(format!("{}{how}", spec.out.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn describe(manifest: &Manifest, device: &str, step: usize) -> String {
    let Manifest { plan, pictures, .. } = manifest;
    let from = if step > 0 { format!(", {step} of them done") } else { String::new() };
    format!(
        "{}: {} of {}, {} each; {} of width {}; {}{from}, on {device}",
        pictures.name,
        counted(pictures.images, "image", "images"),
        counted(pictures.classes.len(), "class", "classes"),
        counted(plan.tokens(), "token", "tokens"),
        counted(plan.layers, "layer", "layers"),
        plan.width,
        counted(plan.steps, "step", "steps")
    )
}

fn metrics(point: &Point) -> String {
    let accuracy = point.accuracy.map_or(String::new(), |share| format!(", {share:.1} % correct"));
    format!("loss {:.4}{accuracy}", point.loss)
}
