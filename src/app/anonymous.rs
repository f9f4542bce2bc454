//! Anonymises text that leaves this machine (`ssmprobe doctor`, crash reports, pages): removes the user's folders and name,
//! access tokens, and passwords in URLs.

use std::collections::BTreeMap;

/// The prefix of access tokens of the Hub.
const TOKEN_PREFIX: &str = "hf_";

/// Replaces the home folder by `~`, the user's name by `USER` and access tokens by `TOKEN`; drops credentials from URLs.
pub fn anonymous(text: &str) -> String {
    let home = directories::UserDirs::new().map(|dirs| dirs.home_dir().display().to_string());
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(set);
    let secrets = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"].into_iter().filter_map(set).collect::<Vec<_>>();
    redacted(text, home.as_deref(), user.as_deref(), &secrets)
}

/// [`anonymous`] for a given home folder, user name and secrets. Secrets of three characters or fewer are not replaced.
fn redacted(text: &str, home: Option<&str>, user: Option<&str>, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() > 3) {
        text = text.replace(secret.as_str(), "TOKEN");
    }
    let edge = |c: char| !c.is_alphanumeric() && !"._-".contains(c);
    let home = home.map(|home| home.trim_end_matches(['/', '\\']));
    if let Some(home) = home.filter(|home| !home.is_empty()) {
        // Not of a folder whose name only begins alike.
        let is_whole = |rest: &str| rest.chars().next().is_none_or(|c| !c.is_alphanumeric());
        let mut parts = text.split(home);
        let first = parts.next().unwrap_or_default().to_owned();
        text = parts.fold(first, |all, rest| all + if is_whole(rest) { "~" } else { home } + rest);
    }
    if let Some(user) = user.filter(|user| user.contains(edge)) {
        text = text.replace(user, "USER"); // as the names of some directories have an `@`, it is no single word
    }
    let word = |word: &str| match word.trim_end_matches(edge) {
        bare if user == Some(bare) => word.replacen(bare, "USER", 1),
        bare if bare.starts_with(TOKEN_PREFIX) => word.replacen(bare, "TOKEN", 1),
        _ => word.to_owned(),
    };
    without_passwords(&text).split_inclusive(edge).map(word).collect()
}

/// Removes the user name and password of every URL (`//USER:PASSWORD@HOST`).
fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut all, part| {
        let end = part.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(part.len());
        let host = part[..end].rfind('@').map_or(0, |at| at + 1);
        all.push_str("://");
        all.push_str(&part[host..]);
        all
    })
}

/// Names of files for readers on other machines: relative paths stay as they are, of other paths only the file name is left.
/// If names collide, the later ones also name the folder, of a probe that of its run: `1.png`, `1 · dog.png`, but for the name
/// of the user.
#[derive(Default)]
pub struct ShortNames(BTreeMap<String, String>);

impl ShortNames {
    /// The name of a path: the same at every call, and different from that of every other path.
    pub fn name(&mut self, path: &str) -> String {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let mut parts = path.rsplit(['/', '\\']).filter(|part| !part.trim_matches('.').is_empty());
        let file = parts.next().unwrap_or_default();
        let drops_folder = path.starts_with(['/', '\\', '~']) || path.contains(':') || path.contains("..");
        let mut name = if drops_folder { file } else { path.trim_start_matches("./") }.to_owned();
        let folders = parts.filter(|part| *part != "probes");
        let mut suffixes = folders.map(anonymous).chain((2..).map(|number: usize| number.to_string()));
        while self.0.values().any(|other| *other == name) {
            let suffix = suffixes.next().unwrap_or_default();
            name = match name.rsplit_once('.') {
                Some((stem, ending)) => format!("{stem} · {suffix}.{ending}"),
                None => format!("{name} · {suffix}"),
            };
        }
        self.0.insert(path.to_owned(), name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::{ShortNames, redacted};

    #[test]
    fn files_of_one_name_say_where_they_lie() {
        let mut names = ShortNames::default();
        let mut all_names = |paths: [&str; 4]| paths.map(|path| names.name(path));
        let two = all_names(["/data/cat/1.png", "/data/dog/1.png", "/old/dog/1.png", "/data/cat/1.png"]);
        assert_eq!(two, ["1.png", "1 · dog.png", "1 · dog · old.png", "1.png"]);
        let others = all_names(["./1.png", "D:\\a\\t.parquet, row 3", "b/t.parquet, row 3", ""]);
        assert_eq!(others, ["1 · 2.png", "t.parquet, row 3", "b/t.parquet, row 3", ""]);
        let of_runs = ["/a/probes/gap.pt", "/b/probes/gap.pt"].map(|path| names.name(path));
        assert_eq!(of_runs, ["gap.pt", "gap · b.pt"]);
    }

    #[test]
    fn neither_home_nor_user_nor_tokens_stay() {
        let page = "tokens /home/alice/.cache\ndemo /data/alice/demo, D:\\alice\nalice=1 malice /srv/alice";
        let clean = redacted(page, Some("/home/alice"), Some("alice"), &[]);
        assert_eq!(clean, "tokens ~/.cache\ndemo /data/USER/demo, D:\\USER\nUSER=1 malice /srv/USER");
        assert_eq!(redacted("a/b", Some("/"), None, &[]), "a/b");
        let page = "/home/al, /home/al/a /home/alice in /home/al.";
        for home in ["/home/al", "/home/al/"] {
            assert_eq!(redacted(page, Some(home), Some("al"), &[]), "~, ~/a /home/alice in ~.");
        }
        assert_eq!(redacted("/data/al@corp.org/demo", None, Some("al@corp.org"), &[]), "/data/USER/demo");
        let page = "token=hf_AbC \"hf_x\" [hf_y] sent odds; http://bob:word@host:80/a, org/name@v1";
        let clean = redacted(page, None, None, &["odds".into(), "seven".into()]);
        assert_eq!(clean, "token=TOKEN \"TOKEN\" [TOKEN] sent TOKEN; http://host:80/a, org/name@v1");
    }
}
