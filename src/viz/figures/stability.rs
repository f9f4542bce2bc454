//! How stable one image's order is: for every kind of change Kendall's tau against the order of the
//! unchanged image, a dot each and their mean as a tick, beside what random orders give.

use std::sync::Arc;

use crate::model::explain::stability::Stability;
use crate::viz::draw::font;
use crate::viz::draw::frame::{Axis, Frame};
use crate::viz::draw::legend::{self, Mark};
use crate::viz::draw::scale::Scale;
use crate::viz::draw::scene::{Anchor, Box2, Identity, Scene, Stroke};
use crate::viz::draw::table::Table;
use crate::viz::draw::theme::Theme;
use crate::viz::figures::plot::Plot;
use crate::viz::{Empty, Size};

/// Its name on the command line.
pub const ID: &str = "stability";
/// What it shows.
pub const ABOUT: &str = "How much of one image's order flips, crops, noise, brightness and other seeds leave, beside random orders";

/// Height of one kind of change.
const ROW: f32 = 13.0;
/// Room for key and axis.
const AROUND: f32 = 40.0;

/// The picture.
#[derive(Clone)]
pub struct Steadiness(pub Arc<Stability>);

impl Plot for Steadiness {
    fn title(&self) -> String {
        "Stability of the order".to_owned()
    }

    fn name(&self) -> String {
        let stem = std::path::Path::new(&self.0.image).file_stem().map(|s| s.to_string_lossy().into_owned());
        format!("{}-{}-stability", stem.unwrap_or_default(), self.0.probe)
    }

    fn about(&self) -> String {
        format!("{} through {}", self.0.image, self.0.probe)
    }

    fn height(&self, _: f32) -> f32 {
        self.0.groups.len() as f32 * ROW + AROUND
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let Stability { groups, null, .. } = &*self.0;
        if groups.is_empty() {
            return Err(Empty("Nothing was changed".to_owned()));
        }
        let mut scene = Scene::new(size.width, size.height, "Stability of the order", theme.background);
        let key = [
            (Mark::Dot(theme.series(0)), "One change"),
            (Mark::Tick(Stroke::new(1.6, theme.series(1))), "Mean"),
            (Mark::Patch(theme.band), "Random orders, 5 to 95 %"),
        ];
        let top = legend::legend(&mut scene, theme, [0.0, 0.0], size.width, &key);
        let widest = groups.iter().map(|g| font::width(&g.name, theme.tick)).fold(0.0, f32::max);
        let names = widest.min(size.width * 0.36) + 6.0;
        let means = font::width("−0.00", theme.tick) + 6.0;
        let taus = groups.iter().flat_map(|group| group.taus.iter().map(|(_, tau)| *tau));
        let low = taus.fold(null.0 - 0.05, f64::min).max(-1.0);
        let low = if low < -0.5 { -1.0 } else { (low * 4.0).floor() / 4.0 };
        let axis = Axis::new(Scale::linear(low, 1.0), "Kendall tau to the unchanged image's order", 5);
        let y = Axis::new(Scale::linear(0.0, 1.0), "", 0);
        let outer = Box2::new(names, top, size.width - names - means, size.height - top);
        let frame = Frame::fit(outer, axis, y, theme);
        let (from, to) = (frame.x(null.0), frame.x(null.1));
        scene.fill(Box2::new(from, frame.area.y, (to - from).max(1.0), frame.area.h), theme.band);
        let step = frame.area.h / groups.len() as f32;
        for (at, group) in groups.iter().enumerate() {
            let y = frame.area.y + (at as f32 + 0.5) * step;
            let name = font::fit(&group.name, theme.tick, names - 5.0);
            scene.text_mid([names - 5.0, y], name, theme.tick, theme.ink, Anchor::End);
            let faint = Stroke::new(theme.hair, theme.faint);
            scene.line(vec![[frame.area.x, y], [frame.area.right(), y]], faint);
            for (_, tau) in &group.taus {
                scene.dot([frame.x(*tau), y], 2.1, theme.series(0).alpha(0.8), None);
            }
            let mean = frame.x(group.mean());
            scene.line(vec![[mean, y - 4.0], [mean, y + 4.0]], Stroke::new(1.6, theme.series(1)));
            let value = format!("{:.2}", group.mean()).replace('-', "−");
            scene.text_mid([size.width, y], value, theme.tick, theme.muted, Anchor::End);
            scene.target(Box2::new(0.0, y - step / 2.0, size.width, step), Identity::Item(at));
        }
        frame.axes(&mut scene, theme);
        Ok(scene)
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

    fn command(&self) -> String {
        "--figure stability".to_owned()
    }

    fn sources(&self) -> Vec<(&'static str, String)> {
        serde_json::to_string(&*self.0).ok().map(|text| ("--stability", text)).into_iter().collect()
    }
}
