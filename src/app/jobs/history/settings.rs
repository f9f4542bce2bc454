//! Results of variants that differ in one number, `head[temperature=0.1]`, as a figure of one run or several. Variants of several
//! layers or rates have a line for each of these.

use super::{Score, TrainHistory};
use crate::model::stats::mean_and_deviation;
use crate::model::train::run::variant_name;
use crate::viz::figures::settings::{INFO, OverSeeds, SettingLine, SettingPoint, SettingsPlot};

/// A variant whose name sets exactly one number, apart from its layer and rate, or one of these alone.
#[derive(Debug, PartialEq)]
struct Setting<'a> {
    head: &'a str,
    /// The head, with layer and rate if they are set beside the number.
    line: String,
    field: &'a str,
    value: f64,
}

fn parse(name: &str) -> Option<Setting<'_>> {
    let head = variant_name::head(name);
    let [own, axes] = variant_name::head_and_axes(name);
    let (field, value, beside) = match (&own[..], &axes[..]) {
        ([(field, value)], axes) => (*field, *value, axes),
        ([], [(field, value)]) => (*field, *value, &[][..]),
        _ => return None,
    };
    let line = variant_name::with_settings(head, beside.iter().copied());
    let value = value.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some(Setting { head, line, field, value })
}

impl TrainHistory {
    /// One line per head, of `heads` or of all if it is empty, over the setting that the first matching variant has; over layers or
    /// rates only if no variant has another one. `coverage` returns the coverages of a variant of a run with each seed, by the
    /// variant's name.
    pub fn settings_of<'a>(
        runs: &[&'a Self],
        heads: &[String],
        coverage: &dyn Fn(&Self, &str) -> Vec<f64>,
    ) -> SettingsPlot {
        let of_run = |run: &'a Self| {
            let known = run.about.heads.iter().enumerate().filter_map(move |(at, variant)| {
                let setting = parse(variant)?;
                let is_chosen =
                    heads.is_empty() || heads.iter().any(|own| own == setting.head || own == variant);
                Some((run, variant, run.score(at).filter(|_| is_chosen)?, setting))
            });
            known.collect::<Vec<_>>()
        };
        let known: Vec<(&Self, &String, Score, Setting<'_>)> =
            runs.iter().copied().flat_map(of_run).collect();
        let mut settings = known.iter().map(|(.., setting)| setting);
        let is_own = |setting: &&Setting<'_>| !variant_name::is_axis(setting.field);
        let first = settings.clone().find(is_own).or_else(|| settings.next());
        let field = first.map_or("", |setting| setting.field);
        let mut lines = Vec::<SettingLine>::new();
        for (run, variant, score, setting) in known.iter().filter(|(.., setting)| setting.field == field) {
            let name = run.name_among(&setting.line, runs_with(setting.head, runs));
            let coverages = coverage(run, variant);
            let over = |(mean, deviation), seeds| OverSeeds { mean, deviation, seeds };
            let deviation = (score.seeds > 1).then_some(score.best.1);
            let point = SettingPoint {
                value: setting.value,
                accuracy: over((score.best.0, deviation), score.seeds),
                coverage: (!coverages.is_empty())
                    .then(|| over(mean_and_deviation(&coverages), coverages.len())),
            };
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(SettingLine { name, points: vec![point] }),
            }
        }
        lines.retain(|line| line.points.len() > 1);
        lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.value.total_cmp(&b.value)));
        let setting = field.to_owned();
        SettingsPlot { setting, lines, caption: Self::caption(runs, heads, &INFO) }
    }
}

