//! Hostile surroundings: variables and folders of whoever starts the program.
#![cfg(unix)]

use crate::run::{done, program, run};

/// The window and the Python package read what a refused command line says.
#[test]
fn a_refusal_in_a_pipe_has_no_colours_whatever_is_asked_for() {
    let (code, stdout, stderr) =
        run(program().args(["train", "--epochs", "many"]).env("CLICOLOR_FORCE", "1"));
    assert!(code == 2 && stderr.starts_with("error: invalid value 'many' for '--epochs <E>'"), "{stderr:?}");
    assert!(stdout.is_empty() && !stderr.contains('\u{1b}'), "{stderr:?}");
    let help = done(program().args(["train", "--help"]).env("CLICOLOR_FORCE", "1"));
    assert!(help.contains("Usage: ssmprobe train") && !help.contains('\u{1b}'), "{help:?}");
}
