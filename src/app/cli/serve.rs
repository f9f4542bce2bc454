//! `ssmprobe serve`: a worker without a window, for a program at the other end of a pipe (`inspect --on`).

use crate::app::cli::prelude::*;
use crate::app::remote::serve;

/// Compute for another machine; started by that machine (`inspect --on ssh://HOST`).
#[derive(Args)]
pub struct Serve {
    /// Read requests from standard input and write events to standard output, in a binary protocol; log to standard
    /// error.
    #[arg(long, required = true)]
    stdio: bool,
}

impl Serve {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Self { stdio: true } = self else { unreachable!("it is required") };
        serve::serve()?;
        Ok(ExitCode::SUCCESS)
    }
}
