//! Every figure of every trace in every theme: drawn, exported, painted.

use std::sync::{Arc, OnceLock};

use eframe::egui;
use egui_kittest::Harness;
use resvg::usvg;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::trace::{Matrix, Reading, Routing, Trace};
use ssmprobe::viz::difference;
use ssmprobe::viz::draw::paint::Canvas;
use ssmprobe::viz::draw::scene::{Box2, Hover, Identity, Item, Scene, Shape};
use ssmprobe::viz::draw::table::Table;
use ssmprobe::viz::draw::theme::Theme;
use ssmprobe::viz::figures::plot::Plot as _;
use ssmprobe::viz::figures::trace_plot::TracePlot;
use ssmprobe::viz::{COLUMN, Empty, FIGURES, Figure, Options, SharedLimits, export, find};

use crate::pictures::{draw_column, side_by_side};
use crate::{npz, traces};

fn all() -> &'static [Trace] {
    static TRACES: OnceLock<Vec<Trace>> = OnceLock::new();
    TRACES.get_or_init(traces::all)
}

fn column(id: &str, trace: &Trace, options: &Options) -> Result<Scene, Empty> {
    draw_column(find(id).unwrap(), trace, options, &Theme::light(), COLUMN)
}

fn parse(svg: &str) -> usvg::Tree {
    usvg::Tree::from_str(svg, &usvg::Options::default()).expect("usvg reads every SVG we write")
}

/// Attributes of an SVG that hold NaN or infinity; the encoded data of embedded images is skipped.
fn no_numbers(svg: &str) -> Vec<&str> {
    let none =
        |part: &&str| part.contains("NaN") || part.split(|c: char| !c.is_alphanumeric()).any(|w| w == "inf");
    svg.split(['"', '<', '>']).filter(|part| !part.starts_with("data:")).filter(none).collect()
}

#[test]
fn every_figure_of_every_trace_is_drawn_or_says_why_not() {
    for theme in [Theme::light(), Theme::dark(), Theme::print()] {
        for trace in all() {
            for figure in FIGURES {
                let name = format!("{}-{}{}", figure.id(), trace.head, if theme.dark { "-dark" } else { "" });
                match draw_column(*figure, trace, &Options::default(), &theme, COLUMN) {
                    Ok(scene) => {
                        assert!(!scene.items.is_empty(), "{name} is blank");
                        let svg = export::svg(&scene, &name);
                        assert_eq!(no_numbers(&svg), [""; 0], "{name} has places that are none");
                        assert!(svg.contains("<text "), "{name} names nothing");
                        assert_eq!(svg, export::svg(&scene, &name), "{name} is not the same twice");
                        let tree = parse(&svg);
                        assert!(
                            (tree.size().width() - COLUMN * 96.0 / 72.0).abs() < 0.1,
                            "{name} has a wrong width"
                        );
                    }
                    Err(Empty(why)) => assert!(why.contains(' ') && why.len() < 200, "{name}: {why}"),
                }
            }
        }
    }
}

#[test]
fn the_narrowest_figures_are_drawn_too() {
    for (trace, figure) in all().iter().flat_map(|trace| FIGURES.iter().map(move |figure| (trace, *figure))) {
        let drawn = |width| draw_column(figure, trace, &Options::default(), &Theme::light(), width).is_ok();
        assert_eq!(drawn(export::points(20.0)), drawn(COLUMN), "{} of {}", figure.id(), trace.head);
    }
}

#[test]
fn each_head_shows_what_it_has() {
    let shown = |trace: &Trace| -> Vec<&str> {
        let drawn = |f: &&&'static dyn Figure| {
            draw_column(**f, trace, &Options::default(), &Theme::light(), COLUMN).is_ok()
        };
        FIGURES.iter().filter(drawn).map(|f| f.id()).collect()
    };
    assert_eq!(shown(&traces::sinkhorn_trace()).len(), FIGURES.len());
    assert_eq!(
        shown(&traces::vmamba_trace()),
        ["photo", "token_map", "scan_path", "kernel", "evidence", "predictions"]
    );
    assert_eq!(shown(&traces::gap_trace()), ["photo", "token_map", "predictions"]);
    assert_eq!(shown(&traces::transformer_trace()), ["photo", "predictions"]);
    let why = column("scan_path", &traces::gap_trace(), &Options::default()).unwrap_err();
    assert_eq!(why.0, "gap reads no order");
}

