//! The export dialog: the file that it writes has the same bytes as that of the command line that it copies. The folder
//! has a space and an apostrophe in its name, and a shell runs the command.

use std::path::Path;

use eframe::egui::accesskit::Role;
use eframe::egui::{self, Key, Modifiers};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use ssmprobe::app::state::command::Command;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::trace::Trace;
use ssmprobe::viz::draw::colormap::Map;
use ssmprobe::viz::{Options, Rows};

use super::pointer::{self, showing};
use super::small;
use crate::evaluation;
use crate::run::{done, shell};
use crate::window::Window;

/// The leftmost figure with this title; text with the same label is small.
fn figure(window: &Window, title: &str) -> egui::Rect {
    let all = window.harness.query_all_by_label(title).map(|node| node.rect());
    let large = all.filter(|rect| rect.area() > 10_000.0);
    large.min_by(|a, b| a.left().total_cmp(&b.left())).unwrap_or_else(|| panic!("no {title}"))
}

/// Opens the export dialog from the menu of a figure.
fn open_dialog(window: &mut Window, title: &str) {
    window.click_at(figure(window, title).center(), egui::PointerButton::Secondary);
    window.click("Export…");
}

/// Exports to `path` through the open dialog; the command that was copied to the clipboard before.
fn export(window: &mut Window, path: &Path) -> String {
    window.replace_text(Role::TextInput, "Export to", path.display());
    window.harness.get_by_label("Copy the command line").click();
    let copied = window.copied();
    window.click("Export");
    window.until("the end of the export", |window| !window.has("Copy the command line"));
    copied.expect("a command on the clipboard")
}

/// Exports, runs the copied command, and asserts that both files are equal; the file, and the command.
fn export_both_ways(window: &mut Window, path: &Path) -> (Vec<u8>, String) {
    let command = export(window, path);
    let written = std::fs::read(path).expect("a file");
    std::fs::remove_file(path).expect("taken away");
    done(&mut shell(&command));
    let again = std::fs::read(path).unwrap_or_else(|error| panic!("{error}: {command}"));
    assert!(written == again, "not the same bytes: {command}");
    (written, command)
}

fn svg_both_ways(window: &mut Window, path: &Path) -> (String, String) {
    let (svg, command) = export_both_ways(window, path);
    (String::from_utf8(svg).expect("text"), command)
}

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let outer = tempfile::tempdir().expect("a folder");
    let inner = outer.path().join("a bird's");
    std::fs::create_dir(&inner).expect("a folder");
    (outer, inner)
}

#[test]
fn a_figure_with_its_settings_is_drawn_the_same_by_the_copied_command() {
    let (_outer, folder) = folder();
    let mut window = showing(&[small::planned()]);
    let usual = Options::default();
    let set = [
        ("assignment", Options { map: Map::Viridis, log: true, rows: Rows::Score, ..usual.clone() }),
        ("scan_path", Options { step: Some(5), ..usual.clone() }),
        ("photo", Options { opacity: 0.35, grid: true, ..usual }),
    ];
    for (id, options) in set {
        window.harness.state_mut().dispatch(Command::SetOptions(id.into(), options));
    }
    window.harness.run();
    open_dialog(&mut window, "Assignment matrix");
    window.click("Page");
    let (svg, command) = svg_both_ways(&mut window, &folder.join("matrix.svg"));
    assert!(svg.contains("<svg ") && svg.contains(" width=\"174mm\""), "a page wide: {command}");
    assert!(svg.contains("Token (by score)") && svg.contains("Share, logarithmic"));
    open_dialog(&mut window, "Reading order");
    let (svg, command) = svg_both_ways(&mut window, &folder.join("path.svg"));
    assert!(svg.contains(" width=\"85mm\"") && svg.contains("Memory after 5 of 12 steps"), "{command}");
    open_dialog(&mut window, "Picture and token weights");
    let (png, command) = export_both_ways(&mut window, &folder.join("photo.png"));
    let picture = image::load_from_memory(&png).expect("a picture");
    assert_eq!(picture.width(), 1004, "85 mm at 300 dots an inch: {command}");
    open_dialog(&mut window, "Evidence by position");
    let (gif, command) = export_both_ways(&mut window, &folder.join("evidence.gif"));
    assert!(gif.starts_with(b"GIF89a") && command.contains("--dpi 150 --stills 4"), "{command}");
    for still in ["03", "06", "09", "12"] {
        assert!(folder.join(format!("evidence-step-{still}.png")).is_file(), "step {still}");
    }
    for ending in ["csv", "npz", "pdf"] {
        open_dialog(&mut window, "Assignment matrix");
        export_both_ways(&mut window, &folder.join(format!("matrix-{ending}.{ending}")));
    }
}

