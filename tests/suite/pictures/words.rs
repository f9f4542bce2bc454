//! The text of every picture: no word is cut by the edge of the page, and none overlaps another.

use ssmprobe::model::trace::Trace;
use ssmprobe::viz::draw::font;
use ssmprobe::viz::draw::scene::{Anchor, Box2, Scene};
use ssmprobe::viz::draw::theme::Theme;
use ssmprobe::viz::figures::dataset::Choice;
use ssmprobe::viz::figures::plot::Plot as _;
use ssmprobe::viz::{COLUMN, FIGURES, Options, Size, find};

use super::marks::{Marks, Word};
use super::{draw_column, golden, many, plotted, side_by_side, small};
use crate::traces;

/// The box of a word, from its baseline to the height of its capitals.
pub fn place(word: &Word) -> Box2 {
    let (length, tall) = (font::width(&word.text, word.size), word.size * font::CAP);
    let before = match word.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => length / 2.0,
        Anchor::End => length,
    };
    let [x, y] = word.at;
    if word.upwards {
        Box2::new(x - tall, y - length + before, tall, length)
    } else {
        Box2::new(x - before, y - tall, length, tall)
    }
}

/// The overlap of two boxes in x and y.
fn shared(a: Box2, b: Box2) -> [f32; 2] {
    [a.right().min(b.right()) - a.x.max(b.x), a.bottom().min(b.bottom()) - a.y.max(b.y)]
}

/// Every figure of every trace of the usual size, a memory after some steps, and the plots.
fn scenes(theme: &Theme) -> Vec<(String, Scene)> {
    let mut all = golden::plots(theme);
    // The name of a bar is longer than this one is high.
    let mut low = small::rates();
    low.grids.truncate(1);
    low.grids[0].layers.truncate(2);
    low.grids[0].cells.truncate(4);
    let mut soft = small::planned();
    let shark = "great white shark, Carcharodon carcharias";
    soft.top.iter_mut().for_each(|class| shark.clone_into(&mut class.name));
    let [_, margin] = small::contrasts(&mut soft);
    (margin.content, margin.fixed_order, margin.routing) = (-60.0, 1.0, 60.9);
    let order_test =
        draw_column(find("order_test").expect("a figure"), &soft, &Options::default(), theme, COLUMN);
    all.push(("soft order test".to_owned(), order_test.expect("something to see")));
    let maps = many::plot("routing_maps", 200, Choice::default()).draw_column(theme, COLUMN);
    all.push(("maps of 200 classes".to_owned(), maps.expect("something to see")));
    all.push(("evidence that there is none of".to_owned(), without_evidence(theme)));
    all.push(("two rates".to_owned(), low.draw_column(theme, COLUMN).expect("something to see")));
    let mut far = small::settings();
    far.lines.iter_mut().for_each(|line| line.points[2].value = 1000.0);
    all.push(("settings to 1000".to_owned(), far.draw_column(theme, COLUMN).expect("something to see")));
    let path = [find("scan_path").expect("a figure")];
    let swept = small::swept();
    let row = side_by_side(&[&swept; 3], &path, &Options::default()).draw_column(theme, COLUMN);
    all.push(("a low row".to_owned(), row.expect("something to see")));
    let size = Size { width: 220.0, height: 78.0 };
    let low = path[0].scene(&traces::sinkhorn_trace(), &Options::default(), theme, size);
    all.push(("a low reading order".to_owned(), low.expect("something to see")));
    let narrow = ["kernel", "scores"].map(|id| find(id).expect("a figure"));
    let sinkhorn = traces::sinkhorn_trace();
    let three = side_by_side(&[&sinkhorn; 3], &narrow, &Options::default()).draw_column(theme, 2.0 * COLUMN);
    all.push(("three side by side".to_owned(), three.expect("something to see")));
    let cases =
        [("", Options::default()), (" after 40 steps", Options { step: Some(40), ..Options::default() })];
    for (trace, (more, options)) in
        traces::all().iter().flat_map(|trace| cases.iter().map(move |case| (trace, case)))
    {
        for figure in FIGURES {
            if let Ok(scene) = draw_column(*figure, trace, options, theme, COLUMN) {
                all.push((format!("{} of {}{more}", figure.id(), trace.head), scene));
            }
        }
    }
    all
}

