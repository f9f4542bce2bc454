//! What holds of each image, as `evaluation.json` stores it: a digit per image, 1 where it holds, else 0.

/// The digits of `images`.
pub(super) fn write(images: impl Iterator<Item = bool>) -> String {
    images.map(|holds| if holds { '1' } else { '0' }).collect()
}

/// The number 1 for each image of which it holds, else 0.
pub fn read(digits: &str) -> Vec<f64> {
    digits.bytes().map(|digit| f64::from(digit == b'1')).collect()
}
