//! The tests, in one program so that the large dependencies are linked once. One module a subject.

mod backbones;
mod hub;
mod images;
mod devices;
mod house;
mod diagnostics;
mod evidence;
mod weights;
mod routing;
mod figures;
mod traces;
mod viz;
