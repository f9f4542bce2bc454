//! The tensors of a checkpoint beside those of its encoder: what is left out, and what is an error.

use std::collections::{BTreeMap, HashSet};

use super::OriginalError;
use super::layout::Target;
use super::shapes::Encoder;

/// Prefixes of a model's names from wrappers: `DataParallel`, training classes, `torch.compile`.
const WRAPPERS: &[&str] = &["module.", "model.", "_orig_mod.", "teacher.", "backbone.", "base_encoder."];

impl Encoder<'_> {
    /// A line that lists what is left out, if anything; an error with all differences from what `targets` need.
    pub fn check(&self, targets: &[Target]) -> Result<Option<String>, OriginalError> {
        let mut needed: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (name, shape) in targets.iter().filter_map(Target::needs) {
            needed.insert(format!("{}{name}", self.prefix), shape);
        }
        let needed: Vec<_> = needed.into_iter().collect();
        let keys = self.weights.key_errors(&needed, &|name| self.left_out(name).is_some());
        if !keys.is_empty() {
            return Err(OriginalError::Keys { path: self.path.to_owned(), project: self.project.name, keys });
        }
        let used: HashSet<&str> = needed.iter().map(|(name, _)| name.as_str()).collect();
        let mut out: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, _) in self.weights.names().filter(|(name, _)| !used.contains(name)) {
            *out.entry(self.left_out(name).unwrap_or("integers, not weights")).or_default() += 1;
        }
        let part = |(start, count): (&str, usize)| match start.is_empty() || start.ends_with(['.', '_']) {
            true => format!("{count} of {start}*"),
            false => format!("{count} of {start}"),
        };
        let parts: Vec<String> = out.into_iter().map(part).collect();
        Ok((!parts.is_empty()).then(|| format!("left out: {}", parts.join(", "))))
    }

    /// The entry of the project's [`left_out`](super::project::Project::left_out) that matches a name, or the prefix of another encoder.
    fn left_out(&self, name: &str) -> Option<&str> {
        let own = name.strip_prefix(self.prefix);
        let mut rest = own.unwrap_or(name);
        loop {
            let is_of = |start: &&&str| match start.starts_with('.') {
                true => rest.contains(**start),
                false => rest.starts_with(**start),
            };
            if let Some(start) = self.project.left_out.iter().find(is_of) {
                return Some(start);
            }
            match WRAPPERS.iter().find_map(|wrapper| rest.strip_prefix(wrapper)) {
                Some(within) => rest = within,
                None => break,
            }
        }
        // The encoder that is read may be within another one's prefix.
        let holds = |other: &&String| {
            name.starts_with(other.as_str()) && (own.is_none() || !self.prefix.starts_with(other.as_str()))
        };
        self.others.iter().find(holds).map(String::as_str)
    }
}
