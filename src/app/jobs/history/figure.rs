//! Training curves as a figure. It needs only what a run's folder holds, so that the window and the command line
//! draw the same.

use super::{About, TrainHistory};
use crate::app::format::{counted, shell_path, shell_word};
use crate::viz::Info;
use crate::viz::figures::curves::{Curves, Means, Part, Series, TrainingPlot, average};
use crate::viz::figures::plot::Caption;
use crate::viz::file_names::own_path;

use super::curve::{Band, Curve, Measure};

impl TrainHistory {
    /// The figure of these heads of one run or several; of all if `heads` is empty. The loss is that of steps where known,
    /// else the mean of each epoch at its middle; steps are counted for one seed.
    pub fn figure_of(runs: &[&Self], heads: &[String], part: Part, log: bool, band: Band) -> TrainingPlot {
        let is_chosen = |name: &String| heads.is_empty() || heads.contains(name);
        let all = runs.iter().flat_map(|run| run.about.heads.iter().enumerate().map(move |head| (run, head)));
        // Numbered before some are chosen, so that a head has the same colour in every figure of its runs.
        let chosen = all.enumerate().filter(|(_, (_, (_, name)))| is_chosen(name));
        let series = chosen.map(|(number, (run, (head, name)))| Series {
            number: Some(number),
            ..run.series(head, run.name_among(name, runs.iter().copied()), band)
        });
        let series = series.collect();
        let mut caption = Self::caption(runs, heads, &part.info());
        let interval = band == Band::Interval;
        if log {
            caption.command += " --log";
        }
        if interval {
            caption.command += " --band interval";
            caption.about += &format!("; bands: {}", band.name());
        }
        TrainingPlot { curves: Curves { series, interval }, part, log, caption }
    }

    /// The caption of a figure of these heads of `runs`; of all if `heads` is empty.
    pub(super) fn caption(runs: &[&Self], heads: &[String], info: &Info) -> Caption {
        let joined = |text: &dyn Fn(&Self) -> String, between: &str| {
            runs.iter().map(|run| text(run)).collect::<Vec<_>>().join(between)
        };
        let folders = joined(&|run| format!("--run {}", shell_path(&run.about.folder)), " ");
        let only = match heads {
            [] => String::new(),
            heads => format!(" --heads {}", shell_word(&heads.join(","))),
        };
        Caption {
            title: info.title.to_owned(),
            file: format!("{}-{}", joined(&|run| run.about.name(), "-"), info.id),
            about: joined(&Self::description, "; "),
            command: format!("{folders} --figure {}{only}", info.id),
        }
    }

    /// The run in words, for a figure's metadata.
    fn description(&self) -> String {
        let About { dataset, backbone, epochs, seeds, .. } = &self.about;
        let (epochs, seeds) = (counted(*epochs, "epoch", "epochs"), counted(seeds.len(), "seed", "seeds"));
        format!("{}: heads on {dataset} through {backbone}, {epochs}, {seeds}", self.about.name())
    }