#[test]
fn a_figure_for_a_dark_slide_is_drawn_the_same_by_the_copied_command() {
    let (_outer, folder) = folder();
    let mut window = showing(&[small::planned()]);
    for ending in ["svg", "gif"] {
        open_dialog(&mut window, "Evidence by position");
        window.choose("Theme", "Dark");
        let (bytes, command) = export_both_ways(&mut window, &folder.join(format!("dark-{ending}.{ending}")));
        assert!(command.contains(" --theme dark"), "{command}");
        if ending == "svg" {
            assert!(
                String::from_utf8_lossy(&bytes).contains("fill=\"#16191d\""),
                "its background: {command}"
            );
        }
    }
    open_dialog(&mut window, "Evidence by position");
    window.choose("Theme", "Dark");
    let (_, command) = export_both_ways(&mut window, &folder.join("numbers.csv"));
    assert!(!command.contains("--theme"), "numbers have no colours: {command}");
}

#[test]
fn pixels_are_as_dense_as_the_dialog_says() {
    let (_outer, folder) = folder();
    let mut window = showing(&[small::planned()]);
    open_dialog(&mut window, "Predictions");
    window.choose("Format", "PNG, pixels");
    let (_, command) = export_both_ways(&mut window, &folder.join("classes.png"));
    assert!(command.ends_with(" --dpi 300"), "{command}");
    open_dialog(&mut window, "Picture and token weights");
    window.harness.get_by_label("Copy the command line").click();
    let next = window.copied().expect("a command on the clipboard");
    assert!(next.contains(".png") && next.ends_with(" --dpi 300"), "the next figure is one, too: {next}");
}

#[test]
fn a_name_without_the_extension_of_a_format_gets_that_of_the_chosen_one() {
    let (_outer, folder) = folder();
    let mut window = showing(&[small::planned()]);
    open_dialog(&mut window, "Predictions");
    let command = export(&mut window, &folder.join("lr0.1"));
    assert!(folder.join("lr0.1.svg").is_file() && folder.join("lr0.1.trace.json").is_file());
    assert!(command.contains("lr0.1.svg") && command.contains("lr0.1.trace.json"), "{command}");
    open_dialog(&mut window, "Predictions");
    // As it was pasted, with a space after it.
    window.replace_text(Role::TextInput, "Export to", folder.join("lr0.1 ").display());
    assert!(window.has("will be replaced: lr0.1.svg"), "its whole name is looked up");
    window.choose("Format", "PNG, pixels");
    window.harness.get_by_label("Copy the command line").click();
    let command = window.copied().expect("a command on the clipboard");
    assert!(command.contains("lr0.1.png"), "the end of the name stays: {command}");
}

#[test]
fn a_long_name_of_an_image_is_shortened_until_its_figure_can_be_written() {
    let image = format!("{}.png", "é".repeat(120));
    let mut window = showing(&[Trace { image, ..small::planned() }]);
    open_dialog(&mut window, "Predictions");
    window.harness.get_by_label("Copy the command line").click();
    let command = window.copied().expect("a command on the clipboard");
    let names = || command.split(['/', '\\', '\'']).filter(|part| part.contains("é-sinkhorn-predictions"));
    assert!(names().count() == 2 && names().all(|name| name.len() <= 220), "{command}");
}

#[test]
fn one_file_is_written_at_a_time_and_an_animation_can_be_cancelled() {
    let (_outer, folder) = folder();
    let mut window = showing(&[small::planned()]);
    open_dialog(&mut window, "Evidence by position");
    let file = folder.join("evidence.gif");
    window.replace_text(Role::TextInput, "Export to", file.display());
    // So large that it takes seconds.
    window.click("Page");
    window.replace_text(Role::SpinButton, "Resolution", 1200);
    window.press(Modifiers::NONE, Key::Enter);
    window.harness.get_by_label("Export").click();
    let begins = |window: &mut Window| {
        window.harness.step();
        window.has("Writing…")
    };
    assert!((0..6).any(|_| begins(&mut window)));
    assert!(window.harness.get_by_label("Export").accesskit_node().is_disabled());
    window.click("Cancel");
    assert!(!window.has("Export to") && !file.exists());
}

