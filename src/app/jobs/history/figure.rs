//! Training curves as a figure. It needs only what a run's folder holds, so that the window and the command line
//! draw the same.

use super::{About, TrainHistory};
use crate::app::format::shell_path;
use crate::viz::figures::curves::{Curves, Part, Series, TrainingPlot, average};
use crate::viz::figures::plot::Caption;

use super::curve::{Band, Curve, Measure};

impl TrainHistory {
    /// The figure of these heads; of all if `heads` is empty. The loss is that of steps where known, else the mean of
    /// each epoch at its middle; steps are counted for one seed.
    pub fn figure(&self, heads: &[String], part: Part, log: bool) -> TrainingPlot {
        Self::figure_of(&[self], heads, part, log, Band::default())
    }

    /// The same for several runs on one plot, with bands of a chosen kind; curves are named after head and run.
    pub fn figure_of(runs: &[&Self], heads: &[String], part: Part, log: bool, band: Band) -> TrainingPlot {
        let is_chosen = |name: &String| heads.is_empty() || heads.contains(name);
        let mut series = Vec::new();
        for run in runs {
            for (head, name) in run.about.heads.iter().enumerate().filter(|(_, name)| is_chosen(name)) {
                series.push(run.series(head, run.name_among(name, runs.len()), band));
            }
        }
        let id = part.info().id;
        let folder = |run: &&Self| format!("--run {}", shell_path(&run.about.folder));
        let mut command: Vec<String> = runs.iter().map(folder).collect();
        command.push(format!("--figure {id}"));
        if !heads.is_empty() {
            command.push(format!("--heads {}", heads.join(",")));
        }
        command.extend(log.then(|| "--log".to_owned()));
        command.extend((band == Band::Interval).then(|| "--band interval".to_owned()));
        let mut about: Vec<String> = runs.iter().map(|run| run.description()).collect();
        about.extend((band == Band::Interval).then(|| format!("bands: {}", band.text())));
        let names: Vec<String> = runs.iter().map(|run| run.about.name()).collect();
        let caption = Caption {
            title: part.info().title.to_owned(),
            file: format!("{}-{id}", names.join("-")),
            about: about.join("; "),
            command: command.join(" "),
        };
        let curves = Curves { series, interval: band == Band::Interval };
        TrainingPlot { curves, part, log, caption }
    }

    /// The run in words, for a figure's metadata.
    pub(super) fn description(&self) -> String {
        let About { dataset, backbone, epochs, seeds, .. } = &self.about;
        let (name, seeds) = (self.about.name(), seeds.len());
        format!("{name}: heads on {dataset} through {backbone}, {epochs} epochs, {seeds} seeds")
    }

    /// The name of a head's curve among those of `runs` runs: with the run's name if there are several.
    pub fn name_among(&self, head: &str, runs: usize) -> String {
        if runs > 1 { format!("{head} · {}", self.about.name()) } else { head.to_owned() }
    }

    /// The curves of head `head` over steps; losses as they are, accuracy as a fraction.
    fn series(&self, head: usize, name: String, band: Band) -> Series {
        let steps = self.about.steps_per_epoch();
        let several = self.about.seeds.len() > 1;
        let line = |measure: Measure, unit: f64| {
            let curve = self.curve(head, measure);
            let (spread, Curve { at, mean, .. }) = (curve.band(band), curve);
            let points = at.iter().zip(mean).map(|(at, mean)| (at * steps, mean / unit)).collect();
            (points, spread.into_iter().filter(|_| several).map(|spread| spread / unit).collect())
        };
        let (loss, loss_spread) = line(Measure::Loss, 1.0);
        let (accuracy, accuracy_spread) = line(Measure::Test, 100.0);
        let curve = self.curve_of(head, Measure::Loss, |points| average(&points));
        let (spread, Curve { at, mean, .. }) = (curve.band(band), curve);
        let average = at.iter().zip(mean).map(|(at, mean)| (at * steps, mean)).collect();
        let average_spread = spread.into_iter().filter(|_| several).collect();
        Series { name, loss, accuracy, loss_spread, accuracy_spread, average, average_spread }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Steps;
    use super::super::tests::{history, metric};
    use super::*;
    use crate::viz::figures::plot::Plot as _;

    #[test]
    fn noisy_losses_are_averaged_seed_by_seed() {
        let mut history = history(100, 2);
        // The losses of the two seeds differ by 1, each with its own noise that averages out.
        for (seed, at) in [0u64, 1].into_iter().flat_map(|seed| (0..800).map(move |at| (seed, at))) {
            let noise = if (at + seed as usize).is_multiple_of(2) { 0.4 } else { -0.4 };
            let loss = Some(2.0 + seed as f64 + noise);
            history.step(&Steps { seed, at: (at as f64 + 0.5) / 8.0, losses: vec![loss, None] });
        }
        let figure = history.figure(&["gap".to_owned()], Part::Loss, false);
        let [gap] = &figure.curves.series[..] else { panic!("one head") };
        assert_eq!((gap.loss.len(), gap.average.len(), gap.average_spread.len()), (800, 800, 800));
        let middle = 400;
        assert!((gap.average[middle].1 - 2.5).abs() < 0.02);
        assert!((gap.average_spread[middle] - 0.5f64.sqrt()).abs() < 0.05, "that of the seeds");
        assert!((gap.loss_spread[middle] - 0.5f64.sqrt()).abs() > 0.1, "with that of the batches");
    }

    #[test]
    fn a_figure_has_steps_means_and_spreads() {
        let mut history = history(2, 2);
        let metrics = [(0, 1, 1.0, 60.0), (0, 2, 0.5, 50.0), (1, 1, 3.0, 40.0)];
        history.epochs(&metrics.map(|(seed, epoch, loss, test)| metric("gap", seed, epoch, loss, test)));
        let figure = history.figure(&["gap".to_owned()], Part::Loss, true);
        let [gap] = &figure.curves.series[..] else { panic!("one head") };
        assert_eq!(gap.loss, [(1.0, 2.0), (3.0, 0.5)], "8 images in batches of 4 are 2 steps");
        assert_eq!(gap.accuracy, [(2.0, 0.5), (4.0, 0.5)]);
        assert!((gap.loss_spread[0] - 2f64.sqrt()).abs() < 1e-12 && gap.loss_spread[1].is_nan());
        assert_eq!(figure.table().heads()[4], "standard_deviation");
        assert_eq!(figure.table().row(1), ["gap", "loss", "3", "0.5", ""], "one seed has no spread");
        let interval = TrainHistory::figure_of(&[&history], &[], Part::Loss, true, Band::Interval);
        assert_eq!(interval.table().heads()[4], "interval_95_half_width");
        // 9 images in batches of 4 are 3 steps: the last has one.
        history.about.train = 9;
        let figure = history.figure(&["gap".to_owned()], Part::Loss, true);
        assert_eq!(figure.curves.series[0].accuracy, [(3.0, 0.5), (6.0, 0.5)]);
        assert_eq!(figure.caption.command, "--run run --figure training_loss --heads gap --log");
    }
}
