//! Colour maps whose order survives colour vision deficiency and a grey print.
//!
//! `cividis` (Nuñez, Anderton and Renslow 2018) and `viridis` (van der Walt and Smith 2015) for
//! magnitudes: ten anchors each, joined linearly, of rising lightness. `diverging` for signed evidence:
//! blue below zero, the background at zero, orange above; both arms change lightness alike.

use serde::{Deserialize, Serialize};

use super::theme::{Color, Theme};

/// Anchors of cividis, dark to light, equally spaced.
const CIVIDIS: [u32; 10] = [
    0x00_20_4d, 0x00_33_6f, 0x39_48_6b, 0x57_5c_6d, 0x70_71_73, 0x8a_87_79, 0xa6_9d_75, 0xc4_b5_6c,
    0xe4_cf_5b, 0xff_ea_46,
];
/// Anchors of viridis, dark to light, equally spaced.
const VIRIDIS: [u32; 10] = [
    0x44_01_54, 0x48_28_78, 0x3e_4a_89, 0x31_68_8e, 0x26_82_8e, 0x1f_9e_89, 0x35_b7_79, 0x6d_cd_59,
    0xb4_de_2c, 0xfd_e7_25,
];
/// Anchors of an arm from the middle outwards: darkening for a light background, lightening for a dark one.
const BLUE: ([u32; 3], [u32; 3]) =
    ([0x9c_c4_e4, 0x3f_8c_c6, 0x08_4a_8a], [0x1c_4a_73, 0x3a_86_c4, 0x9c_d3_ff]);
const ORANGE: ([u32; 3], [u32; 3]) =
    ([0xf9_bf_8f, 0xdf_76_1f, 0x8a_3a_00], [0x74_37_0c, 0xd0_6a_1e, 0xff_bf_86]);

listed! {
    /// A map for magnitudes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Map {
        /// Blue to yellow; the same to readers with and without colour vision deficiency.
        #[default]
        Cividis: "cividis", "Cividis";
        /// Violet over green to yellow.
        Viridis: "viridis", "Viridis";
    }
}

impl Map {
    /// The colour of `t`, clamped to 0 to 1; NaN and infinities are drawn as 0.
    pub fn at(self, t: f32) -> Color {
        match self {
            Self::Cividis => along(&CIVIDIS.map(Color::hex), t),
            Self::Viridis => along(&VIRIDIS.map(Color::hex), t),
        }
    }

    /// The colour of `t`, from 0 to 1, on the scale of a figure: where that is `signed`, zero is in its middle.
    pub fn on_scale(self, theme: &Theme, signed: bool, t: f32) -> Color {
        if signed { diverging(theme, 2.0 * t - 1.0) } else { self.at(t) }
    }
}

/// The colour of a signed `t`, clamped to -1 to 1, on the background of `theme`.
pub fn diverging(theme: &Theme, t: f32) -> Color {
    let (light, dark) = if t < 0.0 { BLUE } else { ORANGE };
    let arm = if theme.dark { dark } else { light }.map(Color::hex);
    let middle = theme.ground.mix(theme.ink, 0.03);
    along(&[middle, arm[0], arm[1], arm[2]], t.abs())
}

/// Linear interpolation between equally spaced anchors; `t` from 0 to 1.
fn along(anchors: &[Color], t: f32) -> Color {
    let t = if t.is_finite() { t.clamp(0.0, 1.0) } else { 0.0 } * (anchors.len() - 1) as f32;
    let i = (t as usize).min(anchors.len() - 2);
    anchors[i].mix(anchors[i + 1], t - i as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lightness along `f` from 0 to 1.
    fn lightness(f: impl Fn(f32) -> Color) -> Vec<f32> {
        (0..=64).map(|i| f(i as f32 / 64.0).lightness()).collect()
    }

    #[test]
    fn magnitude_maps_lighten_throughout() {
        for map in Map::ALL {
            let l = lightness(|t| map.at(t));
            assert!(l.windows(2).all(|w| w[1] > w[0]), "{map:?}: {l:?}");
            assert!(l[64] - l[0] > 60.0, "{map:?} spans only {}", l[64] - l[0]);
        }
    }

    #[test]
    fn both_arms_leave_the_ground_throughout_and_alike() {
        for theme in [Theme::light(), Theme::dark()] {
            let sign = if theme.dark { 1.0 } else { -1.0 };
            let arms = [1.0, -1.0].map(|side| lightness(|t| diverging(&theme, side * t)));
            for l in &arms {
                assert!(l.windows(2).all(|w| (w[1] - w[0]) * sign > 0.0), "{l:?}");
            }
            for (a, b) in arms[0].iter().zip(&arms[1]) {
                assert!((a - b).abs() < 9.0, "arms apart by {}", (a - b).abs());
            }
        }
    }

    #[test]
    fn what_is_no_number_still_has_a_colour() {
        assert_eq!(Map::Cividis.at(f32::NAN), Map::Cividis.at(0.0));
        assert_eq!(Map::Viridis.at(7.0), Map::Viridis.at(1.0));
    }
}
