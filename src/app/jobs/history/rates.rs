//! Grids of layers by learning rates, one per head: the cell chosen on the selection images, and its accuracy on the
//! test images. Cells are recognised by the names of their variants, `head[layer=L,rate=R]`.

use std::collections::HashSet;

use indexmap::{IndexMap, IndexSet};

use super::TrainHistory;
use crate::model::train::run::{MAX_TRAININGS, variant_name};
use crate::viz::figures::rates::{INFO, RateCell, RateGrid, RatesPlot};

/// Splits a variant's name into head with its other settings, layer and rate; `None` if it has neither of these.
fn parse(name: &str) -> Option<[String; 3]> {
    let [own, axes] = variant_name::head_and_axes(name);
    let value = |axis: &str| axes.iter().find(|(field, _)| *field == axis).map_or("", |(_, value)| value);
    let head = variant_name::with_settings(variant_name::head(name), own);
    (!axes.is_empty()).then(|| [head, value("layer").to_owned(), value("rate").to_owned()])
}

impl TrainHistory {
    /// The grid of every head that has several layers or rates; cells without an epoch yet are `None`.
    pub fn grids(&self) -> Vec<RateGrid> {
        let mut grids = self.all_grids();
        grids.retain(|grid| grid.cells.len() > 1);
        grids
    }

    /// Whether there are [`grids`](Self::grids), known from the names of the variants alone.
    pub fn has_grids(&self) -> bool {
        let mut heads = HashSet::new();
        self.about.heads.iter().filter_map(|name| parse(name)).any(|[head, ..]| !heads.insert(head))
    }

    /// The [`grids`](Self::grids), and those of heads with a single layer and rate, where nothing is chosen.
    pub fn all_grids(&self) -> Vec<RateGrid> {
        let mut heads: IndexMap<String, Vec<(usize, String, String)>> = IndexMap::new();
        for (at, name) in self.about.heads.iter().enumerate() {
            if let Some([head, layer, rate]) = parse(name) {
                heads.entry(head).or_default().push((at, layer, rate));
            }
        }
        // In a run of this program every cell of the grid is a training; made-up names could ask for the square of their number.
        let mut left = MAX_TRAININGS;
        let grid = |(head, variants): (String, Vec<(usize, String, String)>)| {
            let layers: IndexSet<&String> = variants.iter().map(|(_, layer, _)| layer).collect();
            let rates: IndexSet<&String> = variants.iter().map(|(.., rate)| rate).collect();
            left = left.checked_sub(layers.len() * rates.len())?;
            let mut cells = vec![None; layers.len() * rates.len()];
            for (at, layer, rate) in &variants {
                let (row, column) = (layers.get_index_of(layer)?, rates.get_index_of(rate)?);
                cells[row * rates.len() + column] = self.score(*at).map(|score| RateCell {
                    name: self.about.heads[*at].clone(),
                    select: score.select,
                    test: score.best.0,
                    last: score.last.0,
                    broken: score.broken,
                });
            }
            let [layers, rates] = [layers, rates].map(|names| names.into_iter().cloned().collect());
            Some(RateGrid { head, layers, rates, cells })
        };
        heads.into_iter().filter_map(grid).collect()
    }

    /// The grids of these heads, named with their other settings, as a figure; of all if `heads` is empty.
    pub fn rates(&self, heads: &[String]) -> RatesPlot {
        let mut grids = self.grids();
        grids.retain(|grid| heads.is_empty() || heads.contains(&grid.head));
        RatesPlot { grids, caption: Self::caption(&[self], heads, &INFO) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{history, metric};
    use super::super::{About, Failure};
    use super::*;

    #[test]
    fn names_say_where_a_variant_stands() {
        let found = |name: &str| parse(name).map(|[head, layer, rate]| format!("{head} {layer} {rate}"));
        assert_eq!(found("gap[layer=last,rate=0.001]").unwrap(), "gap last 0.001");
        assert_eq!(
            found("sinkhorn[temperature=0.1,iterations=5,rate=0.1]").unwrap(),
            "sinkhorn[temperature=0.1,iterations=5]  0.1"
        );
        assert!(found("gap").is_none() && found("sinkhorn[temperature=0.1]").is_none());
    }

    #[test]
    fn names_that_ask_for_more_cells_than_a_run_has_are_no_grid() {
        let of = |cells: usize| {
            let heads = (0..cells).map(|at| format!("gap[layer={at},rate={at}]")).collect();
            TrainHistory::new(About { heads, seeds: vec![0], ..About::default() }).all_grids().len()
        };
        assert_eq!([of(1000), of(1001)], [1, 0]);
    }

    #[test]
    fn the_selection_images_choose_and_the_first_of_equals_is_chosen() {
        let mut history = history(2, 1);
        let cells = [("2", "0.1"), ("2", "0.2"), ("last", "0.1"), ("last", "0.2")];
        let name = |(layer, rate): (&str, &str)| format!("gap[layer={layer},rate={rate}]");
        history.about.heads = cells.iter().map(|cell| name(*cell)).collect();
        history.about.heads.push("cls".into());
        history = TrainHistory::new(history.about);
        assert!(
            history.grids()[0].cells.iter().all(Option::is_none) && history.grids()[0].chosen().is_none()
        );
        for (cell, [select, test]) in
            cells.into_iter().zip([[50.0, 90.0], [70.0, 60.0], [70.0, 80.0], [10.0, 99.0]])
        {
            let mut metric = metric(&name(cell), 0, 1, 1.0, test);
            metric.epoch.select = select;
            history.epochs(&[metric]);
        }
        let grids = history.grids();
        let [grid] = &grids[..] else { panic!("{} grids", grids.len()) };
        assert_eq!((grid.layers.join(" "), grid.rates.join(" ")), ("2 last".into(), "0.1 0.2".into()));
        let chosen = grid.chosen().unwrap();
        assert_eq!(chosen, 1, "the best on selection images, whatever the test images say; the first of two");
        assert_eq!(grid.cells[chosen].as_ref().map(|cell| (cell.select, cell.test)), Some((70.0, 60.0)));
    }

    /// Else a rate that breaks with all seeds but a lucky one would be the best.
    #[test]
    fn a_cell_that_broke_with_more_seeds_is_not_chosen() {
        let names = ["gap[rate=0.1]", "gap[rate=9]", "gap[rate=99]"];
        let about = About { heads: names.map(str::to_owned).into(), ..history(1, 2).about };
        let mut history = TrainHistory::new(about);
        let metrics = [(0, 0, 60.0), (0, 1, 50.0), (1, 0, 90.0)];
        history.epochs(&metrics.map(|(at, seed, test)| metric(names[at], seed, 1, 1.0, test)));
        let failures = [(1, 1), (2, 0), (2, 1)].map(|(at, seed): (usize, u64)| Failure {
            head: names[at].to_owned(),
            seed,
            why: "the loss became NaN".to_owned(),
        });
        history.failures(&failures);
        let one = About { heads: vec![names[0].to_owned(), "cls".to_owned()], ..history.about.clone() };
        assert!(history.has_grids() && !TrainHistory::new(one).has_grids());
        let grid = &history.grids()[0];
        assert!(grid.cells[2].is_none() && grid.chosen() == Some(0), "{grid:?}");
    }
}
