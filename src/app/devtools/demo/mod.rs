//! `ssmprobe demo build`: pre-trains two tiny backbones on scenes, trains every head on their
//! tokens, and writes all of it with some scenes to one folder.

mod backbones;
mod heads;

use indicatif::MultiProgress;

use crate::app::demo::{DemoBackbone, DemoInfo};
use crate::app::devtools::prelude::*;
use crate::app::jobs::train::SEEDS;
use crate::app::paths;
use crate::app::value_parser::number;
use crate::model::data::scenes;
use crate::model::data::scenes::folder::Set;
use crate::model::device;
use crate::model::io::if_there;
use crate::model::pretrain::{Objective, Plan, Recipe};
use crate::model::train::TrainConfig;

/// Scenes that are shipped: two of every class.
const SHIPPED: u64 = 2 * scenes::CLASSES as u64;

/// Build the bundled demo: pre-train two tiny backbones on scenes and train every head
#[derive(Args)]
#[command(after_long_help = LONG)]
pub struct Build {
    /// Folder to write to; backbones in it that were pre-trained with the same settings are kept
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Seed of everything: backbones draw scenes from it, probes from the next seed
    #[arg(long, default_value_t = 1, value_parser = whole_number(SEEDS))]
    seed: u64,
    /// Optimiser steps of the masked autoencoder, 64 scenes each
    #[arg(long, value_name = "STEPS", default_value_t = 1500, value_parser = whole_number(1_u64..=10_000_000))]
    mae_steps: u64,
    /// Optimiser steps of the supervised backbone, 64 scenes each
    #[arg(long, value_name = "STEPS", default_value_t = 700, value_parser = whole_number(1_u64..=10_000_000))]
    vit_steps: u64,
    /// Hidden size of the backbones, a multiple of 96
    #[arg(long, default_value_t = 96, value_parser = whole_number(96_usize..=6144))]
    width: usize,
    /// Transformer layers of the backbones
    #[arg(long, default_value_t = 4, value_parser = whole_number(1_u16..=64))]
    layers: u16,
    /// Scenes the probes are trained on
    #[arg(long, default_value_t = 1800, value_parser = whole_number(1_u64..=100_000))]
    train: u64,
    /// Scenes the probes are validated on
    #[arg(long, default_value_t = 480, value_parser = whole_number(24_u64..=100_000))]
    val: u64,
    /// Epochs of the probes
    #[arg(long, default_value_t = 24, value_parser = whole_number(1_u64..=100_000))]
    epochs: u64,
    /// Scenes per training step of the probes
    #[arg(long, default_value_t = 64, value_parser = whole_number(1_u64..=10_000))]
    batch: u64,
    /// Learning rate of the probes at the start of the cosine
    #[arg(long, default_value_t = 3e-3, value_parser = number("from 1e-6 to 1", |rate: f64| (1e-6..=1.0).contains(&rate)))]
    rate: f64,
    /// Build only this backbone and its probes; those of the other in the folder are kept
    #[arg(long, value_parser = ["mae", "vit"])]
    backbone: Option<String>,
    /// Where to compute: cpu, wgpu, cuda or auto
    #[arg(long, default_value = "cpu")]
    device: String,
}

const LONG: &str = "\
Writes DIR/mae and DIR/vit (backbones as the Hugging Face Hub lays them out, float16),
DIR/probes/<backbone>/<head>.safetensors, DIR/scenes (two of every class, with masks) and
DIR/demo.json, which says how it was made and how accurate every head is.
The same settings on the same kind of processor give the same demo.";

