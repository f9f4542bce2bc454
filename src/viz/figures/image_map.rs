//! A map of the images of a dataset, one dot each, on the first two principal components of one vector per image that is made
//! from how a probe read its tokens: images that it read alike lie close to each other. Both axes have the same unit.

use std::sync::Arc;

use crate::model::explain::evaluation::Evaluation;
use crate::model::explain::evaluation::similarity::{ImageSpace, Projection, Similarity};
use crate::model::explain::evaluation::vectors::VectorKind;
use crate::model::trace::slug;
use crate::viz::figures::dataset::{self, ColorBy};
use crate::viz::figures::plot::{Caption, Plot, Source};
use crate::viz::figures::prelude::*;
use crate::viz::file_names::joined;
use crate::viz::heading;

/// Its name and description.
pub const INFO: Info = Info {
    id: "image_map",
    title: "Map of images",
    about: "Images that the probe reads alike lie close together",
    tab: TabGroup::Images.tab(),
};

/// A map of images as a [`Plot`].
#[derive(Clone)]
pub struct ImageMapPlot {
    /// The results of the probe on the images.
    pub evaluation: Arc<Evaluation>,
    /// The name of the probe among those that are open.
    pub name: String,
    /// Which vectors images are compared by.
    pub vectors: VectorKind,
    /// How these vectors are compared.
    pub similarity: Similarity,
    /// These vectors of the evaluation, and their projection.
    pub space: Arc<ImageSpace>,
    /// What dots are coloured by.
    pub color: ColorBy,
    /// The image to mark.
    pub selected: Option<usize>,
}

impl Plot for ImageMapPlot {
    fn caption(&self) -> Caption {
        let (vectors, similarity) = (self.vectors.id(), self.similarity.id());
        let Evaluation { set, change, .. } = &*self.evaluation;
        let color = match self.color {
            color if color == ColorBy::default() => String::new(),
            color => format!(" --color {}", color.id()),
        };
        Caption {
            title: INFO.title.to_owned(),
            file: joined(&[&set.dataset, &self.name, &slug(change), INFO.id, vectors, similarity]),
            about: dataset::subject(&self.evaluation, &self.name),
            command: format!("--figure {} --vectors {vectors} --similarity {similarity}{color}", INFO.id),
        }
    }

    fn height(&self, width: f32) -> f32 {
        width * 0.86 + heading::height(self.heading().as_deref(), width)
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        heading::over(self.heading().as_deref(), theme, size, |size| self.draw_map(theme, size))
    }

    fn table(&self) -> Table {
        let axis = |axis: usize| {
            let at = move |image: usize| Some(f64::from(self.projection().ok()?.points[image]?[axis]));
            (0..self.evaluation.len()).map(at)
        };
        dataset::image_table(&self.evaluation).numbers("pc_1", axis(0)).numbers("pc_2", axis(1))
    }

    fn sources(&self) -> Vec<Source<'_>> {
        vec![Source::Evaluation(&self.evaluation, &self.name)]
    }
}

impl ImageMapPlot {
    /// How the probe reads, where that is not as trained.
    fn heading(&self) -> Option<String> {
        dataset::heading(&self.evaluation, &self.name)
    }

    /// The points of all images; an error if there is no projection, or if it is of other images than the evaluation.
    fn projection(&self) -> Result<&Projection, Empty> {
        let projection = self.space.projection.as_ref().map_err(|why| Empty(why.clone()))?;
        let same_images = projection.points.len() == self.evaluation.len();
        same_images.then_some(projection).ok_or_else(|| Empty("The vectors are of other images".to_owned()))
    }

    /// The legend entry of every image, as an index, and the colours and names of the legend.
    fn colors(&self, theme: &Theme) -> (Vec<usize>, Vec<(Color, String)>) {
        let evaluation = &self.evaluation;
        let images = 0..evaluation.len();
        if self.color == ColorBy::Outcome {
            let key = [(true, "Right"), (false, "Wrong")];
            let key = key.map(|(right, name)| (theme.outcome(right), name.to_owned()));
            return (
                images.map(|image| usize::from(evaluation.is_correct(image) != Some(true))).collect(),
                key.into(),
            );
        }
        // The most frequent classes have a colour each, all others share one.
        let set = &evaluation.set;
        let mut counts = vec![0; set.classes.len()];
        set.class.iter().for_each(|class| counts[*class as usize] += 1);
        let mut classes: Vec<usize> = (0..counts.len()).filter(|class| counts[*class] > 0).collect();
        let own = if classes.len() <= theme.series.len() { classes.len() } else { theme.series.len() - 1 };
        classes.sort_by_key(|class| std::cmp::Reverse(counts[*class]));
        let others = classes.split_off(own).len();
        classes.sort_unstable();
        let entry = |(at, class): (usize, &usize)| (theme.series(at), set.classes[*class].clone());
        let mut key: Vec<(Color, String)> = classes.iter().enumerate().map(entry).collect();
        if others > 0 {
            key.push((theme.series(own), format!("{others} other classes")));
        }
        let mut place = vec![own; counts.len()];
        classes.iter().enumerate().for_each(|(at, class)| place[*class] = at);
        (images.map(|image| place[set.class[image] as usize]).collect(), key)
    }

