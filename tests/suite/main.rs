//! The tests, in one program so that the large dependencies are linked once. One module a subject.

mod figures;
mod traces;
mod viz;
