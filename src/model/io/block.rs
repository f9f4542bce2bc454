//! Numbers as one byte string in binary formats, for `#[serde(with = "block")]`: many times as fast as writing them
//! one by one, and it keeps every bit, also those of NaNs. In human-readable formats such as JSON they stay a list.

use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number with a little-endian encoding of fixed size.
pub trait Number: Copy + Serialize + for<'de> Deserialize<'de> {
    /// An array of its bytes.
    type Bytes: IntoIterator<Item = u8> + for<'a> TryFrom<&'a [u8]>;
    /// Its little-endian bytes.
    fn bytes(self) -> Self::Bytes;
    /// The number with these little-endian bytes.
    fn of(bytes: Self::Bytes) -> Self;
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl Number for $number {
            type Bytes = [u8; size_of::<$number>()];
            fn bytes(self) -> Self::Bytes {
                self.to_le_bytes()
            }
            fn of(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }
        }
    )+};
}

numbers!(u8, u32, f32, f64);

/// The little-endian bytes of all numbers, one after the other.
pub fn bytes<T: Number>(numbers: &[T]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.bytes()).collect()
}

/// The numbers with these little-endian bytes; a rest that is no whole number is left out.
pub fn numbers<T: Number>(bytes: &[u8]) -> Vec<T> {
    let number = |chunk: &[u8]| T::of(T::Bytes::try_from(chunk).ok().expect("a chunk of this size"));
    bytes.chunks_exact(size_of::<T>()).map(number).collect()
}

/// Writes the numbers.
pub fn serialize<T: Number, S: Serializer>(numbers: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        return numbers.serialize(serializer);
    }
    serializer.serialize_bytes(&bytes(numbers))
}

/// Reads the numbers from a list or a byte string: inside an untagged enum the format is not known.
///
/// # Errors
/// Those of the deserializer, and a byte string that does not hold a whole number of numbers.
pub fn deserialize<'de, T: Number, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(Block(PhantomData))
}

struct Block<T>(PhantomData<T>);

impl<'de, T: Number> Visitor<'de> for Block<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "numbers of {} bytes, as a list or as one block", size_of::<T>())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<T>, E> {
        let numbers = bytes.chunks(size_of::<T>()).map(|chunk| T::Bytes::try_from(chunk).map(T::of));
        let whole: Result<_, _> = numbers.collect();
        whole.map_err(|_| E::invalid_length(bytes.len(), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = list.next_element()? {
            numbers.push(number);
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Lists {
        #[serde(with = "super")]
        small: Vec<u8>,
        #[serde(with = "super")]
        float: Vec<f32>,
        #[serde(with = "super")]
        double: Vec<f64>,
    }

    fn lists() -> Lists {
        Lists { small: vec![0, 255], float: vec![0.1, -0.0, 1e-40], double: vec![0.1 + 0.2, f64::INFINITY] }
    }

    #[test]
    fn blocks_keep_every_bit_and_are_short() {
        let mut lists = Lists { float: (0..5000).map(|i| i as f32 / 7.0).collect(), ..lists() };
        lists.float[3] = f32::from_bits(0x7fc0_1234);
        let mut bytes = Vec::new();
        ciborium::into_writer(&lists, &mut bytes).unwrap();
        assert!(bytes.len() < 4 * 5000 + 100, "{}", bytes.len());
        let read: Lists = ciborium::from_reader(bytes.as_slice()).unwrap();
        let bits = |lists: &Lists| lists.float.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!((bits(&read), &read.small, &read.double), (bits(&lists), &lists.small, &lists.double));
    }

    #[test]
    fn json_has_plain_lists() {
        let lists = Lists { double: vec![0.5], ..lists() };
        let text = serde_json::to_string(&lists).unwrap();
        assert_eq!(text, r#"{"small":[0,255],"float":[0.1,-0.0,1e-40],"double":[0.5]}"#);
        assert_eq!(serde_json::from_str::<Lists>(&text).unwrap(), lists);
    }

    #[test]
    fn json_keeps_every_bit_too() {
        let float = (1..10_000).map(|i| (i as f32).sqrt() / 7.0).collect();
        let double = (1..10_000).map(|i| f64::from(i).sqrt() / 7.0).collect();
        let lists = Lists { small: Vec::new(), float, double };
        assert_eq!(serde_json::from_str::<Lists>(&serde_json::to_string(&lists).unwrap()).unwrap(), lists);
    }

    #[test]
    fn half_a_number_is_refused() {
        #[derive(Serialize)]
        struct Torn {
            #[serde(with = "super")]
            float: Vec<u8>,
        }
        #[derive(Debug, Deserialize)]
        struct Whole {
            #[serde(with = "super", rename = "float")]
            _float: Vec<f32>,
        }
        let mut bytes = Vec::new();
        ciborium::into_writer(&Torn { float: vec![1, 2, 3, 4, 5] }, &mut bytes).unwrap();
        let error = ciborium::from_reader::<Whole, _>(bytes.as_slice()).unwrap_err().to_string();
        assert!(error.contains("numbers of 4 bytes"), "{error}");
    }
}
