//! Prepares one probe's token vectors of a dataset for comparison, off the window's thread, which then finds the images nearest to any
//! other within a frame.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::explain::evaluation::similarity::{ImageSpace, Similarity};
use crate::model::explain::evaluation::vectors::TokenVectors;
use crate::model::grid::Grid;

/// A request to prepare vectors for comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimilarityRequest {
    /// The vectors, one per image.
    pub vectors: TokenVectors,
    /// The grid of the tokens; a vector has one number for each.
    pub grid: Grid,
    /// The measure of similarity.
    pub similarity: Similarity,
}

/// Prepares the vectors, and the map of all images.
pub fn run(request: &SimilarityRequest) -> Arc<ImageSpace> {
    Arc::new(ImageSpace::new(&request.vectors, request.grid, request.similarity))
}
