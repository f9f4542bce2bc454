//! Whether a probe's orders beat chance over a dataset: the order test of every image's margin for its true class
//! (docs/definitions.md, section 10), beside what orders that nothing was learnt for come to in the same memory.

use serde::{Deserialize, Serialize};

use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::{NullBands, untrained_scores};
use crate::model::explain::order_test::{OrderTester, SIGNIFICANT};
use crate::model::probe::Probe;
use crate::model::probe::head_output::{Direction, Form, HeadOutput, Order};
use crate::model::tokens::Tokens;
use crate::model::trace::OrderContrast;

/// Images that orders without learning are asked about.
pub(super) const CHANCE_IMAGES: usize = 64;
/// Untrained scorers an image is read by, and random orders it is read in.
const ORDERS: usize = 4;

/// The order tests of all images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderTests {
    /// A letter an image: 1 where p is below 0.05, else 0.
    pub significant: String,
    /// Mean of z.
    pub z: f64,
    /// Mean share of what the best order would add to the mean of all.
    pub headroom: f64,
    /// Mean margin of a bag of the same tokens.
    pub content: f64,
    /// What raster order, or the scan, adds to it on average.
    pub fixed_order: f64,
    /// What routing adds to that.
    pub routing: f64,
    /// Share of p below 0.05 of untrained scorers through the same router and memory, on some of the images; absent
    /// without a router.
    pub untrained: Option<f64>,
    /// The same of random orders; absent where none can be drawn.
    pub random: Option<f64>,
}

/// The test of one image of `class`; none where the head has none.
pub(super) fn margin(
    probe: &Probe,
    change: Intervention,
    output: &HeadOutput,
    tokens: &Tokens,
    class: usize,
    nulls: &NullBands,
) -> Option<OrderContrast> {
    OrderTester::new(probe, change, output, tokens).ok()?.margin(class, false, nulls.exchanges())
}

/// Which orders that nothing was learnt for are significant on one image.
#[derive(Clone, Debug, Default)]
pub(super) struct Chance {
    untrained: Vec<bool>,
    random: Vec<bool>,
}

impl Chance {
    /// Of an image of `class` that is read so; `image_seed` seeds its random orders.
    pub(super) fn new(
        probe: &Probe,
        output: &HeadOutput,
        tokens: &Tokens,
        (class, image_seed): (usize, u64),
        nulls: &NullBands,
    ) -> Self {
        let test = |change: Intervention, output: &HeadOutput| {
            margin(probe, change, output, tokens, class, nulls).map(|contrast| is_significant(&contrast))
        };
        let mut chance = Self::default();
        if let (Some(router), Form::Scan(directions)) = (probe.head().router(), &output.form) {
            for scores in untrained_scores(tokens, ORDERS, nulls.seed()) {
                let order = |direction: &Direction| Direction {
                    order: Order::Plan(router.plan(&scores)),
                    ..direction.clone()
                };
                let form = Form::Scan(directions.iter().map(order).collect());
                chance.untrained.extend(test(Intervention::None, &HeadOutput { scores: None, form }));
            }
        }
        for order in 0..ORDERS as u64 {
            let change = Intervention::Random(nulls.seed().wrapping_mul(ORDERS as u64) + order);
            if let Ok(output) = change.change(probe, tokens, output.clone(), image_seed) {
                chance.random.extend(test(change, &output));
            }
        }
        chance
    }
}

impl OrderTests {
    /// Of all images that have a test, at least one, beside chance.
    pub(super) fn new(tested: &[&OrderContrast], chance: &[Chance]) -> Self {
        let share = |of: fn(&Chance) -> &Vec<bool>| {
            let all: Vec<bool> = chance.iter().flat_map(|image| of(image).clone()).collect();
            (!all.is_empty()).then(|| all.iter().filter(|is| **is).count() as f64 / all.len() as f64)
        };
        let mean = |of: &dyn Fn(&OrderContrast) -> f64| {
            tested.iter().map(|contrast| of(contrast)).sum::<f64>() / tested.len() as f64
        };
        let letter = |contrast: &&OrderContrast| if is_significant(contrast) { '1' } else { '0' };
        Self {
            significant: tested.iter().map(letter).collect(),
            z: mean(&|contrast| contrast.reassigned.z.unwrap_or(0.0)),
            headroom: mean(&|contrast| contrast.headroom.unwrap_or(0.0)),
            content: mean(&|contrast| contrast.content),
            fixed_order: mean(&|contrast| contrast.fixed_order),
            routing: mean(&|contrast| contrast.routing),
            untrained: share(|image| &image.untrained),
            random: share(|image| &image.random),
        }
    }
}

fn is_significant(contrast: &OrderContrast) -> bool {
    contrast.reassigned.p < SIGNIFICANT
}
