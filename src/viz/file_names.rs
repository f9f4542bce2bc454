//! How pictures name the files that they were made from, and how they are named as files themselves.

use std::ffi::OsStr;
use std::path::Path;

use crate::model::trace::Reading;

/// Which image was read by which probe, and how, if not as trained.
pub(super) fn subject(image: &str, probe: &str, reading: &Reading) -> String {
    let read = if reading.is_as_trained() { String::new() } else { format!(" ({reading})") };
    format!("{} through {}{read}", published(image), published(probe))
}

/// A path as pictures name it: without the folders of an absolute one, which may tell who made them.
fn published(path: &str) -> &str {
    let is_absolute = path.starts_with(FOLDERS) || matches!(path.get(1..3), Some(":\\" | ":/"));
    path.rsplit(FOLDERS).next().filter(|_| is_absolute).unwrap_or(path)
}

/// The shortest end of a path, in whole names, that none of the `others` ends with: it identifies the path on a page.
pub fn own_path<'a, 'b>(path: &'a str, others: impl Iterator<Item = &'b str>) -> &'a str {
    let others: Vec<&str> = others.filter(|other| *other != path).collect();
    let ends_with = |other: &str, end: &str| {
        other.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with(FOLDERS))
    };
    let mut ends = path.rmatch_indices(FOLDERS).map(|(at, _)| &path[at + 1..]);
    ends.find(|end| !others.iter().any(|other| ends_with(other, end))).unwrap_or(path)
}

/// The name of a probe's file without folder and ending. If another one of `all` has the same, its run or else its folder is
/// added, and as many of the folders around that as it takes to tell them apart.
pub fn probe_name<'a>(path: &str, all: impl Iterator<Item = &'a str>) -> String {
    let (name, own) = (stem(path), folders(path).collect::<Vec<_>>());
    let same = all.filter(|other| *other != path && stem(other) == name);
    // How far out to name folders: to the first that the other has not, unless it lies in all of these, below others.
    let depth = |other| match folders(other).zip(&own).take_while(|(folder, own)| folder == *own).count() {
        shared if shared < own.len() => shared + 1,
        _ => 1,
    };
    let Some(depth) = same.map(depth).max().filter(|_| !own.is_empty()) else { return name.to_owned() };
    let home: Vec<&str> = own[..depth].iter().rev().copied().collect();
    format!("{name} · {}", home.join("/"))
}

/// The folders of a probe's path, the innermost first, but for `probes` in a run.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    let all = path.rsplit(FOLDERS).skip(1).filter(|folder| !folder.trim_matches('.').is_empty());
    let in_run = all.clone().next() == Some("probes") && all.clone().nth(1).is_some();
    all.skip(usize::from(in_run))
}

/// The parts of a file name that are not empty, joined by hyphens, as are the parts of a name such as `gap · birds`: LaTeX
/// and shells take such a file without quotes.
pub(super) fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join("-").replace(" · ", "-")
}

/// What separates the folders of a path, which a trace may bring from a machine of another kind.
const FOLDERS: [char; 2] = ['/', '\\'];

/// The name of a file without its folder and its extension.
pub fn stem(name: &str) -> &str {
    let file = Path::new(name.rsplit(FOLDERS).next().unwrap_or(name));
    file.file_stem().and_then(OsStr::to_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_has_hyphens_between_all_its_parts() {
        assert_eq!(
            joined(&["birds", "gap · run-2 · tiny", "", "confusion"]),
            "birds-gap-run-2-tiny-confusion"
        );
    }

    #[test]
    fn what_a_picture_was_made_from_names_no_folder_of_a_machine() {
        let made_from = |image, probe| subject(image, probe, &Reading::default());
        assert_eq!(
            made_from("/home/ann/birds/7.png", "C:\\run\\gap.safetensors"),
            "7.png through gap.safetensors"
        );
        assert_eq!(
            made_from("val/crane/7.png", "hf:me/birds/gap"),
            "val/crane/7.png through hf:me/birds/gap"
        );
    }

    #[test]
    fn probes_of_one_name_are_told_apart_by_their_run_or_folder() {
        let named = |path, others: &[&'static str]| probe_name(path, others.iter().copied());
        let [a, b, c] = ["runs/a/probes/gap.pt", "runs/b/probes/gap.pt", "mae/gap.pt"];
        assert_eq!([a, b, c].map(|path| named(path, &[a, b, c])), ["gap · a", "gap · b", "gap · mae"]);
        assert_eq!((named(a, &[a]), named(a, &["cls.pt"])), ("gap".to_owned(), "gap".to_owned()));
        // Two runs of one name, in the folders of two backbones.
        let [vit, dino] = ["/ann/vit/birds/probes/gap.pt", "/ann/dino/birds/probes/gap.pt"];
        assert_eq!(
            [vit, dino].map(|path| named(path, &[vit, dino])),
            ["gap · vit/birds", "gap · dino/birds"]
        );
        assert_eq!(
            (named("gap.pt", &[c]), named(c, &["gap.pt"])),
            ("gap".to_owned(), "gap · mae".to_owned())
        );
        assert_eq!(named("x/gap.pt", &["x/probes/gap.pt"]), "gap · x");
        // Two that lie in folders of one name, each with another one below more folders.
        let all = ["b/x/gap.pt", "c/b/x/gap.pt", "d/x/gap.pt", "e/d/x/gap.pt"];
        let names = ["gap · b/x", "gap · c/b/x", "gap · d/x", "gap · e/d/x"];
        assert_eq!(all.map(|path| named(path, &all)), names);
    }

    #[test]
    fn images_are_told_apart_by_what_their_paths_do_not_share() {
        let [a, b, c] = ["/home/ann/val/crane/7.png", "/home/ann/val/crow/7.png", "/home/ann/val/crow/8.png"];
        let named = |path, others: &[&'static str]| own_path(path, others.iter().copied());
        assert_eq!((named(a, &[a, b, c]), named(b, &[a, b, c])), ("crane/7.png", "crow/7.png"));
        assert_eq!((named(c, &[a, b, c]), named(a, &[])), ("8.png", "7.png"));
        assert_eq!(
            (named("pond.png", &["lake.png", a]), named(a, &["C:\\ann\\7.png"])),
            ("pond.png", "crane/7.png")
        );
        assert_eq!((named("7.png", &[a]), named(a, &["7.png"])), ("7.png", "crane/7.png"));
    }
}
