//! Settings kept between sessions (theme, device, recently used entries): a JSON file in the user's configuration folder.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::connection::Host;
use crate::app::jobs::tasks::TrainPlaceSettings;
use crate::model::io::file_lock::{self, LockedFile, TryLock};
use crate::model::io::{atomic_file, if_there};

/// Most recently used entries of one kind.
pub(super) const MAX_RECENT: usize = 12;
/// Largest settings file, in bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// How long another window's save is waited for.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Largest side of a window, in points.
const MAX_SIDE_PT: f32 = 16384.0;

/// The devices that can be chosen: id and description.
pub const DEVICES: &[(&str, &str)] = &[
    ("auto", "the best available"),
    ("cpu", "the CPU"),
    ("wgpu", "a GPU through Vulkan, DirectX 12 or Metal"),
    #[cfg(feature = "cuda")]
    ("cuda", "an NVIDIA GPU through CUDA"),
];

listed! {
    /// Light or dark.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ThemeChoice {
        /// The system's theme.
        #[default]
        System: "System";
        /// Light.
        Light: "Light";
        /// Dark.
        Dark: "Dark";
    }
}

/// The settings. Absent fields have their defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Light or dark.
    pub theme: ThemeChoice,
    /// Zoom factor of the window, 1 for the system's own scale.
    pub scale: f32,
    /// The window's size.
    pub window: WindowSize,
    /// The device to compute on.
    pub device: String,
    /// Recently used entries.
    pub recent: Recent,
    /// The sections of the library pane.
    pub library: LibrarySections,
    /// Where trainings run.
    pub training: TrainPlaceSettings,
    /// Fields that this version does not know, kept as found.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The window's size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowSize {
    /// Width and height while it does not fill the screen, in the system's own points: those of a [scale](Settings::scale) of 1.
    pub points: [f32; 2],
    /// Whether it fills the screen.
    pub maximized: bool,
}

impl Default for WindowSize {
    fn default() -> Self {
        Self { points: [1440.0, 900.0], maximized: false }
    }
}

/// The sections of the library pane, by name; the window chooses what is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LibrarySections {
    /// Whether a section is folded.
    pub folded: BTreeMap<String, bool>,
    /// The height of its list, in points.
    pub heights: BTreeMap<String, f32>,
}

/// Recently used entries, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recent {
    /// Folders and ids of backbones.
    pub backbones: VecDeque<String>,
    /// Probe files.
    pub probes: VecDeque<PathBuf>,
    /// Folders of runs.
    pub runs: VecDeque<PathBuf>,
    /// Images and folders of images.
    pub images: VecDeque<PathBuf>,
    /// Folders and tables of datasets.
    pub datasets: VecDeque<PathBuf>,
    /// Workspace files.
    pub workspaces: VecDeque<PathBuf>,
    /// Hosts of workers.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub hosts: VecDeque<Host>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            theme: ThemeChoice::default(),
            scale: 1.0,
            window: WindowSize::default(),
            device: "auto".into(),
            recent: Recent::default(),
            library: LibrarySections::default(),
            training: TrainPlaceSettings::default(),
            rest: Map::new(),
        }
    }
}

/// Why settings could not be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
pub enum SettingsError {
    #[error("{path}: settings cannot be {what}: {source}")]
    Io {
        path: PathBuf,
        /// `read` or `written`.
        what: &'static str,
        source: std::io::Error,
    },
    #[error(
        "{path}: not a settings file ({why}); the defaults are used, and nothing is saved until the file is fixed or deleted"
    )]
    Json { path: PathBuf, why: String },
}

/// Puts `item` first in a list of recently used entries, which keeps [`MAX_RECENT`] and each once.
pub fn remember<T: PartialEq>(list: &mut VecDeque<T>, item: T) {
    list.retain(|other| *other != item);
    list.push_front(item);
    list.truncate(MAX_RECENT);
}

/// Limits a zoom factor to a usable range, 0.5 to 4.
pub(super) fn bounded_scale(scale: f32) -> f32 {
    if scale.is_finite() { scale.clamp(0.5, 4.0) } else { 1.0 }
}

/// The path of the settings file; `None` if the user has no home folder.
pub fn path() -> Option<PathBuf> {
    let dirs = directories::ProjectDirs::from("", "", "ssmprobe")?;
    Some(dirs.config_dir().join("settings.json"))
}