#[test]
fn a_figure_from_a_comparison_keeps_the_limits_it_was_shown_with() {
    let (_outer, folder) = folder();
    let mut other: Trace = small::planned();
    let double = |values: &mut Option<Vec<f32>>| values.iter_mut().flatten().for_each(|v| *v *= 2.0);
    double(&mut other.evidence.position);
    double(&mut other.evidence.proxy);
    let mut window = showing(&[small::planned(), other]);
    window.resize(1440.0, 1500.0);
    window.click("Compare");
    open_dialog(&mut window, "Evidence by position");
    let (svg, command) = svg_both_ways(&mut window, &folder.join("evidence.svg"));
    // Its own evidence ends at 2.06 and -1.22, that of the column beside it at 4.12 and -2.44.
    assert!(svg.contains(">4<") && svg.contains(">−2<"), "the axis of both: {command}");
    assert!(command.contains(" --limits -2.44") && command.contains(" --proxy-limits -1.94"), "{command}");
    window.click("Export comparison…");
    let (svg, command) = svg_both_ways(&mut window, &folder.join("both.svg"));
    assert!(svg.contains(" width=\"174mm\"") && command.matches("--trace ").count() == 2, "{command}");
    assert!(!svg.contains("each on its own scale"), "one axis for both");
    window.click("Shared scales");
    window.click("Export comparison…");
    let (own, command) = svg_both_ways(&mut window, &folder.join("own.svg"));
    assert!(own.contains("each on its own scale") && command.contains(" --own-scales"), "{command}");
    let axes = |svg: &str| svg.matches(">Evidence (logit)<").count();
    assert_eq!((axes(&svg), axes(&own)), (1, 2), "the smaller evidence has an axis of its own");
}

/// A window of this height that compares two traces and shows differences from the second.
fn compared(traces: &[Trace; 2], height: f32) -> Window {
    let mut window = showing(traces);
    window.resize(1440.0, height);
    window.click("Compare");
    let second = window.state().columns.keys().nth(1).copied();
    for command in [Command::Pin(second), Command::SetDifference(true)] {
        window.harness.state_mut().dispatch(command);
    }
    window.harness.run();
    window
}

#[test]
fn differences_are_exported_as_they_are_shown() {
    let (_outer, folder) = folder();
    let mut other: Trace = Trace { probe: "softsort.safetensors".into(), ..small::planned() };
    other.evidence.position.iter_mut().flatten().for_each(|v| *v *= 2.0);
    let mut window = compared(&[other, small::planned()], 1500.0);
    assert!(window.has("Δ logit"), "the head of a column says what its number is");
    open_dialog(&mut window, "Evidence by position");
    let (svg, command) = svg_both_ways(&mut window, &folder.join("evidence.svg"));
    assert!(command.contains("--trace ") && command.contains(" --against "), "{command}");
    assert!(
        svg.contains("Difference (Δ) of softsort from sinkhorn") && svg.contains("Δ evidence (logit)"),
        "{command}"
    );
    window.click("Export comparison…");
    let (svg, command) = svg_both_ways(&mut window, &folder.join("both.svg"));
    assert!(command.contains(" --against 2 ") && svg.contains(">Δ evidence (logit)<"), "{command}");
    assert!(svg.contains(">Evidence (logit)<"), "the pinned column has its own scale");
    let all = window.harness.query_all_by_label("Evidence by position").map(|node| node.rect());
    let large = all.filter(|rect| rect.area() > 10_000.0);
    let pinned = large.max_by(|a, b| a.left().total_cmp(&b.left())).expect("the pinned column");
    window.click_at(pinned.center(), egui::PointerButton::Secondary);
    window.click("Export…");
    let (_, command) = svg_both_ways(&mut window, &folder.join("pinned.svg"));
    assert!(!command.contains("limits"), "so it has in the window: {command}");
}

#[test]
fn a_row_that_is_not_shown_is_not_exported() {
    let (_outer, folder) = folder();
    let mut window = showing(&[small::planned(), small::planned()]);
    window.harness.set_size(egui::vec2(1440.0, 1500.0));
    // Gradients were computed once, and are not any more.
    window.harness.state_mut().dispatch(Command::SetRows(["evidence", "gradient"].map(str::to_owned).into()));
    window.harness.run();
    window.click("Compare");
    window.click("Export comparison…");
    let (_, command) = svg_both_ways(&mut window, &folder.join("both.svg"));
    assert!(command.contains("--figure evidence ") && !command.contains("gradient"), "{command}");
}

