//! Converts between numbers and places on an axis, or colours of a colour bar, by the labels of the ticks.

use ssmprobe::viz::draw::scene::Raster;

use super::prelude::*;

/// A linear or logarithmic scale along a line, derived from its ticks.
pub struct Ruler {
    /// The ticks: numbers and their places.
    ticks: Vec<(f64, f32)>,
    log: bool,
}

impl Ruler {
    #[track_caller]
    pub fn of(mut ticks: Vec<(f64, f32)>) -> Self {
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let straight = |log: bool| {
            let ruler = Self { ticks: ticks.clone(), log };
            (ticks.len() < 2 || ticks.iter().all(|(v, place)| (ruler.at(*v) - place).abs() < 0.05))
                .then_some(ruler)
        };
        let log = || straight(true).filter(|_| ticks.iter().all(|(v, _)| *v > 0.0));
        straight(false).or_else(log).unwrap_or_else(|| panic!("ticks on no scale: {ticks:?}"))
    }

    /// The first and the last tick, each on its scale.
    fn ends(&self) -> [(f64, f64); 2] {
        let scaled = |(v, place): (f64, f32)| (if self.log { v.ln() } else { v }, f64::from(place));
        let ends = [self.ticks.first(), self.ticks.last()];
        ends.map(|end| scaled(*end.expect("an axis with numbers")))
    }

    /// The place of the number `v`.
    pub fn at(&self, v: f64) -> f32 {
        let [(a, low), (b, high)] = self.ends();
        let v = if self.log { v.ln() } else { v };
        (low + (v - a) / (b - a) * (high - low)) as f32
    }

    /// The number at `place`.
    pub fn number(&self, place: f32) -> f64 {
        let [(a, low), (b, high)] = self.ends();
        let v = a + (f64::from(place) - low) / (high - low) * (b - a);
        if self.log { v.exp() } else { v }
    }

    /// Whether larger numbers are at larger coordinates: further right, or further down.
    pub fn rises(&self) -> bool {
        let [(_, low), (_, high)] = self.ends();
        high > low
    }

    pub fn is_log(&self) -> bool {
        self.log
    }
}

/// A colour bar.
pub struct Bar {
    pub place: Box2,
    pub raster: Arc<Raster>,
    pub ruler: Ruler,
    pub name: String,
}

impl Bar {
    /// The colour of a number, as the bar shows it; beyond its ends that of the end.
    pub fn color(&self, v: f64) -> Color {
        let part = (self.ruler.at(v) - self.place.y) / self.place.h;
        let row = part * self.raster.height as f32 - 0.5;
        let row = row.clamp(0.0, self.raster.height as f32 - 1.0);
        let below = (row as usize + 1).min(self.raster.height - 1);
        pixel(&self.raster, 0, row as usize).mix(pixel(&self.raster, 0, below), row.fract())
    }

    /// The numbers at its lower and its upper end.
    pub fn ends(&self) -> [f64; 2] {
        [self.ruler.number(self.place.bottom()), self.ruler.number(self.place.y)]
    }
}
