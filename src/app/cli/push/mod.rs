//! `ssmprobe push`: uploads a run's probes to the Hugging Face Hub, with a model card.

mod card;

use self::card::Card;
use crate::app::cli::prelude::*;
use crate::app::cli::report::notes;
use crate::app::format;
use crate::app::jobs::history::{Band, TrainHistory, disk};
use crate::app::jobs::{Reporter, Unit};
use crate::app::report::Source;
use crate::app::value_parser::names;
use crate::model::backbone::hub::{Hub, HubError, PushSpec, Upload, is_id};
use crate::model::io::atomic_file;
use crate::model::train::run::{ProbeCheckpoint, Run};
use crate::viz::draw::theme::Theme;
use crate::viz::export;
use crate::viz::figures::curves::Part;
use crate::viz::figures::plot::Plot;

/// Largest file of a run that is uploaded, in bytes.
const MAX_FILE: u64 = 1 << 30;
/// Width of the card's figure, in mm, and its resolution, in dots per inch.
const FIGURE_MM: f32 = 174.0;
const FIGURE_DPI: f32 = 150.0;

/// Publish a run's probes on the Hugging Face Hub, with a model card.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub struct Push {
    /// Folder of the run.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Repository on the Hub; created, unless --update is given.
    #[arg(value_name = "ORGANISATION/NAME", value_parser = id)]
    repository: String,
    /// Licence of the probes, by its name on the Hub: mit, apache-2.0, cc-by-4.0, ...
    #[arg(long, value_name = "LICENCE", value_parser = licence)]
    license: String,
    /// Only these heads.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    heads: Vec<String>,
    /// Push the probes after the last epoch instead of those of the best one.
    #[arg(long)]
    last: bool,
    /// Your notes, a Markdown file; they come first on the card.
    #[arg(long, value_name = "FILE")]
    notes: Option<PathBuf>,
    /// Make the repository private.
    #[arg(long, conflicts_with = "update")]
    private: bool,
    /// Add a commit to an existing repository.
    #[arg(long)]
    update: bool,
    /// Print the card and the list of files, and upload nothing.
    #[arg(long)]
    dry_run: bool,
}

const LONG: &str = "One commit holds README.md (the card: task, backbone, accuracy over seeds, protocol, figure, commands, licence), \
training.png, results.csv, metrics.jsonl and the probes, which \
`--probe hf:ORGANISATION/NAME/FILE` of `inspect` and `eval`, and `ssmprobe open`, fetch. It contains no path of this machine.

The write token is that of HF_TOKEN or of `hf auth login`; it is sent only to the Hub, and stored nowhere.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.";

fn id(text: &str) -> Result<String, String> {
    let wrong =
        || "expected ORGANISATION/NAME of letters, digits, . _ and -, such as me/birds-probes".to_owned();
    is_id(text).then(|| text.to_owned()).ok_or_else(wrong)
}

fn licence(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let known = (1..=50).contains(&text.len()) && text.chars().all(plain);
    known
        .then(|| text.to_owned())
        .ok_or_else(|| "expected an id such as mit, apache-2.0 or cc-by-4.0".to_owned())
}

impl Push {
    /// Uploads the files, or prints the card and their list with `--dry-run`.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        let files = self.files()?;
        if self.dry_run {
            let list = files
                .iter()
                .map(|file| format!("{:>10}  {}\n", format::bytes(file.bytes.len() as u64), file.path));
            let card = String::from_utf8_lossy(&files[0].bytes);
            stdout::text(format!("{card}\n{}", list.collect::<String>()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let spec = PushSpec {
            id: self.repository.clone(),
            update: self.update,
            private: self.private,
            summary: format!("Probes by ssmprobe {}", env!("CARGO_PKG_VERSION")),
        };
        let mut reporter = TerminalReporter::new();
        let pushed = Hub::from_env()?.push(&spec, &files, &mut |progress| {
            let what = format!("Pushing {}", progress.file);
            reporter.progress(&what, progress.done, Some(progress.total), Unit::Bytes);
            interrupt::flow()
        });
        reporter.display.clear();
        let page = match pushed {
            Err(stopped @ HubError::CancelledPush) => {
                say!("{stopped}");
                return Ok(interrupt::code());
            }
            other => other?,
        };
        say!("pushed {} to {page}", counted(files.len(), "file", "files"));
        stdout::line(page)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The files of the commit, the card first.
    fn files(&self) -> anyhow::Result<Vec<Upload>> {
        let mut source = Source::open(&self.run)?;
        let heads = names(&self.heads);
        if let Some(unknown) =
            heads.iter().find(|name| !source.run.manifest.heads.iter().any(|h| h.name == **name))
        {
            let known: Vec<&str> = source.run.manifest.heads.iter().map(|head| head.name.as_str()).collect();
            refuse!("--heads {unknown}: the run trains {}", known.join(", "));
        }
        let wanted = |name: &str| heads.is_empty() || heads.iter().any(|head| head == name);
        source.run.manifest.heads.retain(|head| wanted(&head.name));
        source.outcomes.retain(|outcome| wanted(&outcome.head));
        let which = if self.last { ProbeCheckpoint::Last } else { ProbeCheckpoint::Best };
        let read = |path: PathBuf| {
            let bytes = atomic_file::read(&path, MAX_FILE)
                .with_context(|| format!("{}: cannot be read", path.display()));
            bytes.map(|bytes| Upload { path: format::file_name(&path), bytes })
        };
        let paths =
            source.outcomes.iter().map(|outcome| source.run.probe_path(&outcome.head, outcome.seed, which));
        let probes = paths.filter(|path| path.exists()).map(read).collect::<anyhow::Result<Vec<_>>>()?;
        if probes.is_empty() {
            bail!("{}: has no probe yet; finish its training first", self.run.display());
        }
        let notes = self.notes.as_deref().map(notes).transpose()?;
        let card = Card {
            source: &source,
            id: &self.repository,
            licence: &self.license,
            which,
            probes: &probes,
            notes,
        };
        let mut files = vec![Upload { path: "README.md".into(), bytes: card.text().into_bytes() }];
        let history = TrainHistory::of_snapshot(&disk::read(&self.run)?);
        let heads: Vec<String> = source.run.manifest.heads.iter().map(|head| head.name.clone()).collect();
        let figure = TrainHistory::figure_of(&[&history], &heads, Part::Both, false, Band::default());
        let scene = figure.draw_column(&Theme::light(), export::points(FIGURE_MM))?;
        let bytes = export::png(&scene, &figure.caption().about, FIGURE_DPI)?;
        files.push(Upload { path: card::FIGURE.into(), bytes });
        // Only the chosen heads, unlike the run's own tables.
        let tables = Run::tables(&source.outcomes).map(|(path, bytes)| Upload { path: path.into(), bytes });
        files.extend(tables);
        files.extend(probes);
        Ok(files)
    }
}
