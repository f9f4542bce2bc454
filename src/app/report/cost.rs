//! Cost of heads (paper, "Probe complexity and FLOPs"): trained parameters and operations, at the sizes of the run and
//! of the paper, beside the paper's own figures.

use super::choice::without_choice;
use super::table::{Cell, Column, Row, Table};
use super::{Source, tiers, title};
use crate::model::grid::Grid;
use crate::model::probe::head::cost;
use crate::model::probe::head::{self, Dims};
use crate::model::train::run::Variant;

/// The sizes in the paper's table: ViT-B width, 14 x 14 tokens, ImageNet classes.
pub const PAPER: Dims = Dims { width: 768, grid: Grid::new(14, 14), classes: 1000 };

/// One table per run with a trained head.
pub fn tables(source: &Source) -> Vec<Table> {
    let manifest = &source.run.manifest;
    let dims = Dims {
        width: manifest.backbone.hidden_size,
        grid: manifest.grid,
        classes: manifest.dataset.classes.len(),
    };
    let variants = tiers::sorted(source.reported().into_iter());
    let rows: Vec<Row> = variants.iter().filter_map(|variant| row(variant, &dims)).collect();
    let mut columns = vec![Column::words("Method")];
    columns.extend(Column::group("Here", ["parameters", "MFLOPs"]));
    columns.extend(Column::group("At the paper's sizes", ["parameters (M)", "MFLOPs"]));
    columns.extend(Column::group("As the paper says", ["parameters (M)", "MFLOPs"]));
    let notes = vec![
        format!(
            "Here d {}, N {}, C {}; in the paper d 768, N 196, C 1000. For one image, classifier included: a multiply-add \
             counts as two operations, an exponential as one; work shared by all images (the S4 kernel, the transformer's \
             projections folded into its one query) is not counted",
            dims.width,
            dims.grid.len(),
            dims.classes
        ),
        "Parameters: trained entries; of a triangular state matrix, those on and below its diagonal. The paper's counts for \
         S4 heads are for one B, C and D per channel (`sharing=channel`)"
            .to_owned(),
    ];
    let table = Table { notes, ..source.table("cost", "Cost of heads", columns, rows) };
    vec![table.without_empty_columns()]
}

fn row(variant: &Variant, dims: &Dims) -> Option<Row> {
    let head = head::find(&variant.head)?.build(&variant.config).ok()?;
    let paper = head::find(&variant.head)?.paper_cost;
    Some(Row {
        ruled: false,
        cells: vec![
            Cell::text(title(&without_choice(variant))),
            Cell::number(cost::parameters(&*head, dims) as f64, 0),
            Cell::number(cost::flops(&*head, dims) as f64 / 1e6, 2),
            Cell::number(cost::parameters(&*head, &PAPER) as f64 / 1e6, 2),
            Cell::number(cost::flops(&*head, &PAPER) as f64 / 1e6, 2),
            Cell::maybe(paper.map(|paper| paper.parameters), 2),
            Cell::maybe(paper.map(|paper| paper.flops), 2),
        ],
    })
}
