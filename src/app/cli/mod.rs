//! The command line: each verb (subcommand) has a file here and a line in `verbs!`.
//!
//! A verb is a `clap::Args` struct with a method `run`. Standard output gets the results, standard error the rest.

mod cache;
mod dataset;
mod demo;
mod devices;
mod doctor;
mod eval;
mod extract;
mod fetch;
mod figures;
mod import;
mod inspect;
mod jobs;
mod on_flags;
mod open;
mod pretrain;
mod push;
mod remote;
mod report;
mod scenes;
mod serve;
mod similar;
mod sweep;
mod train;
mod train_remote;

use std::ffi::OsString;
use std::io::{IsTerminal, stderr};

use clap::{ColorChoice, Command, CommandFactory, Parser, Subcommand};
use serde::Serialize;

use self::prelude::*;
use crate::app::crash;
use crate::app::devtools;
use crate::app::paths;
use crate::app::process_memory;
use crate::app::terminal::error;
use crate::app::window::native;
use crate::model::device;

/// What most verbs import.
mod prelude {
    pub(super) use std::path::{Path, PathBuf};
    pub(super) use std::process::ExitCode;

    pub(super) use anyhow::{Context as _, bail};
    pub(super) use clap::Args;
    pub(super) use serde_json::{Value, json};

    pub(super) use crate::app::format::{counted, shell_path, shell_word};
    pub(super) use crate::app::jobs::user_error::{Usage, refuse};
    pub(super) use crate::app::terminal::interrupt;
    pub(super) use crate::app::terminal::progress::Display;
    pub(super) use crate::app::terminal::reporter::TerminalReporter;
    pub(super) use crate::app::terminal::stdout::{self, say};
}

