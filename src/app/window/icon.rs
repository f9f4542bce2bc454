//! The window's icon in task bars and docks: `assets/icon.svg` as pixels.

use eframe::egui::IconData;
use resvg::{tiny_skia, usvg};

/// Width and height in pixels, as large as any dock shows it.
const PIXELS: u32 = 256;

/// The icon, straight RGBA.
pub fn icon() -> IconData {
    let svg = include_str!("../../../assets/icon.svg");
    let tree = usvg::Tree::from_str(svg, &usvg::Options::default()).expect("the icon is SVG");
    let mut pixmap = tiny_skia::Pixmap::new(PIXELS, PIXELS).expect("it has pixels");
    let scale = PIXELS as f32 / tree.size().width();
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixmap.as_mut());
    IconData { rgba: pixmap.take_demultiplied(), width: PIXELS, height: PIXELS }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_icon_has_round_corners_dark_patches_and_a_white_end() {
        let icon = super::icon();
        let at = |x: u32, y: u32| {
            let byte = 4 * ((y * 4) * icon.width + x * 4) as usize; // of 64 units
            icon.rgba[byte..byte + 4].to_vec()
        };
        assert_eq!(icon.rgba.len(), (4 * icon.width * icon.height) as usize);
        assert_eq!(at(0, 0)[3], 0);
        assert_eq!(at(12, 12), [0x00, 0x22, 0x4e, 255]);
        assert_eq!(at(48, 48), [255; 4]);
    }
}
