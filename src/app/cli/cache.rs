//! `ssmprobe cache`: lists and removes token caches.

use std::time::{Duration, UNIX_EPOCH};

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;

use crate::app::cli::prelude::*;
use crate::app::format;
use crate::app::jobs::evaluate::stored;
use crate::app::jobs::extract::cache_root;
use crate::app::terminal::error;
use crate::model::data::token_cache::Names;
use crate::model::data::token_cache::list::{self, About, Entry};

/// List or clear cached tokens.
#[derive(Args)]
pub struct Cache {
    #[command(subcommand)]
    action: Action,
}

/// Where token caches lie.
#[derive(Args)]
struct CacheRoot {
    /// Folder of all token caches [default: $SSMPROBE_CACHE, else `tokens` in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Action {
    /// List all caches.
    List {
        #[command(flatten)]
        root: CacheRoot,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove caches by name, or all of them.
    Clear {
        #[command(flatten)]
        root: CacheRoot,
        /// Names, as `cache list` shows them; unique prefixes are enough.
        #[arg(value_name = "NAME", conflicts_with = "all", value_parser = NonEmptyStringValueParser::new())]
        names: Vec<String>,
        /// Remove all caches, and the window's evaluations beside them.
        #[arg(long)]
        all: bool,
    },
}

impl Cache {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut code = ExitCode::SUCCESS;
        match self.action {
            Action::List { root, json } => {
                let root = cache_root(root.cache.as_deref())?;
                let entries = list::entries(&root)?;
                if json {
                    stdout::json(&json!({"root": root.display().to_string(), "caches": entries}))?;
                } else {
                    for entry in &entries {
                        stdout::line(describe(entry))?;
                    }
                    say!("{}, in {}", amount(&entries), root.display());
                }
            }
            Action::Clear { root, names, all } => {
                if names.is_empty() && !all {
                    refuse!("name the caches to remove, as `ssmprobe cache list` shows them, or pass --all");
                }
                let root = cache_root(root.cache.as_deref())?;
                let entries = list::entries(&root)?;
                let removed = if all { entries } else { choose(entries, &names)? };
                let outcomes = removed.iter().map(|entry| (entry, list::remove(&root, &entry.name)));
                let (removed, kept): (Vec<_>, Vec<_>) = outcomes.partition(|(_, outcome)| outcome.is_ok());
                let tokens: u64 = removed.iter().map(|(entry, _)| entry.bytes).sum();
                let bytes = tokens + if all { stored::clear(&root) } else { 0 };
                let removed = counted(removed.len(), "cache", "caches");
                say!("{removed} removed, {} freed", format::bytes(bytes));
                // One that cannot be removed, such as another user's, does not stop the others.
                for error in kept.into_iter().filter_map(|(_, outcome)| outcome.err()) {
                    code = error::report(&error.into());
                }
            }
        }
        Ok(code)
    }
}

/// The number of caches and their bytes.
pub(super) fn amount(caches: &[Entry]) -> String {
    let bytes = caches.iter().map(|cache| cache.bytes).sum();
    format!("{}, {}", counted(caches.len(), "cache", "caches"), format::bytes(bytes))
}

fn describe(entry: &Entry) -> String {
    let Entry { name, bytes, written, about } = entry;
    let about = match about {
        Some(About { names, source, grid, width, images, done }) => format!(
            "{}layer {}, {done} of {}, {} x {} tokens of width {width}, weights {}",
            match names {
                Some(Names { dataset, backbone }) => format!("{dataset} through {backbone}, "),
                None => String::new(),
            },
            source.layer,
            counted(*images, "image", "images"),
            grid.rows,
            grid.cols,
            source.weights.get(..12).unwrap_or(&source.weights)
        ),
        None if *bytes == 0 => "empty, or not readable by this user".to_owned(),
        None => "without a manifest that this version can read".to_owned(),
    };
    let age = written.and_then(|seconds| (UNIX_EPOCH + Duration::from_secs(seconds)).elapsed().ok());
    let age = age.map_or(String::new(), |age| format!(", written {} ago", format::roughly(age)));
    format!("{name}  {:>9}  {about}{age}", format::bytes(*bytes))
}

/// The caches whose names begin with one of `names`; an error unless each fits exactly one.
fn choose(entries: Vec<Entry>, names: &[String]) -> anyhow::Result<Vec<Entry>> {
    for name in names {
        match entries.iter().filter(|entry| entry.name.starts_with(name.as_str())).count() {
            1 => {}
            0 => refuse!("no cache is named {name}; `ssmprobe cache list` shows all"),
            more => refuse!("{more} caches begin with {name}; give a longer prefix"),
        }
    }
    let wanted = |entry: &Entry| names.iter().any(|name| entry.name.starts_with(name.as_str()));
    Ok(entries.into_iter().filter(wanted).collect())
}
