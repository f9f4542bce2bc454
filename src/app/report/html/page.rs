//! The HTML of a page: text and tables, and the elements that the script fills with figures.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::pictures::{Pictures, plot};
use super::{Image, Page, WIDTH_MM, escape, notes, tables};
use crate::model::data::synsets::same_class;
use crate::model::io::escape::shown;
use crate::model::trace::Trace;
use crate::viz::figures::plot::Plot;
use crate::viz::{Options, export};

const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// Renders the page; `None` if `stop`, which is called before every image, returns true.
pub fn html(page: &Page, images: &[Image<'_>], stop: &dyn Fn() -> bool) -> Option<String> {
    let mut pictures = Pictures::default();
    let mut commands = page.commands.clone();
    let mut sections = String::new();
    for (at, image) in (0..).zip(images) {
        if stop() {
            return None;
        }
        sections.push_str(&image_section(page, image, at, &mut pictures, &mut commands));
    }
    let sha256 = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let steps = page.traces().map(|trace| trace.grid.len()).max().unwrap_or(0);
    let title = escape(&page.title);
    let notes = page.notes.as_deref().map(notes::html).filter(|notes| !notes.is_empty());
    let notes =
        notes.map_or_else(String::new, |notes| format!("<section class=\"notes\">\n{notes}</section>\n"));
    let tables = if page.tables.is_empty() {
        String::new()
    } else {
        let tables: String = page.tables.iter().map(tables::html).collect();
        format!(
            "<section id=\"tables\">\n<h2>Tables</h2>\n<p class=\"small\">Click a column name to sort by it; a third click restores the original order.</p>\n{tables}</section>\n"
        )
    };
    let facts: String = page.facts.iter().map(|(name, value)| fact(name, value)).collect();
    let meanings =
        page.figures.iter().map(|figure| fact(figure.title(), &format!("{}.", figure.info().about)));
    let meanings: String = meanings.collect();
    let theme = page.theme.map_or_else(String::new, |theme| format!(" data-theme=\"{theme}\""));
    Some(format!(
        "<!DOCTYPE html>\n<html lang=\"en\"{theme}>\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"{program}\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#images\">Skip to the images</a>\n\
         <header>\n<div><h1>{title}</h1>\n<p class=\"small\">{program}</p></div>\n<div class=\"tools\">\
         <button type=\"button\" id=\"theme\" title=\"Light or dark (t)\">Dark</button>\
         <button type=\"button\" id=\"print\">Print…</button></div>\n</header>\n\
         <noscript><p class=\"notes\">The figures need the script of this page, which this browser does not run. Tables and notes are complete.</p></noscript>\n\
         <p id=\"failed\" class=\"notes\" role=\"alert\" hidden></p>\n\
         {notes}{nav}<main id=\"images\">\n{sections}</main>\n{bar}{tables}\
         <section id=\"about\">\n<h2>How to read it</h2>\n<dl class=\"facts\">\n{meanings}</dl>\n\
         <h2>How it was made</h2>\n<dl class=\"facts\">\n{facts}</dl>\n<pre tabindex=\"0\">{commands}</pre>\n</section>\n\
         <script type=\"application/octet-stream\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        sha256(STYLE),
        sha256(SCRIPT),
        program = export::MADE_BY,
        nav = nav(images),
        bar = bar(steps),
        commands = escape(&commands.join("\n")),
        data = pictures.encoded(),
    ))
}

/// Links to the images, if there are several.
fn nav(images: &[Image<'_>]) -> String {
    if images.len() < 2 {
        return String::new();
    }
    let links = images.iter().enumerate().map(|(at, image)| {
        let probes = image.probes.iter();
        let known: Vec<bool> =
            probes.filter_map(|(_, traces)| is_correct(image, first_trace(traces))).collect();
        let right = known.iter().filter(|right| **right).count();
        let score = match known.len() {
            0 => String::new(),
            known => format!(" <small>{right} of {known} right</small>"),
        };
        format!("<li><a href=\"#image-{at}\">{}</a>{score}</li>\n", escape(file_name(image.name)))
    });
    format!("<nav aria-label=\"Images\"><ol>\n{}</ol></nav>\n", links.collect::<String>())
}

/// The controls that play the reading order step by step, up to `steps` tokens.
fn bar(steps: usize) -> String {
    format!(
        "<div id=\"bar\" role=\"group\" aria-label=\"Reading order\">\n\
         <button type=\"button\" id=\"play\" title=\"Play the reading order (p)\">Play</button>\n\
         <label for=\"step\">Tokens read</label>\n\
         <input type=\"range\" id=\"step\" min=\"0\" max=\"{steps}\" value=\"0\" title=\"Step back and forward: , and .\">\n\
         <output id=\"read\" for=\"step\">0 of {steps}</output>\n\
         <button type=\"button\" id=\"release\" title=\"Release the held token (Escape)\" disabled>Release</button>\n\
         <details id=\"keys\"><summary>Keys</summary><p>Point at a token to see it in all figures of its image; click to hold it. \
         Tab to a figure, then arrow keys move, Enter holds, Escape releases. , and . step back and forward, p plays, j and k go to the next and previous image, t switches between light and dark.</p></details>\n</div>\n"
    )
}

fn fact(name: &str, value: &str) -> String {
    format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
}

/// The section of an image, with a column for each probe. Adds its figures to `pictures` and their commands to `commands`.
fn image_section(
    page: &Page,
    image: &Image<'_>,
    at: usize,
    pictures: &mut Pictures,
    commands: &mut Vec<String>,
) -> String {
    let truth = image.truth.first().map(|known| known.name.as_str());
    let option = |(value, class): (usize, &Option<String>)| {
        let name = class.as_deref().unwrap_or("the class that each probe predicts");
        let is_true = class.as_deref().zip(truth).is_some_and(|(class, truth)| same_class(class, truth));
        let mark = if is_true { " (true)" } else { "" };
        format!("<option value=\"{value}\">{}{mark}</option>", escape(name))
    };
    let options: String = image.classes.iter().enumerate().map(option).collect();
    let truth = truth.map_or_else(String::new, |truth| format!(" <small>is {}</small>", escape(truth)));
    let note = image.note.map(notes::html).filter(|note| !note.is_empty());
    let note = note.map_or_else(String::new, |note| format!("<div class=\"notes\">\n{note}</div>\n"));
    let columns: String = (0..image.probes.len())
        .map(|column| probe_article(page, image, column, pictures, commands))
        .collect();
    format!(
        "<section class=\"image\" id=\"image-{at}\" tabindex=\"-1\" aria-labelledby=\"name-{at}\">\n\
         <div class=\"head\"><h2 id=\"name-{at}\">{}{truth}</h2>\n\
         <label>Evidence for <select{}>{options}</select></label></div>\n{note}\
         <div class=\"probes\">\n{columns}</div>\n</section>\n",
        escape(file_name(image.name)),
        if image.classes.len() < 2 { " disabled" } else { "" },
    )
}

/// The column of one probe: its prediction and its figures, each for every class. See [`image_section`].
fn probe_article(
    page: &Page,
    image: &Image<'_>,
    column: usize,
    pictures: &mut Pictures,
    commands: &mut Vec<String>,
) -> String {
    let (name, traces) = &image.probes[column];
    let trace_indices: Vec<String> = traces
        .iter()
        .map(|trace| trace.map_or_else(String::new, |trace| pictures.trace(trace).to_string()))
        .collect();
    let answer = first_trace(traces).top.first().map_or_else(String::new, |best| {
        let verdict = match is_correct(image, first_trace(traces)) {
            Some(true) => "<b class=\"right\">✓ right</b> ",
            Some(false) => "<b class=\"wrong\">✗ wrong</b> ",
            None => "",
        };
        let lacks = own_classes(image, first_trace(traces)).is_some_and(<[usize]>::is_empty);
        let unknown = if lacks { "; true class unknown to the probe" } else { "" };
        let (name, percent) = (escape(&best.name), 100.0 * best.probability);
        format!("{verdict}{name} <small>{percent:.1} %{unknown}</small>")
    });
    let mut figures = String::new();
    for figure in &page.figures {
        // For every class the number of the figure and its text, or why there is none.
        let mut shown_by_class: Vec<[String; 3]> = Vec::new();
        let absent = |why: String| [String::new(), String::new(), why];
        for (class, trace) in traces.iter().enumerate() {
            let Some(trace) = trace else {
                let missing = image.classes[class].as_deref().unwrap_or_default();
                shown_by_class.push(absent(format!("No evidence for {missing} is stored for this probe")));
                continue;
            };
            let row: Vec<&Arc<Trace>> = image.probes.iter().filter_map(|(_, all)| all[class]).collect();
            shown_by_class.push(match pictures.figure(*figure, trace, &row, export::points(WIDTH_MM)) {
                Ok(number) => {
                    let command = plot(*figure, trace, &row, Options::default()).caption().command;
                    let comment = format!(
                        "{} for {}",
                        shell_quoted(&trace.image),
                        shell_quoted(&super::class_name(trace))
                    );
                    let line = format!(
                        "ssmprobe figures --trace TRACE {command} --width {WIDTH_MM} --theme light|dark --out FIGURE.svg # {comment}"
                    );
                    if !commands.contains(&line) {
                        commands.push(line);
                    }
                    [number.to_string(), alt_text(figure.title(), image, name, trace), String::new()]
                }
                Err(why) => absent(why.to_string()),
            });
        }
        let [numbers, texts, whys] = [0, 1, 2].map(|part| {
            let values: Vec<_> = shown_by_class.iter().map(|parts| shown(&parts[part])).collect();
            escape(&serde_json::to_string(&values).expect("words serialise"))
        });
        let title = escape(figure.title());
        figures.push_str(&format!(
            "<figure data-figures=\"{numbers}\" data-texts=\"{texts}\" data-whys=\"{whys}\">\
             <figcaption>{title}</figcaption></figure>\n"
        ));
    }
    format!(
        "<article data-traces=\"{}\" aria-label=\"{name}\">\n<h3>{name}</h3>\n<p class=\"answer\">{answer}</p>\n\
         <p class=\"readout\"></p>\n{figures}</article>\n",
        trace_indices.join(","),
        name = escape(name),
    )
}

/// The alternative text of a figure: what it shows, the predicted class, and the token with the most evidence.
fn alt_text(title: &str, image: &Image<'_>, probe: &str, trace: &Trace) -> String {
    let class = super::class_name(trace);
    let best = trace.top.first().map_or_else(String::new, |best| {
        format!("; predicted {} with {:.1} %", best.name, 100.0 * best.probability)
    });
    let peak = trace.evidence.token.as_ref().and_then(|token| {
        let (at, value) = token.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
        let cols = trace.grid.cols.max(1);
        Some(format!("; most evidence ({value:+.3}) at row {}, column {}", at / cols, at % cols))
    });
    format!(
        "{title} of {} through {probe}, for {class}{best}{}",
        file_name(image.name),
        peak.unwrap_or_default()
    )
}

fn first_trace<'a>(traces: &[Option<&'a Arc<Trace>>]) -> &'a Trace {
    traces.iter().flatten().next().expect("a probe stands here because of a trace")
}

