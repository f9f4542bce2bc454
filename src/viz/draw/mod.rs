//! What figures are made of: a [`scene`](scene::Scene) of shapes, axes, legends and colours, and the
//! [`paint`]er that shows one in a window.

pub(crate) mod bars;
pub(crate) mod check;
pub mod colormap;
pub mod font;
pub mod frame;
pub mod hover;
pub mod legend;
pub mod order;
pub mod paint;
pub(crate) mod picture;
pub(crate) mod polygon;
pub mod readout;
pub mod scale;
pub mod scene;
pub mod table;
pub mod theme;