#[test]
fn any_step_of_a_reading_is_drawn() {
    for step in [0, 1, 196, usize::MAX] {
        column("scan_path", &all()[0], &Options { step: Some(step), ..Options::default() }).unwrap();
    }
}

#[test]
fn broken_traces_are_refused_in_words() {
    let whole = traces::sinkhorn_trace();
    let breaks: [fn(&mut Trace); 8] = [
        |t| t.grid.rows = 0,
        |t| t.grid.rows = usize::MAX,
        |t| t.scores.as_mut().unwrap().truncate(3),
        |t| t.routing = Routing::Orders(vec![vec![0; 196]]),
        |t| t.routing = Routing::Plan(Matrix { rows: 196, cols: 196, data: vec![0.0; 5] }),
        |t| t.kernel = Some(Matrix { rows: 196, cols: 0, data: vec![] }),
        |t| t.other_kernels = vec![Matrix { rows: 196, cols: 1, data: vec![0.0; 195] }],
        |t| t.seen.height = 7,
    ];
    for (i, spoil) in breaks.iter().enumerate() {
        let mut trace = whole.clone();
        spoil(&mut trace);
        for figure in FIGURES {
            let refused = draw_column(*figure, &trace, &Options::default(), &Theme::light(), COLUMN);
            assert!(refused.is_err(), "{} draws the broken trace {i}", figure.id());
        }
    }
}

#[test]
fn numbers_that_are_none_are_not_drawn() {
    let mut trace = traces::sinkhorn_trace();
    let nan = f32::NAN;
    trace.scores.as_mut().unwrap()[3] = nan;
    trace.token_weight.as_mut().unwrap()[3] = f32::INFINITY;
    trace.evidence.position.as_mut().unwrap()[3] = nan;
    trace.evidence.token.as_mut().unwrap().fill(nan);
    trace.kernel.as_mut().unwrap().data[4] = nan;
    if let Routing::Plan(plan) = &mut trace.routing {
        plan.data[..400].fill(nan);
    }
    trace.diagnostics[0].value = f64::NAN;
    trace.top[0].probability = nan;
    let mut drawn = Vec::new();
    for figure in FIGURES {
        if let Ok(scene) = draw_column(*figure, &trace, &Options::default(), &Theme::light(), COLUMN) {
            let svg = export::svg(&scene, "");
            assert_eq!(no_numbers(&svg), [""; 0], "{}", figure.id());
            parse(&svg);
            drawn.push(figure.id());
        }
    }
    assert_eq!(drawn, FIGURES.iter().map(|figure| figure.id()).collect::<Vec<_>>());
}

