//! Type sizes, line widths and gaps of figures, in points (1/72 inch), as a printed column of 85 mm needs them: the same in
//! every theme, so that measuring a figure needs none.

/// Size of the titles of columns.
pub const TITLE: f32 = 8.0;
/// Size of titles of panels, axis names and messages.
pub const LABEL: f32 = 7.5;
/// Size of tick labels, legends and notes.
pub const TICK: f32 = 7.0;
/// Width of data lines.
pub const LINE: f32 = 1.0;
/// Width of axes and ticks.
pub const HAIR: f32 = 0.5;
/// Unit of gaps between neighbours.
pub const GAP: f32 = 4.0;
