//! The verb `extract`, on this or another machine: the tokens stay on the machine that extracts them, and messages
//! are sent as events.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ExtractOptions, Extracted, Plan, TokenSettings, describe};
use crate::app::format::counted;
use crate::app::jobs::engine::Engine;
use crate::app::jobs::flag_overrides::FlagOverrides;
use crate::app::jobs::part::Part;
use crate::app::jobs::{JobError, Reporter, Sink, fetch, open};
use crate::model::backbone::token_spec::Layer;

/// Backbone, images and settings of an extraction. Paths are those of the machine that computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
pub struct ExtractFlags {
    /// Backbone: a folder, or an id on the Hugging Face Hub (`ORGANISATION/NAME[@REVISION]`).
    #[arg(long, value_name = "DIR|HUB_ID")]
    pub backbone: String,
    /// Dataset: a folder, or a table of paths and labels; `ssmprobe dataset --help` lists the layouts.
    #[arg(long, value_name = "DIR|TABLE")]
    pub data: PathBuf,
    /// How tokens are extracted and cached.
    #[command(flatten)]
    pub tokens: FlagOverrides<TokenSettings>,
    /// Extract the tokens after each of these comma-separated layers in one pass: 3,6,9,last.
    #[arg(long, value_name = "L,L,...", value_delimiter = ',', conflicts_with = "layer")]
    #[serde(default)]
    pub layers: Vec<Layer>,
    /// Where to compute: cpu, wgpu, cuda or auto.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Only print what it would need.
    #[arg(long)]
    pub plan: bool,
    /// Extract only one of N parts of the images; other parts can be extracted into the same cache at the same time.
    /// Used by the tasks of --submit.
    #[arg(long, value_name = "I/N", conflicts_with = "plan")]
    #[serde(default)]
    pub part: Option<Part>,
}

/// What an extraction sends: messages, and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExtractEvent {
    /// A remark for the user.
    Note(String),
    /// The result, as a JSON document.
    Done(Value),
}

/// Extracts the missing tokens, or with `--plan` only describes them.
pub fn run(
    engine: &mut Engine,
    flags: &ExtractFlags,
    reporter: &mut dyn Reporter,
    sink: &Sink<'_, ExtractEvent>,
) -> Result<(), JobError> {
    let dataset = open::dataset(&flags.data, reporter)?;
    let backbone = fetch::backbone(&flags.backbone, reporter)?;
    let tokens = flags.tokens.over(TokenSettings::default());
    let options = ExtractOptions { backbone, tokens, layers: flags.layers.clone() };
    let plan = Plan::new(options, &dataset)?;
    sink(ExtractEvent::Note(describe(&plan)))?;
    let shown = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let mut document = json!({
        "cache": plan.folder().display().to_string(),
        "caches": shown(&plan.folders()),
        "images": plan.images,
        "done": plan.done,
        "grid": plan.grid,
        "bytes": plan.bytes,
        "bytes_missing": plan.bytes_missing,
        "bytes_free": plan.free,
    });
    plan.check().map_err(|refused| {
        anyhow!(
            "{refused}; or cache none: `ssmprobe train --recompute` runs the backbone again in every epoch"
        )
    })?;
    if !flags.plan {
        let begun = Instant::now();
        let device = (engine.env.device)(&flags.device)?.device;
        if let Some(part) = flags.part {
            return super::job::run_part(engine, (&plan, part), (&dataset, &device), reporter);
        }
        let extracted = super::run(engine, &plan, (&dataset, &device), reporter)?;
        let Extracted { cache, spent, damaged, changed, .. } = extracted;
        let changed: Vec<String> = changed.iter().map(|&at| dataset.samples[at].source.to_string()).collect();
        let unreadable = (0..cache.len()).filter(|&image| !cache.readable(image)).count();
        let seconds = begun.elapsed().as_secs_f64();
        let all = counted(cache.len(), "image", "images");
        let (read, folder) = (cache.len() - unreadable, plan.folder());
        let folder = folder.display();
        let note = format!("tokens of {read} of {all} in {folder} ({seconds:.1} s)");
        sink(ExtractEvent::Note(note))?;
        document["done"] = json!(cache.len());
        document["unreadable"] = json!(unreadable);
        document["seconds"] = json!(seconds);
        document["spent"] = json!(spent);
        document["damaged"] = json!(shown(&damaged));
        document["changed"] = json!(changed);
    }
    Ok(sink(ExtractEvent::Done(document))?)
}
