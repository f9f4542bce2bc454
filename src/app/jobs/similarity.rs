//! What one probe made of the tokens of a dataset's images, made ready to be compared: beside the window, which then finds
//! the images nearest to any other within a frame.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::explain::evaluation::similarity::{ImageSpace, Similarity};
use crate::model::explain::evaluation::vectors::TokenVectors;
use crate::model::grid::Grid;

/// Vectors to compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimilarityRequest {
    /// They.
    pub vectors: TokenVectors,
    /// How the tokens lie, of each of which they have a number.
    pub grid: Grid,
    /// By what they are compared.
    pub similarity: Similarity,
}

/// Makes them ready.
pub fn run(request: &SimilarityRequest) -> Arc<ImageSpace> {
    Arc::new(ImageSpace::new(&request.vectors, request.grid, request.similarity))
}
