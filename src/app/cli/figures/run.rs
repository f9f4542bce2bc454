//! Figures of runs, finished or not: training curves, layers by learning rates, and accuracy by settings.

use super::Figures;
use crate::app::cli::prelude::*;
use crate::app::jobs::history::{TrainHistory, disk};
use crate::app::jobs::run_metrics::{self, ProbeMetrics};
use crate::app::value_parser::names;
use crate::model::train::run::{ProbeCheckpoint, Run, variant_name};
use crate::viz::figures::curves::Part;
use crate::viz::figures::plot::Plot;
use crate::viz::figures::rates;
use crate::viz::figures::settings::{self, SettingsPlot};

impl Figures {
    /// Draws the figure of the runs; `all` writes one file for each.
    pub(super) fn draw_training(&self) -> anyhow::Result<ExitCode> {
        let out = self.out.as_deref().context("--out names no file")?;
        let runs = self.run.iter().map(|folder| disk::read(folder)).collect::<Result<Vec<_>, _>>()?;
        let runs: Vec<TrainHistory> = runs.iter().map(TrainHistory::of_snapshot).collect();
        let runs: Vec<&TrainHistory> = runs.iter().collect();
        let heads = names(&self.heads);
        // A variant, a head with variants, or one with a grid of layers and rates.
        let is_known = |head: &&String| {
            let is_own = |name: &String| name == *head || variant_name::head(name) == head.as_str();
            let has_grid = |run: &&TrainHistory| run.grids().iter().any(|grid| grid.head == **head);
            runs.iter().any(|run| run.about.heads.iter().any(is_own) || has_grid(run))
        };
        if let Some(unknown) = heads.iter().find(|head| !is_known(head)) {
            let known: Vec<String> = runs.iter().map(|run| run.about.heads.join(", ")).collect();
            refuse!("--heads {unknown}: the run trains {}", known.join("; "));
        }
        let ids: Vec<&str> = match &self.figure[..] {
            [] => vec![Part::Both.name()],
            [all] if all == "all" => {
                let grids = matches!(&runs[..], [one] if one.has_grids());
                let parts = Part::ALL.map(Part::name).into_iter();
                parts.chain(grids.then_some(rates::INFO.id)).collect()
            }
            [id] => vec![id],
            _ => refuse!("only one figure of a run can be drawn at a time; \"all\" writes one file each"),
        };
        for id in &ids {
            let mut note = None;
            let plot: Box<dyn Plot> = match (Part::find(id), &runs[..]) {
                (None, [one]) if *id == rates::INFO.id => Box::new(one.rates(&heads)),
                (None, _) if *id == settings::INFO.id => {
                    let plot = TrainHistory::settings_of(&runs, &heads, &coverages);
                    note = left_out(&runs, &heads, &plot);
                    Box::new(plot)
                }
                (None, _) if *id == rates::INFO.id => {
                    refuse!("--figure {id}: takes only one run");
                }
                (None, _) => {
                    let parts = Part::ALL.map(Part::name).join(", ");
                    let more = [rates::INFO.id, settings::INFO.id].join(", ");
                    refuse!("--figure {id}: a run has no such figure; expected one of {parts}, {more}");
                }
                (Some(part), _) => {
                    Box::new(TrainHistory::figure_of(&runs, &heads, part, self.log, self.band))
                }
            };
            let path = if ids.len() == 1 { out.to_owned() } else { path_with_id(out, id)? };
            self.save(&*plot, &path, self.width_for(&*plot))?;
            say!("wrote {}", path.display());
            note.into_iter().for_each(|note| say!("{note}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The note on a figure of settings that has not all variants of its runs: it shows one setting, and several runs may vary others.
fn left_out(runs: &[&TrainHistory], heads: &[String], plot: &SettingsPlot) -> Option<String> {
    let is_chosen = |variant: &&String| {
        let own = [variant.as_str(), variant_name::head(variant)];
        variant.contains('[') && (heads.is_empty() || heads.iter().any(|head| own.contains(&head.as_str())))
    };
    let variants = runs.iter().flat_map(|run| &run.about.heads).filter(is_chosen).count();
    let drawn: usize = plot.lines.iter().map(|line| line.points.len()).sum();
    let setting = &plot.setting;
    (drawn < variants).then(|| {
        format!(
            "note: {drawn} of {variants} variants are drawn, those that have results and differ in {setting} alone; \
             --heads chooses others"
        )
    })
}

/// The rank coverages of a variant over the test images with each seed: of its best-epoch probes that are as they were when evaluated.
fn coverages(run: &TrainHistory, variant: &str) -> Vec<f64> {
    let Ok(run) = Run::open(&run.about.folder) else { return Vec::new() };
    let Ok(Some(metrics)) = run_metrics::read(&run) else { return Vec::new() };
    let is_best = |probe: &&ProbeMetrics| probe.head == variant && probe.which == ProbeCheckpoint::Best;
    let own = metrics.probes.iter().filter(is_best).filter(|probe| !probe.is_stale(&run));
    let mean = |probe: &ProbeMetrics| {
        probe.metrics.diagnostics.iter().find(|found| found.name == "rank_coverage").map(|found| found.mean)
    };
    own.filter_map(mean).collect()
}

/// The path `out` with the figure's id in its name: `curves-training_loss.svg` for `curves.svg`.
pub(super) fn path_with_id(out: &Path, id: &str) -> anyhow::Result<PathBuf> {
    let stem = out.file_stem().and_then(|s| s.to_str()).context("--out names no file")?;
    let ending = out.extension().and_then(|e| e.to_str()).unwrap_or_default();
    Ok(out.with_file_name(format!("{stem}-{id}.{ending}")))
}