/// The classes of the trace's probe that may be the true one of the image, none if it lacks that class; `None` if that is not known.
fn own_classes<'a>(image: &Image<'a>, trace: &Trace) -> Option<&'a [usize]> {
    image.truth.iter().find(|known| known.probe == trace.probe)?.own.as_deref()
}

/// Whether the probe's prediction is the true class of the image; `None` if that is unknown, here or to the probe.
fn is_correct(image: &Image<'_>, trace: &Trace) -> Option<bool> {
    let (best, own) = (trace.top.first()?, own_classes(image, trace)?);
    (!own.is_empty()).then(|| own.contains(&best.index))
}

/// An image's name without its folders.
fn file_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A name in single quotes for a shell, with line breaks replaced by spaces.
fn shell_quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', "'\\''").replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::state::share::TrueClass;
    use crate::model::trace::Prediction;

    #[test]
    fn a_name_with_a_quote_and_a_line_break_is_one_word_of_one_line() {
        assert_eq!(shell_quoted("it's\n1.png"), r"'it'\''s 1.png'");
    }

    #[test]
    fn a_probe_without_the_true_class_is_not_called_wrong() {
        let best = Prediction { index: 7, name: "crane".to_owned(), logit: 0.0, probability: 0.5 };
        let trace =
            Trace { probe: "gap".to_owned(), top: vec![best], logits: vec![0.0; 50], ..Trace::default() };
        let said = |probe: &str, own: Option<Vec<usize>>| {
            let known =
                TrueClass { image: String::new(), probe: probe.to_owned(), name: "crane".to_owned(), own };
            let truth = vec![&known];
            let image = Image { name: "", note: None, truth, classes: Vec::new(), probes: Vec::new() };
            is_correct(&image, &trace)
        };
        assert_eq!(said("gap", Some(vec![7])), Some(true));
        assert_eq!(said("gap", Some(vec![8])), Some(false), "another class of the same name");
        assert_eq!(said("gap", Some(Vec::new())), None, "it has no crane of the dataset");
        assert_eq!([said("gap", None), said("cls", Some(vec![7]))], [None, None], "nothing is known");
    }
}
