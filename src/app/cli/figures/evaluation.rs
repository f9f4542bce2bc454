//! Figures of evaluations, and of an image's stability and removal curves, from files of `eval`, `inspect` and the window.

use std::borrow::Cow;
use std::sync::Arc;

use super::super::similar::SimilarityFlags;
use super::{Figures, source};
use crate::app::cli::prelude::*;
use crate::app::format::noun;
use crate::app::value_parser::{choice_of, one_of};
use crate::model::explain::evaluation::Evaluation;
use crate::model::explain::removal::Removal;
use crate::model::explain::stability::Stability;
use crate::viz::figures::dataset::{self, Choice, ClassFilter, ClassSort, ColorBy, MapOf, OVERVIEWS};
use crate::viz::figures::image_map::{self, ImageMapPlot};
use crate::viz::figures::plot::{EvaluationPlot, Plot};
use crate::viz::figures::removal::{self, Quantity, RemovalPlot, RemovalView};
use crate::viz::figures::stability::{self, StabilityPlot};
use crate::viz::file_names::own_path;

/// The error of a second evaluation beside any figure but a scatter.
const TWO_EVALUATIONS: &str = "--evaluation: only a scatter takes two";

/// What is drawn of evaluations.
#[derive(Args)]
pub struct EvaluationFlags {
    /// Evaluation of a dataset by a probe: `<probe>.survey.json` from `ssmprobe eval --evaluation`, or the file that
    /// the window saves beside a figure; a second one is on the y axis of a scatter
    #[arg(long, alias = "survey", value_name = "FILE")]
    evaluation: Vec<PathBuf>,
    /// Stability of one image's order: `<probe>.stability.json` from `ssmprobe inspect --stability`, or the file that
    /// the window saves beside its figure
    #[arg(long, value_name = "FILE")]
    stability: Option<PathBuf>,
    /// Removal curves of one image, as written by `ssmprobe inspect --causal` and the window (JSON)
    #[arg(long, value_name = "FILE")]
    causal: Option<PathBuf>,
    /// Where tokens were removed: frozen, rerouted, patches or pixels [default: the first in the file]
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Score of the class: logit, margin or probability
    #[arg(long, default_value = "logit", value_name = "NAME", value_parser = one_of(Quantity::ALL, Quantity::id))]
    quantity: Quantity,
    /// Ranking whose picture is drawn, at the step given by --step [default: the first in the file]
    #[arg(long, value_name = "ID")]
    ranking: Option<String>,
    /// Measure shown by class, and on the x axis of a scatter
    #[arg(long, value_name = "NAME")]
    measure: Option<String>,
    /// What maps of classes show: token positions or token weights
    #[arg(long, default_value = "positions", value_parser = choice_of(MapOf::ALL, MapOf::id))]
    maps: MapOf,
    /// Maximum number of classes drawn, those that differ most; or "all"
    #[arg(long, default_value = "40", value_parser = class_limit, value_name = "N")]
    classes: ClassLimit,
    /// Draw only classes whose names contain this text
    #[arg(long, value_name = "TEXT")]
    class_search: Option<String>,
    /// Order of classes [default: depends on the figure]
    #[arg(long, value_parser = choice_of(ClassSort::ALL, ClassSort::id))]
    class_sort: Option<ClassSort>,
    #[command(flatten)]
    similarity: SimilarityFlags,
    /// What the dots of an image map are coloured by
    #[arg(long, default_value = "outcome", value_parser = choice_of(ColorBy::ALL, ColorBy::id))]
    color: ColorBy,
}

/// The most classes drawn; `None` draws all.
#[derive(Clone, Copy)]
struct ClassLimit(Option<usize>);

/// Parses a number of classes above 0, or `all`.
fn class_limit(text: &str) -> Result<ClassLimit, String> {
    match text.parse() {
        _ if text == "all" => Ok(ClassLimit(None)),
        Ok(0) | Err(_) => Err("expected a number above 0, or all".to_owned()),
        Ok(limit) => Ok(ClassLimit(Some(limit))),
    }
}

impl EvaluationFlags {
    /// Whether a file of any kind is named.
    pub fn are_named(&self) -> bool {
        !self.evaluation.is_empty() || self.has_one_figure()
    }