#[test]
fn numbers_that_are_none_are_found_in_a_picture() {
    let picture = r#"<image href="data:image/png;base64,NaNinf/inf+"/>"#;
    assert_eq!(
        no_numbers(&format!("<svg><path d=\"M 0,1\"/>{picture}<text>information</text></svg>")),
        [""; 0]
    );
    for broken in
        [r#"<path d="M10,NaN"/>"#, r#"<rect width="-inf"/>"#, "<text>NaN %</text>", "<text>inf</text>"]
    {
        assert_eq!(no_numbers(&format!("<svg>{picture}{broken}</svg>")).len(), 1, "{broken}");
    }
}

#[test]
fn one_token_is_enough() {
    let mut trace = traces::gap_trace();
    trace.grid = ssmprobe::model::grid::Grid::new(1, 1);
    trace.token_weight = Some(vec![1.0]);
    trace.scores = Some(vec![0.0]);
    trace.evidence.token = Some(vec![0.5]);
    trace.evidence.position = Some(vec![0.5]);
    trace.kernel = Some(Matrix { rows: 1, cols: 1, data: vec![1.0] });
    trace.routing = Routing::Plan(Matrix { rows: 1, cols: 1, data: vec![1.0] });
    let mut drawn = Vec::new();
    for figure in FIGURES {
        if let Ok(scene) = draw_column(*figure, &trace, &Options::default(), &Theme::light(), COLUMN) {
            assert_eq!(no_numbers(&export::svg(&scene, "")), [""; 0], "{}", figure.id());
            drawn.push(figure.id());
        }
    }
    let expected = ["photo", "token_map", "scan_path", "assignment", "ranks", "kernel"].into_iter();
    let expected = expected.chain(["evidence", "scores", "predictions"]);
    assert_eq!(drawn, expected.collect::<Vec<_>>(), "all but the diagnostics, which it has none of");
}

#[test]
fn in_a_comparison_an_empty_cell_says_why() {
    let (gap, figures) = (traces::gap_trace(), [find("scan_path").unwrap()]);
    let drawn = |traces: &[&Trace]| {
        let options = Options::default();
        side_by_side(traces, &figures, &options).draw_column(&Theme::light(), export::points(174.0))
    };
    assert!(export::svg(&drawn(&[&all()[0], &gap]).unwrap(), "").contains("gap reads no order"));
    assert!(drawn(&[]).is_err());
}

#[test]
fn the_proxy_of_evidence_shares_its_limits_too() {
    let (one, mut other) = (all()[0].clone(), all()[0].clone());
    let grow = |values: &mut Option<Vec<f32>>| values.iter_mut().flatten().for_each(|v| *v *= 3.0);
    grow(&mut other.evidence.proxy);
    let figure = find("evidence").unwrap();
    let limits = SharedLimits::new(figure, [&one, &other].into_iter());
    assert_eq!(limits.values, figure.limits(&one), "the exact panel is the same in both");
    assert_eq!(limits.proxy, figure.proxy_limits(&other));
    let drawn = |limits: SharedLimits| {
        let scene = column("evidence", &one, &Options::default().within(limits)).unwrap();
        export::svg(&scene, "")
    };
    let alone = drawn(SharedLimits::default());
    assert_ne!(alone, drawn(limits));
    assert_eq!(alone, drawn(SharedLimits { proxy: figure.proxy_limits(&one), ..limits }));
    // The same in a comparison: every column is drawn with the limits that all of them need.
    let compared = |options: &Options| {
        side_by_side(&[&one, &other], &[figure], options).draw_column(&Theme::print(), 400.0).unwrap()
    };
    let both = compared(&Options::default());
    let set = Options::default().within(limits);
    let said = compared(&set);
    assert_eq!(export::svg(&both, ""), export::svg(&said, ""));
    assert!(alone.contains("In raster order"));
}

#[test]
fn untrained_scorers_without_a_band_are_a_tick() {
    let mut older = all()[0].clone();
    older.diagnostics.values_mut().for_each(|one| one.untrained_band = None);
    let svg = export::svg(&column("diagnostics", &older, &Options::default()).unwrap(), "");
    assert!(svg.contains("Untrained") && !svg.contains("Untrained, 5"));
}

#[test]
fn a_picture_of_too_many_pixels_is_refused() {
    // At most 16,384 pixels each way: too wide alone is too large, and so is too high alone.
    for (width, height) in [(20_000.0, 10.0), (10.0, 20_000.0)] {
        let strip = export::png(&Scene::new(width, height, "strip", None), "", 72.0);
        assert!(matches!(strip, Err(export::ExportError::Large { .. })), "{width} x {height}");
    }
}

#[test]
fn text_is_set_in_the_typeface_that_was_measured() {
    // The converters have one typeface: it must be the one that the layout measured.
    use ssmprobe::viz::draw::font;
    let words = "Position (last is read last) 0.05 −";
    let svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='400' height='20'><text y='15' font-family='{}' font-weight='{}' font-size='10'>{words}</text></svg>",
        font::FAMILY,
        font::WEIGHT
    );
    let mut options = usvg::Options::default();
    options.fontdb_mut().load_font_data((*font::file()).as_ref().to_vec());
    let tree = usvg::Tree::from_str(&svg, &options).unwrap();
    let width = tree.root().abs_bounding_box().width();
    assert!((width - font::width(words, 10.0)).abs() < 3.0, "{width} against {}", font::width(words, 10.0));
}