#[test]
fn a_comparison_has_no_single_table_of_numbers() {
    let (_outer, folder) = folder();
    let mut window = compared(&[small::planned(), small::other()], 1500.0);
    window.click("Export comparison…");
    window.replace_text(Role::TextInput, "Export to", folder.join("both.csv").display());
    window.click("Export");
    window.until("why not", |window| window.has("numbers are written for one trace and one figure"));
    assert!(!folder.join("both.csv").exists());
}

#[test]
fn every_row_of_the_window_is_a_difference_once_one_is_asked_for() {
    let (_outer, folder) = folder();
    let mut window = compared(&[small::planned(), small::other()], 4000.0);
    // One row at a time: the picture of the first column is the difference.
    for (row, picture, said) in [
        ("Assignment matrix", "Assignment matrix", "Δ share"),
        ("Rank use", "Rank use", "Δ tokens"),
        ("Diagnostics", "Diagnostics of the plan", "Δ value"),
        ("Order test", "Order test", "Δ margin of crane over heron"),
        ("Memory kernel", "Memory kernel", "Δ measured"),
        ("Scores", "Token scores", "Δ score (standardised)"),
        ("Predictions", "Predictions", "Δ probability, in points"),
        ("Reading order", "Reading order", "Δ position"),
    ] {
        let chosen = row == "Reading order";
        if !chosen {
            rows(&mut window, row);
        }
        open_dialog(&mut window, picture);
        let path = folder.join(format!("{}.svg", row.to_lowercase().replace(' ', "-")));
        let (svg, command) = svg_both_ways(&mut window, &path);
        assert!(svg.contains(said) && command.contains(" --against "), "{row}: {command}");
        if !chosen {
            rows(&mut window, row);
        }
    }
}

/// Shows or hides a row of the comparison by its name above the columns.
fn rows(window: &mut Window, name: &str) {
    let named = window.harness.query_all_by_label(name).map(|node| node.rect());
    // Tabs of panes have the same names: they lie above or below.
    let place =
        named.filter(|rect| (60.0..200.0).contains(&rect.top())).max_by(|a, b| a.top().total_cmp(&b.top()));
    let place = place.expect("a row to choose").center();
    window.click_at(place, egui::PointerButton::Primary);
}

#[test]
fn a_page_too_narrow_for_its_columns_offers_rows_and_a_wider_page() {
    let mut window = showing(&[small::planned()]);
    window.harness.set_size(egui::vec2(1440.0, 1500.0));
    let probe = window.state().columns.values().next().expect("a column").probe;
    for _ in 0..3 {
        let change = Intervention::None;
        window.harness.state_mut().dispatch(Command::AddColumn { probe, image: None, change });
    }
    pointer::answer_explain(&mut window, &[small::planned()]);
    window.harness.run();
    window.click("Compare");
    window.click("Export comparison…");
    assert!(!window.has("Rows of 2") && !window.has("Rows of 3"), "a page is wide enough");
    window.click("Column");
    let rows = ["Rows of 2", "Rows of 3"].into_iter().find(|rows| window.has(rows)).expect("an offer");
    assert!(window.has("columns side by side need"));
    window.click(rows);
    assert!(!window.has("columns side by side need"), "rows fit");
    window.click("Page");
    assert!(window.has("more than a page (247 mm)"), "two rows of wide columns do not fit below each other");
    // Of a width that is being typed, nothing follows yet.
    window.replace_text(Role::SpinButton, "Width", 4);
    assert!(!window.has("columns side by side need"));
    window.type_text("0");
    window.press(Modifiers::NONE, Key::Enter);
    assert!(window.has("columns side by side need") && window.has("on 40 mm"));
}

#[test]
fn what_brings_its_own_data_is_drawn_the_same_by_the_copied_command() {
    let (_outer, folder) = folder();
    let mut window = showing(&[small::planned()]);
    evaluation::open_evaluated(&mut window);
    for (pane, title) in [
        ("confusion", "Confusion matrix"),
        ("scatter", "Scatter of two measures"),
        ("class_diagnostics", "Measure by class"),
        ("routing_maps", "Routing by class"),
    ] {
        window.show(pane);
        open_dialog(&mut window, title);
        let (svg, command) = svg_both_ways(&mut window, &folder.join(format!("{pane}.svg")));
        assert!(
            svg.contains(" width=\"85mm\"") && command.contains(&format!("--figure {pane}")),
            "{command}"
        );
    }
}
