//! Pictures over the patches of an image: every patch has the colour of its token, and the path follows the order.

use ssmprobe::model::trace::{Attribution, Found, Routing};
use ssmprobe::viz::draw::colormap::Map;
use ssmprobe::viz::draw::scene::Raster;
use ssmprobe::viz::figures::plot;
use ssmprobe::viz::figures::trace_plot::TracePlot;

use super::prelude::*;
use super::rulers::Bar;
use super::small::{KERNEL, SECOND, SWEEPS, TOKEN_EVIDENCE, WEIGHTS};
use super::why_nothing;

/// The overlay of the picture: its only image with one pixel per patch.
fn cover(marks: &Marks) -> (Box2, Arc<Raster>) {
    let mut found = marks.rasters(GRID.cols, GRID.rows);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// The opacity of every patch, 0 to 255.
fn opacities(raster: &Raster) -> [u8; N] {
    std::array::from_fn(|token| pixel(raster, token % GRID.cols, token / GRID.cols).a)
}

#[test]
pub fn photo() {
    let trace = small::planned();
    for theme in looks() {
        let marks = drawn("photo", &trace, &Options::default(), &theme);
        let seen = marks.rasters(8, 6);
        assert_eq!(seen.len(), 2, "as the model saw it, and faded below the weights");
        for (y, x) in (0..6).flat_map(|y| (0..8).map(move |x| (y, x))) {
            let own = &trace.seen.rgb[3 * (8 * y + x)..][..3];
            let whole = pixel(&seen[0].1, x, y);
            assert_eq!([whole.r, whole.g, whole.b, whole.a], [own[0], own[1], own[2], 255], "({x}, {y})");
            // The luma of sRGB, a quarter of the way to the background.
            let grey = 0.299 * f32::from(own[0]) + 0.587 * f32::from(own[1]) + 0.114 * f32::from(own[2]);
            let faded = 0.75 * grey + 0.25 * f32::from(theme.ground.r);
            assert_close("faded", pixel(&seen[1].1, x, y).r, faded, 1.5);
        }
        let (place, raster) = cover(&marks);
        assert_eq!(place, seen[1].0, "the weights lie over the second picture");
        assert!(place.x > seen[0].0.right() && near(place.w / place.h, 8.0 / 6.0));
        let bar = marks.bar();
        coloured(&raster, GRID, &bar, &WEIGHTS);
        assert_eq!(opacities(&raster), [179; N], "0.7 of 255");
        assert_eq!(bar.name, "Weight in the sum");
        assert_close("ends of the bar", bar.ends(), [0.006, 0.083], 1e-4);
        assert!(!bar.ruler.rises() && place.right() < bar.place.x, "the largest at the top");
        for (title, picture) in [("Model input", seen[0].0), ("Token weight", seen[1].0)] {
            let word = marks.word(title);
            assert!(near(word.at[0], picture.x) && word.at[1] < picture.y, "{title}");
        }
    }
}

#[test]
fn the_low_end_of_a_map_is_dark_and_the_high_end_bright() {
    // The ends of cividis and viridis as published by their authors.
    let ends = [(Map::Cividis, [0x00_20_4d, 0xff_ea_46]), (Map::Viridis, [0x44_01_54, 0xfd_e7_25])];
    for (map, [low, high]) in ends {
        let options = Options { map, ..Options::default() };
        let bar = drawn("photo", &small::planned(), &options, &Theme::light()).bar();
        assert!(apart(bar.color(0.006), Color::hex(low)) <= SHADE, "{map:?}: {:?}", bar.color(0.006));
        assert!(apart(bar.color(0.083), Color::hex(high)) <= SHADE, "{map:?}: {:?}", bar.color(0.083));
    }
}

#[test]
fn weights_below_zero_have_the_other_hue_and_scores_stand_in_for_weights() {
    let mut trace = small::planned();
    trace.token_weight = Some(TOKEN_EVIDENCE.into());
    for theme in looks() {
        let marks = drawn("photo", &trace, &Options::default(), &theme);
        let bar = marks.bar();
        assert_close("around zero", bar.ends(), [-1.24, 1.24], 1e-4);
        coloured(&cover(&marks).1, GRID, &bar, &TOKEN_EVIDENCE);
        assert!(warm(bar.color(1.0)) && !warm(bar.color(-1.0)), "orange is for, blue against");
    }
    trace.token_weight = None;
    let marks = drawn("photo", &trace, &Options::default(), &Theme::light());
    coloured(&cover(&marks).1, GRID, &marks.bar(), &small::SCORES);
    assert!(marks.has("Token score") && marks.bar().name == "Score (standardised)");
}

fn warm(color: Color) -> bool {
    color.r > color.b
}

#[test]
pub fn token_map() {
    let trace = small::planned();
    for theme in looks() {
        let marks = drawn("token_map", &trace, &Options::default(), &theme);
        let (place, raster) = cover(&marks);
        let bar = marks.bar();
        assert_eq!(place, marks.rasters(8, 6)[0].0);
        assert_eq!(bar.name, "Contribution to the logit");
        assert_close("ends of the bar", bar.ends(), [-1.24, 1.24], 1e-4);
        coloured(&raster, GRID, &bar, &TOKEN_EVIDENCE);
        for (token, value) in TOKEN_EVIDENCE.iter().enumerate() {
            let own = pixel(&raster, token % 4, token / 4);
            assert_eq!(warm(own), *value > 0.0, "token {token}: {own:?}");
        }
        // The smaller the evidence, the more of the picture shows through.
        let mut by_size: Vec<usize> = (0..N).collect();
        by_size.sort_by(|a, b| TOKEN_EVIDENCE[*a].abs().total_cmp(&TOKEN_EVIDENCE[*b].abs()));
        let opacities = opacities(&raster);
        assert!(by_size.windows(2).all(|pair| opacities[pair[0]] < opacities[pair[1]]), "{opacities:?}");
        assert!(marks.has("Evidence for crane"), "the class the evidence speaks for, not the first");
        assert!(marks.has("Sum 1.53, bias 0.12, logit 1.65"));
        let shared = Options { limits: Some((-2.0, 3.0)), ..Options::default() };
        let marks = drawn("token_map", &trace, &shared, &theme);
        assert_close("shared limits", marks.bar().ends(), [-3.0, 3.0], 1e-4);
        coloured(&cover(&marks).1, GRID, &marks.bar(), &TOKEN_EVIDENCE);
    }
}

/// Asserts that a map shows `values` on a bar of this name and ends, with these texts.
fn mapped(id: &str, values: &[f32], name: &str, ends: [f64; 2], words: [&str; 2]) {
    for theme in looks() {
        let marks = drawn(id, &small::planned(), &Options::default(), &theme);
        let (place, raster) = cover(&marks);
        let bar = marks.bar();
        assert_eq!(place, marks.rasters(8, 6)[0].0, "{id}");
        assert_eq!(bar.name, name);
        assert_close("ends of the bar", bar.ends(), ends, 1e-4);
        coloured(&raster, GRID, &bar, values);
        words.iter().for_each(|words| assert!(marks.has(words), "{id}: {words}"));
    }
}

#[test]
pub fn gradient() {
    let words = ["Gradient × token for crane", "Sum 2, of exact evidence 1.53"];
    mapped("gradient", &small::GRADIENT, "Gradient × token (logit)", [-1.52, 1.52], words);
}

#[test]
pub fn integrated() {
    let words = ["Integrated gradients for crane", "Sum 2.02, completeness error −0.017"];
    mapped("integrated", &small::INTEGRATED, "Integrated gradient (logit)", [-1.12, 1.12], words);
}

#[test]
pub fn rollout() {
    let words = ["Attention rollout", "Sum 0.916"];
    mapped("rollout", &small::ROLLOUT, "Share of the patch", [0.031, 0.142], words);
}

#[test]
fn where_there_is_no_evidence_another_method_stands_with_the_reason() {
    let mut trace = small::planned();
    trace.evidence.token = None;
    trace.evidence.why_none = Some("It is not linear: no exact evidence exists".into());
    let marks = drawn("token_map", &trace, &Options::default(), &Theme::light());
    assert!(
        marks.has("Gradient × token for crane") && marks.has("It is not linear: no exact evidence exists")
    );
    coloured(&cover(&marks).1, GRID, &marks.bar(), &small::GRADIENT);
    let of_gradient = drawn("gradient", &trace, &Options::default(), &Theme::light());
    assert!(of_gradient.has("Sum 2, no exact evidence"));
    // A method that found nothing gives a reason; one that was not requested says so.
    trace.attributions.insert(Attribution::Gradient, Found::None { none: "No gradient here".into() });
    assert_eq!(why_nothing("gradient", &trace), "No gradient here");
    let marks = drawn("token_map", &trace, &Options::default(), &Theme::light());
    coloured(&cover(&marks).1, GRID, &marks.bar(), &small::INTEGRATED);
    trace.attributions.clear();
    assert_eq!(why_nothing("token_map", &trace), "It is not linear: no exact evidence exists");
    assert_eq!(why_nothing("rollout", &trace), "Attention rollout is not computed: it was not requested");
}

/// The white and the black dot: where the first and the last token is read.
fn ends(marks: &Marks) -> [Vec<Point>; 2] {
    let [white, black] = [Theme::light().ground, Theme::light().ink];
    [(white, black), (black, white)].map(|(fill, ring)| {
        let dots = marks.dots(fill).into_iter().filter(|dot| dot.ring == Some(ring));
        // The legend has one of each, of another size.
        dots.filter(|dot| !near(dot.radius, 2.6)).map(|dot| dot.at).collect()
    })
}

#[test]
pub fn scan_path() {
    let trace = small::swept();
    for theme in looks() {
        let marks = drawn("scan_path", &trace, &Options::default(), &theme);
        let bar = marks.bar();
        assert_eq!(bar.name, "Step (last is read last)");
        assert_close("ends of the bar", bar.ends(), [0.0, 11.0], 1e-4);
        assert!(!bar.ruler.rises());
        let pictures = marks.rasters(8, 6);
        assert!(pictures[0].0.right() < pictures[1].0.x, "the second sweep stands to the right");
        let [first, last] = ends(&marks);
        assert_eq!([first.len(), last.len()], [2, 2]);
        let strokes = marks.strokes();
        for (sweep, (order, (place, _))) in SWEEPS.iter().zip(pictures).enumerate() {
            let title = marks.word(&format!("Sweep {} of 2", sweep + 1));
            assert!(near(title.at[0], place.x) && title.at[1] < place.y, "sweep {sweep}");
            let patch = |k: usize| middle(place, GRID, order[k] as usize);
            let inside = |points: &[Point]| points.iter().all(|point| place.contains(*point));
            let legs: Vec<(Color, &[Point])> =
                strokes.iter().filter(|(_, points)| inside(points)).copied().collect();
            assert_eq!(legs.len(), N - 1, "a leg a step");
            for (k, (color, leg)) in legs.into_iter().enumerate() {
                at(leg[0], patch(k));
                at(leg[1], patch(k + 1));
                let expected = bar.color((k + 1) as f64);
                assert!(apart(color, expected) <= SHADE, "step {}: {color:?}, not {expected:?}", k + 1);
            }
            at(first[sweep], patch(0));
            at(last[sweep], patch(N - 1));
        }
        let key = marks.word("Last read");
        assert!(key.at[0] > marks.word("First read").at[0]);
        assert_eq!(
            [marks.swatch("First read"), marks.swatch("Last read")],
            [Theme::light().ground, Theme::light().ink]
        );
    }
}

#[test]
fn a_learned_order_ends_at_the_token_that_comes_last() {
    let computed = small::planned();
    // Mean positions of the trace take precedence over those computed from the plan.
    let positions: [f64; N] = [4.1, 0.2, 7.3, 1.9, 10.8, 3.3, 6.4, 2.6, 9.9, 5.5, 8.7, 0.9];
    let given = Trace { expected: Some(positions.into()), ..small::planned() };
    for (trace, mean) in [(computed, small::mean_positions()), (given, positions)] {
        let order = small::sorted(mean);
        for theme in looks() {
            let marks = drawn("scan_path", &trace, &Options::default(), &theme);
            let (place, raster) = cover(&marks);
            let bar = marks.bar();
            let mut steps = [0.0f32; N];
            order.iter().enumerate().for_each(|(k, token)| steps[*token] = k as f32);
            coloured(&raster, GRID, &bar, &steps);
            let path = marks.lines(theme.ink, 2);
            assert_eq!(path.len(), 1, "the last tenth, 1 of 12 steps");
            at(path[0][0], middle(place, GRID, order[N - 2]));
            at(path[0][1], middle(place, GRID, order[N - 1]));
            let [first, last] = ends(&marks);
            at(first[0], middle(place, GRID, order[0]));
            at(last[0], middle(place, GRID, order[N - 1]));
        }
    }
}

/// Asserts that every patch is as bright as its share in the memory: `shares` of the largest.
#[track_caller]
fn held(raster: &Raster, bar: &Bar, theme: &Theme, shares: [f32; N]) {
    for (token, share) in shares.into_iter().enumerate() {
        let own = pixel(raster, token % GRID.cols, token / GRID.cols);
        let (expected, opacity) = match share {
            0.0 => (theme.ground, 0.6),
            _ => (bar.color(f64::from(share)), 0.1 + 0.9 * share),
        };
        assert!(apart(own, expected) <= SHADE, "token {token}: {own:?}, not {expected:?}");
        assert_close(format!("opacity of token {token}"), f32::from(own.a) / 255.0, opacity, 0.004);
    }
}

#[test]
fn the_memory_holds_the_tokens_read_last_by_each_sweeps_own_kernel() {
    let (trace, read) = (small::swept(), 5);
    let options = Options { step: Some(read), ..Options::default() };
    for theme in looks() {
        let marks = drawn("scan_path", &trace, &options, &theme);
        let bar = marks.bar();
        assert_eq!(bar.name, "Memory (share of the best kept)");
        assert_close("ends of the bar", bar.ends(), [0.0, 1.0], 1e-4);
        let covers = marks.rasters(GRID.cols, GRID.rows);
        for ((order, kernel), (place, raster)) in SWEEPS.iter().zip([KERNEL, SECOND]).zip(covers) {
            let most = kernel[..read].iter().fold(0.0f32, |most, k| most.max(k.abs()));
            let mut shares = [0.0; N];
            (0..read).for_each(|back| shares[order[read - 1 - back] as usize] = kernel[back].abs() / most);
            held(&raster, &bar, &theme, shares);
            let read_last = middle(place, GRID, order[read - 1] as usize);
            let dots = marks.dots(theme.ink);
            assert!(dots.iter().any(|dot| near(dot.at[0], read_last[0]) && near(dot.at[1], read_last[1])));
        }
        assert!(marks.has("Sweep 1 of 2: 5 read") && marks.has("Sweep 2 of 2: 5 read"));
    }
}

#[test]
fn under_a_plan_the_memory_holds_a_share_of_every_token() {
    let (trace, read) = (small::planned(), 7);
    assert!(matches!(trace.routing, Routing::Plan(_)));
    let options = Options { step: Some(read), ..Options::default() };
    let theme = Theme::light();
    let marks = drawn("scan_path", &trace, &options, &theme);
    let kept = |i: usize| (0..read).map(|k| small::share(i, k) * KERNEL[read - 1 - k].abs()).sum::<f32>();
    let most = (0..N).map(kept).fold(0.0, f32::max);
    held(&cover(&marks).1, &marks.bar(), &theme, std::array::from_fn(|i| kept(i) / most));
}

#[test]
fn pictures_grow_to_their_pane() {
    let (trace, theme) = (Arc::new(small::planned()), Theme::light());
    let shown = |id: &str, options: &Options, width: f32, height: f32| {
        let figure = ssmprobe::viz::find(id).expect("a figure");
        let size = ssmprobe::viz::Size { width, height };
        let plot = TracePlot::new(figure, &trace, options.clone());
        Marks::of(&plot::draw(&plot, &theme, size).expect("a picture"), &theme)
    };
    // A square pane would be half empty with two pictures side by side: only one is drawn, as large as possible.
    let (plain, bare) = (Options::default(), Options { opacity: 0.0, ..Options::default() });
    let wide = shown("photo", &plain, 500.0, 200.0).rasters(8, 6);
    assert_eq!(wide.len(), 2, "in a wide one both stand side by side");
    let alone = shown("photo", &plain, 260.0, 230.0);
    let pictures = alone.rasters(8, 6);
    assert!(pictures.len() == 1 && pictures[0].0.w > 190.0, "{:?}", pictures[0].0);
    assert!(alone.has("Token weight") && !alone.has("Model input"));
    // Without the overlay, it is the picture that the model saw, in its colours.
    let bare = shown("photo", &bare, 260.0, 230.0);
    let first = pixel(&bare.rasters(8, 6)[0].1, 0, 0);
    assert_eq!([first.r, first.g, first.b], trace.seen.rgb[..3]);
    assert!(bare.has("Model input"));
    for id in ["token_map", "scan_path"] {
        let large = shown(id, &plain, 520.0, 520.0).rasters(8, 6);
        assert!(large[0].0.w > 400.0, "{id} is {:?} in a pane of 520", large[0].0);
    }
}

#[test]
fn signed_weights_offer_no_colour_map() {
    let mut trace = small::planned();
    let offered = |trace: &Trace| {
        let controls = ssmprobe::viz::find("photo").expect("a figure").controls(trace);
        controls.contains(&ssmprobe::viz::Control::Map)
    };
    assert!(offered(&trace));
    trace.token_weight = Some(TOKEN_EVIDENCE.into());
    assert!(!offered(&trace));
}
