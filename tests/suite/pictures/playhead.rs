//! The playhead, the current step of the reading: marked in every picture with positions, in the window while it is
//! scrubbed, and frame by frame in an animation.

use std::path::Path;
use std::time::Duration;

use eframe::egui::{self, Key, Modifiers};
use image::codecs::gif::GifDecoder;
use image::{AnimationDecoder, Frame};
use ssmprobe::viz::Rows;
use ssmprobe::viz::draw::color32;
use ssmprobe::viz::figures::trace_plot::TracePlot;

use super::pointer::{painted, showing};
use super::prelude::*;
use crate::run::{assert_ends, done, program};

/// The tips of the pointers: the corner apart from the other two.
fn tips(marks: &Marks, theme: &Theme) -> Vec<Point> {
    marks.areas(theme.playhead()).into_iter().map(|corners| corners[2]).collect()
}

/// The frames of the playhead's colour.
fn frames(marks: &Marks, theme: &Theme) -> Vec<Box2> {
    let frame = |shape: &Shape| match shape {
        Shape::Rect { rect, stroke: Some(stroke), .. } if stroke.color == theme.playhead() => Some(*rect),
        _ => None,
    };
    marks.items.iter().filter_map(|item| frame(&item.shape)).collect()
}

#[test]
fn the_token_read_last_is_marked_in_evidence_kernel_matrix_and_path() {
    let trace = small::planned();
    let order = small::sorted(small::mean_positions());
    for theme in looks() {
        // A step beyond the reading, as of one with more tokens, is its last.
        for step in [1, 5, N, N + 3] {
            let options = Options { step: Some(step), rows: Rows::Raster, ..Options::default() };
            let k = step.min(N) - 1;
            let evidence = drawn("evidence", &trace, &options, &theme);
            let found = tips(&evidence, &theme);
            assert_eq!(found.len(), 2, "exact and by the proxy");
            for (panel, tip) in found.iter().enumerate() {
                let axes = evidence.axes(panel);
                assert!(
                    near(tip[0], axes.x.at(k as f64)) && axes.area.contains(*tip),
                    "step {step}: {tip:?}"
                );
            }
            let kernel = drawn("kernel", &trace, &options, &theme);
            let [tip] = tips(&kernel, &theme)[..] else { panic!("one pointer") };
            assert!(near(tip[0], kernel.axes(0).x.at((N - 1 - k) as f64)), "what the end keeps of it");
            let matrix = drawn("assignment", &trace, &options, &theme);
            let area = matrix.rasters(N, N)[0].0;
            let [across, down] = [k, order[k]].map(|at| (at as f32 + 0.5) / N as f32);
            let [row, column] = tips(&matrix, &theme)[..] else { panic!("a row and a column") };
            assert!(near(column[0], area.x + across * area.w) && near(row[1], area.y + down * area.h));
            let path = drawn("scan_path", &trace, &options, &theme);
            let [patch] = frames(&path, &theme)[..] else { panic!("one patch") };
            let place = path.rasters(GRID.cols, GRID.rows)[0].0;
            let [x, y] = middle(place, GRID, order[k]);
            assert!(near(patch.center()[0], x) && near(patch.center()[1], y), "step {step}");
        }
        for step in [None, Some(0)] {
            let options = Options { step, ..Options::default() };
            for id in ["evidence", "kernel", "assignment"] {
                assert_eq!(
                    tips(&drawn(id, &trace, &options, &theme), &theme),
                    [[0.0; 2]; 0],
                    "{id} {step:?}"
                );
            }
        }
        // Two sweeps read two tokens at once: there is one position, but no single token.
        let options = Options { step: Some(4), ..Options::default() };
        let swept = drawn("evidence", &small::swept(), &options, &theme);
        assert!(near(tips(&swept, &theme)[0][0], swept.axes(0).x.at(3.0)));
        assert_eq!(frames(&drawn("scan_path", &small::swept(), &options, &theme), &theme).len(), 0);
    }
}

#[test]
fn a_reading_without_a_memory_moves_only_where_its_sweeps_are_one() {
    let steps = |trace| {
        let trace = Arc::new(Trace { kernel: None, other_kernels: Vec::new(), ..trace });
        TracePlot::new(find("scan_path").expect("a figure"), &trace, Options::default()).steps()
    };
    assert_eq!((steps(small::planned()), steps(small::swept())), (N, 0));
}

#[test]
fn a_position_too_thin_for_two_edges_is_one_line_through_its_plot() {
    let trace = crate::traces::sinkhorn_trace();
    let n = trace.grid.len();
    for theme in looks() {
        let options = Options { step: Some(40), ..Options::default() };
        let marks = drawn("kernel", &trace, &options, &theme);
        let axes = marks.axes(0);
        let [line] = marks.lines(theme.playhead(), 2)[..] else { panic!("one line") };
        let x = axes.x.at((n - 40) as f64);
        assert!(line.iter().all(|point| near(point[0], x)), "{line:?}, not at {x}");
        assert!(near((line[1][1] - line[0][1]).abs(), axes.area.h), "from top to bottom");
    }
}