#[test]
fn tables_are_written_as_csv_and_npz() {
    let trace = &all()[0];
    for figure in FIGURES {
        let table = figure.table(trace);
        let csv = String::from_utf8(export::csv(&table, figure.title(), "x").unwrap()).unwrap();
        assert_eq!(csv.lines().count(), 3 + 1 + table.rows(), "{}", figure.id());
        assert!(table.rows() > 0, "{} has no numbers", figure.id());
    }
    let table = find("assignment").unwrap().table(trace);
    let csv = String::from_utf8(export::csv(&table, "Plan", "a #1.png\nthrough p").unwrap()).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let says = format!("# title: Plan\n# made of: a #1.png through p\n# made by: SSMProbe {version}\n");
    let rest = csv.strip_prefix(&says).unwrap();
    assert!(rest.starts_with("token,score,best_position,expected_position,plan_0,plan_1,"));
    // A reader that skips comments still gets every row, also text with a #.
    let odd = Table::default()
        .words("class", ["#1 \"crow\"", "a # b", "c"].map(str::to_owned))
        .numbers("n", [1., 2., 3.]);
    let csv = export::csv(&odd, "t", "a").unwrap();
    assert!(String::from_utf8_lossy(&csv).contains("\"a # b\",2"));
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(&csv[..]);
    assert_eq!(reader.headers().unwrap(), vec!["class", "n"]);
    let words: Vec<String> = reader.records().map(|row| row.unwrap()[0].to_owned()).collect();
    assert_eq!(words, ["#1 \"crow\"", "a # b", "c"]);
    let made_of = "birds é through p";
    let bytes = export::npz(&table, "Plan", made_of).unwrap();
    assert_eq!(bytes, export::npz(&table, "Plan", made_of).unwrap());
    let mut raw = zip::ZipArchive::new(std::io::Cursor::new(&bytes)).unwrap();
    let mut metadata = Vec::new();
    std::io::Read::read_to_end(&mut raw.by_name("metadata.npy").unwrap(), &mut metadata).unwrap();
    let header = String::from_utf8_lossy(&metadata[10..80]).into_owned();
    let start = metadata.iter().position(|b| *b == b'\n').unwrap() + 1;
    let text: String = metadata[start..]
        .as_chunks::<4>()
        .0
        .iter()
        .map(|c| char::from_u32(u32::from_le_bytes(*c)).unwrap())
        .collect();
    let says: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected =
        serde_json::json!({"title": "Plan", "made_of": made_of, "made_by": format!("SSMProbe {version}")});
    assert!(says == expected && header.contains(&format!("'<U{}'", text.chars().count())), "{header} {says}");
    let arrays = npz::read(std::io::Cursor::new(bytes)).unwrap();
    let plan: ndarray::Array2<f32> = npz::array(&arrays["plan"]).unwrap();
    let Routing::Plan(original) = &trace.routing else { unreachable!() };
    assert_eq!(plan.as_slice().unwrap(), original.data);
    let score: ndarray::Array1<f64> = npz::array(&arrays["score"]).unwrap();
    assert_eq!(score[7], f64::from(trace.scores.as_ref().unwrap()[7]));
    let oblong = Matrix { rows: 2, cols: 3, data: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
    let bytes = export::npz(&Table::counted("row", 2).matrix("oblong", oblong), "t", "a").unwrap();
    let arrays = npz::read(std::io::Cursor::new(bytes)).unwrap();
    let oblong: ndarray::Array2<f32> = npz::array(&arrays["oblong"]).unwrap();
    assert_eq!(oblong, ndarray::array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
}

#[test]
fn a_file_is_whole_or_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let scene = column("predictions", &all()[0], &Options::default()).unwrap();
    let table = find("predictions").unwrap().table(&all()[0]);
    let wrong = export::save(&folder.path().join("figure.xyz"), &scene, &table, "", 150.0).unwrap_err();
    assert!(wrong.to_string().contains(".svg"), "{wrong}");
    let nowhere = export::save(&folder.path().join("no/such/a.svg"), &scene, &table, "", 150.0);
    assert!(matches!(nowhere, Err(export::ExportError::Write { .. })), "{nowhere:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing half-written is left");
    // File extensions may be in capitals.
    for (name, begins) in [("LOUD.SVG", "<svg"), ("Loud.Csv", "# title")] {
        let path = folder.path().join(name);
        export::save(&path, &scene, &table, "about", 150.0).unwrap();
        assert!(std::fs::read_to_string(path).unwrap().starts_with(begins), "{name}");
    }
}

/// A window that shows one scene and records what the pointer is over.
struct Shown {
    canvas: Canvas,
    scene: Scene,
    hover: Option<Hover>,
}

fn window(scene: Scene) -> Harness<'static, Shown> {
    let state = Shown { canvas: Canvas::default(), scene, hover: None };
    let mut harness = Harness::builder().with_size(egui::vec2(400.0, 300.0)).build_ui_state(
        |ui, shown: &mut Shown| {
            let rect = ui.max_rect();
            shown.hover = shown.canvas.paint(ui, &shown.scene, rect).hover;
        },
        state,
    );
    harness.run();
    harness
}