/// Interactive diagnostics for order-sensitive probes on frozen vision backbones.
///
/// Without a command, opens the window: first on the bundled demo, later where you left off. Without a display,
/// writes the demo's results to `demo-results`.
#[derive(Parser)]
#[command(version, about, after_help = "See `ssmprobe help COMMAND` for more information on a command.")]
#[command(mut_subcommands(with_negative_numbers), color = colors())]
pub(super) struct Cli {
    /// Treat the end of standard input as Ctrl-C: the caller, such as the Python package, is gone.
    #[arg(long, hide = true)]
    ends_with_input: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// Generates the enum of verbs, each with how it is run, from one list.
macro_rules! verbs {
    ($($name:ident($verb:ty),)*) => {
        /// What the program can be asked to do, in the order of a day's work.
        #[derive(Subcommand)]
        enum Verb { $($name($verb)),* }

        impl Verb {
            /// Runs the verb: `Ok` with its exit code if it ran to its end, `Err` if it failed.
            fn run(self) -> anyhow::Result<ExitCode> {
                match self { $(Self::$name(verb) => verb.run()),* }
            }
        }
    };
}

verbs! {
    Open(open::Open),
    Inspect(Box<inspect::Inspect>),
    Figures(Box<figures::Figures>),
    Dataset(dataset::DatasetVerb),
    Import(import::Import),
    Pretrain(Box<pretrain::Pretrain>),
    Extract(Box<extract::Extract>),
    Train(Box<train::Train>),
    Eval(Box<eval::Eval>),
    Sweep(Box<sweep::Sweep>),
    Jobs(jobs::Jobs),
    Report(report::Report),
    Push(push::Push),
    Similar(similar::Similar),
    Scenes(scenes::Scenes),
    Demo(demo::Demo),
    Cache(cache::Cache),
    Devices(devices::Devices),
    Doctor(doctor::Doctor),
    Serve(serve::Serve),
    Remote(remote::RemoteVerb),
    Bench(Box<devtools::Bench>),
}

impl Cli {
    /// Runs the verb. Without one, opens the window, or writes the demo's results where there is no display.
    pub(in crate::app) fn run(self) -> anyhow::Result<ExitCode> {
        match self.verb {
            Some(verb) => verb.run(),
            None if native::has_display() => open::Open::default().run(),
            None => {
                say!(
                    "no display found: writing the results of the bundled demo to demo-results; `ssmprobe demo results --out DIR` writes them \
                     elsewhere"
                );
                run(["ssmprobe", "demo", "results", "--out", "demo-results"])
            }
        }
    }
}

/// A document of `--json`: the name of the event, then the fields of `document`.
fn event(name: &str, document: impl Serialize) -> Value {
    let mut all = json!({"event": name});
    if let (Value::Object(all), Ok(Value::Object(own))) = (&mut all, serde_json::to_value(document)) {
        all.extend(own);
    }
    all
}

/// None where standard error is no terminal, also where `CLICOLOR_FORCE` asks for them: the window and the Python package read errors.
fn colors() -> ColorChoice {
    if stderr().is_terminal() { ColorChoice::Auto } else { ColorChoice::Never }
}

/// Lets a flag take a value such as `-1`, so that its value parser says what is expected; clap alone takes it for a flag.
fn with_negative_numbers(command: Command) -> Command {
    let command = command.mut_args(|arg| match arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
    command.mut_subcommands(with_negative_numbers)
}

/// The program's [`clap::Command`], for man pages and completions (`examples/manual.rs`).
pub fn command() -> Command {
    Cli::command()
}

/// Runs a command line in this process; the first of the `arguments` is the program's name.
///
/// # Errors
/// If the command line is not valid, or the verb fails.
pub fn run<T: Into<OsString> + Clone>(arguments: impl IntoIterator<Item = T>) -> anyhow::Result<ExitCode> {
    Cli::try_parse_from(arguments)?.run()
}

/// Starts the threads that compute, unless the verb computes nothing: later it would be a panic where a limit on a user's threads
/// does not allow as many.
fn start_threads(verb: Option<&Verb>) -> anyhow::Result<()> {
    if let Some(Verb::Jobs(_) | Verb::Cache(_) | Verb::Doctor(_) | Verb::Remote(_) | Verb::Push(_)) = verb {
        return Ok(());
    }
    rayon::ThreadPoolBuilder::new().build_global().context(
        "the threads that compute cannot be started, one for every core; set RAYON_NUM_THREADS to a lower number, or end other \
         programs (`ulimit -u` shows how many threads a user may have)",
    )
}

/// Runs the program and returns its exit code: 0 done, 1 failed, 2 wrong usage.
pub fn main() -> ExitCode {
    // SAFETY: nothing has started a thread yet.
    #[expect(unsafe_code, reason = "the first thing the program does")]
    unsafe {
        device::silence_drivers();
    }
    process_memory::keep_freed_memory();
    device::keep_kernels(paths::kernels().as_deref());
    crash::install(crash::folder());
    let parsed = Cli::parse();
    let ready = interrupt::install().and_then(|()| match parsed.ends_with_input {
        true => interrupt::at_end_of_input(),
        false => Ok(()),
    });
    match ready.and_then(|()| start_threads(parsed.verb.as_ref())).and_then(|()| parsed.run()) {
        Ok(code) => code,
        Err(error) => error::report(&error),
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::{command, run};
    use crate::app::jobs::extract::TokenSettings;
    use crate::app::jobs::pretrain::PretrainSettings;
    use crate::app::jobs::train::TrainSettings;
    use crate::model::train::TrainConfig;

    /// clap breaks lines at 100 columns: a paragraph that is broken by hand at more is broken twice.
    #[test]
    fn lines_of_help_are_broken_by_hand_or_by_clap() {
        for verb in command().get_subcommands() {
            let text = verb.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let is_item = |line: &str| line.starts_with("  ") && !line.starts_with("   ");
            let is_long = |line: &str| line.chars().count() > 98;
            for pair in lines.windows(2).filter(|pair| !pair.contains(&"") && !is_item(pair[1])) {
                assert!(!pair.iter().any(|line| is_long(line)), "{}: {pair:?}", verb.get_name());
            }
        }
    }

    /// The parsers of Rust's own types say "invalid digit found in string", and no bounds.
    #[test]
    fn flags_of_numbers_say_what_they_expect() {
        fn check(verb: &Command, words: &[String]) {
            let flags = verb.get_arguments().filter(|arg| arg.get_action().takes_values());
            for flag in flags.filter_map(|arg| arg.get_long()) {
                let line = [words, &[format!("--{flag}=x")]].concat();
                let error =
                    command().try_get_matches_from(&line).err().map_or_else(String::new, |e| e.to_string());
                assert!(
                    !error.contains("invalid digit") && !error.contains("invalid float"),
                    "{line:?}: {error}"
                );
            }
            for verb in verb.get_subcommands() {
                check(verb, &[words, &[verb.get_name().to_owned()]].concat());
            }
        }
        check(&command(), &["ssmprobe".to_owned()]);
    }

    #[test]
    fn defaults_in_the_help_are_those_of_the_settings() {
        let train = TrainSettings { epochs: TrainConfig::default().epochs, ..TrainSettings::default() };
        let (program, mut compared) = (command(), 0);
        for (verb, settings) in [
            ("train", serde_json::to_value(train)),
            ("pretrain", serde_json::to_value(PretrainSettings::default())),
            ("extract", serde_json::to_value(TokenSettings::default())),
        ] {
            let settings = settings.unwrap();
            for flag in program.find_subcommand(verb).unwrap().get_arguments() {
                let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
                let told = help.split_once("[default: ").map(|(_, told)| told.trim_end_matches(']'));
                let known = settings.get(flag.get_id().as_str()).filter(|value| !value.is_null());
                let (Some(told), Some(known)) = (told, known) else { continue };
                let told = told.split(", ").next().unwrap_or_default();
                let is_it = match known.as_f64() {
                    Some(number) => told.parse() == Ok(number),
                    None => known.as_str().is_some_and(|word| word.eq_ignore_ascii_case(told)),
                };
                assert!(is_it, "{verb} {}: {known}, not {told}", flag.get_id());
                compared += 1;
            }
        }
        assert!(compared > 15, "{compared}");
    }

    #[test]
    fn a_flag_needs_another_one_whatever_conflicts_with_that() {
        for (line, needed) in [
            ("train --resume --out RUN --time 5", "--submit"),
            ("sweep --resume --out RUN --tasks 2", "--submit"),
            ("report RUN --out DIR --image x", "--html"),
            ("report RUN --format md --title x", "--html"),
            ("eval --probe x --last", "--run"),
            ("eval --split val --last", "--run"),
            ("open --demo --remote-program x", "--on"),
        ] {
            let words = ["ssmprobe"].into_iter().chain(line.split(' '));
            let error = command().try_get_matches_from(words).expect_err(line).to_string();
            assert!(error.contains("required") && error.contains(needed), "{line}: {error}");
        }
    }

    #[test]
    fn a_value_that_is_refused_is_named_with_what_is_expected() {
        for (line, flag, expected) in [
            ("inspect --rho -0.1", "--rho", "a number from 0 to 1"),
            ("inspect --layer -1", "--layer", "the number of a layer, from 0, or last"),
            ("inspect --size -5", "--size", "from 1 to 8192"),
            ("inspect --seed -1", "--seed", "a whole number from 0"),
            ("inspect --reading temperature=1e30", "--reading", "temperature=T (1e-4 to 1e4)"),
            ("eval --seed x", "--seed", "a whole number from 0"),
            ("eval --reading iterations=100000000", "--reading", "iterations=K (1 to 10000)"),
            ("train --rate -1", "--rate", "a number above 0"),
            ("train --epochs 0", "--epochs", "a whole number from 1 to 1000000"),
            ("train --batch 65536", "--batch", "a whole number from 1 to 65535"),
            ("train --select-split 1", "--select-split", "a number between 0 and 1"),
            ("train --arithmetic int8", "--arithmetic", "float32, float16 or bfloat16"),
            ("train --mae-order sorted", "--mae-order", "kept, shuffled, shuffled:SEED or redrawn"),
            ("train --data birds", "--backbone", "required"),
            ("train --cache-limit -1", "--cache-limit", "a number above 0"),
            ("train --first-seed -1", "--first-seed", "a whole number from 0 to 1099511627776"),
            ("pretrain --seed -1", "--seed", "a whole number from 0 to 1099511627776"),
            ("report --equivalence -1", "--equivalence", "above 0 and at most 100"),
            ("import --heads -1", "--heads", "a whole number from 1"),
            ("similar --count -1", "--count", "a whole number from 1"),
            ("scenes --train -1", "--train", "a whole number from 0 to 100000"),
            ("figures --step -1", "--step", "a whole number from 0"),
            ("figures --opacity -1", "--opacity", "a number from 0 to 1"),
            ("figures --map grey", "--map", "possible values: cividis, viridis"),
            ("similar --vectors x", "--vectors", "one of routing, evidence, weight"),
            ("figures --scan raster --out none.svg --width -3", "--width", "a number from 20 to 2000 mm"),
            ("figures --dpi x", "--dpi", "a number from 10 to 2400 dots per inch"),
            ("demo build --layers -1", "--layers", "a whole number from 1 to 64"),
            ("train --cpus x", "--cpus", "a whole number from 1"),
            (
                "pretrain --data x --out y --objective supervised --mask-ratio 0.5",
                "--mask-ratio",
                "leave it out",
            ),
            ("open --device foo", "--device", "auto, cpu, wgpu, wgpu:<index or name>, cuda or cuda:<index>"),
            ("train --time foo", "--time", "minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"),
        ] {
            let words = ["ssmprobe"].into_iter().chain(line.split(' '));
            let error = run(words).expect_err(line).to_string();
            assert!(error.contains(flag) && error.contains(expected), "{line}: {error}");
        }
    }
}
