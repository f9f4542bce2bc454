//! Encoding a subset of an image's patches, for removal curves. Patches are dropped before the first layer, as in MAE's masking
//! (He et al. 2022), so that fewer patches cost less time.

use std::slice;

use super::{Backbone, BackboneError, batch};
use crate::model::backbone::preprocess::Pixels;
use crate::model::grid::Grid;
use crate::model::tokens::Tokens;

impl Backbone {
    /// Why this backbone cannot encode a subset of an image's patches; `None` if it can.
    pub fn why_no_subset(&self) -> Option<&'static str> {
        self.is_shuffled()
            .then_some("The backbone outputs its tokens in shuffled order: the patch of a token is unknown")
    }

    /// The tokens of one image after `layer`, final norm included, once for every set of patches in `kept`, each in raster
    /// order: the encoder reads only these patches, with their original positions, and they are returned as an image of one
    /// row. CLS and registers are always kept. Consecutive sets of one size are computed together.
    ///
    /// # Errors
    /// If the image cannot be cut into patches, or there is no such layer.
    ///
    /// # Panics
    /// If a set is empty or has patches outside the grid, or [`Self::why_no_subset`] gives a reason.
    pub fn forward_subset(
        &self,
        pixels: &Pixels,
        kept: &[&[usize]],
        layer: usize,
    ) -> Result<Vec<Tokens>, BackboneError> {
        let Pixels { height, width, .. } = *pixels;
        let grid = self.grid(height, width)?;
        let layers = self.layers_to_compute(&[layer])?;
        assert!(self.why_no_subset().is_none(), "tokens of known patches");
        let cores = batch::cores(&self.device);
        let mut batches = Vec::new();
        for group in kept.chunk_by(|a, b| a.len() == b.len()) {
            let own = Grid::new(1, group[0].len());
            let most = self.images_at_once(height * width, own.len());
            batches.extend(group.chunks(group.len().div_ceil(cores).min(most)).map(|batch| (own, batch)));
        }
        let run = |(own, batch): (Grid, &[&[usize]])| {
            let pass = |batch: &[&[usize]]| {
                let stages =
                    self.encoder.encode_subset(self.upload(slice::from_ref(pixels)), grid, batch, &layers);
                self.split_stage(self.join_layers(stages).swap_remove(0).into_data(), own)
            };
            self.batch_limit.run(batch, &self.device, &pass)
        };
        Ok(batch::run_all(batches, &self.device, run))
    }
}
