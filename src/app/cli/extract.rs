//! `ssmprobe extract`: takes the tokens of a dataset into the cache, so that trainings start at once.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;
use serde_json::json;

use super::fetch;
use super::over::Over;
use crate::app::format;
use crate::app::jobs::engine::{Engine, WorkerEnv};
use crate::app::jobs::extract::{self, ExtractOptions, ExtractSpec, Extracted, Plan, TokenSettings};
use crate::app::terminal::interrupt;
use crate::app::terminal::reporter::TerminalReporter;
use crate::app::terminal::stdout;
use crate::app::terminal::stdout::say;
use crate::model::{backbone, data, device};

/// Run a frozen backbone once over a dataset and keep its tokens on disk.
#[derive(Args)]
#[command(after_long_help = backbone::listed())]
pub struct Extract {
    /// The backbone: a folder, or an id of the Hugging Face Hub (ORGANISATION/NAME[@REVISION]).
    #[arg(long, value_name = "DIR|HUB_ID")]
    backbone: String,
    /// The dataset: a folder, or a table of paths and labels.
    #[arg(long, value_name = "DIR|TABLE")]
    data: PathBuf,
    #[command(flatten)]
    tokens: Over<TokenSettings>,
    /// Where to compute: cpu, wgpu, cuda or auto.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Only say what it would take.
    #[arg(long)]
    plan: bool,
    /// Print one JSON document to standard output.
    #[arg(long)]
    json: bool,
}

impl Extract {
    /// Takes what is missing.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        let dataset = data::open(&self.data)?;
        let backbone = fetch::backbone(&self.backbone)?;
        let tokens = self.tokens.over(TokenSettings::default());
        let plan = Plan::new(ExtractOptions { backbone, tokens }, &dataset)?;
        say!("{}", describe(&plan));
        let mut document = json!({
            "cache": plan.folder(),
            "images": plan.images,
            "done": plan.done,
            "grid": plan.grid,
            "bytes": plan.bytes,
            "bytes_missing": plan.missing(),
            "bytes_free": plan.free,
        });
        plan.check().map_err(|refused| {
            anyhow!(
                "{refused}; or keep none: `ssmprobe train --recompute` runs the backbone again in every epoch"
            )
        })?;
        if !self.plan {
            let begun = Instant::now();
            let device = device::open(&self.device)?;
            let mut reporter = TerminalReporter::new();
            let spec = ExtractSpec { plan: &plan, dataset: &dataset, device: &device };
            let taken = extract::run(&mut Engine::new(WorkerEnv::default()), &spec, &mut reporter);
            let Some(Extracted { cache, spent, damaged, changed, .. }) = reporter.end(taken)? else {
                return Ok(interrupt::code());
            };
            let changed: Vec<String> = changed.iter().map(|&at| dataset.samples[at].source.name()).collect();
            let unreadable = (0..cache.len()).filter(|&image| !cache.readable(image)).count();
            let seconds = begun.elapsed().as_secs_f64();
            say!(
                "tokens of {} of {} images in {} ({seconds:.1} s)",
                cache.len() - unreadable,
                cache.len(),
                cache.folder().display()
            );
            document["done"] = json!(cache.len());
            document["unreadable"] = json!(unreadable);
            document["seconds"] = json!(seconds);
            document["spent"] = json!(spent);
            document["damaged"] = json!(damaged);
            document["changed"] = json!(changed);
        }
        if self.json {
            stdout::line(&document)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A plan as a person reads it.
pub fn describe(plan: &Plan) -> String {
    let (rows, cols) = (plan.grid.rows, plan.grid.cols);
    let free = plan.free.map_or(String::new(), |free| format!(", {} free", format::bytes(free)));
    let there = match plan.done {
        0 => String::new(),
        done if done == plan.images => ", all there already".to_owned(),
        done => format!(", {done} there already"),
    };
    format!(
        "tokens: {} images of {rows} x {cols} tokens of width {}, {}{there}{free}, in {}",
        plan.images,
        plan.backbone.hidden_size,
        format::bytes(plan.bytes),
        plan.folder().display()
    )
}
