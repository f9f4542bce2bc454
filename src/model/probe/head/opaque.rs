//! Output of heads that are not linear in the tokens: their features in float64 on the CPU,
//! and why there is no exact evidence.

use super::{Head, float64};
use crate::model::io::array::Arrays;
use crate::model::probe::head_output::{Form, HeadOutput};
use crate::model::tokens::Tokens;

/// [`Head::features`] of one image, with the reason `why` there is no exact evidence.
pub fn output(head: &dyn Head, params: &Arrays, tokens: &Tokens, why: &'static str) -> HeadOutput {
    let (params, batch) = float64::inputs(head, params, tokens);
    let features = float64::host(head.features(&params, &batch));
    HeadOutput { scores: None, form: Form::Opaque { features, why } }
}
