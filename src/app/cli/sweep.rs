//! `ssmprobe sweep`: trains one head with every combination of some settings, in one run that reads the tokens once.

use super::on_flags::OnFlags;
use super::train::{TrainArgs, repeatable};
use crate::app::cli::prelude::*;
use crate::app::jobs::detached::SWEEP;
use crate::app::jobs::train::heads;
use crate::app::jobs::train::sweep::{Axis, variants};
use crate::model::train::run::Variant;

/// Train one head over a grid of settings, all points together in one run.
#[derive(Args)]
#[command(mut_arg("backbone", repeatable))]
#[command(after_long_help = format!("{}\n{LONG}", heads::listed()))]
pub struct Sweep {
    /// The grid: fields of the head's settings and their values.
    #[arg(long, value_name = "FIELD=VALUE,...", num_args = 1.., required_unless_present = "resume", value_parser = Axis::parse)]
    grid: Vec<Axis>,
    /// The head whose settings vary [default: sinkhorn].
    #[arg(long, value_name = "HEAD", requires = "grid")]
    head: Option<String>,
    /// Heads to train beside the grid for comparison, such as `gap,cls`.
    #[arg(long, value_name = "HEADS", value_delimiter = ',', requires = "grid")]
    with: Vec<String>,
    /// Settings that all points share: KEY=VALUE, or HEAD.KEY=VALUE for one head.
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., requires = "grid")]
    config: Vec<String>,
    #[command(flatten)]
    training: TrainArgs,
    #[command(flatten)]
    on: OnFlags,
}

const LONG: &str = "The paper's sweeps:
  --grid temperature=0.1,0.2,0.5,1.0 iterations=1,5,10,20
  --grid state_dim=1,2,4,8,16,32,64,128,256 --with gap,cls
Every point is a head of the run, called HEAD[FIELD=VALUE,...]; `ssmprobe report RUN` makes the
table. It is resumed like any other run: --resume --out RUN. --on PLACE and exit codes are as in
`ssmprobe train`.";

impl Sweep {
    /// Trains the head at every point of the grid.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let words = self.words();
        match self.on.host() {
            Some(host) => self.training.run_on(host, words),
            None => {
                let heads = if self.grid.is_empty() { None } else { Some(self.heads()?) };
                self.training.run(heads, words)
            }
        }
    }

    /// The verb and its flags for heads, as words of a command line.
    fn words(&self) -> Vec<String> {
        let grid = self.grid.iter().map(|axis| format!("--grid={axis}"));
        let head = self.head.iter().map(|head| format!("--head={head}"));
        let with = self.with.iter().map(|with| format!("--with={with}"));
        let config = self.config.iter().map(|config| format!("--config={config}"));
        [SWEEP.to_owned()].into_iter().chain(grid).chain(head).chain(with).chain(config).collect()
    }

    /// The heads of `--with`, then a variant of `--head` for each point of the grid.
    fn heads(&self) -> anyhow::Result<Vec<Variant>> {
        let head = self.head.as_deref().unwrap_or("sinkhorn");
        let listed: Vec<String> = self.with.iter().cloned().chain([head.to_owned()]).collect();
        let mut beside = heads::variants(&listed, &self.config)?;
        let Some(base) = beside.iter().position(|variant| variant.name == head) else {
            refuse!("--head {head}: expected one head");
        };
        let points = variants(head, &self.grid, &beside[base].config)?;
        // `paper` and `all` stand for it, too.
        if !heads::variants(&self.with, &[])?.iter().any(|variant| variant.name == head) {
            beside.remove(base);
        }
        beside.extend(points);
        Ok(beside)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::app::cli::{Cli, Verb};

    #[test]
    fn the_head_of_a_sweep_stays_the_same_as_words() {
        let sweep = |words: &[&str]| {
            let place = ["--backbone=b", "--data=d", "--out=run"];
            let words = [&["ssmprobe", SWEEP][..], words, &place].concat();
            match Cli::try_parse_from(words).map_err(|error| error.to_string()).unwrap().verb {
                Some(Verb::Sweep(sweep)) => sweep,
                _ => panic!("another verb"),
            }
        };
        let typed =
            sweep(&["--head=softsort", "--grid=temperature=0.1,1.0", "--with=gap", "--config=state_dim=4"]);
        let heads = typed.heads().unwrap();
        let names: Vec<&str> = heads.iter().map(|head| head.name.as_str()).collect();
        assert_eq!(names, ["gap", "softsort[temperature=0.1]", "softsort[temperature=1.0]"]);
        let words = typed.words();
        let again: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        assert_eq!(sweep(&again).heads().unwrap(), heads);
        for with in ["--with=softsort", "--with=gap, softsort", "--with=paper"] {
            let heads = sweep(&["--head=softsort", "--grid=temperature=0.1,1.0", with]).heads().unwrap();
            assert!(heads.iter().any(|variant| variant.name == "softsort"), "{with}");
        }
    }
}
