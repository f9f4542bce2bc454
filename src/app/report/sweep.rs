//! Accuracy by setting: the swept variants of one head, named `head[field=value,...]`, as `ssmprobe sweep` trains them. State
//! sizes have their own table (paper, "Effect of state dimension"), as has the grid of temperature and iterations ([`super::grid`]).

use indexmap::IndexSet;

use super::Source;
use super::table::{Cell, Column, Row, Table};
use crate::model::probe::head::{self, mean};
use crate::model::stats;
use crate::model::train::run::{Outcome, Variant, variant_name};

pub struct Point<'a> {
    pub variant: &'a Variant,
    /// The settings in its name, as pairs of field and value.
    pub settings: Vec<(&'a str, &'a str)>,
}

impl Point<'_> {
    /// The value of a field, if it is set to a number.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.settings.iter().find(|(name, _)| *name == field)?.1.parse().ok()
    }

    /// The fields, in the order of the name.
    fn fields(&self) -> Vec<&str> {
        self.settings.iter().map(|(name, _)| *name).collect()
    }
}

/// The heads with swept variants, in the order of the run.
pub fn swept_heads(source: &Source) -> IndexSet<&str> {
    let swept = source.run.manifest.heads.iter().filter(|variant| settings(variant).is_some());
    swept.map(|variant| variant.head.as_str()).collect()
}

/// The swept variants of `head` with at least one outcome.
pub fn points<'a>(source: &'a Source, head: &str) -> Vec<Point<'a>> {
    let variants = source.run.manifest.heads.iter().filter(|variant| variant.head == head);
    variants
        .filter(|variant| source.is_trained(variant))
        .filter_map(|variant| Some(Point { variant, settings: settings(variant)? }))
        .collect()
}

/// The settings in a variant's name; `None` if it is not swept.
fn settings(variant: &Variant) -> Option<Vec<(&str, &str)>> {
    let settings = variant_name::settings(&variant.name);
    // Layers and learning rates alone have a table of their own ([`super::rates`]).
    settings.iter().any(|(field, _)| !variant_name::is_axis(field)).then_some(settings)
}

/// Accuracy by number of S4 states: one table per swept head.
pub fn state_size(source: &Source) -> Vec<Table> {
    tables_of(source, &|fields| fields == ["state_dim"])
}

/// Accuracy by any other settings: one table per head and list of fields.
pub fn tables(source: &Source) -> Vec<Table> {
    tables_of(source, &|fields| {
        let is_grid = fields.len() == 2 && fields.contains(&"temperature") && fields.contains(&"iterations");
        fields != ["state_dim"] && !is_grid
    })
}

fn tables_of(source: &Source, wanted: &dyn Fn(&[&str]) -> bool) -> Vec<Table> {
    let mut found = Vec::new();
    for head in swept_heads(source) {
        let points = points(source, head);
        let field_lists = points.iter().map(Point::fields).filter(|fields| wanted(fields));
        for fields in field_lists.collect::<IndexSet<_>>() {
            let own: Vec<&Point> = points.iter().filter(|point| point.fields() == fields).collect();
            found.push(table(source, head, &fields, &own));
        }
    }
    found
}

fn table(source: &Source, head: &str, fields: &[&str], points: &[&Point]) -> Table {
    let heads = source.run.manifest.heads.iter();
    let is_plain = |variant: &&Variant| settings(variant).is_none() && source.is_trained(variant);
    let plain: Vec<&Variant> = heads.filter(is_plain).collect();
    let row = |point: &&Point| {
        let of_axes = |variant: &Variant| (variant.layer, variant.rate.map(f64::to_bits));
        let mut gaps = plain.iter().filter(|variant| variant.head == mean::GAP.id);
        let gap = gaps.find(|gap| of_axes(gap) == of_axes(point.variant));
        // Of the seeds that both have.
        let change_of = |own: &Outcome| {
            let gap = source.outcomes_of(&gap?.name).find(|gap| gap.seed == own.seed)?;
            Some(own.best_accuracy()? - gap.best_accuracy()?)
        };
        let change = stats::mean(source.outcomes_of(&point.variant.name).filter_map(change_of));
        let mut cells: Vec<Cell> = point.settings.iter().map(|(_, value)| Cell::text(*value)).collect();
        cells.extend(source.accuracy_cells(&point.variant.name));
        cells.push(change.map_or(Cell::None, |change| Cell::signed(change, 2)));
        Row { ruled: false, cells }
    };
    let mut rows: Vec<Row> = points.iter().map(row).collect();
    let is_baseline = |variant: &&Variant| [mean::GAP.id, mean::CLS.id].contains(&variant.head.as_str());
    for (index, baseline) in plain.iter().copied().filter(is_baseline).enumerate() {
        let mut cells = vec![Cell::text(super::title(baseline))];
        cells.extend(vec![Cell::text(""); fields.len() - 1]);
        cells.extend(source.accuracy_cells(&baseline.name));
        cells.push(Cell::None);
        rows.push(Row { ruled: index == 0, cells });
    }
    let mut columns: Vec<Column> = fields.iter().map(|&field| Column::words(field)).collect();
    columns.extend(Column::accuracies("Top-1 (%)"));
    columns.push(Column::numbers("Best, against GAP"));
    let name = head::find(head).map_or(head, |kind| kind.name);
    let (id, what) = match fields {
        ["state_dim"] => (format!("state-size-{head}"), "number of states".to_owned()),
        _ => (format!("sweep-{head}-{}", fields.join("-")), fields.join(" and ")),
    };
    let mut table = source.table(id, &format!("{name} by {what}"), columns, rows);
    table.mark_largest([fields.len() + 1, fields.len() + 2]);
    table.without_empty_columns()
}
