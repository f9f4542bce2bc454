//! The stability of one image's order: for every kind of change Kendall's tau to the order of the
//! unchanged image, one dot for each change and their mean as a tick, beside a band of random orders.

use std::sync::Arc;

use crate::model::explain::stability::Stability;
use crate::viz::figures::plot::{Caption, Plot, Source};
use crate::viz::figures::prelude::*;
use crate::viz::file_names::{joined, stem, subject};
use crate::viz::heading;

/// Its names and description.
pub const INFO: Info = Info {
    id: "stability",
    title: "Stability of the order",
    about: "How much of an image's order survives flips, crops, noise, brightness changes and other seeds, against random orders",
    tab: TabGroup::Diagnostics.tab(),
};

/// Height of the row of a kind of change, in points.
const ROW_PT: f32 = 13.0;
/// Height of legend and axis, in points.
const MARGINS_PT: f32 = 40.0;

/// One image's stability, as a plot.
#[derive(Clone)]
pub struct StabilityPlot(pub Arc<Stability>);

impl Plot for StabilityPlot {
    fn caption(&self) -> Caption {
        let Stability { image, probe, reading, .. } = &*self.0;
        Caption {
            title: INFO.title.to_owned(),
            file: joined(&[stem(image), probe, &reading.id(), INFO.id]),
            about: subject(image, probe, reading),
            command: format!("--figure {}", INFO.id),
        }
    }

    fn height(&self, width: f32) -> f32 {
        let heading = heading::height(heading::of_reading(&self.0.reading).as_deref(), width);
        self.0.groups.len() as f32 * ROW_PT + MARGINS_PT + heading
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let text = heading::of_reading(&self.0.reading);
        heading::over(text.as_deref(), theme, size, |size| self.chart(theme, size))
    }

    fn table(&self) -> Table {
        let Stability { groups, null, .. } = &*self.0;
        let all: Vec<(&str, &str, f64)> = groups
            .iter()
            .flat_map(|group| group.taus.iter().map(|(what, tau)| (group.name.as_str(), what.as_str(), *tau)))
            .collect();
        Table::default()
            .words("kind", all.iter().map(|(kind, ..)| (*kind).to_owned()))
            .words("change", all.iter().map(|(_, what, _)| (*what).to_owned()))
            .numbers("kendall_tau", all.iter().map(|(.., tau)| *tau))
            .numbers("null_p05", all.iter().map(|_| null.0))
            .numbers("null_p95", all.iter().map(|_| null.1))
    }

    fn sources(&self) -> Vec<Source<'_>> {
        vec![Source::Stability(&self.0)]
    }
}

impl StabilityPlot {
    fn chart(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let Stability { groups, null, .. } = &*self.0;
        if groups.is_empty() {
            return Err(Empty("No changes to compare".to_owned()));
        }
        let mut scene = Scene::new(size.width, size.height, INFO.title, theme.background);
        let key = [
            (Mark::Dot(theme.series(0)), "One change"),
            (Mark::Tick(Stroke::new(1.6, theme.series(1))), "Mean"),
            (Mark::Patch(theme.band), "Random orders, 5 to 95 %"),
        ];
        let below = legend::above(&mut scene, theme, size, &key);
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let mean_width = font::width("−0.00", pt::TICK) + 6.0;
        let taus = groups.iter().flat_map(|group| group.taus.iter().map(|(_, tau)| *tau));
        let low = taus.fold(null.0 - 0.05, f64::min).max(-1.0);
        let low = if low < -0.5 { -1.0 } else { (low * 4.0).floor() / 4.0 };
        let axis = Axis::new(Scale::linear(low, 1.0), "Kendall tau to the unchanged image's order", 5);
        let chart = RowChart::new(below, axis, &names, (0.36, mean_width));
        let (frame, step) = (&chart.frame, chart.step);
        frame.band(&mut scene, *null, theme.band);
        for (at, group) in groups.iter().enumerate() {
            let y = chart.name(&mut scene, theme, at, names[at]);
            let faint = Stroke::new(pt::HAIR, theme.faint);
            scene.line(vec![[frame.area.x, y], [frame.area.right(), y]], faint);
            for (_, tau) in &group.taus {
                scene.dot([frame.x(*tau), y], 2.1, theme.series(0).alpha(0.8), None);
            }
            let mut value = "–".to_owned(); // a file may have a kind of change without any tau
            let mean = group.mean();
            if mean.is_finite() {
                let x = frame.x(mean);
                scene.line(vec![[x, y - 4.0], [x, y + 4.0]], Stroke::new(1.6, theme.series(1)));
                value = minus(format!("{mean:.2}"));
            }
            scene.text_mid([size.width, y], value, pt::TICK, theme.muted, Anchor::End);
            scene.target(Box2::new(0.0, y - step / 2.0, size.width, step), Identity::Item(at));
        }
        frame.axes(&mut scene, theme);
        Ok(scene)
    }
}