/// The screen positions of the tips of the pointers of this colour.
fn pointers(output: &egui::FullOutput, color: Color) -> Vec<egui::Pos2> {
    fn collect(shape: &egui::Shape, color: egui::Color32, found: &mut Vec<egui::Pos2>) {
        match shape {
            egui::Shape::Vec(shapes) => shapes.iter().for_each(|shape| collect(shape, color, found)),
            egui::Shape::Mesh(mesh) if mesh.vertices.len() == 3 && mesh.vertices[0].color == color => {
                found
                    .extend(mesh.vertices.iter().map(|vertex| vertex.pos).max_by(|a, b| a.y.total_cmp(&b.y)));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    output.shapes.iter().for_each(|shape| collect(&shape.shape, color32(color), &mut found));
    found
}

#[test]
fn in_the_window_the_keys_of_a_player_move_the_step_in_every_figure() {
    let mut window = showing(&[small::planned()]);
    window.show("evidence");
    let theme = if window.harness.ctx.theme() == egui::Theme::Dark { Theme::dark() } else { Theme::light() };
    assert_eq!(pointers(window.harness.output(), theme.playhead()), [], "all of it is read");
    for _ in 0..4 {
        window.press(Modifiers::NONE, Key::Period);
    }
    window.press(Modifiers::NONE, Key::Comma);
    assert_eq!(window.state().views.step(), Some(3));
    assert!(window.state().undo_text().is_some());
    let figure = window.place("Evidence by position");
    let texts = painted(window.harness.output());
    let tick = |number: &str| {
        let own = texts.iter().filter(|(text, seen, _)| text == number && figure.contains_rect(*seen));
        own.map(|(.., whole)| whole.center()).max_by(|a, b| a.y.total_cmp(&b.y)).expect("a tick").x
    };
    let expected = tick("0") + (tick("11") - tick("0")) * 2.0 / 11.0;
    let found = pointers(window.harness.output(), theme.playhead());
    let inside: Vec<_> = found.iter().filter(|tip| figure.contains(**tip)).collect();
    assert_eq!(inside.len(), 2, "both panels: {found:?}");
    assert!(inside.iter().all(|tip| (tip.x - expected).abs() < 1.5), "{inside:?}, not {expected}");
    for _ in 0..N - 3 {
        window.press(Modifiers::NONE, Key::Period);
    }
    assert_eq!(window.state().views.step(), None, "the end is no step");
}

fn animation(path: &Path) -> Vec<Frame> {
    let file = std::io::BufReader::new(std::fs::File::open(path).expect("a file"));
    GifDecoder::new(file).expect("a GIF").into_frames().collect_frames().expect("frames")
}

/// Largest change of a frame's colour by a palette of 256 colours and smoothing.
const SHIFTED: u8 = 60;

#[test]
fn frame_k_of_a_reading_marks_the_kth_token_that_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = serde_json::to_vec(&small::planned()).expect("JSON");
    std::fs::write(folder.path().join("t.json"), trace).expect("written");
    let figures = |more: &[&str]| {
        let mut command = program();
        command.current_dir(folder.path()).args(["figures", "--trace", "t.json"]).args(more);
        command
    };
    done(&mut figures(&["--figure", "scan_path", "--out", "reading.gif", "--stills", "3"]));
    let frames = animation(&folder.path().join("reading.gif"));
    assert_eq!(frames.len(), N, "a frame a token");
    let delays: Vec<Duration> = frames.iter().map(|frame| frame.delay().into()).collect();
    assert_eq!(delays[..N - 1], [Duration::from_millis(500); N - 1]);
    assert_eq!(delays[N - 1], Duration::from_secs(2), "the last one stays longer");
    let theme = Theme::print();
    let order = small::sorted(small::mean_positions());
    let scale = 150.0 / 72.0;
    for (k, frame) in frames.iter().enumerate() {
        let picture = frame.buffer();
        assert_eq!(picture.width(), 502, "85 mm at 150 dots an inch");
        let options = Options { step: Some(k + 1), ..Options::default() };
        let place =
            drawn("scan_path", &small::planned(), &options, &theme).rasters(GRID.cols, GRID.rows)[0].0;
        let (w, h) = (place.w / GRID.cols as f32, place.h / GRID.rows as f32);
        // The middles of all four sides: neighbouring patches share one.
        let framed = |token: usize| {
            let [x, y] = middle(place, GRID, token);
            let sides = [[x - w / 2.0, y], [x + w / 2.0, y], [x, y - h / 2.0], [x, y + h / 2.0]];
            sides.iter().all(|[x, y]| {
                let [r, g, b, a] = picture.get_pixel((x * scale) as u32, (y * scale) as u32).0;
                apart(Color { r, g, b, a }, theme.playhead()) <= SHIFTED
            })
        };
        let marked: Vec<usize> = (0..N).filter(|token| framed(*token)).collect();
        assert_eq!(marked, [order[k]], "frame {k}");
    }
    // The stills are the same pictures, larger.
    for step in ["04", "08", "12"] {
        let still = image::open(folder.path().join(format!("reading-step-{step}.png"))).expect("a still");
        assert_eq!(still.width(), 1004, "85 mm at 300 dots an inch");
    }
    done(&mut figures(&["--figure", "scan_path", "--out", "page.svg", "--stills", "2"]));
    let still = std::fs::read_to_string(folder.path().join("page-step-06.svg")).expect("a still");
    assert!(still.contains("Memory after 6 of 12 steps"));
    done(&mut figures(&["--figure", "scan_path", "--out", "again.gif"]));
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).expect("a file");
    assert!(bytes("reading.gif") == bytes("again.gif"), "the same input gives the same bytes");
    assert!(bytes("reading.gif").windows(8).any(|part| part == b"pond.png"), "what it was made of");
    // Several figures are animated together; one without steps is not.
    done(&mut figures(&["--figure", "scan_path", "--figure", "evidence", "--out", "both.gif"]));
    assert!(animation(&folder.path().join("both.gif"))[0].buffer().height() > frames[0].buffer().height());
    assert_ends(&mut figures(&["--figure", "photo", "--out", "photo.gif"]), 1, &["step by step"]);
    assert_ends(
        &mut figures(&["--figure", "kernel", "--out", "kernel.csv", "--stills", "2"]),
        2,
        &["--stills: only pictures"],
    );
}