    fn draw_map(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let Projection { points, explained } = self.projection()?;
        let scale = |axis: usize| {
            let (low, high) = extent(points.iter().flatten().map(|point| f64::from(point[axis])))?;
            // Of images on one line the other axis has the extent that the first gives it.
            Some(if low < high { Scale::padded(low, high) } else { Scale::linear(low - 1e-9, low + 1e-9) })
        };
        let (x, y) = scale(0).zip(scale(1)).ok_or_else(|| Empty("No image has such a vector".to_owned()))?;
        let mut scene = Scene::new(size.width, size.height, INFO.title, theme.background);
        let (entries, key) = self.colors(theme);
        let what = format!("{} · {}", self.vectors.name(), self.similarity.name());
        let by_outcome = self.color == ColorBy::Outcome;
        let kind = |(at, (color, _)): (usize, &(Color, String))| (*color, by_outcome && at == 1);
        let kinds: Vec<(Color, bool)> = key.iter().enumerate().map(kind).collect();
        let mark = |(color, in_ring)| if in_ring { Mark::Ring(color, theme.ink) } else { Mark::Dot(color) };
        let legend = kinds.iter().zip(&key).map(|(kind, (_, name))| (mark(*kind), name.as_str()));
        let mut marks: Vec<(Mark, &str)> = legend.collect();
        marks.push((Mark::None, &what));
        let below = legend::above(&mut scene, theme, size, &marks);
        let name =
            |axis: usize| format!("PC {} ({:.0} % of the variance)", axis + 1, 100.0 * explained[axis]);
        let fit = |[x, y]: [Scale; 2]| Frame::fit(below, Axis::new(x, name(0), 5), Axis::new(y, name(1), 5));
        // Twice, as other numbers may take other room.
        let mut frame = fit(with_equal_units([x, y], fit([x, y]).area));
        [frame.x.scale, frame.y.scale] = with_equal_units([x, y], frame.area);
        frame.grid(&mut scene, theme);
        let dot = |(entry, point): (usize, &Option<[f32; 2]>)| {
            point.map(|[x, y]| (entry, frame.at(f64::from(x), f64::from(y))))
        };
        let dots: Vec<_> = entries.into_iter().zip(points).map(dot).collect();
        // Wrong predictions on top: they are rarer than right ones, and looked for more often.
        dataset::image_dots(&mut scene, theme, &kinds, &dots, self.selected);
        frame.axes(&mut scene, theme);
        Ok(scene)
    }

    /// The text of an image under the pointer: its name, class and prediction; empty for an unknown image.
    pub fn item(&self, image: usize) -> String {
        let Evaluation { set, .. } = &*self.evaluation;
        let Some(name) = set.images.get(image) else { return String::new() };
        let class = &set.classes[set.class[image] as usize];
        match self.evaluation.predicted_name(image) {
            "" => format!("{name}: {class}, not read"),
            predicted => format!("{name}: {class}, predicted as {predicted}"),
        }
    }
}

/// The scales, of which one is widened so that a unit is as long upwards as across: on a map, distances are read.
fn with_equal_units([x, y]: [Scale; 2], area: Box2) -> [Scale; 2] {
    let per_unit = |scale: Scale, length: f32| f64::from(length) / (scale.hi - scale.lo);
    let unit = per_unit(x, area.w).min(per_unit(y, area.h));
    let widened = |scale: Scale, length: f32| {
        let more = (f64::from(length) / unit - (scale.hi - scale.lo)) / 2.0;
        Scale::linear(scale.lo - more, scale.hi + more)
    };
    [widened(x, area.w), widened(y, area.h)]
}
