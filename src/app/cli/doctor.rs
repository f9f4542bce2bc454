//! `ssmprobe doctor`: a page about machine and installation, for an issue, with no folder or name of the user, and no token.

use std::fmt::{Display, Write as _};
use std::time::Instant;

use super::{cache, devices};
use crate::app::anonymous::anonymous;
use crate::app::cli::prelude::*;
use crate::app::crash;
use crate::app::demo::{self, DemoInfo};
use crate::app::format;
use crate::app::jobs::extract::cache_root;
use crate::app::state::settings;
use crate::model::backbone::hub::Hub;
use crate::model::data::token_cache::list;
use crate::model::device;

/// Print one page about this machine and installation, to paste into an issue.
#[derive(Args)]
#[command(
    after_help = "The page contains no user name and no token: the home folder is shown as ~, a user name in a path as USER."
)]
pub struct Doctor {
    /// Do not check whether the Hugging Face Hub responds
    #[arg(long)]
    offline: bool,
}

/// Environment variables whose values are printed.
const VARIABLES: &str = "SSMPROBE_ASSETS SSMPROBE_CACHE HF_HOME HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE \
                         HF_TOKEN_PATH TRANSFORMERS_OFFLINE SSL_CERT_FILE REQUESTS_CA_BUNDLE TMPDIR XDG_CACHE_HOME \
                         XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_SESSION_TYPE RAYON_NUM_THREADS \
                         CUDA_VISIBLE_DEVICES";
/// Environment variables that may hold a secret: only whether they are set is printed.
const SECRETS: &str = "HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_ENDPOINT ALL_PROXY all_proxy HTTPS_PROXY https_proxy \
                       HTTP_PROXY http_proxy NO_PROXY no_proxy";

impl Doctor {
    /// Prints the page; what cannot be found out says why on its line.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        stdout::text(anonymous(&self.page()?))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The page, not yet anonymised.
    fn page(&self) -> anyhow::Result<String> {
        let mut page = String::new();
        let mut line = |what: &str, value: &dyn Display| writeln!(page, "{what:<10} {value}");
        let (version, built_with) = (env!("CARGO_PKG_VERSION"), devices::built_with().join(", "));
        line("program", &format_args!("ssmprobe {version}, built with {built_with}"))?;
        line("system", &system())?;
        line("started as", &or_reason(std::env::current_exe().map(|path| path.display().to_string())))?;
        let checked = |folder: PathBuf| DemoInfo::open(&folder).map(|_| folder.display().to_string());
        line("demo", &or_reason(demo::demo().and_then(checked)))?;
        let displays = ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().filter(|name| variable(name).is_some());
        line("display", &comma_separated(displays.map(str::to_owned)))?;
        let file = settings::path().map(|path| path.display().to_string());
        line("settings", &file.unwrap_or_else(|| "none: no home folder".into()))?;
        let values = VARIABLES.split(' ').filter_map(|name| Some(format!("{name}={}", variable(name)?)));
        let secrets =
            SECRETS.split(' ').filter(|name| variable(name).is_some()).map(|name| format!("{name} is set"));
        line("variables", &comma_separated(values.chain(secrets)))?;
        line("tokens", &or_reason(token_caches()))?;
        if let Some(folder) = crash::folder() {
            let reports = std::fs::read_dir(&folder).map_or(0, |entries| entries.flatten().count());
            let reports = counted(reports, "report", "reports");
            line("crashes", &format_args!("{reports} in {}", folder.display()))?;
        }
        match Hub::from_env() {
            Ok(hub) => {
                line("Hub", &self.hub_status(&hub))?;
                let size = format::bytes(blob_size(&hub.cache));
                line("", &format_args!("{size} in {}", hub.cache.display()))?;
                line("", &if hub.token.is_some() { "token set" } else { "no token" })?;
            }
            Err(error) => line("Hub", &error)?,
        }
        for found in device::list() {
            page += &devices::to_text(&device::describe(found));
        }
        let auto = device::choose("auto")?;
        writeln!(page, "auto selects {}: {}", auto.found.name, auto.why)?;
        Ok(page)
    }

    fn hub_status(&self, hub: &Hub) -> String {
        let address = hub.address();
        if self.offline || hub.offline {
            return format!("{address}, not checked");
        }
        let start = Instant::now();
        match hub.reach() {
            Ok(status) => {
                format!("{address} responded (HTTP {status}) in {:.1} s", start.elapsed().as_secs_f64())
            }
            Err(why) => format!("{address} does not respond: {}", why.replace(&hub.endpoint, &address)),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn comma_separated(words: impl Iterator<Item = String>) -> String {
    let words = words.collect::<Vec<_>>().join(", ");
    if words.is_empty() { "none".into() } else { words }
}

fn or_reason<E: Display>(found: Result<String, E>) -> String {
    found.unwrap_or_else(|error| format!("unknown: {error:#}"))
}

/// Operating system, processor architecture, and the name of the distribution.
fn system() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.map_or(String::new(), |name| format!(", {}", name.trim_matches('"')));
    format!("{} {}{name}", std::env::consts::OS, std::env::consts::ARCH)
}

fn token_caches() -> anyhow::Result<String> {
    let root = cache_root(None)?;
    Ok(format!("{}, in {}", cache::amount(&list::entries(&root)?), root.display()))
}

/// Total size of the files in the Hub's cache, in bytes, each counted once.
fn blob_size(cache: &Path) -> u64 {
    let inside = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let repositories = inside(cache).map(|entry| entry.path().join("blobs"));
    repositories
        .flat_map(|folder| inside(&folder))
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum()
}
