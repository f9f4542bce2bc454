//! Exported files have the requested width, pixels and limits, and the numbers of the trace.

use std::path::Path;

use ssmprobe::viz::FIGURES;
use ssmprobe::viz::draw::table::{Column, Table};

use super::small::{
    self, BEST, EXACT, EXACT_RASTER, KERNEL, N, PROXY, PROXY_RASTER, SCORES, SECOND, SWEEPS, TOKEN_EVIDENCE,
    USED, WEIGHTS,
};
use crate::close::assert_close;
use crate::html::between;
use crate::run::{done, program};

/// A folder with the small trace.
fn stored() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let text = serde_json::to_vec(&small::planned()).expect("text");
    std::fs::write(folder.path().join("pond.json"), text).expect("written");
    folder
}

fn export(folder: &Path, figure: &str, out: &str, more: &[&str]) -> Vec<u8> {
    let mut command = program();
    command.current_dir(folder).args(["figures", "--trace", "pond.json", "--figure", figure, "--out", out]);
    done(command.args(more));
    std::fs::read(folder.join(out)).expect("a file")
}

/// Width and height of an SVG in mm.
fn svg_size(svg: &str) -> [f64; 2] {
    let head = between(svg, "<svg ", ">");
    ["width=\"", "height=\""].map(|name| between(head, name, "mm\"").parse().expect("mm"))
}

#[test]
fn every_format_has_the_size_that_was_asked() {
    let folder = stored();
    for (mm, dpi) in [(85.0, 300.0), (60.0, 96.0), (174.0, 150.0)] {
        let (width, dots) = (format!("{mm}"), format!("{dpi}"));
        let more = ["--width", &width, "--dpi", &dots];
        let svg = String::from_utf8(export(folder.path(), "assignment", "a.svg", &more)).expect("text");
        let [wide, high] = svg_size(&svg);
        assert_close("mm of the SVG", wide, mm, 2e-3);
        let view: Vec<f64> =
            between(&svg, "viewBox=\"", "\"").split(' ').map(|v| v.parse().expect("points")).collect();
        assert_close("points of the SVG", view, [0.0, 0.0, wide / 25.4 * 72.0, high / 25.4 * 72.0], 5e-3);
        let png = export(folder.path(), "assignment", "a.png", &more);
        let picture = image::load_from_memory(&png).expect("a picture");
        let pixels = [wide, high].map(|mm| (mm / 25.4 * dpi).round());
        assert_close("pixels of the PNG", [picture.width(), picture.height()], pixels, 0.0);
        let metre = png.windows(4).position(|name| name == b"pHYs").expect("its resolution");
        let metre = u32::from_be_bytes(png[metre + 4..metre + 8].try_into().expect("four bytes"));
        assert_close("dots a metre", metre, (dpi / 0.0254).round(), 0.0);
        let pdf = export(folder.path(), "assignment", "a.pdf", &more);
        let page = String::from_utf8_lossy(&pdf).into_owned();
        let page = between(&page, "/MediaBox[", "]").split_whitespace();
        let page: Vec<f64> = page.map(|v| v.parse().expect("points")).collect();
        assert_close("points of the PDF", page, [0.0, 0.0, wide / 25.4 * 72.0, high / 25.4 * 72.0], 0.02);
    }
}

/// The numbers written in an SVG, each with its x and y.
fn numbers(svg: &str) -> Vec<(f64, [f64; 2])> {
    let number = |part: &str| {
        let (head, rest) = part.split_once('>')?;
        let value = rest.split_once('<')?.0.replace('−', "-").parse().ok()?;
        let place = |name: &str| between(head, name, "\"").parse().ok();
        Some((value, [place("x=\"")?, place("y=\"")?]))
    };
    svg.split("<text ").skip(1).filter_map(number).collect()
}

