//! Paths in the home folder of the machine that computes: no shell there replaces the `~` of a flag that was quoted at the other end, or
//! of a field of the window.

use ciborium::Value;

use crate::app::jobs::{Files, Request};
use crate::app::paths::expanded;

/// A request with this machine's home folder in place of a leading `~`, also in words of a command line (`--cache=~/tokens`). Requests
/// that nobody types, some of which are long, stay as they are.
pub(super) fn with_home(request: Request) -> Request {
    let is_typed = match &request {
        Request::Compute(_, job) => job.is_verb(),
        Request::Files(_, job) => !matches!(job, Files::Receive(_)),
        Request::Fetch(..) => true,
        _ => false,
    };
    let whole = || {
        let mut value = Value::serialized(&request).ok()?;
        expand(&mut value);
        value.deserialized().ok()
    };
    is_typed.then(whole).flatten().unwrap_or(request)
}

fn expand(value: &mut Value) {
    match value {
        Value::Text(text) => {
            let at = text.find('=').filter(|_| text.starts_with("--")).map_or(0, |at| at + 1);
            if let Some(path) = expanded(&text[at..]).to_str() {
                text.replace_range(at.., path);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(expand),
        Value::Map(entries) => entries.iter_mut().for_each(|(_, value)| expand(value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use crate::app::jobs::extract::verb::ExtractFlags;
    use crate::app::jobs::{Compute, Fetch, JobId, TrainCommand};

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        flags: ExtractFlags,
    }

    #[test]
    fn a_home_folder_is_that_of_the_machine_that_computes() {
        let home = expanded("~");
        let home = home.to_str().unwrap();
        let below = |home: &str, name: &str| Path::new(home).join(name).display().to_string();
        let extract = |home: &str, hub: &str| {
            let (data, cache) = (below(home, "images"), format!("--cache={}", below(home, "tokens")));
            let words = ["extract", "--backbone", hub, "--data", &data, &cache, "--precision=float32"];
            let flags = Flags::try_parse_from(words).unwrap().flags;
            Request::Compute(JobId(1), Compute::Extract(Box::new(flags)))
        };
        assert_eq!(with_home(extract("~", "org/a~b")), extract(home, "org/a~b"));
        let train = |home: &str| {
            let words = vec![format!("--data={}", below(home, "images")), "--heads=gap".to_owned()];
            let asked = TrainCommand { words, out: below(home, "run").into(), again: true };
            Request::Fetch(JobId(1), Fetch::Detached(asked))
        };
        assert_eq!(with_home(train("~")), train(home));
    }
}
