//! The training curves of a run's folder, finished or not.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;

use super::Figures;
use crate::app::jobs::history::{Band, TrainHistory, disk};
use crate::app::terminal::error::Usage;
use crate::app::terminal::stdout::say;
use crate::viz::export;
use crate::viz::figures::curves::Part;
use crate::viz::figures::plot::Plot;

impl Figures {
    /// Draws them; one file for each figure that was named.
    pub(super) fn training(&self) -> anyhow::Result<ExitCode> {
        let out = self.out.as_deref().context("--out names no file")?;
        let runs = self.run.iter().map(|folder| history(folder)).collect::<anyhow::Result<Vec<_>>>()?;
        let runs: Vec<&TrainHistory> = runs.iter().collect();
        let trained = |head: &String| runs.iter().any(|run| run.about.heads.contains(head));
        if let Some(unknown) = self.heads.iter().find(|head| !trained(head)) {
            let known: Vec<String> = runs.iter().map(|run| run.about.heads.join(", ")).collect();
            return Err(Usage(format!("--heads {unknown}: the run trains {}", known.join("; "))).into());
        }
        let parts = match &self.figure[..] {
            [] => vec![Part::Both],
            [all] if all == "all" => Part::ALL.into(),
            [id] => vec![part(id)?],
            _ => {
                return Err(
                    Usage("a run has one figure at a time; \"all\" writes one file each".into()).into()
                );
            }
        };
        for part in &parts {
            let figure = TrainHistory::figure_of(&runs, &self.heads, *part, self.log, self.band.into());
            let scene = figure.draw_column(&self.theme(), export::points(self.width))?;
            let path = match parts.len() {
                1 => out.to_owned(),
                _ => named(out, part.info().id)?,
            };
            export::save(&path, &scene, &figure.table(), &figure.caption().about, self.png_dpi())?;
            say!("wrote {}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// How a run went, as its folder holds it.
fn history(folder: &Path) -> anyhow::Result<TrainHistory> {
    let reading = disk::read(folder)?;
    let mut history = TrainHistory::new(reading.about);
    history.epochs(&reading.epochs);
    reading.losses.iter().for_each(|losses| history.losses(losses));
    Ok(history)
}

/// What bands span, by its name.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum BandArg {
    Deviation,
    Interval,
}

impl From<BandArg> for Band {
    fn from(band: BandArg) -> Self {
        match band {
            BandArg::Deviation => Self::Deviation,
            BandArg::Interval => Self::Interval,
        }
    }
}

fn part(id: &str) -> anyhow::Result<Part> {
    Part::find(id).ok_or_else(|| {
        let ids = Part::ALL.map(|part| part.info().id).join(", ");
        Usage(format!("--figure {id}: a run has no such figure; there are {ids}")).into()
    })
}

/// `curves-training_loss.svg` for `curves.svg`.
fn named(out: &Path, id: &str) -> anyhow::Result<PathBuf> {
    let stem = out.file_stem().and_then(|s| s.to_str()).context("--out names no file")?;
    let ending = out.extension().and_then(|e| e.to_str()).unwrap_or_default();
    Ok(out.with_file_name(format!("{stem}-{id}.{ending}")))
}
