//! Themes: the colours of figures.
//!
//! The categorical set follows Okabe and Ito (2008), which stays apart under the
//! common colour vision deficiencies; the dark set is the same hues, lifted.

/// A colour with opacity, sRGB, not premultiplied.
#[expect(missing_docs, reason = "red, green, blue, opacity")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Color {
    pub r: u8,
    pub g: u8,
    pub b: u8,
    pub a: u8,
}

impl Color {
    /// Opaque, from `0xRRGGBB`.
    pub const fn hex(rgb: u32) -> Self {
        Self { r: (rgb >> 16) as u8, g: (rgb >> 8) as u8, b: rgb as u8, a: 255 }
    }

    /// The colour with its opacity set to `alpha`, clamped to 0 to 1.
    pub fn alpha(self, alpha: f32) -> Self {
        Self { a: (alpha.clamp(0.0, 1.0) * 255.0).round() as u8, ..self }
    }

    /// Linear interpolation in sRGB from this colour (`t` = 0) to `other` (`t` = 1).
    pub fn mix(self, other: Self, t: f32) -> Self {
        let t = t.clamp(0.0, 1.0);
        let channel = |a: u8, b: u8| (f32::from(a) + (f32::from(b) - f32::from(a)) * t).round() as u8;
        Self {
            r: channel(self.r, other.r),
            g: channel(self.g, other.g),
            b: channel(self.b, other.b),
            a: channel(self.a, other.a),
        }
    }

    /// Relative luminance, 0 to 1 (WCAG 2.2).
    fn luminance(self) -> f32 {
        let linear = |c: u8| {
            let c = f32::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.r) + 0.7152 * linear(self.g) + 0.0722 * linear(self.b)
    }

    /// CIE lightness L*, 0 to 100: what a grey print preserves of the colour.
    pub fn lightness(self) -> f32 {
        let y = self.luminance();
        if y <= 0.008_856 { 903.3 * y } else { 116.0 * y.cbrt() - 16.0 }
    }

    /// Contrast ratio with `other`, 1 to 21 (WCAG 2.2); small text needs 4.5.
    pub fn contrast(self, other: Self) -> f32 {
        let (a, b) = (self.luminance() + 0.05, other.luminance() + 0.05);
        a.max(b) / a.min(b)
    }
}

/// Colours of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Theme {
    /// Whether ink is light on a dark background.
    pub dark: bool,
    /// Background behind everything; `None` for transparent, so that the paper shows.
    pub background: Option<Color>,
    /// Colour of the background, or of the paper where that shows: for halos and gaps.
    pub ground: Color,
    /// Text and data ink.
    pub ink: Color,
    /// Axes, ticks and their labels.
    pub axis: Color,
    /// Secondary text.
    pub muted: Color,
    /// Grid lines and empty tracks.
    pub faint: Color,
    /// Fill of a null band.
    pub band: Color,
    /// Categorical colours, in order of use.
    pub series: [Color; 7],
    /// Positive signed evidence.
    pub positive: Color,
    /// Negative signed evidence.
    pub negative: Color,
}

listed! {
    /// The theme of a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FileTheme {
        /// [`Theme::print`].
        Print: "print", "For print";
        /// [`Theme::light`].
        Light: "light", "Light";
        /// [`Theme::dark`].
        Dark: "dark", "Dark";
    }
}

impl FileTheme {
    /// Its colours.
    pub fn theme(self) -> Theme {
        match self {
            Self::Print => Theme::print(),
            Self::Light => Theme::light(),
            Self::Dark => Theme::dark(),
        }
    }
}

