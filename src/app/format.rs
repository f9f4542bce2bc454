//! Formatting of counts, sizes and times for people, and of words for a shell; names made distinct, and matched with patterns.

use std::path::Path;
use std::time::Duration;

use indicatif::HumanCount;

/// A number with thousands separators: `12,345`.
pub fn count(number: usize) -> HumanCount {
    HumanCount(number as u64)
}

/// A number with its noun: `1 class`, `12,345 images`.
pub fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", count(number), noun(number, one, many))
}

/// The noun of a number that is formatted otherwise.
pub fn noun<'a>(number: usize, one: &'a str, many: &'a str) -> &'a str {
    if number == 1 { one } else { many }
}

/// The file name of a path, that of the folder which `.` is, or all of it if it has none.
pub fn file_name(path: &Path) -> String {
    let name = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    let of_folder = || name(&path.canonicalize().ok()?);
    name(path).or_else(of_folder).unwrap_or_else(|| path.display().to_string())
}

/// The file name of a path without its extension.
pub fn file_stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// `name`, or the first of `name-2`, `name-3`... that is not `taken`.
pub fn distinct(name: &str, mut taken: impl FnMut(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !taken(name)).expect("an endless list of names")
}

/// A number of bytes with one decimal, in decimal units from kB to TB.
pub fn bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        1_000_000_000_000.. => (1e12, "TB"),
        1_000_000_000.. => (1e9, "GB"),
        1_000_000.. => (1e6, "MB"),
        _ => (1e3, "kB"),
    };
    format!("{:.1} {name}", bytes as f64 / unit)
}

/// `M:SS`, or `H:MM:SS` from an hour on.
pub fn clock(time: Duration) -> String {
    let s = time.as_secs();
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        h => format!("{h}:{:02}:{:02}", s / 60 % 60, s % 60),
    }
}

/// An estimated time, in one unit or two: `40 s`, `12 min`, `3 h 20 min`, `2.0 days`.
pub fn roughly(time: Duration) -> String {
    let s = time.as_secs_f64();
    match s {
        s if s < 1.5 => "a second".to_owned(),
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s if s < 36.0 * 3600.0 => {
            let minutes = (s / 600.0).round() as u64 * 10;
            match minutes % 60 {
                0 => format!("{} h", minutes / 60),
                rest => format!("{} h {rest} min", minutes / 60),
            }
        }
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Quotes text as one word for a POSIX shell, if it needs quotes.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A path as one word for a POSIX shell, quoted if it needs quotes.
pub fn shell_path(path: &Path) -> String {
    shell_word(&path.to_string_lossy())
}

/// Says why what follows may take minutes: another machine `host` was the last to do this, and may have died since.
pub fn watching(host: &str, what: &str) -> String {
    format!(
        "{host} was the last machine to {what}; watching for up to three minutes to see whether it still does"
    )
}

/// Whether a name matches a pattern, in which `*` stands for any text and `?` for any character.
pub fn matches_pattern(name: &str, pattern: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return name.is_empty() };
    let rest = &pattern[first.len_utf8()..];
    let next = name.chars().next().map(|c| (c, &name[c.len_utf8()..]));
    match (first, next) {
        ('*', None) => matches_pattern(name, rest),
        ('*', Some((_, after))) => matches_pattern(name, rest) || matches_pattern(after, pattern),
        (first, Some((c, after))) => (first == '?' || first == c) && matches_pattern(after, rest),
        (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_named_by_dots_has_its_own_name() {
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(file_name(Path::new(".")), file_name(&here));
        assert_eq!(file_name(&here.join("..")), file_name(here.parent().expect("a parent")));
        assert_eq!([file_name(Path::new("a/b.c")), file_name(Path::new("/"))], ["b.c", "/"]);
    }

    #[test]
    fn words_reach_the_program_as_they_are() {
        for (word, shell) in [
            ("--heads=gap,cls", "--heads=gap,cls"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
            ("*", "'*'"),
        ] {
            assert_eq!(shell_word(word), shell);
        }
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        assert_eq!(distinct("a", |_| false), "a");
        assert_eq!(distinct("a", |name| ["a", "a-2"].contains(&name)), "a-3");
    }

    #[test]
    fn a_name_is_held_to_a_pattern() {
        for (name, pattern, expected) in [
            ("a.conf", "*.conf", true),
            ("a.con", "*.conf", false),
            ("ab", "a?", true),
            ("a", "a?", false),
            ("é", "*", true),
            ("", "*", true),
            ("head/gap/step", "head/gap", false),
            ("head/gap/memory", "head/*/step", false),
            ("head/sinkhorn-gap/step", "*sinkhorn*", true),
            ("a", "a*a", false),
            ("a", "", false),
        ] {
            assert_eq!(matches_pattern(name, pattern), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn one_thing_is_singular() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "class", "classes")), ["0 classes", "1 class", "2 classes"]);
        assert_eq!(
            [999, 1_234_567].map(|n| counted(n, "image", "images")),
            ["999 images", "1,234,567 images"]
        );
    }

    #[test]
    fn times_and_sizes_are_read_at_a_glance() {
        assert_eq!(
            (bytes(2_040_000_000), bytes(900_000), bytes(3 << 40)),
            ("2.0 GB".into(), "900.0 kB".into(), "3.3 TB".into())
        );
        assert_eq!(clock(Duration::from_secs(3_725)), "1:02:05");
        for (seconds, text) in
            [(1, "a second"), (40, "40 s"), (720, "12 min"), (11_900, "3 h 20 min"), (180_000, "2.1 days")]
        {
            assert_eq!(roughly(Duration::from_secs(seconds)), text);
        }
    }
}
