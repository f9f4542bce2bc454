//! Every pane of the window, painted in both themes by the renderer of the tests: Mesa's software adapter if there is no
//! graphics card. Each fills a small window alone, so that all of it is visible.

use std::collections::HashSet;

use eframe::egui;
use image::RgbaImage;
use ssmprobe::app::jobs::{Compute, Event, Request, stability};
use ssmprobe::app::state::command::Command;
use ssmprobe::app::state::settings::ThemeChoice;
use ssmprobe::app::window::panels::{self, PanelPlace};
use ssmprobe::model::explain::removal::Mode;

use super::pointer::{painted, showing};
use super::small;
use crate::evaluation;
use crate::window::{self, Window};

/// Size of the window.
const SIZE: egui::Vec2 = egui::vec2(760.0, 520.0);

/// Text that is cut in so small a picture: a name longer than its bar.
const KNOWN: [(&str, &str); 6] = [
    ("routing_maps", "Mean position, 0 first to 1 last"),
    // Scrolled out of sight: the second of two columns, rows below the form's last visible one.
    ("compare", "Weight in the sum"),
    ("compare", "Rose-breasted Grosbeak, 64.1 %"),
    ("compare", "Logit 6.10 for Rose-breasted Grosbeak"),
    ("training", "Device"),
    ("training", "auto"),
];

/// A window with an image explained by two probes, an evaluated dataset, and the stability of an order.
fn full() -> Window {
    let mut window = showing(&[small::planned()]);
    evaluation::open_evaluated(&mut window);
    let columns: Vec<_> = window.state().columns.keys().copied().collect();
    for column in columns {
        window.harness.state_mut().dispatch(Command::MeasureStability(column));
        window.harness.state_mut().dispatch(Command::RemoveTokens(column, vec![Mode::Frozen]));
    }
    window.answer_with(|request| match request {
        Request::Compute(job, Compute::Stability(ask)) => {
            let result = Ok(small::stability().into());
            let answer = stability::StabilityAnswer { subject: ask.subject, image: ask.image, result };
            vec![Event::StabilityMeasured { job, answer }, Event::Finished(job)]
        }
        Request::Compute(job, Compute::Removal(_)) => {
            let answer = Ok(small::removal().into());
            vec![Event::RemovalMeasured { job, answer }, Event::Finished(job)]
        }
        other => window::succeed(other),
    });
    window.harness.set_size(SIZE);
    window
}

/// Closes all other panes.
fn alone(window: &mut Window, pane: &str) {
    let tree = egui_tiles::Tree::new_tabs(egui::Id::unique("panes"), vec![pane.to_owned()]);
    let after = serde_json::to_value(tree).expect("a layout");
    let (text, before) = ("Show one pane".to_owned(), serde_json::Value::Null);
    window.dispatch(Command::Arrange { text, before, after });
}

/// The area of the pane, below its tab.
fn middle(window: &Window, title: &str) -> egui::Rect {
    let tab = painted(window.harness.output()).into_iter().filter(|(text, ..)| text == title);
    let tab = tab.map(|(_, seen, _)| seen).min_by(|a, b| a.top().total_cmp(&b.top()));
    let tab = tab.unwrap_or_else(|| panic!("no tab {title}"));
    egui::Rect::from_min_max(
        egui::pos2(tab.left() - 8.0, tab.bottom() + 8.0),
        egui::pos2(SIZE.x, SIZE.y - 28.0),
    )
}

/// Mean lightness of a part of the picture, and its number of colours.
fn seen(picture: &RgbaImage, part: egui::Rect) -> (f64, usize) {
    let (mut sum, mut count, mut colours) = (0.0, 0.0, HashSet::new());
    for (x, y, pixel) in picture.enumerate_pixels() {
        if part.contains(egui::pos2(x as f32 + 0.5, y as f32 + 0.5)) {
            sum += f64::from(pixel.0[0]) + f64::from(pixel.0[1]) + f64::from(pixel.0[2]);
            count += 3.0;
            colours.insert(pixel.0);
        }
    }
    assert!(count > 0.0, "nothing lies in {part:?} of {:?}", picture.dimensions());
    (sum / count, colours.len())
}

#[test]
fn every_pane_is_painted_in_both_looks() {
    let mut window = full();
    let mut faults = Vec::new();
    let panes: Vec<(&str, &str)> = panels::all()
        .iter()
        .filter(|panel| panel.place() == PanelPlace::Middle)
        .map(|panel| (panel.id(), panel.title()))
        .collect();
    assert!(panes.len() > 15);
    for (pane, title) in panes {
        alone(&mut window, pane);
        let mut lightness = Vec::new();
        for theme in [ThemeChoice::Light, ThemeChoice::Dark] {
            window.dispatch(Command::SetTheme(theme));
            let picture = window.harness.render().expect("a picture of the window");
            assert_eq!(picture.dimensions(), (SIZE.x as u32, SIZE.y as u32));
            let part = middle(&window, title);
            let (light, colours) = seen(&picture, part);
            println!("{pane} {theme:?}: {light:.0}, {colours} colours in {part:?}");
            if colours < 24 {
                faults.push(format!("{pane} is blank in {theme:?}: {colours} colours"));
            }
            lightness.push(light);
            for (text, seen, whole) in painted(window.harness.output()) {
                let inside = part.contains(whole.center());
                let known = KNOWN.iter().any(|(id, cut)| *id == pane && *cut == text);
                if inside && !known && !seen.expand(1.0).contains_rect(whole) {
                    faults.push(format!("{pane} cuts {text:?}: {whole:?} to {seen:?}"));
                }
            }
        }
        if lightness[0] < lightness[1] + 60.0 {
            faults.push(format!("{pane} is no lighter in the light look: {lightness:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn one_class_for_all_columns_is_offered_on_the_last_line_of_controls() {
    let mut other = small::planned();
    other.evidence.class = 3;
    let mut window = showing(&[small::planned(), other]);
    window.resize(1280.0, 720.0);
    window.click("Compare");
    let [offer, export] = ["crane", "Export comparison…"].map(|label| window.place(label));
    assert!((offer.center().y - export.center().y).abs() < 2.0, "{offer:?} {export:?}");
}

#[test]
fn charts_of_a_row_begin_at_one_height_in_the_window() {
    let mut other = small::swept();
    other.other_kernels = vec![other.other_kernels[0].clone(); 7]; // more lines of its legend than the first has
    let mut window = showing(&[small::planned(), other]);
    window.resize(1440.0, 900.0);
    window.dispatch(Command::SetRows(["kernel".to_owned()].into()));
    window.click("Compare");
    let painted = painted(window.harness.output());
    let names = painted.iter().filter(|(text, ..)| text == "K[j] / max |K|");
    let names: Vec<f32> = names.map(|(.., whole)| whole.center().y).collect();
    let [own, other] = names[..] else { panic!("{names:?}") };
    assert!((own - other).abs() < 1.0, "{own} and {other}");
}
