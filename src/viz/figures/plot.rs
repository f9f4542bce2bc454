//! A picture that brings its own data: what is exported without being a figure of a trace.

use std::sync::Arc;

use crate::model::explain::survey::Survey;
use crate::viz::draw::colormap::Map;
use crate::viz::draw::scene::Scene;
use crate::viz::draw::table::Table;
use crate::viz::draw::theme::Theme;
use crate::viz::figures::dataset::{self, Choice, MapOf, Overview, View};
use crate::viz::{Empty, Size};

/// A picture with its data.
pub trait Plot: Send + Sync {
    /// What it is called on the screen.
    fn title(&self) -> String;

    /// What its file is called, without ending.
    fn name(&self) -> String;

    /// What it was made of, for the file's metadata.
    fn about(&self) -> String;

    /// A height that suits `width`, in points.
    fn height(&self, width: f32) -> f32;

    /// The picture at `size`.
    ///
    /// # Errors
    /// Why there is nothing to see.
    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty>;

    /// The numbers behind it.
    fn table(&self) -> Table;

    /// What `ssmprobe figures` is told to draw the same, without its data and where it goes.
    fn command(&self) -> String;

    /// Its data as files: the option of `ssmprobe figures` that names one, and what it holds (JSON).
    /// None where it has a place of its own.
    fn sources(&self) -> Vec<(&'static str, String)>;
}

/// An overview of surveys.
#[derive(Clone)]
pub struct Surveyed {
    /// Which.
    pub overview: &'static dyn Overview,
    /// What one probe made of the images.
    pub survey: Arc<Survey>,
    /// And another; the same where there is none.
    pub other: Arc<Survey>,
    /// What is set.
    pub choice: Choice,
    /// The image to mark.
    pub selected: Option<usize>,
}

impl Surveyed {
    /// It, as an overview takes it.
    pub fn view(&self) -> View<'_> {
        let Self { survey, other, choice, selected, .. } = self;
        View { survey, other, choice, selected: *selected }
    }
}

impl Plot for Surveyed {
    fn title(&self) -> String {
        self.overview.title().to_owned()
    }

    fn name(&self) -> String {
        format!("{}-{}-{}", self.survey.asked.dataset, self.survey.probe, self.overview.id())
    }

    fn about(&self) -> String {
        dataset::subject(&self.survey)
    }

    fn height(&self, width: f32) -> f32 {
        self.overview.height(self.view(), width)
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        self.overview.scene(self.view(), theme, size)
    }

    fn table(&self) -> Table {
        self.overview.table(self.view())
    }

    fn command(&self) -> String {
        let Choice { measure, against, maps, map } = &self.choice;
        let measure = dataset::measure(&self.survey, measure);
        let against = dataset::measure(&self.other, against);
        let mut words = vec![format!("--figure {}", self.overview.id())];
        match self.overview.id() {
            "class_diagnostics" => words.push(format!("--measure {measure}")),
            "scatter" => words.push(format!("--measure {measure} --against {against}")),
            "routing_maps" if *maps == MapOf::Weights => words.push("--maps weights".to_owned()),
            _ => {}
        }
        words.extend((*map == Map::Viridis).then(|| "--map viridis".to_owned()));
        words.join(" ")
    }

    fn sources(&self) -> Vec<(&'static str, String)> {
        let two = self.overview.id() == "scatter" && !Arc::ptr_eq(&self.survey, &self.other);
        let surveys = std::iter::once(&self.survey).chain(two.then_some(&self.other));
        surveys.filter_map(|survey| Some(("--survey", survey.to_json().ok()?))).collect()
    }
}

/// Draws a plot at `size`, edge included.
///
/// # Errors
/// Why there is nothing to see.
pub fn draw(plot: &dyn Plot, theme: &Theme, size: Size) -> Result<Scene, Empty> {
    let inner =
        Size { width: size.width - 2.0 * crate::viz::MARGIN, height: size.height - 2.0 * crate::viz::MARGIN };
    Ok(plot.scene(theme, inner)?.framed(crate::viz::MARGIN))
}

/// Draws a plot in a column of `width` points, as high as suits it.
///
/// # Errors
/// Why there is nothing to see.
pub fn draw_column(plot: &dyn Plot, theme: &Theme, width: f32) -> Result<Scene, Empty> {
    let height = plot.height(width - 2.0 * crate::viz::MARGIN) + 2.0 * crate::viz::MARGIN;
    draw(plot, theme, Size { width, height })
}
