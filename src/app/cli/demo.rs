//! `ssmprobe demo`: the bundled demo, made by the program itself, and what it shows, as files, for machines without a display.

use clap::Subcommand;

use crate::app::cli;
use crate::app::cli::prelude::*;
use crate::app::demo::{self, DemoBackbone, DemoInfo};
use crate::app::devtools::demo::Build;
use crate::app::format::file_stem;
use crate::app::value_parser::whole_number;
use crate::viz::Figure;
use crate::viz::figures::{predictions::Predictions, scan_path::ScanPath, token_map::TokenMap};

/// Heads whose figures stand side by side.
const COMPARED: [&str; 3] = ["gap", "raster", "sinkhorn"];
const ROWS: [&dyn Figure; 3] = [&TokenMap(None), &ScanPath, &Predictions];

/// Build the bundled demo, or write its results to a folder
#[derive(Args)]
pub struct Demo {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Build(Build),
    Results(Results),
}

impl Demo {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            What::Build(build) => build.run(),
            What::Results(results) => results.run(),
        }
    }
}

/// Write the results of the bundled demo to a folder: arrays, tables and figures
#[derive(Args)]
#[command(after_long_help = LONG)]
struct Results {
    /// Folder to write to
    #[arg(long, value_name = "OUT")]
    out: PathBuf,
    /// Scenes of the demo to explain, from the first
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole_number(1_u16..))]
    scenes: u16,
}

const LONG: &str = "\
Runs `ssmprobe inspect` and `ssmprobe figures` on the demo and prints the command lines it runs.

  OUT/<backbone>/summary.csv, OUT/<backbone>/<scene>/<head>.npz, .json, .trace.json
  OUT/<backbone>/<scene>-compare.svg    mean, raster S4 and Sinkhorn S4 side by side
  OUT/<backbone>/<scene>-sinkhorn-<figure>.svg   every figure of the Sinkhorn probe, of the first scene";

impl Results {
    fn run(self) -> anyhow::Result<ExitCode> {
        let demo = demo::demo()?;
        let about = DemoInfo::open(&demo)?;
        let mut images = about.images(&demo);
        images.truncate(usize::from(self.scenes));
        images.first().with_context(|| format!("{} has no scenes", demo.display()))?;
        for backbone in &about.backbones {
            self.write(&demo, backbone, &images)?;
            if interrupt::flow().is_break() {
                return Ok(interrupt::code());
            }
        }
        say!("the results of the demo are in {}", self.out.display());
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, demo: &Path, backbone: &DemoBackbone, images: &[PathBuf]) -> anyhow::Result<()> {
        let out = self.out.join(&backbone.id);
        let mut inspect = words(&["inspect", "--device", "cpu", "--save-traces", "--backbone"]);
        inspect.push(text(&backbone.folder(demo)));
        inspect.extend(["--probe".into(), text(&backbone.probes(demo)), "--image".into()]);
        inspect.extend(images.iter().map(|image| text(image)));
        inspect.extend(["--out".into(), text(&out)]);
        run(&inspect)?;
        if interrupt::flow().is_break() {
            return Ok(()); // traces that the figures need may be missing
        }

        for (number, image) in images.iter().enumerate() {
            let stem = file_stem(image);
            let trace = |head: &str| text(&out.join(&stem).join(format!("{head}.trace.json")));
            let mut compare = words(&["figures", "--width", "174"]);
            for head in COMPARED {
                compare.extend(["--trace".into(), trace(head)]);
            }
            for row in ROWS {
                compare.extend(words(&["--figure", row.id()]));
            }
            compare.extend(["--out".into(), text(&out.join(format!("{stem}-compare.svg")))]);
            run(&compare)?;
            if number == 0 {
                let mut all = words(&["figures", "--figure", "all", "--trace"]);
                let file = out.join(format!("{stem}-sinkhorn.svg"));
                all.extend([trace("sinkhorn"), "--out".into(), text(&file)]);
                run(&all)?;
            }
        }
        Ok(())
    }
}

/// Prints a command line and executes it.
fn run(words: &[String]) -> anyhow::Result<()> {
    say!("ssmprobe {}", words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" "));
    cli::run([&["ssmprobe".to_owned()], words].concat()).map(drop)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