/// The reason why there is no exact evidence, longer than a column is wide.
const NO_EVIDENCE: &str =
    "V-JEPA's probe ends in a network that is not linear in the tokens: no exact evidence exists";

/// What stands in place of evidence that there is none of, with the reason.
fn without_evidence(theme: &Theme) -> Scene {
    let mut trace = small::planned();
    (trace.evidence.token, trace.evidence.why_none) = (None, Some(NO_EVIDENCE.to_owned()));
    let figure = find("token_map").expect("a figure");
    draw_column(figure, &trace, &Options::default(), theme, COLUMN).expect("something to see")
}

#[test]
fn what_is_wider_than_its_room_is_said_in_fewer_words_or_more_lines() {
    let theme = Theme::light();
    let said = |scene: &Scene| -> String {
        let words = Marks::of(scene, &theme).words().into_iter().filter(|word| !word.upwards);
        words.map(|word| word.text).collect::<Vec<_>>().join(" ")
    };
    let path = find("scan_path").expect("a figure");
    // The pictures are narrower than the heading: in the first case the pane is not.
    for (width, heading) in [(220.0, "By mean position; line: the last 10 % "), (100.0, "By mean position ")]
    {
        let size = Size { width, height: 78.0 };
        let scene = path.scene(&traces::sinkhorn_trace(), &Options::default(), &theme, size);
        let said = said(&scene.expect("something to see"));
        assert!(said.starts_with(heading), "{width}: {said}");
    }
    let maps = many::plot("routing_maps", 200, Choice::default()).draw_column(&theme, COLUMN);
    let note = "furthest from all. Chance: 0.413 to 0.587 (5 to 95 %, mean of 30 random orders)";
    assert!(said(&maps.expect("something to see")).contains(note));
    let confusion = many::plot("confusion", 200, Choice::default()).draw_column(&theme, COLUMN);
    assert!(said(&confusion.expect("something to see")).contains("; 40 of 200 classes, most errors"));
    assert!(said(&without_evidence(&theme)).ends_with(NO_EVIDENCE));
}

#[test]
fn numbers_of_two_axes_side_by_side_stay_apart() {
    let (figure, theme) = (find("scores").expect("a figure"), Theme::light());
    let scene = draw_column(figure, &traces::sinkhorn_trace(), &Options::default(), &theme, COLUMN);
    let words = Marks::of(&scene.expect("something to see"), &theme).words();
    let number = |word: &&Word| word.anchor == Anchor::Middle && word.text.parse::<f64>().is_ok();
    let places: Vec<Box2> = words.iter().filter(number).map(place).collect();
    assert!(places.len() > 4 && places.windows(2).all(|two| two[1].x - two[0].right() > 3.0), "{places:?}");
}

#[test]
fn words_stay_on_the_page_and_do_not_cover_each_other() {
    let theme = Theme::light();
    let mut faults = Vec::new();
    for (name, scene) in scenes(&theme) {
        let words = Marks::of(&scene, &theme).words();
        for (at, word) in words.iter().enumerate() {
            let own = place(word);
            let inside = own.x > -0.5 && own.y > -0.5;
            if !inside || own.right() > scene.width + 0.5 || own.bottom() > scene.height + 0.5 {
                faults.push(format!("{name}: {:?} leaves the page at {own:?}", word.text));
            }
            for other in &words[at + 1..] {
                if shared(own, place(other)).into_iter().all(|length| length > 0.3) {
                    faults.push(format!("{name}: {:?} covers {:?}", word.text, other.text));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn columns_of_a_comparison_say_what_they_differ_in() {
    let of = |image: &str, backbone: &str| Trace {
        image: image.into(),
        backbone: backbone.into(),
        ..small::planned()
    };
    let (own, kernel) = (of("a.png", "vit"), [find("kernel").expect("a figure")]);
    for (other, told, equal) in
        [(of("b.png", "vit"), ["a.png", "b.png"], "vit"), (of("a.png", "dino"), ["vit", "dino"], "a.png")]
    {
        let plot = side_by_side(&[&own, &other], &kernel, &Options::default());
        let marks = plotted(&plot, &Theme::light());
        assert!(told.iter().all(|word| marks.has(word)) && !marks.has(equal), "{told:?}");
    }
}
