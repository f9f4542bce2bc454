//! What heads cost (paper, "Probe complexity and FLOPs"): trained parameters and operations as they
//! are, beside the paper's own figures, and the time their training steps took.

use super::table::{Cell, Column, Row, Table};
use super::{Source, id, tiers, title};
use crate::model::head::cost;
use crate::model::head::{self, Dims};
use crate::model::run::Variant;

/// One table a run.
pub fn build(sources: &[Source]) -> Vec<Table> {
    sources.iter().filter_map(|source| table(source, sources)).collect()
}

fn table(source: &Source, sources: &[Source]) -> Option<Table> {
    let manifest = &source.run.manifest;
    let dims = Dims {
        width: manifest.backbone.hidden_size,
        grid: manifest.grid,
        classes: manifest.dataset.classes.len(),
    };
    let mut variants: Vec<&Variant> = source.plain().collect();
    variants.sort_by_key(|variant| tiers::place(&variant.head).1);
    let rows: Vec<Row> = variants.iter().filter_map(|variant| row(source, variant, &dims)).collect();
    if rows.is_empty() {
        return None;
    }
    let columns = vec![
        Column::words("Method"),
        Column::numbers("Parameters"),
        Column::numbers("MFLOPs an image"),
        Column::numbers("Training (s)"),
        Column::numbers("parameters (M)").within("Paper (d 768, N 196, C 1000)"),
        Column::numbers("MFLOPs").within("Paper (d 768, N 196, C 1000)"),
    ];
    let notes = vec![
        format!(
            "Here d {}, N {}, C {}, the classifier included. A multiply and an add are two operations, an \
             exponential one; what all images share (the S4 kernel) is not counted",
            dims.width,
            dims.grid.len(),
            dims.classes
        ),
        format!(
            "Training: the head's own steps, mean over seeds, on {}; without reading tokens, without evaluation",
            manifest.device
        ),
    ];
    let title = format!("Cost of heads: {}", source.setting());
    let table = Table { id: id("cost", source, sources), title, columns, rows, notes };
    Some(table.without_empty_columns())
}

fn row(source: &Source, variant: &Variant, dims: &Dims) -> Option<Row> {
    let head = (head::find(&variant.head)?.build)(&variant.config).ok()?;
    let paper = cost::paper(&variant.head);
    let seconds: Vec<f64> = source.of(&variant.name).map(|outcome| outcome.seconds).collect();
    Some(Row {
        ruled: false,
        cells: vec![
            Cell::text(title(variant)),
            Cell::number(cost::parameters(&*head, dims) as f64, 0),
            Cell::number(cost::flops(&*head, dims) as f64 / 1e6, 2),
            Cell::over(&seconds, 1),
            Cell::maybe(paper.map(|paper| paper.parameters), 2),
            Cell::maybe(paper.map(|paper| paper.flops), 2),
        ],
    })
}
