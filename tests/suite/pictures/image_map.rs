//! The map of images: every dot is at the coordinates of its image, in the colour of its outcome or its class.

use ssmprobe::viz::draw::scene::Identity;
use ssmprobe::viz::figures::dataset::ColorBy;

use super::prelude::*;
use super::small::{CLASSES, PREDICTED, TRUE};

#[test]
pub fn image_map() {
    for (theme, by) in
        looks().into_iter().flat_map(|theme| [ColorBy::Outcome, ColorBy::Class].map(|by| (theme.clone(), by)))
    {
        let plot = small::image_map(by);
        let map = plot.space.projection.as_ref().expect("a map");
        let place = |image: usize| map.points[image].expect("a vector").map(f64::from);
        let marks = plotted(&plot, &theme);
        let axes = marks.axes(0);
        for (name, share, axis) in [(&axes.x_name, map.explained[0], 1), (&axes.y_name, map.explained[1], 2)]
        {
            assert_eq!(**name, format!("PC {axis} ({:.0} % of the variance)", 100.0 * share));
        }
        assert!(axes.x.rises() && marks.has("Routing · Spearman"));
        let [across, upwards] = [axes.x.at(1.0) - axes.x.at(0.0), axes.y.at(0.0) - axes.y.at(1.0)];
        assert!(
            (across / upwards - 1.0).abs() < 1e-3,
            "distances are as long in any direction: {across}, {upwards}"
        );
        let scene: Scene = Plot::draw_column(&plot, &theme, COLUMN).expect("a picture");
        let mut seen = 0;
        for item in &marks.items {
            let (Shape::Circle { center, fill, .. }, Some(Identity::Item(image))) =
                (&item.shape, &item.identity)
            else {
                continue;
            };
            let [x, y] = place(*image);
            at(*center, axes.at(x, y));
            let name = match by {
                ColorBy::Outcome if TRUE[*image] == PREDICTED[*image] => "Right",
                ColorBy::Outcome => "Wrong",
                ColorBy::Class => CLASSES[TRUE[*image] as usize],
            };
            let color = marks.swatch(name);
            let fill = fill.expect("a filled dot");
            assert_eq!((fill.r, fill.g, fill.b), (color.r, color.g, color.b), "image {image}");
            let found = scene.hover(*center).and_then(|hover| hover.item).expect("a dot");
            assert!(plot.item(found).starts_with(&format!("{found}.png: {}", CLASSES[TRUE[found] as usize])));
            seen += 1;
        }
        assert_eq!(seen, 9, "all but the one that could not be read");
        let ring = marks.items.iter().find_map(|item| match &item.shape {
            Shape::Circle { center, fill: None, stroke: Some(_), .. } => Some(*center),
            _ => None,
        });
        let [x, y] = place(2);
        at(ring.expect("the chosen image is ringed"), axes.at(x, y));
    }
}

#[test]
fn what_lies_within_an_outline_on_the_page_are_its_dots() {
    let plot = small::image_map(ColorBy::Outcome);
    let scene = Plot::draw_column(&plot, &Theme::light(), COLUMN).expect("a picture");
    let (right, bottom) = (scene.width, scene.height);
    let page = [[0.0, 0.0], [right, 0.0], [right, bottom], [0.0, bottom]];
    assert_eq!(scene.within(&page), (0..9).collect::<Vec<_>>());
    // A small box around the first image's dot, whose place is read back from the marks.
    let marks = plotted(&plot, &Theme::light());
    let own = marks.items.iter().find_map(|item| match (&item.shape, &item.identity) {
        (Shape::Circle { center, .. }, Some(Identity::Item(0))) => Some(*center),
        _ => None,
    });
    let [x, y] = own.expect("its dot");
    let around = [[x - 0.1, y - 0.1], [x + 0.1, y - 0.1], [x + 0.1, y + 0.1], [x - 0.1, y + 0.1]];
    assert!(scene.within(&around).contains(&0) && scene.within(&[]).is_empty());
}

#[test]
fn the_numbers_behind_a_map_are_its_places() {
    let plot = small::image_map(ColorBy::Class);
    let map = plot.space.projection.as_ref().expect("a map");
    let table = plot.table();
    assert_eq!(table.heads(), ["image", "class", "predicted", "pc_1", "pc_2"]);
    for image in 0..9 {
        let row = table.row(image);
        assert_eq!(row[..2], [format!("{image}.png"), CLASSES[TRUE[image] as usize].to_owned()]);
        let found: Vec<f64> = row[3..].iter().map(|cell| cell.parse().expect("a number")).collect();
        assert_close(image, found, map.points[image].expect("a vector").map(f64::from), 1e-6);
    }
    assert_eq!(table.rows(), 10);
    let caption = plot.caption();
    assert_eq!(caption.command, "--figure image_map --vectors routing --similarity spearman --color class");
    assert_eq!(caption.file, "shore-sinkhorn-image_map-routing-spearman");
}
