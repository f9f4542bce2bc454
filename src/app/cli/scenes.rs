//! `ssmprobe scenes`: draws a labelled dataset whose objects and their places are known.

use indicatif::{ProgressBar, ProgressStyle};

use crate::app::cli::prelude::*;
use crate::app::value_parser::whole_number;
use crate::model::data::scenes::folder::{MAX_SCENES, Set};
use crate::model::io::{atomic_file, temporary};

/// Draw a labelled dataset of synthetic scenes with known object positions
#[derive(Args)]
#[command(after_long_help = LONG)]
pub struct Scenes {
    /// Folder to write to, new or empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Scenes for training
    #[arg(long, value_name = "N", default_value_t = 2400, value_parser = whole_number(0..=MAX_SCENES))]
    train: u64,
    /// Scenes for validation
    #[arg(long, value_name = "M", default_value_t = 600, value_parser = whole_number(0..=MAX_SCENES))]
    val: u64,
    /// Seed; the same seed gives the same bytes
    #[arg(long, default_value_t = 0, value_parser = whole_number(0_u64..))]
    seed: u64,
}

const LONG: &str = "\
A scene is a textured background of 112 x 112 pixels with distractors and one small object. The
class, one of 12, is the object's shape AND pattern; every distractor has only one of the two.

  DIR/train/<class>/00000.png, DIR/val/<class>/00000.png   the scenes
  DIR/masks/<split>/<class>/<same name>                    white where the object is
  DIR/scenes.json                                          seed, sizes, classes, version";

impl Scenes {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let set = Set { seed: self.seed, train: self.train, val: self.val };
        if set.train + set.val == 0 {
            refuse!(
                "--train {} --val {}: give 1 to {MAX_SCENES} scenes in at least one of them",
                set.train,
                set.val
            );
        }
        if !is_free("--out ", &self.out)? {
            refuse!(
                "--out {}: the folder is not empty; choose a new one, so that scenes of another set are not mixed in",
                self.out.display()
            );
        }
        let bar = ProgressBar::new(set.train + set.val);
        let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} scenes, {eta} left");
        bar.set_style(style.expect("a valid template"));
        set.write(&self.out, &|| bar.inc(1))?;
        bar.finish_and_clear();
        say!("wrote {} scenes to {}", set.train + set.val, self.out.display());
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether the folder is empty or does not exist; an error, with `flag` before its name, if it cannot be read.
pub(super) fn is_free(flag: &str, folder: &Path) -> Result<bool, Usage> {
    let refused = |why| Usage(format!("{flag}{}: {why}; choose a new folder", folder.display()));
    if atomic_file::nearest_folder(folder).map_err(refused)? != folder {
        return Ok(true);
    }
    temporary::is_empty(folder).map_err(refused)
}
