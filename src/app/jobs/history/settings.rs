//! Results of variants that differ in one number, `head[temperature=0.1]`, as a figure of one run or several.

use super::TrainHistory;
use crate::model::train::run::variant_name;
use crate::viz::figures::settings::{INFO, SettingLine, SettingPoint, SettingsPlot};

/// Head, setting and value of a variant whose name sets exactly one number.
fn parse(name: &str) -> Option<(&str, &str, f64)> {
    let [(field, value)] = variant_name::settings(name)[..] else { return None };
    let value = value.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some((variant_name::head(name), field, value))
}

impl TrainHistory {
    /// One line per head, of `heads` or of all if it is empty, over the setting that the first matching variant has.
    /// `coverage` returns the coverage of a variant of a run, by the variant's name.
    pub fn settings_of(
        runs: &[&Self],
        heads: &[String],
        coverage: &dyn Fn(&Self, &str) -> Option<f64>,
    ) -> SettingsPlot {
        let (mut setting, mut lines) = (None, Vec::<SettingLine>::new());
        for run in runs {
            for (at, variant) in run.about.heads.iter().enumerate() {
                let Some((head, field, value)) = parse(variant) else { continue };
                let is_chosen = heads.is_empty() || heads.iter().any(|own| own == head || own == variant);
                let Some(score) = run.score(at).filter(|_| is_chosen) else { continue };
                if *setting.get_or_insert(field) != field {
                    continue;
                }
                let name = run.name_among(head, runs_with(head, runs));
                let point = SettingPoint { value, accuracy: score.best.0, coverage: coverage(run, variant) };
                match lines.iter_mut().find(|line| line.name == name) {
                    Some(line) => line.points.push(point),
                    None => lines.push(SettingLine { name, points: vec![point] }),
                }
            }
        }
        lines.retain(|line| line.points.len() > 1);
        lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.value.total_cmp(&b.value)));
        let setting = setting.unwrap_or_default().to_owned();
        SettingsPlot { setting, lines, caption: Self::caption(runs, heads, &INFO) }
    }
}

/// The runs that have variants of a head.
fn runs_with<'a>(head: &str, runs: &[&'a TrainHistory]) -> impl Iterator<Item = &'a TrainHistory> {
    let has = move |run: &&TrainHistory| {
        run.about.heads.iter().any(|variant| parse(variant).is_some_and(|(own, ..)| own == head))
    };
    runs.iter().copied().filter(has)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{history, metric};
    use super::*;

    #[test]
    fn one_number_alone_makes_a_point() {
        assert_eq!(parse("softsort[temperature=0.1]"), Some(("softsort", "temperature", 0.1)));
        for other in
            ["gap", "raster[sharing=channel]", "sinkhorn[temperature=1,iterations=5]", "gap[rate=inf]"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
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
        let known = |_: &TrainHistory, name: &str| name.contains("0.1").then_some(0.5);
        let plot = TrainHistory::settings_of(&[&history], &[], &known);
        let point = |value, accuracy, coverage| SettingPoint { value, accuracy, coverage };
        let points = vec![point(0.1, 40.0, Some(0.5)), point(10.0, 30.0, None)];
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