impl Settings {
    /// Reads the file `path`; the defaults if it does not exist, an error if it is no settings file.
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        match if_there(atomic_file::read(path, FILE_LIMIT)) {
            Ok(Some(bytes)) => serde_json::from_slice::<Self>(&bytes)
                .map(Self::bounded)
                .map_err(|error| SettingsError::Json { path: path.to_owned(), why: error.to_string() }),
            Ok(None) => Ok(Self::default()),
            Err(source) => Err(SettingsError::Io { path: path.to_owned(), what: "read", source }),
        }
    }

    /// Writes to the file `path` what differs from `base`, which was last read or written; the rest stays as another window has
    /// written it meanwhile.
    pub fn save_changes(&self, base: &Self, path: &Path) -> Result<(), SettingsError> {
        self.save_changes_within(TIMEOUT, base, path)
    }

    /// [`save_changes`](Self::save_changes), after waiting up to `timeout` for another window that saves at this moment: it may hang.
    /// Without a lock, one of the two may lose its change.
    fn save_changes_within(&self, timeout: Duration, base: &Self, path: &Path) -> Result<(), SettingsError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let open =
            || File::options().write(true).create(true).truncate(false).open(path.with_extension("lock"));
        let lock = atomic_file::make_folder(folder).and_then(|()| open()).ok();
        let is_locked = |lock: &File| matches!(file_lock::lock_within(lock, timeout), Ok(TryLock::Acquired));
        let _lock = lock.filter(is_locked).map(LockedFile);
        if !path.exists() {
            return self.save(path);
        }
        let theirs = Self::load(path)?;
        let json = |settings: &Self| serde_json::to_value(settings);
        let merge = || serde_json::from_value(merged(&json(base)?, json(self)?, json(&theirs)?));
        // A path that is not valid Unicode has no JSON; `save` reports the error.
        merge().map_or_else(|_| self.clone(), Self::bounded).save(path)
    }

    /// Writes the file `path`, making its folder.
    pub fn save(&self, path: &Path) -> Result<(), SettingsError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let write = || {
            atomic_file::make_folder(folder)?;
            atomic_file::write_with(path, |file| {
                serde_json::to_writer_pretty(&mut *file, self)?;
                file.write_all(b"\n")
            })
        };
        write().map_err(|source| SettingsError::Io { path: path.to_owned(), what: "written", source })
    }

    /// Limits all values to usable ranges.
    fn bounded(mut self) -> Self {
        self.scale = bounded_scale(self.scale);
        if !self.window.points.iter().all(|side| (1.0..=MAX_SIDE_PT).contains(side)) {
            self.window.points = WindowSize::default().points;
        }
        let Recent { backbones, probes, runs, images, datasets, workspaces, hosts } = &mut self.recent;
        backbones.truncate(MAX_RECENT);
        hosts.truncate(MAX_RECENT);
        [probes, runs, images, datasets, workspaces].into_iter().for_each(|list| list.truncate(MAX_RECENT));
        self
    }
}

