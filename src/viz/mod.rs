//! Figures of a [`Trace`]: one description of each, drawn to the screen or exported as vector
//! graphics. Knows neither tensors nor weights; only [`export`] writes files.
//!
//! A [`Figure`] turns a trace into a [`Scene`], and a [`TracePlot`](figures::trace_plot::TracePlot) puts its heading over it;
//! [`draw::paint`] shows a scene in a window, [`export`] writes it. [`FIGURES`] is the one list that menus, command line and
//! tests walk. Every length is in points (1/72 inch), so that a figure has the same type size on a page whatever its width.

pub mod animation;
pub mod difference;
pub mod draw;
pub mod export;
pub mod figures;
pub mod file_names;
pub mod heading;
pub mod readout;

pub use figures::{FIGURES, find};

use serde::{Deserialize, Serialize};

use crate::model::trace::{Attribution, Routing, Trace};
use difference::lacking;
use draw::{Hover, Keys, Map, Scene, Table, Theme, playhead};
use readout::Readout;

/// One column of a two-column page, 85 mm, in points.
pub const COLUMN: f32 = 85.0 / 25.4 * 72.0;

/// Why a figure has nothing to show of a trace, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Empty(pub String);

/// Width and height in points.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    /// Width.
    pub width: f32,
    /// Height.
    pub height: f32,
}

listed! {
    /// Order of the tokens in the rows of a matrix.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Rows {
        /// By the position that holds most of their mass, as in the paper.
        #[default]
        Argmax: "argmax", "Best position";
        /// By score, lowest first.
        Score: "score", "Score";
        /// Row by row, as in the image.
        Raster: "raster", "Raster";
    }
}

/// The settings of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Colours of magnitudes.
    pub map: Map,
    /// Whether values are on a logarithmic scale, where a figure offers one.
    pub log: bool,
    /// Order of the rows of a matrix.
    pub rows: Rows,
    /// Opacity of colours laid over a photograph, 0 to 1.
    pub opacity: f32,
    /// Whether the patch grid is drawn.
    pub grid: bool,
    /// Whether known regions are outlined.
    pub regions: bool,
    /// How many tokens have been read: a scan path shows what the memory then holds, other figures mark the last one.
    pub step: Option<usize>,
    /// Limits of the values shown, where several figures share them.
    pub limits: Option<(f64, f64)>,
    /// As `limits`, of evidence by the paper's proxy, which has a scale of its own.
    pub proxy_limits: Option<(f64, f64)>,
    /// Whether the figure draws its legends and colour bars itself.
    #[serde(skip)]
    pub keys: Keys,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            map: Map::Cividis,
            log: false,
            rows: Rows::Argmax,
            opacity: 0.7,
            grid: false,
            regions: false,
            step: None,
            limits: None,
            proxy_limits: None,
            keys: Keys::Own,
        }
    }
}

/// Names and description of a figure, for menus, lists and the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its name on a command line and in files.
    pub id: &'static str,
    /// Its name on the screen.
    pub title: &'static str,
    /// What it shows and how to read it.
    pub about: &'static str,
    /// Where its pane is in the initial layout.
    pub tab: Tab,
}

/// A setting that changes a figure: the field of [`Options`] of this name.
#[expect(missing_docs, reason = "the fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    Opacity,
    Grid,
    Regions,
    Log,
    Rows,
    Step,
    Map,
}

/// Groups of tabs that share a pane in a window's initial layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TabGroup {
    /// The photograph and the weight of its patches.
    Picture,
    /// The order in which the tokens are read.
    Order,
    /// Which token is sent to which position.
    Plan,
    /// Evidence by position, and how much the memory keeps of each.
    Evidence,
    /// Measures of the plan.
    Diagnostics,
    /// The predicted classes.
    Predictions,
    /// Of a dataset: rates by probe and class.
    Classes,
    /// Of a dataset: true classes against predicted ones.
    Confusion,
    /// Of a dataset: image by image.
    Images,
    /// Of a dataset: routing by class.
    Routing,
    /// A full-size page.
    Page,
    /// Closed until a user opens it, then beside evidence by position.
    OnRequest,
}

/// Where a pane is in the initial layout. Within a group, tabs are in the order of their list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tab {
    /// The group it belongs to.
    pub group: TabGroup,
    /// Whether it is the selected tab of its group.
    pub front: bool,
}

impl TabGroup {
    /// A tab of this group.
    pub const fn tab(self) -> Tab {
        Tab { group: self, front: false }
    }

    /// The selected tab of this group.
    pub const fn front(self) -> Tab {
        Tab { group: self, front: true }
    }
}

/// What holds of a figure, whatever the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Properties {
    /// Whether it shows numbers of one class; then it cannot show a difference of traces for different classes.
    pub is_for_one_class: bool,
    /// Whether it shows numbers of single tokens; then it cannot show a difference of traces with other tokens at these places.
    pub compares_tokens: bool,
    /// Whether it names classes, so that the true class should be shown beside it.
    pub names_classes: bool,
    /// Whether the current step of the reading is marked in it.
    pub marks_step: bool,
    /// Whether a comparison of probes shows it by default.
    pub is_compared: bool,
    /// Whether several in a row share one legend, one colour bar and one vertical axis.
    pub shares_keys: bool,
    /// Least width at which it is legible beside others, in points.
    pub least_width: f32,
}

impl Default for Properties {
    fn default() -> Self {
        Self {
            is_for_one_class: false,
            compares_tokens: false,
            names_classes: false,
            marks_step: false,
            is_compared: false,
            shares_keys: false,
            least_width: 130.0,
        }
    }
}

/// A kind of picture of a trace.
pub trait Figure: Sync {
    /// Its names and description.
    fn info(&self) -> Info;

