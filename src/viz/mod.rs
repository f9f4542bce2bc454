//! Pictures of a [`Trace`]: one description of a figure, drawn to the screen or exported as
//! vectors. Knows neither tensors nor weights, and no files outside [`export`].
//!
//! A [`Figure`] turns a trace into a [`Scene`](scene::Scene); [`paint`] shows a scene in a window,
//! [`export`] writes it. [`FIGURES`] is the one list that menus, command line and tests walk. Every
//! length is in points (1/72 inch), so that a figure has the same type size on a page whatever its
//! width.

pub mod animation;
pub mod difference;
pub mod draw;
pub mod export;
pub mod figures;
pub mod heading;

pub use figures::{FIGURES, find};

use serde::{Deserialize, Serialize};

use crate::model::trace::{Attribution, Routing, Trace};
use difference::lacking;
use draw::{Hover, Keys, Map, Readout, Scene, Table, Theme, playhead};

/// One column of a two-column page, 85 mm, in points.
pub const COLUMN: f32 = 85.0 / 25.4 * 72.0;

/// Why a figure has nothing to show of this trace, as a person reads it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Empty(pub String);

/// Width and height in points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Width.
    pub width: f32,
    /// Height.
    pub height: f32,
}

/// In which order a matrix shows its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rows {
    /// By the position they are most placed at, as the paper does.
    #[default]
    Argmax,
    /// By score, lowest first.
    Score,
    /// As they lie in the image.
    Raster,
}

/// What a person may set of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Colours of magnitudes.
    pub map: Map,
    /// Logarithmic values, where a figure has them.
    pub log: bool,
    /// Order of the rows of a matrix.
    pub rows: Rows,
    /// Opacity of what lies over a picture, 0 to 1.
    pub opacity: f32,
    /// Whether the patch grid is drawn.
    pub grid: bool,
    /// Whether known regions are outlined.
    pub regions: bool,
    /// How many tokens have been read: a scan path shows what the memory then holds, others mark the one read last.
    pub step: Option<usize>,
    /// Limits of the values shown, where several figures share them.
    pub limits: Option<(f64, f64)>,
    /// The same of evidence by the paper's proxy, which has a scale of its own.
    pub proxy_limits: Option<(f64, f64)>,
    /// Who draws legends and colour bars.
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

/// What something is called, wherever it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its name on a command line and in files.
    pub id: &'static str,
    /// Its name on the screen.
    pub title: &'static str,
    /// What it shows and how to read it.
    pub about: &'static str,
    /// Where its pane stands at first.
    pub tab: Tab,
}

/// A setting that a figure heeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// [`Options::opacity`].
    Opacity,
    /// [`Options::grid`].
    Grid,
    /// [`Options::regions`].
    Regions,
    /// [`Options::log`].
    Log,
    /// [`Options::rows`].
    Rows,
    /// [`Options::step`].
    Step,
    /// [`Options::map`].
    Map,
}

/// Tabs that share a place in the layout a window begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TabGroup {
    /// The picture and what its patches count.
    Picture,
    /// In which order it is read.
    Order,
    /// Which token is sent where.
    Plan,
    /// What positions add, and what is remembered of them.
    Evidence,
    /// Measures of the plan.
    Diagnostics,
    /// What is predicted.
    Predictions,
    /// Of a dataset: probes and classes in numbers.
    Classes,
    /// Of a dataset: true classes against predicted ones.
    Confusion,
    /// Of a dataset: image by image.
    Images,
    /// Of a dataset: routing by class.
    Routing,
    /// A page of its own.
    Page,
    /// Nowhere, until it is opened: then beside evidence by position.
    Asked,
}

/// Where a pane stands at first: its group, and whether it is the tab in front there. The others follow
/// in the order of their list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tab {
    /// Beside which others.
    pub group: TabGroup,
    /// Whether it is the tab that is seen.
    pub front: bool,
}

impl TabGroup {
    /// One of its tabs.
    pub const fn tab(self) -> Tab {
        Tab { group: self, front: false }
    }

    /// The tab in front.
    pub const fn front(self) -> Tab {
        Tab { group: self, front: true }
    }
}

/// A kind of picture of a trace.
pub trait Figure: Sync {
    /// What it is called, and what it shows.
    fn info(&self) -> Info;

    /// Its name on a command line.
    fn id(&self) -> &'static str {
        self.info().id
    }

    /// Its name on the screen.
    fn title(&self) -> &'static str {
        self.info().title
    }

    /// What it shows and how to read it.
    fn about(&self) -> &'static str {
        self.info().about
    }

    /// The settings it heeds of this trace, in the order they are offered.
    fn controls(&self, _trace: &Trace) -> &'static [Control] {
        &[]
    }

    /// Whether it shows numbers of one class: of two traces for different ones it shows no difference.
    fn is_for_one_class(&self) -> bool {
        false
    }

    /// Whether the step of the reading is marked in it.
    fn marks_step(&self) -> bool {
        false
    }

    /// Whether a comparison of probes shows it at first.
    fn is_compared(&self) -> bool {
        false
    }

    /// Least width at which it can be read beside others, in points.
    fn least_width(&self) -> f32 {
        130.0
    }

    /// Whether several in a row share one legend, one colour bar and one upward axis.
    fn shares_keys(&self) -> bool {
        false
    }

    /// The scale its values are on, where traces may differ in that: those of one scale share their limits.
    fn scale(&self, _trace: &Trace) -> &'static str {
        ""
    }

    /// The method of attribution it shows, which is computed where it is asked for.
    fn attribution(&self) -> Option<Attribution> {
        None
    }

    /// Whether it names classes, so that the true one belongs beside it.
    fn names_classes(&self) -> bool {
        false
    }

    /// A height that suits `width`, in points; of a trace that has been checked.
    fn height(&self, trace: &Trace, options: &Options, width: f32) -> f32;

    /// A height beyond which room is not used, in points.
    fn max_height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        1.4 * self.height(trace, options, width)
    }

    /// Why this trace has nothing for it, told without drawing; of a trace that has been checked.
    fn lacks(&self, _trace: &Trace) -> Option<Empty> {
        None
    }

    /// What is pointed at, in words and numbers; of a trace that has been checked.
    fn readout(&self, trace: &Trace, hover: Hover) -> Readout {
        draw::readout::readout(trace, hover)
    }

    /// Smallest and largest value shown, where figures side by side should share them.
    fn limits(&self, _trace: &Trace) -> Option<(f64, f64)> {
        None
    }

    /// The same of what is shown by the paper's proxy, on a scale of its own.
    fn proxy_limits(&self, _trace: &Trace) -> Option<(f64, f64)> {
        None
    }

    /// The picture. The trace has been checked: its arrays fit together.
    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty>;

    /// The numbers behind it.
    fn table(&self, trace: &Trace) -> Table;
}

