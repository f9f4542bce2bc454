//! Pictures that are lists: the predicted classes, and every diagnostic beside its bands.

use ssmprobe::viz::draw::font;

use super::marks::Word;
use super::prelude::*;

/// The y of the middle of a word.
pub fn height(word: &Word) -> f32 {
    word.at[1] - word.size * font::CAP / 2.0
}

/// The other words in the row of this word, from the left.
fn row(marks: &Marks, name: &str) -> Vec<String> {
    let own = marks.word(name);
    let mut beside: Vec<Word> = marks
        .words()
        .into_iter()
        .filter(|word| near(height(word), height(&own)) && word.text != name)
        .collect();
    beside.sort_by(|a, b| a.at[0].total_cmp(&b.at[0]));
    beside.into_iter().map(|word| word.text).collect()
}

/// The boxes of this colour in the row of this word.
fn boxes(marks: &Marks, name: &str, color: Color) -> Vec<Box2> {
    let own = height(&marks.word(name));
    marks.fills(color).into_iter().filter(|found| found.y < own + 0.1 && found.bottom() > own - 0.1).collect()
}

#[test]
pub fn predictions() {
    let trace = small::planned();
    for theme in looks() {
        let marks = drawn("predictions", &trace, &Options::default(), &theme);
        let classes = [("heron", 0.46), ("crane", 0.21), ("stork", 0.13), ("egret", 0.08), ("ibis", 0.05)];
        let heights = classes.map(|(name, _)| height(&marks.word(name)));
        assert!(heights.windows(2).all(|pair| pair[0] + 8.0 < pair[1]), "the most probable at the top");
        for (name, probability) in classes {
            assert_eq!(row(&marks, name), [format!("{:.1} %", 100.0 * probability)]);
            let [track] = boxes(&marks, name, theme.faint)[..] else { panic!("one track for {name}") };
            // The class the evidence speaks for, the second, has a colour of its own.
            let colors = [theme.series(0), theme.series(1)];
            let (own, other) = if name == "crane" { (colors[1], colors[0]) } else { (colors[0], colors[1]) };
            let [bar] = boxes(&marks, name, own)[..] else { panic!("one bar for {name}") };
            assert!(boxes(&marks, name, other).is_empty());
            assert!(near(bar.x, track.x) && near(bar.w, track.w * probability), "{name}: {bar:?}");
        }
        assert!(marks.has("Probability") && marks.has("best logit 2.93"));
    }
}

#[test]
fn in_a_narrow_cell_no_two_classes_have_one_name_and_the_title_stands_alone() {
    let mut trace = small::planned();
    for (at, class) in trace.top.iter_mut().enumerate() {
        class.name = format!("a bird with a name that is rather long {at}");
    }
    let figure = find("predictions").expect("a figure");
    let theme = Theme::light();
    let scene = draw_column(figure, &trace, &Options::default(), &theme, 100.0).expect("something to see");
    let words: Vec<String> = Marks::of(&scene, &theme).words().into_iter().map(|word| word.text).collect();
    for at in 0..trace.top.len() {
        let name = |word: &&String| word.starts_with("a b") && word.ends_with(&format!("{at}"));
        assert_eq!(words.iter().filter(name).count(), 1, "{words:?}");
    }
    assert!(words.contains(&"Probability".to_owned()), "{words:?}");
    assert!(!words.iter().any(|word| word.starts_with("best logit")), "{words:?}");
}

#[test]
pub fn diagnostics() {
    let trace = small::planned();
    for theme in looks() {
        for id in ["diagnostics", "ranks"] {
            let marks = drawn(id, &trace, &Options::default(), &theme);
            let [chance, untrained] =
                ["Chance, 5 to 95 %", "Untrained, 5 to 95 %"].map(|name| marks.swatch(name));
            assert_ne!(chance, untrained);
            let value = marks.swatch("This image");
            let rows = [
                ("Rank coverage", "0.750", "above", "0.500–0.625", 0.75, Some((0.5, 0.625)), (0.4, 0.7)),
                ("Argmax entropy", "0.800", "below", "0.850–0.950", 0.8, Some((0.85, 0.95)), (0.75, 0.9)),
                ("Edge mass, 10 %", "0.167", "within", "0.100–0.300", 0.167, Some((0.1, 0.3)), (0.15, 0.45)),
                // Random scores are no null for the correlation with raster: untrained scorers are.
                ("Kendall tau", "0.111", "within*", "−0.460 to 0.480", 0.111, None, (-0.46, 0.48)),
            ];
            let rows = &rows[..if id == "ranks" { 3 } else { 4 }];
            // The header names the band, a star marks the rows of the other one.
            assert!(marks.has("vs chance") && marks.has("* vs untrained") == (id == "diagnostics"));
            let heights: Vec<f32> = rows.iter().map(|(name, ..)| height(&marks.word(name))).collect();
            assert!(heights.windows(2).all(|pair| pair[0] < pair[1]), "in the order of the trace");
            for ((name, number, verdict, range, v, null, band), own) in rows.iter().zip(heights) {
                let words = row(&marks, name);
                assert_eq!(words[..2], [*number, *verdict], "{name}");
                assert!(words.iter().any(|word| word.trim_end_matches('*') == *range), "{name}: {words:?}");
                // The mark of the value lies inside or outside the bands as the numbers do.
                let tick = marks.lines(value, 2).into_iter().find(|line| {
                    near(f32::midpoint(line[0][1], line[1][1]), own) && near(line[0][0], line[1][0])
                });
                let mark = tick.expect("a mark")[0][0];
                for (color, (low, high)) in [(chance, *null), (untrained, Some(*band))]
                    .into_iter()
                    .filter_map(|(color, band)| Some((color, band?)))
                {
                    let [found] = boxes(&marks, name, color)[..] else {
                        panic!("{name}: one band of {color:?}")
                    };
                    let (left, right) = (found.x + 0.5, found.right() - 0.5);
                    let expected = left + ((v - low) / (high - low)) as f32 * (right - left);
                    assert!(
                        (mark - expected).abs() < 0.05,
                        "{name}: {mark}, not {expected} beside {found:?}"
                    );
                }
                assert_eq!(boxes(&marks, name, chance).is_empty(), null.is_none(), "{name}");
            }
        }
    }
}