#[test]
fn pointing_at_a_patch_finds_its_token() {
    let mut scene = Scene::new(200.0, 150.0, "patches", None);
    scene.target(Box2::new(0.0, 0.0, 100.0, 100.0), Identity::Grid(ssmprobe::model::grid::Grid::new(10, 10)));
    let rows = std::sync::Arc::from([4usize, 2, 9]);
    let mut inner = Scene::new(50.0, 50.0, "", None);
    inner.target(Box2::new(0.0, 0.0, 30.0, 30.0), Identity::Plan { rows, positions: 3 });
    scene.place(inner, [120.0, 0.0], None);
    let mut harness = window(scene);
    let area = harness.state().canvas.last();
    let at = |x: f32, y: f32| area.min + egui::vec2(x, y) * (area.width() / 200.0);
    for (place, token, position) in
        [((35.0, 71.0), Some(73), None), ((125.0, 25.0), Some(9), Some(0)), ((145.0, 5.0), Some(4), Some(2))]
    {
        harness.hover_at(at(place.0, place.1));
        harness.run();
        assert_eq!(harness.state().hover, Some(Hover { token, position, item: None }));
    }
    harness.hover_at(at(110.0, 140.0));
    harness.run();
    assert_eq!(harness.state().hover, None);
}

#[test]
fn a_token_that_is_pointed_at_is_marked_and_one_that_is_not_there_is_nowhere() {
    let nowhere = Hover { token: Some(999), position: Some(999), item: Some(999_999) };
    for figure in FIGURES {
        let scene = column(figure.id(), &all()[0], &Options::default()).unwrap();
        assert!(scene.places(nowhere).is_empty(), "{}", figure.id());
    }
    let scene = column("photo", &all()[0], &Options::default()).unwrap();
    let count = |marked: bool| {
        let scene = scene.clone();
        let mut canvas = Canvas::default();
        let mut harness = Harness::builder().with_size(egui::vec2(400.0, 300.0)).build_ui(move |ui| {
            let rect = ui.max_rect();
            canvas.paint(ui, &scene, rect);
            if marked {
                canvas.mark(ui, &scene, Hover { token: Some(100), ..Hover::default() }, &Theme::light());
            }
        });
        harness.run();
        harness.output().shapes.len()
    };
    assert_eq!(count(true), count(false) + 4, "a halo and a line for each of two patches");
}

#[test]
fn textures_are_kept_while_shown_and_given_back_after() {
    let photo = column("photo", &all()[0], &Options::default()).unwrap();
    let mut harness = window(photo);
    let held = harness.state().canvas.textures();
    harness.run();
    assert!(held > 0 && harness.state().canvas.textures() == held);
    harness.state_mut().scene = column("predictions", &all()[0], &Options::default()).unwrap();
    harness.run();
    assert_eq!(harness.state().canvas.textures(), 0);
}

#[test]
fn many_dots_are_painted_as_one_picture_and_few_one_by_one() {
    let painted = |count: usize| {
        let mut scene = Scene::new(200.0, 150.0, "dots", None);
        for at in 0..count {
            scene.dot([5.0 + (at % 190) as f32, 5.0 + (at / 190) as f32], 1.0, Theme::light().ink, None);
        }
        let harness = window(scene);
        (harness.output().shapes.len(), harness.state().canvas.textures())
    };
    let (none, _) = painted(0);
    assert_eq!(painted(100), (none + 100, 0));
    assert_eq!(painted(5000), (none + 1, 1), "of 50,000 images the triangles are 48 MB in every frame");
}

/// All text of a scene, concatenated.
fn written(items: &[Item]) -> String {
    let text = |item: &Item| match &item.shape {
        Shape::Text { text, .. } => format!("{text} "),
        Shape::Group { items, .. } => written(items),
        _ => String::new(),
    };
    items.iter().map(text).collect()
}

