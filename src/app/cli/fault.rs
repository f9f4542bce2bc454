//! How a verb fails, as a person reads it: `error: ...`, then one line for each cause.

use std::process::ExitCode;

/// A command line that cannot be carried out as it stands: exit code 2, as clap's own errors.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Prints the chain of an error to standard error; returns the exit code it means.
pub fn report(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {}", lines(error).join("\n  because: "));
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

/// The messages of a chain from the outside in, without causes that a message before tells already.
pub fn lines(error: &anyhow::Error) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !lines.iter().any(|line| line.contains(&cause)) {
            lines.push(cause);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    #[test]
    fn causes_are_told_once() {
        let inner: anyhow::Result<()> = Err(anyhow::anyhow!("no such file"));
        let error = inner.context("a.png: cannot be read: no such file").context("image 3").unwrap_err();
        assert_eq!(super::lines(&error), ["image 3", "a.png: cannot be read: no such file"]);
    }
}