    /// Whether the file is a stability or removal curves, which have one figure each.
    pub fn has_one_figure(&self) -> bool {
        self.stability.is_some() || self.causal.is_some()
    }

    /// Why `--against` cannot subtract what is drawn; `None` if it can, or means an axis of a scatter.
    pub fn no_difference(&self, figures: &[String]) -> Option<&'static str> {
        if self.stability.is_some() {
            return Some(
                "each tau of a stability file compares an order with itself; draw scan_path of two orders (--trace) to see how far apart they are",
            );
        }
        let scatter = |id: &String| dataset::find(id).is_some_and(dataset::Overview::is_by_image);
        let overview = !self.evaluation.is_empty() && !figures.iter().any(scatter);
        overview.then_some("with evaluations it names the y axis of a scatter; `ssmprobe report --table paired` subtracts them")
    }

    /// The plot of a file of removal curves as the flags show it, with `--against` of their difference from another file's.
    fn removal(&self, path: &Path, figures: &Figures) -> anyhow::Result<RemovalPlot> {
        let read = |path: &Path| -> anyhow::Result<Arc<Removal>> {
            let removal = Removal::from_json(&source::text(path)?).map_err(|why| {
                let named = path.display();
                anyhow::anyhow!(
                    "{named} is not what `ssmprobe inspect --causal` writes (<probe>.causal.json): {why}"
                )
            })?;
            Ok(Arc::new(removal))
        };
        let curves = read(path)?;
        let against = figures.against.as_ref().map(Path::new).map(read).transpose()?;
        let mut plot = RemovalPlot::new(curves, against)?;
        let removal = plot.removal.clone();
        let mut view = RemovalView::new(&removal);
        if let Some(asked) = &self.mode {
            let mode = removal.modes.keys().find(|mode| mode.id() == asked);
            let ids = || removal.modes.keys().map(|mode| mode.id()).collect::<Vec<_>>().join(", ");
            view.mode = *mode.ok_or_else(|| Usage(format!("--mode {asked}: the file has {}", ids())))?;
        }
        view.quantity = self.quantity;
        if let Some(asked) = &self.ranking {
            let known = removal.rankings.get(asked).and_then(|ranked| ranked.found());
            let ids = || removal.rankings.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            known.ok_or_else(|| Usage(format!("--ranking {asked}: not found among {}", ids())))?;
            view.ranking.clone_from(asked);
        }
        let last = removal.fraction.len().saturating_sub(1);
        if let Some(step) = figures.step {
            if step > last {
                refuse!("--step {step}: the curves have steps 0 to {last}");
            }
            view.step = step;
        }
        plot.view = view;
        Ok(plot)
    }

    /// The plot of an evaluation's images by similarity, as the flags show it.
    fn image_map(&self) -> anyhow::Result<ImageMapPlot> {
        let [path] = &self.evaluation[..] else { refuse!("{TWO_EVALUATIONS}") };
        let evaluation = source::evaluation(path)?;
        let SimilarityFlags { vectors, similarity } = self.similarity;
        let space = Arc::new(self.similarity.space(&evaluation, path)?);
        let (name, color) = (evaluation.probe.clone(), self.color);
        let evaluation = Arc::new(evaluation);
        Ok(ImageMapPlot { evaluation, name, vectors, similarity, space, color, selected: None })
    }
}

/// The measure that a flag names, or `default` if it names none; an error if the evaluation does not have it.
fn measure(
    evaluation: &Evaluation,
    (flag, name): (&str, Option<&String>),
    default: String,
) -> anyhow::Result<String> {
    let Some(name) = name else { return Ok(default) };
    if evaluation.values(name).is_none() {
        let known = evaluation.measures.keys().copied().collect::<Vec<_>>().join(", ");
        let probe = &evaluation.probe;
        refuse!("{flag} {name}: {probe} has no such measure; expected one of {known}");
    }
    Ok(name.clone())
}