/// Limits that several figures share, and those of the proxy.
pub type Shared = [Option<(f64, f64)>; 2];

/// The limits of a figure over all these traces.
pub fn shared<'a>(figure: &dyn Figure, traces: impl Iterator<Item = &'a Trace> + Clone) -> Shared {
    let wider = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.max(b.1));
    let limits = traces.clone().filter_map(|trace| figure.limits(trace)).reduce(wider);
    [limits, traces.filter_map(|trace| figure.proxy_limits(trace)).reduce(wider)]
}

impl Options {
    /// With these limits where none are set.
    pub fn within(self, [limits, proxy]: Shared) -> Self {
        Self { limits: self.limits.or(limits), proxy_limits: self.proxy_limits.or(proxy), ..self }
    }

    /// The limits that are set.
    pub fn shared(&self) -> Shared {
        [self.limits, self.proxy_limits]
    }
}

/// Empty edge around a figure, in points: letters may hang over their box.
const MARGIN: f32 = 2.0;

/// Checks the trace and draws the figure at `size`, edge included.
///
/// # Errors
/// Why there is nothing to see: the head has no such thing, or the trace does not hold together.
pub fn draw(
    figure: &dyn Figure,
    trace: &Trace,
    options: &Options,
    theme: &Theme,
    size: Size,
) -> Result<Scene, Empty> {
    let inner = Size { width: size.width - 2.0 * MARGIN, height: size.height - 2.0 * MARGIN };
    Ok(scene(figure, trace, options, theme, inner)?.framed(MARGIN))
}

/// The picture of a trace that has been checked, with the step of the reading marked where one is set.
fn marked(
    figure: &dyn Figure,
    trace: &Trace,
    options: &Options,
    theme: &Theme,
    size: Size,
) -> Result<Scene, Empty> {
    let mut scene = figure.scene(trace, options, theme, size)?;
    let step = options.step.filter(|_| figure.marks_step());
    if let Some(at) = step.and_then(|step| playhead::at(trace, step)) {
        scene.place(playhead::marks(&scene, at, theme), [0.0, 0.0], None);
    }
    Ok(scene)
}

/// Checks the trace and draws the figure at `size`, no edge around it; over it stands how the trace was read, where
/// that is not as trained.
///
/// # Errors
/// As [`draw`].
pub fn scene(
    figure: &dyn Figure,
    trace: &Trace,
    options: &Options,
    theme: &Theme,
    size: Size,
) -> Result<Scene, Empty> {
    draw::check::check(trace)?;
    heading::over(heading::of_trace(trace).as_deref(), theme, size, |size| {
        marked(figure, trace, options, theme, size)
    })
}

/// A height that suits what [`scene`] draws at `width`, in points; of a trace that has been checked.
pub fn height(figure: &dyn Figure, trace: &Trace, options: &Options, width: f32) -> f32 {
    figure.height(trace, options, width) + heading::height(heading::of_trace(trace).as_deref(), width)
}

/// The same in a column of `width` points, as high as suits it.
///
/// # Errors
/// As [`draw`].
pub fn draw_column(
    figure: &dyn Figure,
    trace: &Trace,
    options: &Options,
    theme: &Theme,
    width: f32,
) -> Result<Scene, Empty> {
    draw::check::check(trace)?;
    let height = height(figure, trace, options, width - 2.0 * MARGIN) + 2.0 * MARGIN;
    draw(figure, trace, options, theme, Size { width, height })
}

/// Why a head with this routing has no order to show.
fn no_order(trace: &Trace) -> Empty {
    let trace = lacking(trace, !matches!(trace.routing, Routing::None));
    Empty(format!("{} reads no order", trace.head))
}

/// Why there is no plan to show, of a trace or of one of the two of a difference.
fn lacks_plan(trace: &Trace) -> Option<Empty> {
    let planned = |trace: &Trace| matches!(trace.routing, Routing::Plan(_));
    let all = planned(trace) && trace.minus.as_deref().is_none_or(planned);
    (!all).then(|| no_plan(trace))
}

/// Why a head that does read in an order has no plan to show.
fn no_plan(trace: &Trace) -> Empty {
    let trace = lacking(trace, matches!(trace.routing, Routing::Plan(_)));
    let reads = match &trace.routing {
        Routing::None => return no_order(trace),
        // Sweeps without a kernel are those of a recurrent head.
        Routing::Orders(orders) if orders.len() == 2 && trace.kernel.is_none() => "row by row, both ways",
        // A scan's, the picture's own or a random one of each image.
        Routing::Orders(_) | Routing::Plan(_) => "in an order that no router makes",
    };
    Empty(format!("{} reads {reads}; it has no router to show", trace.head))
}
