//! Cuts a training into parts that are trained separately: by seeds, and where there are more parts than seeds, by blocks
//! of the heads as well. A head's initialisation depends on its seed and name alone and it sees the same batches whatever
//! is trained beside it, so the parts reproduce the whole training bit for bit.

use super::{TrainPlan, TrainingError};
use crate::app::format::counted;
use crate::app::jobs::part::Part;

impl TrainPlan {
    /// Reduces the plan to one part: a range of the seeds, or one seed with a block of the heads.
    pub fn cut(&mut self, part: Part) -> Result<(), TrainingError> {
        self.can_be_cut(part.of)?;
        let (seeds, settings) = (self.settings.seeds, &mut self.settings);
        let blocks = part.of.div_ceil(seeds);
        let range = match blocks {
            1 => part.range(seeds),
            _ => part.index / blocks..part.index / blocks + 1,
        };
        let block = Part { index: part.index % blocks, of: blocks }.range(self.heads.len());
        settings.first_seed += range.start as u64;
        settings.seeds = range.len();
        self.heads = self.heads[block].to_vec();
        Ok(())
    }

    /// Checks that the plan can be cut into `parts` parts: at most one per seed, or a multiple of the seeds with at most
    /// one block per head.
    pub fn can_be_cut(&self, parts: usize) -> Result<(), TrainingError> {
        let (seeds, heads) = (self.settings.seeds, self.heads.len());
        let blocks = parts.is_multiple_of(seeds) && parts / seeds <= heads;
        if parts > 0 && (parts <= seeds || blocks) {
            return Ok(());
        }
        // The further numbers of parts that are possible if the heads of a seed can be divided.
        let per_seed = if heads > 1 { format!(", or 2 to {heads} per seed") } else { String::new() };
        Err(TrainingError::Refused(format!(
            "{} of {} cannot be split into {parts} parts (--tasks); expected 1 to {seeds}{per_seed}",
            counted(seeds, "seed", "seeds"),
            counted(heads, "head", "heads")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::train::{TrainSettings, heads};

    fn plan(seeds: usize) -> TrainPlan {
        let words = ["gap", "cls", "raster", "sinkhorn"].map(str::to_owned);
        let heads = heads::variants(&words, &[]).unwrap();
        TrainPlan {
            settings: TrainSettings { seeds, ..TrainSettings::default() },
            backbone: "".into(),
            heads,
        }
    }

    /// Seeds and heads of all parts, in order.
    fn pairs(seeds: usize, parts: usize) -> Vec<(u64, String)> {
        let part = |index| {
            let mut plan = plan(seeds);
            plan.cut(Part { index, of: parts }).unwrap();
            let pairs =
                |seed| plan.heads.iter().map(move |head| (seed, head.name.clone())).collect::<Vec<_>>();
            plan.seeds().into_iter().flat_map(pairs).collect::<Vec<_>>()
        };
        (0..parts).flat_map(part).collect()
    }

    #[test]
    fn parts_train_every_head_with_every_seed_once() {
        let all = pairs(6, 1);
        assert_eq!(all.len(), 24);
        for parts in [2, 4, 5, 6, 12, 18, 24] {
            assert_eq!(pairs(6, parts), all, "{parts}");
        }
        for parts in [0, 7, 30] {
            let error = plan(6).can_be_cut(parts).unwrap_err().to_string();
            assert!(error.ends_with("1 to 6, or 2 to 4 per seed"), "{error}");
        }
        let alone = TrainPlan { heads: plan(2).heads[..1].to_vec(), ..plan(2) };
        let error = alone.can_be_cut(5).unwrap_err().to_string();
        assert!(error.ends_with("expected 1 to 2"), "{error}");
    }
}
