//! The model card of uploaded probes: README.md with YAML front matter for the Hub. It holds no path of this machine.

use crate::app::format::shell_word;
use crate::app::jobs::train::TrainSettings;
use crate::app::report::{FORMATS, Source, TABLES};
use crate::model::backbone::hub::{Upload, is_id};
use crate::model::io::escape::{shown, shown_line};
use crate::model::train::run::{ProbeCheckpoint, Variant};

/// File name of the card's figure.
pub(super) const FIGURE: &str = "training.png";
/// Ids of the report's tables on the card.
const TABLE_IDS: [&str; 5] = ["main", "rates", "grid", "state-size", "sweep"];
/// The most classes that the card names.
const MAX_CLASSES: usize = 12;

/// The contents of a card.
pub(super) struct Card<'a> {
    /// The run, reduced to the uploaded heads.
    pub(super) source: &'a Source,
    /// The repository's id, ORGANISATION/NAME.
    pub(super) id: &'a str,
    /// The Hub's id of the licence.
    pub(super) licence: &'a str,
    /// Whether the probes are of the best or the last epoch.
    pub(super) which: ProbeCheckpoint,
    /// The files of the probes; not empty.
    pub(super) probes: &'a [Upload],
    /// The author's notes, in Markdown.
    pub(super) notes: Option<String>,
}

impl Card<'_> {
    pub(super) fn text(&self) -> String {
        let Self { source, id, licence, .. } = self;
        let manifest = &source.run.manifest;
        let (dataset, backbone) = (&manifest.dataset, escaped(&manifest.backbone.id));
        let name = id.rsplit('/').next().unwrap_or(id);
        let first = dataset.classes.iter().take(MAX_CLASSES);
        let named = first.map(|class| escaped(class)).collect::<Vec<_>>().join(", ");
        let more = if dataset.classes.len() > MAX_CLASSES { ", …" } else { "" };
        let notes = self.notes.as_ref().map_or(String::new(), |notes| format!("{}\n\n", notes.trim()));
        let which = match self.which {
            ProbeCheckpoint::Best => "of their best epoch",
            ProbeCheckpoint::Last => "after the last epoch",
        };
        let mut text = format!(
            "{}# {name}\n\n{notes}Probes on the frozen patch tokens of {backbone}, made by SSMProbe. \
             Task: classify the {} classes of {} ({named}{more}). These are the probes {which}, one file for each head and seed.\n\n",
            self.front_matter(),
            dataset.classes.len(),
            escaped(&dataset.name),
        );
        text += "## Accuracy and protocol\n\n";
        let one = std::slice::from_ref(*source);
        for table in
            TABLES.iter().filter(|kind| TABLE_IDS.contains(&kind.id)).flat_map(|kind| kind.tables(one))
        {
            text += &(FORMATS[0].render)(&table);
            text += "\n";
        }
        let tokens = &manifest.tokens;
        let size = manifest.size.map_or(String::new(), |size| format!(", images of {size} px"));
        text += &format!(
            "Tokens: layer {}, {}{size}, a grid of {} x {}; SHA-256 of the backbone's weights {}. Trained by {} on {}.\n\n\
             ![Loss and accuracy by epoch]({FIGURE})\n\n",
            escaped(&manifest.layers().join(", ")),
            format!("{:?}", tokens.precision).to_lowercase(),
            manifest.grid.rows,
            manifest.grid.cols,
            escaped(&tokens.weights),
            escaped(&manifest.program),
            escaped(&manifest.device),
        );
        text += &format!("## Use\n\n```sh\n{}```\n\n", self.commands());
        text + &format!("## Licence\n\n{licence}, for the probes; the backbone has its own.\n")
    }

    /// The YAML front matter: licence, base model and tags.
    fn front_matter(&self) -> String {
        let manifest = &self.source.run.manifest;
        let mut tags = vec!["ssmprobe".to_owned(), "frozen-backbone".to_owned()];
        for Variant { head, .. } in &manifest.heads {
            if !tags.contains(head) {
                tags.push(head.clone());
            }
        }
        let quoted = |text: &str| serde_json::Value::from(text).to_string(); // JSON is YAML
        let base = self.base_model().map_or(String::new(), |base| format!("base_model: {}\n", quoted(base)));
        let tags: String = tags.iter().map(|tag| format!("- {}\n", quoted(tag))).collect();
        format!(
            "---\nlicense: {}\nlibrary_name: ssmprobe\npipeline_tag: image-classification\n{base}tags:\n{tags}---\n\n",
            self.licence
        )
    }

    /// The backbone's id if it came from the Hub; the id of a folder has no `/`.
    fn base_model(&self) -> Option<&str> {
        Some(&*self.source.run.manifest.backbone.id).filter(|id| is_id(id))
    }

    /// The commands that use the probes, and the one that trains them again.
    fn commands(&self) -> String {
        let manifest = &self.source.run.manifest;
        let backbone = shell_word(&manifest.backbone.id);
        let probe = shell_word(&format!("hf:{}/{}", self.id, self.probes[0].path));
        let dataset = shell_word(&manifest.dataset.name);
        let mut commands = vec![
            format!("ssmprobe inspect --backbone {backbone} --probe {probe} --image photo.jpg --out seen"),
            format!("ssmprobe eval --backbone {backbone} --probe {probe} --data {dataset}"),
        ];
        let plain = manifest.heads.iter().all(|variant| variant.name == variant.head);
        if let Some(settings) = TrainSettings::of_run(&self.source.run).ok().filter(|_| plain) {
            let heads: Vec<String> = manifest.heads.iter().map(|variant| variant.name.clone()).collect();
            let fields = manifest.heads.iter().flat_map(|variant| {
                let fields = variant.config.fields().into_iter();
                fields.map(move |(key, value)| format!("{}.{key}={value}", variant.name))
            });
            let mut settings = TrainSettings {
                backbone: manifest.backbone.id.clone(),
                data: Some(manifest.dataset.name.clone().into()),
                heads,
                head_settings: fields.collect::<Vec<_>>().join(" "),
                ..settings
            };
            settings.tokens.cache = None;
            let word = |word: &String| match word.split_once('=') {
                Some((flag, value)) => format!("{flag}={}", shell_word(value)),
                None => word.clone(),
            };
            let words: Vec<String> = settings.words().iter().map(word).collect();
            commands.push(format!("ssmprobe train {} --out run", words.join(" ")));
        }
        // A line break in a name could end the block that they stand in.
        commands.iter().map(|command| shown_line(command).into_owned() + "\n").collect()
    }
}

