//! The tests, in one program so that the large dependencies are linked once. One module a subject.

mod diagnostics;
mod evidence;
mod weights;
