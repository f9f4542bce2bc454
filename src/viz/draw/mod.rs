//! The parts of figures: a [`Scene`] of shapes, axes, legends and colours, and [`paint`], which shows
//! one in a window.

pub(crate) mod bars;
pub(crate) mod check;
pub mod colormap;
mod dots;
pub mod font;
pub mod frame;
pub mod hover;
pub mod keys;
pub mod legend;
pub mod order;
pub mod outlines;
pub mod overlay;
pub mod paint;
pub(crate) mod picture;
pub mod playhead;
pub(crate) mod polygon;
pub mod pt;
mod row_chart;
pub mod scale;
pub mod scene;
pub mod series;
pub mod table;
pub mod theme;

pub use colormap::{Map, diverging};
pub use frame::{Axis, Frame};
pub use hover::{Hover, Identity};
pub use keys::Keys;
pub use legend::Mark;
pub use paint::{Canvas, Painted, color32};
pub use row_chart::RowChart;
pub use scale::{Scale, extent, minus, number, number_like};
pub use scene::{Anchor, Box2, Point, Raster, Scene, Shape, Stroke};
pub use table::Table;
pub use theme::{Color, Theme};
