//! Writes the man pages and shell completions of `ssmprobe` to a folder, laid out as `/usr/share` is:
//! `cargo run --release --example manual FOLDER`. `scripts/package` does.

use std::path::PathBuf;

use clap_complete::Shell;

fn main() -> std::io::Result<()> {
    let share = std::env::args_os().nth(1).map(PathBuf::from);
    let share = share.ok_or_else(|| std::io::Error::other("usage: manual FOLDER"))?;
    let folder = |name: &str| {
        let folder = share.join(name);
        std::fs::create_dir_all(&folder).map(|()| folder)
    };
    let mut command = ssmprobe::app::cli::command();
    clap_mangen::generate_to(command.clone(), folder("man/man1")?)?;
    for (shell, name) in [
        (Shell::Bash, "bash-completion/completions"),
        (Shell::Zsh, "zsh/site-functions"),
        (Shell::Fish, "fish/vendor_completions.d"),
    ] {
        clap_complete::generate_to(shell, &mut command, "ssmprobe", folder(name)?)?;
    }
    Ok(())
}
