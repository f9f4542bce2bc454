//! Pictures of a [`Trace`](crate::model::trace::Trace): one description of a figure, drawn to the
//! screen or exported as vectors. Knows neither tensors nor weights.
