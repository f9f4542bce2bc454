//! The card of pushed probes: the README.md of their repository, with the head in YAML by which the Hub lists it. It holds no
//! path of this machine.

use crate::app::format::shell_word;
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::train::heads::has;
use crate::app::report::{FORMATS, Source, TABLES};
use crate::model::backbone::hub::{Upload, is_id};
use crate::model::io::escape::shown;
use crate::model::probe::head;
use crate::model::train::run::{ProbeCheckpoint, Variant};

/// The name of its figure.
pub(super) const FIGURE: &str = "training.png";
/// Tables of accuracies, as a report has them.
const ACCURACIES: [&str; 4] = ["main", "grid", "state-size", "sweep"];
/// Classes that are named.
const CLASSES: usize = 12;

/// What a card is made of.
pub(super) struct Card<'a> {
    /// The run, of the heads that are pushed alone.
    pub(super) source: &'a Source,
    /// The repository.
    pub(super) id: &'a str,
    /// The id of the licence.
    pub(super) licence: &'a str,
    /// Which of a training's two probes.
    pub(super) which: ProbeCheckpoint,
    /// Their files.
    pub(super) probes: &'a [Upload],
    /// What the author says.
    pub(super) notes: Option<String>,
}

impl Card<'_> {
    /// It as Markdown.
    pub(super) fn text(&self) -> String {
        let Self { source, id, licence, .. } = self;
        let manifest = &source.run.manifest;
        let (dataset, backbone) = (&manifest.dataset, shown_as_text(&manifest.backbone.id));
        let name = id.rsplit('/').next().unwrap_or(id);
        let named = dataset
            .classes
            .iter()
            .take(CLASSES)
            .map(|class| shown_as_text(class))
            .collect::<Vec<_>>()
            .join(", ");
        let more = if dataset.classes.len() > CLASSES { ", …" } else { "" };
        let notes = self.notes.as_ref().map_or(String::new(), |notes| format!("{}\n\n", notes.trim()));
        let which = match self.which {
            ProbeCheckpoint::Best => "of their best epoch",
            ProbeCheckpoint::Last => "after the last epoch",
        };
        let mut text = format!(
            "{}# {name}\n\n{notes}Probes on the frozen patch tokens of {backbone}, made by SSMProbe. \
             Task: to tell the {} classes of {} ({named}{more}). These are the probes {which}, one file for each head and seed.\n\n",
            self.head(),
            dataset.classes.len(),
            shown_as_text(&dataset.name),
        );
        text += "## Accuracy and protocol\n\n";
        let one = std::slice::from_ref(*source);
        for table in
            TABLES.iter().filter(|kind| ACCURACIES.contains(&kind.id)).flat_map(|kind| kind.tables(one))
        {
            text += &(FORMATS[0].render)(&table);
            text += "\n";
        }
        let tokens = &manifest.tokens;
        let size = manifest.size.map_or(String::new(), |size| format!(", images of {size} px"));
        text += &format!(
            "Tokens: layer {}, {}{size}, a grid of {} x {}; SHA-256 of the backbone's weights {}. Trained by {} on {}.\n\n\
             ![Loss and accuracy by epoch]({FIGURE})\n\n",
            tokens.layer,
            format!("{:?}", tokens.precision).to_lowercase(),
            manifest.grid.rows,
            manifest.grid.cols,
            tokens.weights,
            manifest.program,
            shown_as_text(&manifest.device),
        );
        text += &format!("## Use\n\n```sh\n{}```\n\n", self.commands());
        text + &format!("## Licence\n\n{licence}, of the probes; the backbone has its own.\n")
    }

    /// What the Hub lists it by.
    fn head(&self) -> String {
        let manifest = &self.source.run.manifest;
        let mut tags = vec!["ssmprobe".to_owned(), "frozen-backbone".to_owned()];
        for Variant { head, .. } in &manifest.heads {
            if !tags.contains(head) {
                tags.push(head.clone());
            }
        }
        let quoted = |text: &str| serde_json::Value::from(text).to_string(); // JSON is YAML
        let base = self.base().map_or(String::new(), |base| format!("base_model: {}\n", quoted(base)));
        let tags: String = tags.iter().map(|tag| format!("- {}\n", quoted(tag))).collect();
        format!(
            "---\nlicense: {}\nlibrary_name: ssmprobe\npipeline_tag: image-classification\n{base}tags:\n{tags}---\n\n",
            self.licence
        )
    }

    /// The backbone's id on the Hub, where it came from there: a folder's name is one word.
    fn base(&self) -> Option<&str> {
        Some(&*self.source.run.manifest.backbone.id).filter(|id| is_id(id))
    }

    /// How to look through them, and how they were trained.
    fn commands(&self) -> String {
        let manifest = &self.source.run.manifest;
        let backbone = shell_word(&manifest.backbone.id);
        let probe = shell_word(&format!("hf:{}/{}", self.id, self.probes[0].path));
        let dataset = shell_word(&manifest.dataset.name);
        let mut text = format!(
            "ssmprobe inspect --backbone {backbone} --probe {probe} --image photo.jpg --out seen\n\
             ssmprobe eval --backbone {backbone} --probe {probe} --data {dataset}\n"
        );
        let plain = manifest.heads.iter().all(|variant| variant.name == variant.head);
        if let Some(settings) = TrainSettings::of_run(&self.source.run).ok().filter(|_| plain) {
            let heads: Vec<String> = manifest.heads.iter().map(|variant| variant.name.clone()).collect();
            let fields = manifest.heads.iter().flat_map(|variant| {
                let kind = head::find(&variant.head);
                let known = move |key: &str| kind.is_some_and(|kind| has(kind, key));
                let own = variant.config.fields().into_iter().filter(move |(key, _)| known(key));
                own.map(move |(key, value)| format!("{}.{key}={value}", variant.name))
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
            text += &format!("ssmprobe train {} --out run\n", words.join(" "));
        }
        text
    }
}

/// A name from a file within a paragraph: in one line, and no markup.
fn shown_as_text(text: &str) -> String {
    let text = shown(&text.replace(['\n', '\r'], " ")).into_owned();
    text.chars().map(|c| if "\\`*_[]<>#|!".contains(c) { format!("\\{c}") } else { c.to_string() }).collect()
}
