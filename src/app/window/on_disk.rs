//! What lies at the paths that a dialog names. It asks in every frame, and is answered from the disk once a second.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use eframe::egui::Ui;

/// How long an answer holds, in seconds.
const AGE: f64 = 1.0;

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    File,
    EmptyFolder,
    Folder,
}

impl Found {
    pub fn is_folder(self) -> bool {
        matches!(self, Self::EmptyFolder | Self::Folder)
    }

    fn at(path: &Path) -> Self {
        let is_full = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        match path.metadata() {
            Err(_) => Self::Nothing,
            Ok(about) if !about.is_dir() => Self::File,
            Ok(_) if is_full() => Self::Folder,
            Ok(_) => Self::EmptyFolder,
        }
    }
}

/// The last answers, with the time of each.
#[derive(Clone, Default)]
pub struct OnDisk(HashMap<PathBuf, (f64, Found)>);

impl OnDisk {
    /// What lies at `path`.
    pub fn at(&mut self, ui: &Ui, path: &Path) -> Found {
        let now = ui.input(|i| i.time);
        self.0.retain(|_, (looked, _)| now - *looked < AGE);
        self.0.entry(path.to_owned()).or_insert_with(|| (now, Found::at(path))).1
    }

    /// Forgets the answers, as something was made.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;

    use super::*;

    #[test]
    fn an_answer_holds_for_a_second_unless_it_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new");
        let look = |ui: &mut Ui, (disk, found): &mut (OnDisk, Found)| *found = disk.at(ui, &path);
        let mut harness = Harness::new_ui_state(look, (OnDisk::default(), Found::File));
        let mut after = |steps: usize, forget: bool| {
            if forget {
                harness.state_mut().0.forget();
            }
            harness.run_steps(steps);
            harness.state().1
        };
        assert_eq!(after(1, true), Found::Nothing);
        fs::create_dir(&path).expect("made");
        assert_eq!(after(1, false), Found::Nothing);
        assert_eq!(after(1, true), Found::EmptyFolder);
        fs::create_dir(path.join("inside")).expect("made");
        assert_eq!(after(5, false), Found::Folder, "a step takes a quarter of a second");
    }
}