/// `theirs` with what differs between `base` and `own`; of a list, which has the latest first, the new entries of both. Numbers in a row
/// are one value.
fn merged(base: &Value, own: Value, theirs: Value) -> Value {
    match (own, theirs) {
        (own, theirs) if own == *base => theirs,
        (Value::Object(own), Value::Object(mut theirs)) => {
            // What either has removed stays away.
            theirs.retain(|key, _| own.contains_key(key) || base.get(key).is_none());
            for (key, own) in own {
                let (was, other) = (&base[&key], theirs.remove(&key));
                if other.is_some() || own != *was {
                    theirs.insert(key, merged(was, own, other.unwrap_or_default()));
                }
            }
            Value::Object(theirs)
        }
        (Value::Array(mut own), Value::Array(mut theirs)) if !own.iter().any(Value::is_number) => {
            let was = base.as_array().map_or(&[][..], Vec::as_slice);
            theirs.retain(|entry| !own.contains(entry) && !was.contains(entry));
            // Before the old ones, of which a full list loses the last.
            let old = own.iter().position(|entry| was.contains(entry)).unwrap_or(own.len());
            own.splice(old..old, theirs);
            Value::Array(own)
        }
        (own, _) => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_writes_only_what_it_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.json");
        let base = Settings::default();
        let [mut one, mut other] = [base.clone(), base.clone()];
        (one.theme, one.scale, one.window.points) = (ThemeChoice::Dark, 1.1, [1200.0, 800.0]);
        (other.device, other.window.points) = ("cpu".into(), [1300.0, 700.0]);
        for (settings, used) in [(&mut one, ["b", "a"]), (&mut other, ["c", "b"])] {
            settings.recent.runs = used.map(PathBuf::from).into();
            settings.library.folded.insert(used[0].to_owned(), true);
            settings.save_changes(&base, &path).expect("saved");
        }
        let found = Settings::load(&path).expect("loaded");
        assert_eq!((found.theme, found.scale, found.device), (ThemeChoice::Dark, 1.1, "cpu".to_owned()));
        assert_eq!(found.recent.runs, ["c", "b", "a"].map(PathBuf::from));
        assert!(found.library.folded.keys().eq(["b", "c"]));
        assert_eq!(found.window.points, [1300.0, 700.0]);
        // What both changed is as the last one wrote it, and what one removed stays away.
        let mut last = Settings { scale: 2.0, ..other.clone() };
        last.library.folded.clear();
        last.save_changes(&other, &path).expect("saved");
        let found = Settings::load(&path).expect("loaded");
        assert!(found.scale == 2.0 && found.library.folded.keys().eq(["b"]));
        let mut replaced = found.clone();
        replaced.recent.runs = ["d", "b", "a"].map(PathBuf::from).into();
        replaced.save_changes(&found, &path).expect("saved");
        assert_eq!(Settings::load(&path).expect("loaded").recent.runs, replaced.recent.runs);
        // What both used since comes before what they knew, that of the window which saves last first.
        for used in ["e", "f"] {
            let mut own = replaced.clone();
            own.recent.runs.push_front(used.into());
            own.save_changes(&replaced, &path).expect("saved");
        }
        let runs = Settings::load(&path).expect("loaded").recent.runs;
        assert_eq!(runs, ["f", "e", "d", "b", "a"].map(PathBuf::from));
    }

    #[test]
    fn no_more_hosts_are_remembered_than_a_menu_shows() {
        let mut settings = Settings::default();
        let host = |at: usize| Host { place: format!("ssh://{at}"), program: None };
        settings.recent.hosts = (0..2 * MAX_RECENT).map(host).collect();
        assert_eq!(settings.bounded().recent.hosts.len(), MAX_RECENT);
    }

    #[test]
    fn windows_that_save_at_the_same_moment_lose_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = &folder.path().join("settings.json");
        let save = |window: usize| {
            let mut base = Settings::default();
            for change in 0..12 {
                let mut own = base.clone();
                own.library.folded.insert(format!("{window}.{change}"), true);
                own.save_changes_within(Duration::from_mins(10), &base, path).expect("saved");
                base = own;
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|window| drop(scope.spawn(move || save(window)))));
        assert_eq!(Settings::load(path).expect("loaded").library.folded.len(), 48);
    }

    #[test]
    fn settings_survive_a_round_trip_and_strange_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/settings.json");
        assert_eq!(Settings::load(&path).expect("defaults"), Settings::default());
        let mut settings = Settings { theme: ThemeChoice::Dark, ..Settings::default() };
        for number in 0..40 {
            remember(&mut settings.recent.probes, PathBuf::from(format!("{number}.safetensors")));
        }
        remember(&mut settings.recent.probes, PathBuf::from("35.safetensors"));
        assert_eq!(settings.recent.probes.len(), MAX_RECENT);
        // An entry that is used again moves to the front.
        let recent: Vec<_> = settings.recent.probes.iter().take(6).cloned().collect();
        let names = [35, 39, 38, 37, 36, 34].map(|number| PathBuf::from(format!("{number}.safetensors")));
        assert_eq!(recent, names);
        settings.save(&path).expect("saved");
        assert_eq!(Settings::load(&path).expect("loaded"), settings);
        let strange = br#"{"scale": 1e9, "colour": "red", "window": {"points": [0, 1e30]}}"#;
        atomic_file::write(&path, strange).expect("written");
        let found = Settings::load(&path).expect("loaded");
        assert_eq!((found.scale, found.window), (4.0, WindowSize::default()));
        // What only a later version knows outlives a change of this one.
        let dark = Settings { theme: ThemeChoice::Dark, ..found.clone() };
        dark.save_changes(&found, &path).expect("saved");
        let saved = Settings::load(&path).expect("loaded");
        assert_eq!((saved.theme, &saved.rest["colour"]), (ThemeChoice::Dark, &Value::from("red")));
        atomic_file::write(&path, b"[").expect("written");
        let error = Settings::load(&path).expect_err("no JSON").to_string();
        assert!(error.contains("settings.json") && error.contains("delete"), "{error}");
    }
}