    /// The name of a head's curve among those of several runs: with the run's name, and as much of its folder as tells it from the
    /// others.
    pub fn name_among<'a>(&self, head: &str, runs: impl Iterator<Item = &'a Self>) -> String {
        let folder = |run: &Self| run.about.folder.components().as_path().display().to_string();
        let folders: Vec<String> = runs.map(folder).collect();
        match folders.len() {
            0 | 1 => head.to_owned(),
            _ => format!("{head} · {}", own_path(&folder(self), folders.iter().map(String::as_str))),
        }
    }

    /// The curves of head `head` over steps; accuracies in percent.
    fn series(&self, head: usize, name: String, band: Band) -> Series {
        let steps = self.about.steps_per_epoch();
        let several = self.about.seeds.len() > 1;
        let means = |curve: Curve| {
            let spread = if several { curve.band(band) } else { Vec::new() };
            let points = curve.at.iter().zip(curve.mean).map(|(at, mean)| (at * steps, mean)).collect();
            Means { points, spread, seeds: curve.seeds }
        };
        Series {
            name,
            number: None,
            loss: means(self.curve(head, Measure::Loss)),
            accuracy: means(self.curve(head, Measure::Test)),
            average: means(self.curve_of(head, Measure::Loss, |points| average(&points))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Steps;
    use super::super::tests::{history, metric};
    use super::*;
    use crate::viz::figures::plot::Plot as _;

    fn loss_of_gap(history: &TrainHistory, log: bool) -> TrainingPlot {
        TrainHistory::figure_of(&[history], &["gap".to_owned()], Part::Loss, log, Band::default())
    }

    #[test]
    fn noisy_losses_are_averaged_seed_by_seed() {
        let mut history = history(100, 2);
        // The losses of the two seeds differ by 1, each with its own noise that averages out.
        for (seed, at) in [0u64, 1].into_iter().flat_map(|seed| (0..800).map(move |at| (seed, at))) {
            let noise = if (at + seed as usize).is_multiple_of(2) { 0.4 } else { -0.4 };
            let loss = Some(2.0 + seed as f64 + noise);
            history.step(&Steps { seed, at: (at as f64 + 0.5) / 8.0, losses: vec![loss, None] });
        }
        let figure = loss_of_gap(&history, false);
        let [gap] = &figure.curves.series[..] else { panic!("one head") };
        assert_eq!(
            (gap.loss.points.len(), gap.average.points.len(), gap.average.spread.len()),
            (800, 800, 800)
        );
        let middle = 400;
        assert!((gap.average.points[middle].1 - 2.5).abs() < 0.02);
        assert!((gap.average.spread[middle] - 0.5f64.sqrt()).abs() < 0.05, "that of the seeds");
        assert!((gap.loss.spread[middle] - 0.5f64.sqrt()).abs() > 0.1, "with that of the batches");
        let table = figure.table();
        assert_eq!((table.rows(), &*table.row(799)[1], &*table.row(800)[1]), (1600, "loss", "average_loss"));
    }

    #[test]
    fn a_figure_has_steps_means_and_spreads() {
        let mut history = history(2, 2);
        let metrics = [(0, 1, 1.0, 60.0), (0, 2, 0.5, 50.0), (1, 1, 3.0, 40.0)];
        history.epochs(&metrics.map(|(seed, epoch, loss, test)| metric("gap", seed, epoch, loss, test)));
        let figure = loss_of_gap(&history, true);
        let [gap] = &figure.curves.series[..] else { panic!("one head") };
        assert_eq!(gap.loss.points, [(1.0, 2.0), (3.0, 0.5)], "8 images in batches of 4 are 2 steps");
        assert_eq!(gap.accuracy.points, [(2.0, 50.0), (4.0, 50.0)]);
        let seeds = [&gap.loss, &gap.accuracy].map(|means| &means.seeds[..]);
        assert_eq!(seeds, [[2, 1]; 2], "the second epoch, of one seed, has no band");
        assert!((gap.loss.spread[0] - 2f64.sqrt()).abs() < 1e-12 && gap.loss.spread[1].is_nan());
        assert_eq!(figure.table().heads()[4], "standard_deviation");
        assert_eq!(figure.table().row(1), ["gap", "loss", "3", "0.5", "", "1"], "one seed has no spread");
        let interval = TrainHistory::figure_of(&[&history], &[], Part::Loss, true, Band::Interval);
        assert_eq!(interval.table().heads()[4], "interval_95_half_width");
        let second = ["sinkhorn".to_owned()];
        let alone = TrainHistory::figure_of(&[&history], &second, Part::Loss, true, Band::default());
        assert_eq!(alone.curves.series[0].number, Some(1), "it has the colour that it has beside the first");
        // 9 images in batches of 4 are 3 steps: the last has one.
        history.about.train = 9;
        let figure = loss_of_gap(&history, true);
        assert_eq!(figure.curves.series[0].accuracy.points, [(3.0, 50.0), (6.0, 50.0)]);
        assert_eq!(figure.caption.command, "--run run --figure training_loss --heads gap --log");
    }
}
