//! The first steps of a head on a GPU, which it takes alone.

/// How many there are: one that compiles its kernels, one that is recorded, and one more.
pub(super) const STEPS: usize = 3;
/// Which of them is recorded, from 0.
const RECORDED: usize = 1;

/// How long they took, so that what steps of several heads take together can be shared out. Only those on the largest batch count:
/// an epoch ends with a smaller one, and what is recorded has the size of its batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Alone {
    /// Images of the batch.
    pub images: usize,
    /// In seconds.
    pub seconds: Vec<f64>,
}

impl Alone {
    /// Begins anew where a batch is larger than any before; whether it is.
    pub fn begins(&mut self, images: usize) -> bool {
        let begins = images > self.images;
        if begins {
            *self = Self { images, seconds: vec![] };
        }
        begins
    }

    /// Whether the step on a batch of so many images is to be recorded.
    pub fn records(&self, images: usize) -> bool {
        images == self.images && self.seconds.len() == RECORDED
    }

    pub fn is_over(&self) -> bool {
        self.seconds.len() >= STEPS
    }

    /// Counts a step.
    pub fn add(&mut self, images: usize, seconds: f64) {
        if images == self.images {
            self.seconds.push(seconds);
        }
    }

    /// What a step takes, undisturbed.
    pub fn least(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }
}
