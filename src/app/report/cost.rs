//! Cost of heads (paper, "Probe complexity and FLOPs"): trained parameters and operations, at the sizes of the run and
//! of the paper, beside the paper's own figures.

use super::choice::without_choice;
use super::table::{Cell, Column, Row, Table};
use super::{Source, tiers, title};
use crate::model::grid::Grid;
use crate::model::probe::head::cost;
use crate::model::probe::head::{self, Dims, Head};
use crate::model::train::run::Variant;

/// The sizes in the paper's table: ViT-B width, 14 x 14 tokens, ImageNet classes.
pub const PAPER: Dims = Dims { width: 768, grid: Grid::new(14, 14), classes: 1000 };

/// The sizes in the paper's table for this head: where it reads joined layers, each has the paper's width.
pub fn paper_sizes(head: &dyn Head) -> Dims {
    Dims { width: PAPER.width * head.settings(PAPER.width).blocks.unwrap_or(1), ..PAPER }
}

/// What [`paper_sizes`] are, if one of the variants reads joined layers.
pub fn joined_note(variants: &[&Variant]) -> Option<String> {
    let is_joined = |variant: &&Variant| {
        let head = head::find(&variant.head).and_then(|spec| spec.build(&variant.config).ok());
        head.is_some_and(|head| paper_sizes(&*head).width > PAPER.width)
    };
    let note = "At the paper's sizes every layer that `cls-mean` joins has d 768";
    variants.iter().any(is_joined).then(|| note.to_owned())
}

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
    let notes = notes.into_iter().chain(joined_note(&variants)).collect();
    let table = Table { notes, ..source.table("cost", "Cost of heads", columns, rows) };
    vec![table.without_empty_columns()]
}

fn row(variant: &Variant, dims: &Dims) -> Option<Row> {
    let head = head::find(&variant.head)?.build(&variant.config).ok()?;
    let (paper, sizes) = (head::find(&variant.head)?.paper_cost, paper_sizes(&*head));
    Some(Row {
        ruled: false,
        cells: vec![
            Cell::text(title(&without_choice(variant))),
            Cell::number(cost::parameters(&*head, dims) as f64, 0),
            Cell::number(cost::flops(&*head, dims) as f64 / 1e6, 2),
            Cell::number(cost::parameters(&*head, &sizes) as f64 / 1e6, 2),
            Cell::number(cost::flops(&*head, &sizes) as f64 / 1e6, 2),
            Cell::maybe(paper.map(|paper| paper.parameters), 2),
            Cell::maybe(paper.map(|paper| paper.flops), 2),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::probe::head::Config;

    #[test]
    fn every_joined_layer_has_the_width_of_the_paper() {
        let spec = head::find("cls-mean").unwrap();
        for (blocks, width, parameters) in [(1, 768, 1_537_000), (4, 3072, 3_841_000)] {
            let head = spec.build(&Config { blocks: Some(blocks), ..Config::default() }).unwrap();
            let sizes = paper_sizes(&*head);
            assert_eq!((sizes.width, cost::parameters(&*head, &sizes)), (width, parameters));
        }
    }
}
