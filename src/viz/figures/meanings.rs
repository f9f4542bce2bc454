//! Names and one-sentence explanations of the diagnostics, for figures, which do not depend on the code that computes them.

use crate::viz::heading::capitalised;

/// The name of every diagnostic in a trace, and one sentence on what it measures.
pub const MEANINGS: [(&str, &str); 12] = [
    ("rank_coverage", "Number of distinct best positions of tokens, divided by N"),
    ("argmax_entropy", "Entropy of the histogram of best positions, divided by ln N"),
    ("edge_mass_10", "Share of tokens whose best position is in the first or the last tenth"),
    ("row_max_mean", "Mean over tokens of their largest share at any position: 1 is a hard order"),
    ("row_max_p95", "95th percentile over tokens of their largest share at any position"),
    ("row_marginal_error", "Largest deviation of a row sum of the plan from 1"),
    ("column_marginal_error", "Largest deviation of a column sum of the plan from 1"),
    ("token_coverage", "Number of distinct leading tokens of positions, divided by N"),
    ("token_entropy", "Entropy of the histogram of leading tokens, divided by ln N"),
    ("mean_position_spread", "Standard deviation of the position of a token, in positions; mean over tokens"),
    ("kendall_tau", "Kendall's tau-b of the mean positions against raster order"),
    ("path_length", "Mean step over the grid, in patches, between consecutive tokens"),
];
/// Diagnostics that random scores are no reference for: neighbouring tokens are alike, and so are the scores an image gives.
pub const UNTRAINED_ALONE: [&str; 2] = ["kendall_tau", "path_length"];

/// What the diagnostic `id` measures; empty for an unknown one.
pub(super) fn meaning(id: &str) -> &'static str {
    MEANINGS.iter().find(|(known, _)| *known == id).map_or("", |(_, words)| words)
}

/// The name of a diagnostic as it is displayed: `rank_coverage` becomes "Rank coverage".
pub(super) fn words(name: &str) -> String {
    capitalised(&name.replace("_p95", ", p95").replace("_10", ", 10 %").replace('_', " "))
}