/// Adds to the names of two probes, where they are the same, what tells them apart: the backbone, or else the file of the evaluation.
/// What may be one probe that is read in two ways has one name.
fn tell_apart(plot: &mut EvaluationPlot, files: [Cow<'_, str>; 2]) {
    let [one, two] = [&plot.evaluation, &plot.other];
    let is_alike = one.backbone == two.backbone;
    if plot.names[0] != plot.names[1] || is_alike && one.change != two.change {
        return;
    }
    let parts = match is_alike {
        true => [0, 1].map(|at| own_path(&files[at], std::iter::once(&*files[1 - at])).to_owned()),
        false => [one, two].map(|evaluation| evaluation.backbone.clone()),
    };
    plot.names = [0, 1].map(|at| format!("{} · {}", plot.names[at], parts[at]));
}

impl Figures {
    /// Draws a figure of evaluations, a stability or removal curves.
    pub(super) fn draw_evaluation(&self) -> anyhow::Result<ExitCode> {
        let out = self.out.as_deref().context("--out names no file")?;
        let check_figure = |what: &str, own: &str| match self.figure.iter().any(|id| id != own) {
            true => Err(Usage(format!("--figure: {what} one figure, {own}"))),
            false => Ok(()),
        };
        let plot: Box<dyn Plot> = match (&self.evaluations.stability, &self.evaluations.causal) {
            (_, Some(path)) => {
                check_figure("removal curves have", removal::INFO.id)?;
                Box::new(self.evaluations.removal(path, self)?)
            }
            (Some(path), _) => {
                check_figure("a stability file has", stability::INFO.id)?;
                let read: Stability = serde_json::from_str(&source::text(path)?).with_context(|| {
                    let named = path.display();
                    format!(
                        "{named} is not what `ssmprobe inspect --stability` writes (<probe>.stability.json)"
                    )
                })?;
                Box::new(StabilityPlot(Arc::new(read)))
            }
            (None, None) if self.figure == [image_map::INFO.id] => Box::new(self.evaluations.image_map()?),
            (None, None) => Box::new(self.overview()?),
        };
        self.save(&*plot, out, self.width_for(&*plot))?;
        say!("wrote {}", out.display());
        Ok(ExitCode::SUCCESS)
    }

    fn overview(&self) -> anyhow::Result<EvaluationPlot> {
        let flags = &self.evaluations;
        let overviews = || OVERVIEWS.iter().map(|overview| overview.id());
        let ids = || overviews().chain([image_map::INFO.id]).collect::<Vec<_>>().join(", ");
        let [id] = &self.figure[..] else { refuse!("--figure: name one of {}", ids()) };
        let unknown =
            || Usage(format!("--figure {id}: an evaluation has no such figure; expected one of {}", ids()));
        let overview = dataset::find(id).ok_or_else(unknown)?;
        let read = |path: &PathBuf| -> anyhow::Result<_> { Ok(Arc::new(source::evaluation(path)?)) };
        let evaluations = flags.evaluation.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
        let (evaluation, other) = match &evaluations[..] {
            [one] => (one.clone(), one.clone()),
            [one, other] if overview.is_by_image() => (one.clone(), other.clone()),
            _ => refuse!("{TWO_EVALUATIONS}"),
        };
        if let [one, two] = &flags.evaluation[..]
            && evaluation.set.images != other.set.images
        {
            let describe = |path: &Path, Evaluation { set, .. }: &Evaluation| {
                let images = set.images.len();
                let noun = noun(images, "image", "images");
                format!("{} has {images} {} {noun} of {}", path.display(), set.split, set.dataset)
            };
            let [one, two] = [describe(one, &evaluation), describe(two, &other)];
            refuse!("--evaluation: {one}, {two}; a scatter needs two of the same images");
        }
        let files = |of: &Evaluation| of.provenance.as_ref()?.image_files.clone();
        if files(&evaluation).zip(files(&other)).is_some_and(|(one, two)| one != two) {
            say!("warning: the two evaluations are of images of the same names with other contents");
        }
        let default = Choice::default();
        let choice = Choice {
            measure: measure(&evaluation, ("--measure", flags.measure.as_ref()), default.measure)?,
            against: measure(&other, ("--against", self.against.as_ref()), default.against)?,
            maps: flags.maps,
            map: self.options().map,
            classes: ClassFilter {
                search: flags.class_search.clone().unwrap_or_default(),
                sort: flags.class_sort,
                most: flags.classes.0,
            },
            ..default
        };
        let mut plot = EvaluationPlot::new(overview, [evaluation, other], choice);
        if let [one, two] = &flags.evaluation[..] {
            tell_apart(&mut plot, [one, two].map(|path| path.to_string_lossy()));
        }
        Ok(plot)
    }
}