#[test]
fn limits_that_are_set_are_those_of_the_file() {
    let folder = stored();
    let drawn =
        |more: &[&str]| String::from_utf8(export(folder.path(), "evidence", "e.svg", more)).expect("text");
    let (own, set) = (drawn(&[]), drawn(&["--limits", "-200:100", "--proxy-limits", "-20:40"]));
    let has = |svg: &str, v: f64| numbers(svg).iter().any(|(number, _)| *number == v);
    for v in [-200.0, 100.0, -20.0, 40.0] {
        assert!(has(&set, v) && !has(&own, v), "{v}");
    }
    let place = |v: f64| numbers(&set).iter().find(|(number, _)| *number == v).expect("a tick").1[1];
    assert!(place(-200.0) > place(100.0) && place(-20.0) > place(40.0), "upwards");
    assert!(place(-20.0) > place(-200.0), "the proxy's are those of the lower panel");
    // Every digit of a limit counts.
    let narrow = drawn(&["--limits", "-1.2200000286102295:2.059999942779541"]);
    assert_eq!(narrow, own, "the limits of its own values change nothing");
}

#[test]
fn settings_that_are_given_are_those_of_the_file() {
    let folder = stored();
    let cases: [(&str, &[&str]); 7] = [
        ("assignment", &["--map", "viridis"]),
        ("assignment", &["--log"]),
        ("assignment", &["--rows", "raster"]),
        ("photo", &["--opacity", "0.25"]),
        ("photo", &["--grid"]),
        ("photo", &["--regions"]),
        ("scan_path", &["--step", "3"]),
    ];
    let mut seen = std::collections::HashSet::new();
    for (figure, more) in cases {
        let usual = export(folder.path(), figure, "a.svg", &[]);
        let other = export(folder.path(), figure, "b.svg", more);
        assert!(usual != other && seen.insert(other), "{figure} {more:?}");
    }
    let text =
        String::from_utf8(export(folder.path(), "scan_path", "a.svg", &["--step", "3"])).expect("text");
    assert!(text.contains("Memory after 3 of 12 steps"));
    let text =
        String::from_utf8(export(folder.path(), "assignment", "a.svg", &["--rows", "score"])).expect("text");
    assert!(text.contains("Token (by score)"));
}

/// The numbers of a table's column.
#[track_caller]
fn column(table: &Table, name: &str) -> Vec<f64> {
    let found = table.columns.iter().find(|(found, _)| found == name);
    match found.unwrap_or_else(|| panic!("no {name}")) {
        (_, Column::Numbers(values)) => values.clone(),
        (_, Column::Words(words)) => panic!("{name} holds {words:?}"),
    }
}