impl Theme {
    /// Dark ink on white.
    pub fn light() -> Self {
        Self {
            dark: false,
            background: Some(Color::hex(0xff_ff_ff)),
            ground: Color::hex(0xff_ff_ff),
            ink: Color::hex(0x1b_1f_24),
            axis: Color::hex(0x3c_43_4b),
            muted: Color::hex(0x5f_68_72),
            faint: Color::hex(0xdf_e3_e8),
            band: Color::hex(0xcf_d6_de),
            series: [0x00_72_b2, 0xd5_5e_00, 0x00_8f_68, 0xb8_5b_90, 0xb8_7a_00, 0x3a_9b_d4, 0x6b_6b_6b]
                .map(Color::hex),
            positive: Color::hex(0xc9_4f_00),
            negative: Color::hex(0x1f_6f_b5),
        }
    }

    /// Light ink on a dark background, for the screen.
    pub fn dark() -> Self {
        Self {
            dark: true,
            background: Some(Color::hex(0x16_19_1d)),
            ground: Color::hex(0x16_19_1d),
            ink: Color::hex(0xec_ef_f2),
            axis: Color::hex(0xb6_be_c7),
            muted: Color::hex(0x9a_a3_ad),
            faint: Color::hex(0x33_39_41),
            band: Color::hex(0x3d_45_4f),
            series: [0x4f_ae_ea, 0xff_8b_3d, 0x2f_c7_9b, 0xe3_93_c2, 0xf0_bb_4b, 0x9a_d6_ff, 0xb0_b0_b0]
                .map(Color::hex),
            positive: Color::hex(0xff_8b_3d),
            negative: Color::hex(0x5a_b0_f0),
        }
    }

    /// For a page: the light theme on a transparent background.
    pub fn print() -> Self {
        Self { background: None, ..Self::light() }
    }

    /// Colour of the frame of what is pinned: a hue that no colour map and no evidence has.
    pub fn pinned(&self) -> Color {
        self.series[3]
    }

    /// Colour of the current step of the reading: a hue that neither evidence nor what is pinned has.
    pub fn playhead(&self) -> Color {
        self.series[2]
    }

    /// Colour of predictions that are right, or of those that are wrong.
    pub fn outcome(&self, right: bool) -> Color {
        self.series[if right { 2 } else { 1 }]
    }

    /// A colour of data as words and small marks have it: on a light ground a darker one, which can be read.
    pub fn legible(&self, color: Color) -> Color {
        if self.dark { color } else { color.mix(self.ink, 0.3) }
    }

    /// Colour of words that stand out: of a change, of what is beyond chance, of a failure.
    pub fn accent(&self) -> Color {
        self.legible(self.series[1])
    }

    /// The categorical colour of series `i`; colours repeat.
    pub fn series(&self, i: usize) -> Color {
        self.series[i % self.series.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lightness_of_black_grey_and_white() {
        assert!(Color::hex(0).lightness().abs() < 1e-3);
        assert!((Color::hex(0xff_ff_ff).lightness() - 100.0).abs() < 1e-2);
        assert!((Color::hex(0x77_77_77).lightness() - 50.0).abs() < 0.5);
    }

    #[test]
    fn every_colour_of_words_is_read_on_its_ground() {
        assert!((Color::hex(0).contrast(Color::hex(0xff_ff_ff)) - 21.0).abs() < 1e-3);
        for theme in [Theme::light(), Theme::dark()] {
            let words = [theme.series(2), theme.pinned(), theme.series(4)].map(|color| theme.legible(color));
            for color in words.into_iter().chain([theme.accent(), theme.ink, theme.axis, theme.muted]) {
                let contrast = color.contrast(theme.ground);
                assert!(contrast >= 4.5, "{color:?} has a contrast of only {contrast} with the ground");
            }
        }
    }

    #[test]
    fn every_series_is_seen_on_its_ground() {
        for theme in [Theme::light(), Theme::dark()] {
            for color in theme.series.iter().chain([&theme.positive, &theme.negative]) {
                let apart = (color.lightness() - theme.ground.lightness()).abs();
                assert!(apart > 35.0, "{color:?} stands only {apart} in lightness from the ground");
            }
        }
    }
}
