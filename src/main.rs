//! Parses the command line, runs it, prints the error chain, sets the exit code.

fn main() -> std::process::ExitCode {
    ssmprobe::app::cli::main()
}