/// The runs that have variants of a head.
fn runs_with<'a>(head: &str, runs: &[&'a TrainHistory]) -> impl Iterator<Item = &'a TrainHistory> {
    let has = move |run: &&TrainHistory| {
        run.about.heads.iter().any(|variant| parse(variant).is_some_and(|setting| setting.head == head))
    };
    runs.iter().copied().filter(has)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{history, metric};
    use super::*;

    #[test]
    fn one_number_alone_makes_a_point() {
        let found = |name: &str| {
            let Setting { head, line, field, value } = parse(name)?;
            Some(format!("{head} {line} {field} {value}"))
        };
        for (name, expected) in [
            ("softsort[temperature=0.1]", "softsort softsort temperature 0.1"),
            (
                "sinkhorn[iterations=5,layer=last,rate=0.1]",
                "sinkhorn sinkhorn[layer=last,rate=0.1] iterations 5",
            ),
            ("gap[rate=0.1]", "gap gap rate 0.1"),
        ] {
            assert_eq!(found(name).as_deref(), Some(expected));
        }
        for other in [
            "gap",
            "raster[sharing=channel]",
            "sinkhorn[temperature=1,iterations=5]",
            "gap[rate=inf]",
            "gap[layer=4,rate=0.1]",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn a_sweep_at_several_layers_has_a_line_for_each() {
        let mut history = history(2, 1);
        let point = |value: u32, layer: &str| format!("sinkhorn[iterations={value},layer={layer}]");
        let baselines = ["4", "8"].map(|layer| format!("gap[layer={layer}]"));
        let points = [point(5, "4"), point(9, "4"), point(5, "last"), point(9, "last")];
        history.about.heads = baselines.into_iter().chain(points).collect();
        history = TrainHistory::new(history.about);
        for (name, test) in history.about.heads.clone().iter().zip([10.0, 20.0, 30.0, 40.0, 50.0, 60.0]) {
            history.epochs(&[metric(name, 0, 1, 1.0, test)]);
        }
        let plot = TrainHistory::settings_of(&[&history], &[], &|_, _| Vec::new());
        let accuracies =
            |line: &SettingLine| line.points.iter().map(|point| point.accuracy.mean).collect::<Vec<_>>();
        let lines: Vec<_> = plot.lines.iter().map(|line| (&*line.name, accuracies(line))).collect();
        let expected = [("sinkhorn[layer=4]", vec![30.0, 40.0]), ("sinkhorn[layer=last]", vec![50.0, 60.0])];
        assert_eq!((&*plot.setting, lines), ("iterations", expected.to_vec()));
        let layers = TrainHistory::settings_of(&[&history], &["gap".into()], &|_, _| Vec::new());
        assert_eq!((&*layers.setting, layers.lines.len()), ("layer", 1));
    }

    #[test]
    fn a_point_of_several_seeds_has_their_spread_and_number() {
        let mut history = history(1, 2);
        history.about.heads =
            ["softsort[temperature=1]", "softsort[temperature=2]"].map(str::to_owned).into();
        history = TrainHistory::new(history.about);
        for (name, seed, test) in [(0, 0, 8.0), (0, 1, 12.0), (1, 0, 20.0)] {
            history.epochs(&[metric(&history.about.heads[name].clone(), seed, 1, 1.0, test)]);
        }
        let plot = TrainHistory::settings_of(&[&history], &[], &|_, _| vec![0.25, 0.75]);
        let [both, one] = &plot.lines[0].points[..] else { panic!("two points") };
        let over = |mean, deviation, seeds| OverSeeds { mean, deviation, seeds };
        assert_eq!(both.accuracy, over(10.0, Some(8f64.sqrt()), 2));
        assert_eq!(both.coverage, Some(over(0.5, Some(0.125f64.sqrt()), 2)));
        assert_eq!(one.accuracy, over(20.0, None, 1));
    }

    #[test]
    fn lines_are_of_one_setting_and_rise() {
        let mut history = history(2, 1);
        let names = ["softsort[temperature=10]", "softsort[temperature=0.1]", "raster[state_dim=4]", "gap"];
        history.about.heads = names.map(str::to_owned).into();
        history = TrainHistory::new(history.about);
        for (name, test) in names.into_iter().zip([30.0, 40.0, 50.0, 60.0]) {
            history.epochs(&[metric(name, 0, 1, 1.0, test)]);
        }
        let known = |_: &TrainHistory, name: &str| if name.contains("0.1") { vec![0.5] } else { Vec::new() };
        let plot = TrainHistory::settings_of(&[&history], &[], &known);
        let one = |mean| OverSeeds { mean, deviation: None, seeds: 1 };
        let point = |value, accuracy, coverage| SettingPoint { value, accuracy, coverage };
        let points = vec![point(0.1, one(40.0), Some(one(0.5))), point(10.0, one(30.0), None)];
        assert_eq!(plot.lines, [SettingLine { name: "softsort".into(), points }]);
        assert_eq!(
            (plot.setting.as_str(), plot.caption.command.as_str()),
            ("temperature", "--run run --figure settings")
        );
        assert!(TrainHistory::settings_of(&[&history], &["raster".into()], &known).lines.is_empty());
        // Runs of one name have lines of their own.
        let [vit, dino] = ["vit/birds", "dino/birds"].map(|folder| {
            let mut run = history.clone();
            run.about.folder = folder.into();
            run
        });
        let lines = TrainHistory::settings_of(&[&vit, &dino], &[], &known).lines;
        let named: Vec<(&str, usize)> = lines.iter().map(|line| (&*line.name, line.points.len())).collect();
        assert_eq!(named, [("softsort · vit/birds", 2), ("softsort · dino/birds", 2)]);
    }
}
