//! The figures as text: heads as rows of one table, everything else a line each.

use std::fmt::Write;

use indexmap::IndexSet;

use crate::app::devtools::microbench::{Figure, Sizes};

/// Renders all figures. `adapter`: the device's own name.
pub fn render(adapter: &str, sizes: &Sizes, figures: &[Figure]) -> String {
    let Sizes { images, grid, width, classes, photos, rounds, .. } = sizes;
    let device = figures.first().map_or("", |figure| figure.device.as_str());
    let mut text = format!(
        "{device}: {adapter}\ntraining steps of {images} images of {} tokens of width {width}, {classes} classes; \
         {photos} images in a forward pass; medians of {rounds} rounds\n",
        grid.len()
    );
    let value = |head: &str, what: &str| {
        let name = format!("head/{head}/{what}");
        figures.iter().find(|figure| figure.name == name).map_or("-".into(), amount)
    };
    let heads: IndexSet<&str> = figures.iter().filter_map(|figure| head_of(&figure.name)).collect();
    if !heads.is_empty() {
        let _ = writeln!(text, "\n{:<18} {:>12} {:>12} {:>12}", "head", "step", "against GAP", "peak memory");
    }
    for head in heads {
        let [step, ratio, memory] = ["step", "vs-gap", "memory"].map(|what| value(head, what));
        let _ = writeln!(text, "{head:<18} {step:>12} {ratio:>12} {memory:>12}");
    }
    let mut others = figures.iter().filter(|figure| head_of(&figure.name).is_none()).peekable();
    if others.peek().is_some() {
        text.push('\n');
    }
    for figure in others {
        let _ = writeln!(text, "{:<30} {:>14}", figure.name, amount(figure));
    }
    text
}

fn head_of(name: &str) -> Option<&str> {
    name.strip_prefix("head/")?.split('/').next()
}

/// A value with its unit, in three digits.
fn amount(figure: &Figure) -> String {
    let Figure { value, unit, .. } = figure;
    match *unit {
        "s" if *value < 1.0 => format!("{} ms", digits(1e3 * value)),
        "x" => digits(*value),
        unit => format!("{} {unit}", digits(*value)),
    }
}

fn digits(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::devtools::microbench::backbone::Vit;
    use crate::app::devtools::microbench::grid_of;
    use crate::model::backbone::arithmetic::Arithmetic;

    #[test]
    fn heads_are_rows_and_the_rest_are_lines() {
        let figure =
            |name: &str, value, unit| Figure { name: name.into(), device: "cpu".into(), value, unit };
        let figures = [
            figure("head/gap/step", 0.0481, "s"),
            figure("head/sinkhorn/step", 1.23456, "s"),
            figure("head/sinkhorn/vs-gap", 25.66, "x"),
            figure("head/gap/memory", 512.3, "MiB"),
            figure("lookup/16", 0.0123, "s"),
        ];
        let sizes = Sizes {
            images: 4,
            grid: grid_of(196),
            width: 8,
            classes: 3,
            heads: Vec::new(),
            photos: 2,
            backbone: None,
            vit: Vit::Base,
            arithmetic: Arithmetic::Float32,
            longest: 196,
            rounds: 5,
        };
        let text = render("a processor", &sizes, &figures);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(text.starts_with("cpu: a processor\n"), "{text}");
        assert!(lines.contains(&vec!["gap", "48.1", "ms", "-", "512", "MiB"]), "{text}");
        assert!(lines.contains(&vec!["sinkhorn", "1.23", "s", "25.7", "-"]), "{text}");
        assert!(lines.contains(&vec!["lookup/16", "12.3", "ms"]), "{text}");
    }
}
