//! A tensor as a strided view of a range of bytes of a file; values are read on demand.

use half::{bf16, f16};
use safetensors::Dtype;

/// The type, position and layout of one tensor in a memory-mapped file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    /// Type of its elements, stored little-endian.
    pub dtype: Dtype,
    /// Offset of its storage in the file, in bytes.
    pub start: usize,
    /// Number of elements of its storage.
    pub stored: usize,
    /// Index in the storage of its first element.
    pub offset: usize,
    /// Length of every axis; empty for a scalar.
    pub shape: Vec<usize>,
    /// Stride of every axis, in elements.
    pub strides: Vec<usize>,
}

impl View {
    /// Row-major strides of `shape`, or `None` if its size overflows.
    pub fn row_major(shape: &[usize]) -> Option<Vec<usize>> {
        let mut strides = vec![1; shape.len()];
        let mut step = 1_usize;
        for (stride, &n) in strides.iter_mut().zip(shape).rev() {
            *stride = step;
            step = step.checked_mul(n.max(1))?;
        }
        Some(strides)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Size of its elements in bytes, repeated ones counted each time.
    pub fn bytes(&self) -> u64 {
        (self.len() as u64).saturating_mul(self.dtype.bitsize() as u64 / 8)
    }

    /// Describes what is wrong with it in a file of `bytes` bytes; `None` if it is valid. It may repeat an element any
    /// number of times (stride 0, as from `expand`): [`super::Weights`] bounds the repetition in a whole file.
    pub fn flaw(&self, bytes: usize) -> Option<String> {
        let describe =
            |what: &str| Some(format!("{what} (shape {:?}, strides {:?})", self.shape, self.strides));
        if !self.dtype.bitsize().is_multiple_of(8) {
            return describe("it packs several numbers into a byte");
        }
        let room = bytes.checked_sub(self.start).map(|rest| rest / (self.dtype.bitsize() / 8));
        if room.is_none_or(|room| self.stored > room) {
            return describe(&format!("its {} stored numbers reach past the end of the file", self.stored));
        }
        let elements = self.shape.iter().try_fold(1_usize, |n, &x| n.checked_mul(x));
        let Some(elements) = elements.filter(|_| self.strides.len() == self.shape.len()) else {
            return describe("its size overflows");
        };
        if elements == 0 {
            return None;
        }
        let last = self
            .shape
            .iter()
            .zip(&self.strides)
            .try_fold(self.offset, |at, (&n, &stride)| at.checked_add((n - 1).checked_mul(stride)?));
        if last.is_none_or(|last| last >= self.stored) {
            return describe(&format!("it reads past its {} stored numbers", self.stored));
        }
        None
    }

    /// Whether it holds integers or booleans: buffers, never weights.
    pub fn is_integer(&self) -> bool {
        use Dtype::*;
        matches!(self.dtype, BOOL | U8 | I8 | I16 | U16 | I32 | U32 | I64 | U64)
    }

    /// Its values in row-major order, or `None` for a type without a float32 form. `file` is the
    /// whole file; [`Self::flaw`] has been asked before.
    pub fn values(&self, file: &[u8]) -> Option<Vec<f32>> {
        let width = self.dtype.bitsize() / 8;
        let bytes = &file[self.start..self.start + self.stored * width];
        use Dtype::*;
        Some(match self.dtype {
            F32 => self.gather(bytes, f32::from_le_bytes),
            F16 => self.gather(bytes, |b| f16::from_le_bytes(b).to_f32()),
            BF16 => self.gather(bytes, |b| bf16::from_le_bytes(b).to_f32()),
            F64 => self.gather(bytes, |b| f64::from_le_bytes(b) as f32),
            BOOL => self.gather(bytes, |[b]| f32::from(u8::from(b != 0))),
            U8 => self.gather(bytes, |[b]| f32::from(b)),
            I8 => self.gather(bytes, |b| f32::from(i8::from_le_bytes(b))),
            U16 => self.gather(bytes, |b| f32::from(u16::from_le_bytes(b))),
            I16 => self.gather(bytes, |b| f32::from(i16::from_le_bytes(b))),
            U32 => self.gather(bytes, |b| u32::from_le_bytes(b) as f32),
            I32 => self.gather(bytes, |b| i32::from_le_bytes(b) as f32),
            U64 => self.gather(bytes, |b| u64::from_le_bytes(b) as f32),
            I64 => self.gather(bytes, |b| i64::from_le_bytes(b) as f32),
            _ => return None,
        })
    }

    /// Row-major values of the view; `bytes` is the storage, `W` the width of a number.
    fn gather<const W: usize>(&self, bytes: &[u8], number: impl Fn([u8; W]) -> f32) -> Vec<f32> {
        let (numbers, _) = bytes.as_chunks::<W>();
        let n = self.len();
        if n == 0 {
            return Vec::new();
        }
        if Self::row_major(&self.shape).as_ref() == Some(&self.strides) {
            return numbers[self.offset..self.offset + n].iter().map(|&b| number(b)).collect();
        }
        let mut index = vec![0; self.shape.len()];
        let mut at = self.offset;
        let mut values = Vec::with_capacity(n);
        loop {
            values.push(number(numbers[at]));
            if values.len() == n {
                return values;
            }
            // An odometer: the last axis turns fastest and carries into the one before.
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                at += self.strides[axis];
                if index[axis] < self.shape[axis] {
                    break;
                }
                at -= index[axis] * self.strides[axis];
                index[axis] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(shape: &[usize], strides: &[usize], offset: usize, stored: usize) -> View {
        let (shape, strides) = (shape.to_vec(), strides.to_vec());
        View { dtype: Dtype::U8, start: 1, stored, offset, shape, strides }
    }

    #[test]
    fn strides_offsets_and_repeats_are_followed() {
        let file: Vec<u8> = (0..13).collect(); // element k of the storage is k + 1
        let read = |v: View| {
            assert_eq!(v.flaw(file.len()), None);
            v.values(&file).unwrap()
        };
        assert_eq!(read(view(&[2, 3], &[3, 1], 0, 12)), [1., 2., 3., 4., 5., 6.]);
        assert_eq!(read(view(&[3, 2], &[1, 3], 0, 12)), [1., 4., 2., 5., 3., 6.]);
        assert_eq!(read(view(&[2, 2], &[6, 2], 1, 12)), [2., 4., 8., 10.]);
        assert_eq!(read(view(&[2, 2], &[0, 1], 10, 12)), [11., 12., 11., 12.]);
        assert_eq!(read(view(&[], &[], 11, 12)), [12.]);
        assert_eq!(read(view(&[0, 5], &[5, 1], 99, 12)), [0.0; 0]);
    }

    #[test]
    fn views_that_reach_too_far_are_flawed() {
        assert!(view(&[2, 3], &[3, 1], 7, 12).flaw(13).unwrap().contains("past its 12"));
        assert!(view(&[2], &[1], 0, 13).flaw(13).unwrap().contains("end of the file"));
        assert_eq!(view(&[1 << 40], &[0], 0, 12).flaw(13), None);
        assert_eq!(view(&[1 << 40], &[0], 0, 12).bytes(), 1 << 40);
        assert!(view(&[usize::MAX, 2], &[0, 0], 0, 12).flaw(13).unwrap().contains("overflows"));
        assert!(view(&[2, 2], &[usize::MAX, 1], 0, 12).flaw(13).unwrap().contains("past its"));
        assert!(view(&[2], &[1, 1], 0, 12).flaw(13).is_some());
        assert!(view(&[2], &[1], 0, 1).flaw(0).is_some());
    }
}