    /// Its name on a command line.
    fn id(&self) -> &'static str {
        self.info().id
    }

    /// Its name on the screen.
    fn title(&self) -> &'static str {
        self.info().title
    }

    /// The settings that change it for this trace, in the order in which they are offered.
    fn controls(&self, _trace: &Trace) -> &'static [Control] {
        &[]
    }

    /// What holds of it for every trace.
    fn properties(&self) -> Properties {
        Properties::default()
    }

    /// Name of the scale of its values, where that depends on the trace: only traces with the same name share limits.
    fn scale(&self, _trace: &Trace) -> &'static str {
        ""
    }

    /// The attribution method it shows, if any; it is computed on demand.
    fn attribution(&self) -> Option<Attribution> {
        None
    }

    /// The preferred height at `width`, in points. The trace has been checked.
    fn height(&self, trace: &Trace, options: &Options, width: f32) -> f32;

    /// Lines of its own legend above a chart that figures side by side align, in a figure of this `width` in points.
    fn legend_lines(&self, _trace: &Trace, _width: f32) -> usize {
        0
    }

    /// The height beyond which more space is of no use, in points.
    fn max_height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        1.4 * self.height(trace, options, width)
    }

    /// Why this trace has nothing to show in it, found without drawing. The trace has been checked.
    fn lacks(&self, _trace: &Trace) -> Option<Empty> {
        None
    }

    /// The values under the pointer. The trace has been checked.
    fn readout(&self, trace: &Trace, hover: Hover) -> Readout {
        readout::readout(trace, hover)
    }

    /// Smallest and largest value shown, where figures side by side should share one scale.
    fn limits(&self, _trace: &Trace) -> Option<(f64, f64)> {
        None
    }

    /// As [`Figure::limits`], of evidence by the paper's proxy, which has a scale of its own.
    fn proxy_limits(&self, _trace: &Trace) -> Option<(f64, f64)> {
        None
    }

    /// Draws it at `size`. The trace has been checked: its arrays fit together, and the figure lacks nothing.
    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty>;

    /// The numbers it shows.
    fn table(&self, trace: &Trace) -> Table;
}

/// Limits that several figures share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SharedLimits {
    /// The limits of [values](Figure::limits).
    pub values: Option<(f64, f64)>,
    /// The limits of the [paper's proxy](Figure::proxy_limits).
    pub proxy: Option<(f64, f64)>,
}

impl SharedLimits {
    /// The limits of a figure that contain its values in all these traces.
    pub fn new<'a>(figure: &dyn Figure, traces: impl Iterator<Item = &'a Trace> + Clone) -> Self {
        let union = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.max(b.1));
        Self {
            values: traces.clone().filter_map(|trace| figure.limits(trace)).reduce(union),
            proxy: traces.filter_map(|trace| figure.proxy_limits(trace)).reduce(union),
        }
    }
}

impl Options {
    /// The options with these limits where none are set.
    pub fn within(self, SharedLimits { values, proxy }: SharedLimits) -> Self {
        Self { limits: self.limits.or(values), proxy_limits: self.proxy_limits.or(proxy), ..self }
    }
}

/// Margin around a figure, in points: letters may overhang their box.
pub const MARGIN: f32 = 2.0;

/// Lines of the longest legend of a figure of these traces side by side, each `width` points wide without its margin. Those that it
/// does not show have none.
pub fn legend_lines<'a>(figure: &dyn Figure, traces: impl Iterator<Item = &'a Trace>, width: f32) -> usize {
    let shown = traces.filter(|trace| figure.lacks(trace).is_none());
    shown.map(|trace| figure.legend_lines(trace, width)).max().unwrap_or(0)
}

/// Draws a trace that has been checked, and marks the step of the reading where one is set.
fn marked(
    figure: &dyn Figure,
    trace: &Trace,
    options: &Options,
    theme: &Theme,
    size: Size,
) -> Result<Scene, Empty> {
    if let Some(why) = figure.lacks(trace) {
        return Err(why);
    }
    let mut scene = figure.scene(trace, options, theme, size)?;
    let step = options.step.filter(|_| figure.properties().marks_step);
    if let Some(at) = step.and_then(|step| playhead::at(trace, step)) {
        scene.place(playhead::marks(&scene, at, theme), [0.0, 0.0], None);
    }
    Ok(scene)
}

/// Why a head with this routing has no order to show.
fn no_order(trace: &Trace) -> Empty {
    let trace = lacking(trace, !matches!(trace.routing, Routing::None));
    Empty(format!("{} reads no order", trace.head))
}

/// Why a trace, or one of the two traces of a difference, has no plan to show; `None` where there is one.
fn lacks_plan(trace: &Trace) -> Option<Empty> {
    let has_plan = |trace: &Trace| matches!(trace.routing, Routing::Plan(_));
    let both = has_plan(trace) && trace.minus.as_deref().is_none_or(has_plan);
    (!both).then(|| no_plan(trace))
}

/// Why a head has no plan to show, for one that reads in an order and one that reads in none.
fn no_plan(trace: &Trace) -> Empty {
    let trace = lacking(trace, matches!(trace.routing, Routing::Plan(_)));
    let reads = match &trace.routing {
        Routing::None => return no_order(trace),
        // Two sweeps without a kernel: a recurrent head.
        Routing::Orders(orders) if orders.len() == 2 && trace.kernel.is_none() => "row by row, both ways",
        // A scan order, raster order, or a random order for each image.
        Routing::Orders(_) | Routing::Plan(_) => "in a fixed or random order",
    };
    Empty(format!("{} has no router: it reads {reads}", trace.head))
}
