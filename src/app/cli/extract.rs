//! `ssmprobe extract`: extracts the tokens of a dataset into the cache, so that trainings start at once.

use super::on_flags::OnFlags;
use super::{fetch, jobs};
use crate::app::cli::prelude::*;
use crate::app::jobs::extract::verb::{ExtractEvent, ExtractFlags};
use crate::app::jobs::extract::{ExtractOptions, Plan, TokenSettings, describe};
use crate::app::jobs::flag_overrides::FlagOverrides;
use crate::app::jobs::{Compute, Event};
use crate::app::submit::plan::JOIN;
use crate::app::submit::{Stage, SubmitFlags, SubmitTarget};
use crate::model::backbone::token_spec::{Layer, comma_separated};
use crate::model::data::token_cache::SHARD;
use crate::model::{backbone, data};

/// Run a frozen backbone over a dataset once and cache its tokens on disk.
///
/// With --on, they are cached on the other machine.
#[derive(Args)]
#[command(after_long_help = backbone::listed())]
pub struct Extract {
    #[command(flatten)]
    flags: ExtractFlags,
    #[command(flatten)]
    on: OnFlags,
    /// Print one JSON document to standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    submit: SubmitFlags,
}

impl Extract {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        if self.submit.submit.is_some() && (self.on.host().is_some() || self.flags.plan) {
            refuse!("--submit extracts in tasks of this machine: leave out --on and --plan, or --submit");
        }
        if let Some(place) = self.submit.place(self.flags.part.is_some())? {
            return self.submit(place);
        }
        let json = self.json;
        let ended = self.on.perform(Compute::Extract(Box::new(self.flags)), &|event, bar| {
            bar.suspend(|| match event {
                Event::Extract { event: ExtractEvent::Note(text), .. } => {
                    say!("{text}");
                    Ok(())
                }
                Event::Extract { event: ExtractEvent::Done(document), .. } if json => stdout::line(document),
                _ => Ok(()),
            })
        })?;
        Ok(if ended { ExitCode::SUCCESS } else { interrupt::code() })
    }

    /// Submits the extraction as tasks, in a folder beside the cache that they fill; the last one checks all tokens.
    fn submit(&self, place: SubmitTarget) -> anyhow::Result<ExitCode> {
        let flags = &self.flags;
        let tasks = self.submit.required_tasks()?;
        let dataset = data::open(&flags.data)?;
        let tokens = flags.tokens.over(TokenSettings::default());
        let (backbone, layers) = (fetch::backbone(&flags.backbone)?, flags.layers.clone());
        let plan = Plan::new(ExtractOptions { backbone, tokens, layers }, &dataset)?;
        plan.check()?;
        say!("{}", describe(&plan));
        let data = flags
            .data
            .to_str()
            .ok_or(Usage(format!("--data {}: is not valid Unicode", flags.data.display())))?;
        let words = verb(&flags.backbone, data, &flags.device, &flags.layers, &flags.tokens)?;
        let stages = vec![
            Stage::cut("tokens", words.clone(), tasks.min(plan.images.div_ceil(SHARD).max(1))),
            Stage::single(JOIN, words),
        ];
        let folder = plan.root.join(format!("tasks-{}", plan.source().key()));
        jobs::submit(&folder, place, &self.submit, stages, self.json)
    }
}

/// The words of the command line that extracts these tokens; an error if a flag is not Unicode.
pub fn verb(
    backbone: &str,
    data: &str,
    device: &str,
    layers: &[Layer],
    tokens: &FlagOverrides<TokenSettings>,
) -> anyhow::Result<Vec<String>> {
    let own = ["extract".to_owned(), format!("--backbone={backbone}"), format!("--data={data}")];
    let device = format!("--device={device}");
    let layers = (!layers.is_empty()).then(|| format!("--layers={}", comma_separated(layers)));
    Ok(own.into_iter().chain([device]).chain(layers).chain(tokens.words().map_err(Usage)?).collect())
}