#[test]
fn the_numbers_behind_a_figure_are_those_of_the_trace() {
    let trace = small::planned();
    let wide = |values: [f32; N]| values.map(f64::from);
    let counted: [f64; N] = std::array::from_fn(|at| at as f64);
    let order = small::sorted(small::mean_positions()).map(|i| i as f64);
    for figure in FIGURES {
        let table = figure.table(&trace);
        let expected: &[(&str, [f64; N])] = match figure.id() {
            "photo" => &[
                ("row", std::array::from_fn(|i| (i / 4) as f64)),
                ("column", std::array::from_fn(|i| (i % 4) as f64)),
                ("token_weight", wide(WEIGHTS)),
            ],
            "token_map" => &[("token", counted), ("evidence", wide(TOKEN_EVIDENCE))],
            "gradient" => &[("token", counted), ("gradient", wide(small::GRADIENT))],
            "integrated" => &[("token", counted), ("integrated", wide(small::INTEGRATED))],
            "rollout" => &[("token", counted), ("rollout", wide(small::ROLLOUT))],
            "scan_path" => &[("step", counted), ("token_0", order)],
            "assignment" => &[
                ("score", wide(SCORES)),
                ("best_position", BEST.map(|k| k as f64)),
                ("expected_position", small::mean_positions()),
            ],
            "ranks" => &[("position", counted), ("tokens", USED.map(|used| used as f64))],
            "kernel" => &[
                ("steps_before_end", counted),
                ("radius_power", std::array::from_fn(|j| f64::from(0.9f32).powi(j as i32))),
            ],
            "evidence" => &[
                ("exact", wide(EXACT)),
                ("exact_raster", wide(EXACT_RASTER)),
                ("proxy", wide(PROXY)),
                ("proxy_raster", wide(PROXY_RASTER)),
            ],
            "scores" => &[("token", counted), ("score", wide(SCORES))],
            "diagnostics" | "predictions" | "order_test" | "regions" => &[],
            id => panic!("what are the numbers behind {id}?"),
        };
        for (name, values) in expected {
            assert_close(format!("{} {name}", figure.id()), column(&table, name), values, 1e-9);
        }
        match figure.id() {
            "assignment" => {
                let plan = table.matrix.expect("the plan").1;
                let shares: Vec<f32> = (0..N * N).map(|at| small::share(at / N, at % N)).collect();
                assert_close("the plan", ([plan.rows, plan.cols], plan.data), ([N, N], shares), 0.0);
            }
            "kernel" => {
                assert_close("the kernel", &table.matrix.expect("it").1.data, KERNEL, 0.0);
                // One column per sweep.
                let both = figure.table(&small::swept()).matrix.expect("the kernels").1;
                let pairs: Vec<f32> = KERNEL.iter().zip(SECOND).flat_map(|(a, b)| [*a, b]).collect();
                assert_close("both kernels", ([both.rows, both.cols], both.data), ([N, 2], pairs), 0.0);
            }
            "scan_path" => {
                let both = figure.table(&small::swept());
                let sweeps = [column(&both, "token_0"), column(&both, "token_1")];
                assert_close("both sweeps", sweeps, SWEEPS, 0.0);
            }
            "regions" => {
                assert_close("tokens", column(&table, "tokens"), [1.0, 3.0, 2.0, 0.0], 0.0);
                assert_close("evidence", &column(&table, "evidence")[..3], [0.73, -0.2, 1.33], 1e-6);
                let before = table.matrix.expect("which before which").1;
                assert_eq!([before.rows, before.cols], [4, 4]);
                let tokens: [&[usize]; 3] = [&[5], &[4, 8, 9], &[3, 7]];
                let row = |i: usize| -> Vec<f64> {
                    let shares: Vec<f64> = (0..N).map(|k| f64::from(small::share(i, k))).collect();
                    let sum: f64 = shares.iter().sum();
                    shares.into_iter().map(|share| share / sum).collect()
                };
                for (a, b) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
                    let pairs =
                        tokens[a].iter().flat_map(|i| tokens[b].iter().map(move |j| (row(*i), row(*j))));
                    let shares: Vec<f64> = pairs
                        .map(|(p, q)| (0..N).map(|k| p[k] * q[k + 1..].iter().sum::<f64>()).sum())
                        .collect();
                    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
                    assert_close("before", f64::from(before.data[4 * a + b]), mean, 1e-6);
                }
                assert!(before.data[3].is_nan() && before.data[12].is_nan(), "the nape has no token");
            }
            "diagnostics" => {
                assert_close("values", column(&table, "value"), [0.75, 0.8, 0.167, 0.111], 0.0);
                assert_close("low ends", column(&table, "null_p05"), [0.5, 0.85, 0.1, -0.075], 0.0);
                assert_close("high ends", column(&table, "null_p95"), [0.625, 0.95, 0.3, 0.079], 0.0);
                assert_close("untrained", column(&table, "untrained_p95"), [0.7, 0.9, 0.45, 0.48], 0.0);
            }
            "predictions" => {
                assert_close("classes", column(&table, "index"), [3.0, 1.0, 4.0, 0.0, 6.0], 0.0);
                assert_close("shares", column(&table, "probability"), [0.46, 0.21, 0.13, 0.08, 0.05], 1e-6);
            }
            _ => {}
        }
    }
}