impl Build {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !self.width.is_multiple_of(96) {
            refuse!("--width {}: give a multiple of 96 up to 6144", self.width);
        }
        self.check_out()?;
        let device = device::open(&self.device)?;
        atomic_file::make_folder(&self.out)
            .with_context(|| format!("{}: the folder cannot be created", self.out.display()))?;
        let scenes = Set { seed: self.seed + 1, train: self.train, val: self.val };
        clear(&self.out.join("scenes"))?;
        Set { train: 0, val: SHIPPED, ..scenes }.write(&self.out.join("scenes"), &|| ())?;
        let config = TrainConfig {
            epochs: self.epochs as usize,
            batch: self.batch as usize,
            rate: self.rate,
            ..TrainConfig::default()
        };
        let mut about = DemoInfo {
            made_by: concat!("ssmprobe ", env!("CARGO_PKG_VERSION")).to_owned(),
            scenes_version: scenes::VERSION,
            seed: self.seed,
            scenes,
            auc_scenes: heads::AUC_SCENES.min(self.val),
            config,
            backbones: Vec::new(),
        };
        let made = self.backbones(&about, &device)?;
        if let Ok(earlier) = DemoInfo::open(&self.out)
            && (DemoInfo { backbones: Vec::new(), ..earlier.clone() }) == about
        {
            about.backbones = earlier.backbones;
        }
        about.backbones.retain(|kept| made.iter().all(|made| made.id != kept.id));
        about.backbones.extend(made);
        about.backbones.sort_by(|a, b| a.id.cmp(&b.id));
        let text = serde_json::to_string_pretty(&about)? + "\n";
        paths::write(&self.out.join(DemoInfo::FILE), text.as_bytes())?;
        stdout::text(table(&about))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Refuses a folder with files in it, unless it is an earlier demo: `scenes` and `probes` in it are deleted.
    fn check_out(&self) -> anyhow::Result<()> {
        atomic_file::can_write(&self.out)
            .with_context(|| format!("--out {}: cannot be written to", self.out.display()))?;
        let entries = if_there(std::fs::read_dir(&self.out))
            .with_context(|| format!("{}: cannot be read", self.out.display()))?;
        if entries.is_none_or(|mut entries| entries.next().is_none())
            || self.out.join(DemoInfo::FILE).is_file()
        {
            return Ok(());
        }
        let (out, file) = (self.out.display(), DemoInfo::FILE);
        refuse!(
            "--out {out}: the folder has files but no {file}, so it is not an earlier demo; choose a new or empty one"
        )
    }

    /// Makes the backbones and their probes, each backbone on its own thread: one alone leaves cores idle.
    fn backbones(&self, about: &DemoInfo, device: &Device) -> anyhow::Result<Vec<DemoBackbone>> {
        let bars = MultiProgress::new();
        let make = &|id: &str, plan: Plan| -> anyhow::Result<DemoBackbone> {
            backbones::make(&self.out.join(id), &plan, device, &bars)?;
            let backbone = DemoBackbone { id: id.to_owned(), plan, heads: Vec::new() };
            clear(&backbone.probes(&self.out))?;
            let heads = heads::train_all(&self.out, &backbone, about, device, &bars)?;
            Ok(DemoBackbone { heads, ..backbone })
        };
        let wanted = |id: &str| self.backbone.as_deref().is_none_or(|asked| asked == id);
        std::thread::scope(|scope| {
            let start = |(id, plan)| {
                let thread = std::thread::Builder::new().name(format!("backbone {id}"));
                thread.spawn_scoped(scope, move || make(id, plan)).context("a thread cannot be started")
            };
            let plans = self.plans().into_iter().filter(|(id, _)| wanted(id));
            let running = plans.map(start).collect::<anyhow::Result<Vec<_>>>()?;
            let join = |thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<DemoBackbone>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            running.into_iter().map(join).collect()
        })
    }

    fn plans(&self) -> [(&'static str, Plan); 2] {
        let plan = Plan {
            objective: Objective::Masked,
            width: self.width,
            layers: usize::from(self.layers),
            steps: self.mae_steps as usize,
            batch: 64,
            rate: 1.5e-3,
            seed: self.seed,
            recipe: Recipe::SCENES,
        };
        let steps = self.vit_steps as usize;
        let supervised = Plan { objective: Objective::Supervised, steps, rate: 1e-3, ..plan };
        [("mae", plan), ("vit", supervised)]
    }
}

fn table(about: &DemoInfo) -> String {
    let mut text =
        String::from("| backbone | head | parameters | train | val | AUC |\n|---|---|--:|--:|--:|--:|\n");
    for backbone in &about.backbones {
        for head in &backbone.heads {
            let auc = head.auc.map_or("-".to_owned(), |auc| format!("{auc:.3}"));
            text += &format!(
                "| {} | {} | {} | {:.1} | {:.1} | {auc} |\n",
                backbone.id, head.id, head.parameters, head.train, head.val
            );
        }
    }
    text
}

/// Deletes a folder of an earlier demo, so that none of its files stay among the new ones.
fn clear(folder: &Path) -> anyhow::Result<()> {
    if_there(std::fs::remove_dir_all(folder))
        .map(drop)
        .with_context(|| format!("{}: the earlier demo cannot be removed", folder.display()))
}
