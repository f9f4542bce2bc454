//! The tests, in one program so that the large dependencies are linked once. One module a subject.

mod backbones;
mod devices;
mod house;
mod weights;
