//! Value parsers for clap: numbers within bounds, as in `value_parser = whole_number(1_usize..)`, and one of a list. The
//! literal's type must be the field's: clap checks that only when the flag is read.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Parses whole numbers of `range`: `1_u8..=9`, or `1_u8..`. The error names the bounds that the range includes.
pub fn whole_number<T: FromStr + PartialOrd + Display>(
    range: impl RangeBounds<T> + Clone,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let bound = |word: &str, bound: Bound<&T>| match bound {
            Bound::Included(number) => format!(" {word} {number}"),
            _ => String::new(),
        };
        let read = text.parse::<T>().ok().filter(|number| range.contains(number));
        read.ok_or_else(|| {
            let (from, to) = (bound("from", range.start_bound()), bound("to", range.end_bound()));
            format!("expected a whole number{from}{to}")
        })
    }
}

/// Parses numbers that `is_within` accepts; `bounds` describes them in the error: "above 0".
pub fn number<T: FromStr + Copy>(
    bounds: &'static str,
    is_within: fn(T) -> bool,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let read = text.parse().ok().filter(|number| is_within(*number));
        read.ok_or_else(|| format!("expected a number {bounds}"))
    }
}

/// Parses numbers from 0 to 1.
pub fn fraction<T: FromStr + Copy + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    number("from 0 to 1", |number| (T::from(0)..=T::from(1)).contains(&number))(text)
}

/// Parses the `id` of one of `all`; the error lists all ids.
pub fn one_of<T: Copy>(
    all: impl IntoIterator<Item = T> + Clone,
    id: fn(T) -> &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let found = all.clone().into_iter().find(|one| id(*one) == text);
        found.ok_or_else(|| {
            let ids: Vec<&str> = all.clone().into_iter().map(id).collect();
            format!("expected one of {}", ids.join(", "))
        })
    }
}

/// The names of a list that clap has split at every comma, those with settings, such as `gap[layer=1,rate=0.01]`, in one piece.
pub fn names(parts: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in parts {
        match names.last_mut().filter(|name| name.contains('[') && !name.contains(']')) {
            Some(name) => *name = format!("{name},{part}"),
            None => names.push(part.clone()),
        }
    }
    names
}

/// Parses the `id` of one of `all`; help lists the ids.
pub fn choice_of<T: Copy + Send + Sync + 'static>(
    all: impl IntoIterator<Item = T> + Clone + Send + Sync + 'static,
    id: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let ids = PossibleValuesParser::new(all.clone().into_iter().map(id));
    ids.map(move |text| one_of(all.clone(), id)(&text).expect("one of the ids"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_settings_is_one_name() {
        let split = |list: &str| names(&list.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(split("a[x=1,y=2,z=3],b,c[x=1,y=2]-s0,d"), ["a[x=1,y=2,z=3]", "b", "c[x=1,y=2]-s0", "d"]);
        assert_eq!(split("a[x=1,b"), ["a[x=1,b"]);
    }

    #[test]
    fn numbers_within_bounds_are_taken_and_others_told_which_they_are() {
        let few = whole_number(1_u8..=9);
        assert_eq!((few("1"), few("9")), (Ok(1), Ok(9)));
        for text in ["0", "10", "256", "-1", "2.5", "", "two"] {
            assert_eq!(few(text).unwrap_err(), "expected a whole number from 1 to 9");
        }
        assert_eq!(whole_number(2_u64..)("1").unwrap_err(), "expected a whole number from 2");
        let share = fraction::<f64>;
        assert_eq!((share("0"), share("1"), share("1e-3")), (Ok(0.0), Ok(1.0), Ok(1e-3)));
        for text in ["-0.1", "1.1", "nan", "inf", ""] {
            assert_eq!(share(text).unwrap_err(), "expected a number from 0 to 1");
        }
    }
}