/// A name from a file, on one line and with Markdown escaped, to stand within a paragraph.
fn escaped(text: &str) -> String {
    let text = shown(&text.replace(['\n', '\r'], " ")).into_owned();
    text.chars().map(|c| if "\\`*_[]<>#|!".contains(c) { format!("\\{c}") } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn no_name_in_a_run_becomes_markup_or_ends_the_block_of_commands() {
        let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/run");
        let mut source = Source::open(&frozen).unwrap();
        let manifest = &mut source.run.manifest;
        for field in [
            &mut manifest.program,
            &mut manifest.device,
            &mut manifest.tokens.weights,
            &mut manifest.backbone.id,
            &mut manifest.dataset.name,
        ] {
            *field = "a\n```\n![x](http://x)".to_owned();
        }
        let card = Card {
            source: &source,
            id: "me/birds",
            licence: "mit",
            which: ProbeCheckpoint::Best,
            probes: &[Upload { path: "gap-s0-best.safetensors".into(), bytes: Vec::new() }],
            notes: None,
        };
        let text = card.text();
        let (before, commands) = text.split_once("## Use").unwrap();
        assert!(!before.contains("[x](") && !before.contains("\n```"), "{before}");
        assert!(commands.matches("\n```").count() == 2 && commands.contains("ssmprobe train "), "{commands}");
    }
}