#[test]
fn every_picture_and_its_name_say_what_was_changed() {
    let traces = all();
    let change = Intervention::Random(3);
    let reading = Reading { change, tokens: vec!["tokens after layer 6".into()], ..Reading::default() };
    let trace = Arc::new(Trace { reading, ..traces[0].clone() });
    for figure in FIGURES {
        let plot = TracePlot::new(*figure, &trace, Options::default());
        let scene = plot.draw_column(&Theme::print(), COLUMN).expect("something to see");
        let said = written(&scene.items);
        let words = "Random order, seed 3, tokens after layer 6, not retrained";
        assert!(said.starts_with(words) && scene.title.ends_with(words), "{}: {said}", figure.id());
        let caption = plot.caption();
        assert!(caption.file.contains("-random-order-3-tokens-after-layer-6-"), "{}", caption.file);
        assert!(
            caption.title.contains("random order, seed 3") && caption.about.contains("(random order, seed 3")
        );
        let plain = TracePlot::new(*figure, &Arc::new(traces[0].clone()), Options::default());
        let before = plain.draw_column(&Theme::print(), COLUMN).expect("something to see");
        assert!(scene.height > before.height && !written(&before.items).contains("retrained"));
    }
    let order = column(
        "scan_path",
        &Trace { routing: Routing::Orders(vec![(0..196).collect()]), ..(*trace).clone() },
        &Options::default(),
    );
    let said = written(&order.unwrap().items);
    assert!(!said.contains("sinkhorn"), "a random order is no trained one: {said}");
    assert_eq!(said.matches("Random order, seed 3").count(), 1, "the heading alone says it: {said}");
}

#[test]
fn what_is_a_difference_is_written_with_a_delta() {
    let (one, mut other) = (all()[0].clone(), all()[0].clone());
    other.reading.change = Intervention::NoRouting;
    other.evidence.token.iter_mut().flatten().for_each(|v| *v -= 0.01);
    let made = difference::subtract(&one, &other).expect("one grid");
    let said = written(&column("token_map", &made, &Options::default()).expect("a difference").items);
    let over = "Difference (Δ) of sinkhorn from sinkhorn (no routing)";
    assert!(said.starts_with(over) && said.contains("Δ contribution to the logit"), "{said}");
    assert!(said.contains("Δ sum +1.96, Δ bias 0, Δ logit +1.96"), "196 tokens, 0.01 each: {said}");
    let plain = written(&column("token_map", &one, &Options::default()).expect("a figure").items);
    assert!(!plain.contains('Δ'), "{plain}");
    let read =
        find("token_map").expect("a figure").readout(&made, Hover { token: Some(3), ..Hover::default() });
    assert!(read.lines.contains(&("Δ evidence".into(), "+0.01".into())), "{read:?}");
}

#[test]
fn every_row_of_a_comparison_has_its_own_settings() {
    let figures: Vec<&'static dyn Figure> = ["evidence", "kernel"].map(|id| find(id).unwrap()).into();
    let trace = Arc::new(all()[0].clone());
    let plot = TracePlot::compared(figures, vec![trace.clone(), trace], Options::default());
    let with = |log| {
        let rows = [Options::default(), Options { log, ..Options::default() }].into();
        TracePlot { row_options: rows, ..plot.clone() }
    };
    let drawn = |plot: &TracePlot| {
        export::svg(&plot.draw_column(&Theme::print(), export::points(174.0)).expect("a picture"), "")
    };
    assert!(drawn(&with(false)) == drawn(&plot) && drawn(&with(true)) != drawn(&plot));
    let wide = TracePlot { columns: Some(9), ..plot.clone() };
    assert!(drawn(&wide) == drawn(&plot), "columns without a trace take no room");
    assert_eq!(with(false).caption().command, "--figure evidence --figure kernel");
    assert_eq!(with(true).caption().command, "", "a command line sets all rows alike");
}

#[test]
fn a_page_that_is_too_narrow_says_what_would_do() {
    let traces: Vec<&Trace> = all().iter().cycle().take(6).collect();
    let figures = ["token_map", "evidence"].map(|id| find(id).unwrap());
    let comparison = side_by_side(&traces, &figures, &Options::default());
    assert_eq!(comparison.too_narrow(export::points(174.0)), None);
    let narrow = comparison.too_narrow(COLUMN).expect("six columns on 85 mm");
    let rows = narrow.in_rows().expect("some fit");
    assert!(narrow.fitting >= 2 && rows <= narrow.fitting && narrow.needed > 85.0, "{narrow:?}");
    let error = comparison.draw_column(&Theme::print(), COLUMN).unwrap_err().0;
    assert!(error.contains(&format!("--columns {rows}")) && error.contains("--width"), "{error}");
    let fits = |comparison: &TracePlot, width: f32| comparison.draw_column(&Theme::print(), width).is_ok();
    assert!(fits(&TracePlot { columns: Some(rows), ..comparison.clone() }, COLUMN), "rows of {rows}");
    assert!(fits(&comparison, export::points(narrow.needed)), "{} mm", narrow.needed);
    assert!(!fits(&comparison, export::points(narrow.needed - 2.0)), "no less would do");
}
