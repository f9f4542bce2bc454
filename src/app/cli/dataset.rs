//! `ssmprobe dataset`: describes a dataset, and checks its files, before anything is trained on it.

use std::ops::ControlFlow;
use std::sync::Mutex;

use crate::app::cli::prelude::*;
use crate::app::format::noun;
use crate::app::jobs::open;
use crate::app::rate::RateMeter;
use crate::model::data::{self, Check, Dataset, Split, describe};
use crate::model::io::columns::{self, Column, Values};

/// The most pairs of equal images that are printed; JSON has all.
const MAX_PAIRS: usize = 20;

/// Describe a dataset: layout, images per class and split, unreadable files, duplicates.
#[derive(Args)]
#[command(after_long_help = format!("Layouts, {}", data::listed()))]
pub struct DatasetVerb {
    /// Folder of the dataset, or a table of paths and labels (CSV, TSV).
    #[arg(value_name = "DIR|TABLE")]
    data: PathBuf,
    /// How thoroughly images are checked.
    #[arg(long, value_enum, default_value_t = Check::Bytes)]
    check: Check,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print the images instead, as CSV with their class and split: row `i`, from 0, is image `i` of its token caches.
    #[arg(long, conflicts_with_all = ["check", "json"])]
    list: bool,
}

impl DatasetVerb {
    /// Describes the dataset. Unreadable and duplicate images are reported, and are no failure.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        let mut reporter = TerminalReporter::new();
        let found = open::dataset(&self.data, &mut reporter);
        let Some(dataset) = reporter.end(found)? else { return Ok(interrupt::code()) };
        if self.list {
            stdout::text(String::from_utf8_lossy(&columns::csv(&images(&dataset))))?;
            return Ok(ExitCode::SUCCESS);
        }
        let display = Mutex::new(Display::new());
        let pace = RateMeter::new(dataset.samples.len(), 0);
        let report = describe(&dataset, self.check, &|done, _| -> ControlFlow<()> {
            // Skipped while another thread updates the display.
            if let Ok(mut display) = display.try_lock() {
                display.show("check", &pace.at(done), "");
            }
            interrupt::flow()
        });
        if let Ok(display) = display.into_inner() {
            display.clear();
        }
        let name = |sample: usize| dataset.samples[sample].source.to_string();
        if self.json {
            let counts = |counts: &[usize; 3]| -> Value {
                Split::ALL
                    .iter()
                    .map(|split| (split.name().to_owned(), json!(counts[*split as usize])))
                    .collect()
            };
            let classes = report.classes.iter().zip(&report.counts);
            stdout::json(&json!({
                "name": dataset.name,
                "layout": dataset.layout,
                "root": dataset.root.display().to_string(),
                "images": dataset.samples.len(),
                "splits": counts(&Split::ALL.map(|split| report.total(split))),
                "held_out": dataset.held_out().map(Split::name),
                "classes": classes
                    .map(|(name, own)| json!({"name": name, "images": counts(own)}))
                    .collect::<Vec<_>>(),
                "skipped": report.skipped,
                "checked": report.checked,
                "unreadable": report.unreadable
                    .iter()
                    .map(|(sample, why)| json!({"image": name(*sample), "error": why}))
                    .collect::<Vec<_>>(),
                "in_train_and_held_out": report.leaked
                    .iter()
                    .map(|(train, held)| json!([name(*train), name(*held)]))
                    .collect::<Vec<_>>(),
                "notes": report.notes,
            }))?;
        } else {
            stdout::text(&report)?;
            for (train, held) in report.leaked.iter().take(MAX_PAIRS) {
                stdout::line(format_args!("  the same image: {} and {}", name(*train), name(*held)))?;
            }
            if let more @ 1.. = report.leaked.len().saturating_sub(MAX_PAIRS) {
                let pairs = noun(more, "pair", "pairs");
                stdout::line(format_args!("  and {more} more {pairs} (`--json` lists all)"))?;
            }
            if !report.leaked.is_empty() {
                stdout::line("accuracies on such images are too high: remove one image of each pair")?;
            }
        }
        Ok(if interrupt::flow().is_break() { interrupt::code() } else { ExitCode::SUCCESS })
    }
}

/// The images as a table, in the order of the dataset.
fn images(dataset: &Dataset) -> [Column; 3] {
    let column = |name: &str, text: &dyn Fn(usize) -> String| {
        Column::new(name, Values::Text((0..dataset.samples.len()).map(|at| Some(text(at))).collect()))
    };
    [
        column("image", &|at| dataset.name_of_image(at)),
        column("class", &|at| dataset.classes[dataset.samples[at].class].clone()),
        column("split", &|at| dataset.samples[at].split.name().to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use crate::app::cli::command;
    use crate::model::data::LAYOUTS;

    #[test]
    fn its_help_lists_every_layout() {
        let command = command();
        let help = command.find_subcommand("dataset").and_then(|verb| verb.get_after_long_help());
        let help = help.expect("a list").to_string();
        let missing = LAYOUTS.iter().find(|layout| !help.contains(layout.what));
        assert!(missing.is_none(), "{help}");
    }
}
